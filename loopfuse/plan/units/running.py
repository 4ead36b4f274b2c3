"""Running values: reductions along a loop whose value so far is read on the way.

    for i: s = s + x[i];  y[i] = s

The iterations depend on each other through `s` alone, and each needs what those before it add up to. Where the
operation is associative that may be had from partial results. So may a linear recurrence, whose iterations are maps
of the value before:

    for i: s = a[i] * s + b[i];  y[i] = s           or           for i: y[i] = a[i] * y[i - 1] + b[i]

Read off the dependences; what stands in the way is said in words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loopfuse.lang.linear import same_index, tidy
from loopfuse.lang.nodes import Const, Iter, Load
from loopfuse.lang.slope import slope
from loopfuse.lang.walk import iterators, substitute
from loopfuse.plan.units.forest import Nest, Scope, Unit, fold_of
from loopfuse.poly.isl_relations import equate, is_equal_along
from loopfuse.poly.model import Dependence, Statement

FOLDS = ("sum", "prod", "min", "max", "and", "or")
"""What trees fold by."""


@dataclass(frozen=True, slots=True)
class Running:
    """The updates (ids) of the running values along the loop over `iterator`, and the statements (ids) of an
    iteration that what they add depends on. `before`: of those that are linear recurrences, what they read of the
    iteration before."""

    iterator: str
    updates: tuple[str, ...]
    feeding: frozenset[str]
    before: Mapping[str, Load] = field(default_factory=dict[str, Load])


def find_running(statements: Sequence[Statement], iterator: str, scope: Scope) -> Running | str:
    """The running values of the loop over `iterator`, `statements` being all inside it; or why its iterations
    cannot be put together from partial results. "": it has no running values."""
    by_id = {s.id: s for s in statements}
    inside = [d for d in scope.touching(by_id) if d.source in by_id and d.sink in by_id]
    updates = {
        s.id: s.target.array
        for s in statements
        if s.reduction and s.kind != "init" and not any(iterator in iterators(part) for part in s.target.index)
        if any(d.array == s.target.array and s.id in (d.source, d.sink) and moves(d, iterator, by_id) for d in inside)
    }
    before = {
        s.id: load
        for s in statements
        if (load := _recurring(s, iterator)) is not None
        and any(d.source == d.sink == s.id and d.kind == "flow" and _is_chain(d, s, iterator) for d in inside)
    }
    updates |= {id: by_id[id].target.array for id in before}
    arrays = set(updates.values())
    readers = {
        s.id: name
        for s in statements
        for access in s.reads
        for name, _ in access.parts
        if name in arrays and updates.get(s.id) != name
    }
    if not readers and not before:
        return ""
    if not scope.reassociate:
        return "the order of its updates must stay (reassociate=False)"
    for id, name in updates.items():
        if id not in before and fold_of(by_id[id].reduction) not in FOLDS:
            return f"`{name}` is updated by {by_id[id].reduction}"
        if any(s.id != id and any(n == name for n, _ in s.write.parts) for s in statements):
            return f"`{name}` is updated and set in the same iteration"
    moving = {by_id[id].target.array for id, load in before.items() if load != by_id[id].target}
    for d in inside:
        is_own = d.array not in moving or (d.source == d.sink and d.source in before and d.kind == "flow")
        if (d.array not in arrays or not is_own) and moves(d, iterator, by_id):
            return f"iterations depend on each other through `{d.array}` too"
    feeding = _feeding(updates, inside)
    for id in sorted(feeding | updates.keys()):
        if id in readers:
            return f"what is added to `{_fed_by(id, updates, inside)}` depends on the running value of `{readers[id]}`"
    return Running(iterator, tuple(updates), frozenset(feeding), before)


def _is_chain(flow: Dependence, s: Statement, iterator: str) -> bool:
    """Does each iteration need the one before, but for the first?"""
    place = s.iterators.index(iterator)
    if is_equal_along(flow.relation, place, place):
        return False
    step = next(loop.step for loop in s.loops if loop.iterator == iterator)
    others = [(p, p) for p in range(len(s.iterators)) if p != place]
    later = equate(s.domain.lex_lt_set(s.domain) if step > 0 else s.domain.lex_gt_set(s.domain), others)
    return bool(later.range().intersect_params(flow.relation.params()).is_subset(flow.relation.range()))


def may_recur(s: Statement) -> bool:
    """Is it the update of a linear recurrence along some loop, by its form?"""
    return any(_recurring(s, iterator) is not None for iterator in s.iterators)


def _recurring(s: Statement, iterator: str) -> Load | None:
    """What the statement reads of its own in the iteration before, where its value is linear in that: its target's place,
    or the one that the iteration before writes."""
    if s.reduction or s.kind == "init" or s.predicate is not None or s.target.swapped is not None:
        return None
    own = {access.load for access in s.reads if any(name == s.target.array for name, _ in access.parts)}
    if len(own) != 1 or iterator not in s.iterators:
        return None
    (load,) = own
    places = [dict(access.parts)[s.target.array] for access in s.reads if access.load == load and len(access.parts) == 1]
    if not places or any(not each.is_equal(places[0]) for each in places[1:]):
        return None  # arms that iterations choose: each of the reads has some of them
    step = next(loop.step for loop in s.loops if loop.iterator == iterator)
    earlier = substitute(s.target, {iterator: tidy(Iter(iterator) - step)})
    assert isinstance(earlier, Load)
    same = not load.mode and len(load.index) == len(earlier.index) and all(
        same_index(one, other) for one, other in zip(load.index, earlier.index, strict=True)
    )
    found = slope(s.value, load) if same and load.array == s.target.array and load.swapped is None else None
    return None if found is None or (isinstance(found, Const) and found.value == 0) else load


def running_along(unit: Unit, scope: Scope) -> Running | str:
    """The same of a unit that is one loop over statements alone; "" where it is another."""
    if len(unit.items) != 1 or not isinstance(nest := unit.items[0], Nest) or nest.loop.unknown:
        return ""
    if not all(isinstance(child, Statement) for child in nest.children):
        return ""
    return find_running(unit.statements, nest.loop.iterator, scope)


def _feeding(updates: dict[str, str], inside: Sequence[Dependence]) -> set[str]:
    """The statements of an iteration whose values the updates need, but for the running values."""
    found: set[str] = set()
    waiting = set(updates)
    while waiting:
        more = {
            d.source
            for d in inside
            if d.kind == "flow" and d.sink in waiting and d.array not in updates.values()
        }
        waiting = more - found
        found |= more
    return found


def _fed_by(id: str, updates: dict[str, str], inside: Sequence[Dependence]) -> str:
    """The accumulator whose updates need what the statement makes."""
    return next(array for update, array in updates.items() if id == update or id in _feeding({update: array}, inside))


def moves(dependence: Dependence, iterator: str, by_id: dict[str, Statement]) -> bool:
    """Are the ends of the dependence in two iterations of the loop?"""
    ends = (by_id[dependence.source], by_id[dependence.sink])
    places = [s.iterators.index(iterator) for s in ends]
    return not is_equal_along(dependence.relation, *places)
