"""A reduction whose order changed: does every update still count exactly once?

An accumulator's value is taken as the set of what went into it. A neutral element starts an empty
set, an update adds itself, a Fold adds what the other accumulator holds, a Combine adds what the
copies of the other threads hold, a Copy moves a set, any other write starts a set of its own
value, and a caller's array starts with what it held. From each reader the contributions are
followed backwards: { update's leaf -> reader }, through every Fold, Combine and Copy. No
contribution may arrive by two ways, and those that arrive must be the ones that the program asks
for: all updates of the element read, and what the first of them found there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loopfuse.base.dtypes import DType
from loopfuse.lang.nodes import Binary, Compare, Const, Expr, Iter
from loopfuse.lang.semantics import neutral
from loopfuse.plan.looptree import Combine, Compute, Copy, Fold
from loopfuse.plan.verify_accesses import Accesses, Read, Write
from loopfuse.plan.verify_chains import find_chain, has_episodes
from loopfuse.plan.verify_events import READ, WRITE, Leaf, Time, Undecided, compare_times
from loopfuse.poly import isl
from loopfuse.poly.deps import flow_of_read
from loopfuse.poly.model import Dependences, Statement

INITIAL = "@initial"
"""The name of what the caller's array held, among contributions."""

UNDEFINED = "@undefined"
"""The name of what a Combine leaves in all copies but the first."""


@dataclass(frozen=True, slots=True)
class Touch:
    """Something that touches a cell: { event -> cell }, { event -> time }, and that time."""

    cell: Any
    when: Any
    time: Time


@dataclass(frozen=True, slots=True)
class Reader:
    """Something that reads a result, named `name`, and its { name -> array element }. `wanted` are
    the values that the dependences name: { name -> value }."""

    name: str
    buffer: str
    touch: Touch
    element: Any
    wanted: tuple[Any, ...]
    what: str


def reductions_into(statements: Sequence[Statement], array: str) -> list[Statement]:
    """The updates of reductions into `array`."""
    return [s for s in statements if s.target.array == array and s.reduction and s.kind != "init"]


def check_reduction(
    accesses: Accesses, deps: Dependences, array: str, unproved: list[Read], end: Reader | None
) -> str | None:
    """What is wrong with the reduction into `array`; None if nothing is. `unproved` are its reads
    that do not find the very value that the program's order gives; `end` is the caller."""
    program = accesses.events.program
    updates = reductions_into(program.statements, array)
    if len(updates) != 1:
        raise Undecided(f"{array} is written by more than one reduction")
    return _Reduction(accesses, deps, updates[0]).check(unproved, end)


class _Wrong(Exception):
    """The reduction is wrong; says how."""


class _Reduction:
    def __init__(self, accesses: Accesses, deps: Dependences, update: Statement) -> None:
        self.accesses, self.events, self.deps = accesses, accesses.events, deps
        self.program = accesses.events.program
        self.update, self.array = update, update.target.array
        self.neutral = repr(neutral(update.reduction, update.target.dtype))
        self.writers = [s for s in self.program.statements if s.target.array == self.array]
        self.buffers = self._accumulators()
        # Per buffer: all its writes, and those that start a new set.
        self.touches: dict[str, list[Touch]] = {}
        self.resets: dict[str, list[Touch]] = {}
        self.gone: dict[str, Any | None] = {}  # { reset -> earlier write to the cell }
        self.kinds: dict[str, tuple[Write, str]] = {}  # by leaf
        self.takers: dict[str, list[Any]] = {}
        self.episodes = has_episodes(deps, update, self.writers)
        self.chain: Any = None

    def check(self, unproved: list[Read], end: Reader | None) -> str | None:
        try:
            for read in unproved:
                if read.buffer not in self.buffers:
                    raise _Wrong(f"{read.what} finds no result of {self.update.id}")
            if end is not None and end.buffer not in self.buffers:
                raise _Wrong(f"no result of {self.update.id} reaches {end.what}")
            for buffer in sorted(self.buffers):
                self._collect(buffer)
            self._check_updates()
            for reads in self.accesses.reads.values():
                for read in reads:
                    if (
                        read.array == self.array
                        and read.statement is not self.update
                        and read.buffer in self.buffers
                    ):
                        self._check_reader(self._reader(read))
            if end is not None:
                self._check_reader(end)
        except _Wrong as error:
            return str(error)
        return None

    # ------------------------------------------------------------------------- storage

    def _accumulators(self) -> set[str]:
        """The buffers that hold partial results of this reduction."""
        writes = [w for each in self.accesses.writes.values() for w in each]
        found = {
            write.load.array
            for write in writes
            if isinstance(write.leaf.node, Compute) and write.leaf.node.statement == self.update.id
        }
        while True:
            more = {
                write.load.array
                for write in writes
                if (read := self.accesses.moved.get(write.leaf.name)) and read.buffer in found
            }
            if more <= found:
                return found
            found |= more

    def _kind(self, leaf: Leaf) -> str:
        """What a write to an accumulator does to the set in it."""
        match leaf.node:
            case Compute(statement=name) if name == self.update.id:
                return "update"
            case Compute(statement=name):
                other = self.program.statement(name)
                return "reset" if other.kind == "init" and other in self.writers else "start"
            case Copy(value=Const(value=value)):
                return "reset" if repr(value) == self.neutral else "start"
            case Copy():
                return "move"
            case Fold(op=op) if op == self.update.reduction:
                return "fold"
            case Combine(op=op) if op == self.update.reduction:
                return "combine"
            case _:
                return "start"

    def _collect(self, buffer: str) -> None:
        touches: list[Touch] = []
        resets: list[Touch] = []
        for write in self.accesses.writes.get(buffer, []):
            kind = self._kind(write.leaf)
            touch = self._touch(write)
            touches.append(touch)
            self.kinds[write.leaf.name] = (write, kind)
            if kind == "combine":
                # Only the first copy is defined afterwards.
                others = write.cell.subtract_domain(self._first_of(write.leaf))
                resets.append(Touch(others, touch.when, touch.time))
            elif kind in ("reset", "move", "start"):
                resets.append(touch)
        self.touches[buffer] = touches
        self.resets[buffer] = [each for each in resets if not each.cell.is_empty()]
        gone = [e for reset in self.resets[buffer] for e in self._earlier(reset, touches)]
        self.gone[buffer] = isl.union_of(gone) if gone else None

    def _touch(self, write: Write) -> Touch:
        when = self.events.when(write.leaf, WRITE)
        return Touch(write.cell, when, self.events.time_of(write.leaf, WRITE))

    def _first_of(self, leaf: Leaf) -> Any:
        """The instances of a Combine that run on the first of its threads."""
        assert isinstance(leaf.node, Combine)
        zero = Const(0, DType.I64)
        condition: Expr = Compare("eq", Iter(leaf.node.over[0]), zero)
        for var in leaf.node.over[1:]:
            condition = Binary("and", condition, Compare("eq", Iter(var), zero), DType.BOOL)
        return leaf.points.intersect(leaf.reader.condition(condition)).set_tuple_name(leaf.name)

    def _check_updates(self) -> None:
        """Each update reads the accumulator it writes, and runs once; all that add to an
        accumulator find a set in it."""
        instances: list[Any] = []
        for write, kind in self.kinds.values():
            if kind in ("update", "fold", "combine"):
                self._unstarted(self._touch(write), write.load.array)
            if kind != "update":
                continue
            instances.append(write.value)
            own = [
                read
                for reads in self.accesses.reads.values()
                for read in reads
                if read.leaf is write.leaf and read.array == self.array
            ]
            # A predicated update also reads its target, to keep it where it does not update.
            count = 1 if self.update.predicate is None else 2
            if len(own) != count or any(read.load != write.load for read in own):
                raise Undecided(f"{self.update.id} does not update the accumulator it reads")
        if instances and not isl.union_of(instances).is_injective():
            raise _Wrong(f"an instance of {self.update.id} runs twice")

    # ------------------------------------------------------------------------- sets

    def _earlier(self, event: Touch, writes: list[Touch]) -> list[Any]:
        """{ event -> write } maps: writes to the event's cell before the event."""
        found: list[Any] = []
        for write in writes:
            order = compare_times(write.time, event.time)
            if order is False:
                continue
            same = event.cell.apply_range(write.cell.reverse())
            if order is None and not same.is_empty():
                same = same.intersect(event.when.lex_gt_map(write.when))
            if not same.is_empty():
                found.append(same)
        return found

    def _unstarted(self, event: Touch, buffer: str) -> Any | None:
        """The part of { event -> cell } where nothing started the set: only where the caller's
        array did."""
        rest = event.cell
        for each in self._earlier(event, self.resets[buffer]):
            rest = rest.subtract_domain(each.domain())
        if rest.is_empty():
            return None
        about = self.events.buffers[buffer]
        if about.argument and about.array == self.array:
            return rest
        raise _Wrong(f"{buffer} is used for {self.update.id} before it is set to neutral")

    def _contents(self, event: Touch, buffer: str) -> list[Any]:
        """What is in the event's cell: { write -> event } for the writes whose set is still there,
        and { @initial[cell] -> event }."""
        contents: list[Any] = []
        every = self._earlier(event, self.touches[buffer])
        gone = self.gone[buffer]
        if every and gone is not None:
            resets = self._earlier(event, self.resets[buffer])
            left = isl.union_of(every)
            if resets:
                left = left.subtract(isl.union_of(resets).apply_range(gone))
            every = isl.maps_of(left)
        contents = [each.reverse() for each in every if not each.is_empty()]
        initial = self._unstarted(event, buffer)
        if initial is not None:
            contents.append(initial.set_tuple_name(isl.OUT, INITIAL).reverse())
        return contents

    def _taken_by(self, read: Read) -> list[Any]:
        """`_contents` of a Fold's, Combine's or Copy's read, kept for all who ask."""
        if read.name not in self.takers:
            self.takers[read.name] = self._contents(self._read_touch(read), read.buffer)
        return self.takers[read.name]

    def _read_touch(self, read: Read) -> Touch:
        when = self.events.when(read.leaf, READ, read.name)
        return Touch(read.cell, when, self.events.time_of(read.leaf, READ))

    def _arrivals(self, reader: Reader) -> dict[str, Any]:
        """By leaf (or INITIAL): { leaf -> reader }, what its sets consist of."""
        found: dict[str, Any] = {}
        contents = self._contents(reader.touch, reader.buffer)
        self._follow(contents, found, frozenset())
        return found

    def _follow(
        self, contents: list[Any], found: dict[str, Any], path: frozenset[str]
    ) -> None:
        """Sort { write -> reader } maps into `found`, those of moves after following them."""
        for each in contents:
            name = isl.domain_name(each)
            write, kind = self.kinds.get(name, (None, "start"))
            if kind in ("update", "start"):
                self._arrive(name, each, found)
            if write is not None and kind == "combine":
                lost = each.subtract_domain(self._first_of(write.leaf))
                if not lost.is_empty():
                    self._arrive(UNDEFINED, lost, found)
            if write is None or kind in ("update", "start", "reset"):
                continue
            if name in path:
                raise Undecided(f"partial results go in a circle through {write.load.array}")
            read = self.accesses.moved[name]
            if read.buffer not in self.buffers:
                raise _Wrong(f"{read.buffer} holds no part of {self.update.id}")
            entering = self._entering(write.leaf, read, kind)  # { read -> write }
            inner: list[Any] = []
            for taken in self._taken_by(read):
                step = entering.apply_range(each)
                if not taken.is_single_valued():
                    self._check_once(taken, step)
                inner.append(taken.apply_range(step))
            self._follow([i for i in inner if not i.is_empty()], found, path | {name})

    def _arrive(self, name: str, each: Any, found: dict[str, Any]) -> None:
        if name not in found:
            found[name] = each
            return
        if not found[name].intersect(each).is_empty():
            raise _Wrong(f"an update of {self.update.id} is counted twice")
        found[name] = found[name].union(each)

    def _check_once(self, taken: Any, step: Any) -> None:
        """{ write -> read } and { read -> reader }: one way from a write to a reader?"""
        ways = taken.apply_range(step.domain_map().reverse())  # { write -> [read -> reader] }
        both = ways.reverse().range_product(step.range_map())
        if not both.is_injective():
            raise _Wrong(f"an update of {self.update.id} is counted twice")

    def _entering(self, leaf: Leaf, read: Read, kind: str) -> Any:
        """{ read -> write }: into which instances of the leaf's write its reads go.

        For a Combine, each thread's own copy stays in its cell (its write keeps the set); those
        of the other threads enter the first.
        """
        if kind != "combine":
            return leaf.relation([Iter(name) for name in leaf.names], leaf.name).set_tuple_name(
                isl.IN, read.name
            )
        assert isinstance(leaf.node, Combine)
        meet = [
            Const(0, DType.I64) if name in leaf.node.over else Iter(name) for name in leaf.names
        ]
        to_first = leaf.relation(meet, leaf.name).subtract_domain(self._first_of(leaf))
        return to_first.set_tuple_name(isl.IN, read.name)

    # ------------------------------------------------------------------------- the proof

    def _reader(self, read: Read) -> Reader:
        statement = read.statement
        assert statement is not None
        instance = self.accesses.instances[read.leaf.name].set_tuple_name(isl.IN, read.name)
        element = instance.apply_range(dict(statement.reads[read.number].parts)[self.array])
        touch = self._read_touch(read)
        return Reader(read.name, read.buffer, touch, element, read.wanted, read.what)

    def _check_reader(self, reader: Reader) -> None:
        """What arrives at the reader is what the program asks for, no less and no more."""
        required = self._required(reader)
        arrived = self._arrivals(reader)
        for name in dict.fromkeys([*required, *arrived]):
            want, have = required.get(name), arrived.get(name)
            if want is None and have is not None and not have.is_empty():
                raise _Wrong(f"{reader.what} finds what is no part of {self.update.id}")
            if want is None or want.is_empty():
                continue
            if have is None or not want.is_subset(have):
                raise _Wrong(f"{reader.what} misses an update of {self.update.id}")
            if not have.is_subset(want):
                raise _Wrong(f"{reader.what} finds more than the updates of {self.update.id}")

    def _required(self, reader: Reader) -> dict[str, Any]:
        """By leaf (or INITIAL): { leaf -> reader }, what the sets should consist of."""
        values: dict[str, Any] = {}  # by statement: { instance -> reader }

        def need(name: str, relation: Any) -> None:
            values[name] = values[name].union(relation) if name in values else relation

        for wanted in reader.wanted:
            source = isl.range_name(wanted)
            if source != self.update.id:
                need(source, wanted.reverse())
                continue
            if self.episodes:
                updates = wanted.apply_range(self._chain())  # { reader -> update }
                need(source, updates.reverse())
                for seed, relation in self._first(updates):
                    need(seed, relation)
                continue
            element = reader.element.intersect_domain(wanted.domain())  # { reader -> element }
            written = dict(self.update.write.parts)[self.array]  # { update -> element }
            need(source, written.apply_range(element.reverse()))
            for seed, relation in self._seeds(written):
                need(seed, relation.apply_range(element.reverse()))
        required: dict[str, Any] = {}
        for name, relation in values.items():
            if name == f"@{self.array}":
                initial = relation.set_tuple_name(isl.IN, INITIAL)
                required[INITIAL] = initial
                continue
            leaves = [n for n, (_, kind) in self.kinds.items() if kind in ("update", "start")]
            leaves = [n for n in leaves if self._runs(n, name)]
            if any(s.id == name and s.kind == "init" for s in self.writers):
                continue  # the neutral element
            run = None
            for leaf in leaves:
                instance = self.accesses.instances[leaf]
                required[leaf] = instance.apply_range(relation)
                run = instance.range() if run is None else run.union(instance.range())
            needed = relation.domain().intersect_params(self.program.context)
            if run is None or not needed.is_subset(run):
                raise _Wrong(f"{reader.what} misses an instance of {name}")
        return required

    def _runs(self, leaf: str, statement: str) -> bool:
        instance = self.accesses.instances.get(leaf)
        return instance is not None and isl.range_name(instance) == statement

    def _chain(self) -> Any:
        if self.chain is None:
            self.chain = find_chain(self.program, self.update, self.writers)
        return self.chain

    def _first(self, updates: Any) -> list[tuple[str, Any]]:
        """What the first of { reader -> update } find: (source, { value -> reader })."""
        update = self.update
        number = next(k for k, read in enumerate(update.reads) if read.array == self.array)
        sources, rest = flow_of_read(self.program, self.deps, update.id, number)
        found = [
            (name, relation.apply_range(updates.reverse()))
            for name, relation in sources.items()
            if name != update.id
        ]
        initial = updates.intersect_range(rest).apply_range(dict(update.write.parts)[self.array])
        if not initial.is_empty():
            if not self.program.arrays[self.array].is_argument:
                raise Undecided(f"{self.array} is reduced into without being set")
            name = f"@{self.array}"
            found.append((name, initial.reverse().set_tuple_name(isl.IN, name)))
        return found

    def _seeds(self, written: Any) -> list[tuple[str, Any]]:
        """What the first update of an element finds there: (source, { value -> element })."""
        update = self.update
        number = next(k for k, read in enumerate(update.reads) if read.array == self.array)
        sources, rest = flow_of_read(self.program, self.deps, update.id, number)
        seeds = [
            (name, relation.apply_range(written))
            for name, relation in sources.items()
            if name != update.id
        ]
        rest = rest.intersect_params(self.program.context)
        if not rest.is_empty():
            first = written.intersect_domain(rest).range()
            initial = first.identity().set_tuple_name(isl.IN, f"@{self.array}")
            if not self.program.arrays[self.array].is_argument:
                raise Undecided(f"{self.array} is reduced into without being set")
            seeds.append((f"@{self.array}", initial))
        return seeds
