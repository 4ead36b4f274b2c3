"""Loops over borders, beside the stencils of a time loop: as loops over all dimensions.

    before:  for x in 0..W: { u[0, x] = 0.0;  u[H-1, x] = u[H-2, x] }
    after:   for y in 0..1, x in 0..W: u[y, x] = 0.0
             for y in H-1..H, x in 0..W: u[y, x] = u[y-1, x]

A row (or column) of the border is then one more thing that writes the array in an iteration: a
stage of its own, which holds what was there before wherever its loop does not run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loopfuse.lang.index import is_affine
from loopfuse.lang.linear import constant_value, tidy
from loopfuse.lang.nodes import Expr, Iter, Load
from loopfuse.lang.walk import iterators, map_expr
from loopfuse.plan.units.forest import Item, Nest, Scope, Unit, statements_of
from loopfuse.poly.model import Loop, Statement

EDGE = ".edge"
"""What the names of invented iterators end with, before the number of the dimension."""


def is_edge(iterator: str) -> bool:
    """Was the iterator invented for a border?"""
    return EDGE in iterator


def is_border(unit: Unit) -> bool:
    """Does the unit write a border only?"""
    return any(is_edge(loop.iterator) for loop in unit.common)


def without_edges(unit: Unit) -> Unit:
    """The unit with the loops that the program has."""
    if not is_border(unit):
        return unit
    common = tuple(loop for loop in unit.common if not is_edge(loop.iterator))
    parallel = tuple(name for name in unit.parallel if not is_edge(name))
    return replace(unit, common=common, parallel=parallel)


def with_borders(units: Sequence[Unit], scope: Scope) -> tuple[Unit, ...]:
    """The units, those over borders with as many loops as the others, and behind those that write
    the rest of their arrays; as they are where nothing is known of how."""
    depth = max((len(unit.common) for unit in units), default=0)
    out: list[Unit] = []
    for unit in units:
        found = _widened(unit, depth) if len(unit.common) < depth else None
        out += found if found is not None else [unit]
    for border in [unit for unit in reversed(out) if is_border(unit)]:
        _move_back(border, out, scope)
    return tuple(out)


def _move_back(border: Unit, units: list[Unit], scope: Scope) -> None:
    """`border` behind the last unit that writes more of its arrays, past those that it has nothing
    to do with."""
    mine = {s.write.array for s in border.statements}
    here = units.index(border)
    wanted = here
    for position in range(here + 1, len(units)):
        other = units[position]
        if any(d.source in border.ids and d.sink in other.ids for d in scope.touching(border.ids)):
            break
        if not is_border(other) and mine & {s.write.array for s in other.statements}:
            wanted = position
    units.insert(wanted, units.pop(here))


def _widened(unit: Unit, depth: int) -> list[Unit] | None:
    """A unit for each border that this one writes; None where it writes something else."""
    inner = {loop.iterator for loop in unit.common}
    by_edge: dict[tuple[tuple[int, Expr], ...], list[str]] = {}
    for s in unit.statements:
        index = s.target.index
        if len(index) != depth or s.target.swapped is not None:
            return None
        fixed = [(k, tidy(part)) for k, part in enumerate(index) if not iterators(part)]
        if len(fixed) + len(inner) != depth or not all(is_affine(part) for _, part in fixed):
            return None
        by_edge.setdefault(tuple(fixed), []).append(s.id)
    return [_border(unit, dict(fixed), frozenset(ids)) for fixed, ids in by_edge.items()]


def _border(unit: Unit, fixed: Mapping[int, Expr], ids: frozenset[str]) -> Unit:
    """The statements `ids` of the unit, with a loop of one iteration for each fixed subscript."""
    names = {position: f"{unit.label}{EDGE}{position}" for position in fixed}
    rank = len(fixed) + len(unit.common)

    def load(node: Load) -> Load:
        if len(node.index) != rank:
            return node
        index = list(node.index)
        for position, place in fixed.items():
            if iterators(index[position]):
                continue
            away = constant_value(index[position] - place)
            if away is not None:
                index[position] = Iter(names[position]) + away
        return replace(node, index=tuple(index))

    def one(node: Expr) -> Expr:
        return load(node) if isinstance(node, Load) else node

    def statement(s: Statement) -> Statement:
        reads = tuple(replace(access, load=load(access.load)) for access in s.reads)
        write = replace(s.write, load=load(s.write.load))
        value = map_expr(one, s.value)
        return replace(s, target=load(s.target), write=write, value=value, reads=reads)

    def kept(items: tuple[Item, ...]) -> tuple[Item, ...]:
        out: list[Item] = []
        for item in items:
            if isinstance(item, Nest):
                children = kept(item.children)
                out += [replace(item, children=children)] if children else []
            elif item.id in ids:
                out.append(statement(item))
        return tuple(out)

    items = kept(unit.items)
    line = unit.common[0].line if unit.common else unit.statements[0].line
    edges = [
        Loop(names[k], place, place + 1, 1, unit.label, line)
        for k, place in fixed.items()
    ]
    common = list(unit.common)
    for position, edge in zip(fixed, edges, strict=True):
        common.insert(position, edge)
    parallel = (*unit.parallel, *names.values())
    return replace(
        unit, items=items, statements=statements_of(items), common=tuple(common), parallel=parallel
    )
