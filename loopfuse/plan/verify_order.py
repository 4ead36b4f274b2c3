"""The short way to prove a buffer: the tree keeps the program's storage and its order.

Where a buffer holds each element of its array at its own place, every writing instance runs once,
and every flow, anti and output dependence over the array runs forward in the tree's order, each
read finds what it finds in the program, and so does the caller in the end. Nothing about which
write is the last has to be computed again.
"""

from __future__ import annotations

from typing import Any

from loopfuse.lang.affine import is_checked
from loopfuse.plan.looptree import Global
from loopfuse.plan.verify_accesses import Accesses, Read, Write
from loopfuse.plan.verify_events import READ, WRITE, Leaf, compare_times
from loopfuse.poly import isl
from loopfuse.poly.deps import names_one_place
from loopfuse.poly.model import Dependence, Dependences


def keeps_order(accesses: Accesses, deps: Dependences, name: str) -> bool:
    """Is buffer `name` proved this way? (False only means: not this way.)"""
    events = accesses.events
    buffer = events.buffers[name]
    array = events.program.arrays.get(buffer.array)
    reads, writes = accesses.reads.get(name, []), accesses.writes.get(name, [])
    if array is None or array.private_to or not isinstance(buffer.home, Global):
        return False
    if any(read.statement is None for read in reads):
        return False
    if any(write.leaf.name not in accesses.instances for write in writes):
        return False
    if not all(_keeps_place(accesses, access, array.name) for access in (*writes, *reads)):
        return False
    if not _runs_once(accesses, writes, array.name):
        return False
    by_statement: dict[tuple[str, int], dict[str, Leaf]] = {}
    for access in (*writes, *reads):
        moment = WRITE if isinstance(access, Write) else READ
        key = (accesses.statement_of(access.leaf).id, moment)
        by_statement.setdefault(key, {})[access.leaf.name] = access.leaf
    ends = {"flow": (WRITE, READ), "anti": (READ, WRITE), "output": (WRITE, WRITE)}
    for each in deps.all:
        if each.array == array.name:
            first, second = ends[each.kind]
            for source in by_statement.get((each.source, first), {}).values():
                for sink in by_statement.get((each.sink, second), {}).values():
                    if not _runs_forward(accesses, each, (source, first), (sink, second)):
                        return False
    return True


def _keeps_place(accesses: Accesses, access: Read | Write, array: str) -> bool:
    """Does the access touch the very element that the program's access touches?"""
    statement = accesses.statement_of(access.leaf)
    wanted = statement.reads[access.number] if isinstance(access, Read) else statement.write
    for name, relation in wanted.parts:
        # Where the access depends on data, the subscripts are the statement's own: both relations
        # then have all the elements it may be.
        checked = any(is_checked(subscript) for subscript in wanted.load.index)
        if name == array and (checked or names_one_place(wanted)):
            instance = accesses.instances[access.leaf.name]
            element = instance.apply_range(relation).set_tuple_name(isl.OUT, access.load.array)
            cell = access.cell.set_tuple_name(isl.IN, access.leaf.name)
            return bool(cell.is_subset(element))
    return False


def _runs_once(accesses: Accesses, writes: list[Write], array: str) -> bool:
    """Does every instance that writes the array run, and none twice?"""
    for statement in accesses.events.program.statements:
        for name, relation in statement.write.parts:
            if name != array:
                continue
            leaves = [w.leaf for w in writes if accesses.statement_of(w.leaf) is statement]
            instances = [accesses.instances[leaf.name] for leaf in leaves]
            needed = relation.domain().intersect_params(accesses.events.program.context)
            if not instances:
                if needed.is_empty():
                    continue
                return False
            if not isl.union_of(instances).is_injective():
                return False
            if not needed.is_subset(_all_of(instances)):
                return False
    return True


def _all_of(instances: list[Any]) -> Any:
    """The ranges of { leaf -> instance } maps, together."""
    found = instances[0].range()
    for each in instances[1:]:
        found = found.union(each.range())
    return found


def _runs_forward(
    accesses: Accesses, each: Dependence, first: tuple[Leaf, int], second: tuple[Leaf, int]
) -> bool:
    """Does the source's moment come before the sink's, for all pairs of the dependence?"""
    (source, moment), (sink, later) = first, second
    events = accesses.events
    order = compare_times(events.time_of(source, moment), events.time_of(sink, later))
    if order is not None:
        return order
    pairs = accesses.instances[source.name].apply_range(each.relation)
    pairs = pairs.apply_range(accesses.instances[sink.name].reverse())
    return bool(pairs.intersect(events.not_before(first, second)).is_empty())
