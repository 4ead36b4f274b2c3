"""Histograms on a CPU: each chunk of iterations has tables of its own, which are added to the result chunk by chunk.

    worker c:  table[c, .., ..] = 0
               for k: for t in 0..4:  table[c, t, x[c * CHUNK + 4 * k + t]] += 1
               table[c, 0, b] += table[c, 1..4, b]     for all b
    worker b:  for c: h[b] += table[c, 0, b]           for all b of a few

Tables are taken in turn, so that an update need not wait for the one before, where both are of one element. All numbers
are constants, and with them the order of a sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loopfuse.lang.index import ceil_div
from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter, Load, combine, integer
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.strategies.histogram import sizes
from loopfuse.plan.strategies.histogram.nest import Nest, length_of
from loopfuse.tree.looptree import Buffer, Copy, Fold, Global, Launch, Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where


def plan_cpu(nest: Nest, site: Site, name: str, labels: tuple[str, ...], bins: int) -> tuple[Launch, Launch]:
    """The two launches, for as many bins at most."""
    writer = _Writer(nest, site, sizes.chunk_of(bins), sizes.tables_of(bins, nest.result.dtype))
    return (
        Launch(f"{name}_a", "histogram", labels, writer.counted()),
        Launch(f"{name}_b", "histogram", labels, writer.added()),
    )


class _Writer:
    def __init__(self, nest: Nest, site: Site, chunk: int, tables: int) -> None:
        self.nest, self.names, self.chunk, self.tables = nest, site.names, chunk, tables
        nest.declare(self.names)
        outer = nest.loops[0]
        self.is_deep = len(nest.loops) > 1
        self.chunks = integer(sizes.PARTS) if self.is_deep else ceil_div(length_of(outer), chunk * outer.step)
        self.table = self.names.fresh(f"{nest.result.name}_table")
        extents = (combine("max", self.chunks, integer(0)), integer(self.tables), *nest.result.extents)
        self.names.add(Buffer(self.table, nest.found.array, nest.result.dtype, extents, Global(), copies=2))

    def cell(self, *index: Expr) -> Load:
        """An element of the tables."""
        return Load(self.table, index, self.nest.result.dtype)

    def over_bins(self, variables: Sequence[str], nodes: Sequence[TreeNode]) -> tuple[TreeNode, ...]:
        """The nodes for each element of the result."""
        inner = tuple(nodes)
        for var, extent in reversed([*zip(variables, self.nest.result.extents, strict=True)]):
            inner = (Loop(var, integer(0), extent, 1, Where.SERIAL, inner),)
        return inner

    def bins(self) -> list[str]:
        """Variables of loops over the elements of the result."""
        return [self.names.fresh("b") for _ in self.nest.result.extents]

    def counted(self) -> tuple[TreeNode, ...]:
        """What each chunk's iterations make of its tables."""
        chunk, turn = self.names.fresh("c"), self.names.fresh("t")
        bins = self.bins()
        here = tuple(map(Iter, bins))
        clear = Copy(self.cell(Iter(chunk), Iter(turn), *here), self.nest.neutral)
        cleared = Loop(turn, integer(0), integer(self.tables), 1, Where.SERIAL, self.over_bins(bins, (clear,)))
        turn, bins = self.names.fresh("t"), self.bins()
        here = tuple(map(Iter, bins))
        first = self.cell(Iter(chunk), integer(0), *here)
        fold = Fold(self.nest.found.operation, first, self.cell(Iter(chunk), Iter(turn), *here))
        folds = Loop(turn, integer(1), integer(self.tables), 1, Where.UNROLLED, (fold,))
        together = self.over_bins(bins, (folds,))
        nodes = (cleared, *self.iterations(Iter(chunk)), *(together if self.tables > 1 else ()))
        return (Loop(chunk, integer(0), self.chunks, 1, Where.THREAD, nodes),)

    def iterations(self, chunk: Expr) -> tuple[TreeNode, ...]:
        """A chunk's: in a nest every so many-th of the outer loop."""
        outer, *inner = self.nest.loops
        if not self.is_deep:
            low = tidy(outer.lower + chunk * (self.chunk * outer.step))
            high = combine("min", outer.upper, tidy(low + self.chunk * outer.step))
            return self.in_turn(replace(outer, lower=low, upper=high), chunk, {})
        place: dict[str, Expr] = {}
        around: list[Loop] = []
        for loop in (outer, *inner[:-1]):
            var = self.names.fresh(loop.var.split(".")[0])
            place[loop.var] = Iter(var)
            around.append(replace(loop, var=var))
        around[0] = replace(
            around[0], lower=tidy(outer.lower + chunk * outer.step), step=outer.step * sizes.PARTS
        )
        nodes = self.in_turn(inner[-1], chunk, place)
        for loop in reversed(around):
            nodes = (replace(loop, body=nodes),)
        return nodes

    def in_turn(self, loop: Loop, chunk: Expr, place: Mapping[str, Expr]) -> tuple[TreeNode, ...]:
        """The iterations of a loop, which take the tables in turn; what is left over the first."""
        rest = self.names.fresh(loop.var.split(".")[0])
        tail = self.nest.at({**place, loop.var: Iter(rest)}, self.table, (chunk, integer(0)))
        if self.tables == 1:
            return (replace(loop, var=rest, body=tail),)
        size = self.tables * loop.step
        rounds = (loop.upper - loop.lower) // size
        number, turn = self.names.fresh("k"), self.names.fresh("t")
        here = tidy(loop.lower + (Iter(number) * self.tables + Iter(turn)) * loop.step)
        each = self.nest.at({**place, loop.var: here}, self.table, (chunk, Iter(turn)))
        unrolled = Loop(turn, integer(0), integer(self.tables), 1, Where.UNROLLED, each)
        whole = Loop(number, integer(0), rounds, 1, Where.SERIAL, (unrolled,))
        return whole, Loop(rest, tidy(loop.lower + rounds * size), loop.upper, loop.step, Where.SERIAL, tail)

    def added(self) -> tuple[TreeNode, ...]:
        """The tables, added to the result in their order."""
        chunk, part = self.names.fresh("c"), self.names.fresh("p")
        bins = self.bins()
        here = tuple(map(Iter, bins))
        result = Load(self.nest.result.name, here, self.nest.result.dtype)
        fold: tuple[TreeNode, ...] = (Fold(self.nest.found.operation, result, self.cell(Iter(chunk), integer(0), *here)),)
        extents = self.nest.result.extents
        for var, extent in reversed([*zip(bins[1:], extents[1:], strict=True)]):
            fold = (Loop(var, integer(0), extent, 1, Where.SERIAL, fold),)
        size = sizes.BINS_AT_ONCE if len(bins) == 1 else 1
        low = tidy(Iter(part) * size)
        high = combine("min", extents[0], tidy(low + size))
        fold = (Loop(bins[0], low, high, 1, Where.SERIAL, fold),)
        each = Loop(chunk, integer(0), self.chunks, 1, Where.SERIAL, fold)
        return (Loop(part, integer(0), ceil_div(extents[0], size), 1, Where.THREAD, (each,)),)
