"""The checker: does a LoopTree do what the program says? It trusts nothing the planner said.

From the tree alone it derives where and when each Compute runs (`proof/events.py`), and proves:

1. every Compute runs an instance of its statement's domain and calculates the statement's value
   (`proof/values.py`);
2. every read finds the value that the exact dependences name: the last write to the cell it reads
   was made by an instance of the same statement and iteration, or there was none and the program
   reads an initial value too;
3. when all is done, every element the caller sees was written last by the instance that the
   program says, and no other element was written;
4. no two threads touch one cell, one of them writing, unless a barrier or flags stand between
   them (`proof/races.py`, `proof/flags.py`); so
   the order taken in 2 and 3 does not matter;
   and no two iterations of a VECTOR loop meet (`proof/vectors.py`);
5. accesses to storage stay inside it;
6. a reduction whose order changed still counts every update exactly once (`proof/reductions.py`);
7. a loop whose bounds are data reads those that the program's loop has, once they are there, and
   what it may leave out is what does not happen (`proof/headers.py`);
8. the program does the same with the dimensions as one that the tree runs as one (`poly.collapse`), and
   loops of a launch that run as one with others run what these run (`proof/coalesced.py`).

Cells are storage locations: a register of each thread is a cell of its own, and so on. Values are
named by what made them: `S1[i, j]` for an instance, `@a[i]` for what the caller's array held,
`@0[]` for zeroed storage. Each question is one isl question about relations between instances of
tree nodes and values. What isl cannot answer is "unknown", never "proved".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from loopfuse.base.diagnostics import InternalError
from loopfuse.lang.index import FALSE, TRUE, is_checked
from loopfuse.lang.linear import constant_value, interval, same_index
from loopfuse.lang.nodes import Binary, Const, Load
from loopfuse.lang.slope import is_one, slope
from loopfuse.lang.walk import has_checks, iterators, loads, substitute, walk_expr
from loopfuse.poly import isl
from loopfuse.poly.collapse import may_collapse
from loopfuse.poly.deps import flow_of_read, names_one_place
from loopfuse.poly.isl_relations import sample_pair
from loopfuse.poly.model import Dependences, PolyProgram, Statement
from loopfuse.proof.accesses import Accesses, Read, Write, union, without
from loopfuse.proof.aligned import same_effect
from loopfuse.proof.coalesced import find_uncovered
from loopfuse.proof.events import WRITE, Events, Leaf, Undecided
from loopfuse.proof.flags import misused_flag
from loopfuse.proof.found import Values
from loopfuse.proof.headers import invented_symbol, misread_bound, read_headers
from loopfuse.proof.needs import Needs
from loopfuse.proof.order import keeps_order
from loopfuse.proof.races import find_race
from loopfuse.proof.reductions import Reader, check_reduction, free_updates
from loopfuse.proof.sets import Touch
from loopfuse.proof.values import Different, is_same_place, match_value
from loopfuse.proof.vectors import find_carried
from loopfuse.proof.windows import different_tile
from loopfuse.tree.form.check import check_tree
from loopfuse.tree.looptree import (
    Buffer,
    Combine,
    Compute,
    Copy,
    Fold,
    LoopTree,
    Register,
    Scan,
    Window,
    modulus_of,
)
from loopfuse.tree.printer import print_expr
from loopfuse.tree.rewrite import running, specialise, turns
from loopfuse.tree.walk import (
    conditions_with_aligned,
    mentions_aligned,
    open_tiles,
    resolve_aligned,
    resolve_resident,
    without_written_out,
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`answer` is proved, wrong or unknown; `findings` say what is wrong or not known, with a
    statement and an example; `questions` is how many relations were compared. `checks` names the
    check that each finding comes from: form, collapse, coalesced, instance, value, bounds, race, vector, flag, header,
    read, result or reduction."""

    answer: str
    findings: tuple[str, ...] = ()
    questions: int = 0
    checks: tuple[str, ...] = ()


Finding = tuple[str, str]
"""Which check found it, and what."""


def verify(
    program: PolyProgram, deps: Dependences, tree: LoopTree, reassociate: bool = True
) -> Verdict:
    """Prove that `tree` computes what `program` does, for every call that its context allows;
    `reassociate`: the updates of a reduction may be combined in another order."""
    if not deps.complete:
        return Verdict("unknown", (deps.why,), 0, ("dependences",))
    try:
        check_tree(tree)
    except InternalError as error:
        return Verdict("wrong", (error.diagnostics[0].message,), 0, ("form",))
    if name := invented_symbol(program, tree):
        return Verdict("wrong", (f"{name} is no parameter of the kernel",), 0, ("form",))
    for sizes in tree.collapsed:
        if not may_collapse(program, sizes):
            return Verdict("wrong", (f"{' x '.join(sizes)} cannot run as one",), 0, ("collapse",))
    if any(launch.coalesced for launch in tree.launches):
        try:
            uncovered = isl.context_of(program.context).ask(lambda: find_uncovered(program.context, tree))
        except isl.FAILURES as error:
            return Verdict("unknown", (_gave_up(error),), 0, ("coalesced",))
        if uncovered:
            return Verdict("wrong", (uncovered,), 0, ("coalesced",))
    tree = open_tiles(without_written_out(specialise.erase(running.erase(turns.erase(tree)))))
    wrong: list[Finding] = []
    unknown: list[Finding] = []
    questions = 0
    # What runs where arrays stay in the caches, and what runs elsewhere: each does all, whatever the sizes.
    for way in (tree,) if tree.resident is None else (resolve_resident(tree, each) for each in (FALSE, TRUE)):
        if not (wrong or unknown):
            questions += _verify_way(program, deps, way, reassociate, wrong, unknown)
    answer = "wrong" if wrong else "unknown" if unknown else "proved"
    findings = tuple(dict.fromkeys(wrong + unknown))
    return Verdict(
        answer, tuple(text for _, text in findings), questions, tuple(check for check, _ in findings)
    )


def _verify_way(
    program: PolyProgram,
    deps: Dependences,
    tree: LoopTree,
    reassociate: bool,
    wrong: list[Finding],
    unknown: list[Finding],
) -> int:
    """Every check of the tree that runs, whether ALIGNED is true or false; the number of questions."""
    questions = 0
    try:
        versions = _versions(program, tree)
    except isl.FAILURES as error:
        unknown.append(("form", _gave_up(error)))
        return 0
    for version, possible in versions:
        if version is not versions[0][0] and not (wrong or unknown):
            alone = partial(_alone, possible, deps, reassociate)
            if same_effect(versions[0][0], version, alone):
                continue
        checker = _Checker(possible, deps, version, reassociate, wrong, unknown)
        try:
            checker.run()
        except Undecided as error:
            unknown.append((checker.check, str(error)))
        except isl.FAILURES as error:
            unknown.append((checker.check, _gave_up(error)))
        questions += checker.questions
    return questions


def _alone(
    program: PolyProgram, deps: Dependences, reassociate: bool, tree: LoopTree
) -> _Checker | None:
    """A checker that has run on a part of a tree and proved all but what is left in the end."""
    wrong: list[Finding] = []
    unknown: list[Finding] = []
    checker = _Checker(program, deps, tree, reassociate, wrong, unknown)
    checker.run(alone=True)
    return None if wrong or unknown else checker


def write_once(writes: Sequence[Write]) -> bool:
    """Is each cell written by one instance of one of them at most?"""
    seen: Any = None
    for write in writes:
        if not write.cell.is_injective():
            return False
        cells = write.cell.range()
        if seen is not None and not seen.is_disjoint(cells):
            return False
        seen = cells if seen is None else seen.union(cells)
    return True


def _gave_up(error: Exception) -> str:
    """What to say where isl reached a limit; what is no limit but a bug is raised again."""
    if not isl.gave_up(error):
        raise error
    return "too many operations to decide (operation limit)"


def _versions(program: PolyProgram, tree: LoopTree) -> list[tuple[LoopTree, PolyProgram]]:
    """The trees that run when ALIGNED is false and when it is true, each with the calls to prove
    it for: where no guard changes its answer, both run the same."""
    if not mentions_aligned(tree):
        return [(tree, program)]
    versions = [(resolve_aligned(tree, False), program)]
    space = isl.set_space(isl.context_of(program.context), program.symbols, ())
    reader = isl.Reader(space)
    calls = isl.empty(space)
    for conditions in conditions_with_aligned(tree):
        holds = [None if iterators(c) else reader.condition(c) for c in conditions]
        if holds[0] is None or holds[1] is None:
            calls = isl.universe(space)
            break
        calls = calls.union(holds[0].subtract(holds[1])).union(holds[1].subtract(holds[0]))
    program = replace(program, context=program.context.intersect(calls.params()))
    if not program.context.is_empty():
        versions.append((resolve_aligned(tree, True), program))
    return versions


class _Checker:
    def __init__(
        self,
        program: PolyProgram,
        deps: Dependences,
        tree: LoopTree,
        reassociate: bool,
        wrong: list[Finding],
        unknown: list[Finding],
    ) -> None:
        self.program, self.deps, self.tree = program, deps, tree
        self.wrong, self.unknown = wrong, unknown
        self.questions = 0
        self.check = "form"  # which check is running
        self.reassociate = reassociate
        self.fed = {(flow.sink, flow.array) for flow in deps.flow}
        self.flows: dict[tuple[str, int], tuple[dict[str, Any], Any]] = {}
        self.registers = frozenset(  # one to a thread, and without subscripts
            b.name for b in tree.buffers if isinstance(b.home, Register) and not b.extents
        )

    def run(self, alone: bool = False) -> None:
        """Every check. `alone`: of a part of a tree: each of its reads, and not what is left in the end;
        Undecided where updates of reductions are among them."""
        self.check = "instance"
        context = isl.context_of(self.program.context)
        self.events = context.ask(lambda: Events(self.program, self.tree))
        self.accesses = Accesses(self.events)
        self.values = Values(self.accesses)
        ask = self.events.context.ask
        for leaf in self.events.leaves:
            if not leaf.points.is_empty():
                ask(lambda leaf=leaf: self._leaf(leaf))
        if self.wrong:
            return  # what follows takes instances and places for granted
        self.check = "header"
        headers, doubts = read_headers(self.values, ask)
        self.unknown += [(self.check, doubt) for doubt in doubts]
        self.check = "read"
        self.needs = Needs(self.values)
        self.check = "flag"
        self.questions += 1
        misused = ask(lambda: misused_flag(self.accesses))
        if misused is not None:
            self._fail(*misused)
        for buffer in self.tree.buffers:
            self.check = "bounds"
            ask(lambda name=buffer.name: self._bounds(name))
            if buffer.name in self.accesses.writes:
                self.check = "race"
                self.questions += 1
                race = ask(lambda name=buffer.name: find_race(self.accesses, name))
                if race is not None:
                    self._fail(f"two threads touch one element of {buffer.name}", race)
        self.check = "vector"
        carried = ask(lambda: find_carried(self.accesses))
        if carried is not None:
            self._fail(*carried)
        self.check = "header"
        for header in headers:
            self.questions += 1
            stray = ask(lambda header=header: misread_bound(self.accesses, self.values, header))
            if stray is not None:
                self._fail(*stray)
        self.check = "read"
        different = ask(lambda: different_tile(self.values))
        if different is not None:
            self._fail(*different)
        ordered = {
            name
            for name in dict.fromkeys((*self.accesses.writes, *self.accesses.reads))
            if not alone and ask(lambda name=name: keeps_order(self.accesses, self.deps, name))
        }
        reductions: dict[str, list[Read]] = {}
        self.ends: dict[str, Reader] = {}
        self.partial = self._partial_results()
        for name in self.accesses.reads:
            if name not in ordered:
                ask(lambda name=name: self._reads(name, reductions))
        if alone:
            if reductions:
                raise Undecided("a reduction, alone")
            return
        self.check = "result"
        done = {self.events.buffers[name].array for name in ordered}
        for array in self.program.arrays.values():
            if array.is_argument and array.name not in done:
                ask(lambda name=array.name: self._results(name, reductions))
        self.check = "reduction"
        for array, unproved in reductions.items():
            end = self.ends.get(array)
            problem = ask(
                lambda array=array, reads=unproved, end=end: check_reduction(
                    self.accesses, self.deps, array, reads, end, self.reassociate
                )
            )
            self.questions += 1
            if problem is not None:
                self._reject(problem)

    def _reject(self, message: str) -> None:
        self.wrong.append((self.check, message))

    def _fail(self, message: str, example: Any) -> None:
        """Note that the relation `example` should have been empty (None: there is none to show)."""
        found = None if example is None else sample_pair(example)
        where = ""
        if found is not None:
            sizes, source, sink = found
            names = ", ".join(f"{name}={value}" for name, value in sizes.items())
            where = f": {_tuple(example, isl.IN, source)} -> {_tuple(example, isl.OUT, sink)}"
            where += f" at {names}" if names else ""
        self._reject(message + where)

    # ------------------------------------------------- 1: instances and what they calculate

    def _leaf(self, leaf: Leaf) -> None:
        match leaf.node:
            case Compute():
                self._compute(leaf, leaf.node)
            case Copy(target=target, value=Load() as value):
                self.accesses.add_write(leaf, target, None)
                self.accesses.add_read(leaf, value)
            case Copy(target=target, value=value):
                is_zero = isinstance(value, Const) and repr(value.value) in ("0", "0.0", "False")
                self.accesses.add_write(leaf, target, leaf.relation([], "@0") if is_zero else None)
            case Fold(target=target, value=value):
                self.accesses.add_read(leaf, value)
                self.accesses.add_write(leaf, target, None)
            case Combine(buffer=buffer) | Scan(buffer=buffer) as node:
                index = node.index if isinstance(node, Scan) else ()
                register = Load(buffer, index, self.events.buffers[buffer].dtype)
                self.accesses.add_read(leaf, register)
                self.accesses.add_write(leaf, register, None)
            case _:
                pass

    def _compute(self, leaf: Leaf, node: Compute) -> None:
        self.check = "instance"
        statement = self.program.statement(node.statement)
        if len(node.iteration) != len(statement.iterators):
            self._reject(f"{statement.id} has {len(statement.iterators)} iterators")
            return
        instance = leaf.relation(node.iteration, statement.id)
        self.accesses.instances[leaf.name] = instance
        self.questions += 1
        running = leaf
        if not instance.range().is_subset(statement.domain):
            if not self._is_harmless(leaf, node, statement):
                outside = instance.subtract_range(statement.domain)
                self._fail(f"{statement.id} runs outside its loops", outside)
                return
            # What it leaves there is no value: nothing that is needed may find it.
            instance = instance.intersect_range(statement.domain)
            running = replace(leaf, points=instance.domain().reset_tuple_id())
        into = self.events.buffers[node.target.array]
        if into.factors:
            self.accesses.composed.add(statement.id)
        elif into.array != statement.target.array and self._adds_to_itself(statement, node):
            self.accesses.summed.add(statement.id)
        self.check = "value"
        try:
            pairs = match_value(statement, running, node, self.registers)
        except Different as error:
            self._reject(f"{statement.id} calculates something else: {error}")
            return
        if statement.predicate is not None:
            pairs.append((len(statement.reads) - 1, node.target))
        for number, load in pairs:
            self._compute_read(leaf, node, statement, instance, number, load)
        self.accesses.add_write(leaf, node.target, instance)

    def _adds_to_itself(self, statement: Statement, node: Compute) -> bool:
        """Does it add to what it finds where it writes, though it is no reduction?"""
        return not statement.operation and statement.predicate is None and is_one(slope(node.value, node.target))

    def _is_harmless(self, leaf: Leaf, node: Compute, statement: Statement) -> bool:
        """May it run where its loops do not? It goes from a thread's own registers to others, and
        can neither fault nor be reported."""

        def is_own(load: Load) -> bool:
            buffer = self.events.buffers[load.array]
            is_held = isinstance(buffer.home, Register | Window)
            return is_held and self._is_plainly_inside(leaf, load, buffer)

        return (
            leaf.rotated is not None
            and statement.predicate is None
            and all(map(is_own, (node.target, *loads(node.value))))
            and not has_checks(node.value)
            and not any(
                isinstance(part, Binary) and part.op in ("floordiv", "mod") and part.dtype.is_integer
                for part in walk_expr(node.value)
            )
        )

    def _compute_read(
        self, leaf: Leaf, node: Compute, statement: Statement, instance: Any, number: int, load: Load
    ) -> None:
        """Note what read `number` must find."""
        if self._is_plain_argument(statement, leaf, node, number, load):
            return
        access = statement.reads[number]
        checked = any(is_checked(subscript) for subscript in access.load.index)
        hidden = not checked and not names_one_place(access)
        if hidden and not is_same_place(statement, leaf, node, access.load, load):
            raise Undecided(f"{statement.id} reads {access.array} at a place that is not affine")
        where = access.parts[0][1].domain()
        for _, relation in access.parts[1:]:
            where = where.union(relation.domain())
        where = instance.intersect_range(where).domain().coalesce()
        if not where.is_empty():
            self.accesses.add_read(
                leaf,
                load,
                where,
                lambda: self._wanted(leaf, statement, instance, number),
                f"{statement.id} reading {print_expr(access.load)} in {load.array}",
                (statement, number),
                hidden,
            )

    def _wanted(self, leaf: Leaf, statement: Statement, instance: Any, number: int) -> list[Any]:
        """Maps { leaf -> value }: what read `number` must find."""
        access = statement.reads[number]
        if any(is_checked(subscript) for subscript in access.load.index):
            # Which element it is, is not known: that the buffer keeps the program's order would do.
            raise Undecided(f"{statement.id} reads {access.array} at a place that depends on data")
        if not names_one_place(access):
            raise Undecided(f"{statement.id} reads {access.array} at a place that is not affine")
        key = (statement.id, number)
        if key not in self.flows:
            self.flows[key] = flow_of_read(self.program, self.deps, *key)
        sources, rest = self.flows[key]
        for source in sources:
            writer = self.program.statement(source)
            # (What updates at places that depend on data make is proved as a whole: `check_reduction`.)
            if not names_one_place(writer.write) and not writer.scatter:
                raise Undecided(f"{source} may or may not write what {statement.id} reads")
        wanted = [instance.apply_range(source.reverse()) for source in sources.values()]
        for name, relation in access.parts:
            initial = instance.apply_range(relation.intersect_domain(rest))
            if self.program.arrays[name].is_argument:
                wanted.append(initial.set_tuple_name(isl.OUT, f"@{name}"))
            else:
                zero = leaf.relation([], "@0")
                wanted.append(zero.intersect_domain(initial.domain()))
        return [each for each in wanted if not each.is_empty()]

    def _is_plain_argument(
        self, statement: Statement, leaf: Leaf, node: Compute, number: int, load: Load
    ) -> bool:
        """An argument that neither program nor tree writes, read where the program reads it: the
        common case, mostly without isl."""
        access = statement.reads[number]
        buffer = self.events.buffers[load.array]
        if not buffer.argument or load.array in self.events.written or len(access.parts) != 1:
            return False
        if access.array != buffer.array or (statement.id, access.array) in self.fed:
            return False
        iteration = dict(zip(statement.iterators, node.iteration, strict=True))
        wanted = [substitute(part, iteration) for part in access.load.index]
        return len(wanted) == len(load.index) and all(
            is_checked(one)  # the same expression: `match_value` has seen to that
            or same_index(one, other) or leaf.always_equal(one, other)
            for one, other in zip(wanted, load.index, strict=True)
        )

    # ------------------------------------------------- 2: reads

    def _reads(self, buffer: str, reductions: dict[str, list[Read]]) -> None:
        wanted = [read for read in self.accesses.reads[buffer] if read.statement is not None]
        if not wanted:
            return
        if buffer in self.partial:
            # No read finds the value of one instance there: look only at what went into it.
            for read in [each for each in wanted if self._is_reduced(each)]:
                reductions.setdefault(read.array, []).append(read)
                wanted.remove(read)
        for read in [each for each in wanted if self._is_scattered(each)]:
            # Which element it is, is not known: what went into all of them is what can be asked.
            reductions.setdefault(read.array, []).append(read)
            wanted.remove(read)
        if not wanted:
            return
        for read in wanted:
            needed = None
            if self.needs.may_be_junk(read.leaf):
                needed = self.needs.of(read.leaf).set_tuple_name(read.name)
            found = self.values.of_needed(read, needed)
            for value in read.wanted:
                self.questions += 1
                if needed is not None:
                    value = value.intersect_domain(needed)
                missing = without(value, found)
                if missing.is_empty():
                    continue
                if self._is_reduced(read):
                    reductions.setdefault(read.array, []).append(read)  # perhaps another order
                    break
                self._fail(f"{read.what} does not find", missing)

    def _is_reduced(self, read: Read) -> bool:
        """Is it a value that updates went into which may run in another order?"""
        recurrences = self.accesses.recurrences
        return bool(free_updates(self.program.statements, read.array, self.reassociate, recurrences))

    def _is_scattered(self, read: Read) -> bool:
        """Is it a read, at a place that depends on data, of what updates at such places make?"""
        if read.statement is None or not any(s.scatter and s.target.array == read.array for s in self.program.statements):
            return False
        return any(is_checked(subscript) for subscript in read.statement.reads[read.number].load.index)

    def _partial_results(self) -> set[str]:
        """The buffers that Folds, Combines and Scans use, and those that their results are copied to."""
        moved = self.accesses.moves()
        found: set[str] = set()
        for write, read in moved:
            if isinstance(write.leaf.node, Fold | Combine | Scan):
                found |= {write.load.array, read.buffer}
        while more := {w.load.array for w, read in moved if read.buffer in found} - found:
            found |= more
        return found

    # ------------------------------------------------- 3: results, 5: bounds

    def _results(self, array: str, reductions: dict[str, list[Read]]) -> None:
        """What the caller finds in `array`: written last by whom the program says."""
        names = [b.name for b in self.tree.buffers if b.argument and b.array == array]
        written = [write for name in names for write in self.accesses.writes.get(name, [])]
        live = self.deps.live_out.get(array, {})
        expected = [
            relation.reverse().set_tuple_name(isl.IN, "@end").intersect_params(self.program.context)
            for relation in live.values()
        ]
        expected = [each for each in expected if not each.is_empty()]
        if not names and expected:
            self._reject(f"no buffer of the tree is the argument {array}")
        if not names or not (written or expected):
            return
        kept = union([each.domain().identity() for each in expected], None)
        for write in written:
            touched = write.cell.range().set_tuple_name("@end").identity()
            extra = touched if kept is None else touched.subtract(kept)
            if extra.is_empty():
                continue
            if array not in reductions:
                self._fail(f"{array} is written where the program does not", extra)
                return
            # A reduction may write back what it found, where it has nothing to add.
            expected.append(extra.set_tuple_name(isl.OUT, f"@{array}"))
            kept = extra if kept is None else kept.union(extra)
        if kept is None:
            return
        cell = kept.set_tuple_name(isl.OUT, names[0])
        if array in reductions and not self._is_held(names[0], written, cell, expected):
            element = cell.set_tuple_name(isl.OUT, array)
            touch = Touch(cell, self._end_time())
            self.ends[array] = Reader("@end", names[0], touch, element, tuple(expected), array)
            return
        if array in reductions:
            return
        found = self._held_at_the_end(names[0], written, cell)
        for value in expected:
            self.questions += 1
            missing = without(value, found)
            if not missing.is_empty():
                self._fail(f"{array} does not hold in the end", missing)

    def _is_held(self, buffer: str, written: list[Write], cell: Any, expected: list[Any]) -> bool:
        """Does it hold the values of a recurrence's own iterations in the end, of which none is a partial result?"""
        if not any(s.target.array == self.events.buffers[buffer].array for s in self._recurrences()) or buffer in self.partial:
            return False
        found = self._held_at_the_end(buffer, written, cell)
        return all(without(value, found).is_empty() for value in expected)

    def _recurrences(self) -> list[Statement]:
        return [self.program.statement(id) for id in sorted(self.accesses.recurrences)]

    def _held_at_the_end(self, buffer: str, written: list[Write], cell: Any) -> list[Any]:
        """Maps { @end -> value }: what the cells of { @end -> cell } hold in the end."""
        if self.values.has_windows:
            end = self._at_the_end(cell)
            found = self.values.memory.at_end(cell, end, self._end_time(), buffer)
            if found is not None:
                return found
        by_name = {write.leaf.name: write for write in written}
        return [
            pairs.apply_range(value)
            for pairs in (each.reverse() for each in self._last_of_all(written, cell))
            for value in self.values.written(by_name[isl.range_name(pairs)])
        ]

    def _last_of_all(self, writes: list[Write], cell: Any) -> list[Any]:
        """{ write -> @end } maps: the last write of all to each cell of { @end -> cell }."""
        if len(writes) == 1 and writes[0].cell.is_injective():
            return [writes[0].cell.apply_range(cell.reverse())]  # the only write there
        if not writes:
            return []
        # Launches of which a call runs one or another leave nothing to each other.
        out: list[Any] = []
        for launches, calls in self.events.apart(dict.fromkeys(write.leaf.launch for write in writes)):
            here = [write for write in writes if write.leaf.launch in launches]
            own = cell.intersect_params(calls)
            if write_once(here):
                out += [write.cell.apply_range(own.reverse()) for write in here]
                continue
            sources = [(write.leaf, write.cell, WRITE) for write in here]
            end = self._at_the_end(own)
            out += [p for _, p in self.events.last_before(own, end, self._end_time(), sources)]
        return out

    def _end_time(self) -> tuple[int, ...]:
        return (1 << 20, *([0] * self.events.depth))

    def _at_the_end(self, cell: Any) -> Any:
        """{ @end -> time }: after everything else."""
        elements = cell.domain().reset_tuple_id()
        end = isl.schedule_of(elements.get_space(), self._end_time(), elements)
        return end.set_tuple_name(isl.IN, "@end")

    def _bounds(self, name: str) -> None:
        """Accesses of a buffer stay inside it. (Those of an argument are the program's own, but
        for what a Copy moves, and what fills a window and may be junk.)"""
        buffer = self.events.buffers[name]
        if not buffer.extents:
            return
        writes: list[Write] = self.accesses.writes.get(name, [])
        reads: list[Read] = self.accesses.reads.get(name, [])
        if buffer.argument:
            writes = []
            reads = [r for r in reads if r.statement is None or self.needs.may_be_junk(r.leaf)]
        for access in (*writes, *reads):
            index = access.load.index
            if self._is_plainly_inside(access.leaf, access.load, buffer):
                continue
            self.questions += 1
            box = self.events.box(buffer, access.cell.dim(isl.OUT) - len(index))
            outside = access.cell.subtract_range(box)
            if not outside.is_empty():
                self._fail(f"an access leaves {name}", outside)

    def _is_plainly_inside(self, leaf: Leaf, load: Load, buffer: Buffer) -> bool:
        """Do the constant bounds of the loops around it keep an access of a buffer of constant
        extents inside?"""
        if len(load.index) != len(buffer.extents):
            return False
        ranges = self.events.ranges_around(leaf)
        for position, (part, size) in enumerate(zip(load.index, buffer.extents, strict=True)):
            extent = constant_value(size)
            if position == 0 and modulus_of(buffer.home):
                continue  # taken modulo its rows
            ends = interval(part, ranges)
            if extent is None or ends is None or ends[0] < 0 or ends[1] >= extent:
                return False
        return True


def _tuple(relation: Any, side: Any, values: list[int]) -> str:
    name = relation.get_tuple_name(side) if relation.has_tuple_name(side) else ""
    return f"{name}[{', '.join(map(str, values))}]"
