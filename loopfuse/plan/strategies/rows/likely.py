"""Would a group be taken as rows? Read off its statements, before anything has a home: what a price needs."""

from __future__ import annotations

from collections.abc import Iterator

from loopfuse.lang.linear import constant_value, linear, linear_form
from loopfuse.lang.nodes import Expr, Iter, Load
from loopfuse.lang.walk import iterators, loads, substitute
from loopfuse.plan.strategies.rows.body import COLUMN
from loopfuse.plan.units.align import Placed
from loopfuse.plan.units.forest import may_reorder
from loopfuse.plan.units.groups import Group, Legality
from loopfuse.poly.model import PolyProgram, Statement

SHORT = 24
"""Places up to which a row is one thread's: a warp would mostly idle."""


def has_passes(group: Group) -> bool:
    """Has a point of the group loops of its own?"""
    return any(inner for _, _, inner in _statements(group))


def is_likely(group: Group, program: PolyProgram) -> bool:
    """Has the group passes over rows of its own, whose iterations need no others' values?"""
    if group.legality is not Legality.INDEPENDENT or not group.dims or group.scope is None:
        return False
    if not has_passes(group):
        return False
    own = False
    firsts: set[Expr] = set()
    places: dict[str, set[tuple[object, ...]]] = {}
    written: set[str] = set()
    for placed, s, inner in _statements(group):
        if len(inner) > 1:
            return False
        along = inner[0] if inner else ""
        if along:
            if not _is_pass(s, along, group, program):
                return False
            firsts.add(next(loop.lower for loop in s.loops if loop.iterator == along))
        for load in (s.target, *(access.load for access in s.reads)):
            if not load.index:
                continue
            index = _index(load, placed, along)
            names = [iterators(part) for part in index]
            if COLUMN in set().union(*names):
                terms = linear(index[-1])
                if terms is None or terms.get(COLUMN) != 1 or COLUMN in set().union(*names[:-1]):
                    return False
                own = own or set(group.dims) <= set().union(*names)
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


def _is_pass(s: Statement, along: str, group: Group, program: PolyProgram) -> bool:
    """May iterations along the row run in any order, as far as the statement shows? Where they write one
    place, it is a reduction, or a value of each iteration's own."""
    loop = next(loop for loop in s.loops if loop.iterator == along)
    bounds = iterators(loop.lower) | iterators(loop.upper)
    if loop.unknown or loop.step != 1 or bounds or loads(loop.lower) or loads(loop.upper):
        return False
    length = constant_value(loop.upper - loop.lower)
    if length is not None and length <= SHORT:
        return False
    if along in set().union(*map(iterators, s.target.index), set()):
        return True
    if not s.target.index and along in program.arrays[s.target.array].private_to:
        return True
    assert group.scope is not None
    return may_reorder(s, group.scope.reassociate)


def _index(load: Load, placed: Placed, along: str) -> tuple[Expr, ...]:
    """The subscripts of an access in dimensions of the group, and COLUMN."""
    values: dict[str, Expr] = {c.iterator: c.value() for c in placed.coordinates}
    if along:
        values[along] = Iter(COLUMN)
    return tuple(substitute(part, values) for part in load.index)
