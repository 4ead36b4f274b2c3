"""Columns that are no dimension of the group: a loop of their own in each part of what a row runs.

before:  for j: C[i, j] = 0;  for k: { v = A[i, k]; for j: C[i, j] += v * B[k, j] }
after:   for j: { C[i, j] = 0;  for k: { v = A[i, k]; C[i, j] += v * B[k, j] } }

Needs the same bounds for all of them, and that whatever a row writes it touches at one place for each column: then
no column needs what another has, and each runs its parts in the order in which they stand. Registers that are made for
all columns at once (`v`) are made for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from loopfuse.lang.linear import linear, tidy
from loopfuse.lang.nodes import Expr, Iter, Load
from loopfuse.lang.walk import iterators, loads, substitute
from loopfuse.plan.mapping.space import Extent
from loopfuse.tree.looptree import Compute, Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import map_expressions, node_expressions, walk_nodes

COLUMNS = "@columns"
"""The variable that stands for the column."""


@dataclass(frozen=True, slots=True)
class Columns:
    """What a row runs for each column from `extent.lower` to before `extent.upper`."""

    nodes: tuple[TreeNode, ...]
    extent: Extent


def find_columns(nodes: Sequence[TreeNode]) -> Columns | None:
    """The columns of what a row runs; None where its parts are no loops over the same ones."""
    found = [_one(node) for node in nodes]
    parts = [each for each in found if each is not None]
    if not parts or len(parts) < len(found):
        return None
    ends = {(part.extent.lower, part.extent.upper) for part in parts}
    inside = tuple(node for part in parts for node in part.nodes)
    if len(ends) > 1 or not _are_apart(inside):
        return None
    return Columns(inside, parts[0].extent)


def _one(node: TreeNode) -> Columns | None:
    """The columns of one part: a loop over them, or loops around one."""
    if not isinstance(node, Loop) or node.mapping is not Where.SERIAL or node.step != 1:
        return None
    if loads(node.lower) or loads(node.upper):
        return None
    targets = [each.target for each in walk_nodes(node.body) if isinstance(each, Compute)]
    if all(any(node.var in iterators(part) for part in target.index) for target in targets if target.index):
        inside = map_expressions(node.body, lambda expr: tidy(substitute(expr, {node.var: Iter(COLUMNS)})))
        return Columns(inside, Extent(tidy(node.lower), tidy(node.upper), 1))
    *made, last = node.body
    if not all(isinstance(each, Compute) and not each.target.index for each in made):
        return None
    found = _one(last)
    if found is None or node.var in iterators(found.extent.lower) | iterators(found.extent.upper):
        return None
    return replace(found, nodes=(replace(node, body=(*made, *found.nodes)),))


def _are_apart(nodes: Sequence[TreeNode]) -> bool:
    """Is what is written touched at one place, another one for each column?"""
    places: dict[str, set[tuple[Expr, ...]]] = {}
    written: dict[str, Load] = {}
    for node in walk_nodes(tuple(nodes)):
        for expr in node_expressions(node):
            for load in loads(expr):
                places.setdefault(load.array, set()).add(load.index)
        if isinstance(node, Compute) and node.target.index:
            written[node.target.array] = node.target
    return all(
        len(places[name]) == 1 and any((linear(part) or {}).get(COLUMNS) for part in target.index)
        for name, target in written.items()
    )
