"""Scattered updates: loops whose iterations depend on each other only through updates at places that data say.

    for i: h[x[i]] += w[i]

Which iterations update one element is not known, so each pair may. But where nothing else in the loop touches the array,
and the order of the operation is free, they may run in any order, as long as none is lost. Read off the dependences;
what stands in the way is said in words.
"""

from __future__ import annotations

from dataclasses import dataclass

from loopfuse.plan.units.forest import Nest, Scope, Unit
from loopfuse.plan.units.running import moves
from loopfuse.poly.model import PolyProgram, Statement

OPERATIONS = ("sum", "prod", "min", "max")
"""What partial results are combined by."""


@dataclass(frozen=True, slots=True)
class Scattered:
    """The updates (their ids) of `array` by `operation`, in all loops of a nest."""

    updates: frozenset[str]
    array: str
    operation: str


def find_scattered(unit: Unit, scope: Scope, program: PolyProgram) -> Scattered | str:
    """The scattered update of a unit that is one nest; or why its iterations cannot run in any order. "": it has none."""
    updates = [s for s in unit.statements if s.scatter]
    if not updates:
        return ""
    name, operation = updates[0].target.array, updates[0].scatter
    if any((s.target.array, s.scatter) != (name, operation) for s in updates):
        return "it has several updates at places that depend on data"
    if not _is_perfect(unit):
        return "it is no perfect nest of loops"
    if operation not in OPERATIONS:
        return f"`{name}` is updated by {operation}"
    if updates[0].target.dtype.is_float and operation in ("sum", "prod") and not scope.reassociate:
        return "the order of its updates must stay (reassociate=False)"
    if scope.host:
        return "it is in a loop that runs in order"
    ids = frozenset(s.id for s in updates)
    if not program.arrays[name].is_argument and not all(_is_set(update, scope, program) for update in updates):
        return f"`{name}` is not set before it is updated"
    for s in unit.statements:
        # An update reads its element, and that again where it does not update.
        own = sum(access.array == name for access in s.reads) == 2 and len(s.write.parts) == 1
        if not own if s.id in ids else _touches(s, name):
            return f"`{name}` is touched elsewhere in an iteration"
    if program.arrays[name].private_to or any(
        s.id not in ids and s.operation and s.target.array == name and s.kind != "init" for s in program.statements
    ):
        return f"`{name}` is updated in several places"
    by_id = {s.id: s for s in unit.statements}
    for d in scope.touching(by_id):
        inside = d.source in by_id and d.sink in by_id
        if inside and d.array != name and any(moves(d, loop.iterator, by_id) for loop in unit.common):
            return f"iterations depend on each other through `{d.array}` too"
        late = d.kind == "output" and d.source in ids and d.sink not in ids
        early = d.kind == "anti" and d.sink in ids and d.source not in ids
        if d.array == name and (late or (early and name not in _written(program.statement(d.source)))):
            return f"`{name}` is set or read between the updates of one element"
    return Scattered(ids, name, operation)


def _is_perfect(unit: Unit) -> bool:
    """Is it one nest, each of whose loops has one loop inside, or statements alone?"""
    items = unit.items
    while len(items) == 1 and isinstance(nest := items[0], Nest):
        if nest.loop.unknown:
            return False
        items = nest.children
    return all(isinstance(item, Statement) for item in items) and all(len(s.loops) == len(unit.common) for s in unit.statements)


def _is_set(update: Statement, scope: Scope, program: PolyProgram) -> bool:
    """Has each element that the update may read been written before?"""
    array = update.target.array
    rest = next(dict(access.parts)[array] for access in update.reads if access.array == array).wrap()
    for d in scope.touching((update.id,)):
        if d.kind == "flow" and d.sink == update.id and d.array == array:
            assert d.by_element is not None
            rest = rest.subtract(d.by_element.range())
    return bool(rest.intersect_params(program.context).is_empty())


def _touches(statement: Statement, array: str) -> bool:
    accesses = (*statement.reads, statement.write)
    return any(name == array for access in accesses for name, _ in access.parts)


def _written(statement: Statement) -> set[str]:
    return {name for name, _ in statement.write.parts}
