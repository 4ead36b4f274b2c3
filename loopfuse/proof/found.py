"""Which values the reads of a tree find: the last write before each, and what that wrote."""

from __future__ import annotations

from typing import Any

from loopfuse.lang.index import is_checked
from loopfuse.lang.linear import constant_value
from loopfuse.lang.nodes import Load
from loopfuse.poly import isl
from loopfuse.proof.accesses import Accesses, Read, Write, union_by_kind
from loopfuse.proof.events import READ, WRITE, Leaf, Time
from loopfuse.proof.memory import Circle, Memory
from loopfuse.proof.windows import sources_in_window
from loopfuse.tree.looptree import Global, Register, modulus_of
from loopfuse.tree.walk import has_windows

Sources = tuple[list[tuple[Write, Any | None]], list[Any]]
"""(write, { read -> write it finds }), None for the same instance; and maps { read -> value }."""

PIECES = 200
"""How many pairs of pieces are few."""

FEW = 8
"""How many pieces are too few to look for empty ones among them."""

WRITERS = 4
"""Launches that write a buffer, from which on each is summed up for those that read it (of a strategy's versions all do,
and each read would compare all)."""

LAPS = 4
"""How often a trace may come by one read before it is taken to go in a circle."""


class Values:
    """The values that reads find, each found when first asked for.

    A Compute may calculate *junk*, from cells that are not filled yet or lie beyond its strip, in
    storage of a thread or a warp, as long as nothing that leaves it depends on that. So what
    writes to windows and strips is taken at its word here, and `proof/needs.py` says which of its
    instances must be right.
    """

    def __init__(self, accesses: Accesses) -> None:
        self.accesses, self.events = accesses, accesses.events
        self.found: dict[str, list[Any] | None] = {}
        self.straight: dict[tuple[str, int], dict[str, Write] | None] = {}  # by buffer, launch
        self.memory = Memory(self)
        self.windows: dict[str, list[tuple[Write, Any]] | None] = {}
        self.sources: dict[str, Sources] = {}
        self.has_windows = has_windows(self.events.tree)

    def at(self, buffer: str) -> dict[str, list[Any]]:
        """For each read of `buffer`: maps { read -> value it finds }, one a kind of value."""
        return {read.name: self.of(read) for read in self.accesses.reads.get(buffer, [])}

    def of(self, read: Read) -> list[Any]:
        """Maps { read -> value it finds }, one a kind of value. Raises Circle where some instance
        of a copy may find what another one of it wrote."""
        if read.name in self.found:
            found = self.found[read.name]
            if found is None:
                raise Circle(f"values are copied in a circle through {read.buffer}")
            return found
        self.found[read.name] = None
        try:
            found = self.found[read.name] = self.events.context.ask(lambda: self._of(read))
        finally:
            if self.found[read.name] is None:
                del self.found[read.name]  # another way may tell
        return found

    def of_needed(self, read: Read, needed: Any | None) -> list[Any]:
        """Maps { read -> value it finds } for the instances { read } that are needed (None: all).
        Copies that go in a circle as nodes of the tree need not do so as instances."""
        try:
            return self.of(read)
        except Circle:
            where = read.cell.domain()
            return self._trace(read, where if needed is None else where.intersect(needed), ())

    def _trace(self, read: Read, where: Any, way: tuple[str, ...]) -> list[Any]:
        """Maps { read -> value it finds } for some instances, followed from copy to copy: each
        looks only at those instances of the one before that it copies. `way`: the reads so far."""
        if where.is_empty():
            return []
        if way.count(read.name) >= LAPS:
            raise Circle(f"values are copied in a circle through {read.buffer}")
        sources, known = self._sources(read)
        values = [value.intersect_domain(where) for value in known]
        for write, pairs in sources:
            if pairs is None:
                pairs = where.identity().set_tuple_name(isl.OUT, write.leaf.name)
            here = pairs.intersect_domain(where)
            copied = self.accesses.copied.get(write.leaf.name)
            if write.value is not None:
                values.append(here.apply_range(write.value))
            elif copied is not None:
                there = here.range().set_tuple_name(copied.name)
                for value in self._trace(copied, there, (*way, read.name)):
                    value = value.set_tuple_name(isl.IN, write.leaf.name)
                    values.append(here.apply_range(value))
        return [value for value in values if not value.is_empty()]

    def in_window(self, read: Read) -> list[tuple[Write, Any]] | None:
        """(write, { read -> write it finds }) for a read of a window or a strip; None where
        another way must tell."""
        if read.name not in self.windows:
            self.windows[read.name] = sources_in_window(self, read)
        return self.windows[read.name]

    def _of(self, read: Read) -> list[Any]:
        sources, values = self._sources(read)
        found = values + [
            value.set_tuple_name(isl.IN, read.name) if pairs is None else _followed(pairs, value)
            for write, pairs in sources
            for value in self.written(write)
        ]
        return union_by_kind(each for each in found if not each.is_empty())

    def sources_of(self, read: Read) -> list[tuple[Write, Any | None]]:
        """(write, { read -> write it finds }) of a read of memory or a register, None for the same instance."""
        in_register = isinstance(self.events.buffers[read.buffer].home, Register)
        return (self._sources(read) if in_register else self._last_in_time(read))[0]

    def _sources(self, read: Read) -> Sources:
        """The writes that the read finds, and the values that it finds besides."""
        if read.name not in self.sources:
            self.sources[read.name] = self._last_writes(read)
        return self.sources[read.name]

    def _last_writes(self, read: Read) -> Sources:
        buffer = read.buffer
        window = self.in_window(read)
        if window is not None:
            return [(write, pairs) for write, pairs in window], []
        if self._is_summed_up(read) and isinstance(self.events.buffers[buffer].home, Global):
            just = None if self.has_windows or read.leaf.tile is not None else _just_written(read, self._own_writes(read))
            if just is not None:
                return [(just, None)], []
            found = self.memory.of_read(read)
            if found is not None:
                own, values = found
                return [(write, pairs) for write, pairs in own], values
        just = self.in_line(read)
        if just is not None:
            return [(just, None)], []
        return self._last_in_time(read)

    def _is_summed_up(self, read: Read) -> bool:
        """Is what other launches leave better found as a whole, and not write by write?"""
        writers = {write.leaf.launch for write in self.accesses.writes.get(read.buffer, [])}
        return self.has_windows or len(writers - {read.leaf.launch}) >= WRITERS

    def _own_writes(self, read: Read) -> list[Write]:
        """The writes of its launch that may touch what the read does."""
        here = self._constants(read.load)
        writes = {w.leaf.name: w for w in self.accesses.writes.get(read.buffer, []) if w.leaf.launch == read.leaf.launch}
        return [write for write in writes.values() if _may_meet(here, self._constants(write.load))]

    def _last_in_time(self, read: Read) -> Sources:
        """The same, where nothing but the order in time decides."""
        buffer, name = read.buffer, read.name
        writes = {write.leaf.name: write for write in self.accesses.writes.get(buffer, [])}
        here, launch = self._constants(read.load), read.leaf.launch
        meeting = [
            w
            for w in writes.values()
            if _may_meet(here, self._constants(w.load)) and not self.events.never_both(launch, w.leaf.launch)
        ]
        just = _just_written(read, meeting)
        if just is not None:
            return [(just, None)], []
        about = self.events.buffers[buffer]
        held_before = about.argument or about.zeroed
        last: list[tuple[Write, Any]] = []
        unwritten = read.cell
        sources = [(write.leaf, write.cell, WRITE) for write in meeting]
        when, time = self.events.when(read.leaf, READ, name), self.events.time_of(read.leaf, READ)
        for leaf, pairs in self.events.last_before(read.cell, when, time, sources):
            last.append((writes[leaf.name], pairs.reverse()))
            if held_before:
                unwritten = unwritten.subtract_domain(pairs.range())
        if about.argument:
            return last, [unwritten.set_tuple_name(isl.OUT, f"@{about.array}")]
        if about.zeroed:
            zero = read.leaf.relation([], "@0").set_tuple_name(isl.IN, name)
            return last, [zero.intersect_domain(unwritten.domain())]
        return last, []

    def _constants(self, load: Load) -> tuple[int | None, ...]:
        """The subscripts that are constant; None for others, and for those taken modulo."""
        home = self.events.buffers[load.array].home
        first = int(modulus_of(home) > 0)
        return tuple(
            None if position < first else constant_value(part)
            for position, part in enumerate(load.index)
        )

    def in_line(self, read: Read) -> Write | None:
        """The write before a read of a register, where the order of the text decides: every read
        of the register in the launch follows a write in the same body, with no write from
        elsewhere between them. None for any other buffer. (Registers of one launch are not those
        of another: what another does to a buffer of the same name does not matter.)"""
        key = (read.buffer, read.leaf.launch)
        if key not in self.straight:
            self.straight[key] = self._in_straight_line(*key)
        straight = self.straight[key]
        return None if straight is None else straight[read.name]

    def _in_straight_line(self, buffer: str, launch: int) -> dict[str, Write] | None:
        writes = [w for w in self.accesses.writes.get(buffer, []) if w.leaf.launch == launch]
        reads = [read for read in self.accesses.reads[buffer] if read.leaf.launch == launch]
        if not writes or not isinstance(self.events.buffers[buffer].home, Register):
            return None
        places = [_constant_place(access.load) for access in writes]
        if None in places:
            return None
        found: dict[str, Write] = {}
        for read in reads:
            place = _constant_place(read.load)
            last: Write | None = None
            for write, there in zip(writes, places, strict=True):
                if there == place and write.leaf.number < read.leaf.number:
                    last = write
            if place is None or last is None:
                return None
            if not (_same_body(last.leaf, read.leaf) or _leads_to(last.leaf, read, True)):
                return None
            found[read.name] = last
        return found

    def in_branches(self, read: Read) -> list[tuple[Write, Any]] | None:
        """(write, { read -> write it finds }) for a read of a register where the order of the text
        decides, but some of the writes before it stand under guards of their own: what the last of
        them that runs left. None where not every instance finds one in the same iteration."""
        if not isinstance(self.events.buffers[read.buffer].home, Register):
            return None
        place, rest = _constant_place(read.load), read.cell.domain().reset_tuple_id()
        found: list[tuple[Write, Any]] = []
        for write in sorted(
            self.accesses.writes.get(read.buffer, []), key=lambda each: -each.leaf.number
        ):
            leaf = write.leaf
            if leaf.launch != read.leaf.launch or leaf.number >= read.leaf.number:
                continue
            there = _constant_place(write.load)
            if place is None or there is None:
                return None
            if there != place:
                continue
            if not _stands_before(leaf, read, True):
                return None
            here = rest.intersect(leaf.points)
            if not here.is_empty():
                pairs = here.identity().set_tuple_name(isl.IN, read.name)
                found.append((write, pairs.set_tuple_name(isl.OUT, leaf.name)))
            rest = rest.subtract(leaf.points)
            if rest.is_empty():
                return found
        return None

    def written(self, write: Write, to_memory: bool = False) -> list[Any]:
        """Maps { writing leaf -> value it writes }; none for what is no value of one instance.
        `to_memory`: what instances write there, if the rest cannot be told."""
        if write.value is not None:
            return [write.value]
        copied = self.accesses.copied.get(write.leaf.name)
        if copied is None:
            return []
        found = self.of_needed(copied, None) if to_memory else self.of(copied)
        return [value.set_tuple_name(isl.IN, write.leaf.name) for value in found]


def _followed(pairs: Any, value: Any) -> Any:
    """{ read -> value } by way of the write. Bounds split both into pieces, each of which meets each of
    the other: where these are many, those of the pairs that fit are put together first, and what met nothing is left
    out, which would be carried from copy to copy and doubled by each."""
    if pairs.n_basic_map() * value.n_basic_map() > PIECES:
        pairs = isl.simplified(pairs)
    met = pairs.apply_range(value)
    return isl.without_empty(met) if met.n_basic_map() > FEW else met


def _just_written(read: Read, writes: list[Write]) -> Write | None:
    """The write in the same list of nodes (or one around the guards of the read), at the same
    place, after which nothing writes there before the read: `writes` are those that may. None
    where that does not show in the text."""
    before = [write for write in writes if write.leaf.number < read.leaf.number]
    if not before:
        return None
    last = before[-1]
    # A checked subscript may be another place in each run of it.
    plain = not any(is_checked(part) for part in read.load.index)
    if not (plain and last.load.index == read.load.index and _leads_to(last.leaf, read)):
        return None
    return last


def _may_meet(one: tuple[int | None, ...], other: tuple[int | None, ...]) -> bool:
    """False where constant subscripts differ: most questions about an array of few planes."""
    return all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))


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


def _leads_to(one: Leaf, read: Read, private: bool = False) -> bool:
    """Does every instance of the read come after one of the leaf, as `_stands_before` has it?"""
    if not _stands_before(one, read, private):
        return False
    if one.points is read.leaf.points:
        return True
    return bool(read.cell.domain().reset_tuple_id().is_subset(one.points))


def _stands_before(one: Leaf, read: Read, private: bool = False) -> bool:
    """Does the read come after the leaf in the same iteration of all
    loops, with only nodes between them that stand between them in the text? Either may be under
    guards of its own, but under no loop: what stands behind it in a loop comes before it in the
    next iteration. `private`: as one thread sees it, which runs its nodes in order whatever the
    others do."""
    other = read.leaf
    first, second = (_own_time(leaf) if private else leaf.time for leaf in (one, other))
    if one.names != other.names:
        return False
    depth = next((k for k, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
    # No loop and no change of threads from here on, so that time follows the text.
    if depth is None or not all(isinstance(p, int) for p in (*first[depth:], *second[depth:])):
        return False
    return one.launch == other.launch and one.in_ticket == other.in_ticket


def _own_time(leaf: Leaf) -> Time:
    """The time of a leaf among what its thread does."""
    threads = {loop.var for loop in leaf.chain}
    return tuple(part for part in leaf.time if isinstance(part, int) or part[0] not in threads)
