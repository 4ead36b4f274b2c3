"""Which values the reads of a tree find: the last write before each, and what that wrote."""

from __future__ import annotations

from typing import Any

from loopfuse.lang.nodes import Load
from loopfuse.plan.linear import constant_value
from loopfuse.plan.looptree import Register
from loopfuse.plan.verify_accesses import Accesses, Write
from loopfuse.plan.verify_events import READ, WRITE, Leaf, Undecided
from loopfuse.poly import isl


class Values:
    """The values that reads find, buffer by buffer, each found when first asked for."""

    def __init__(self, accesses: Accesses) -> None:
        self.accesses, self.events = accesses, accesses.events
        self.found: dict[str, dict[str, list[Any]] | None] = {}

    def at(self, buffer: str) -> dict[str, list[Any]]:
        """For each read of `buffer`: maps { read -> value it finds }, one a kind of value."""
        if buffer in self.found:
            found = self.found[buffer]
            if found is None:
                raise Undecided(f"values are copied in a circle through {buffer}")
            return found
        self.found[buffer] = None
        straight = self._in_straight_line(buffer)
        if straight is not None:
            self.found[buffer] = straight
            return straight
        reads = {read.name: read for read in self.accesses.reads.get(buffer, [])}
        writes = {write.leaf.name: write for write in self.accesses.writes.get(buffer, [])}
        values: dict[str, list[Any]] = {name: [] for name in reads}
        unwritten = {name: read.cell for name, read in reads.items()}
        sources = [(write.leaf, write.cell, WRITE) for write in writes.values()]
        for name, read in reads.items():
            when, time = self.events.when(read.leaf, READ, name), self.events.time_of(read.leaf, READ)
            for leaf, pairs in self.events.last_before(read.cell, when, time, sources):
                back = pairs.reverse()
                values[name] += [
                    back.apply_range(value) for value in self.written(writes[leaf.name])
                ]
                unwritten[name] = unwritten[name].subtract_domain(pairs.range())
        about = self.events.buffers[buffer]
        for name, rest in unwritten.items():
            if about.argument:
                values[name].append(rest.set_tuple_name(isl.OUT, f"@{about.array}"))
            elif about.zeroed:
                zero = reads[name].leaf.relation([], "@0").set_tuple_name(isl.IN, name)
                values[name].append(zero.intersect_domain(rest.domain()))
        self.found[buffer] = values
        return values

    def _in_straight_line(self, buffer: str) -> dict[str, list[Any]] | None:
        """`at` for registers whose every read follows a write in the same body, with no
        write from elsewhere between them, so that the order of the text decides; None for any
        other buffer."""
        writes, reads = self.accesses.writes.get(buffer, []), self.accesses.reads[buffer]
        if not writes or not isinstance(self.events.buffers[buffer].home, Register):
            return None
        places = [_constant_place(access.load) for access in writes]
        if None in places:
            return None
        values: dict[str, list[Any]] = {}
        for read in reads:
            place = _constant_place(read.load)
            last: Write | None = None
            for write, there in zip(writes, places, strict=True):
                if there == place and write.leaf.number < read.leaf.number:
                    last = write
            if place is None or last is None or not _same_body(last.leaf, read.leaf):
                return None
            found = self.written(last)
            values[read.name] = [value.set_tuple_name(isl.IN, read.name) for value in found]
        return values

    def written(self, write: Write) -> list[Any]:
        """Maps { writing leaf -> value it writes }; none for what is no value of one instance."""
        if write.value is not None:
            return [write.value]
        copied = self.accesses.copied.get(write.leaf.name)
        if copied is None:
            return []
        values = self.at(copied.buffer)[copied.name]
        return [value.set_tuple_name(isl.IN, write.leaf.name) for value in values]


def _constant_place(load: Load) -> tuple[int, ...] | None:
    """The subscripts, where all are constant."""
    place: list[int] = []
    for part in load.index:
        value = constant_value(part)
        if value is None:
            return None
        place.append(value)
    return tuple(place)


def _same_body(one: Leaf, other: Leaf) -> bool:
    """Do the two stand in one list of nodes, with the same loops and guards around them?"""
    return (
        one.points is other.points
        and one.launch == other.launch
        and one.in_ticket == other.in_ticket
    )
