"""How the points of a group share memory with their loops: which of them neighbours in memory are."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence

from loopfuse.lang.linear import are_neighbours, constant_value
from loopfuse.lang.nodes import Load
from loopfuse.lang.walk import iterators, walk_expr
from loopfuse.plan.strategies.rows import sizes
from loopfuse.plan.strategies.rows.body import COLUMN, Body, Pass
from loopfuse.tree.walk import node_expressions, walk_nodes

NARROW = 8
"""So few places of an innermost loop, or columns, are too few for the threads of a warp."""


class Way(enum.Enum):
    """What neighbouring threads have."""

    ROWS = "neighbouring places of a row"
    NESTS = "the same, where each point has several loops"
    COLUMNS = "neighbouring points"


def way_of(body: Body, dims: Sequence[str]) -> Way | None:
    """The way to run what is done at the points of dimensions `dims`, neighbours in memory last; None where memory
    suits none, or rows have no places of their own. (Where rows share them, as the operands of a product do, a thread that
    has several rows reads less.)"""
    if not any(frozenset(dims) <= _named(load) for one in body.passes for load in _loads(one) if COLUMN in _named(load)):
        return None
    every = [load.index for one in body.passes for load in _loads(one)]
    length = constant_value(body.length)
    if all(are_neighbours(index, COLUMN) for index in every):
        if not body.has_nests:
            return Way.ROWS if length is None or length > sizes.SHORT else None
        return Way.NESTS if _is_apart(body, dims) and (length is None or length >= NARROW) else None
    if not all(are_neighbours(index, dims[-1]) for index in every) or not _is_apart(body, dims):
        return None
    return Way.COLUMNS if body.has_nests or length is None or length > sizes.SHORT else None


def _loads(one: Pass) -> Iterator[Load]:
    for node in walk_nodes(one.nodes):
        for expr in node_expressions(node):
            yield from (each for each in walk_expr(expr) if isinstance(each, Load))


def _named(load: Load) -> frozenset[str]:
    return frozenset().union(*map(iterators, load.index))


def _is_apart(body: Body, dims: Sequence[str]) -> bool:
    """Does each subscript go with one loop at most? (Of windows that overlap, a thread a point reads less.)"""
    for one in body.passes:
        own = one.vars | {*dims}
        if any(len(own & iterators(part)) > 1 for load in _loads(one) for part in load.index):
            return False
    return True
