"""What memory holds when a launch starts, for trees with windows: flow between launches, without
their threads.

A windowed tree has many dimensions (blocks, warps, lanes, steps, columns), and asking which of all
those instances wrote an element last is more than isl can do. But launches run one after the other.
So each launch is summed up first: which elements it writes in each iteration of the host's loops,
and the value of each. Between launches only the host's loops are left.

A read is answered so for what nothing in its own launch writes before it.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from loopfuse.lang.index import is_checked
from loopfuse.lang.nodes import Expr, Iter
from loopfuse.poly import isl
from loopfuse.proof.accesses import Read, Write, union_by_kind
from loopfuse.proof.events import READ, WRITE, Leaf, Time, Undecided

if TYPE_CHECKING:
    from loopfuse.proof.found import Values

Sum = tuple[Leaf, Any, list[Any]]
"""A launch: its event `launch[host, element]`, those that it writes, and { event -> value } maps."""


class Circle(Undecided):
    """A value was asked for while it was being found: it is a copy of itself, as far as nodes of the
    tree go."""


class Memory:
    """The states of memory between launches, each found when first asked for."""

    def __init__(self, values: Values) -> None:
        self.values, self.events = values, values.events
        self.sums: dict[str, list[Sum] | None] = {}
        self.under_way: set[str] = set()  # buffers whose sums are being made
        self.states: dict[tuple[int, str], list[Any]] = {}

    def of_read(self, read: Read) -> tuple[list[tuple[Write, Any]], list[Any]] | None:
        """(write, { read -> write it finds }) of its own launch, and maps { read -> value it finds } of those before; None where this is
        not the way to tell."""
        sums = self.sums_of(read.buffer)
        if sums is None or any(is_checked(part) for part in read.load.index):
            return None
        event = self.events.launch_event(read.leaf.launch, self._rank(read.buffer))
        where = self._event_of(read.leaf, read.load.index, event.name)
        where = where.set_tuple_name(isl.IN, read.name).intersect_domain(read.cell.domain())
        own: list[tuple[Write, Any]] = []
        if any(not where.range().is_disjoint(written) for leaf, written, _ in sums if leaf.name == event.name):
            own = self._own(read, where, event)
            for _, pairs in own:
                where = where.subtract_domain(pairs.domain())
        if where.is_empty():
            return own, []
        state = self._before(event, read.leaf.launch, read.buffer, sums)
        found = (isl.without_empty(where.apply_range(value)) for value in state)
        return own, [isl.simplified(each) for each in union_by_kind(found) if not each.is_empty()]

    def _own(self, read: Read, where: Any, event: Leaf) -> list[tuple[Write, Any]]:
        """(write, { read -> write it finds }) for { read -> launch[host, element] }, of writes in the read's launch."""
        leaf = read.leaf
        when, time = self.events.when(leaf, READ, read.name), self.events.time_of(leaf, READ)
        writes = {w.leaf.name: w for w in self.values.accesses.writes.get(read.buffer, []) if w.leaf.launch == leaf.launch}
        there = where.range()
        touched = [(write.leaf, self._touched(write, event), WRITE) for write in writes.values()]
        sources = [each for each in touched if not there.is_disjoint(each[1].range())]
        found = self.events.last_before(where, when, time, sources)
        return [(writes[each.name], pairs.reverse()) for each, pairs in found]

    def _touched(self, write: Write, event: Leaf) -> Any:
        """{ leaf -> launch[host, element] } of a write."""
        touched = self._event_of(write.leaf, write.load.index, event.name)
        return touched.intersect_domain(write.cell.domain())

    def at_end(self, cell: Any, when: Any, time: Time, buffer: str) -> list[Any] | None:
        """Maps { @end -> value it holds } for { @end -> cell }."""
        sums = self.sums_of(buffer)
        if sums is None:
            return None
        return [pairs.apply_range(value) for pairs, value in self._last(cell, when, time, sums)]

    # --------------------------------------------------------------------------- states

    def _before(self, event: Leaf, launch: int, buffer: str, sums: list[Sum]) -> list[Any]:
        """Maps { event -> value }: what the elements hold when the launch starts."""
        key = (launch, buffer)
        if key in self.states:
            return self.states[key]
        cell = self._cell_of(event, buffer)
        time = self.events.time_of(event, READ)
        found = self._last(cell, self.events.when(event, READ), time, sums)
        out = [pairs.apply_range(value) for pairs, value in found]
        rest = cell
        for pairs, _ in found:
            rest = rest.subtract_domain(pairs.domain())
        about = self.events.buffers[buffer]
        if about.argument:
            out.append(rest.set_tuple_name(isl.OUT, f"@{about.array}"))
        elif about.zeroed:
            out.append(event.relation([], "@0").intersect_domain(rest.domain()))
        if not _is_one_value_each(out):  # a reader that finds everything finds what it needs
            raise Undecided(f"what {buffer} holds before a launch is not one value")
        self.states[key] = [each for each in out if not each.is_empty()]
        return self.states[key]

    def _last(
        self, cell: Any, when: Any, time: Time, sums: list[Sum]
    ) -> list[tuple[Any, Any]]:
        """({ reader -> launch that wrote last }, { launch -> value }) for { reader -> cell }."""
        by_name = {leaf.name: values for leaf, _, values in sums}
        sources: list[tuple[Leaf, Any, int]] = []
        places: dict[str, Any] = {}
        for leaf, written, _ in sums:
            place = self._cell_of(leaf, isl.range_name(cell)).intersect_domain(written)
            sources.append((leaf, place, WRITE))
            places[leaf.name] = place
        out: list[tuple[Any, Any]] = []
        for leaf, pairs in self.events.last_before(cell, when, time, sources):
            # A launch has one time for all elements, so the answer is a launch: keep the element.
            same = cell.apply_range(places[leaf.name].reverse())
            back = pairs.reverse().intersect(same)
            out += [(back, value) for value in by_name[leaf.name]]
            if not by_name[leaf.name]:
                out.append((back, isl.empty_map(back.reverse().get_space())))
        return out

    # ----------------------------------------------------------------------------- sums

    def sums_of(self, buffer: str) -> list[Sum] | None:
        """What each launch does to `buffer`; None where this cannot be told."""
        if buffer in self.under_way:
            raise Circle(f"values are copied in a circle through {buffer}")
        if buffer not in self.sums:
            self.under_way.add(buffer)
            try:
                self.sums[buffer] = self._sum_up(buffer)
            finally:
                self.under_way.remove(buffer)
        return self.sums[buffer]

    def _sum_up(self, buffer: str) -> list[Sum] | None:
        by_launch: dict[int, list[Write]] = {}
        for write in self.values.accesses.writes.get(buffer, []):
            if any(is_checked(part) for part in write.load.index) or write.leaf.in_ticket:
                return None
            by_launch.setdefault(write.leaf.launch, []).append(write)
        out: list[Sum] = []
        for launch, writes in by_launch.items():
            event = self.events.launch_event(launch, self._rank(buffer))
            written: Any = None
            lost: Any = None  # what is written besides by what has no value
            kinds: dict[str, Any] = {}
            for write in writes:
                touched = self._touched(write, event)
                here = touched.range()
                written = here if written is None else written.union(here)
                rest = touched
                for value in self.values.written(write, True):
                    rest = rest.subtract_domain(value.domain())
                    one = touched.reverse().apply_range(value)
                    name = isl.range_name(one)
                    kinds[name] = kinds[name].union(one) if name in kinds else one
                junk = rest.range()
                lost = junk if lost is None else lost.union(junk)
            if lost is not None and not lost.is_empty():
                kinds = {name: kind.subtract_domain(lost) for name, kind in kinds.items()}
            values = [isl.as_one_piece(kind) for kind in kinds.values()]
            if not _is_one_value_each(values):
                if lost is not None and not lost.is_empty():
                    return None
                values = self._last_in_launch(writes, event)
            if values and (lost is None or lost.is_empty()):  # then these are all
                written = reduce(lambda one, other: one.union(other), (value.domain() for value in values))
            out.append((event, isl.as_one_piece(written), values))
        return out

    def _last_in_launch(self, writes: list[Write], event: Leaf) -> list[Any]:
        """{ event -> value } of a launch that writes elements several times: of each the last value."""
        kinds: dict[str, Any] = {}
        for group in self._apart(writes, event):
            for write, found in self._last_of(group, event):
                for value in self.values.written(write, True):
                    one = found.apply_range(value)
                    name = isl.range_name(one)
                    kinds[name] = kinds[name].union(one) if name in kinds else one
        return [isl.as_one_piece(kind) for kind in kinds.values()]

    def _apart(self, writes: list[Write], event: Leaf) -> list[list[Write]]:
        """The writes in groups that touch different elements."""
        groups: list[tuple[list[Write], Any]] = []
        for write in writes:
            there, members = self._touched(write, event).range(), [write]
            apart: list[tuple[list[Write], Any]] = []
            for group, places in groups:
                if places.is_disjoint(there):
                    apart.append((group, places))
                else:
                    members, there = [*group, *members], there.union(places)
            groups = [*apart, (members, there)]
        return [group for group, _ in groups]

    def _last_of(self, writes: list[Write], event: Leaf) -> list[tuple[Write, Any]]:
        """(write, { event -> its instance that is the last }) of writes of one launch."""
        out: list[tuple[Write, Any]] = []
        rest = [(write, self._touched(write, event)) for write in writes]
        while rest:
            found = next((each for each in rest if self._comes_last(*each, rest)), None)
            last = None if found is None else _last_along_one(found[1])
            if found is None or last is None:
                return out + self._last_in_order(rest, event)
            out.append((found[0], last.reverse()))
            done = found[1].range()
            left = [(write, touched.subtract_range(done)) for write, touched in rest if write is not found[0]]
            rest = [(write, touched) for write, touched in left if not touched.is_empty()]
        return out

    def _last_in_order(self, writes: list[tuple[Write, Any]], event: Leaf) -> list[tuple[Write, Any]]:
        """The same by the whole order in time, for (write, { leaf -> event })."""
        written = reduce(lambda one, other: one.union(other), (touched.range() for _, touched in writes))
        end = (1 << 20, *([0] * self.events.depth))
        when = isl.schedule_of(written.get_space(), end, written).set_tuple_name(isl.IN, event.name)
        by_name = {write.leaf.name: write for write, _ in writes}
        sources = [(write.leaf, touched, WRITE) for write, touched in writes]
        found = self.events.last_before(written.identity(), when, end, sources)
        return [(by_name[leaf.name], pairs.reverse()) for leaf, pairs in found]

    def _comes_last(self, write: Write, there: Any, others: list[tuple[Write, Any]]) -> bool:
        """Does a write come after all others wherever they touch an element that it touches?"""
        for other, elsewhere in others:
            if other is not write:
                after = self.events.after((write.leaf, WRITE), (other.leaf, WRITE))
                if not there.apply_range(elsewhere.reverse()).is_subset(after):
                    return False
        return True

    def _rank(self, buffer: str) -> int:
        return len(self.events.buffers[buffer].extents)

    @staticmethod
    def _cell_of(event: Leaf, buffer: str) -> Any:
        """{ launch[host, element] -> buffer[element] }."""
        elements: list[Expr] = [Iter(name) for name in event.names[len(event.host) :]]
        return event.relation(elements, buffer)

    @staticmethod
    def _event_of(leaf: Leaf, index: tuple[Expr, ...], name: str) -> Any:
        """{ leaf -> launch[host, element] }."""
        return leaf.relation([*(Iter(var) for var in leaf.host), *index], name)


def _last_along_one(touched: Any) -> Any | None:
    """The part of { instance -> element } where an element is touched last, if at most one dimension of instances, which are in the order of
    time, tells those of an element apart; None where several do. (No question of the whole order, which would be too much for isl.)"""
    if touched.is_injective():
        return touched
    for position in reversed(range(touched.dim(isl.IN))):
        if not touched.project_out(isl.IN, position, 1).is_injective():
            continue
        points = touched.domain()
        space = points.get_space().map_from_set()
        later = isl.universe_map(space).order_lt(isl.IN, position, isl.OUT, position)
        for other in range(touched.dim(isl.IN)):
            if other != position:
                later = later.equate(isl.IN, other, isl.OUT, other)
        return touched.subtract_domain(later.intersect_range(points).domain())
    return None


def _is_one_value_each(values: list[Any]) -> bool:
    """Has each event at most one value?"""
    for number, value in enumerate(values):
        if not value.is_single_valued():
            return False
        if any(not value.domain().is_disjoint(other.domain()) for other in values[:number]):
            return False
    return True
