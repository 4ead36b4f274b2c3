"""The Python door: an ordinary function over arrays, read into the same surface `Module` that
.lf text gives.

before:  def double(x):                          kernel double(x: f32[x_0], out y: f32[x_0]):
             y = np.empty_like(x)          after:    for i in 0..x_0:
             for i in range(len(x)):                     y[i] = 2.0 * x[i]
                 y[i] = 2.0 * x[i]
             return y

Needs the types of the arguments: annotated, or taken from a call. Places in the module are places
in the Python file. Undecorated, CPython computes the same; what it could compute otherwise
(negative subscripts, locals without a value, whole arrays) is refused.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from loopfuse.base.diagnostics import UserError
from loopfuse.frontend import pyfunc_arrays, pyfunc_expr, pyfunc_refuse
from loopfuse.frontend.pyfunc_context import Argument, Reader, Shared
from loopfuse.frontend.pyfunc_names import find_webs
from loopfuse.frontend.pyfunc_source import PythonSource, read_source
from loopfuse.frontend.pyfunc_stmt import read_block
from loopfuse.lang import syntax
from loopfuse.lang.calls import BUILTINS

MAX_PASSES = 12
"""Passes until the kinds of all locals are settled; each can only widen, in a few steps."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A function read: its module, and what it returns: names of parameters of the kernel, where
    outputs are created arrays; None where it returns nothing."""

    module: syntax.Module
    results: tuple[str, ...] | None
    returns_tuple: bool = False


def read_function(function: Callable[..., Any], arguments: tuple[Argument, ...]) -> Reading:
    """`function`, for `arguments` of these types, as a module of one kernel.

    UserError with the place in the Python file for whatever a kernel cannot hold.
    """
    python = read_source(function)
    pyfunc_refuse.parameters(python)
    body = list(python.tree.body)
    pyfunc_refuse.foreign_parts(python, body)
    results, is_tuple = _read_return(python, body)
    if body and isinstance(body[-1], ast.Return):
        body.pop()
    stores = _count_stores(python.tree)
    known: list[Any] = []
    passes = 0
    while True:
        reader = _new_reader(python, arguments, stores, results)
        pyfunc_arrays.declare_values(reader, body, stores)
        _declare_created(reader, body)
        locals_ = reader.locals - set(reader.values) - set(reader.arrays) - set(reader.scalars)
        reader.webs = find_webs(body, locals_)
        for web, kind in zip(reader.webs.all, known):
            web.kind = kind
        _refuse_unassigned(reader)
        statements = read_block(reader, body)
        kinds = [web.kind for web in reader.webs.all]
        passes += 1
        if kinds == known or passes > MAX_PASSES:
            break
        known = kinds
    returned = _check_results(reader, results)
    kernel = syntax.Kernel(
        python.name,
        _parameters(reader, arguments, returned),
        statements,
        name_span=python.span(_name_place(python)),
        span=python.span(_name_place(python)),
    )
    items = (*reader.shared.constants.values(), *reader.shared.functions.values(), kernel)
    module = syntax.Module(items, python.source)
    return Reading(module, tuple(name for name, _ in results) if results else None, is_tuple)


def _new_reader(
    python: PythonSource,
    arguments: tuple[Argument, ...],
    stores: Counter[str],
    results: list[tuple[str, ast.expr]],
) -> Reader:
    shared = Shared()
    shared.taken |= {*BUILTINS, *stores, python.name}
    shared.reading = (id(python.function),)
    reader = Reader(python, shared)
    reader.locals = set(stores)
    reader.returned = {name: name for name, _ in results}
    pyfunc_arrays.declare_arguments(reader, arguments, stores)
    for name in [*reader.returned]:
        if name in reader.arrays:
            del reader.returned[name]
    return reader


def _count_stores(tree: ast.FunctionDef) -> Counter[str]:
    """How often each name is assigned anywhere in the function."""
    return Counter(
        node.id
        for stmt in tree.body
        for node in ast.walk(stmt)
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del))
    )


def _declare_created(reader: Reader, body: list[ast.stmt]) -> None:
    """Names that creating calls give to arrays are no numbers; `create` declares them in turn."""
    for stmt in body:
        for node in ast.walk(stmt):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                target = node.targets[0]
                if isinstance(target, ast.Name) and pyfunc_arrays.is_creation(reader, node.value):
                    reader.locals.discard(target.id)
                    reader.created_names.add(target.id)


def _refuse_unassigned(reader: Reader) -> None:
    errors: list[UserError] = []
    for name in reader.webs.unassigned:
        if name.id in reader.loop_names:
            continue  # inside its loop it is an iterator; outside, `read_name` complains
        try:
            pyfunc_expr.unassigned(reader, name)
        except UserError as error:
            errors.append(error)
    if errors:
        raise UserError(*(one for error in errors for one in error.diagnostics))


# ------------------------------------------------------------------------------------ results


def _read_return(
    python: PythonSource, body: list[ast.stmt]
) -> tuple[list[tuple[str, ast.expr]], bool]:
    """The names in the final `return`, with their places; whether it returns a tuple."""
    if not body or not isinstance(body[-1], ast.Return) or body[-1].value is None:
        return [], False
    value = body[-1].value
    if isinstance(value, ast.Constant) and value.value is None:
        return [], False
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    found: list[tuple[str, ast.expr]] = []
    for part in parts:
        if not isinstance(part, ast.Name):
            python.refuse(
                "return-value",
                f"a kernel returns arrays, not `{python.text(part)}`",
                part,
                "assign it to an element of an array (`r = np.empty(1, np.float32)`, then "
                "`r[0] = ...`), and return that",
            )
        found.append((part.id, part))
    doubled = [name for name, count in Counter(name for name, _ in found).items() if count > 1]
    if doubled:
        python.refuse(
            "return-value",
            f"`{doubled[0]}` is returned twice",
            value,
            "return each array once",
        )
    return found, isinstance(value, ast.Tuple)


def _check_results(reader: Reader, results: list[tuple[str, ast.expr]]) -> list[str]:
    """The created arrays among the results, in order; anything but an array is refused."""
    out: list[str] = []
    for name, node in results:
        array = reader.arrays.get(name)
        if array is None:
            reader.python.refuse(
                "return-value",
                f"a kernel returns arrays, and `{name}` is a number",
                node,
                f"assign it to an element of an array (`r = np.empty(1, np.float32)`, then "
                f"`r[0] = {name}`), and return that",
            )
        if name in reader.created:
            out.append(name)
    return out


def _parameters(
    reader: Reader, arguments: tuple[Argument, ...], returned: list[str]
) -> tuple[syntax.Param, ...]:
    """The kernel's parameters: the function's, then what it returns. What the function writes is
    `inout` unless its annotation says `Out`."""
    nodes = {one.arg: one for one in ast.walk(reader.python.tree.args) if isinstance(one, ast.arg)}
    params: list[syntax.Param] = []
    for argument in arguments:
        span = reader.python.span(nodes[argument.name])
        if argument.rank is None:
            params.append(
                syntax.Param(argument.name, argument.dtype, weak=argument.weak, span=span)
            )
            continue
        array = reader.arrays[argument.name]
        mode = argument.mode or ("inout" if array.written else "in")
        params.append(syntax.Param(array.name, array.dtype, array.extents, mode, span=span))
    for name in returned:
        array = reader.created[name]
        span = reader.python.span(array.node)
        params.append(syntax.Param(name, array.dtype, array.extents, "out", span=span))
    return tuple(params)


def _name_place(python: PythonSource) -> ast.AST:
    """Where the function's name stands in its definition."""
    marker = ast.Pass()
    marker.lineno = marker.end_lineno = python.tree.lineno
    marker.col_offset = python.tree.col_offset + len("def ")
    marker.end_col_offset = marker.col_offset + len(python.name.encode("utf-8"))
    return marker


__all__ = ["Argument", "Reading", "read_function"]
