"""What a thread has of a chunk, on a GPU: some consecutive iterations, or as many of each part of the chunk, and the rows of registers
that hold what they touch in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from loopfuse.base.dtypes import DType
from loopfuse.base.machine import ACCESS
from loopfuse.lang.index import ceil_div, conjoin
from loopfuse.lang.linear import constant_value, tidy
from loopfuse.lang.nodes import Expr, Iter, Load, integer
from loopfuse.lang.walk import (
    loads,
    map_expr,
    subscript_iterators,
    sure_loads,
)
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.mapping.vectors import vector_along
from loopfuse.plan.strategies.scan.body import PLACE, Body
from loopfuse.plan.strategies.scan.launches import at_place, cell, cleared
from loopfuse.tree.chains import parts_of
from loopfuse.tree.looptree import (
    ALIGNED,
    Barrier,
    Buffer,
    Compute,
    Copy,
    Global,
    Guard,
    Loop,
    Shared,
    TreeNode,
)
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.rewrite.specialise import without_implied
from loopfuse.tree.walk import (
    map_expressions,
    may_be_predicated,
    node_expressions,
    walk_guarded,
    walk_nodes,
)

THREADS, EACH = 512, 8
"""Threads of a block that has a chunk, and iterations of each."""
STAGED = 46 << 10
"""Bytes of shared memory that rows go through at most. (A block has 48 KiB; a Scan takes some.)"""
PASS_THREADS, LEAST, PARTS = 256, 4, 7
"""Threads of a block where elements are gone along once, iterations of each at least, and parts of a chunk, at most: while a block
waits for those before it, others' elements have to be on their way."""
HELD, RUNNING = 44, 4
"""Registers of 32 bits for what a thread has read of all parts, and what each adds; and of these for a running value."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How a block has a chunk: in each of its `parts` a thread has `each` consecutive iterations."""

    threads: int
    each: int
    parts: int = 1

    @property
    def part(self) -> int:
        """Iterations of a part."""
        return self.threads * self.each

    @property
    def size(self) -> int:
        """Iterations of a chunk."""
        return self.part * self.parts


def plain() -> Shape:
    """Chunks of one part."""
    return Shape(THREADS, EACH)


def in_parts(body: Body) -> Shape:
    """Chunks of several, in which a thread has what one access moves: then neighbouring threads have neighbours, and it holds much."""
    every = {load for node in walk_nodes(body.each) for expr in node_expressions(node) for load in loads(expr)}
    memory = {buffer.name for buffer in body.memory}
    moved = [load for load in every if PLACE in subscript_iterators(load) and load.array in memory]
    each = min([EACH, *(max(LEAST, ACCESS // load.dtype.bytes) for load in moved)])
    written = {node.target for node in walk_nodes(body.each) if isinstance(node, Compute)}
    words = sum(max(4, load.dtype.bytes) for load in moved if load not in written) // 4 * each
    words += sum(parts_of(a.op, a.place.dtype) for a in body.accumulators)
    running = sum(RUNNING * max(4, a.place.dtype.bytes) // 4 for a in body.accumulators)
    return Shape(PASS_THREADS, each, max(1, min(PARTS, (HELD - running) // words)))


def first_of(body: Body) -> Expr:
    """Where the first chunk begins: where vectors may, at the loop's first place or a little before it."""
    low = constant_value(body.lower)
    if low is None or body.step != 1 or low < 0:
        return body.lower
    return integer(low // EACH * EACH)


def chunks_of(body: Body, shape: Shape) -> Expr:
    """How many chunks there are."""
    return ceil_div(tidy(body.upper - first_of(body)), shape.size * body.step)


@dataclass(frozen=True, slots=True)
class _Row:
    """The elements of a thread, in registers: of `load`, at PLACE. `is_read`, `is_written`: whether they are
    loaded, and stored. `width`: how many neighbours a vector may take of them (1: none). `whole`: what must hold
    for that."""

    load: Load
    held: Load
    is_read: bool
    is_written: bool
    width: int
    whole: tuple[Expr, ...]


class Tile:
    """A thread's iterations of a chunk of that `shape`, of which `nodes` (at PLACE) are done."""

    def __init__(
        self, site: Site, body: Body, chunk: str, thread: Loop, nodes: Sequence[TreeNode], shape: Shape
    ) -> None:
        self.body, self.nodes, self.shape = body, nodes, shape
        self.names, self.site = site.names, site
        self.number, self.thread = Iter(chunk), thread
        self.part: Expr = integer(0)
        self.stages: dict[tuple[DType, int], Load] = {}
        self.rows = self._rows()

    def each_part(self, write: Callable[[], tuple[TreeNode, ...]]) -> tuple[TreeNode, ...]:
        """What is written of each part (`part`)."""
        if self.shape.parts == 1:
            return write()
        name = self.names.fresh("k")
        self.part = Iter(name)
        nodes = write()
        self.part = integer(0)
        return (Loop(name, integer(0), integer(self.shape.parts), 1, Where.UNROLLED, nodes),)

    def where_whole(self, nodes: tuple[TreeNode, ...]) -> tuple[TreeNode, ...]:
        """Nodes of all parts, which ask for no place where the loop has all of the chunk."""
        first, behind = self.number * self.shape.size, (self.number + 1) * self.shape.size
        low, step = first_of(self.body), self.body.step
        fits = tidy(low + (behind - 1) * step) < self.body.upper
        if low != self.body.lower:
            fits = conjoin(tidy(low + first * step) >= self.body.lower, fits)
        ranges = {self.thread.var: (0, self.shape.threads - 1)}
        return (Guard(fits, without_implied(nodes, fits, ranges), nodes),)

    @property
    def chunk(self) -> Expr:
        """Where the part begins, from the first chunk on."""
        return self.number * self.shape.size + self.part * self.shape.part

    @property
    def start(self) -> Expr:
        """Where the thread's iterations of it begin."""
        return self.chunk + Iter(self.thread.var) * self.shape.each

    def slot(self, number: Expr) -> Expr:
        """Where the iteration of that number is in a row."""
        return tidy(self.part * self.shape.each + number)

    def place(self, number: Expr) -> Expr:
        """The value of the loop's variable, of one of the thread's iterations."""
        return tidy(first_of(self.body) + (self.start + number) * self.body.step)

    def inside(self, place: Expr) -> Expr:
        """Is it one of the loop's?"""
        ends = place < self.body.upper
        return ends if first_of(self.body) == self.body.lower else conjoin(place >= self.body.lower, ends)

    @property
    def is_whole(self) -> Expr:
        """Has the thread all its iterations?"""
        last = self.place(integer(self.shape.each - 1)) < self.body.upper
        is_first = first_of(self.body) == self.body.lower
        return last if is_first else conjoin(self.place(integer(0)) >= self.body.lower, last)

    # ------------------------------------------------------------------------- rows

    def _rows(self) -> list[_Row]:
        """The elements of memory at PLACE that the iterations touch: those that nobody writes and each iteration
        reads, whatever the data say, and those of arrays that are accessed at one place, and written in every
        iteration."""
        read: dict[Load, bool] = {}
        every: dict[str, set[Load]] = {}
        written: dict[Load, bool] = {}
        guarded: set[str] = set()
        sure: set[Load] = set()
        for node, under in walk_guarded(self.nodes):
            if not isinstance(node, Compute):
                continue
            sources = [node.value, *node.target.index, *([] if node.predicate is None else [node.predicate])]
            for load in (each for expr in sources for each in loads(expr)):
                every.setdefault(load.array, set()).add(load)
                if load not in written:
                    read[load] = True
            if not under:
                sure.update(sure_loads(node.value if node.predicate is None else node.predicate))
            every.setdefault(node.target.array, set()).add(node.target)
            if under:
                guarded.add(node.target.array)  # nobody may write it elsewhere
            if node.predicate is not None:
                read[node.target] = True  # where it is not written, it stays
            written.setdefault(node.target, True)
        arrays = {load.array for load in written}
        out: list[_Row] = []
        for load in dict.fromkeys([*read, *written]):
            if not self._is_element(load) or load.array in guarded:
                continue
            if load not in written and load not in sure:
                continue  # it need not be there
            if load.array in arrays and len(every[load.array]) > 1:
                continue
            width, whole = self._vectors(load)
            held = self.names.register(f"{load.array}_row", load, self.shape.each * self.shape.parts)
            out.append(_Row(load, held, load in read, load in written, width, whole))
        return out

    def _is_element(self, load: Load) -> bool:
        """Is it in memory, at a place that the iteration alone says?"""
        is_memory = isinstance(self.names.buffers[load.array].home, Global)
        return is_memory and PLACE in subscript_iterators(load) and not any(map(loads, load.index))

    def _vectors(self, load: Load) -> tuple[int, tuple[Expr, ...]]:
        """How many neighbours a vector may take, and what must hold for that."""
        if self.body.step != 1:
            return 1, ()
        return vector_along(load, self.names.buffers[load.array], PLACE, first_of(self.body), self.shape.each)

    # ------------------------------------------------------------------------- what is done

    def loaded(self, own: Mapping[Load, Load]) -> tuple[TreeNode, ...]:
        """The rows that are read."""
        return self._moved([row for row in self.rows if row.is_read], own, into=True)

    def stored(self, own: Mapping[Load, Load]) -> tuple[TreeNode, ...]:
        """The rows that are written."""
        return self._moved([row for row in self.rows if row.is_written], own, into=False)

    def _moved(self, rows: Sequence[_Row], own: Mapping[Load, Load], into: bool) -> tuple[TreeNode, ...]:
        """Rows between memory and registers: in vectors where the thread has all its iterations and memory allows that."""

        def copied(row: _Row, number: Expr) -> Copy:
            (there,) = at_place([Copy(row.load, row.load)], self.place(number), own)
            assert isinstance(there, Copy)
            here = cell(row.held, self.slot(number))
            return Copy(here, there.target) if into else Copy(there.target, here)

        def vectors(row: _Row) -> Loop:
            number, lane = self.names.fresh("u"), self.names.fresh("v")
            move = copied(row, Iter(number) * row.width + Iter(lane))
            vector = Loop(lane, integer(0), integer(row.width), 1, Where.VECTOR, (move,))
            return Loop(number, integer(0), integer(self.shape.each // row.width), 1, Where.UNROLLED, (vector,))

        def one_by_one(rows: Sequence[_Row], all_inside: bool) -> tuple[TreeNode, ...]:
            if not rows:
                return ()
            number = self.names.fresh("e")
            moves = tuple(copied(row, Iter(number)) for row in rows)
            nodes = moves if all_inside else (Guard(self.inside(self.place(Iter(number))), moves),)
            return (Loop(number, integer(0), integer(self.shape.each), 1, Where.UNROLLED, nodes),)

        wide = [row for row in rows if row.width > 1]
        if not wide:
            return one_by_one(rows, False)
        narrow = [row for row in rows if row.width == 1]
        slots = self._slots()
        if not slots:
            fast = conjoin(ALIGNED, *dict.fromkeys(each for row in wide for each in row.whole), self.is_whole)
            return (Guard(fast, (*map(vectors, wide), *one_by_one(narrow, True)), one_by_one(rows, False)),)
        fits = conjoin(ALIGNED, *dict.fromkeys(each for row in wide for each in row.whole))
        fast = Guard(self.is_whole, (*map(vectors, wide), *one_by_one(narrow, True)), one_by_one(rows, False))
        staged: list[TreeNode] = []
        while wide:
            left = dict(slots)
            batch: list[tuple[_Row, Load]] = []
            for row in tuple(wide):
                dtype = row.load.dtype
                if left[dtype]:
                    left[dtype] -= 1
                    batch.append((row, self._stage(dtype, left[dtype])))
                    wide.remove(row)
            staged += self._staged(batch, own, into)
        return (Guard(fits, (fast,), (*staged, *one_by_one(narrow, False))),)

    def _staged(self, batch: Sequence[tuple[_Row, Load]], own: Mapping[Load, Load], into: bool) -> tuple[TreeNode, ...]:
        """Rows that no vectors move, by way of shared memory: neighbouring threads move neighbours, wherever they start."""
        slot, near = self.names.fresh("e"), self.names.fresh("e")
        count, thread = self.thread.upper, Iter(self.thread.var)
        place = tidy(first_of(self.body) + (self.chunk + Iter(slot) * count + thread))
        moves: list[Copy] = []
        keeps: list[Copy] = []
        for row, stage in batch:
            (there,) = at_place([Copy(row.load, row.load)], place, own)
            assert isinstance(there, Copy)
            # Place number e * count + t of the chunk, which thread number // each has.
            held = cell(stage, tidy(Iter(slot) * (count // self.shape.each) + thread // self.shape.each), thread % self.shape.each)
            mine, register = cell(stage, thread, Iter(near)), cell(row.held, self.slot(Iter(near)))
            moves.append(Copy(held, there.target) if into else Copy(there.target, held))
            keeps.append(Copy(register, mine) if into else Copy(mine, register))
        memory = self._unrolled(slot, (Guard(self.inside(place), tuple(moves)),))
        own_places = self._unrolled(near, (Guard(self.inside(self.place(Iter(near))), tuple(keeps)),))
        first, second = (memory, own_places) if into else (own_places, memory)
        return (first, Barrier("block"), second, Barrier("block"))

    def _slots(self) -> dict[DType, int]:
        """How many rows of each type are in shared memory at once; none where rows are short, or do not fit."""
        rows = [row.load.dtype for row in self.rows if row.width > 1]
        count = self.shape.threads
        if count < PASS_THREADS:
            return {}
        size = {dtype: count * (self.shape.each + 1) * dtype.bytes for dtype in dict.fromkeys(rows)}
        if sum(size.values()) > STAGED:
            return {}
        slots = dict.fromkeys(size, 1)
        for dtype in size:
            while slots[dtype] < rows.count(dtype) and sum(size[d] * n for d, n in slots.items()) + size[dtype] <= STAGED:
                slots[dtype] += 1
        return slots

    def _stage(self, dtype: DType, number: int) -> Load:
        """Room for a chunk's elements in shared memory. (A row of it is one longer, so that threads ask different banks.)"""
        if (dtype, number) not in self.stages:
            name = self.names.fresh("stage")
            self.names.add(Buffer(name, "", dtype, (self.thread.upper, integer(self.shape.each + 1)), Shared()))
            self.stages[dtype, number] = Load(name, (), dtype)
        return self.stages[dtype, number]

    def _unrolled(self, var: str, nodes: tuple[TreeNode, ...]) -> Loop:
        return Loop(var, integer(0), integer(self.shape.each), 1, Where.UNROLLED, nodes)

    def added(self, own: Mapping[Load, Load], sums: Mapping[Load, Load]) -> tuple[TreeNode, ...]:
        """What the thread's iterations add."""
        clear = (cleared(a, sums[a.place]) for a in self.body.accumulators)
        return (*clear, self._each(self.body.feeding, {**own, **sums}))

    def done(self, own: Mapping[Load, Load], run: Mapping[Load, Load]) -> tuple[TreeNode, ...]:
        """The thread's iterations, from the running values `run` on."""
        return (self._each(self.nodes, {**own, **run}),)

    def _each(self, nodes: Sequence[TreeNode], cells: Mapping[Load, Load]) -> Loop:
        number = self.names.fresh("e")
        rows = {row.load: cell(row.held, self.slot(Iter(number))) for row in self.rows}

        def held(expr: Expr) -> Expr:
            return map_expr(lambda each: rows.get(each, each) if isinstance(each, Load) else each, expr)

        place = self.place(Iter(number))
        inside = at_place(map_expressions(nodes, held), place, cells)
        homes = {buffer.name: buffer.home for buffer in self.names.buffers.values()}
        body = (Guard(self.inside(place), inside, predicated=may_be_predicated(inside, homes)),)
        return Loop(number, integer(0), integer(self.shape.each), 1, Where.UNROLLED, body)
