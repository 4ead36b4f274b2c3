"""Histograms on a GPU: a block counts into a table in its shared memory, which it adds to the result in the end.

    block, thread:  table[.., ..] = 0;  barrier
                    for all turns:  x_row = x[..];  for e:  atomic table[lane, x_row[e]] += 1
                    barrier
                    for bins b of a thread:  s = sum over copies c of table[c, b];  atomic h[b] += s

There are several copies of the table, and those of an element lie side by side: lanes of a warp that have copies of their
own never meet in a bank, whatever the data are. Without a table each update goes to the result itself.

What is not updated atomically (floats, whose order shows) goes into tables that no two threads share: a block is one
warp. What its lanes have together goes to memory, and a second launch adds that in the order of blocks. All numbers are
constants, and with them the order of a sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from loopfuse.base.machine import ACCESS, LANES
from loopfuse.lang.index import ceil_div, conjoin
from loopfuse.lang.linear import constant_value, tidy
from loopfuse.lang.nodes import Const, Expr, Iter, Load, combine, compare, integer
from loopfuse.lang.walk import loads, subscript_iterators, substitute, sure_loads
from loopfuse.plan.mapping.space import Site, nested
from loopfuse.plan.mapping.vectors import vector_along
from loopfuse.plan.strategies.histogram import sizes
from loopfuse.plan.strategies.histogram.nest import (
    Nest,
    bin_at,
    count_of,
    length_of,
    place_at,
    with_rows,
)
from loopfuse.tree.looptree import (
    ALIGNED,
    Barrier,
    Buffer,
    Combine,
    Compute,
    Copy,
    Fold,
    Global,
    Guard,
    Launch,
    Loop,
    Shared,
    TreeNode,
)
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import as_load, walk_guarded


def plan_shared(
    nest: Nest, site: Site, name: str, labels: tuple[str, ...], bins: int, warps: int, blocks: int
) -> Launch:
    """The launch with tables, for as many bins at most, by so many warps a block and blocks a row."""
    return Launch(f"{name}_s", "histogram", labels, _Shared(nest, site, bins, warps, blocks).nodes())


def plan_private(nest: Nest, site: Site, name: str, labels: tuple[str, ...], bins: int) -> tuple[Launch, Launch]:
    """The launches of blocks of one warp, whose lanes have a table each: one in which nothing is atomic."""
    writer = _Private(nest, site, bins)
    return (
        Launch(f"{name}_p", "histogram", labels, writer.nodes()),
        Launch(f"{name}_b", "histogram", labels, writer.together()),
    )


def plan_direct(nest: Nest, site: Site, name: str, labels: tuple[str, ...]) -> Launch:
    """The launch without: a thread for each iteration."""
    nest.declare(site.names)
    place: dict[str, Expr] = {}
    chain: list[tuple[str, Expr, Where]] = []
    *outer, last = nest.loops
    for loop in outer:
        var = site.names.fresh(loop.var.split(".")[0])
        chain.append((var, ceil_div(length_of(loop), loop.step), Where.GRID))
        place[loop.var] = place_at(loop, Iter(var))
    block, thread = (site.names.fresh(f"{last.var.split('.')[0]}{letter}") for letter in "bt")
    chain.append((block, ceil_div(length_of(last), sizes.DIRECT_BLOCK * last.step), Where.GRID))
    chain.append((thread, integer(sizes.DIRECT_BLOCK), Where.BLOCK))
    here = place_at(last, Iter(block) * sizes.DIRECT_BLOCK + Iter(thread))
    each = _atomic(nest, nest.at({**place, last.var: here}))
    return Launch(f"{name}_d", "histogram", labels, nested(chain, (Guard(here < last.upper, each),)))


def _atomic(nest: Nest, nodes: Sequence[TreeNode]) -> tuple[TreeNode, ...]:
    """The nodes with their update in one step."""
    out: list[TreeNode] = []
    for node in nodes:
        match node:
            case Guard(then=then, otherwise=otherwise):
                node = replace(node, then=_atomic(nest, then), otherwise=_atomic(nest, otherwise))
            case Loop(body=body):
                node = replace(node, body=_atomic(nest, body))
            case Compute() if nest.is_update(node):
                node = replace(node, atomic=True)
            case _:
                pass
        out.append(node)
    return tuple(out)


@dataclass(frozen=True, slots=True)
class _Row:
    """What a thread's iterations read of an array, of which so many neighbours lie in a vector if `whole` holds."""

    load: Load
    width: int
    whole: tuple[Expr, ...]


class _Shared:
    """Writes the launch with tables."""

    def __init__(self, nest: Nest, site: Site, bins: int, warps: int, most: int, copies: int = 0) -> None:
        self.nest, self.names = nest, site.names
        nest.declare(site.names)
        self.warps, self.most = warps, most
        self.copies = copies or sizes.copies_of(bins, nest.result.dtype)
        extents = nest.extents if nest.bins is not None else (integer(bins),)
        strides: list[Expr] = []
        step = self.copies
        extents = with_rows(nest, extents, {loop.var: integer(1) for loop in nest.rows})
        for extent in reversed(extents):
            strides.append(integer(step))
            step *= constant_value(extent) or 1
        self.row_vars = {loop.var: self.names.fresh(loop.var.split(".")[0]) for loop in nest.rows}
        self.here = {loop.var: place_at(loop, Iter(self.row_vars[loop.var])) for loop in nest.rows}
        self.table = self.names.fresh(f"{nest.result.name}_table")
        self.names.add(
            replace(
                nest.result, name=self.table, array=nest.found.array, extents=(integer(self.copies), *extents), home=Shared(),
                argument=False, zeroed=False, strides=(integer(1), *reversed(strides)), copies=1, turns=(),
            )
        )  # fmt: skip
        rows = self._rows()
        widest = max((row.load.dtype.bytes for row in rows), default=sizes.NARROW_READ)
        self.each = max(ACCESS // sizes.NARROW_READ, min(sizes.MOST_EACH, self.bytes_at_a_time() // widest))
        self.rows = [replace(row, width=min(row.width, self.each)) for row in rows]
        hint = nest.loops[0].var.split(".")[0]
        self.block, self.warp, self.lane = self.names.fresh(f"{hint}b"), self.names.fresh("w"), self.names.fresh("lane")
        self.thread = Iter(self.warp) * LANES + Iter(self.lane)

    def bytes_at_a_time(self) -> int:
        """Of the widest array that a thread reads."""
        return sizes.SECTOR

    def cell(self, copy: Expr, index: tuple[Expr, ...]) -> Load:
        """An element of the table."""
        index = with_rows(self.nest, index, {loop.var: integer(0) for loop in self.nest.rows})
        return Load(self.table, (copy, *index), self.nest.result.dtype)

    def nodes(self) -> tuple[TreeNode, ...]:
        """The whole launch."""
        rows = [(self.row_vars[loop.var], ceil_div(length_of(loop), loop.step), Where.GRID) for loop in self.nest.rows]
        chain = [
            *rows,
            (self.block, self.blocks(), Where.GRID),
            (self.warp, integer(self.warps), Where.WARP),
            (self.lane, integer(LANES), Where.LANE),
        ]
        turn = self.names.fresh("k")
        number = Iter(turn) * self.most + Iter(self.block)
        outer, *inner = self.nest.loops
        inside = self.rows_of_warps(number) if inner else self.of_block(number)
        turns = ceil_div(length_of(outer), self.most * self.share())
        loop = Loop(turn, integer(0), turns, 1, Where.SERIAL, inside)
        return nested(chain, (*self.cleared(), *self.waits(), loop, *self.waits(), *self.added()))

    def share(self) -> int:
        """How far along the outer loop a block's turn goes."""
        outer, *inner = self.nest.loops
        each = self.warps if inner else self.warps * LANES * self.each
        return each * outer.step

    def blocks(self) -> Expr:
        """How many there are."""
        return combine("min", integer(self.most), ceil_div(length_of(self.nest.loops[0]), self.share()))

    def waits(self) -> tuple[TreeNode, ...]:
        """What orders the block's accesses of its table."""
        return (Barrier("block"),)

    def taking(self, nodes: Sequence[TreeNode]) -> tuple[TreeNode, ...]:
        """The nodes of an iteration, as threads that share a table run them."""
        return _atomic(self.nest, nodes)

    # ------------------------------------------------------------------------- the table

    def at_bins(self, first: Expr, together: int, nodes: Sequence[TreeNode], turn: str) -> tuple[TreeNode, ...]:
        """The nodes for each bin, of which the block does so many at once; this thread the one `first` behind them."""
        total = count_of(self.nest)
        count = constant_value(total)
        inside = tuple(nodes)
        if count is None or count % together:
            inside = (Guard(tidy(Iter(turn) * together + first) < total, inside),)
        return (Loop(turn, integer(0), ceil_div(total, together), 1, Where.SERIAL, inside),)

    def cleared(self) -> tuple[TreeNode, ...]:
        turn, lane = self.names.fresh("j"), Iter(self.lane)
        apart = LANES // self.copies
        first = Iter(self.warp) if apart == 1 else tidy(Iter(self.warp) * apart + lane // self.copies)
        number = tidy(Iter(turn) * (self.warps * apart) + first)
        copy = Copy(self.cell(self.copy_of(lane), bin_at(self.nest, number)), self.nest.neutral)
        return self.at_bins(first, self.warps * apart, (copy,), turn)

    def copy_of(self, lane: Expr) -> Expr:
        """The copy of the table that a lane has, or one so far behind the first."""
        if self.copies == LANES and isinstance(lane, Iter):
            return lane
        return lane % self.copies if self.copies > 1 else integer(0)

    def added(self) -> tuple[TreeNode, ...]:
        """The copies of each bin together, to the result: a thread's each, so that neighbours of the result are added
        together. It begins with the copy that its lane has: of those of neighbouring bins banks differ."""
        turn, other, dtype = self.names.fresh("j"), self.names.fresh("c"), self.nest.result.dtype
        held = self.names.register(f"{self.nest.result.name}_bin", Load(self.nest.result.name, (), dtype))
        index = bin_at(self.nest, tidy(Iter(turn) * (self.warps * LANES) + self.thread))
        fold = Fold(self.nest.found.operation, held, self.cell(self.copy_of(Iter(self.lane) + Iter(other)), index))
        folds = Loop(other, integer(0), integer(self.copies), 1, Where.UNROLLED, (fold,))
        return self.at_bins(self.thread, self.warps * LANES, (Copy(held, self.nest.neutral), folds, self.left(index, held)), turn)

    def left(self, index: tuple[Expr, ...], held: Load) -> TreeNode:
        """What the block has for a bin, to where it is added."""
        place = Load(self.nest.result.name, with_rows(self.nest, index, self.here), held.dtype)
        return Fold(self.nest.found.operation, place, held, atomic=True)

    # ------------------------------------------------------------------------- the iterations

    def of_block(self, number: Expr) -> tuple[TreeNode, ...]:
        """The iterations of a block's turn, of a nest of one loop."""
        share = self.warps * LANES * self.each
        return self.taken(self.nest.loops[0], tidy(number * share + self.thread * self.each), {})

    def rows_of_warps(self, number: Expr) -> tuple[TreeNode, ...]:
        """Iterations of the outer loop, a warp each; in each the lanes have the inner loop's together."""
        outer, *middle, last = self.nest.loops
        here = place_at(outer, tidy(number * self.warps + Iter(self.warp)))
        place = {outer.var: here}
        around: list[Loop] = []
        for loop in middle:
            var = self.names.fresh(loop.var.split(".")[0])
            around.append(replace(loop, var=var))
            place[loop.var] = Iter(var)
        turn, share = self.names.fresh("m"), LANES * self.each
        inside = self.taken(last, tidy(Iter(turn) * share + Iter(self.lane) * self.each), place)
        nodes: tuple[TreeNode, ...] = (
            Loop(turn, integer(0), ceil_div(length_of(last), share * last.step), 1, Where.SERIAL, inside),
        )
        for loop in reversed(around):
            nodes = (replace(loop, body=nodes),)
        return (Guard(here < outer.upper, nodes),)

    def taken(self, loop: Loop, start: Expr, place: Mapping[str, Expr]) -> tuple[TreeNode, ...]:
        """A thread's iterations from number `start` on: as vectors where all of them are there."""
        number, copy = self.names.fresh("e"), self.copy_of(Iter(self.lane))

        def each(here: Expr, held: Mapping[Load, Load]) -> tuple[TreeNode, ...]:
            return self.taking(self.nest.at({**self.here, **place, loop.var: here}, self.table, (copy,), held))

        here = place_at(loop, tidy(start + Iter(number)))
        last = place_at(loop, tidy(start + (self.each - 1))) < loop.upper
        held: dict[Load, Load] = {}
        moves: list[TreeNode] = []
        for row in self.rows:
            register = self.names.register(f"{row.load.array}_row", row.load, self.each)
            turn, lane = self.names.fresh("u"), self.names.fresh("v")
            behind = tidy(Iter(turn) * row.width + Iter(lane))
            there = substitute(row.load, {**self.here, **place, loop.var: place_at(loop, tidy(start + behind))})
            move = Copy(Load(register.array, (behind,), row.load.dtype), as_load(tidy(there)))
            vector = Loop(lane, integer(0), integer(row.width), 1, Where.VECTOR, (move,))
            moves.append(Loop(turn, integer(0), integer(self.each // row.width), 1, Where.UNROLLED, (vector,)))
            held[row.load] = Load(register.array, (Iter(number),), row.load.dtype)
        whole = conjoin(*([ALIGNED] if moves else []), *dict.fromkeys(c for row in self.rows for c in row.whole), last)
        fast = Loop(number, integer(0), integer(self.each), 1, Where.UNROLLED, each(here, held))
        slow = Loop(number, integer(0), integer(self.each), 1, Where.SERIAL, (Guard(here < loop.upper, each(here, {})),))
        return (Guard(whole, (*moves, fast), (slow,)),)

    def _rows(self) -> list[_Row]:
        """What each iteration reads for certain, of arrays that nobody writes, at a place next to that of the one
        before."""
        loop = self.nest.loops[-1]
        sure: dict[Load, None] = {}
        for node, under in walk_guarded(self.nest.body):
            if isinstance(node, Compute) and not under:
                always = node.predicate is None or node.predicate == Const(True, node.predicate.dtype)
                for expr in (node.value, *node.target.index) if always else (node.predicate,):
                    assert expr is not None
                    sure.update(dict.fromkeys(sure_loads(expr)))
        found = (self._row(load, loop) for load in sure)
        return [row for row in found if row is not None]

    def _row(self, load: Load, loop: Loop) -> _Row | None:
        buffer = self.names.buffers[load.array]
        is_memory = isinstance(buffer.home, Global) and load.array != self.nest.result.name
        if not is_memory or loop.step != 1:
            return None
        if loop.var not in subscript_iterators(load) or any(map(loads, load.index)):
            return None
        width, whole = vector_along(load, buffer, loop.var, loop.lower, ACCESS)
        return _Row(load, width, whole) if width > 1 else None


class _Private(_Shared):
    """Writes the launches in which each lane has a table to itself, and a block one warp: what updates meet in one
    element, and in which order, says the iteration. What blocks have is added in their order afterwards."""

    def __init__(self, nest: Nest, site: Site, bins: int) -> None:
        super().__init__(nest, site, bins, 1, sizes.alone_of(bins, nest.result.dtype), LANES)
        self.partial = self.names.fresh(f"{nest.result.name}_partial")
        extents = (integer(self.most), *nest.result.extents)
        self.names.add(Buffer(self.partial, "", nest.result.dtype, extents, Global()))

    def bytes_at_a_time(self) -> int:
        return sizes.ALONE_SECTOR

    def waits(self) -> tuple[TreeNode, ...]:
        return ()

    def taking(self, nodes: Sequence[TreeNode]) -> tuple[TreeNode, ...]:
        return tuple(nodes)

    def added(self) -> tuple[TreeNode, ...]:
        turn, nest = self.names.fresh("j"), self.nest
        held = self.names.register(f"{nest.result.name}_bin", Load(nest.result.name, (), nest.result.dtype))
        index = bin_at(nest, tidy(Iter(turn) + Iter(self.warp)))
        nodes = (
            Copy(held, self.cell(Iter(self.lane), index)),
            Combine(nest.found.operation, held.array, (self.lane,)),
            Guard(compare("eq", Iter(self.lane), integer(0)), (self.left(index, held),)),
        )
        return self.at_bins(Iter(self.warp), 1, nodes, turn)

    def left(self, index: tuple[Expr, ...], held: Load) -> TreeNode:
        return Copy(Load(self.partial, (Iter(self.block), *index), held.dtype), held)

    def together(self) -> tuple[TreeNode, ...]:
        """What all blocks have for a bin, by a block each."""
        nest, dtype = self.nest, self.nest.result.dtype
        bin_, thread, turn = self.names.fresh("b"), self.names.fresh("t"), self.names.fresh("k")
        index, operation = bin_at(nest, Iter(bin_)), nest.found.operation
        held = self.names.register(f"{nest.result.name}_bin", Load(nest.result.name, (), dtype))
        slot = Iter(turn) * sizes.ADDING + Iter(thread)
        fold = Fold(operation, held, Load(self.partial, (slot, *index), dtype))
        nodes = (
            Copy(held, nest.neutral),
            Loop(turn, integer(0), integer(self.most // sizes.ADDING), 1, Where.SERIAL, (Guard(slot < self.blocks(), (fold,)),)),
            Combine(operation, held.array, (thread,)),
            Guard(compare("eq", Iter(thread), integer(0)), (Fold(operation, Load(nest.result.name, index, dtype), held),)),
        )
        return nested([(bin_, count_of(nest), Where.GRID), (thread, integer(sizes.ADDING), Where.BLOCK)], nodes)
