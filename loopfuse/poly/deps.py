"""Exact dependences: which instance needs which other, and why.

Flow is value-based (the last write before the read; Feautrier 1991, as isl computes it). Anti
dependences lead from a read to the next write of its element, output dependences from a write to
the next write; no instance depends on itself. Every question is about one array, with all its
accesses merged, under isl's operation limit.

A predicated statement is taken as one that always writes: it reads its target, and where its
predicate is false writes the old value back. So every read has one source. `may=True` gives the
reader's view instead, in which such a write may or may not happen and therefore ends nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from loopfuse.lang.nodes import Iter, Load
from loopfuse.poly import isl
from loopfuse.poly.model import (
    Access,
    Dependence,
    Dependences,
    IslMap,
    IslSet,
    PolyProgram,
    Statement,
)


def find_dependences(
    program: PolyProgram, may: bool = False, operations: int = isl.OPERATIONS
) -> Dependences:
    """All dependences of `program`, for every parameter value at once.

    `operations` is isl's limit for each of the (at most four) questions about an array.

    When isl gives up on an array, the others are still answered, `complete` is False and `why`
    says which; nothing may then be fused on the answer.
    """
    finder = _Finder(program, may, operations)
    flow: list[Dependence] = []
    anti: list[Dependence] = []
    output: list[Dependence] = []
    live_out: dict[str, dict[str, IslMap]] = {}
    gave_up: list[str] = []
    for name in program.arrays:
        uses = finder.uses.get(name)
        if uses is None:
            continue
        try:
            found = finder.of_array(uses)
        except isl.Unknown:
            gave_up.append(name)
            continue
        flow += found[0]
        anti += found[1]
        output += found[2]
        if program.arrays[name].is_live_out:
            live_out[name] = found[3]
    why = ""
    if gave_up:
        names = ", ".join(f"`{name}`" for name in gave_up)
        why = f"the dependences over {names} are too complex to be computed exactly"
    order = {statement.id: k for k, statement in enumerate(program.statements)}

    def key(dependence: Dependence) -> tuple[int, int]:
        return order[dependence.source], order[dependence.sink]

    return Dependences(
        tuple(sorted(flow, key=key)),
        tuple(sorted(anti, key=key)),
        tuple(sorted(output, key=key)),
        live_out,
        not gave_up,
        why,
    )


def flow_of_read(
    program: PolyProgram, deps: Dependences, statement: str, read: int
) -> tuple[dict[str, IslMap], IslSet]:
    """What feeds read number `read` of `statement`.

    Returns ({ source id: { source[...] -> statement[...] } }, the instances of the statement for
    which nothing wrote the element: they see the caller's array, or the zero of a temporary).
    """
    sink = program.statement(statement)
    access = sink.reads[read]
    sources: dict[str, IslMap] = {}
    rest: IslSet | None = None
    for name, relation in access.parts:
        fed: IslMap | None = None
        wanted = relation.wrap()
        for dependence in deps.flow:
            if dependence.sink != statement or dependence.array != name:
                continue
            assert dependence.by_element is not None
            part = dependence.by_element.intersect_range(wanted)
            if part.is_empty():
                continue
            pairs = part.range_factor_domain()
            known = sources.get(dependence.source)
            sources[dependence.source] = pairs if known is None else known.union(pairs)
            elements = part.range()
            fed = elements if fed is None else fed.union(elements)
        missing = wanted if fed is None else wanted.subtract(fed)
        instances = missing.unwrap().domain()
        rest = instances if rest is None else rest.union(instances)
    assert rest is not None
    return sources, rest


def names_one_place(access: Access) -> bool:
    """Does the access's relation give the very element that is touched, if one is?

    An inexact one may: what an arm of a choice on data reads is known, only not whether it is.
    """
    if access.exact:
        return True
    if not all(relation.is_single_valued() for _, relation in access.parts):
        return False
    domains = [relation.domain() for _, relation in access.parts]
    return all(
        one.is_disjoint(other) for k, one in enumerate(domains) for other in domains[k + 1 :]
    )


# --------------------------------------------------------------------------------- one array


@dataclass(slots=True)
class _Use:
    """What one statement does with one array: merged reads, its write, whether they are exact."""

    statement: Statement
    place: int
    read: IslMap = None  # None: it does not read the array
    write: IslMap = None
    read_exact: bool = True
    write_exact: bool = True
    loads: list[Load] = field(default_factory=list[Load])


class _Finder:
    def __init__(self, program: PolyProgram, may: bool, operations: int) -> None:
        self.program = program
        self.may = may
        self.context = isl.context_of(program.context, operations)
        self.uses: dict[str, list[_Use]] = {}
        self.schedules: dict[str, IslMap] = {}
        self.operands: dict[str, IslMap | None] = {}
        self.accumulates: dict[str, bool] = {}
        accesses = [access for s in program.statements for access in (*s.reads, s.write) if len(access.parts) > 1]
        self.swapped = {name for access in accesses for name, _ in access.parts}
        self.depth = max((len(each.loops) for each in program.statements), default=0)
        for place, statement in enumerate(program.statements):
            self._note(place, statement)

    def _note(self, place: int, statement: Statement) -> None:
        found: dict[str, _Use] = {}

        def use(name: str) -> _Use:
            return found.setdefault(name, _Use(statement, place))

        predicated = statement.predicate is not None
        reads = statement.reads
        if predicated and self.may:
            reads = reads[:-1]  # the old value is not read, the write just may not happen
        for access in reads:
            for name, relation in access.parts:
                each = use(name)
                each.read = relation if each.read is None else each.read.union(relation)
                each.read_exact &= access.exact and not predicated
                each.loads.append(access.load)
        for name, relation in statement.write.parts:
            each = use(name)
            each.write = relation
            each.write_exact &= statement.write.exact and not predicated
            each.loads.append(statement.write.load)
        for name, each in found.items():
            if each.read is not None and len(reads) > 1:
                each.read = isl.simplified(each.read)
            self.uses.setdefault(name, []).append(each)

    def _kills(self, use: _Use) -> bool:
        """The write certainly happens, to the elements its relation names.

        A scalar that is private to a predicated body is inexact (the program may skip it), but
        the model always computes it, and whoever reads it does so where the program sets it.
        """
        if not names_one_place(use.statement.write):
            return False
        return not self.may or use.statement.predicate is None

    def of_array(
        self, uses: list[_Use]
    ) -> tuple[list[Dependence], list[Dependence], list[Dependence], dict[str, IslMap]]:
        """(flow, anti, output, last writers) over the array of `uses`."""
        readers = [use for use in uses if use.read is not None]
        writers = [use for use in uses if use.write is not None]
        if not writers:
            return [], [], [], {}
        # A write that may not happen, or not there, blurs what lies before and after it too.
        if not all(writer.write_exact for writer in writers):
            for use in uses:
                use.read_exact = use.write_exact = False
        ask = self.context.ask
        flow = ask(lambda: self._flow(readers, writers))
        anti = ask(lambda: self._anti(readers, writers))
        output = ask(lambda: self._output(writers))
        name = isl.range_name(writers[0].write)
        if not self.program.arrays[name].is_live_out:
            return flow, anti, output, {}
        return flow, anti, output, ask(lambda: self._live(writers))

    # ------------------------------------------------------------------------- order

    def _level(self, first: _Use, second: _Use) -> int:
        """How many loops two statements share."""
        level = 0
        for one, other in zip(first.statement.loops, second.statement.loops, strict=False):
            if one.iterator != other.iterator:
                break
            level += 1
        return level

    def _may_precede(self, first: _Use, second: _Use) -> bool:
        """Some instance of `first` may run before some instance of `second`."""
        return self._level(first, second) > 0 or first.place < second.place

    def _fixed(self, uses: Iterable[_Use]) -> frozenset[str]:
        """Iterators that all instances touching one element share, so that they order nothing:
        those a private array belongs to, and those that stand alone in one same subscript."""
        fixed: set[str | tuple[int, str]] | None = None
        for use in uses:
            for load in use.loads:
                array = self.program.arrays[load.array]
                here: set[str | tuple[int, str]] = set(array.private_to)
                here |= {
                    (position, each.name)
                    for position, each in enumerate(load.index)
                    if isinstance(each, Iter)
                }
                fixed = here if fixed is None else fixed & here
        return frozenset(each if isinstance(each, str) else each[1] for each in fixed or ())

    def _times(self, statement: Statement) -> IslMap:
        """{ statement[...] -> time[position, iterator, ..., position] }, iterators of loops that
        count down negated, padded with zeros to one length."""
        found = self.schedules.get(statement.id)
        if found is None:
            times: list[int | tuple[str, int]] = []
            for loop, position in zip(statement.loops, statement.positions[:-1], strict=True):
                times += [position, (loop.iterator, 1 if loop.step > 0 else -1)]
            times.append(statement.positions[-1])
            times += [0] * (2 * self.depth + 1 - len(times))
            found = isl.schedule_of(statement.domain.get_space(), times, statement.domain)
            self.schedules[statement.id] = found
        return found

    def _levels(
        self, source: Statement, sink: Statement, forward: bool, fixed: frozenset[str]
    ) -> tuple[int, ...]:
        """The dimensions of time at which `source` can be before `sink` (after, if not
        `forward`) with all outer ones equal."""
        levels: list[int] = []
        for k in range(min(len(source.positions), len(sink.positions))):
            one, other = source.positions[k], sink.positions[k]
            if one != other:
                if (one < other) == forward:
                    levels.append(2 * k)
                break
            if k == min(len(source.loops), len(sink.loops)):
                break
            if source.loops[k].iterator not in fixed:
                levels.append(2 * k + 1)
        return tuple(levels)

    def _ask(
        self, sinks: list[tuple[_Use, IslMap]], sources: list[_Use], forward: bool
    ) -> list[IslMap]:
        """{ source -> [sink -> element] }: for each sink access the last source before it (the
        next one after it, if not `forward`).

        The answer for one pair of sink and element does not depend on the other pairs, so a sink
        is asked piece by piece, which isl answers far faster.
        """
        fixed = self._fixed([*(use for use, _ in sinks), *sources])
        found: dict[tuple[str, str], IslMap] = {}
        for use, relation in sinks:
            asked = [
                (
                    source,
                    isl.Source(
                        source.write,
                        self._times(source.statement),
                        self._levels(source.statement, use.statement, forward, fixed),
                        self._kills(source),
                    ),
                )
                for source in sources
            ]
            asked = [each for each in asked if each[1].levels]
            if not asked:
                continue
            times = self._times(use.statement)
            for piece in isl.pieces_of(relation):
                answers = isl.last_sources(piece, times, [each for _, each in asked], forward)
                for (source, _), answer in zip(asked, answers, strict=True):
                    if answer is None:
                        continue
                    part = answer.intersect_params(self.program.context)
                    if part.is_empty():
                        continue
                    key = (source.statement.id, use.statement.id)
                    known = found.get(key)
                    found[key] = part if known is None else known.union(part)
        return [isl.simplified(each) for each in found.values()]

    # ------------------------------------------------------------------------- kinds

    def _flow(self, readers: list[_Use], writers: list[_Use]) -> list[Dependence]:
        found: list[Dependence] = []
        sinks: list[tuple[_Use, IslMap]] = []
        for reader in readers:
            before = [writer for writer in writers if self._may_precede(writer, reader)]
            if not before:
                continue
            alone = len(before) == 1 and self._level(before[0], reader) == 0
            if alone and self._writes_once(before[0]):
                found += self._direct_flow(before[0], reader)
            else:
                sinks.append((reader, reader.read))
        if sinks:
            needed = [
                writer
                for writer in writers
                if any(self._may_precede(writer, reader) for reader, _ in sinks)
            ]
            by_reader = {use.statement.id: use for use in readers}
            by_writer = {use.statement.id: use for use in writers}
            for relation in self._ask(sinks, needed, True):
                if relation.is_empty():
                    continue
                pairs = relation.range_factor_domain()
                source = by_writer[isl.domain_name(pairs)]
                sink = by_reader[isl.range_name(pairs)]
                found += self._flows(source, sink, relation)
        return found

    def _flows(self, source: _Use, sink: _Use, relation: IslMap) -> list[Dependence]:
        """The flow { source -> [sink -> element] } as one dependence, or, where an update hands on what it made of an
        element and its operand reads the array too, as two: the reduction's own, and that of the operand.

        before:  A[i, j] -= A[i, k] * A[k, j]
        after:   a flow along k, which is a reduction's, and others along i, which are not
        """
        parts = [relation]
        operand = self._operand(sink.statement)
        if operand is not None and self._same_reduction(source, sink):
            aside = relation.intersect_range(operand.wrap())
            parts = [part for part in (relation.subtract(aside), aside) if not part.is_empty()]
        found: list[Dependence] = []
        for part in parts:
            pairs = part.range_factor_domain()
            is_own = operand is None or part.range().unwrap().is_disjoint(operand)
            found.append(self._dependence("flow", source, sink, pairs, part, is_own))
        return found

    def _operand(self, statement: Statement) -> IslMap | None:
        """{ update -> element }: what an update reads of the array that it updates, but for what it adds to; None where
        it reads nothing else."""
        own = statement.accumulator
        if own is None:
            return None
        if statement.id not in self.operands:
            last = len(statement.reads) - (statement.predicate is not None)
            name = statement.target.array
            found: IslMap = None
            for number, access in enumerate(statement.reads[:last]):
                for array, part in access.parts:
                    if array == name and number != own:
                        found = part if found is None else found.union(part)
            self.operands[statement.id] = found
        return self.operands[statement.id]

    def _same_reduction(self, source: _Use, sink: _Use) -> bool:
        """Are both updates of one accumulator by one operation, whose operands are not what they update?"""
        one, other = source.statement, sink.statement
        if not one.reduction or one.reduction != other.reduction:
            return False
        if "init" in (one.kind, other.kind) or one.target.array != other.target.array:
            return False
        return all(self._accumulates(each) for each in (one, other))

    def _accumulates(self, statement: Statement) -> bool:
        """Does the update read what it updates once only? (Of arrays that take turns with others it is not asked: their
        readers name either.)"""
        if statement.accumulator is None:
            return False
        if statement.id not in self.accumulates:
            operand = self._operand(statement)
            written = dict(statement.write.parts)[statement.target.array]
            apart = operand is None or (
                statement.target.array not in self.swapped
                and operand.intersect(written).intersect_params(self.program.context).is_empty()
            )
            self.accumulates[statement.id] = apart
        return self.accumulates[statement.id]

    def _writes_once(self, use: _Use) -> bool:
        """No two instances write one element, so that no order is needed to find the last."""
        return self._kills(use) and bool(use.write.is_injective())

    def _direct_flow(self, writer: _Use, reader: _Use) -> list[Dependence]:
        """before: W writes each element once, R only runs after all of W
        after: the flow is { W -> [R -> element] } over the elements both touch."""
        # { R -> e } . { e -> W } reversed, with the element kept beside R.
        by_element = reader.read.range_map().apply_range(writer.write.reverse()).reverse()
        by_element = by_element.intersect_params(self.program.context)
        if by_element.is_empty():
            return []
        return self._flows(writer, reader, by_element)

    def _anti(self, readers: list[_Use], writers: list[_Use]) -> list[Dependence]:
        sinks: list[tuple[_Use, IslMap]] = []
        for reader in readers:
            if not any(self._may_precede(reader, writer) for writer in writers):
                continue
            relation = reader.read
            if reader.write is not None and self._kills(reader):
                # The next write is the reading instance's own.
                relation = relation.subtract(reader.write)
                if relation.is_empty():
                    continue
            sinks.append((reader, relation))
        later = [
            writer
            for writer in writers
            if any(self._may_precede(reader, writer) for reader, _ in sinks)
        ]
        if not sinks or not later:
            return []
        by_reader = {use.statement.id: use for use, _ in sinks}
        by_writer = {use.statement.id: use for use in later}
        found: list[Dependence] = []
        for relation in self._ask(sinks, later, False):
            if relation.is_empty():
                continue
            pairs = relation.range_factor_domain()
            sink, source = isl.domain_name(pairs), isl.range_name(pairs)
            found.append(
                self._dependence("anti", by_reader[source], by_writer[sink], pairs.reverse())
            )
        return found

    def _output(self, writers: list[_Use]) -> list[Dependence]:
        if len(writers) == 1 and (
            not writers[0].statement.loops or self._writes_once(writers[0])
        ):
            return []
        by_name = {use.statement.id: use for use in writers}
        found: list[Dependence] = []
        for relation in self._ask([(use, use.write) for use in writers], writers, True):
            if relation.is_empty():
                continue
            pairs = relation.range_factor_domain()
            source, sink = by_name[isl.domain_name(pairs)], by_name[isl.range_name(pairs)]
            found.append(self._dependence("output", source, sink, pairs))
        return found

    def _live(self, writers: list[_Use]) -> dict[str, IslMap]:
        """{ writer -> element } of the last writes: the flow to a read of everything at the end."""
        if len(writers) == 1 and self._writes_once(writers[0]):
            return {writers[0].statement.id: writers[0].write}
        elements = writers[0].write.range()
        for use in writers[1:]:
            elements = elements.union(use.write.range())
        end = isl.reading_everything(elements)
        last = max(statement.positions[0] for statement in self.program.statements) + 1
        here = end.domain()
        times = isl.schedule_of(here.get_space(), [last] + [0] * (2 * self.depth), here)
        sources = [
            isl.Source(use.write, self._times(use.statement), (0,), self._kills(use))
            for use in writers
        ]
        live: dict[str, IslMap] = {}
        for piece in isl.pieces_of(end):
            for use, answer in zip(
                writers, isl.last_sources(piece, times, sources, True), strict=True
            ):
                if answer is None:
                    continue
                part = answer.intersect_params(self.program.context).range_factor_range()
                if not part.is_empty():
                    known = live.get(use.statement.id)
                    live[use.statement.id] = part if known is None else known.union(part)
        return {name: isl.simplified(relation) for name, relation in live.items()}

    def _dependence(
        self,
        kind: str,
        source: _Use,
        sink: _Use,
        pairs: IslMap,
        by_element: IslMap | None = None,
        is_own: bool = True,
    ) -> Dependence:
        """`is_own`: it is no flow to the operand of an update."""
        if kind == "anti":  # an update's own read is followed by its own write
            is_own = self._operand(source.statement) is None
        ends = {
            "flow": (source.write_exact, sink.read_exact),
            "anti": (source.read_exact, sink.write_exact),
            "output": (source.write_exact, sink.write_exact),
        }[kind]
        write = sink.write if kind != "flow" else source.write
        return Dependence(
            kind,
            isl.range_name(write),
            source.statement.id,
            sink.statement.id,
            pairs,
            by_element,
            is_own and self._same_reduction(source, sink),
            all(ends),
        )
