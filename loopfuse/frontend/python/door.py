"""The Python door: an ordinary function over arrays, read into the same surface `Module` that
.lf text gives.

before:  def double(x):                          kernel double(x: f32[x_0], out y: f32[x_0]):
             y = np.empty_like(x)          after:    for i in 0..x_0:
             for i in range(len(x)):                     y[i] = 2.0 * x[i]
                 y[i] = 2.0 * x[i]
             return y

Needs the types of the arguments: annotated, or taken from a call. Places in the module are places
in the Python file. Undecorated, CPython computes the same; what it could compute otherwise
(subscripts that may be negative, locals without a value, whole arrays) is refused.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from loopfuse.base.diagnostics import UserError
from loopfuse.base.dtypes import DType
from loopfuse.frontend.python import (
    arrays as pyfunc_arrays,
)
from loopfuse.frontend.python import (
    expr as pyfunc_expr,
)
from loopfuse.frontend.python import (
    refuse as pyfunc_refuse,
)
from loopfuse.frontend.python import (
    results as pyfunc_results,
)
from loopfuse.frontend.python.context import Argument, Reader, Returned, Shared
from loopfuse.frontend.python.loops import count_in_loops, turn_continues
from loopfuse.frontend.python.names import find_webs
from loopfuse.frontend.python.read_expression import read_expression
from loopfuse.frontend.python.source import PythonSource, read_source
from loopfuse.frontend.python.stmt import read_block
from loopfuse.frontend.python.types import is_cut
from loopfuse.lang.check.calls import BUILTINS
from loopfuse.lang.surface import syntax

MAX_PASSES = 12
"""Passes until the kinds of all locals are settled; each can only widen, in a few steps."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A function read: its module, and what it returns, in the kernel's parameters; None where it
    returns nothing. `typed`: locals that start as Python numbers, and the type of what is added to them."""

    module: syntax.Module
    results: tuple[Returned, ...] | None
    returns_tuple: bool = False
    typed: tuple[tuple[str, str], ...] = ()


def read_function(
    function: Callable[..., Any],
    arguments: tuple[Argument, ...],
    equal: tuple[pyfunc_arrays.Dimensions, ...] = (),
) -> Reading:
    """`function`, for `arguments` of these types, as a module of one kernel. `equal`: groups of
    extents, each an array and a position, that are one size for the caller.

    UserError with the place in the Python file for whatever a kernel cannot hold.
    """
    python = read_source(function)
    pyfunc_refuse.parameters(python)
    turn_continues(python)
    pyfunc_refuse.foreign_parts(python, python.tree.body)
    count_in_loops(python)
    body = list(python.tree.body)
    final = pyfunc_results.final_return(body)
    if body and isinstance(body[-1], ast.Return) and final is None:
        body.pop()
    returned = {one.id for one in pyfunc_results.returned_parts(final) if isinstance(one, ast.Name)}
    stores = _count_stores(python.tree)
    known: list[Any] = []
    passes = 0
    while True:
        reader = _new_reader(python, arguments, stores, equal)
        reader.final, reader.returned = final, returned
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
        wanted = pyfunc_results.outputs(reader)
        if (kinds == known and wanted == {*reader.created}) or passes > MAX_PASSES:
            break
        known, returned = kinds, wanted
    _refuse_cut(reader)
    kernel = syntax.Kernel(
        python.name,
        _parameters(reader, arguments),
        statements,
        name_span=python.span(_name_place(python)),
        quiet=frozenset(reader.created_names & _mentioned(python.tree)),
        span=python.span(_name_place(python)),
    )
    items = (*reader.shared.constants.values(), *reader.shared.functions.values(), kernel)
    module = syntax.Module(items, python.source)
    results = tuple(reader.results) if final is not None else None
    typed = tuple(
        (web.name, web.kind.dtype.value)
        for web in reader.webs.all
        if web.gathers and web.kind and not web.kind.weak and web.start and web.start.weak and not web.kind.among
    )
    is_tuple = final is not None and isinstance(final.value, ast.Tuple)
    return Reading(module, results, is_tuple, tuple(dict.fromkeys(typed)))


def _refuse_cut(reader: Reader) -> None:
    """Refuse locals that no type holds: of u64, and Python's integers beside."""
    for web in reader.webs.all:
        if web.kind is not None and is_cut(web.kind):
            node = web.definitions[0]
            place = node.targets[0] if isinstance(node, ast.Assign) else node
            pyfunc_expr.refuse_mix(reader, (syntax.Name(web.name, span=reader.python.span(place)), web.kind))


def _mentioned(tree: ast.FunctionDef) -> set[str]:
    """Names that stand anywhere but before a subscript that is assigned to."""
    bases = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    }
    return {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in bases
    }


def _new_reader(
    python: PythonSource,
    arguments: tuple[Argument, ...],
    stores: Counter[str],
    equal: tuple[pyfunc_arrays.Dimensions, ...],
) -> Reader:
    shared = Shared()
    shared.taken |= {*BUILTINS, *stores, python.name}
    shared.reading = (id(python.function),)
    reader = Reader(python, shared, read_expression)
    reader.locals = {*stores, *python.declared}
    pyfunc_arrays.declare_arguments(reader, arguments, stores, equal)
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


# --------------------------------------------------------------------------------- parameters


def _parameters(
    reader: Reader, arguments: tuple[Argument, ...]
) -> tuple[syntax.Param, ...]:
    """The kernel's parameters: the function's, then what it returns. What the function writes is
    `inout` unless its annotation says `Out`."""
    nodes = {one.arg: one for one in ast.walk(reader.python.tree.args) if isinstance(one, ast.arg)}
    arrays = {array.name: array for array in reader.arrays.values()}
    # A shape or a result is a use, too.
    used = {
        node.id
        for stmt in reader.python.tree.body
        for node in ast.walk(stmt)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    params: list[syntax.Param] = []
    for argument in arguments:
        span = reader.python.span(nodes[argument.name])
        if argument.rank is None:
            quiet = argument.name in used
            weak = argument.weak and argument.dtype is not DType.BOOL
            params.append(
                syntax.Param(argument.name, argument.dtype, weak=weak, span=span, quiet=quiet)
            )
            continue
        array = arrays[argument.name]
        mode = argument.mode or ("inout" if array.written else "in")
        quiet = array.name in used
        params.append(
            syntax.Param(array.name, array.dtype, array.extents, mode, span=span, quiet=quiet)
        )
    for name in pyfunc_results.in_order(reader):
        array = reader.created[name]
        span = reader.python.span(array.node)
        params.append(syntax.Param(name, array.dtype, array.extents, "out", span=span, quiet=True))
    return tuple(params)


def _name_place(python: PythonSource) -> ast.AST:
    """Where the function's name stands in its definition."""
    marker = ast.Pass()
    marker.lineno = marker.end_lineno = python.tree.lineno
    marker.col_offset = python.tree.col_offset + len("def ")
    marker.end_col_offset = marker.col_offset + len(python.name.encode("utf-8"))
    return marker


__all__ = ["Argument", "Reading", "read_function"]
