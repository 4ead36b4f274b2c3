"""Scalars that only depend on parameters are written out where they are used.

before:  let scale = 1.0 / f32(N); for i in 0..N: y[i] = x[i] * scale
after:   for i in 0..N: y[i] = x[i] * (1.0 / f32(N))

They would otherwise cost a launch and a trip through memory; so would a constant that a loop names
(`let half = 0.5`), which is written out too. The operations stay the same, so do the bits. A condition
that is written out is a condition like any other: what it guards is read only where it holds.
"""

from __future__ import annotations

from dataclasses import replace

from loopfuse.lang.nodes import Assume, Define, Expr, For, Kernel, Load, Reduce, Stmt, Store
from loopfuse.lang.walk import (
    expressions,
    iterators,
    loads,
    map_expr,
    map_stmt_expressions,
    map_stmts,
    walk_expr,
    walk_stmts,
)

MOST_NODES = 200
"""Of a value that is written out: squares of squares double with each name."""


def write_out_scalars(kernel: Kernel) -> Kernel:
    """`kernel` with every parameter-only scalar substituted into its readers, and its own
    statement gone; itself where there is none. Scalars that bound a loop, or stand in an
    assumption, stay."""
    values = _values(kernel)
    if not values:
        return kernel

    def without(stmt: Stmt) -> tuple[Stmt, ...]:
        return () if isinstance(stmt, Define) and stmt.name in values else (stmt,)

    body = map_stmts(without, kernel.body)
    return replace(
        kernel, body=tuple(map_stmt_expressions(lambda expr: _substituted(expr, values), s) for s in body)
    )


def _values(kernel: Kernel) -> dict[str, Expr]:
    """What each scalar is that is written out, by its name, in text order."""
    written: dict[str, int] = {}
    kept: set[str] = set()
    for stmt in walk_stmts(kernel.body):
        match stmt:
            case Store(target=target):
                written[target.array] = written.get(target.array, 0) + 1
            case For(lower=lower, upper=upper):
                kept |= {load.array for bound in (lower, upper) for load in loads(bound)}
            case Reduce(ranges=ranges):
                kept |= {load.array for r in ranges for bound in (r.lower, r.upper) for load in loads(bound)}
            case Assume():
                kept |= {load.array for expr in expressions(stmt) for load in loads(expr)}
            case _:
                pass
    values: dict[str, Expr] = {}
    for stmt in walk_stmts(kernel.body):
        if isinstance(stmt, Define) and stmt.name not in kept and not written.get(stmt.name):
            if iterators(stmt.value) or any(load.array not in values for load in loads(stmt.value)):
                continue
            value = _substituted(stmt.value, values)
            if sum(1 for _ in walk_expr(value)) <= MOST_NODES:
                values[stmt.name] = value
    return values


def _substituted(expr: Expr, values: dict[str, Expr]) -> Expr:
    def one(node: Expr) -> Expr:
        return values.get(node.array, node) if isinstance(node, Load) else node

    return map_expr(one, expr)
