"""Rows on a GPU: a team of threads, a warp, a block or a cluster of blocks, has a row of its own.

Place `k * T + t` of a row is thread t's, of T threads. Of a pass of several loops the innermost goes to the last of the loops over
the team's threads, the outermost to the others, iteration `k * T + t` to thread t of their T; those between are each thread's. What several passes read is loaded once, before the
first of them, and held: some elements a thread, in registers; and so is what one pass makes for others alone.
Rows longer than a team holds are read again in each pass. Loads are STAGED ahead of what needs them, at a place
that is clamped to the row's last, so that they are under way together and no test stands between them.

    t of T:
        for k in 0..held: x_row[k] = x[r, min(k * T + t, C - 1)]
        m = -inf
        for k in 0..held: if k * T + t < C: m = max(m, x_row[k])
        combine max m over t, everywhere
        ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import reduce
from math import prod
from types import MappingProxyType

from loopfuse.lang.index import TRUE, conjoin
from loopfuse.lang.linear import constant_value, tidy
from loopfuse.lang.nodes import Const, Expr, Iter, Load, Select, combine, compare, integer
from loopfuse.lang.semantics import neutral
from loopfuse.lang.walk import loads, map_expr, moved_to, subscript_iterators, substitute
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.strategies.rows import sizes
from loopfuse.plan.strategies.rows.body import (
    COLUMN,
    Body,
    Pass,
    Range,
    own_registers,
    touched,
)
from loopfuse.plan.strategies.rows.row_ahead import a_row_ahead
from loopfuse.plan.strategies.rows.running import Pair, factor_of, pairs_of
from loopfuse.plan.strategies.rows.turned import PAIR, halved, turn_of
from loopfuse.tree.layout import Layout, Level, along
from loopfuse.tree.looptree import (
    ALIGNED,
    Buffer,
    Combine,
    Compute,
    Copy,
    Fold,
    Guard,
    Loop,
    Rescale,
    Running,
    Shared,
    TreeNode,
)
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.rewrite.specialise import without_implied
from loopfuse.tree.walk import as_load, map_expressions, may_be_predicated, walk_nodes, written_out

Chunk = Callable[[Expr, Expr, bool], tuple[TreeNode, ...]]
"""What is done with a chunk of that number, whose elements have the slots from one on, and which is whole or not."""


@dataclass(frozen=True, slots=True)
class Element:
    """One of a thread's elements of a chunk: its number, how many places it lies behind the start of the chunk, and its
    number in its vector."""

    number: Expr
    away: tuple[Expr, ...]
    lane: Expr

    @classmethod
    def at(cls, layout: Layout, values: Sequence[Expr], lane: Expr | None = None) -> Element:
        """The one of which the digits of the chunk's layout have these values, number `lane` of its vector (None: 0)."""
        return cls(layout.slot(values), layout.parts(0, values), integer(0) if lane is None else lane)


@dataclass(frozen=True, slots=True)
class Vector:
    """Neighbours of a thread in a chunk: the values of its layout's digits but for the last, which tells them apart. `var` tells
    the vectors of a thread apart, if it has `count` of them."""

    layout: Layout
    values: tuple[Expr, ...]
    var: str
    count: int

    @property
    def first(self) -> Element:
        """The first of them."""
        return Element.at(self.layout, (*self.values, integer(0)))

    @property
    def number(self) -> Expr:
        """Its number."""
        return self.first.number

    @property
    def away(self) -> tuple[Expr, ...]:
        """How many places it lies behind the start of the chunk."""
        return self.first.away

    def each(self, nodes: tuple[TreeNode, ...]) -> tuple[TreeNode, ...]:
        """The nodes for every vector of the thread."""
        if self.count == 1:
            return nodes
        return (Loop(self.var, integer(0), integer(self.count), 1, Where.UNROLLED, nodes),)


@dataclass(frozen=True, slots=True)
class Threads:
    """Loops over threads, each with its variable and how many there are."""

    loops: tuple[tuple[str, int], ...]

    @property
    def count(self) -> int:
        """How many they are."""
        return prod(count for _, count in self.loops)

    @property
    def vars(self) -> tuple[str, ...]:
        """The variables that number them."""
        return tuple(var for var, _ in self.loops)

    @property
    def number(self) -> Expr:
        """Which of them a thread is."""
        if not self.loops:
            return integer(0)
        return reduce(lambda number, loop: number * loop[1] + Iter(loop[0]), self.loops[1:], Iter(self.loops[0][0]))


@dataclass(frozen=True, slots=True)
class Team:
    """The threads that have a row: `inner` go along the innermost loop of a pass of several and `outer` along its
    outermost; along the loop of a pass of one all do. `held`: how many elements of a row each holds (0: none), and of
    how many places a row has at least, and may have at most (0: any number). `staged`: how many elements of an array a thread
    asks for before it needs the first, its part of a chunk of the row (at least a vector, of rows that have whole ones).
    `inside`: whether they have a row, where that is not the same for all that wait for each other. `vector`: so many elements of a thread are neighbours, where rows have whole vectors (0: none).
    `kept`: how many places of a row lie in shared memory, if it has whole vectors (0: none). `whole`: all rows have. `many`: what is `staged` instead
    where the row is read again (0: the same). `pairs`: rows that have no whole vectors go by pairs; `turned`: the vectors are pairs, which rows of any length have but for one place: by how
    many places the row is turned, so that pairs start at even places of memory (0 or 1; None: they are no pairs)."""

    inner: Threads
    held: int
    least: int = 0
    most: int = 0
    inside: Expr = TRUE
    outer: Threads = Threads(())
    staged: int = field(default_factory=lambda: sizes.STAGED)
    vector: int = 0
    kept: int = 0
    many: int = 0
    pairs: bool = False
    turned: Expr | None = None
    whole: bool = False

    @property
    def threads(self) -> Threads:
        """All."""
        return Threads((*self.outer.loops, *self.inner.loops))

    def along(self, one: Pass) -> Threads:
        """Those that go along the innermost loop of a pass."""
        return self.inner if one.outer else self.threads

    def chunk(self, threads: Threads) -> Layout:
        """Who of so many threads has which places of a chunk of the row: neighbours in vectors, else one each in turn."""
        if not self.vector:
            return along((Level.SLOT, self.staged), (Level.THREAD, threads.count))
        vectors = self.staged // self.vector
        return along((Level.SLOT, vectors), (Level.THREAD, threads.count), (Level.SLOT, self.vector))


def held_loads(body: Body) -> dict[Range, list[Load]]:
    """The elements of a place that several passes over the same places read, and nothing here writes."""
    count: dict[tuple[Range, Load], int] = {}
    for one in (each for each in body.passes if not each.outer):
        for load in body.asked(one):
            count[one.range, load] = count.get((one.range, load), 0) + 1
    found: dict[Range, list[Load]] = {}
    for (where, load), number in count.items():
        if number > 1:
            found.setdefault(where, []).append(load)
    return found


def team_nodes(body: Body, team: Team, site: Site) -> tuple[TreeNode, ...]:
    """What a thread of the team runs for its row."""
    return _Writer(body, team, site).nodes()


def share_nodes(
    body: Body, team: Team, site: Site, parts: Mapping[Load, str], row: str, along: Callable[[tuple[TreeNode, ...]], tuple[TreeNode, ...]]
) -> tuple[TreeNode, ...]:
    """What a thread of the team runs for its rows, which `along` goes along by `row`, and all of which the team holds. `parts`: elements at a
    place to which each row adds, and how: in registers, until all rows are done."""
    return _Writer(body, team, site, parts, row).share(along)


class _Writer:
    def __init__(self, body: Body, team: Team, site: Site, parts: Mapping[Load, str] = MappingProxyType({}), row: str = "") -> None:
        self.body, self.team, self.site, self.names = body, team, site, site.names
        self.parts, self.row = parts, row
        self.sums = {part: self.register(f"{part.array}_sum", part, team.held) for part in parts}
        """What lies in registers from row to row."""
        self.values = {place: self.register(f"{name}_value", place) for name, place in body.values.items()}
        self.own = self.values | own_registers(body, site.names)
        self.kept: dict[Load, Load] = {}
        """Elements of memory that lie in shared memory, and where."""
        self.is_again = False
        """Does each pass read the row again?"""
        self.alone: dict[Load, Load] = {}
        """Those at the place that is in no pair, and the registers that they are loaded to."""

    def register(self, wanted: str, load: Load, count: int = 0) -> Load:
        """A new register, or `count` of them, for what `load` gives."""
        return self.names.register(wanted, load, count)

    def nodes(self) -> tuple[TreeNode, ...]:
        return self.all_nodes()

    def with_row(self, nodes: Sequence[TreeNode]) -> tuple[TreeNode, ...]:
        """The nodes where the team has a row; what all threads do together, and what they then need, anyway."""
        if self.team.inside == TRUE:
            return tuple(nodes)
        out: list[TreeNode] = []
        guarded: list[TreeNode] = []
        for node in nodes:
            alone = any(isinstance(each, Rescale) and each.last for each in walk_nodes((node,)))
            if alone or isinstance(node, Combine) or (isinstance(node, Copy) and isinstance(node.value, Const)):
                out += (Guard(self.team.inside, tuple(guarded)),) if guarded else ()
                if isinstance(node, Running):
                    out.append(Running(self.with_row(node.body)))
                else:
                    out.append(Guard(self.team.inside, (node,)) if alone else node)
                guarded = []
            else:
                guarded.append(node)
        return (*out, Guard(self.team.inside, tuple(guarded))) if guarded else tuple(out)

    def all_nodes(self) -> tuple[TreeNode, ...]:
        """By whole vectors where rows have them, else by pairs or an element at a time."""
        vector = self.team.vector
        if not vector:
            return self.with_row(self.nodes_at_once())
        apart = replace(self.team, vector=0, many=sizes.STAGED_NARROW)
        if self.team.pairs:
            apart = replace(apart, staged=sizes.STAGED, vector=PAIR, turned=turn_of(self.body, self.names.buffers))
        return self.by_form(apart, lambda one: one.with_row(one.nodes_at_once()))

    def by_form(self, apart: Team, nodes: Callable[[_Writer], tuple[TreeNode, ...]]) -> tuple[TreeNode, ...]:
        """Nodes of this team, where rows are whole vectors, else of the other."""
        vector = self.team.vector
        other = _Writer(self.body, apart, self.site, self.parts, self.row)
        self.team = replace(self.team, staged=max(vector, self.team.staged))
        length = constant_value(self.body.length)
        if length is not None:
            return nodes(self if length % vector == 0 else other)
        # (Where all rows are whole vectors the test says so to what makes code of them.)
        whole = compare("eq", self.body.length % vector, integer(0))
        return (Guard(whole, nodes(self), () if self.team.whole else nodes(other)),)

    def share(self, along: Callable[[tuple[TreeNode, ...]], tuple[TreeNode, ...]]) -> tuple[TreeNode, ...]:
        """What is done with all rows of a share: sums begin from nothing, and are stored behind the last of them."""

        def all_of(one: _Writer) -> tuple[TreeNode, ...]:
            (loop,) = along((*one.constants(), *one.nodes_at_once()))
            assert isinstance(loop, Loop)
            rows = (loop,) if one.team.vector else a_row_ahead(loop, one.names)
            return (*one.cleared(), *rows, *one.sums_stored())

        if not self.team.vector:
            return all_of(self)
        return self.by_form(replace(self.team, vector=0), all_of)

    def constants(self) -> tuple[TreeNode, ...]:
        """Loads of what is the same for all places of a row, so that no test stands before them."""
        own = {load: self.register(f"{load.array}_here", load) for load in self.body.constants}
        nodes = tuple(Copy(register, self.redirected(load)) for load, register in own.items())
        self.own = {**self.own, **own}
        return nodes

    def cleared(self) -> tuple[TreeNode, ...]:
        """Sums of nothing."""
        var = self.names.fresh("u")
        nothing = {part: Const(neutral(op, part.dtype), part.dtype) for part, op in self.parts.items()}
        nodes = tuple(Copy(Load(own.array, (Iter(var),), own.dtype), nothing[part]) for part, own in self.sums.items())
        return (Loop(var, integer(0), integer(self.team.held), 1, Where.UNROLLED, nodes),)

    def sums_stored(self) -> tuple[TreeNode, ...]:
        """Those of each place to memory."""
        (where,) = {one.range for one in self.body.passes}
        threads = self.team.threads

        def chunk(number: Expr, slot: Expr, is_whole: bool) -> tuple[TreeNode, ...]:
            def put(element: Element) -> tuple[TreeNode, ...]:
                place = self.place(where[0], threads, number, element.away)
                nodes = tuple(
                    Copy(as_load(tidy(substitute(part, {COLUMN: place}))), Load(own.array, (_sum(slot, element.number),), own.dtype))
                    for part, own in self.sums.items()
                )
                return nodes if is_whole else (Guard(place < where[1], nodes),)

            if not self.team.vector:
                return self.staged(put, threads)
            vector = self.vector(threads)
            return vector.each(self.lanes(vector, put))

        return self.held(where, chunk)

    def nodes_at_once(self) -> tuple[TreeNode, ...]:
        """What is done with a row: held where there is room, or in chunks."""
        return (*self.odd_elements(), *self.held_or_again())

    def held_or_again(self) -> tuple[TreeNode, ...]:
        """The same, of which elements in no pair are loaded."""
        team = self.team
        room = team.threads.count * team.held
        held = held_loads(self.body)
        if self.parts:  # what is the same for all rows is near, and registers are few
            held = {where: [load for load in wanted if self.row in subscript_iterators(load)] for where, wanted in held.items()}
        if team.vector and team.kept and held and self.turn is None:
            return (*self.keeping(held), *self.stored())
        if not team.held or team.least > room or not (held or self.body.made):
            return (*self.again(), *self.stored())
        if team.vector and self.turn is None:
            for where, wanted in self.made_from().items():
                held[where] = list(dict.fromkeys((*held.get(where, ()), *wanted)))
        cells: dict[Range, dict[Load, Load]] = {}
        for where, wanted in held.items():
            cells[where] = {load: self.register(f"{load.array}_row", load, team.held) for load in wanted}

        def all_asked(mapping: Where) -> tuple[TreeNode, ...]:
            return tuple(
                node
                for where, own in cells.items()
                for node in self.held(
                    where,
                    lambda number, slot, is_whole, own=own, where=where: self.asked(
                        own, where, number, slot, is_whole, team.threads, mapping
                    ),
                )
            )

        ask = self.moved(all_asked)
        whole_row = self
        if team.vector:
            whole_row, alike = self.with_alike()
            for where, registers in alike:
                first = registers[0]
                own = self.register(f"{self.names.buffers[first.array].array}_row", first, team.held)
                cells.setdefault(where, {}).update(dict.fromkeys(registers, own))
        for load, own in self.sums.items():
            (where,) = {one.range for one in self.body.passes if load.array in touched(one)}
            cells.setdefault(where, {})[load] = own
        for load in self.body.made:
            own = self.register(f"{load.array}_row", load, team.held)
            (where,) = {one.range for one in self.body.passes if load.array in touched(one)}
            cells.setdefault(where, {})[load] = own

        def at_once(one: Pass) -> tuple[TreeNode, ...]:
            own = cells.get(one.range, {})
            asked = self.body.asked(one)
            return self.held(
                one.range, lambda number, slot, is_whole: self.chunk(one, asked, number, slot, own, is_whole)
            )

        whole = (*ask, *whole_row.steps(at_once))
        if team.most and team.most <= room:
            return (*whole, *self.stored())
        return (Guard(self.body.length <= room, whole, self.again()), *self.stored())

    def made_from(self) -> dict[Range, list[Load]]:
        """The elements that a pass makes others from which are held, where they need no more room than these: all of a thread's are
        asked for at once, and what is made of them takes their place."""
        found: dict[Range, list[Load]] = {}
        for one in self.body.passes:
            made = [load for load in _targets(one) if load in self.body.made]
            asked = self.body.asked(one)
            if sum(load.dtype.bytes for load in asked) <= sum(load.dtype.bytes for load in made):
                found.setdefault(one.range, []).extend(asked)
        return found

    def with_alike(self) -> tuple[_Writer, list[tuple[Range, list[Load]]]]:
        """The same with what several passes compute alike (in registers of theirs, from what is held) computed by the
        first of them alone, and those registers, by range: one cell of a thread stands for all of them."""
        count: dict[tuple[Range, str, Expr], list[Load]] = {}
        steps: list[TreeNode | Pass] = []
        for step in self.body.steps:
            if not isinstance(step, Pass):
                steps.append(step)
                continue
            left: list[TreeNode] = []
            for node in step.nodes:
                key = self.computed_from_held(step, node)
                known = count.setdefault(key, []) if key is not None else []
                if not known:
                    left.append(node)
                if key is not None and isinstance(node, Compute):
                    known.append(node.target)
            steps.append(replace(step, nodes=tuple(left)))
        changed = copy(self)
        found = [(key[0], registers) for key, registers in count.items() if len(registers) > 1]
        if found:
            changed.body = replace(self.body, steps=tuple(steps))
        return changed, found

    def computed_from_held(self, one: Pass, node: TreeNode) -> tuple[Range, str, Expr] | None:
        """What a node computes into a register from elements that are asked for and nothing else; None of others."""
        if not isinstance(node, Compute) or node.predicate is not None or node.target.index or one.outer:
            return None
        asked, read = {*self.body.asked(one)}, [*loads(node.value)]
        updated = {update.target for update in one.updates}
        is_own = sum(isinstance(each, Compute) and each.target == node.target for each in one.nodes) == 1
        if not read or node.target in updated or not is_own or not asked.issuperset(read):
            return None
        return one.range, node.statement, node.value

    def again(self) -> tuple[TreeNode, ...]:
        """All that is done with a row that each pass reads again; by vectors more of it at a time."""
        wide = copy(self)
        wide.is_again = True
        if self.team.many:
            wide.team = replace(self.team, staged=self.team.many)
        elif self.team.vector:
            widths = [sum(load.dtype.bytes for load in self.body.asked(one)) for one in self.body.passes]
            most = self.team.vector * max(widths)
            vectors = max(1, sizes.STAGED_BYTES // max(1, most))
            wide.team = replace(self.team, staged=vectors * self.team.vector)
        return wide.steps(wide.in_chunks, pairs_of(self.body))

    def keeping(self, held: dict[Range, list[Load]]) -> tuple[TreeNode, ...]:
        """All that is done with a row whose elements lie in shared memory, where each thread finds those that it
        has brought there."""
        threads, vector = self.team.threads, self.team.vector
        bring = copy(self)
        bring.team = replace(self.team, staged=max(1, sizes.BROUGHT_BYTES // (2 * vector)) * vector, held=0)
        nodes: list[TreeNode] = []
        for where, wanted in held.items():
            for load in wanted:
                name = self.names.fresh(f"{load.array}_kept")
                self.names.add(Buffer(name, load.array, load.dtype, (integer(self.team.kept),), Shared()))
                nodes += bring.brought(where, load, Load(name, (Iter(COLUMN),), load.dtype), threads)
                self.kept[load] = Load(name, (Iter(COLUMN),), load.dtype)
        self.team = replace(self.team, staged=max(vector, sizes.STAGED), held=0)
        return (*nodes, *self.steps(self.in_chunks))

    def brought(self, where: Range, load: Load, kept: Load, threads: Threads) -> tuple[TreeNode, ...]:
        """Elements of a row to shared memory, some of a thread at a time."""

        def chunk(number: Expr, is_whole: bool) -> tuple[TreeNode, ...]:
            cells = {load: self.register(f"{load.array}_next", load, self.team.staged)}
            vector = self.vector(threads)

            def put(element: Element) -> tuple[TreeNode, ...]:
                place = self.place(where[0], threads, number, element.away)
                value = Load(cells[load].array, (element.number,), load.dtype)
                return (Copy(as_load(substitute(kept, {COLUMN: place})), value),)

            nodes = self.lanes(vector, put, Where.VECTOR)
            if not is_whole:  # (of a pair in part both places are set)
                nodes = (Guard(self.place(where[0], threads, number, vector.away) < where[1], nodes),)
            ask = self.moved(lambda mapping: self.asked(cells, where, number, integer(0), is_whole, threads, mapping))
            return (*ask, *vector.each(nodes))

        var, length = self.names.fresh("q"), tidy(where[1] - where[0])
        whole = Loop(var, integer(0), self.whole_chunks(length, threads), 1, Where.SERIAL, chunk(Iter(var), True))
        return (whole, *self.last(where, threads, lambda number: chunk(number, False)))

    def steps(self, way: Callable[[Pass], tuple[TreeNode, ...]], pairs: Mapping[int, Pair] = MappingProxyType({})) -> tuple[TreeNode, ...]:
        """All that is done with a row, passes in a `way`, those of `pairs` as one."""
        out: list[TreeNode] = []
        done = -1
        for number, step in enumerate(self.body.steps):
            if number in pairs:
                out.append(self.running(pairs[number]))
                done = pairs[number].last
            elif number <= done:
                continue
            elif isinstance(step, Pass):
                first, last, moved = self.reduced(step)
                out += [*first, *way(moved), *last]
            else:
                out += self.outside(step)
        return tuple(out)

    def running(self, pair: Pair) -> Running:
        """Two passes as one: what a chunk has is asked for once."""
        op, reference = pair.reference.op, as_load(self.redirected(pair.reference.target))
        words = ("seen", "count", "before", "linear") if op == "sum" else ("seen", "was")
        seen, *own = (self.register(f"{reference.array}_{word}", reference) for word in words)
        sums = tuple(as_load(self.redirected(update.target)) for update in pair.other.updates)
        (first, last, one), (then, end, other) = self.reduced(pair.one), self.reduced(pair.other)
        other = replace(other, nodes=map_expressions(other.nodes, lambda expr: moved_to(expr, {pair.result: seen})))
        by = None if op == "sum" else factor_of(other.nodes[0], seen, own[0], reference, op)
        rescale = Rescale(op, reference, as_load(self.redirected(pair.result)), seen, tuple(own), sums, by)
        asked = list(dict.fromkeys((*self.body.asked(pair.one), *self.body.asked(pair.other))))

        def part(at: Mapping[str, Expr], number: Expr, is_whole: bool) -> tuple[TreeNode, ...]:
            threads = self.team.along(one)
            ways = [replace(each, nodes=map_expressions(each.nodes, lambda expr: substitute(expr, at))) for each in (one, other)]
            here = [as_load(substitute(load, at)) for load in asked]
            cells = {load: self.register(f"{load.array}_next", load, self.team.staged) for load in here}
            ask = self.moved(lambda mapping: self.asked(cells, one.range, number, integer(0), is_whole, threads, mapping))
            taken, added = (self.chunk(each, here, number, integer(0), cells, is_whole) for each in ways)
            return (*ask, *taken, rescale, *added)

        passes = self.over_places(one, part, apart=True)
        finish: TreeNode = replace(rescale, last=True)
        if not (self.team.least and one.length == self.body.length):  # of no places sums are 0
            some = conjoin(*(compare("gt", tidy(each.upper - each.lower), integer(0)) for each in (*one.outer, one)))
            passes, finish = (Guard(some, passes),), Guard(some, (finish,))
        numbers = dict.fromkeys(own, 0.0) if op == "sum" else {own[0]: neutral(op, seen.dtype)}
        nothing = tuple(Copy(place, Const(value, place.dtype)) for place, value in {seen: 0.0, **numbers}.items())
        starts, between = (tuple(node for step in steps for node in self.outside(step)) for steps in (pair.starts, pair.between))
        return Running((*first, *starts, *then, *nothing, *passes, *last, *between, finish, *end))

    def outside(self, step: TreeNode) -> tuple[TreeNode, ...]:
        """What stands outside passes. A value that one computation makes is stored by that, for whoever
        reads it where data says: only then does the checker see the program's own order in memory."""
        (own,) = map_expressions((step,), self.redirected)
        if not isinstance(step, Compute) or not isinstance(own, Compute) or step.target not in self.body.once:
            return (own,)
        return (own, Guard(self.first, (replace(own, target=step.target),)))

    @property
    def first(self) -> Expr:
        """Is it the first thread?"""
        return compare("eq", self.team.threads.number, integer(0))

    def reduced(self, one: Pass) -> tuple[list[TreeNode], list[TreeNode], Pass]:
        """What stands around a pass, so that what its updates leave in the threads is put together in each of them, and the pass then."""
        first: list[TreeNode] = []
        last: list[TreeNode] = []
        places: dict[Load, Load] = {}
        for update in one.updates:
            target, dtype = update.target, update.target.dtype
            own = place = as_load(self.redirected(target))
            if not update.whole:
                own = self.register(f"{target.array}_part", target)
                places[target] = own
            first.append(Copy(own, Const(neutral(update.op, dtype), dtype)))
            last.append(Combine(update.op, own.array, self.team.threads.vars, everywhere=True))
            if not update.whole:
                last.append(Fold(update.op, place, own))
        moved = replace(one, nodes=map_expressions(one.nodes, lambda expr: moved_to(expr, places)))
        return first, last, moved

    def stored(self) -> tuple[TreeNode, ...]:
        """Values of the row that several computations make, to memory, by the first thread."""
        copies = [Copy(place, value) for place, value in self.values.items() if place not in self.body.once]
        return (Guard(self.first, tuple(copies)),) if copies else ()

    # ------------------------------------------------------------------------------ passes

    def held(self, where: Range, chunk: Chunk) -> tuple[TreeNode, ...]:
        """All elements that a thread holds, a chunk at a time: those that the row has. Chunks that
        others follow are whole; the last of the row has the last slots, whichever it is."""
        threads = self.team.threads
        staged = self.team.staged
        last, length = self.team.held // staged - 1, tidy(where[1] - where[0])
        sure = min(last, self.followed(length))
        nodes: list[TreeNode] = []
        for first, end in ((0, sure), (sure, last)):
            if first == end:
                continue
            var = self.names.fresh("k")
            whole = chunk(Iter(var), Iter(var) * staged, True)
            if end > sure:
                whole = (Guard((Iter(var) + 1) * self.places(threads) < length, whole),)
            nodes.append(Loop(var, integer(first), integer(end), 1, Where.UNROLLED, whole))
        return (*nodes, *self.last(where, threads, lambda number: chunk(number, integer(last * staged), False)))

    def followed(self, length: Expr) -> int:
        """How many chunks others surely follow. (Only of a cluster is it asked: registers spill where they are
        tested for.)"""
        is_known = len(self.team.inner.loops) > 1 and length == self.body.length
        return (self.team.least - 1) // self.places(self.team.threads) if is_known else 0

    def last(
        self, where: Range, threads: Threads, chunk: Callable[[Expr], tuple[TreeNode, ...]]
    ) -> tuple[TreeNode, ...]:
        """The last chunk of a row, of which every element is asked for whether the row has it."""
        length = tidy(where[1] - where[0])
        nodes = chunk(self.whole_chunks(length, threads))
        if self.team.least and length == self.body.length:
            return nodes  # without a branch all passes are one block for the compilers behind
        return (Guard(length > 0, nodes),)

    def whole_chunks(self, length: Expr, threads: Threads) -> Expr:
        """How many chunks of so many places another follows."""
        return integer(0) if self.is_one_chunk(length, threads) else (length - 1) // self.places(threads)

    def is_one_chunk(self, length: Expr, threads: Threads) -> bool:
        """Is a pass of that length surely one chunk?"""
        is_known = self.team.held == self.team.staged or (not self.team.held and length == self.body.length)
        return is_known and 0 < self.team.most <= self.places(threads)

    def places(self, threads: Threads) -> int:
        """Places of a row that a chunk of so many threads has."""
        return self.team.chunk(threads).extent(0)

    def in_chunks(self, one: Pass) -> tuple[TreeNode, ...]:
        """A pass in chunks, for rows of any length."""

        def part(at: Mapping[str, Expr], number: Expr, is_whole: bool) -> tuple[TreeNode, ...]:
            inner = replace(one, nodes=map_expressions(one.nodes, lambda expr: substitute(expr, at)))
            asked = [as_load(substitute(load, at)) for load in self.body.asked(one)]
            return self.chunk(inner, asked, number, integer(0), {}, is_whole)

        return self.over_places(one, part)

    def over_places(
        self, one: Pass, part: Callable[[Mapping[str, Expr], Expr, bool], tuple[TreeNode, ...]], apart: bool = False
    ) -> tuple[TreeNode, ...]:
        """All places of a pass, a `part` of them for each chunk, with these values of its outer loops; `apart`: the last chunk is a loop's too."""
        own = {each.var: self.names.fresh("o") for each in one.outer}
        at, threads = {var: Iter(new) for var, new in own.items()}, self.team.along(one)
        var = self.names.fresh("q")
        whole, count = part(at, Iter(var), True), self.whole_chunks(one.length, threads)
        made = self.last(one.range, threads, lambda number: part(at, number, False))
        if apart:
            made = (Loop(self.names.fresh("p"), integer(0), integer(1), 1, Where.UNROLLED, made),)
        if not self.is_one_chunk(one.length, threads):
            made = (Loop(var, integer(0), count, 1, Where.SERIAL, whole), *made)
        for depth, each in reversed([*enumerate(one.outer)]):
            share = self.team.outer if depth == 0 else Threads(())
            made = (Loop(own[each.var], tidy(each.lower + share.number), each.upper, share.count, Where.SERIAL, made),)
        return made

    def chunk(
        self, one: Pass, asked: Sequence[Load], number: Expr, slot: Expr, cells: dict[Load, Load], is_whole: bool
    ) -> tuple[TreeNode, ...]:
        """Some of a thread's elements, those of the row's chunk of that `number`. `asked`: what may be asked for before
        it is needed; `cells`: where those that are held are, from `slot` on. `is_whole`: the row has all of them."""
        wanted = [load for load in asked if load not in cells and load not in self.kept]
        staged = {load: self.register(f"{load.array}_next", load, self.team.staged) for load in wanted}
        threads = self.team.along(one)
        made, before = self.made_together(one, cells), self.made_before(one, cells)
        kept = {load: self.register(f"{load.array}_in", load, self.together) for load in asked if load in self.kept}

        here = made | before | kept

        def changed(element: Element, nodes: Sequence[TreeNode]) -> tuple[TreeNode, ...]:
            at = self.column(self.place(one.lower, threads, number, element.away), not is_whole)

            def change(expr: Expr) -> Expr:
                def one_load(each: Expr) -> Expr:
                    if isinstance(each, Load) and each in cells:
                        return Load(cells[each].array, (_sum(slot, element.number),), each.dtype, span=each.span)
                    if isinstance(each, Load) and each in staged:
                        return Load(staged[each].array, (element.number,), each.dtype, span=each.span)
                    if isinstance(each, Load) and each in here:
                        return Load(here[each].array, (element.lane,), each.dtype, span=each.span)
                    return each

                # Bottom-up: what stands in a subscript is changed before the access.
                return self.redirected(tidy(substitute(map_expr(one_load, expr), {COLUMN: at})))

            return map_expressions(nodes, change)

        ask: tuple[TreeNode, ...] = ()
        if wanted:
            ask = self.moved(
                lambda mapping: self.asked(staged, one.range, number, integer(0), is_whole, threads, mapping)
            )

        def computed(element: Element) -> tuple[TreeNode, ...]:
            nodes = changed(element, one.nodes)
            if is_whole:
                return nodes
            homes = {buffer.name: buffer.home for buffer in self.names.buffers.values()}
            first, end = self.apart(self.place(one.lower, threads, number, element.away), one.upper, threads)
            inside = Guard(first < end, nodes, predicated=may_be_predicated(nodes, homes))
            if not made or self.team.vector:
                return (inside,)
            # What goes to memory waits in a register, so that all else is computed without branches.
            at = {COLUMN: self.place(one.lower, threads, number, element.away)}
            out = tuple(
                Copy(as_load(self.redirected(tidy(substitute(load, at)))), Load(own.array, (element.lane,), load.dtype))
                for load, own in made.items()
            )
            return (inside, Guard(first < end, out))

        if self.team.vector:
            vector = self.vector(threads)

            def pairs(element: Element, elements: dict[Load, Load], wraps: bool) -> list[tuple[Load, Load]]:
                at = {COLUMN: self.column(self.place(one.lower, threads, number, element.away), wraps)}
                return [
                    (as_load(self.redirected(tidy(substitute(load, at)))), Load(own.array, (element.lane,), load.dtype))
                    for load, own in elements.items()
                ]

            def copied_in(element: Element, wraps: bool = False) -> tuple[TreeNode, ...]:
                return tuple(Copy(own, memory) for memory, own in pairs(element, before, wraps))

            def copied_near(element: Element) -> tuple[TreeNode, ...]:
                at = {COLUMN: self.place(one.lower, threads, number, element.away)}
                return tuple(
                    Copy(Load(own.array, (element.lane,), load.dtype), substitute(self.kept[load], at)) for load, own in kept.items()
                )

            def copied_out(element: Element, wraps: bool = False) -> tuple[TreeNode, ...]:
                return tuple(Copy(memory, own) for memory, own in pairs(element, made, wraps))

            def moved(body: Callable[..., tuple[TreeNode, ...]]) -> tuple[TreeNode, ...]:
                return self.moved(lambda mapping: self.lanes(vector, body, mapping))

            bring = moved(copied_in) if before else ()
            if kept:
                bring = (*self.lanes(vector, copied_near, Where.VECTOR), *bring)
            take = moved(copied_out) if made else ()
            if self.turn is not None:
                place = self.place(one.lower, threads, number, vector.away)

                def in_pairs(nodes: tuple[TreeNode, ...]) -> tuple[TreeNode, ...]:
                    inside = nodes if is_whole else (Guard(tidy(place + 1) < one.upper, nodes),)
                    return vector.each(inside) if nodes else ()

                def alone(body: Callable[..., tuple[TreeNode, ...]]) -> tuple[TreeNode, ...]:
                    if is_whole or not self.is_odd:
                        return ()
                    nodes = body(replace(vector.first, lane=vector.number), True)
                    last = Guard(compare("eq", place, tidy(one.upper - 1)), nodes)
                    return (self.by_owner(threads, vector.each((last,))),) if nodes else ()

                nodes = (*self.staged(computed, threads), *in_pairs(take))
                if self.is_again and not is_whole:
                    nodes = self.sure(one, threads, number, nodes)
                return (*ask, *in_pairs(bring), *alone(copied_in), *nodes, *alone(copied_out))
            nodes = (*bring, *self.lanes(vector, lambda element: changed(element, one.nodes)), *take)
            if not is_whole:
                nodes = (Guard(self.place(one.lower, threads, number, vector.away) < one.upper, nodes),)
            return (*ask, *vector.each(nodes))

        if is_whole or self.team.staged <= sizes.STAGED:
            return (*ask, *self.staged(computed, threads))
        var, lane = self.names.fresh("u"), self.names.fresh("w")
        parts = self.team.staged // sizes.STAGED
        layout = along((Level.SLOT, parts), (Level.SLOT, sizes.STAGED), (Level.THREAD, threads.count))
        element = Element.at(layout, (Iter(var), Iter(lane), threads.number))
        first = Element.at(layout, (Iter(var), integer(0), threads.number))
        some = Loop(lane, integer(0), integer(sizes.STAGED), 1, Where.UNROLLED, computed(element))
        inside = self.place(one.lower, threads, number, first.away) < one.upper
        return (*ask, Loop(var, integer(0), integer(parts), 1, Where.UNROLLED, (Guard(inside, (some,)),)))

    def sure(self, one: Pass, threads: Threads, number: Expr, nodes: tuple[TreeNode, ...]) -> tuple[TreeNode, ...]:
        """Nodes about the pairs of the last chunk, whose tests are left out where the row has all of a thread's. (Not where a row is
        held: behind branches exponentials of two passes would be made twice.)"""
        last = (integer((self.team.staged - PAIR) * threads.count), threads.number * PAIR, integer(PAIR - 1))
        fits = self.place(one.lower, threads, number, last) < one.upper
        return (Guard(fits, without_implied(nodes, fits, {}), nodes),)

    def made_together(self, one: Pass, cells: dict[Load, Load]) -> dict[Load, Load]:
        """The elements that a pass writes to memory, which go there by vectors, or behind what a row that all threads hold at once computes,
        with the registers that they wait in."""
        if not self.team.vector and not self.parts:
            return {}
        out = [load for load in _targets(one) if load not in cells]
        return {load: self.register(f"{load.array}_out", load, self.together) for load in out}

    def made_before(self, one: Pass, cells: dict[Load, Load]) -> dict[Load, Load]:
        """The elements that other passes have made for this one, which come from memory by vectors. (They are asked for
        where a row has them: others of a row are other threads'.)"""
        if not self.team.vector:
            return {}
        own = {*cells, *_targets(one)}
        made = [load for load in self.body.made if load not in own and load.array in touched(one)]
        return {load: self.register(f"{load.array}_in", load, self.together) for load in made}

    @property
    def turn(self) -> Expr | None:
        """By how many places the row is turned; None where it has no pairs."""
        return self.team.turned

    @property
    def together(self) -> int:
        """How many elements of a thread are moved, and then computed with: a vector, or the pairs of a chunk."""
        return max(1, self.team.vector) if self.turn is None else self.team.staged

    @property
    def is_odd(self) -> bool:
        """May the row have a place that is in no pair, its last?"""
        return self.turn is not None and self.turn != integer(0)

    def column(self, place: Expr, wraps: bool) -> Expr:
        """Where in the row the place of a thread is; `wraps`: where it may be the last, which is in no pair."""
        if self.turn is None or not self.is_odd:
            return place
        turned = tidy(place + self.turn)
        return Select(turned < self.body.length, turned, integer(0), turned.dtype) if wraps else turned

    def moved(self, nodes: Callable[[Where], tuple[TreeNode, ...]]) -> tuple[TreeNode, ...]:
        """Nodes that move elements: by vectors where arrays are aligned."""
        if not self.team.vector:
            return nodes(Where.UNROLLED)
        together = nodes(Where.VECTOR)
        return (Guard(ALIGNED, together, written_out(together)),)

    def asked(
        self,
        cells: dict[Load, Load],
        where: Range,
        number: Expr,
        slot: Expr,
        is_whole: bool,
        threads: Threads,
        mapping: Where,
    ) -> tuple[TreeNode, ...]:
        """Loads of some elements of a thread, those of the row's chunk of that `number`, into their cells
        from `slot` on."""
        last = tidy(where[1] - max(1, self.team.vector))

        def copies(slot: Expr, column: Expr) -> tuple[TreeNode, ...]:
            return tuple(
                Copy(
                    Load(cells[load].array, (slot,), load.dtype),
                    self.redirected(tidy(substitute(load, {COLUMN: column}))),
                )
                for load in cells
            )

        def loaded(element: Element) -> tuple[TreeNode, ...]:
            place = self.place(where[0], threads, number, element.away)
            if not is_whole and self.team.vector:
                place = _sum(self.clamped(self.place(where[0], threads, number, element.away[:-1]), last), element.away[-1])
            elif not is_whole:
                first, end = self.apart(place, last, threads)
                place = tidy(combine("min", first, end) + threads.number)
            return copies(_sum(slot, element.number), self.column(place, wraps=False))

        if not self.team.vector:
            return self.staged(loaded, threads)
        vector = self.vector(threads)
        nodes = vector.each(self.lanes(vector, loaded, mapping))
        if is_whole or not self.is_odd:
            return nodes
        place = self.place(where[0], threads, number, vector.away)
        taken = tuple(Copy(Load(own.array, (_sum(slot, vector.number),), load.dtype), self.alone[load]) for load, own in cells.items())
        alone = Guard(compare("eq", place, tidy(where[1] - 1)), taken)
        return (*nodes, self.by_owner(threads, vector.each((alone,))))
    def odd_elements(self) -> tuple[TreeNode, ...]:
        """Loads of what lies at the place that is in no pair: of everybody, before anything waits for anything."""
        if not self.is_odd:
            return ()
        at = {COLUMN: self.column(tidy(self.body.length - 1), wraps=True)}
        for load in dict.fromkeys(load for one in self.body.passes for load in self.body.asked(one)):
            self.alone[load] = self.register(f"{load.array}_odd", load)
        return tuple(Copy(own, self.redirected(tidy(substitute(load, at)))) for load, own in self.alone.items())

    def by_owner(self, threads: Threads, nodes: tuple[TreeNode, ...]) -> Guard:
        """Nodes about the place that is in no pair, by the thread whose it is, if there is one."""
        away = tidy(self.body.length - 1 - threads.number * PAIR)
        return Guard(compare("eq", away % (PAIR * threads.count), integer(0)), nodes)

    def clamped(self, place: Expr, last: Expr) -> Expr:
        """The first place of a vector, or that of the row's last one that is whole."""
        if self.turn is None:
            return combine("min", place, last)
        return combine("min", halved(place), last // PAIR) * PAIR

    def place(self, lower: Expr, threads: Threads, number: Expr, away: Sequence[Expr]) -> Expr:
        """Where in the row that is which lies so far (in all) behind the start of the chunk of that number."""
        return tidy(lower + sum(away, number * self.places(threads)))

    def apart(self, place: Expr, end: Expr, threads: Threads) -> tuple[Expr, Expr]:
        """A place of a thread and an end, both without what is the thread's own: of its places only a constant differs then,
        and one register says of all of them whether the row has them."""
        own = threads.number * max(1, self.team.vector)
        return tidy(place - own), tidy(end - own)

    def redirected(self, expr: Expr) -> Expr:
        """`expr` with values taken from this launch's registers."""
        return moved_to(expr, self.own)

    def staged(self, body: Callable[[Element], tuple[TreeNode, ...]], threads: Threads) -> tuple[TreeNode, ...]:
        """What is done with each element of a thread in a chunk."""
        if self.turn is not None:
            vector = self.vector(threads)
            return vector.each(self.lanes(vector, body))
        var = self.names.fresh("u")
        element = Element.at(self.team.chunk(threads), (Iter(var), threads.number))
        return (Loop(var, integer(0), integer(self.team.staged), 1, Where.UNROLLED, body(element)),)

    def vector(self, threads: Threads) -> Vector:
        """The vectors of a thread in a chunk."""
        layout = self.team.chunk(threads)
        vectors, _, _ = layout.digits
        var = self.names.fresh("u") if vectors.count > 1 else ""
        number = Iter(var) if var else integer(0)
        return Vector(layout, (number, threads.number), var, vectors.count)

    def lanes(
        self, vector: Vector, body: Callable[[Element], tuple[TreeNode, ...]], mapping: Where = Where.UNROLLED
    ) -> tuple[TreeNode, ...]:
        """What is done with each element of a vector."""
        var = self.names.fresh("v")
        element = Element.at(vector.layout, (*vector.values, Iter(var)), Iter(var))
        if self.turn is not None:
            element = replace(element, lane=element.number)
        return (Loop(var, integer(0), integer(self.team.vector), 1, mapping, body(element)),)


def _targets(one: Pass) -> list[Load]:
    """The elements of a place that a pass writes."""
    found = [node.target for node in one.nodes if isinstance(node, Compute)]
    return list(dict.fromkeys(load for load in found if COLUMN in subscript_iterators(load)))


def _sum(one: Expr, other: Expr) -> Expr:
    return tidy(one + other)

