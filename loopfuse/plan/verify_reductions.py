"""A reduction whose order changed: does every update still count exactly once?

An accumulator's value is taken as the set of update instances that went into it. A neutral
element starts an empty set, an update adds itself, a Fold adds what the other accumulator holds, a
Combine adds what the copies of the other threads hold, a Copy moves a set. What a reader finds is
then a relation { reader -> update }, which must be one-to-one along the way and equal to what the
program asks for: all updates of the element it reads.
"""

from __future__ import annotations

from typing import Any

from loopfuse.base.dtypes import DType
from loopfuse.lang.nodes import Binary, Compare, Const, Expr, Iter
from loopfuse.plan.looptree import Combine, Compute, Copy, Fold
from loopfuse.plan.verify_events import READ, WRITE, Accesses, Leaf, Read, Undecided, Write
from loopfuse.poly import isl
from loopfuse.poly.model import Statement


def check_reduction(accesses: Accesses, array: str) -> str | None:
    """What is wrong with the reduction into the scalar `array`; None if nothing is."""
    program = accesses.events.program
    updates = [s for s in program.statements if s.target.array == array and s.kind == "update"]
    inits = [s for s in program.statements if s.target.array == array and s.kind == "init"]
    others = [s for s in program.statements if s.target.array == array]
    if len(updates) != 1 or len(inits) != 1 or len(others) != 2:
        raise Undecided(f"{array} is written by more than one reduction")
    return _Reduction(accesses, updates[0], inits[0]).check()


class _Wrong(Exception):
    """The reduction is wrong; says how."""


class _Reduction:
    def __init__(self, accesses: Accesses, update: Statement, init: Statement) -> None:
        self.accesses, self.events = accesses, accesses.events
        self.update, self.init = update, init
        self.array = update.target.array
        self.buffers = self._accumulators()
        self.totals: dict[str, Any | None] = {}
        # Per buffer: all its writes { leaf -> cell }, when, and those that start a new set.
        self.cells: dict[str, Any] = {}
        self.whens: dict[str, Any] = {}
        self.resets: dict[str, Any] = {}
        self.adding: dict[str, list[tuple[Write, str]]] = {}

    def check(self) -> str | None:
        try:
            for buffer in sorted(self.buffers):
                self._collect(buffer)
            for reads in self.accesses.reads.values():
                for read in reads:
                    if read.array == self.array:
                        self._check_read(read)
            for buffer in sorted(self.buffers):
                for write, kind in self.adding[buffer]:
                    if kind in ("update", "fold", "combine"):
                        self._check_started(write.cell, self.events.when(write.leaf, WRITE), buffer)
        except _Wrong as error:
            return str(error)
        return None

    # ------------------------------------------------------------------------- storage

    def _accumulators(self) -> set[str]:
        """The buffers that hold partial results of this reduction."""
        found = {
            write.load.array
            for writes in self.accesses.writes.values()
            for write in writes
            if isinstance(write.leaf.node, Compute) and write.leaf.node.statement == self.update.id
        }
        while True:
            more = {
                write.load.array
                for writes in self.accesses.writes.values()
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
            case Compute(statement=name) if name == self.init.id:
                return "reset"
            case Copy(value=Const() as value):
                start = self.init.value
                same = isinstance(start, Const) and repr(start.value) == repr(value.value)
                return "reset" if same and start.dtype is value.dtype else "foreign"
            case Copy():
                return "move"
            case Fold(op=op) if op == self.update.reduction:
                return "fold"
            case Combine(op=op) if op == self.update.reduction:
                return "combine"
            case _:
                return "foreign"

    def _collect(self, buffer: str) -> None:
        cells: list[Any] = []
        whens: list[Any] = []
        resets: list[Any] = []
        self.adding[buffer] = []
        for write in self.accesses.writes.get(buffer, []):
            kind = self._kind(write.leaf)
            cells.append(write.cell)
            whens.append(self.events.when(write.leaf, WRITE))
            self.adding[buffer].append((write, kind))
            if kind == "combine":
                # Only the first copy is defined afterwards.
                first = self._first_of(write.leaf)
                resets.append(write.cell.subtract_domain(first))
            elif kind in ("reset", "move", "foreign"):
                resets.append(write.cell)
            if kind == "update":
                self._check_update(write)
        self.cells[buffer] = isl.union_of(cells)
        self.whens[buffer] = isl.union_of(whens)
        resets = [each for each in resets if not each.is_empty()]
        if not resets:
            raise _Wrong(f"nothing sets {buffer} to the neutral element of {self.update.id}")
        self.resets[buffer] = isl.union_of(resets)

    def _check_update(self, write: Write) -> None:
        own = [
            read
            for reads in self.accesses.reads.values()
            for read in reads
            if read.leaf is write.leaf and read.array == self.array
        ]
        if len(own) != 1 or own[0].load != write.load:
            raise Undecided(f"{self.update.id} does not update the accumulator it reads")

    def _first_of(self, leaf: Leaf) -> Any:
        """The instances of a Combine that run on the first of its threads."""
        assert isinstance(leaf.node, Combine)
        zero = Const(0, DType.I64)
        condition: Expr = Compare("eq", Iter(leaf.node.over[0]), zero)
        for var in leaf.node.over[1:]:
            condition = Binary("and", condition, Compare("eq", Iter(var), zero), DType.BOOL)
        return leaf.points.intersect(leaf.reader.condition(condition)).set_tuple_name(leaf.name)

    # ------------------------------------------------------------------------- sets

    def _earlier(self, cell: Any, when: Any, buffer: str, writes: Any) -> Any:
        """{ event -> write }: writes to the event's cell before the event."""
        same = cell.apply_range(writes.reverse())
        return same.intersect(when.lex_gt_union_map(self.whens[buffer]))

    def _reach(self, cell: Any, when: Any, buffer: str) -> Any:
        """{ event -> write }: those writes whose set is still in the event's cell."""
        cell, when = isl.union_of([cell]), isl.union_of([when])
        every = self._earlier(cell, when, buffer, self.cells[buffer])
        resets = self._earlier(cell, when, buffer, self.resets[buffer])
        gone = self._earlier(self.resets[buffer], self.whens[buffer], buffer, self.cells[buffer])
        return every.subtract(resets.apply_range(gone))

    def _check_started(self, cell: Any, when: Any, buffer: str) -> None:
        cell, when = isl.union_of([cell]), isl.union_of([when])
        started = self._earlier(cell, when, buffer, self.resets[buffer]).domain()
        if not cell.domain().is_subset(started):
            raise _Wrong(f"{buffer} is used for {self.update.id} before it is set to neutral")

    def _total(self, read: Read) -> Any:
        """{ read -> update }: what a reader of an accumulator finds; each update once."""
        if read.name in self.totals:
            total = self.totals[read.name]
            if total is None:
                raise Undecided(f"partial results go in a circle through {read.buffer}")
            return total
        self.totals[read.name] = None
        when = self.events.when(read.leaf, READ, read.name)
        self._check_started(read.cell, when, read.buffer)
        reach = self._reach(read.cell, when, read.buffer)
        reached = {isl.range_name(each) for each in isl.maps_of(reach)}
        added: list[Any] = []
        for write, kind in self.adding[read.buffer]:
            if write.leaf.name in reached:
                added += self._added(write, kind)
        if not added:
            self.totals[read.name] = total = reach.subtract(reach)
            return total
        adds = isl.union_of(added)
        found = reach.range_map().apply_range(adds)
        paths = reach.domain_map().range_product(found)
        if not paths.is_injective():
            raise _Wrong(f"an update of {self.update.id} is counted twice in {read.buffer}")
        # Simplified once, as every set that this one goes into is made of it.
        total = reach.apply_range(adds).compute_divs().coalesce()
        self.totals[read.name] = total
        return total

    def _added(self, write: Write, kind: str) -> list[Any]:
        """{ writing leaf -> update }: what the write adds (or starts with)."""
        match kind:
            case "update":
                return [write.value]
            case "reset":
                return []
            case "foreign":
                return [write.leaf.relation([], "@foreign")]
            case _:
                pass
        read = self.accesses.moved[write.leaf.name]
        if read.buffer not in self.buffers:
            return [write.leaf.relation([], "@foreign")]
        maps = [
            each.set_tuple_name(isl.IN, write.leaf.name)
            for each in isl.maps_of(self._total(read))
        ]
        return self._gathered(write.leaf, maps) if kind == "combine" else maps

    def _gathered(self, leaf: Leaf, maps: list[Any]) -> list[Any]:
        """before: { combine[i, t] -> updates that thread t holds }
        after: { combine[i, 0] -> updates that threads t > 0 hold }, { combine[i, t > 0] -> lost }.
        """
        assert isinstance(leaf.node, Combine)
        first = self._first_of(leaf)
        others = leaf.points.set_tuple_name(leaf.name).subtract(first)
        meet = [
            Const(0, DType.I64) if name in leaf.node.over else Iter(name)
            for name in leaf.names
        ]
        to_first = leaf.relation(meet, leaf.name).intersect_domain(others)
        out = [to_first.reverse().apply_range(each) for each in maps]
        if maps:
            held = isl.union_of(maps).intersect_domain(isl.union_of([to_first]).domain())
            if not isl.union_of([to_first]).range_product(held).is_injective():
                raise _Wrong(f"two threads hold the same update of {self.update.id}")
        lost = leaf.relation([], "@foreign").intersect_domain(others)
        return [each for each in [*out, lost] if not each.is_empty()]

    # ------------------------------------------------------------------------- the proof

    def _check_read(self, read: Read) -> None:
        """A statement's read of the accumulator finds all updates of the element it names."""
        statement = read.statement
        assert statement is not None and isinstance(read.leaf.node, Compute)
        if statement is self.update:
            return  # checked where the sets are followed
        if read.buffer not in self.buffers:
            raise _Wrong(f"{read.what} reads no accumulator")
        own = {loop.iterator for loop in self.update.loops if loop.reduction}
        if own & set(statement.iterators):
            raise Undecided(f"{statement.id} reads {self.array} before it is complete")
        sources = {isl.range_name(each) for each in read.wanted}
        if not sources <= {self.update.id, self.init.id}:
            raise Undecided(f"{statement.id} may read {self.array} before it is set")
        instance = read.leaf.relation(read.leaf.node.iteration, statement.id)
        element = dict(statement.reads[read.number].parts)[self.array]
        writer = dict(self.update.write.parts)[self.array]
        required = instance.set_tuple_name(isl.IN, read.name).apply_range(element)
        required = isl.union_of([required.apply_range(writer.reverse())])
        total = self._total(read)
        if not required.is_subset(total):
            raise _Wrong(f"{read.what} misses an update of {self.update.id}")
        if not total.is_subset(required):
            raise _Wrong(f"{read.what} finds more than the updates of {self.update.id}")
