"""Loops that one thread runs in order, with what waits for the iteration before in a loop of its own.

before: for t: for i: A (waits); B        after: for t: { for i: A    for i: B (in vectors) }
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from loopfuse.plan.fusion.cost import CostModel
from loopfuse.plan.units.align import Placed
from loopfuse.plan.units.forest import (
    Item,
    Nest,
    Scope,
    Unit,
    cells,
    components,
    make_unit,
    statements_of,
)
from loopfuse.plan.units.groups import Group, Legality

GAIN = 0.9
"""What of a loop's time its parts may take together, at most: what they share is read again."""


def taken_apart(unit: Unit, scope: Scope, cost: CostModel) -> Unit:
    """The unit with the loops inside its outermost one taken apart where that is faster for one thread."""
    items = tuple(_entered(item, scope, cost) if isinstance(item, Nest) else item for item in unit.items)
    return unit if items == unit.items else replace(unit, items=items)


def alone_in_turn(items: tuple[Item, ...], scope: Scope, cost: CostModel) -> float:
    """Seconds of `items` in one turn of the loops around, by one thread."""
    unit = make_unit("", items, scope)
    return cost.alone(Group(Legality.SERIAL, (), (Placed(unit, ()),), scope=scope))[0]


def _entered(nest: Nest, scope: Scope, cost: CostModel) -> Nest:
    return apart_inside(nest, scope.enter(nest.loop, cost.program.by_id), cost)


def apart_inside(nest: Nest, inner: Scope, cost: CostModel) -> Nest:
    """A loop, with those inside it taken apart. `inner`: one iteration of it."""
    children: list[Item] = []
    for child in nest.children:
        children += _parts(child, inner, cost) if isinstance(child, Nest) else (child,)
    return nest if tuple(children) == nest.children else Nest(nest.loop, tuple(children))


def _parts(nest: Nest, scope: Scope, cost: CostModel) -> tuple[Item, ...]:
    """A loop inside another: itself, or the loops that it is taken apart into."""
    if any(isinstance(child, Nest) for child in nest.children):
        return (_entered(nest, scope, cost),)
    parts = components(cells(nest.children), scope)
    if len(parts) < 2 or _have_private(parts, nest, cost):
        return (nest,)
    flat = [tuple(item for cell in part for item in cell) for part in parts]
    pieces = [(piece, cost.waits_in_turn(statements_of(piece), nest.loop, scope)) for piece in flat]
    loops = [
        Nest(nest.loop, tuple(item for piece, _ in run for item in piece))
        for _, run in groupby(pieces, key=lambda pair: pair[1])
    ]
    if len(loops) < 2:
        return (nest,)
    apart = sum(alone_in_turn((loop,), scope, cost) for loop in loops)
    return tuple(loops) if apart < GAIN * alone_in_turn((nest,), scope, cost) else (nest,)


def _have_private(parts: list[list[tuple[Item, ...]]], nest: Nest, cost: CostModel) -> bool:
    """Do parts hand something on that is an iteration's own?"""
    seen: set[str] = set()
    for part in parts:
        touched = {
            access.array
            for cell in part
            for statement in statements_of(cell)
            for access in (*statement.reads, statement.write)
            if nest.loop.iterator in cost.program.arrays[access.array].private_to
        }
        if seen & touched:
            return True
        seen |= touched
    return False
