"""What went into an accumulator, as a set, whatever the order it went in.

An accumulator's value is taken as the set of what went into it. A neutral element starts an empty
set, an update adds itself, a Fold adds what the other accumulator holds, a Combine adds what the
copies of the other threads hold, a Scan starts a set of what those of the threads before it hold, a Copy moves a set, any other write starts a set of its own
value, and a caller's array starts with what it held. `Sets.arrivals` follows the contributions
backwards from whatever reads a cell: { update's leaf -> reader }, through every Fold, Combine,
Scan and Copy. No contribution may arrive by two ways.

An update at a place that depends on data is taken as one of every element that it may be for: of that
which it is for it adds its value, of the others nothing. Its contributions are { leaf, element -> reader },
so that what was for one element must not arrive at another. All that is known of where it writes is that
the subscripts which depend on data are the program's own: of the elements that it may be for, the cell it
touches for one is that of the same subscripts.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

from loopfuse.base.dtypes import DType
from loopfuse.lang.index import is_checked
from loopfuse.lang.nodes import Binary, Compare, Const, Expr, Iter
from loopfuse.lang.semantics import neutral
from loopfuse.lang.walk import loads
from loopfuse.poly import isl
from loopfuse.poly.isl_relations import equate
from loopfuse.poly.model import Statement
from loopfuse.proof.accesses import Accesses, Read, Write, union
from loopfuse.proof.events import READ, WRITE, Leaf, Time, Undecided, compare_times
from loopfuse.tree.looptree import LINEAR, Combine, Compute, Copy, Fold, Scan

INITIAL = "@initial"
"""The name of what the caller's array held, among contributions."""

UNDEFINED = "@undefined"
"""The name of what a Combine leaves in all copies but the first."""


@dataclass(frozen=True, slots=True, eq=False)
class Touch:
    """Something that touches a cell: { event -> cell } and when: a moment of a leaf, or after
    everything else."""

    cell: Any
    time: Time
    leaf: Leaf | None = None
    moment: int = WRITE


class Wrong(Exception):
    """The reduction is wrong; says how."""


def is_own(read: Read) -> bool:
    """Is it an update's read of what it updates, and not one of its operand? (Where it is predicated it reads that once
    more, to keep it.)"""
    statement = read.statement
    if statement is None or statement.accumulator is None:
        return False
    return read.number == statement.accumulator or (
        statement.predicate is not None and read.number == len(statement.reads) - 1
    )


def is_in_place(node: Compute) -> bool:
    """Does it read what it writes? One of a recurrence that does not only shows the value."""
    return node.target in loads(node.value)


class Sets:
    """The accumulators of `updates`, all into one array and by one operation, or, where they have a `sequence`, of
    those of a linear recurrence. `starts`: what they start from may have come from other buffers (a recurrence's
    always may)."""

    def __init__(
        self, accesses: Accesses, updates: Sequence[Statement], sequence: Any | None = None, starts: bool = False
    ) -> None:
        self.accesses, self.events = accesses, accesses.events
        self.program = accesses.events.program
        self.updates = {update.id: update for update in updates}
        self.name = " or ".join(self.updates)
        first = updates[0]
        self.recurs = sequence is not None
        self.op = first.operation
        if self.recurs:
            self.op = LINEAR if first.id in accesses.composed else "sum"
        self.array = first.target.array
        self.neutral = repr(neutral(self.op, first.target.dtype))
        self.inits = {
            s.id
            for s in self.program.statements
            if s.kind == "init" and s.target.array == self.array
        }
        self.results = self._accumulators()
        self.buffers = self._with_starts(self.results) if starts or sequence is not None else self.results
        self.kinds: dict[str, tuple[Write, str]] = {  # by leaf
            write.leaf.name: (write, self._kind(write.leaf))
            for buffer in sorted(self.buffers)
            for write in accesses.writes.get(buffer, [])
        }
        self.elements: dict[str, Any] = {}  # by leaf of an update at a place that is data: { leaf, element -> element }
        self.cells: dict[str, Any] = {}  # the same: { leaf, element -> cell }
        self.spread: dict[str, Any] = {}  # the same: { leaf -> leaf, element }
        for write, kind in self.kinds.values():
            if kind == "update" and self.accesses.statement_of(write.leaf).scatter:
                self._spread(write)
        self.touched: dict[str, list[Touch]] = {}  # by buffer: all its writes
        self.reset: dict[str, list[tuple[Touch, Any | None]]] = {}
        self.gone: dict[str, Any | None] = {}
        self.found: dict[tuple[Touch, Touch], Any | None] = {}
        self.arrived: dict[str, dict[str, Any] | None] = {}  # by a Copy's, Fold's, Combine's, Scan's read
        self.runs_once = True

    # ------------------------------------------------------------------------- storage

    def _accumulators(self) -> set[str]:
        """The buffers that hold partial results of this reduction, and what becomes of them."""
        writes = [w for each in self.accesses.writes.values() for w in each]
        found = {
            write.load.array
            for write in writes
            if isinstance(write.leaf.node, Compute) and write.leaf.node.statement in self.updates
            and (not self.recurs or is_in_place(write.leaf.node))
        }
        moves = self.accesses.moves()
        while more := {write.load.array for write, read in moves if read.buffer in found} - found:
            found |= more
        return found

    def _with_starts(self, found: Set[str]) -> set[str]:
        """Those, and the buffers that what recurrences start from comes from."""
        moves = self.accesses.moves()
        every = set(found)
        while more := {read.buffer for write, read in moves if write.load.array in every} - every:
            every |= more
        return every

    def _kind(self, leaf: Leaf) -> str:
        """What a write to an accumulator does to the set in it."""
        match leaf.node:
            case Compute(statement=name) as node if name in self.updates:
                return "update" if not self.recurs or is_in_place(node) else "shown"
            case Compute(statement=name):
                return "reset" if name in self.inits else "start"
            case Copy(value=Const(value=value)):
                return "reset" if repr(value) == self.neutral else "start"
            case Copy():
                return "move"
            case Fold(op=op) if op == self.op:
                return "fold"
            case Combine(op=op) if op == self.op:
                return "combine"
            case Scan(op=op) if op == self.op:
                return "scan"
            case _:
                return "start"

    def _spread(self, write: Write) -> None:
        """Notes the elements that an update may be for, and the cell of each."""
        name = write.leaf.name
        update = self.accesses.statement_of(write.leaf)
        element = self.accesses.instances[name].apply_range(dict(update.write.parts)[self.array])
        private = len(self.program.arrays[self.array].private_to)
        rank = len(update.target.index)
        if private or len(update.write.parts) > 1:
            raise Undecided(f"{update.id} updates one of several arrays")
        both = element.range_product(write.cell).uncurry()  # { [leaf -> element] -> cell }
        both = both.flatten_domain().set_tuple_name(isl.IN, name)
        first_element, first_cell = both.dim(isl.IN) - rank, both.dim(isl.OUT) - rank
        if first_cell < 0:
            raise Undecided(f"{update.id} updates a place with fewer subscripts")
        checked = [k for k, each in enumerate(update.target.index) if is_checked(each)]
        self.cells[name] = equate(both, [(first_element + k, first_cell + k) for k in checked])
        spread = element.domain_map().reverse()  # { leaf -> [leaf -> element] }
        self.spread[name] = spread.flatten_range().set_tuple_name(isl.OUT, name)
        self.elements[name] = element.range_map().flatten_domain().set_tuple_name(isl.IN, name)

    def _touches(self, buffer: str) -> list[Touch]:
        """All writes to a buffer."""
        if buffer not in self.touched:
            self.touched[buffer] = [
                Touch(self.cells.get(w.leaf.name, w.cell), self.events.time_of(w.leaf, WRITE), w.leaf)
                for w in self.accesses.writes.get(buffer, [])
            ]
        return self.touched[buffer]

    def _resets(self, buffer: str) -> list[tuple[Touch, Any | None]]:
        """The writes that start a new set, each with the instances that do (None: all)."""
        if buffer not in self.reset:
            found: list[tuple[Touch, Any | None]] = []
            for touch in self._touches(buffer):
                assert touch.leaf is not None
                kind = self.kinds[touch.leaf.name][1]
                everywhere = isinstance(touch.leaf.node, Combine) and touch.leaf.node.everywhere
                if kind in ("reset", "move", "start", "shown", "scan") or everywhere:
                    found.append((touch, None))
                elif kind == "combine":  # copies that are not defined afterwards
                    others = touch.cell.domain().subtract(self._defined_by(touch.leaf))
                    found.append((touch, others))
            self.reset[buffer] = [
                (touch, part)
                for touch, part in found
                if not (touch.cell.is_empty() if part is None else part.is_empty())
            ]
        return self.reset[buffer]

    def _gone(self, buffer: str) -> Any | None:
        """{ reset -> earlier write to the cell }: what was there when a new set was started."""
        if buffer not in self.gone:
            pairs: list[Any] = []
            for reset, part in self._resets(buffer):
                for touch in self._touches(buffer):
                    same = self._earlier(reset, touch)
                    if same is not None:
                        pairs.append(same if part is None else same.intersect_domain(part))
            self.gone[buffer] = isl.union_of(pairs) if pairs else None
        return self.gone[buffer]

    def _defined_by(self, leaf: Leaf) -> Any:
        """The instances of a Combine that run on threads which have the result."""
        assert isinstance(leaf.node, Combine)
        if leaf.node.everywhere:
            return leaf.points.set_tuple_name(leaf.name)
        return self._first_of(leaf)

    def _first_of(self, leaf: Leaf) -> Any:
        """The instances of a Combine that run on the first of its threads."""
        assert isinstance(leaf.node, Combine)
        zero = Const(0, DType.I64)
        condition: Expr = Compare("eq", Iter(leaf.node.over[0]), zero)
        for var in leaf.node.over[1:]:
            condition = Binary("and", condition, Compare("eq", Iter(var), zero), DType.BOOL)
        return leaf.points.intersect(leaf.reader.condition(condition)).set_tuple_name(leaf.name)

    def check_updates(self, elsewhere: str = "", once: bool = True) -> None:
        """Each update reads the accumulator it writes, and runs once (`once`; `runs_once` says whether
        it does); all that add to an accumulator find a set in it (not asked of buffer `elsewhere`)."""
        instances: list[Any] = []
        for write, kind in self.kinds.values():
            buffer = write.load.array
            if kind in ("update", "fold", "combine", "scan") and buffer != elsewhere:
                touch = next(t for t in self._touches(buffer) if t.leaf is write.leaf)
                self._unstarted(touch, buffer)
            if kind != "update":
                continue
            instances.append(write.value)
            update = self.accesses.statement_of(write.leaf)
            own = [
                read
                for reads in self.accesses.reads.values()
                for read in reads
                if read.leaf is write.leaf and read.array == self.array and (self.recurs or is_own(read))
            ]
            # A predicated update also reads its target, to keep it where it does not update.
            count = 1 if update.predicate is None else 2
            is_linear = self.recurs and len(own) > 0
            if (len(own) != count and not is_linear) or any(read.load != write.load for read in own):
                raise Undecided(f"{update.id} does not update the accumulator it reads")
        self.runs_once = not instances or bool(isl.union_of(instances).is_injective())
        if once and not self.runs_once:
            raise Wrong(f"an instance of {self.name} runs twice")

    def check_order(self, sequence: Any) -> None:
        """What is in an accumulator comes before what is added to it, as `sequence` has it; and in a Combine or a Scan,
        what a thread holds before what those after it hold."""
        for write, kind in self.kinds.values():
            leaf, buffer = write.leaf, write.load.array
            if kind in ("update", "fold"):
                touch = next(t for t in self._touches(buffer) if t.leaf is leaf)
                before = self._instances(self.arrivals(touch, buffer))
                own = self.accesses.instances[leaf.name] if kind == "update" else self._instances(self.entered(write))
                pairs = None if before is None or own is None else before.reverse().apply_range(own)
            elif kind in ("combine", "scan"):
                read = self.accesses.moved[leaf.name]
                held = self._instances(self.taken(read))
                if held is None:
                    continue
                later = self._in_turn(leaf, read.name, read.name)
                pairs = held.reverse().apply_range(later).apply_range(held)
            else:
                continue
            if pairs is not None and not pairs.is_subset(sequence):
                raise Wrong(f"instances of {self.name} are put together out of order in {buffer}")

    def _instances(self, found: dict[str, Any]) -> Any | None:
        """{ event -> update } of { leaf -> event }; what else a set consists of was there first."""
        maps = [
            each.reverse().apply_range(self.accesses.instances[name])
            for name, each in found.items()
            if name in self.kinds and self.kinds[name][1] == "update"
        ]
        return union(maps, None)

    # ------------------------------------------------------------------------- sets

    def _earlier(self, event: Touch, write: Touch) -> Any | None:
        """{ event -> write }: the writes to the event's cell before the event; None if none."""
        key = (event, write)
        if key not in self.found:
            self.found[key] = self._compare(event, write)
        return self.found[key]

    def _compare(self, event: Touch, write: Touch) -> Any | None:
        order = compare_times(write.time, event.time)
        if order is False or self.never_both(event.leaf, write.leaf):
            return None
        same = event.cell.apply_range(write.cell.reverse())
        if order is None and not same.is_empty():
            assert event.leaf is not None and write.leaf is not None
            after = self.events.after((event.leaf, event.moment), (write.leaf, write.moment))
            if write.leaf.name in self.spread and write.moment == WRITE:
                after = after.apply_range(self.spread[write.leaf.name])
            if event.leaf.name in self.spread and event.moment == WRITE:
                after = self.spread[event.leaf.name].reverse().apply_range(after)
            same = same.intersect(after.set_tuple_name(isl.IN, isl.domain_name(same)))
        return None if same.is_empty() else same

    def never_both(self, one: Leaf | None, other: Leaf | None) -> bool:
        """Do the two belong to launches of which no call runs both?"""
        return one is not None and other is not None and self.events.never_both(one.launch, other.launch)

    def _unstarted(self, event: Touch, buffer: str) -> Any | None:
        """The part of { event -> cell } where nothing started the set: only where the caller's
        array did."""
        rest = event.cell
        for reset, part in self._resets(buffer):
            pairs = self._earlier(event, reset)
            if pairs is not None:
                pairs = pairs if part is None else pairs.intersect_range(part)
                rest = rest.subtract_domain(pairs.domain())
        if rest.is_empty():
            return None
        about = self.events.buffers[buffer]
        if about.argument and about.array == self.array:
            return rest
        raise Wrong(f"{buffer} is used for {self.name} before it is set to neutral")

    def _contents(self, event: Touch, buffer: str) -> list[Any]:
        """What is in the event's cell: { write -> event } for the writes whose set is still there,
        and { @initial[cell] -> event }."""
        every = [self._earlier(event, touch) for touch in self._touches(buffer)]
        maps = [each for each in every if each is not None]
        gone = self._gone(buffer) if maps else None
        if gone is not None:
            left = isl.union_of(maps)
            resets: list[Any] = []
            for reset, part in self._resets(buffer):
                pairs = self._earlier(event, reset)
                if pairs is not None:
                    resets.append(pairs if part is None else pairs.intersect_range(part))
            if resets:
                left = left.subtract(isl.union_of(resets).apply_range(gone))
            maps = isl.maps_of(left)
        contents = [each.reverse() for each in maps if not each.is_empty()]
        initial = self._unstarted(event, buffer)
        if initial is not None:
            contents.append(initial.set_tuple_name(isl.OUT, INITIAL).reverse())
        return contents

    def arrivals(self, event: Touch, buffer: str) -> dict[str, Any]:
        """By leaf (or INITIAL, or UNDEFINED): { leaf -> event }, what the set in the event's cell
        consists of, each by one way."""
        found: dict[str, Any] = {}
        for each in self._contents(event, buffer):
            name = isl.domain_name(each)
            write, kind = self.kinds.get(name, (None, "start"))
            if kind in ("update", "start", "shown"):
                self._arrive(name, each, found)
            if write is None or kind in ("update", "start", "shown", "reset"):
                continue
            if kind == "combine":
                lost = each.subtract_domain(self._defined_by(write.leaf))
                if not lost.is_empty():
                    self._arrive(UNDEFINED, lost, found)
            read = self.accesses.moved[name]
            step = self._entering(write.leaf, read, kind).apply_range(each)  # { read -> event }
            if step.is_empty():
                continue
            for source, found_there in self.taken(read).items():
                taken = isl.simplified(found_there)  # pieces are compared pair by pair
                if not taken.is_single_valued():
                    self._check_once(taken, step)
                arrives = taken.apply_range(step)
                if not arrives.is_empty():
                    self._arrive(source, arrives, found)
        return found

    def taken(self, read: Read) -> dict[str, Any]:
        """`arrivals` at what a Copy, Fold, Combine or Scan reads, kept for all who ask."""
        if read.name not in self.arrived:
            if read.buffer not in self.buffers:
                raise Wrong(f"{read.buffer} holds no part of {self.name}")
            self.arrived[read.name] = None
            self.arrived[read.name] = self.arrivals(self.touch_of(read), read.buffer)
        found = self.arrived[read.name]
        if found is None:
            raise Undecided(f"partial results go in a circle through {read.buffer}")
        return found

    def touch_of(self, read: Read) -> Touch:
        """A read, as an event."""
        return Touch(read.cell, self.events.time_of(read.leaf, READ), read.leaf, READ)

    def _arrive(self, name: str, each: Any, found: dict[str, Any]) -> None:
        if name not in found:
            found[name] = each
            return
        if not found[name].intersect(each).is_empty():
            raise Wrong(f"an update of {self.name} is counted twice")
        found[name] = found[name].union(each)

    def _check_once(self, taken: Any, step: Any) -> None:
        """{ leaf -> read } and { read -> event }: one way from a leaf to an event?"""
        ways = taken.apply_range(step.domain_map().reverse())  # { leaf -> [read -> event] }
        both = ways.reverse().range_product(step.range_map())
        if not both.is_injective():
            raise Wrong(f"an update of {self.name} is counted twice")

    def _entering(self, leaf: Leaf, read: Read, kind: str) -> Any:
        """{ read -> write }: into which instances of the leaf's write its reads go.

        For a Combine into the first, each thread's own copy stays in its cell (its write keeps the set);
        those of the other threads enter the first. Everywhere, all copies enter each. For a Scan, those of the threads
        before it enter each.
        """
        if kind == "scan":
            return self._in_turn(leaf, read.name, leaf.name)
        if kind != "combine":
            own = [Iter(name) for name in leaf.names]
            return leaf.relation(own, leaf.name).set_tuple_name(isl.IN, read.name)
        assert isinstance(leaf.node, Combine)
        if leaf.node.everywhere:
            apart = [Iter(name) for name in leaf.names if name not in leaf.node.over]
            team = leaf.relation(apart, "team")
            return team.apply_range(team.reverse()).set_tuple_name(isl.IN, read.name)
        meet = [
            Const(0, DType.I64) if name in leaf.node.over else Iter(name) for name in leaf.names
        ]
        to_first = leaf.relation(meet, leaf.name).subtract_domain(self._first_of(leaf))
        return to_first.set_tuple_name(isl.IN, read.name)

    def _in_turn(self, leaf: Leaf, source: str, sink: str) -> Any:
        """{ source -> sink }: from what a thread does in a Combine or a Scan to what those after it do."""
        assert isinstance(leaf.node, Combine | Scan)
        apart = [Iter(name) for name in leaf.names if name not in leaf.node.over]
        team = leaf.relation(apart, "team")
        turn = leaf.relation([Iter(name) for name in leaf.node.over], "turn")
        earlier = team.apply_range(team.reverse()).intersect(turn.lex_lt_map(turn))
        return earlier.set_tuple_name(isl.IN, source).set_tuple_name(isl.OUT, sink)

    def entered(self, write: Write) -> dict[str, Any]:
        """What a Fold adds to its target: { leaf -> its write }."""
        read = self.accesses.moved[write.leaf.name]
        entering = self._entering(write.leaf, read, "fold")
        return {name: each.apply_range(entering) for name, each in self.taken(read).items()}
