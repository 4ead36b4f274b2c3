"""Numbers that fit: makes the arrays that a program uses as subscripts and bounds point inside.

Random integers would be outside most of the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from loopfuse.lang import nodes
from loopfuse.lang.index import evaluate_index, is_checked
from loopfuse.lang.walk import expressions, iterators, loads, walk_expr, walk_stmts


def fit_indices(
    kernel: nodes.Kernel, arguments: dict[str, Any], values: Mapping[str, int], seed: int = 1
) -> None:
    """Replace integer arrays that stand in subscripts by random numbers inside the dimension, and
    those that are bounds of loops by rising numbers inside what the loops subscript. `values` are
    the sizes and integer parameters."""
    rng = np.random.default_rng(seed)
    limits: dict[str, int] = {}
    rows: dict[str, int] = {}
    bounds = _bound_arrays(kernel)
    scalars = _scalar_arrays(kernel)
    for subscript in _checked(kernel):
        inside, extent = subscript.arguments[0], evaluate_index(subscript.arguments[1], values)
        for load in loads(inside):
            for name in [load.array] if load.index else scalars.get(load.array, []):
                limits[name] = min(extent, limits.get(name, extent))
        for iterator in iterators(inside):
            for name in bounds.get(iterator, ()):
                rows[name] = min(extent, rows.get(name, extent))
    for name, extent in limits.items():
        array = arguments.get(name)
        if isinstance(array, np.ndarray) and array.dtype.kind in "iu":
            drawn = rng.integers(0, max(1, extent), array.shape)
            arguments[name] = drawn.astype(array.dtype)
    for name, extent in rows.items():
        array = arguments[name]
        drawn = np.sort(rng.integers(0, extent + 1, array.size))
        arguments[name] = drawn.reshape(array.shape).astype(array.dtype)


def _expressions(kernel: nodes.Kernel) -> Iterator[nodes.Expr]:
    for stmt in walk_stmts(kernel.body):
        for expr in expressions(stmt):
            yield from walk_expr(expr)


def _checked(kernel: nodes.Kernel) -> Iterator[nodes.Call]:
    """Every subscript that is checked when it runs (or folded by an edge mode)."""
    extents = {param.name: param.extents for param in kernel.arrays}
    for expr in _expressions(kernel):
        if isinstance(expr, nodes.Load):
            for position, part in enumerate(expr.index):
                if is_checked(part):
                    yield part
                elif expr.mode and loads(part) and expr.array in extents:
                    yield nodes.Call("inside", (part, extents[expr.array][position]), part.dtype)


def _scalar_arrays(kernel: nodes.Kernel) -> dict[str, list[str]]:
    """By scalar: the arrays that it is read from."""
    found: dict[str, list[str]] = {}
    for stmt in walk_stmts(kernel.body):
        match stmt:
            case nodes.Define(name=name, value=value):
                pass
            case nodes.Store(target=nodes.Load(array=name, index=()), value=value):
                pass
            case _:
                continue
        found.setdefault(name, []).extend(load.array for load in loads(value) if load.index)
    return found


def _bound_arrays(kernel: nodes.Kernel) -> dict[str, list[str]]:
    """By iterator: the arrays that its loop's bounds are read from."""
    scalars = _scalar_arrays(kernel)
    found: dict[str, list[str]] = {}
    for stmt in walk_stmts(kernel.body):
        for each in (stmt,) if isinstance(stmt, nodes.For) else getattr(stmt, "ranges", ()):
            for bound in (each.lower, each.upper):
                for load in loads(bound):
                    found.setdefault(each.iterator, []).extend(scalars.get(load.array, []))
    return found
