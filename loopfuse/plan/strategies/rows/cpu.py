"""Rows on a CPU: a row is one worker's, and a reduction along it runs in lanes (`plan.mapping.lanes`). Of a pass of several
loops those around stand around the lanes' turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter, Load
from loopfuse.lang.walk import moved_to, substitute
from loopfuse.plan.mapping.body import Names
from loopfuse.plan.mapping.lanes import in_lanes
from loopfuse.plan.strategies.rows.body import (
    COLUMN,
    Body,
    Pass,
    own_registers,
)
from loopfuse.tree.looptree import Guard, Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import map_expressions, walk_nodes


def has_lanes(body: Body) -> bool:
    """Is there a reduction to run in lanes? Guards inside are left to loops that can be split by them."""
    reduced = [one for one in body.passes if one.updates]
    return bool(reduced) and not any(
        isinstance(node, Guard) for one in body.passes for node in walk_nodes(one.nodes)
    )


def lane_nodes(body: Body, names: Names) -> tuple[TreeNode, ...]:
    """What a worker runs for its row."""
    own = own_registers(body, names)
    out: list[TreeNode] = []
    for step in body.steps:
        if isinstance(step, Pass):
            out += _reduced(step, own, names)
        else:
            out += map_expressions((step,), lambda expr: moved_to(expr, own))
    return tuple(out)


def _reduced(one: Pass, own: Mapping[Load, Load], names: Names) -> list[TreeNode]:
    """A pass, its updates in lanes."""
    around = {each.var: names.fresh("o") for each in one.outer}

    def at(place: Expr, cells: Mapping[Load, Load]) -> tuple[TreeNode, ...]:
        def change(expr: Expr) -> Expr:
            return moved_to(tidy(substitute(moved_to(expr, cells), {COLUMN: place})), own)

        return map_expressions(one.nodes, change)

    def inside(nodes: Sequence[TreeNode]) -> list[TreeNode]:
        """The nodes inside the loops around."""
        values = {var: Iter(name) for var, name in around.items()}
        made = map_expressions(nodes, lambda expr: substitute(expr, values))
        for each in reversed(one.outer):
            made = (Loop(around[each.var], each.lower, each.upper, 1, Where.SERIAL, made),)
        return [*made]

    if not one.updates:
        var = names.fresh("c")
        return inside([Loop(var, one.lower, one.upper, 1, Where.SERIAL, at(Iter(var), {}))])
    return in_lanes(one.updates, one.lower, one.upper, at, names, inside, lambda target: own.get(target, target))
