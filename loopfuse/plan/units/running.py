"""Running values: reductions along a loop whose value so far is read on the way.

    for i: s = s + x[i];  y[i] = s

The iterations depend on each other through `s` alone, and each needs what those before it add up to. Where the
operation is associative that may be had from partial results. Read off the dependences; what stands in the way is
said in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loopfuse.lang.walk import iterators
from loopfuse.plan.units.forest import Nest, Scope, Unit, fold_of
from loopfuse.poly.isl_relations import is_equal_along
from loopfuse.poly.model import Dependence, Statement

FOLDS = ("sum", "prod", "min", "max", "and", "or")
"""What trees fold by."""


@dataclass(frozen=True, slots=True)
class Running:
    """The updates (ids) of the running values along the loop over `iterator`, and the statements (ids) of an
    iteration that what they add depends on."""

    iterator: str
    updates: tuple[str, ...]
    feeding: frozenset[str]


def find_running(statements: Sequence[Statement], iterator: str, scope: Scope) -> Running | str:
    """The running values of the loop over `iterator`, `statements` being all inside it; or why its iterations
    cannot be put together from partial results. "": it has no running values."""
    by_id = {s.id: s for s in statements}
    inside = [d for d in scope.touching(by_id) if d.source in by_id and d.sink in by_id]
    updates = {
        s.id: s.target.array
        for s in statements
        if s.reduction and s.kind != "init" and not any(iterator in iterators(part) for part in s.target.index)
        if any(d.array == s.target.array and s.id in (d.source, d.sink) and _moves(d, iterator, by_id) for d in inside)
    }
    arrays = set(updates.values())
    readers = {
        s.id: name
        for s in statements
        for access in s.reads
        for name, _ in access.parts
        if name in arrays and updates.get(s.id) != name
    }
    if not readers:
        return ""
    if not scope.reassociate:
        return "the order of its updates must stay (reassociate=False)"
    for id, name in updates.items():
        if fold_of(by_id[id].reduction) not in FOLDS:
            return f"`{name}` is updated by {by_id[id].reduction}"
        if any(s.id != id and any(n == name for n, _ in s.write.parts) for s in statements):
            return f"`{name}` is updated and set in the same iteration"
    for d in inside:
        if d.array not in arrays and _moves(d, iterator, by_id):
            return f"iterations depend on each other through `{d.array}` too"
    feeding = _feeding(updates, inside)
    for id in sorted(feeding | updates.keys()):
        if id in readers:
            return f"what is added to `{_fed_by(id, updates, inside)}` depends on the running value of `{readers[id]}`"
    return Running(iterator, tuple(updates), frozenset(feeding))


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


def _moves(dependence: Dependence, iterator: str, by_id: dict[str, Statement]) -> bool:
    """Are the ends of the dependence in two iterations of the loop?"""
    ends = (by_id[dependence.source], by_id[dependence.sink])
    places = [s.iterators.index(iterator) for s in ends]
    return not is_equal_along(dependence.relation, *places)
