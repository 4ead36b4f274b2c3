"""Scans on a GPU: three launches, a block for each chunk in the first and the last.

A thread has EACH consecutive iterations of its chunk, whose elements it loads as vectors where rows of memory allow
that. In the first launch the threads' sums are combined. In the second one block goes along what chunks add. In the
last each thread adds up its own, takes what the threads before it have (`Scan`), and goes along its own again from
there.

    block c, thread t:   x_row = x[c * CHUNK + t * EACH..];  s = sum of x_row;  combine s;  partial[c] = s
    one block:           for CHUNKS of chunks: start[c] = all before c
    block c, thread t:   x_row = ..;  s = sum of x_row;  scan s;  s = start[c] + s
                         for e: s = s + x_row[e];  y_row[e] = s
                         y[c * CHUNK + t * EACH..] = y_row

All numbers are constants, and with them the order of a sum.
"""

from __future__ import annotations

from collections.abc import Mapping

from loopfuse.lang.index import ceil_div
from loopfuse.lang.linear import constant_value, tidy
from loopfuse.lang.nodes import Expr, Iter, Load, compare, integer
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.strategies.scan.body import Body
from loopfuse.plan.strategies.scan.launches import (
    Between,
    LaunchWriter,
    cell,
    cleared,
    declare_between,
    finished,
    folded,
    inside_loops,
    points,
    positive,
    set_before,
    started,
)
from loopfuse.plan.strategies.scan.tile import EACH, THREADS, Tile, chunks_of, first_of
from loopfuse.plan.units.groups import Group
from loopfuse.tree.looptree import (
    Barrier,
    Combine,
    Copy,
    Fold,
    Guard,
    HostNode,
    Launch,
    Loop,
    Scan,
    TreeNode,
)
from loopfuse.tree.looptree import Mapping as Where

MIDDLE_THREADS, MIDDLE_EACH = 1024, 8
"""Threads of the block that goes along the chunks, and how many each takes at a time."""


def plan_gpu(group: Group, body: Body, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
    """The three launches."""
    counts = tuple(positive(count) for _, count in points(group, site)[0])
    between = declare_between(body, site, counts, chunks_of(body))
    writer = _Writer(group, body, site, between)
    return tuple(
        Launch(f"{name}_{suffix}", "scan", labels, nodes)
        for suffix, nodes in (("a", writer.partial()), ("b", writer.starts()), ("c", writer.again()))
    )


def plan_at_once(
    group: Group, body: Body, site: Site, name: str, labels: tuple[str, ...], threads: int
) -> Launch:
    """The launch where so many threads have all iterations: a block for each point of the group."""
    return Launch(name, "scan", labels, _Writer(group, body, site, Between({}, {}, {})).at_once(threads))


def most_at_once(body: Body, threads: int) -> int:
    """How many iterations so many threads have, whatever the loop's first place."""
    away = constant_value(tidy(body.lower - first_of(body))) or 0
    return threads * EACH - away


class _Writer(LaunchWriter):
    outermost = Where.GRID

    def threads(self, count: int) -> Loop:
        return Loop(self.names.fresh("t"), integer(0), integer(count), 1, Where.BLOCK, ())

    # ------------------------------------------------------------------------- the launches

    def partial(self) -> tuple[TreeNode, ...]:
        """What each chunk adds."""
        chain, body, own = self.begin()
        chunk, thread = self.chunk_loop(body), self.threads(THREADS)
        own_sum = self.partial_results(body, "sum")
        tile = Tile(self.site, body, chunk.var, thread, body.feeding)
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
        turn, count = self.names.fresh("q"), chunks_of(body)

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
        chunk, thread = self.chunk_loop(body), self.threads(THREADS)
        own_sum, run = self.partial_results(body, "sum"), self.registers(body, "run")
        tile = Tile(self.site, body, chunk.var, thread, body.each)
        nodes = (
            *set_before(body, own),
            *(Copy(run[a.place], self.of(self.between.start, a, Iter(chunk.var))) for a in body.accumulators),
            *self.gone(tile, own, own_sum, run, (thread.var,)),
        )
        return inside_loops([*chain, chunk, thread], nodes)

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
        tile = Tile(self.site, body, chunk.var, thread, body.each)
        last = finished(body, own, run)
        is_last = compare("eq", Iter(thread.var), integer(threads - 1))
        nodes = (
            *started(body, own, run, thread.var),
            *self.gone(tile, own, own_sum, run, (thread.var,)),
            # All have read what the loop starts from.
            *((Barrier("block"), Guard(is_last, last)) if last else ()),
        )
        return inside_loops([*chain, chunk, thread], nodes)

    def chunk_loop(self, body: Body) -> Loop:
        return Loop(self.names.fresh(f"{body.hint}b"), integer(0), chunks_of(body), 1, Where.GRID, ())
