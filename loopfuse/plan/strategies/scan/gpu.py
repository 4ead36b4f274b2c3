"""Scans on a GPU: one launch, a block for each chunk.

A thread has a few consecutive iterations of each part of its chunk, whose elements it loads as a vector where rows of memory allow
that. It adds up its own, takes what all threads before it have, of its block and of those before (`Scan`), and goes along its own again
from there.

    block c, thread t:   for each part k:   x_row[k] = x[c * CHUNK + k * PART + t * EACH..];  s[k] = sum of x_row[k]
                         scan s[k] over c, k, t
                         for each part k:   run = s[k];  for e: run = run + x_row[k, e];  y_row[e] = run
                                            y[c * CHUNK + k * PART + t * EACH..] = y_row

Totals that lie in memory and are read there are put there by another launch, as blocks start from what lies there.

Where what stands before the loop goes to memory, or a loop of the host is around it, there are three launches, of chunks of one part. In the first the threads' sums are combined. In the second one block goes along what chunks add. In the last each thread
takes what the threads of its block before it have.

    block c, thread t:   x_row = x[c * CHUNK + t * EACH..];  s = sum of x_row;  combine s;  partial[c] = s
    one block:           for CHUNKS of chunks: start[c] = all before c
    block c, thread t:   x_row = ..;  s = sum of x_row;  scan s;  s = start[c] + s
                         for e: s = s + x_row[e];  y_row[e] = s
                         y[c * CHUNK + t * EACH..] = y_row

All numbers are constants, and with them the order of a sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loopfuse.base.dtypes import DType
from loopfuse.base.machine import LANES, MULTIPROCESSOR
from loopfuse.lang.index import ceil_div, conjoin
from loopfuse.lang.linear import constant_value, tidy
from loopfuse.lang.nodes import Expr, Iter, Load, compare, integer
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.strategies.scan.body import Accumulator, Body
from loopfuse.plan.strategies.scan.launches import (
    Between,
    LaunchWriter,
    after,
    cell,
    cleared,
    declare_between,
    declare_results,
    finished,
    folded,
    inside_loops,
    points,
    positive,
    set_before,
    started,
    writes_memory,
)
from loopfuse.plan.strategies.scan.tile import (
    PASS_THREADS,
    Shape,
    Tile,
    chunks_of,
    first_of,
    in_parts,
    plain,
)
from loopfuse.plan.units.groups import Group
from loopfuse.poly.model import PolyProgram
from loopfuse.tree.chains import words_of
from loopfuse.tree.looptree import (
    Barrier,
    Buffer,
    Combine,
    Copy,
    Fold,
    Global,
    Guard,
    HostNode,
    Launch,
    Loop,
    Scan,
    TreeNode,
)
from loopfuse.tree.looptree import Mapping as Where

BLOCKS = 4
"""Blocks of a processor that go along elements once."""
MIDDLE_THREADS, MIDDLE_EACH = 1024, 8
"""Threads of the block that goes along the chunks, and how many each takes at a time."""


def plan_gpu(group: Group, body: Body, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
    """The three launches."""
    counts = tuple(positive(count) for _, count in points(group, site)[0])
    between = declare_between(body, site, counts, chunks_of(body, plain()))
    writer = _Writer(group, body, site, between)
    return tuple(
        Launch(f"{name}_{suffix}", "scan", labels, nodes)
        for suffix, nodes in (("a", writer.partial()), ("b", writer.starts()), ("c", writer.again()))
    )


def is_one_pass(body: Body, group: Group) -> bool:
    """May each block take what stands before it from the blocks before? (Blocks that have started may be far behind: none writes
    what others start from.)"""
    host = group.scope.host if group.scope else ()
    return not host and not writes_memory(body.before, body)


def plan_one_pass(group: Group, body: Body, site: Site, name: str, labels: tuple[str, ...]) -> tuple[Launch, ...]:
    """The launch that goes along all of it once, and one that puts totals in their places where somebody asks for them."""
    left = left_in_memory(body, group, site.program)
    counts = tuple(positive(count) for _, count in points(group, site)[0])
    totals = declare_results("total", left, site, counts, maps=False)
    writer = _Writer(group, body, site, Between({}, {}, totals))
    registers = MULTIPROCESSOR.registers_with(BLOCKS * PASS_THREADS // LANES)
    launches = [Launch(f"{name}_p", "scan", labels, writer.one_pass(), registers=registers)]
    if left:
        launches.append(Launch(f"{name}_q", "scan", labels, writer.put(left)))
    return tuple(launches)


def left_in_memory(body: Body, group: Group, program: PolyProgram) -> tuple[Accumulator, ...]:
    """The accumulators that lie in memory, and are read there by others than the group."""
    read = {name for s in program.statements if s.id not in group.ids for access in s.reads for name, _ in access.parts}
    return tuple(
        a for a in body.accumulators if body.is_memory(a) and (a.name in read or program.arrays[a.name].is_argument)
    )


def plan_at_once(
    group: Group, body: Body, site: Site, name: str, labels: tuple[str, ...], threads: int
) -> Launch:
    """The launch where so many threads have all iterations: a block for each point of the group."""
    return Launch(name, "scan", labels, _Writer(group, body, site, Between({}, {}, {})).at_once(threads))


def most_at_once(body: Body, threads: int) -> int:
    """How many iterations so many threads have, whatever the loop's first place."""
    away = constant_value(tidy(body.lower - first_of(body))) or 0
    return threads * plain().each - away


class _Writer(LaunchWriter):
    outermost = Where.GRID

    def threads(self, count: int) -> Loop:
        return Loop(self.names.fresh("t"), integer(0), integer(count), 1, Where.BLOCK, ())

    # ------------------------------------------------------------------------- the launches

    def partial(self) -> tuple[TreeNode, ...]:
        """What each chunk adds."""
        chain, body, own = self.begin()
        chunk, thread = self.chunk_loop(body, plain()), self.threads(plain().threads)
        own_sum = self.partial_results(body, "sum")
        tile = Tile(self.site, body, chunk.var, thread, body.feeding, plain())
        first = compare("eq", Iter(thread.var), integer(0))
        stores = tuple(
            Copy(self.of(self.between.partial, a, Iter(chunk.var)), own_sum[a.place]) for a in body.accumulators
        )
        nodes = (
            *set_before(body, own),
            *tile.loaded(own),
            *tile.added(own, own_sum),
            *(Combine(a.op, own_sum[a.place].array, (thread.var,)) for a in body.accumulators),
            Guard(first, stores),
        )
        return inside_loops([*chain, chunk, thread], nodes)

    def starts(self) -> tuple[TreeNode, ...]:
        """What stands before each chunk, and what the loop leaves: many chunks at a time, some a thread."""
        chain, body, own = self.begin()
        thread = self.threads(MIDDLE_THREADS)
        carry, held = self.registers(body, "carry"), self.partial_results(body, "part", MIDDLE_EACH)
        own_sum, run = self.partial_results(body, "sum"), self.registers(body, "run")
        turn, count = self.names.fresh("q"), chunks_of(body, plain())

        def each(make: list[TreeNode], slot: str) -> Loop:
            return Loop(slot, integer(0), integer(MIDDLE_EACH), 1, Where.UNROLLED, tuple(make))

        def number(slot: str) -> Expr:
            every = MIDDLE_THREADS * MIDDLE_EACH
            return tidy(Iter(turn) * every + Iter(thread.var) * MIDDLE_EACH + Iter(slot))

        ask, go = self.names.fresh("e"), self.names.fresh("e")
        loaded: list[TreeNode] = []
        gone: list[TreeNode] = []
        for a in body.accumulators:
            slot = cell(held[a.place], Iter(ask))
            loaded.append(cleared(a, slot))
            loaded.append(Guard(number(ask) < count, (Copy(slot, self.of(self.between.partial, a, number(ask))),)))
            loaded.append(folded(a, own_sum[a.place], slot))
            start = Copy(self.of(self.between.start, a, number(go)), run[a.place])
            gone.append(Guard(number(go) < count, (start,)))
            gone.append(folded(a, run[a.place], cell(held[a.place], Iter(go))))
        total = self.partial_results(body, "total")
        inside: list[TreeNode] = [
            *(cleared(a, own_sum[a.place]) for a in body.accumulators),
            each(loaded, ask),
        ]
        for a in body.accumulators:
            place = a.place
            inside += [
                Copy(total[place], own_sum[place]),
                Combine(a.op, total[place].array, (thread.var,), everywhere=True),
                Scan(a.op, own_sum[place].array, (thread.var,)),
                Copy(run[place], carry[place]),
                Fold(a.op, run[place], own_sum[place]),
                Fold(a.op, carry[place], total[place]),
            ]
        inside.append(each(gone, go))
        turns = ceil_div(count, MIDDLE_THREADS * MIDDLE_EACH)
        last = finished(body, own, carry)
        first = compare("eq", Iter(thread.var), integer(0))
        nodes: tuple[TreeNode, ...] = (
            *started(body, own, carry, thread.var),
            Loop(turn, integer(0), turns, 1, Where.SERIAL, tuple(inside)),
            # All have read what the loop starts from.
            *((Barrier("block"), Guard(first, last)) if last else ()),
        )
        return inside_loops([*(chain or [self.one()]), thread], nodes)

    def again(self) -> tuple[TreeNode, ...]:
        """All of each chunk, from what stands before it."""
        chain, body, own = self.begin()
        chunk, thread = self.chunk_loop(body, plain()), self.threads(plain().threads)
        own_sum, run = self.partial_results(body, "sum"), self.registers(body, "run")
        tile = Tile(self.site, body, chunk.var, thread, body.each, plain())
        nodes = (
            *set_before(body, own),
            *(Copy(run[a.place], self.of(self.between.start, a, Iter(chunk.var))) for a in body.accumulators),
            *self.gone(tile, own, own_sum, run, (thread.var,)),
        )
        return inside_loops([*chain, chunk, thread], nodes)

    def one_pass(self) -> tuple[TreeNode, ...]:
        """All of each chunk, from what the chunks before it make."""
        chain, body, own = self.begin()
        shape = in_parts(body)
        chunk, thread = self.chunk_loop(body, shape), self.threads(shape.threads)
        sums, run = self.partial_results(body, "sum", shape.parts), self.registers(body, "run")
        start = self.registers(body, "start")
        tile = Tile(self.site, body, chunk.var, thread, body.each, shape)
        rows = [loop.upper for loop in chain]
        scans: list[TreeNode] = []
        for a in body.accumulators:
            k, name, words = self.names.fresh("k"), sums[a.place].array, self.words(a, rows, chunk.upper)
            scan = Scan(a.op, name, (chunk.var, k, thread.var), words, (Iter(k),))
            scans.append(Loop(k, integer(0), integer(shape.parts), 1, Where.UNROLLED, (scan,)))

        def of_part() -> dict[Load, Load]:
            return {place: cell(each, tile.part) for place, each in sums.items()}

        def gone() -> tuple[TreeNode, ...]:
            from_start = (Copy(run[a.place], start[a.place]) for a in body.accumulators)
            before = (Fold(a.op, run[a.place], of_part()[a.place]) for a in body.accumulators)
            return (*from_start, *before, *tile.done(own, run), *tile.stored(own))

        totals = [a for a in body.accumulators if a.statement in self.between.total]
        stored = tuple(Copy(Load(self.between.total[a.statement], self.outer, a.place.dtype), run[a.place]) for a in totals)
        last = (*stored, *after(body, own, run))
        is_last = conjoin(
            compare("eq", Iter(chunk.var), tidy(chunk.upper - 1)), compare("eq", Iter(thread.var), integer(shape.threads - 1))
        )
        nodes = (
            *started(body, own, start),
            *tile.where_whole((*tile.each_part(lambda: tile.loaded(own)), *tile.each_part(lambda: tile.added(own, of_part())))),
            *scans,
            *tile.where_whole(tile.each_part(gone)),
            *((Guard(is_last, last),) if last else ()),
        )
        return inside_loops([*chain, chunk, thread], nodes)

    def put(self, left: Sequence[Accumulator]) -> tuple[TreeNode, ...]:
        """Totals to their places."""
        chain, body, _ = self.begin()
        wanted = {a.statement for a in left}
        nodes = tuple(
            Copy(a.place, Load(self.between.total[a.statement], self.outer, a.place.dtype))
            for a in body.accumulators
            if a.statement in wanted
        )
        return inside_loops([*(chain or [self.one()]), self.threads(1)], nodes)

    def words(self, a: Accumulator, rows: Sequence[Expr], chunks: Expr) -> str:
        """Memory through which blocks hand on what they make."""
        name = self.names.fresh(f"{a.name}_words")
        size = words_of(a.op, a.place.dtype, rows, chunks)
        self.names.add(Buffer(name, "", DType.I64, (size,), Global(), zeroed=True))
        return name

    def gone(
        self,
        tile: Tile,
        own: Mapping[Load, Load],
        own_sum: Mapping[Load, Load],
        run: Mapping[Load, Load],
        over: tuple[str, ...],
    ) -> tuple[TreeNode, ...]:
        """All of a chunk, from what stands before it in `run`."""
        nodes: list[TreeNode] = [*tile.loaded(own), *tile.added(own, own_sum)]
        for a in tile.body.accumulators:
            nodes.append(Scan(a.op, own_sum[a.place].array, over))
            nodes.append(Fold(a.op, run[a.place], own_sum[a.place]))
        return (*nodes, *tile.done(own, run), *tile.stored(own))

    def at_once(self, threads: int) -> tuple[TreeNode, ...]:
        """All there is, by so many threads."""
        chain, body, own = self.begin()
        chunk, thread = self.one(), self.threads(threads)
        own_sum, run = self.partial_results(body, "sum"), self.registers(body, "run")
        tile = Tile(self.site, body, chunk.var, thread, body.each, replace(plain(), threads=threads))
        last = finished(body, own, run)
        is_last = compare("eq", Iter(thread.var), integer(threads - 1))
        nodes = (
            *started(body, own, run, thread.var),
            *self.gone(tile, own, own_sum, run, (thread.var,)),
            # All have read what the loop starts from.
            *((Barrier("block"), Guard(is_last, last)) if last else ()),
        )
        return inside_loops([*chain, chunk, thread], nodes)

    def chunk_loop(self, body: Body, shape: Shape) -> Loop:
        return Loop(self.names.fresh(f"{body.hint}b"), integer(0), chunks_of(body, shape), 1, Where.GRID, ())
