"""Storage: the home of every array, decided from where its values are made and used.

before:  temp t[N]: written in one loop, read in the next
after:   one register, if each point of the fused loops touches one element and every value is
         used at the point that made it

before:  temp h[4], of each point its own, in loops of four iterations
after:   four registers, and the loops written out (on a GPU)
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from math import prod

from loopfuse.lang.index import trip_count
from loopfuse.lang.linear import constant_value, linear
from loopfuse.plan.units.align import Placed
from loopfuse.plan.units.groups import Group, HostGroup, Legality, PlanItem
from loopfuse.poly.isl import IN, OUT
from loopfuse.poly.isl_relations import affine_map, is_equal_along
from loopfuse.poly.model import Access, Array, Dependence, Dependences, Loop, PolyProgram, Statement


@dataclass(frozen=True, slots=True)
class Store:
    """Where an array lives. `home` is none (never stored: recomputed or dead), register, window
    (some rows of it, in registers) or global; a global array keeps `leading`, the iterators it stays expanded over; `zeroed` where
    a read may see an element nothing wrote. `cleared`: one copy serves all iterations, and each
    of the loop over this iterator sets it to zero first ("": none does). `elements`: how many registers, where each
    element has one."""

    home: str
    leading: tuple[str, ...] = ()
    zeroed: bool = False
    cleared: str = ""
    elements: int = 0


MOST_ELEMENTS = 32
"""Elements of an array that a GPU's thread keeps in registers."""
MOST_WRITTEN_OUT = 256
"""Instances of one statement that are written out for that."""


Hosts = dict[str, int]
"""The host loops around a group: which one runs each iterator. Distribution makes several of one
loop, and what one leaves for another is there for each of its iterations."""


def place_storage(
    program: PolyProgram, dependences: Dependences, plan: Sequence[PlanItem], device: str
) -> dict[str, Store]:
    """The home of every array of the program on a device (cpu or gpu)."""
    groups: list[tuple[Group, Hosts]] = []

    def visit(items: Sequence[PlanItem], host: Hosts) -> None:
        for item in items:
            if isinstance(item, HostGroup):
                visit(item.body, {**host, item.loop.iterator: id(item)})
            else:
                groups.append((item, host))

    visit(plan, {})
    touching: dict[str, list[Statement]] = {name: [] for name in program.arrays}
    for statement in program.statements:
        accesses = (*statement.reads, statement.write)
        for name in dict.fromkeys(name for access in accesses for name, _ in access.parts):
            touching[name].append(statement)
    return {
        name: _place(array, program, dependences, groups, touching[name], device)
        for name, array in program.arrays.items()
    }


def touches(statement: Statement, array: str) -> list[tuple[Access, bool]]:
    """The accesses of `statement` to `array`, and whether each writes."""
    found = [(a, False) for a in statement.reads if any(n == array for n, _ in a.parts)]
    if any(n == array for n, _ in statement.write.parts):
        found.append((statement.write, True))
    return found


def _place(
    array: Array,
    program: PolyProgram,
    dependences: Dependences,
    groups: Sequence[tuple[Group, Hosts]],
    touching: Sequence[Statement],
    device: str,
) -> Store:
    """`touching` are the program's statements that touch the array, in order."""
    if array.is_argument:
        return Store("global")
    users: list[tuple[Group, Statement]] = []
    for group, _ in groups:
        fed = group.fed
        for statement in touching:
            running = statement.id in group.running
            if not running and statement.id not in group.ids:
                continue
            for _, is_write in touches(statement, array.name):
                if is_write and not running:
                    continue  # an absorbed producer stores nothing
                if not is_write and (statement.id, array.name) in fed:
                    continue  # recomputed where it is read
                users.append((group, statement))
                break
    if not any(touches(s, array.name)[-1:] and touches(s, array.name)[-1][1] for _, s in users):
        if not users:
            return Store("none")
        return _zeroed_anew(array, touching)
    groups_of = {id(group): group for group, _ in users}
    fit = users[0][0].fit
    if len(groups_of) == 1 and fit is not None and array.kind != "scalar" and fit.holds(array.name):
        return Store("window")
    ids = {s.id for _, s in users}
    flows = [d for d in dependences.flow if d.array == array.name]
    zeroed = _reads_unwritten(program, array.name, [s for _, s in users], dependences)
    # Several groups run the same statements where blocks of time steps leave some iterations to
    # others: each has a register of its own.
    owners = {
        id(group): (group, [s for g, s in users if g is group]) for group, _ in users
    }.values()
    if not zeroed and all(
        {s.id for s in inside} == ids
        and (group.fit is None or group.fit.keeps_order or array.kind == "scalar")
        and not _is_combined(array.name, group)
        and not any(s.id in group.recomputed for s in inside)
        and _fits_register(array, inside, group, [d for d in flows if d.sink in ids])
        for group, inside in owners
    ):
        return Store("register")
    if not zeroed and device == "gpu" and len(owners) == 1 and {s.id for _, s in users} == ids and fit is None:
        ((group, inside),) = owners
        if elements := _in_registers(array, inside, group):
            return Store("register", elements=elements)
    apart = tuple(i for i in array.private_to if not _is_sequential(i, users, groups))
    if not zeroed:
        return Store("global", apart)
    return _zeroed_anew(array, touching, apart)


def _zeroed_anew(array: Array, touching: Sequence[Statement], apart: tuple[str, ...] = ()) -> Store:
    """What nothing wrote is zero anew in each iteration: then each has a copy of its own, or, where data
    says how many there are, one copy (one for each iteration of `apart`) is cleared in each."""
    if _is_in_unknown_loop(array, touching):
        return Store("global", apart, zeroed=True, cleared=array.private_to[-1])
    return Store("global", array.private_to, zeroed=True)


def _is_in_unknown_loop(array: Array, touching: Sequence[Statement]) -> bool:
    """Does data bound a loop that the array is private to?"""
    return any(
        loop.unknown and loop.iterator in array.private_to
        for statement in touching
        for loop in statement.loops
    )


def _is_combined(array: str, group: Group) -> bool:
    """The array holds a result that the group's threads combine."""
    return group.legality is Legality.REDUCED and any(
        s.id in p.unit.carried and s.target.array == array
        for p in group.members
        for s in p.unit.statements
    )


def _reads_unwritten(
    program: PolyProgram, array: str, users: Sequence[Statement], dependences: Dependences
) -> bool:
    """Some read of the array may see an element no statement wrote."""
    for statement in users:
        for access in statement.reads:
            for name, relation in access.parts:
                if name != array:
                    continue
                fed = None
                for d in dependences.flow:
                    if d.sink == statement.id and d.array == array and d.by_element is not None:
                        hit = d.by_element.range().unwrap()
                        fed = hit if fed is None else fed.union(hit)
                if fed is None or not relation.intersect_params(program.context).is_subset(fed):
                    return True
    return False


def _prefix(users: Sequence[Statement], group: Group) -> tuple[str, ...]:
    """Iterators of the serial loops, inside the group's dimensions, around every user. Loops of
    different units are different loops, also where distribution made them from one."""
    owners = [p for p in group.members if any(s.id in p.unit.ids for s in users)]
    if len(owners) > 1:
        return ()
    dims = {c.iterator for p in group.members for c in p.coordinates}
    host = {loop.iterator for loop in group.scope.host} if group.scope else set()
    inner = [[i for i in s.iterators if i not in dims and i not in host] for s in users]
    out: list[str] = []
    for position in range(min(len(names) for names in inner)):
        if len({names[position] for names in inner}) != 1:
            break
        out.append(inner[0][position])
    return tuple(out)


def _fits_register(
    array: Array, users: Sequence[Statement], group: Group, flows: Sequence[Dependence]
) -> bool:
    prefix = _prefix(users, group)
    placed = {each: p for p in group.members for each in p.unit.ids}
    elements = None
    for statement in users:
        p = placed.get(statement.id)
        if p is None or len(p.coordinates) != len(group.dims):
            return False
        where = _where(statement, p, group, prefix)
        for access, _ in touches(statement, array.name):
            if len(access.parts) != 1:
                return False
            touched = access.parts[0][1].apply_domain(where)
            elements = touched if elements is None else elements.union(touched)
    if elements is None or not elements.is_single_valued():
        return False
    for d in flows:
        by_id = {s.id: s for s in users}
        if d.source not in by_id or d.sink not in by_id:
            return False
        source = _where(by_id[d.source], placed[d.source], group, prefix)
        sink = _where(by_id[d.sink], placed[d.sink], group, prefix)
        moved = d.relation.apply_domain(source).apply_range(sink)
        for k in range(moved.dim(OUT)):
            if not is_equal_along(moved, k, k):
                return False
    return True


def _in_registers(array: Array, users: Sequence[Statement], group: Group) -> int:
    """How many registers a thread needs for its own copy of the array, where each subscript is known once loops of
    few iterations are written out; 0: it has none, or too many."""
    if group.legality is not Legality.INDEPENDENT or not array.extents:
        return 0
    sizes = [constant_value(extent) for extent in array.extents]
    if None in sizes or not 0 < (elements := prod(filter(None, sizes))) <= MOST_ELEMENTS:
        return 0
    for statement in users:
        placed = next((p for p in group.members if statement.id in p.unit.ids), None)
        if placed is None or statement.id in group.recomputed:
            return 0
        dims = {c.iterator for c in placed.coordinates}
        if not dims or not dims <= {*array.private_to}:
            return 0
        short = written_out(statement.loops, dims)
        if prod(short.values()) > MOST_WRITTEN_OUT:
            return 0
        for access, _ in touches(statement, array.name):
            if len(access.parts) != 1 or access.load.swapped is not None:
                return 0
            for part in access.load.index:
                terms = linear(part)
                if terms is None or not terms.keys() - {""} <= short.keys():
                    return 0
    return elements


def written_out(loops: Sequence[Loop], dims: Container[str] = ()) -> dict[str, int]:
    """The iterations of those of the loops, but for `dims`, that have so few that they may be written out."""
    trips = {
        loop.iterator: constant_value(trip_count(loop.lower, loop.upper, loop.step))
        for loop in loops
        if loop.iterator not in dims and not loop.unknown
    }
    return {name: count for name, count in trips.items() if count is not None and 0 < count <= MOST_ELEMENTS}


def _where(statement: Statement, placed: Placed, group: Group, prefix: tuple[str, ...]):
    """{ S[...] -> [host, dims, prefix] }."""
    host = [loop.iterator for loop in group.scope.host] if group.scope else []
    values: list[dict[str, int]] = [{iterator: 1} for iterator in host]
    values += [placed.coordinate(dim).position() for dim in group.dims]
    values += [{iterator: 1} for iterator in prefix]
    relation = affine_map(statement.domain, values)
    assert relation.dim(IN) == len(statement.loops)
    return relation


def _is_sequential(
    iterator: str,
    where: Sequence[tuple[Group, Statement]],
    groups: Sequence[tuple[Group, Hosts]],
) -> bool:
    """All users stand in one and the same serial or host loop over `iterator`, so one copy of
    the storage serves all its iterations in turn."""
    hosts = {id(group): host for group, host in groups}
    if len(loops := {hosts[id(group)].get(iterator) for group, _ in where}) == 1 and None not in loops:
        return True
    if len({id(group) for group, _ in where}) != 1:
        return False
    group = where[0][0]
    dims = {c.iterator for p in group.members for c in p.coordinates}
    units = {id(p.unit): p.unit for p in group.members for _, s in where if s.id in p.unit.ids}
    # A reduction's own loop is dealt out; what else the group runs, one thread does behind it.
    is_dealt = group.legality is Legality.REDUCED and any(unit.carried for unit in units.values())
    return iterator not in dims and len(units) == 1 and not is_dealt
