"""Reads subscripts: elements of arrays in both spellings, shapes, and edges."""

from __future__ import annotations

import ast

import numpy as np

from loopfuse.frontend.python import (
    exchange as pyfunc_exchange,
)
from loopfuse.frontend.python import (
    expr as pyfunc_expr,
)
from loopfuse.frontend.python import (
    tables as pyfunc_tables,
)
from loopfuse.frontend.python.context import Array, Reader, Typed
from loopfuse.frontend.python.source import MISSING, PythonSource
from loopfuse.frontend.python.types import WEAK_INT, Kind, literal
from loopfuse.frontend.python.vocabulary import EDGES, PYTHON_EXTREMES, lookup
from loopfuse.lang.surface import syntax


def parts_of(node: ast.Subscript) -> tuple[ast.expr, list[ast.expr]]:
    """What is subscripted, and all subscripts: `a[i][j, k]` is `a` with three."""
    parts: list[ast.expr] = []
    base: ast.expr = node
    while isinstance(base, ast.Subscript):
        index = base.slice
        parts = [*(index.elts if isinstance(index, ast.Tuple) else [index]), *parts]
        base = base.value
    return base, parts


def read_subscript(reader: Reader, node: ast.Subscript) -> Typed:
    """An element of an array, an extent from a shape, or an element of a table."""
    base, parts = parts_of(node)
    python = reader.python
    match base:
        case ast.Attribute(attr="shape", value=ast.Name(id=name)) if name in reader.arrays:
            return shape_part(reader, node, reader.arrays[name], parts)
        case _:
            pass
    if isinstance(base, ast.Name) and base.id in reader.arrays:
        array = reader.arrays[base.id]
        return element(reader, node, array, parts, reading=True), Kind(array.dtype)
    table = pyfunc_expr.resolve(reader, base)
    if isinstance(table, (tuple, list, np.ndarray)):
        return pyfunc_tables.table_element(reader, node, base, table, parts)
    if isinstance(base, (ast.Name, ast.Attribute)) and table is not MISSING:
        pyfunc_expr.outer_value(reader, base, table)
    if isinstance(base, ast.Name):
        expr, _ = pyfunc_expr.read_name(reader, base)
        python.refuse(
            "number-subscript",
            f"`{base.id}` is a number, which has no elements",
            expr.span,
            f"write `{base.id}` alone, or pass it as an array",
        )
    python.refuse(
        "unknown-subscript",
        f"`{python.text(base)}` has no elements in a kernel",
        node,
        "subscript arrays and tables by their names",
    )


def shape_part(reader: Reader, node: ast.expr, array: Array, parts: list[ast.expr]) -> Typed:
    """`x.shape[k]`, for a constant k (a negative one counts from the end)."""
    try:
        position = ast.literal_eval(parts[0])
    except ValueError:
        position = None
    rank = len(array.extents)
    if len(parts) != 1 or type(position) is not int or not -rank <= position < rank:
        reader.python.refuse(
            "shape-index",
            f"`{reader.python.text(node)}` is no extent of `{array.name}`, which has {rank}",
            node,
            f"use a number from 0 to {rank - 1}" if rank > 1 else "use `0`",
        )
    extent = array.extents[position]
    kind = literal(extent.value) if isinstance(extent, syntax.Number) else WEAK_INT
    return extent, kind


def element(
    reader: Reader, node: ast.Subscript, array: Array, parts: list[ast.expr], *, reading: bool
) -> syntax.Subscript:
    """`a[i, j]`, with an edge mode where the subscripts spell one."""
    python = reader.python
    pyfunc_exchange.refuse_turned(reader, array, node)
    if id(node) in python.turns and len(array.extents) > 1:
        rest = ", ".join("jklmnpq"[k % 7] for k in range(len(array.extents) - 1))
        python.refuse(
            "loop-over-elements",
            f"`{array.name}` has {len(array.extents)} dimensions: this loop would go over its rows",
            node,
            f"write `for i in range(len({array.name})):`, and `{array.name}[i, {rest}]` for elements",
        )
    for position in range(len(parts)):
        _refuse_part(reader, node, array, parts, position)
    if len(parts) < len(array.extents):
        names = [python.text(part) for part in parts]
        names += ["jklmnpq"[k % 7] for k in range(len(array.extents) - len(parts))]
        python.refuse(
            "row-access",
            f"`{python.text(node)}` is a part of `{array.name}`, not an element",
            node,
            f"give all {len(array.extents)} subscripts: `{array.name}[{', '.join(names)}]`",
        )
    base: ast.expr = node
    while isinstance(base, ast.Subscript):
        base = base.value
    place = python.span(base)
    span = python.span(node)
    edges = [_edge(reader, part) for part in parts]
    modes = {edge[0] for edge in edges if edge is not None}
    if modes and len(parts) == len(array.extents):
        mode = modes.pop()
        plain = [
            edge[1] if edge else pyfunc_expr.whole_number(reader, part, "subscript")
            for edge, part in zip(edges, parts)
        ]
        fits = all(
            edge[2] == extent if edge else _inside(reader, index, extent)
            for edge, index, extent in zip(edges, plain, array.extents)
        )
        if reading and not modes and fits:
            return syntax.Subscript(array.name, tuple(plain), mode, span=span, array_span=place)
        for edge, part in zip(edges, parts):
            if edge is not None and edge[0] in ("reflect", "symmetric"):
                python.refuse(
                    "edge-mixed",
                    f"`{edge[0]}` here does not fold at the edge of `{array.name}`",
                    part,
                    f"fold by that dimension's extent: `{edge[0]}(i, {array.name}.shape[0])`, "
                    "with one kind of edge in an access and every other subscript the iterator "
                    "of a loop over its whole dimension",
                )
    index = tuple(pyfunc_expr.whole_number(reader, part, "subscript") for part in parts)
    # A subscript too many is told of later.
    ends = (*array.extents, *([None] * (len(index) - len(array.extents))))
    index = tuple(map(pyfunc_tables.from_the_end, index, ends))
    return syntax.Subscript(array.name, index, span=span, array_span=place)


def _refuse_part(
    reader: Reader, node: ast.Subscript, array: Array, parts: list[ast.expr], position: int
) -> None:
    python, part = reader.python, parts[position]
    match part:
        case ast.Slice():
            base, _ = parts_of(node)
            name = python.text(base)
            used = {*reader.iterators, *reader.locals, *reader.arrays, *reader.scalars, *reader.values}
            counter = next((one for one in "ijklmnpq" if one not in used), "i2")
            rank = len(array.extents)
            extent = f"len({name})" if rank == 1 else f"{name}.shape[{position}]"
            ends = [_end(python, part.lower, extent), _end(python, part.upper, extent) or extent]
            if part.step is not None:
                ends = [ends[0] or "0", ends[1], python.text(part.step)]
            bounds = ", ".join(end for end in ends if end)
            given = [counter if k == position else python.text(one) for k, one in enumerate(parts)]
            python.refuse(
                "slice",
                "slices are not compiled yet",
                part,
                f"loop over the elements: `for {counter} in range({bounds}):`, and `{name}[{', '.join(given)}]`",
            )
        case ast.Constant(value=value) if not isinstance(value, (int, float)):
            python.refuse(
                "slice",
                f"`{python.text(part)}` makes an array, not an element",
                part,
                f"give one integer for each dimension of `{array.name}`",
            )
        case _:
            return


def _end(python: PythonSource, end: ast.expr | None, extent: str) -> str:
    """A slice's end as a loop's: one below zero counts from the array's end."""
    match end:
        case None:
            return ""
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return f"{extent} - {python.text(operand)}"
        case _:
            return python.text(end)


def _edge(reader: Reader, part: ast.expr) -> tuple[str, syntax.Expr, syntax.Expr] | None:
    """(mode, index, extent) of `loopfuse.clamp(e, n)` and of `min(max(e, 0), n - 1)`."""
    if not isinstance(part, ast.Call) or len(part.args) != 2 or part.keywords:
        return None
    found = pyfunc_expr.resolve(reader, part.func)
    mode = lookup(EDGES, found)
    if mode is not None:
        index = pyfunc_expr.whole_number(reader, part.args[0], "subscript")
        return mode, index, pyfunc_expr.whole_number(reader, part.args[1], "extent")
    if lookup(PYTHON_EXTREMES, found) != "min":
        return None
    inner, last = part.args
    if not isinstance(inner, ast.Call) or len(inner.args) != 2 or inner.keywords:
        inner, last = last, inner
    if not isinstance(inner, ast.Call) or len(inner.args) != 2 or inner.keywords:
        return None
    if lookup(PYTHON_EXTREMES, pyfunc_expr.resolve(reader, inner.func)) != "max":
        return None
    index, zero = inner.args
    if isinstance(index, ast.Constant):
        index, zero = zero, index
    if not isinstance(zero, ast.Constant) or zero.value != 0 or isinstance(zero.value, bool):
        return None
    end = pyfunc_expr.whole_number(reader, last, "subscript")
    match end:
        case syntax.Binary(op="-", left=extent, right=syntax.Number(value=1)):
            return "clamp", pyfunc_expr.whole_number(reader, index, "subscript"), extent
        case _:
            return None


def _inside(reader: Reader, index: syntax.Expr, extent: syntax.Expr) -> bool:
    """`index` is the iterator of a loop over exactly 0..extent."""
    if not isinstance(index, syntax.Name) or index.name not in reader.iterators:
        return False
    bounds = reader.iterators[index.name]
    return bounds.lower == syntax.Number(0) and bounds.upper == extent and bounds.step is None
