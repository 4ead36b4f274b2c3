"""Reads what a loop of a Python kernel counts: `range(...)`, or a parallel range."""

from __future__ import annotations

import ast
from typing import Any, NoReturn

from loopfuse.base import annotations
from loopfuse.frontend.python import expr as pyfunc_expr
from loopfuse.frontend.python import vocabulary as words
from loopfuse.frontend.python.context import Reader
from loopfuse.frontend.python.expr import whole_number
from loopfuse.frontend.python.source import MISSING
from loopfuse.lang.surface import syntax


def read_range(reader: Reader, stmt: ast.For) -> tuple[syntax.Range, bool]:
    """What a loop counts, and whether it says that it is parallel."""
    python, source = reader.python, stmt.iter
    if not isinstance(stmt.target, ast.Name):
        _refuse_range(reader, stmt)
    name = stmt.target.id
    _check_iterator(reader, stmt, stmt.target)
    function: Any = MISSING
    if isinstance(source, ast.Call):
        function = pyfunc_expr.resolve(reader, source.func)
    parallel = function is annotations.prange or (
        getattr(function, "__name__", "") == "prange"
        and (getattr(function, "__module__", "") or "").startswith("numba")
    )
    if not isinstance(source, ast.Call) or not (function is range or parallel):
        _refuse_range(reader, stmt)
    if not 1 <= len(source.args) <= 3 or source.keywords or any(
        isinstance(part, ast.Starred) for part in source.args
    ):
        python.refuse(
            "range-arguments",
            f"`{python.text(source)}` needs one to three numbers",
            source,
            "write `range(n)`, `range(a, b)` or `range(a, b, step)`",
        )
    numbers = [whole_number(reader, part, "bound") for part in source.args]
    place = python.span(stmt.target).to(python.span(source))
    lower = numbers[0] if len(numbers) > 1 else syntax.Number(0, span=python.span(source))
    upper = numbers[1] if len(numbers) > 1 else numbers[0]
    step = numbers[2] if len(numbers) == 3 else None
    with reader.inner():
        spoken = reader.declare(name)
    return syntax.Range(spoken, lower, upper, step, span=place), parallel


def _refuse_range(reader: Reader, stmt: ast.For) -> NoReturn:
    """Refuse what a loop goes over, with the range that counts the same turns."""
    python, source = reader.python, stmt.iter
    function = pyfunc_expr.resolve(reader, source.func) if isinstance(source, ast.Call) else MISSING
    inside = words.lookup(words.LOOPS, function) if function is not MISSING else None
    inner: ast.expr = source
    while isinstance(inner, ast.Call) and inner.args:
        inner = inner.args[0]
    bounds, name = "n", "x"
    match inner:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Slice(lower=lower, upper=upper, step=None)):
            ends = [python.text(end) if end is not None else "" for end in (lower, upper)]
            first, last = (f"len({name}) - {end[1:]}" if end[:1] == "-" else end for end in ends)
            last = last or f"len({name})"
            bounds = f"{first}, {last}" if first else last
        case ast.Name(id=name):
            bounds = f"len({name})"
        case ast.Attribute(attr="shape", value=ast.Name(id=name)) if inside:
            inside = inside.replace("x.shape", f"{name}.shape")
        case _:
            pass
    counted = f"`for i in range({bounds}):`" + (f", and `{name}[i]`" if bounds != "n" else "")
    python.refuse(
        "loop-over-elements",
        f"a loop cannot go over `{python.text(source)}`: it counts with `range`, or goes over arrays by name",
        source,
        f"write {inside if bounds == 'n' and inside else counted}",
    )


def _check_iterator(reader: Reader, stmt: ast.For, target: ast.Name) -> None:
    name = target.id
    taken = (
        "already counts an outer loop"
        if name in reader.iterators
        else "is an array"
        if name in reader.arrays
        else "is a parameter"
        if name in reader.scalars
        else "is a local or a size"
        if name in reader.values
        else ""
    )
    if taken:
        reader.python.refuse(
            "iterator-taken",
            f"`{name}` {taken}",
            target,
            f"use another name for the iterator, such as `{name}2`",
        )
