"""What one thread runs of a group, and how much of it a CPU worker takes at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from loopfuse.lang.linear import are_neighbours, linear
from loopfuse.lang.nodes import Expr, Iter
from loopfuse.lang.walk import iterators, loads
from loopfuse.plan.mapping.body import BodyBuilder, Names
from loopfuse.plan.mapping.space import Extent, Site, dim_extents, known_of
from loopfuse.plan.units.groups import Group
from loopfuse.tree.looptree import TreeNode
from loopfuse.tree.price import usual_price
from loopfuse.tree.walk import node_expressions, walk_nodes

CHUNK = 4096
"""Iterations of a one-dimensional loop that a CPU worker takes at a time, at most."""

CHUNK_PRICE = 8 * CHUNK
"""What they cost, at most where there are several (`tree_price`): rows of a softmax go one by one."""

STRIP_PRICE = 1 << 26
"""What a strip costs, at most: ten milliseconds or so, where sizes are as they usually are."""

SHORTEST_STRIP = 32
"""Neighbours of a strip, at least. (Strips of 16 take twice as long over a triangular solve, of 32 to 128 the
same.)"""


def thread_body(
    group: Group, site: Site, extents: Mapping[str, Extent], point: Mapping[str, Expr]
) -> tuple[TreeNode, ...]:
    """The members of `group`, in order, at one point."""
    builder = BodyBuilder(site.program, group, dict(site.stores), site.names, dict(site.extents))
    out: list[TreeNode] = []
    for placed in group.members:
        out += builder.unit(placed, known_of(group, placed, extents), point)
    return tuple(out)


def stands_for(dim: str) -> str:
    """The variable that stands for a dimension of the group in what `symbolic_body` returns."""
    return f"@{dim}"


def symbolic_body(group: Group, site: Site) -> tuple[tuple[TreeNode, ...], Names]:
    """The same at the point that `stands_for` names, to look at; with the names that it uses, which the tree does
    not have yet."""
    trial = replace(site, names=site.names.copy())
    point: dict[str, Expr] = {dim: Iter(stands_for(dim)) for dim in group.dims}
    return thread_body(group, trial, dim_extents(group, site.program), point), trial.names


def chunk_of(body: tuple[TreeNode, ...]) -> int:
    """How many iterations of `body` a CPU worker takes at a time: a power of two."""
    fitting = max(1, CHUNK_PRICE // usual_price(body))
    return min(CHUNK, 1 << (fitting.bit_length() - 1))


def strip_of(body: tuple[TreeNode, ...], var: str, longest: int) -> int:
    """How many neighbours of `body` a CPU worker takes step by step (`plan.mapping.strips`): `longest`, or
    fewer where a few of them would be long work for one worker while others have none, or where most of what they read and
    write lies apart anyway."""
    fitting = max(1, STRIP_PRICE // usual_price(body))
    fewest = min(SHORTEST_STRIP, longest)
    return fewest if _lies_apart(body, var) else max(fewest, min(longest, 1 << (fitting.bit_length() - 1)))


def _lies_apart(body: tuple[TreeNode, ...], var: str) -> bool:
    """Are neighbours of `var` neighbours in fewer than half of the elements of arrays of several dimensions that they touch?"""
    touched = {
        load.index
        for node in walk_nodes(body)
        for expr in node_expressions(node)
        for load in loads(expr)
        if len(load.index) > 1 and var in iterators(load)
    }
    return 2 * sum(_goes_along(index, var) for index in touched) < len(touched)


def _goes_along(index: tuple[Expr, ...], var: str) -> bool:
    """Are the elements at most neighbouring values of `var` neighbours in memory? (Where a border is handled, an index
    is not linear.)"""
    known = linear(index[-1]) is not None
    return are_neighbours(index, var) if known else not any(var in iterators(part) for part in index[:-1])
