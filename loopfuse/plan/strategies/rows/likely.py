"""Would a group be taken as rows? Read off its statements, before anything has a home: what a price needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopfuse.lang.linear import are_neighbours, constant_value, linear_form
from loopfuse.lang.nodes import Expr, Iter, Load
from loopfuse.lang.walk import iterators, loads, substitute
from loopfuse.plan.mapping.space import order_dims
from loopfuse.plan.strategies.rows import sizes
from loopfuse.plan.strategies.rows.body import COLUMN, around
from loopfuse.plan.units.align import Placed
from loopfuse.plan.units.forest import may_reorder
from loopfuse.plan.units.groups import Group, Legality
from loopfuse.poly.model import PolyProgram, Statement


def has_passes(group: Group) -> bool:
    """Has a point of the group loops of its own?"""
    return any(inner for _, _, inner in _statements(group))


def is_likely(group: Group, program: PolyProgram) -> bool:
    """Has the group passes over rows or columns of its own, whose iterations need no others' values?"""
    if group.legality is not Legality.INDEPENDENT or not group.dims or group.scope is None:
        return False
    if not has_passes(group):
        return False
    return any(_suits(group, program, columns) for columns in ("", order_dims(group)[-1]))


def is_columns(group: Group, program: PolyProgram) -> bool:
    """Has the group passes down columns that neighbours in memory have, and is it no group of rows?"""
    return is_likely(group, program) and not _suits(group, program, "") and _suits(group, program, order_dims(group)[-1])


def _suits(group: Group, program: PolyProgram, columns: str) -> bool:
    """The same where neighbours in memory are places of a row ("") or points along dimension `columns`."""
    own = False
    firsts: set[tuple[Expr, ...]] = set()
    places: dict[str, set[tuple[object, ...]]] = {}
    written: set[str] = set()
    for placed, s, inner in _statements(group):
        if inner:
            if not _is_pass(s, inner, group, program):
                return False
            firsts.add(tuple(loop.lower for loop in s.loops if loop.iterator in inner))
        is_apart = bool(columns) or len(inner) > 1
        for load in (s.target, *(access.load for access in s.reads)):
            if not load.index:
                continue
            index = _index(load, placed, inner)
            names = [iterators(part) for part in index]
            if is_apart and any(len(each) > 1 for each in names):
                return False
            if not are_neighbours(index, columns or COLUMN):
                return False
            own = own or {*group.dims, COLUMN} <= set().union(*names)
            places.setdefault(load.array, set()).add(tuple(map(linear_form, index)))
        if s.target.index:
            written.add(s.target.array)
    return own and len(firsts) == 1 and all(len(places[name]) == 1 for name in written)


def _statements(group: Group) -> Iterator[tuple[Placed, Statement, list[str]]]:
    """Each statement that the group runs, and the loops around it that are the group's own to run."""
    host = {loop.iterator for loop in group.scope.host} if group.scope else set[str]()
    for placed in group.members:
        dims = {c.iterator for c in placed.coordinates}
        for s in placed.unit.statements:
            yield placed, s, [name for name in s.iterators if name not in dims | host]


def _is_pass(s: Statement, inner: Sequence[str], group: Group, program: PolyProgram) -> bool:
    """May iterations of the loops inside run in any order, as far as the statement shows? Where they write one
    place, it is a reduction, or a value of each iteration's own."""
    for loop in (each for each in s.loops if each.iterator in inner):
        bounds = iterators(loop.lower) | iterators(loop.upper)
        if loop.unknown or loop.step != 1 or bounds or loads(loop.lower) or loads(loop.upper):
            return False
        length = constant_value(loop.upper - loop.lower)
        if len(inner) == 1 and length is not None and length <= sizes.SHORT:
            return False
    named = {*inner} & set().union(*map(iterators, s.target.index), set())
    if named:
        return len(named) == len(inner)
    if not s.target.index and inner[-1] in program.arrays[s.target.array].private_to:
        return True
    assert group.scope is not None
    return may_reorder(s, group.scope.reassociate)


def _index(load: Load, placed: Placed, inner: Sequence[str]) -> tuple[Expr, ...]:
    """The subscripts of an access in dimensions of the group, and what stands for the loops inside."""
    values: dict[str, Expr] = {c.iterator: c.value() for c in placed.coordinates}
    for depth, name in enumerate(inner):
        values[name] = Iter(COLUMN if depth == len(inner) - 1 else around(depth))
    return tuple(substitute(part, values) for part in load.index)
