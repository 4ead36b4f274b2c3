"""One tile of a pipeline of windows: what of each dimension it holds, and its buffers."""

from __future__ import annotations

from itertools import product
from math import ceil

from loopfuse.base.machine import LANES
from loopfuse.lang.index import conjoin, in_range
from loopfuse.lang.linear import constant_value, tidy
from loopfuse.lang.nodes import Expr, Iter, Load, combine, compare, integer
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.strategies.sliding.gpu.extents import Extents
from loopfuse.plan.strategies.sliding.gpu.invariants import Invariants
from loopfuse.plan.strategies.sliding.windows.blocks import (
    fetched_around,
    plane_extents,
    plane_pad,
    plane_rows,
)
from loopfuse.plan.strategies.sliding.windows.cuts import Cut, Shape
from loopfuse.plan.strategies.sliding.windows.records import HERE, Halo, Pipeline, Stage, Step
from loopfuse.plan.strategies.sliding.windows.tile import holding_stages
from loopfuse.plan.units.groups import whole_name
from loopfuse.tree.layout import Level
from loopfuse.tree.looptree import (
    ALIGNED,
    Lanes,
    Register,
    Shared,
    Window,
    straddled_elements,
)

SPARED = 40
"""Of how many slices of a tile at least one must be spared to be worth the arithmetic."""


class WindowTile(Extents):
    """A tile, as `shape` cuts it, for one iteration of the outer dimensions.

    Step t of stage s is slice `own + t - s.lag` of the first dimension. A thread has a row of neighbours
    in memory for each place of `rows`.
    """

    def __init__(self, pipeline: Pipeline, shape: Shape, site: Site) -> None:
        super().__init__(pipeline, shape, site)
        self.blocks = {
            dim: self.fresh(dim, "c" if dim == pipeline.stream else "b") for dim in pipeline.dims if dim
        }
        self.warp, self.lane = self.fresh(pipeline.dims[1], "w"), site.names.fresh("lane")
        self.outer = {dim: self.fresh(dim) for dim in pipeline.outer}
        self.lay()
        self.rows: list[tuple[Expr, ...]] = [
            tuple(map(integer, place))
            for place in product(*(range(cut.by(Level.SLOT)) for cut in shape.cuts[1:-1]))
        ]
        self.windows = {s.name: self._window(s) for s in holding_stages(pipeline)}
        self.strips = {
            (s.name, row): self.lanes_of(s)
            for s in pipeline.stages
            for row in self.rows
            if s.halos[-1] or self.mirrors(s, pipeline.across)
        }
        self.waiting = {s.name: self._waiting(s) for s in pipeline.stages if self.fetched(s)}
        self.coming = {
            s.name: self._coming(s, shape.rows)
            for s in pipeline.stages
            if s.step is None and pipeline.late
        }
        self.planes = {s.name: self._plane(s) for s in pipeline.stages if s.is_shared}
        self.invariants = Invariants(self)

    def store_range(self, dim: str) -> tuple[Expr, Expr]:
        """The first strip starts at 0, where rows are aligned, or before, where outputs stand behind what
        they read."""
        lower, upper = super().store_range(dim)
        columns, value = self.shape.columns, constant_value(lower)
        if dim == self.pipeline.across and value is not None:
            lower = integer(min(0, value) // columns * columns)
        return lower, upper

    def number(self, dim: str) -> Expr:
        """A block has one tile along `dim`, or one for each of its warps."""
        number = super().number(dim)
        return number if self.has_one(dim) else number * self.shape.warps + Iter(self.warp)

    def has_one(self, dim: str) -> bool:
        """Has a block one tile along `dim`, and not one for each of its warps?"""
        return dim != self.pipeline.across or bool(self.pipeline.between)

    def place_within(self, cut: Cut) -> Expr:
        """Where in a dimension of the tile the thread's own begin."""
        return cut.layout.begin(0, {Level.WARP: Iter(self.warp), Level.LANE: Iter(self.lane)})

    # ----------------------------------------------------------------------------- extents

    def inside(self) -> Expr:
        """The tile lies inside every loop's bounds and every loaded array."""
        tests: list[list[Expr]] = []
        for dim, cut in self.cuts.items():
            lows: list[Expr] = []
            highs: list[Expr] = []
            for s in self.pipeline.stages if dim else ():
                low, high = self.ends(s, dim)
                around = Halo(s.lag, s.lag + self.spared(s)) if dim == self.pipeline.stream else HERE
                if dim in self.pipeline.between:
                    fetched = self.fetched(s)
                    around = Halo(fetched.low, -fetched.high)
                if low is not None:
                    lows.append(tidy(low + around.low))
                if high is not None:
                    highs.append(tidy(high + around.high))
            last = tidy(self.start[dim] + cut.size)
            tests.append([self.start[dim] >= low for low in dict.fromkeys(lows)])
            tests.append([last <= high for high in dict.fromkeys(highs)])
        if self.pipeline.between:  # tests of starts first
            tests = [*tests[::2], *tests[1::2]]
        return conjoin(*dict.fromkeys((*(test for each in tests for test in each), *self.runs_outside())))

    def has_views(self) -> bool:
        """Is an argument a view? Neighbours in a row of it may lie apart: only others have 16-byte
        accesses."""
        strided = self.site.names.strided
        return any(whole_name(stage.array) in strided for stage in self.pipeline.stages)

    def roomy(self) -> tuple[Expr, Expr]:
        """Every row loaded has elements, as many as an aligned vector may reach over: before what
        the tile loads, and behind that."""
        before: list[Expr] = []
        behind: list[Expr] = []
        start = self.start[self.pipeline.across]
        last_column = tidy(start + self.shape.strip.size)
        for s in self.pipeline.stages:
            array = self.program.arrays[s.array]
            room = straddled_elements(array.dtype, self.shape.columns)
            if s.step is not None or room == 1:
                continue
            # A loaded column stands where memory has it.
            before.append(start >= (room - 1))
            end = tidy(last_column + room)
            behind.append(end <= array.extents[-1])
        return conjoin(*dict.fromkeys(before)), conjoin(*dict.fromkeys(behind))

    def aligned(self, ends: bool = False) -> Expr:
        """Rows start at multiples of 16 bytes. `ends`: and end there too, also an array's only row."""
        conditions: list[Expr] = [ALIGNED]
        arrays = self.site.program.arrays
        lengths = [
            self.program.arrays[s.array].extents[-1]
            for s in (*self.outputs, *self.pipeline.stages)
            if (s.step is None or s in self.outputs)
            and (ends or len(arrays[whole_name(s.array)].extents) > 1)
        ]
        for length in dict.fromkeys(lengths):
            rest = length % self.shape.columns
            conditions.append(compare("eq", rest, integer(0)))
        return conjoin(*conditions)

    def stores_at(self, stage: Stage, number: Expr) -> list[Expr]:
        """What must hold for the slice to be one that the chunk stores, and not one that only feeds
        those."""
        chunk = self.shape.chunk
        tests: list[Expr] = [number >= chunk.pad]
        if stage.lag < chunk.behind:
            tests.append(number < (chunk.pad + chunk.stored))
        return tests

    def _lies_stored(self, dim: str, part: Expr) -> list[Expr]:
        """What must hold for the thread's place along `dim` to be one that the tile stores."""
        cut = self.cuts[dim]
        place = tidy(part + self.within[dim])
        return in_range(place, integer(cut.pad), integer(cut.pad + cut.stored))

    def is_stored_row(self, stage: Stage, number: Expr, *row: Expr) -> Expr:
        """The row of a slice is one that the tile stores, but for its ends."""
        tests = self.stores_at(stage, number)
        for dim, part in zip(self.pipeline.between, row, strict=True):
            if self.cuts[dim].stored < self.cuts[dim].size:
                tests += self._lies_stored(dim, part)
        return conjoin(*tests)

    def is_stored(self, stage: Stage, number: Expr, *row: Expr) -> Expr:
        """The lane's part of such a row is one that the tile stores."""
        first, last = self.stored_lanes
        tests = in_range(Iter(self.lane), integer(first), integer(last))
        return conjoin(self.is_stored_row(stage, number, *row), *tests)

    @property
    def stored_lanes(self) -> tuple[int, int]:
        """The first lane that stores, and the one behind the last."""
        strip, columns = self.shape.strip, self.shape.columns
        first = strip.pad // columns
        return first, first + strip.stored // columns

    def is_stored_column(self, column: Expr) -> Expr:
        """The column, counted from the lane's first, is one that the tile stores."""
        return conjoin(*self._lies_stored(self.pipeline.across, column))

    def stores_some(self, stage: Stage, number: Expr) -> Expr:
        """The tile stores some row of the warp's in the slice."""
        tests = self.stores_at(stage, number)
        for dim in self.pipeline.between:
            cut, first = self.cuts[dim], self.within[dim]
            last = tidy(first + (cut.by(Level.SLOT) - 1))
            tests += [last >= cut.pad, first < (cut.pad + cut.stored)]
        return conjoin(*tests)

    def loaded_slice(self, stage: Stage, number: Expr) -> Expr:
        """The slice that is loaded for one of the window: behind the last that is needed that one
        again, which costs no traffic."""
        if not self.spared(stage):
            return number
        return combine("min", number, integer(self.last_loaded(stage)))

    def last_loaded(self, stage: Stage) -> int:
        """The last slice of the tile that is loaded of a stage."""
        return self.shape.chunk.size - 1 - stage.lag - self.spared(stage)

    def spared(self, stage: Stage) -> int:
        """How many steps at the end of the tile load nothing new: loads run ahead of what uses
        them, and in a short chunk the row or two behind the last that is needed are much of its
        traffic. None in blocks of time steps and in three dimensions, which have long chunks, and
        proofs that this would make longer."""
        is_long = self.time is not None or self.pipeline.between
        if stage.step is not None or is_long or not self.pipeline.stream:
            return 0
        chunk = self.shape.chunk
        beyond = chunk.behind - stage.lag - stage.needed[0].high
        return beyond if beyond * SPARED > chunk.size else 0

    def runs_in_vectors(self, stage: Stage) -> bool:
        """Where rows are whole vectors: do the loops that write the stage's array write all columns
        of a lane, or none?"""
        if len(self.pipeline.region(stage.array)) > 1:
            return False
        extent = self.program.arrays[stage.array].extents[-1]
        ends = self.hull(stage, self.pipeline.across)
        shift = stage.frame.shifts[stage.frame.position(self.pipeline.across)]
        for end, start in zip(ends, (integer(0), extent), strict=True):
            apart = constant_value(end - start)
            if shift or apart is None or apart % self.shape.columns:
                return False
        return True

    # ------------------------------------------------------------------------------ places

    def _load(self, stage: Stage, buffer: str, *place: Expr) -> Load:
        """The element of a buffer of the stage's."""
        return Load(buffer, tuple(map(tidy, place)), self.program.arrays[stage.array].dtype)

    def cell(self, stage: Stage, *place: Expr) -> Load:
        """The window's cell at a place, which counts from the thread's own first."""
        stage = self.pipeline.holder(stage)
        cells = (part + halo.low for part, halo in zip(place, stage.beside, strict=True))
        return self._load(stage, self.windows[stage.name], *cells)

    def held(self, stage: Stage, place: Expr, *row: Expr) -> Load:
        """An element of a row that the warp holds."""
        dtype = self.program.arrays[stage.array].dtype
        return Load(self.strips[stage.name, row], (place,), dtype)

    def taken(self, stage: Stage) -> Load:
        """A register for one element that another lane holds."""
        return self._load(stage, self.declare(stage, "taken", (), Register()))

    def invariant(self, load: Load, step: Step) -> Load:
        """The register that holds it, where there is one."""
        return self.invariants.register(load, step)

    # What the warps of a block share is a plane: rows of a dimension between, of columns.

    def shared_at(self, stage: Stage, plane: Expr, row: Expr, column: Expr) -> Load:
        """An element of a plane in shared memory: `row` counts the rows kept, from the warp's
        first on, `column` the lane's columns."""
        return self.row_at(stage, plane, row + Iter(self.warp) * plane_rows(stage, self.shape), column)

    def row_at(self, stage: Stage, plane: Expr, row: Expr, column: Expr) -> Load:
        """An element of a plane in shared memory; `row` counts the rows kept of the whole tile."""
        place = column + plane_pad(stage, self.shape) + self.within[self.pipeline.across]
        return self._load(stage, self.planes[stage.name], plane, row + stage.halos[1].low, place)

    def fetched(self, stage: Stage) -> Halo:
        """How many rows around the tile's are read of a stage that is loaded: they are fetched for
        shared memory alone."""
        return fetched_around(stage, self.shape) if self.pipeline.between else HERE

    def fetched_by_each(self, stage: Stage) -> int:
        """How many of those rows one warp fetches."""
        return ceil(self.fetched(stage).width / self.shape.warps)

    def fetched_at(self, stage: Stage, plane: Expr, slot: Expr, column: Expr) -> Load:
        """An element of the rows that the thread's warp has fetched."""
        if self.pipeline.late:
            return self._late(self.waiting, stage, plane, slot, column)
        return self._load(stage, self.waiting[stage.name], plane, slot, column)

    def coming_at(self, stage: Stage, plane: Expr, row: Expr, column: Expr) -> Load:
        """An element of the warp's rows of a plane that comes late."""
        return self._late(self.coming, stage, plane, row, column)

    def _late(
        self, rings: dict[str, str], stage: Stage, plane: Expr, row: Expr, column: Expr
    ) -> Load:
        return self._load(stage, rings[stage.name], plane, Iter(self.warp), row, Iter(self.lane), column)

    # ----------------------------------------------------------------------------- buffers

    def _window(self, stage: Stage) -> str:
        """The stage's window: its slices, and of each the thread's own cells with those it keeps
        beside."""
        unroll = self.shape.unroll
        slices = stage.slices if unroll % stage.slices == 0 else unroll
        extents = [
            cut.by(Level.SLOT) + halo.width
            for cut, halo in zip(self.shape.cuts[1:], stage.beside[1:], strict=True)
        ]
        return self.declare(stage, "window", (slices, *extents), Window(slices), zeroed=True)

    def lanes_of(self, stage: Stage) -> str:
        """One row of the stage across the warp, for shuffles."""
        return self.declare(stage, "row", (self.shape.strip.size,), Lanes(self.shape.columns))

    def _waiting(self, stage: Stage) -> str:
        """The rows of a plane that the thread's warp has fetched for the block."""
        if self.pipeline.late:
            return self._coming(stage, self.fetched_by_each(stage), "fetched")
        extents = (1, self.fetched_by_each(stage), self.shape.columns)
        return self.declare(stage, "fetched", extents, Window(1), zeroed=True)

    def _coming(self, stage: Stage, rows: int, suffix: str = "coming") -> str:
        """Rows of planes that come late: each thread's own, in shared memory."""
        planes, shape = self.pipeline.late, self.shape
        extents = (planes, shape.warps, rows, LANES, shape.columns)
        return self.declare(stage, suffix, extents, Shared(planes))

    def _plane(self, stage: Stage) -> str:
        """The rows of a plane that other warps read, in shared memory."""
        return self.declare(stage, "plane", plane_extents(stage, self.shape), Shared(self.shape.copies))
