"""What memory holds when a launch starts, for trees with windows: flow between launches, without
their threads.

A windowed tree has many dimensions (blocks, warps, lanes, steps, columns), and asking which of all
those instances wrote an element last is more than isl can do. But launches run one after the other.
So each launch is summed up first: which elements it writes in each iteration of the host's loops,
and the value of each. Between launches only the host's loops are left.

A read is answered so if nothing in its own launch writes what it reads.
"""

from __future__ import annotations

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

    def of_read(self, read: Read) -> list[Any] | None:
        """Maps { read -> value it finds }; None where this is not the way to tell."""
        sums = self.sums_of(read.buffer)
        if sums is None or any(is_checked(part) for part in read.load.index):
            return None
        event = self.events.launch_event(read.leaf.launch, self._rank(read.buffer))
        where = self._event_of(read.leaf, read.load.index, event.name)
        where = where.set_tuple_name(isl.IN, read.name).intersect_domain(read.cell.domain())
        own = [written for leaf, written, _ in sums if leaf.name == event.name]
        if any(not where.range().is_disjoint(written) for written in own):
            return None
        state = self._before(event, read.leaf.launch, read.buffer, sums)
        found = (isl.without_empty(where.apply_range(value)) for value in state)
        return [isl.simplified(each) for each in union_by_kind(found) if not each.is_empty()]

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
                touched = self._event_of(write.leaf, write.load.index, event.name)
                touched = touched.intersect_domain(write.cell.domain())
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
            values = [isl.without_divisions(kind) for kind in kinds.values()]
            if not _is_one_value_each(values):
                return None
            out.append((event, isl.without_divisions(written), values))
        return out

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


def _is_one_value_each(values: list[Any]) -> bool:
    """Has each event at most one value?"""
    for number, value in enumerate(values):
        if not value.is_single_valued():
            return False
        if any(not value.domain().is_disjoint(other.domain()) for other in values[:number]):
            return False
    return True
