"""Rows on a CPU: a row is one worker's, and a reduction along it runs in lanes, as vectors do.

Place `k` of a row goes to accumulator `k % LANES`, so that neighbouring places are one vector and no sum waits for
the one before; what is left over at the end goes to the first. Then the accumulators are put together in order.
How many there are is one number for all machines and all sizes, and with it the order of a sum.

    for l: m_lane[l] = -inf
    for k in 0..C // LANES: for l: m_lane[l] = max(m_lane[l], x[r, k * LANES + l])
    for c in C // LANES * LANES..C: m_lane[0] = max(m_lane[0], x[r, c])
    for l from 1 on: m_lane[0] = max(m_lane[0], m_lane[l])
    m = m_lane[0]

Of a pass of several loops those around stand around the second and the third of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Const, Expr, Iter, Load, combine, integer
from loopfuse.lang.semantics import neutral
from loopfuse.lang.walk import moved_to, substitute
from loopfuse.plan.mapping.body import Names
from loopfuse.plan.strategies.rows.body import (
    COLUMN,
    Body,
    Pass,
    own_registers,
)
from loopfuse.tree.looptree import Copy, Fold, Guard, Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.rewrite.independent import independent_parts
from loopfuse.tree.walk import map_expressions, walk_nodes

LANES = 16
"""Accumulators of a reduction: two vectors of f32 on most machines, so that an addition need not wait."""


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
    lanes: dict[Load, Load] = {}
    for update in one.updates:
        target = update.target
        lanes[target] = names.register(f"{target.array}_lane", target, LANES)

    def at(place: Expr, lane: Expr | None, keep: tuple[int, ...] | None = None) -> tuple[TreeNode, ...]:
        cells = {
            target: Load(cell.array, (lane,), cell.dtype) for target, cell in lanes.items() if lane is not None
        }

        def change(expr: Expr) -> Expr:
            return moved_to(tidy(substitute(moved_to(expr, cells), {COLUMN: place})), own)

        nodes = map_expressions(one.nodes, change)
        return nodes if keep is None else tuple(nodes[number] for number in keep)

    def loop(lower: Expr, upper: Expr, mapping: Where, body: Callable[[Expr], tuple[TreeNode, ...]]) -> Loop:
        var = names.fresh("l" if mapping is Where.UNROLLED else "c")
        return Loop(var, lower, upper, 1, mapping, body(Iter(var)))

    own_vars = {each.var: names.fresh("o") for each in one.outer}

    def inside(nodes: Sequence[TreeNode]) -> list[TreeNode]:
        """The nodes inside the loops around."""
        made = map_expressions(nodes, lambda expr: substitute(expr, {var: Iter(new) for var, new in own_vars.items()}))
        for each in reversed(one.outer):
            made = (Loop(own_vars[each.var], each.lower, each.upper, 1, Where.SERIAL, made),)
        return [*made]

    if not lanes:
        return inside([loop(one.lower, one.upper, Where.SERIAL, lambda c: at(c, None))])
    zero, size = integer(0), integer(LANES)
    # No places at all may be fewer than none: `2..N-2` of two.
    rounds = combine("max", zero, one.length) // size
    out: list[TreeNode] = [
        loop(zero, size, Where.UNROLLED, lambda lane, u=u: (_cleared(lanes[u.target], lane, u.op),))
        for u in one.updates
    ]

    def turns(keep: tuple[int, ...] | None) -> Loop:
        def turn(number: Expr) -> tuple[TreeNode, ...]:
            first = one.lower + number * size
            return (
                loop(zero, size, Where.UNROLLED, lambda lane: at(tidy(first + lane), lane, keep)),
            )

        return loop(zero, rounds, Where.SERIAL, turn)

    parts = independent_parts(at(Iter(COLUMN), zero))
    whole = [turns(None)] if len(parts) == 1 else [turns(part) for part in parts]
    start = tidy(one.lower + rounds * size)
    out += inside([*whole, loop(start, one.upper, Where.SERIAL, lambda c: at(c, zero))])
    for update in one.updates:
        target, cell = update.target, lanes[update.target]
        total = Load(cell.array, (zero,), cell.dtype)

        def folded(lane: Expr, op: str = update.op, cell: Load = cell, total: Load = total) -> tuple[TreeNode, ...]:
            return (Fold(op, total, Load(cell.array, (lane,), cell.dtype)),)

        out.append(loop(integer(1), size, Where.UNROLLED, folded))
        place = own.get(target, target)
        out.append(Copy(place, total) if update.whole else Fold(update.op, place, total))
    return out


def _cleared(cell: Load, lane: Expr, op: str) -> Copy:
    return Copy(Load(cell.array, (lane,), cell.dtype), Const(neutral(op, cell.dtype), cell.dtype))
