"""A reduction whose order changed: does every update still count exactly once?

Two proofs, of which one is enough. By its readers: whatever reads a result finds the set
(`proof/sets.py`) that the program asks for: all updates of the element read, and what the first of
them found there, no less and no more. Or by its effects (`proof/effects.py`), which several
reductions into one array need.

A reader of a running value asks for the updates before it, and no others. An update may run several
times, into accumulators of their own: once for a partial result that others start from, and again where
the values in between are wanted. Then what arrives at each reader is compared by instances of the
update: each comes by one way, from one of its runs.

A linear recurrence `s = a * s + b` is proved in the same way, with one thing more: its order matters (but not that of
`s = s + b`). What is in an
accumulator before an update, or before what a Fold appends, comes before it in the program too; so do the
threads of a Combine and a Scan.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

from loopfuse.lang.index import is_checked
from loopfuse.lang.nodes import Iter
from loopfuse.poly import isl
from loopfuse.poly.deps import flow_of_read
from loopfuse.poly.model import Dependences, Statement
from loopfuse.proof.accesses import Accesses, Read
from loopfuse.proof.chains import find_chain, find_sequence, has_episodes
from loopfuse.proof.effects import check_effects
from loopfuse.proof.events import READ, Leaf, Undecided
from loopfuse.proof.order import keeps_place
from loopfuse.proof.sets import INITIAL, Sets, Touch, Wrong, is_in_place, is_own
from loopfuse.tree.looptree import LINEAR, Compute


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
    """The updates of reductions into `array`, those at places that depend on data among them."""
    return [s for s in statements if s.target.array == array and s.operation and s.kind != "init"]


def own_number(update: Statement, array: str) -> int:
    """The number of the update's read of what it adds to, or of what a linear recurrence makes its next value of."""
    own = update.accumulator
    return next(k for k, read in enumerate(update.reads) if read.array == array) if own is None else own


def free_updates(
    statements: Sequence[Statement], array: str, reassociate: bool, recurrences: Set[str] = frozenset()
) -> list[Statement]:
    """Those that may be put together in another order: all, where the caller allows it; else those of
    integers, of the least and the greatest, and of bits, as no bit of the result shows it. Linear `recurrences` (ids)
    are put together in another order where the caller allows it."""
    return [
        each
        for each in reductions_into(statements, array)
        if reassociate
        or not each.target.dtype.is_float
        or each.operation in ("min", "max", "any", "all", "and", "or")
    ] + [each for each in statements if reassociate and each.id in recurrences and each.target.array == array]


def check_reduction(
    accesses: Accesses,
    deps: Dependences,
    array: str,
    unproved: list[Read],
    end: Reader | None,
    reassociate: bool,
) -> str | None:
    """What is wrong with the reductions into `array`; None if nothing is. `unproved` are its reads
    that do not find the very value that the program's order gives; `end` is the caller. An update
    whose order is not free is like any other write, of which each has to stay in its place."""
    statements = accesses.events.program.statements
    for each in statements:
        other = each.target.swapped
        if each.operation and other is not None and array in (each.target.array, other.array):
            raise Undecided(f"{each.id} updates {each.target.array} and {other.array} by turns")
    every = reductions_into(statements, array)
    free = accesses.composed if every else accesses.recurrences
    updates = free_updates(statements, array, reassociate, free)
    recurrences = [each for each in updates if each.id in free]
    if recurrences and (len(updates) > 1 or every or recurrences[0].target.swapped):
        raise Undecided(f"{array} is updated by more than {recurrences[0].id}")
    scattered = [each for each in every if each.scatter]
    if scattered and (len(updates) < len(every) or {each.scatter for each in every} != {scattered[0].scatter}):
        raise Undecided(f"updates of {array} at places that depend on data, in another order")
    try:
        if recurrences:
            sequence = find_sequence(accesses.events.program, deps, recurrences[0])
            _ByReaders(accesses, deps, recurrences, sequence).check(unproved, end)
        elif scattered or len(every) == 1:
            by_readers = _ByReaders(accesses, deps, updates)
            try:
                by_readers.check(unproved, end)
            except Wrong as error:  # perhaps what they start from was made elsewhere, and copied
                apart = _ByReaders(accesses, deps, updates, starts=True)
                if apart.sets.buffers == by_readers.sets.buffers:
                    raise
                try:
                    apart.check(unproved, end)
                except (Wrong, Undecided):
                    raise error from None
        else:
            check_effects(accesses, deps, updates, unproved, "" if end is None else end.buffer)
    except Wrong as error:
        return str(error)
    return None


class _ByReaders:
    """The updates of one reduction, or all at places that depend on data by one operation. `sequence`: the one of a
    linear recurrence: { update -> one that needs it }."""

    def __init__(
        self,
        accesses: Accesses,
        deps: Dependences,
        updates: Sequence[Statement],
        sequence: Any | None = None,
        starts: bool = False,
    ) -> None:
        self.accesses, self.deps = accesses, deps
        self.program = accesses.events.program
        self.update, self.array = updates[0], updates[0].target.array
        self.ids = frozenset(update.id for update in updates)
        self.sequence = sequence
        self.sets = Sets(accesses, updates, sequence, starts)
        self.writers = [s for s in self.program.statements if s.target.array == self.array]
        self.episodes = sequence is not None or has_episodes(deps, updates, self.writers)
        if self.update.scatter and self.episodes:
            raise Undecided(f"{self.array} is set or read between updates at places that depend on data")
        self.chain: Any = None

    def check(self, unproved: list[Read], end: Reader | None) -> None:
        """Raises Wrong where something is. Each reader is a question of its own: there are as many as launches of which one runs."""
        ask = self.accesses.events.context.ask
        if not self.program.arrays[self.array].is_argument:
            self._seeds(dict(self.update.write.parts)[self.array])  # Undecided where nothing is set
        buffers = self.sets.results
        for read in unproved:
            if read.buffer not in buffers:
                raise Wrong(f"{read.what} finds no result of {self.sets.name}")
        if end is not None and end.buffer not in buffers:
            raise Wrong(f"no result of {self.sets.name} reaches {end.what}")
        self.sets.check_updates(once=bool(self.update.scatter))
        if self.sequence is not None and self.sets.op == LINEAR:
            self.sets.check_order(self.sequence)
        for reads in self.accesses.reads.values():
            for read in reads:
                if read.array == self.array and read.statement is not None and not self._is_own(read) and read.buffer in buffers:
                    is_somewhere = any(is_checked(each) for each in read.statement.reads[read.number].load.index)
                    ask(lambda read=read, way=self._launch_of if is_somewhere else self._reader: self._check_reader(way(read)))
        if end is not None:
            ask(lambda: self._check_reader(end))

    def _is_own(self, read: Read) -> bool:
        """Is it an update's read of what it updates?"""
        node = read.leaf.node
        if read.statement is None or read.statement.id not in self.ids:
            return False
        if self.sequence is not None:
            return not isinstance(node, Compute) or is_in_place(node)
        return is_own(read)

    def _reader(self, read: Read) -> Reader:
        statement = read.statement
        assert statement is not None
        instance = self.accesses.instances[read.leaf.name].set_tuple_name(isl.IN, read.name)
        element = instance.apply_range(dict(statement.reads[read.number].parts)[self.array])
        touch = self.sets.touch_of(read)
        return Reader(read.name, read.buffer, touch, element, read.wanted, read.what)

    def _launch_of(self, read: Read) -> Reader:
        """The launch of a read at a place that depends on data, in place of it: it may read all elements, as they are
        when it starts, since it writes none."""
        events, array = self.accesses.events, self.program.arrays[self.array]
        statement = read.statement
        assert statement is not None
        writes = self.accesses.writes.get(read.buffer, [])
        if any(write.leaf.launch == read.leaf.launch for write in writes) or read.leaf.host:
            raise Undecided(f"{read.what} in a launch that writes there")
        if array.private_to or not keeps_place(self.accesses, read, array):
            raise Undecided(f"{read.what} at another place")
        leaf = events.launch_event(read.leaf.launch, len(array.extents))
        here = leaf.relation([Iter(name) for name in leaf.names], self.array)
        number = read.number
        elements = dict(statement.reads[number].parts)[self.array]  # { statement -> element }
        element = here.intersect_range(elements.range())
        rest = elements.wrap()
        wanted: list[Any] = []
        for flow in self.deps.flow:
            if flow.sink == statement.id and flow.array == self.array:
                assert flow.by_element is not None
                pairs = flow.by_element.intersect_range(elements.wrap())
                rest = rest.subtract(pairs.range())
                found = pairs.apply_range(pairs.range().unwrap().range_map())  # { source -> element }
                wanted.append(element.apply_range(found.reverse()))
        initial = rest.unwrap().range()
        if not initial.intersect_params(self.program.context).is_empty():
            wanted.append(element.intersect_range(initial).set_tuple_name(isl.OUT, f"@{self.array}"))
        cell = element.set_tuple_name(isl.OUT, read.buffer)
        touch = Touch(cell, events.time_of(leaf, READ), leaf, READ)
        wanted = [each for each in wanted if not each.is_empty()]
        return Reader(leaf.name, read.buffer, touch, element, tuple(wanted), read.what)

    def _check_reader(self, reader: Reader) -> None:
        """What arrives at the reader is what the program asks for, no less and no more."""
        required, starts, updates = self._required(reader)
        arrived = self.sets.arrivals(reader.touch, reader.buffer)
        several = not self.sets.runs_once
        for name in dict.fromkeys([*required, *arrived]):
            want, have = required.get(name), arrived.get(name)
            if want is None and have is not None and not have.is_empty():
                raise Wrong(f"{reader.what} finds what is no part of {self.sets.name}")
            if want is not None and want.is_empty() and have is not None and not have.is_empty():
                raise Wrong(f"{reader.what} finds more than the updates of {self.sets.name}")
            if want is None or want.is_empty() or (have is not None and want.plain_is_equal(have)):
                continue
            # Each thread may have a start, and each of several runs its update.
            alone = self._kind(name) != "start" and not (several and self._kind(name) == "update")
            if alone and (have is None or not want.is_subset(have)):
                raise Wrong(f"{reader.what} misses an update of {self.sets.name}")
            if have is not None and not have.is_subset(want):
                raise Wrong(f"{reader.what} finds more than the updates of {self.sets.name}")
        for statement, needed in starts.items():
            self._check_each(reader, statement, needed, arrived, "start")
        if several and updates is not None:
            self._check_each(reader, self.update.id, updates, arrived, "update")

    def _check_each(
        self, reader: Reader, statement: str, needed: Any, arrived: dict[str, Any], kind: str
    ) -> None:
        """Of what a reduction starts from, which every thread may compute for itself, one copy arrives: of
        each value in { instance -> reader }; and so of an update that runs several times."""
        found: Any = None
        for name, have in arrived.items():
            if self._kind(name) != kind or not self._runs(name, statement):
                continue
            instance = self.accesses.instances[name]
            if not instance.range_product(have).is_injective():
                raise Wrong(f"{statement} is counted twice in {reader.what}")
            values = instance.reverse().apply_range(have)
            if found is not None and not found.intersect(values).is_empty():
                raise Wrong(f"{statement} is counted twice in {reader.what}")
            found = values if found is None else found.union(values)
        if not needed.is_empty() and (found is None or not needed.is_subset(found)):
            raise Wrong(f"{reader.what} misses an instance of {statement}")

    def _kind(self, leaf: str) -> str:
        return self.sets.kinds[leaf][1] if leaf in self.sets.kinds else ""

    def _required(self, reader: Reader) -> tuple[dict[str, Any], dict[str, Any], Any | None]:
        """By leaf (or INITIAL): { leaf -> reader }, what the sets should consist of, with all copies of what
        they start from and all runs of updates; by statement that a set starts from: { instance -> reader };
        and the same of the update."""
        values: dict[str, Any] = {}  # by statement: { instance -> reader }

        def need(name: str, relation: Any) -> None:
            values[name] = values[name].union(relation) if name in values else relation

        for wanted in reader.wanted:
            source = isl.range_name(wanted)
            if source not in self.ids:
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
            for each in map(self.program.statement, sorted(self.ids)):
                need(each.id, dict(each.write.parts)[self.array].apply_range(element.reverse()))
            for seed, relation in self._seeds(written):
                need(seed, relation.apply_range(element.reverse()))
        required: dict[str, Any] = {}
        starts: dict[str, Any] = {}
        for name, relation in values.items():
            if name == f"@{self.array}":
                initial = relation.set_tuple_name(isl.IN, INITIAL)
                required[INITIAL] = initial
                continue
            leaves = [n for n, (_, kind) in self.sets.kinds.items() if kind in ("update", "start")]
            here = reader.touch.leaf
            leaves = [n for n in leaves if self._runs(n, name) and not self.sets.never_both(here, self._leaf(n))]
            if any(s.id == name and s.kind == "init" for s in self.writers):
                continue  # the neutral element
            run = None
            for leaf in leaves:
                instance = self.accesses.instances[leaf]
                # Of what may be anywhere, each element for itself: an update tells which element it is for.
                spread = self.sets.elements.get(leaf)
                if spread is None:
                    required[leaf] = instance.apply_range(relation)
                else:
                    asked = reader.element.intersect_domain(relation.range())
                    required[leaf] = spread.apply_range(asked.reverse())
                run = instance.range() if run is None else run.union(instance.range())
            needed = relation.domain().intersect_params(self.program.context)
            if run is None or not needed.is_subset(run):
                raise Wrong(f"{reader.what} misses an instance of {name}")
            if name not in self.ids:
                starts[name] = relation.intersect_params(self.program.context)
        updates = values.get(self.update.id)
        if updates is not None:
            updates = updates.intersect_params(self.program.context)
        return required, starts, updates

    def _leaf(self, name: str) -> Leaf:
        return self.sets.kinds[name][0].leaf

    def _runs(self, leaf: str, statement: str) -> bool:
        instance = self.accesses.instances.get(leaf)
        return instance is not None and isl.range_name(instance) == statement

    def _chain(self) -> Any:
        if self.chain is None and self.sequence is not None:
            self.chain = self.sequence.reverse().union(self.update.domain.identity())
        if self.chain is None:
            self.chain = find_chain(self.program, self.update, self.writers)
        return self.chain

    def _first(self, updates: Any) -> list[tuple[str, Any]]:
        """What the first of { reader -> update } find: (source, { value -> reader })."""
        update = self.update
        number = own_number(update, self.array)
        sources, rest = flow_of_read(self.program, self.deps, update.id, number)
        found = [
            (name, relation.apply_range(updates.reverse()))
            for name, relation in sources.items()
            if name != update.id
        ]
        initial = updates.intersect_range(rest).apply_range(dict(update.reads[number].parts)[self.array])
        if not initial.is_empty():
            if not self.program.arrays[self.array].is_argument:
                raise Undecided(f"{self.array} is reduced into without being set")
            name = f"@{self.array}"
            found.append((name, initial.reverse().set_tuple_name(isl.IN, name)))
        return found

    def _seeds_anywhere(self) -> list[tuple[str, Any]]:
        """The same of updates at places that depend on data, which each find all elements: element by element."""
        seeds: list[tuple[str, Any]] = []
        for update in map(self.program.statement, sorted(self.ids)):
            rest = next(dict(read.parts)[self.array] for read in update.reads if read.array == self.array).wrap()
            for flow in self.deps.flow:
                if flow.sink != update.id or flow.array != self.array:
                    continue
                assert flow.by_element is not None
                rest = rest.subtract(flow.by_element.range())
                if flow.source not in self.ids:
                    elements = flow.by_element.range().unwrap().range_map()  # { [update -> element] -> element }
                    seeds.append((flow.source, flow.by_element.apply_range(elements)))
            initial = rest.unwrap().range().intersect_params(self.program.context)
            if initial.is_empty():
                continue
            if not self.program.arrays[self.array].is_argument:
                raise Undecided(f"{self.array} is updated without being set")
            seeds.append((f"@{self.array}", initial.identity().set_tuple_name(isl.IN, f"@{self.array}")))
        return seeds

    def _seeds(self, written: Any) -> list[tuple[str, Any]]:
        """What the first update of an element finds there: (source, { value -> element })."""
        if self.update.scatter:
            return self._seeds_anywhere()
        update = self.update
        number = own_number(update, self.array)
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
