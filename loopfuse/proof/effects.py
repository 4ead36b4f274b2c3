"""Several reductions into one array: every write has its effect once, and in the program's order.

Where the tree keeps each element of an array at its own place, a write takes effect when it
happens, or, where an update went into an accumulator of its own, when a Fold adds that to the
element. If every instance has its effect exactly once, at its own element, and any two of them
follow in the program's order unless both are updates by one operation (whose order is free), then
each element always holds what it holds in the program, but for updates that have not had their
effect yet. A read finds all that it finds in the program where every write of its element that the
program has before it has had its effect, and none that comes after it.

All pairs are compared, not only the neighbours that the exact dependences name: an update between
two others need not be in order with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loopfuse.lang.index import is_checked
from loopfuse.poly import isl
from loopfuse.poly.deps import flow_of_read, names_one_place
from loopfuse.poly.model import Access, Dependences, Statement
from loopfuse.proof.accesses import Accesses, Read, Write
from loopfuse.proof.chains import program_time
from loopfuse.proof.events import READ, WRITE, Leaf, Undecided, compare_times
from loopfuse.proof.order import keeps_place
from loopfuse.proof.sets import Sets, Wrong, is_own
from loopfuse.tree.looptree import Buffer, Compute, Fold, Global


@dataclass(frozen=True, slots=True)
class Effect:
    """Instances of a statement and the events at which they write, or read: { instance -> leaf }.
    `operation`: that of a reduction's update."""

    statement: Statement
    access: Access
    operation: str
    events: Any
    leaf: Leaf
    moment: int


def check_effects(
    accesses: Accesses,
    deps: Dependences,
    updates: Sequence[Statement],
    unproved: Sequence[Read],
    end: str,
) -> None:
    """Raises Wrong where an update is lost, counted twice or out of order; Undecided where it does
    not show. `unproved` are reads of the results; `end`: the buffer that the caller sees."""
    array = updates[0].target.array
    read = {each.buffer for each in unproved if not is_own(each)}
    found = read | ({end} if end else set())
    if not found:
        found = {b.name for b in accesses.events.buffers.values() if b.array == b.name == array}
    if len(found) != 1:
        raise Undecided(f"the results of several reductions of {array} are in several buffers")
    _Effects(accesses, deps, updates, found.pop()).check()


class _Effects:
    def __init__(
        self, accesses: Accesses, deps: Dependences, updates: Sequence[Statement], place: str
    ) -> None:
        self.accesses, self.events, self.deps = accesses, accesses.events, deps
        self.program = accesses.events.program
        self.updates, self.place = updates, place
        self.array = updates[0].target.array
        by_operation: dict[str, list[Statement]] = {}
        for update in updates:
            by_operation.setdefault(update.reduction, []).append(update)
        self.sets = {op: Sets(accesses, each) for op, each in by_operation.items()}
        self.writers = [s for s in self.program.statements if self._writes(s)]

    def _writes(self, statement: Statement) -> bool:
        return any(name == self.array for name, _ in statement.write.parts)

    def check(self) -> None:
        """Raises Wrong or Undecided where it is not proved."""
        about, array = self.events.buffers[self.place], self.program.arrays[self.array]
        if array.private_to or not isinstance(about.home, Global) or about.array != self.array:
            raise Undecided(f"{self.array} has no place of its own for several reductions")
        self._check_initial(about)
        for sets in self.sets.values():
            sets.check_updates(self.place)
        effects: list[Effect] = []
        for write in self.accesses.writes.get(self.place, []):
            effects += self._effects_of(write)
        for writer in self.writers:
            self._check_once(writer, [each for each in effects if each.statement is writer])
        reads = [self._read(each) for each in self._reads() if not is_own(each)]
        for second in (*effects, *reads):
            for first in effects:
                self._check_order(first, second)
        for second in effects:
            for first in reads:
                self._check_order(first, second)

    def _reads(self) -> list[Read]:
        """Every read of the array: one that finds the last update that the program has before it need not find all of
        them."""
        found = [
            read
            for reads in self.accesses.reads.values()
            for read in reads
            if read.statement is not None and read.array == self.array
        ]
        if any(read.buffer != self.place for read in found if not is_own(read)):
            raise Undecided(f"results of several reductions of {self.array} are read elsewhere")
        return found

    def _check_initial(self, place: Buffer) -> None:
        """What the program reads before anything wrote it is there: passed, or zeroed."""
        if place.argument or self.program.arrays[self.array].is_argument:
            if not place.argument:
                raise Undecided(f"{self.place} does not start as the argument {self.array} does")
            return
        if place.zeroed:
            return
        for statement in self.program.statements:
            for number, access in enumerate(statement.reads):
                if any(name == self.array for name, _ in access.parts):
                    _, rest = flow_of_read(self.program, self.deps, statement.id, number)
                    if not rest.intersect_params(self.program.context).is_empty():
                        raise Undecided(f"{statement.id} reads {self.place} before it is written")

    # ------------------------------------------------------------------------- what happens when

    def _effects_of(self, write: Write) -> list[Effect]:
        """What a write to the place of the results does, and of which instances."""
        node = write.leaf.node
        if isinstance(node, Compute):
            statement = self.accesses.statement_of(write.leaf)
            if statement.target.array != self.array or not keeps_place(
                self.accesses, write, self.program.arrays[self.array]
            ):
                raise Undecided(f"{statement.id} writes at another place of {self.place}")
            operation = statement.reduction if self._is_update(statement) else ""
            events = self.accesses.instances[write.leaf.name].reverse()
            return [Effect(statement, statement.write, operation, events, write.leaf, WRITE)]
        if not isinstance(node, Fold) or node.op not in self.sets:
            raise Undecided(f"{self.place} is written by what is no update of {self.array}")
        sets = self.sets[node.op]
        effects: list[Effect] = []
        for name, entered in sets.entered(write).items():
            if name not in sets.kinds or sets.kinds[name][1] != "update":
                raise Wrong(f"{self.place} gets what is no part of {sets.name}")
            update = self.accesses.statement_of(sets.kinds[name][0].leaf)
            events = self.accesses.instances[name].reverse().apply_range(entered)
            element = dict(update.write.parts)[self.array].set_tuple_name(isl.OUT, self.place)
            if not names_one_place(update.write):
                raise Undecided(f"{update.id} may or may not write {self.array}")
            if not events.apply_range(write.cell).is_subset(element):
                raise Wrong(f"an update of {update.id} is added to another element")
            effects.append(
                Effect(update, update.write, update.reduction, events, write.leaf, WRITE)
            )
        return effects

    def _is_update(self, statement: Statement) -> bool:
        return any(statement is each for each in self.updates)

    def _read(self, read: Read) -> Effect:
        """An unproved read of a result."""
        statement = read.statement
        assert statement is not None
        if not keeps_place(self.accesses, read, self.program.arrays[self.array]):
            raise Undecided(f"{read.what} reads at another place")
        events = self.accesses.instances[read.leaf.name].reverse()
        return Effect(statement, statement.reads[read.number], "", events, read.leaf, READ)

    def _check_once(self, writer: Statement, effects: Sequence[Effect]) -> None:
        """Every instance that writes the array has its effect, none twice."""
        needed = dict(writer.write.parts)[self.array].domain()
        needed = needed.intersect_params(self.program.context)
        if effects and not isl.union_of([e.events.reverse() for e in effects]).is_injective():
            raise Wrong(f"an instance of {writer.id} counts twice")
        for each in effects:
            needed = needed.subtract(each.events.domain())
        if not needed.is_empty():
            raise Wrong(f"{self.place} misses an instance of {writer.id}")

    # ------------------------------------------------------------------------- in which order

    def _check_order(self, first: Effect, second: Effect) -> None:
        """Does `first` come before `second` wherever it does in the program?"""
        if first.operation and first.operation == second.operation:
            return
        ends = (first.leaf, first.moment), (second.leaf, second.moment)
        order = compare_times(*(self.events.time_of(leaf, moment) for leaf, moment in ends))
        if order is True:
            return
        pairs = first.events.reverse().apply_range(self._before(first, second))
        pairs = pairs.apply_range(second.events)
        if order is None and not pairs.is_empty():
            pairs = pairs.intersect(self.events.not_before(*ends))
        if not pairs.is_empty():
            raise Wrong(
                f"{first.statement.id} and {second.statement.id} meet in {self.place} in another"
                " order than in the program"
            )

    def _before(self, first: Effect, second: Effect) -> Any:
        """{ instance -> instance }: the pairs that may touch one element, in the program's order."""
        one, other = self._elements(first.access), self._elements(second.access)
        times = (program_time(self.program, each.statement) for each in (first, second))
        early, late = times
        return one.apply_range(other.reverse()).intersect(early.lex_lt_map(late))

    def _elements(self, access: Access) -> Any:
        """{ instance -> element }: any that the access may touch."""
        checked = any(is_checked(subscript) for subscript in access.load.index)
        if not checked and not names_one_place(access):
            raise Undecided(f"an access of {self.array} is at a place isl cannot express")
        return dict(access.parts)[self.array]
