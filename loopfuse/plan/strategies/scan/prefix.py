"""Running values of neighbours at once, in the lanes of a vector: each lane's own element, and then in a few steps
what the lanes before it have.

    for k:                                       NEIGHBOURS iterations at a time
        s[NEIGHBOURS + l] = x[k * NEIGHBOURS + l]              for all lanes l; s[..NEIGHBOURS] holds the neutral element
        for d in 1, 2, 4:                            after each, lane l has what 2 * d lanes up to it add
            t[l] = s[NEIGHBOURS + l - d];  s[NEIGHBOURS + l] = s[NEIGHBOURS + l] + t[l]
        y[k * NEIGHBOURS + l] = run + s[NEIGHBOURS + l];  run = run + s[2 * NEIGHBOURS - 1]

One addition waits for the one before once in NEIGHBOURS iterations. (Hillis and Steele, Data parallel algorithms, 1986.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopfuse.lang.linear import linear, tidy
from loopfuse.lang.nodes import Expr, Iter, Load, integer
from loopfuse.lang.walk import iterators, loads
from loopfuse.plan.strategies.scan.body import PLACE, Body
from loopfuse.plan.strategies.scan.launches import LaunchWriter, at_place, cell, cleared, folded
from loopfuse.tree.looptree import Compute, Copy, Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import node_expressions

NEIGHBOURS = 8
"""Neighbours at once. (The double of it is the longest vector that a tree has.)"""


def has_lanes(body: Body) -> bool:
    """Can neighbours of the loop be lanes? They touch neighbours in memory, or one place, and ask for nothing."""
    if body.step != 1 or not all(isinstance(node, Compute) and node.predicate is None for node in body.each):
        return False
    if any(a.is_linear or not a.place.dtype.is_float for a in body.accumulators):
        return False
    touched = {load for node in body.each for expr in node_expressions(node) for load in loads(expr)}
    return all(map(_is_along, touched))


def _is_along(load: Load) -> bool:
    """Do iterations touch neighbours, in their order, or one place?"""
    if any(map(loads, load.index)) or any(PLACE in iterators(part) for part in load.index[:-1]):
        return False
    if not load.index or PLACE not in iterators(load.index[-1]):
        return True
    terms = linear(load.index[-1])
    return terms is not None and terms.get(Iter(PLACE).name, 0) == 1


def running(
    writer: LaunchWriter,
    body: Body,
    own: Mapping[Load, Load],
    run: Mapping[Load, Load],
    low: Expr,
    high: Expr,
    count: Expr,
) -> list[TreeNode]:
    """The iterations from `low` to before `high`, `count` of them, with what stands before them in
    `run`, and then what stands behind them: NEIGHBOURS neighbours at a time, then what is left."""
    names = writer.names
    held = writer.registers(body, "near", 2 * NEIGHBOURS)
    updates = [next(number for number, node in enumerate(body.each) if _updates(node, place)) for place in run]
    kinds = {place: _asked(body.each, place, number) for place, number in zip(run, updates, strict=True)}
    turn, rest = names.fresh("k"), names.fresh(body.hint)

    def vector(make: Sequence[TreeNode], lane: str, lanes: int = NEIGHBOURS) -> Loop:
        return Loop(lane, integer(0), integer(lanes), 1, Where.VECTOR, tuple(make))

    def place(lane: str) -> Expr:
        return tidy(low + Iter(turn) * NEIGHBOURS + Iter(lane))

    nodes: list[TreeNode] = []
    for a in body.accumulators:
        lane = names.fresh("l")
        nodes.append(vector([cleared(a, cell(held[a.place], Iter(lane)))], lane, 2 * NEIGHBOURS))
    lane = names.fresh("l")
    cells = {**own, **{place: cell(each, Iter(lane) + NEIGHBOURS) for place, each in held.items()}}
    nodes.append(vector(at_place(body.feeding, place(lane), cells), lane))
    distance = 1
    while distance < NEIGHBOURS:
        for a in body.accumulators:
            before = writer.register_of(a, "before", NEIGHBOURS)
            one, other = names.fresh("l"), names.fresh("l")
            taken = Copy(cell(before, Iter(one)), cell(held[a.place], tidy(Iter(one) + (NEIGHBOURS - distance))))
            added = folded(a, cell(held[a.place], Iter(other) + NEIGHBOURS), cell(before, Iter(other)))
            nodes += [vector([taken], one), vector([added], other)]
        distance *= 2
    asked: dict[tuple[Load, int], Load] = {}
    for a in body.accumulators:
        for inclusive in sorted(kinds[a.place]):
            value = asked[a.place, inclusive] = writer.register_of(a, "run", NEIGHBOURS)
            one, other = names.fresh("l"), names.fresh("l")
            start = Copy(cell(value, Iter(one)), run[a.place])
            added = folded(a, cell(value, Iter(other)), cell(held[a.place], tidy(Iter(other) + (NEIGHBOURS - 1 + inclusive))))
            nodes += [vector([start], one), vector([added], other)]
    lane = names.fresh("l")
    inside: list[TreeNode] = []
    for number, node in enumerate(body.each):
        if number in updates:
            continue
        here = {
            each: cell(asked[each, int(number > update)], Iter(lane))
            for each, update in zip(run, updates, strict=True)
            if int(number > update) in kinds[each]
        }
        inside += at_place([node], place(lane), {**own, **here})
    nodes.append(vector(inside, lane))
    nodes += [folded(a, run[a.place], cell(held[a.place], integer(2 * NEIGHBOURS - 1))) for a in body.accumulators]
    turns = count // NEIGHBOURS
    one_by_one = at_place(body.each, Iter(rest), {**own, **run})
    return [
        Loop(turn, integer(0), turns, 1, Where.SERIAL, tuple(nodes)),
        Loop(rest, tidy(low + turns * NEIGHBOURS), high, 1, Where.SERIAL, one_by_one),
    ]


def _updates(node: TreeNode, place: Load) -> bool:
    return isinstance(node, Compute) and node.target == place


def _asked(nodes: Sequence[TreeNode], place: Load, update: int) -> set[int]:
    """Is the running value asked for before its update (0), after it (1)?"""
    return {
        int(number > update)
        for number, node in enumerate(nodes)
        if number != update and any(place in loads(expr) for expr in node_expressions(node))
    }
