"""The short way to prove a buffer: the tree keeps the program's storage and its order.

Where a buffer holds each element of its array at its own place, every writing instance runs once,
and every flow, anti and output dependence over the array runs forward in the tree's order, each
read finds what it finds in the program, and so does the caller in the end. Nothing about which
write is the last has to be computed again. What the program reads before anything wrote it is there
if the caller passed it, or if it is zeroed.

An array of an iteration's own (a `temp` inside a loop) is a new one in each. Two iterations either
have places of their own, or one follows the other: all accesses of the first come before all of the
second, which reads nothing but what it wrote itself.
"""

from __future__ import annotations

from typing import Any

from loopfuse.lang.index import is_checked
from loopfuse.poly import isl
from loopfuse.poly.deps import flow_of_read, names_one_place
from loopfuse.poly.model import Array, Dependence, Dependences
from loopfuse.proof.accesses import Accesses, Read, Write
from loopfuse.proof.events import READ, WRITE, Leaf, compare_times
from loopfuse.tree.looptree import Global


def keeps_order(accesses: Accesses, deps: Dependences, name: str) -> bool:
    """Is buffer `name` proved this way? (False only means: not this way.)"""
    events = accesses.events
    buffer = events.buffers[name]
    array = events.program.arrays.get(buffer.array)
    # A read that moves a value (into a window) is judged by who reads that value in the end.
    reads = [read for read in accesses.reads.get(name, []) if read.statement is not None]
    writes = accesses.writes.get(name, [])
    if array is None or not isinstance(buffer.home, Global):
        return False
    if array.private_to and not any(_is_anywhere(read) for read in reads):
        return False  # the other way answers this faster
    if any(write.leaf.name not in accesses.instances for write in writes):
        return False
    if not all(keeps_place(accesses, access, array) for access in (*writes, *reads)):
        return False
    own = not array.private_to or _has_own_places(accesses, array, [*writes, *reads])
    initial = own and (buffer.argument or buffer.zeroed)  # what the program finds before any write
    if not initial and not all(_is_written_before(accesses, deps, read) for read in reads):
        return False
    if not own and not _follow_each_other(accesses, array, writes, reads):
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


def _is_anywhere(read: Read) -> bool:
    """Is it known only when it runs which element the program reads?"""
    return read.statement is not None and not names_one_place(read.statement.reads[read.number])


def _element(accesses: Accesses, access: Read | Write, array: Array) -> Any | None:
    """{ leaf -> element, behind the iteration it is private to } of the program's access; None
    where it is not known which that is."""
    statement = accesses.statement_of(access.leaf)
    wanted = statement.reads[access.number] if isinstance(access, Read) else statement.write
    for name, relation in wanted.parts:
        # Where the access depends on data, or isl cannot express it, the subscripts are the
        # statement's own: both relations then have all the elements it may be.
        checked = any(is_checked(subscript) for subscript in wanted.load.index)
        same = checked or isinstance(access, Read) or names_one_place(wanted)
        if name == array.name and same:
            return accesses.instances[access.leaf.name].apply_range(relation)
    return None


def keeps_place(accesses: Accesses, access: Read | Write, array: Array) -> bool:
    """Does the access touch the very element that the program's access touches? (In which copy of
    a private array is not asked; of any other there is one.)"""
    element = _element(accesses, access, array)
    copies = len(access.load.index) - len(array.extents)
    if element is None or copies < 0 or (copies and not array.private_to):
        return False
    element = element.project_out(isl.OUT, 0, len(array.private_to))
    cell = access.cell.project_out(isl.OUT, 0, copies)
    cell = cell.set_tuple_name(isl.IN, access.leaf.name)
    name = access.load.array
    return bool(
        cell.set_tuple_name(isl.OUT, name).is_subset(element.set_tuple_name(isl.OUT, name))
    )


def _copy(accesses: Accesses, access: Read | Write, array: Array) -> tuple[Any, Any]:
    """{ leaf -> iteration that the array is private to } and { leaf -> copy that is accessed }."""
    element = _element(accesses, access, array)
    assert element is not None  # `keeps_place` has seen to that
    copies = len(access.load.index) - len(array.extents)
    cell = access.cell.set_tuple_name(isl.IN, access.leaf.name)
    rank = len(array.extents)
    private = element.project_out(isl.OUT, len(array.private_to), rank)
    place = cell.project_out(isl.OUT, copies, rank)
    return private.set_tuple_name(isl.OUT, "private"), place.set_tuple_name(isl.OUT, "copy")


def _has_own_places(accesses: Accesses, array: Array, every: list[Read | Write]) -> bool:
    """Has each iteration that the array is private to one copy, which no other has?"""
    pairs = [_copy(accesses, access, array) for access in every]
    places = isl.union_of([private.reverse().apply_range(place) for private, place in pairs])
    return bool(places.is_single_valued() and places.is_injective())


def _is_written_before(accesses: Accesses, deps: Dependences, read: Read) -> bool:
    """Does the program read only what it has written (all elements that it may be)?"""
    assert read.statement is not None
    program = accesses.events.program
    _, rest = flow_of_read(program, deps, read.statement.id, read.number)
    return bool(accesses.instances[read.leaf.name].intersect_range(rest).is_empty())


def _follow_each_other(
    accesses: Accesses, array: Array, writes: list[Write], reads: list[Read]
) -> bool:
    """Of two iterations that share a copy, do all accesses of one come before those of the other?
    (They follow each other in the order of their values, up or down.)"""
    events = accesses.events
    late: list[bool] = [False, False]  # some does not, going up; going down
    every: list[tuple[Read | Write, Any, Any]] = [
        (access, *_copy(accesses, access, array)) for access in (*writes, *reads)
    ]
    for one, first, here in every:
        for other, second, there in every:
            if isinstance(one, Read) and isinstance(other, Read):
                continue
            ends = [
                (access.leaf, WRITE if isinstance(access, Write) else READ) for access in (one, other)
            ]
            pairs = here.apply_range(there.reverse()).intersect(events.not_before(*ends))
            for way, later in enumerate((first.lex_lt_map(second), first.lex_gt_map(second))):
                late[way] = late[way] or not pairs.intersect(later).is_empty()
            if all(late):
                return False
    return True


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
    if order:
        return True
    pairs = accesses.instances[source.name].apply_range(each.relation)
    pairs = pairs.apply_range(accesses.instances[sink.name].reverse())
    if order is False:  # of launches of which sizes say which runs, but one does
        return bool(pairs.is_empty())
    return bool(pairs.intersect(events.not_before(first, second)).is_empty())
