"""One tile of a pipeline of windows: which rows and columns it holds, and its buffers."""

from __future__ import annotations

from loopfuse.base.machine import LANES
from loopfuse.lang.index import conjoin, greatest, in_range, least
from loopfuse.lang.linear import constant_value, lies_within, same_index, tidy
from loopfuse.lang.nodes import Expr, Iter, Load, combine, compare, integer
from loopfuse.plan.mapping.space import Extent, Site, value_at
from loopfuse.plan.strategies.sliding.gpu.kept import Kept
from loopfuse.plan.strategies.sliding.tile import PipelineTile, holding_stages
from loopfuse.plan.strategies.sliding.windows.borders import is_edge
from loopfuse.plan.strategies.sliding.windows.records import Pipeline, Stage, later_name, loop_range
from loopfuse.plan.strategies.sliding.windows.regions import in_region, is_all
from loopfuse.plan.strategies.sliding.windows.shape import Shape
from loopfuse.plan.units.groups import whole_name
from loopfuse.tree.looptree import (
    ALIGNED,
    Lanes,
    Register,
    Window,
    straddled_elements,
)

SPARED = 40
"""Of how many rows of a tile at least one must be spared to be worth the arithmetic."""


class Tile(PipelineTile):
    """A strip of columns times a chunk of rows, for one iteration of the outer dimensions. Where
    nothing streams (a line), the chunk is one row, and `base` 0.

    Rows and columns of the group: step t of stage s is row `base + t - s.lag`; the lane's first
    column is `own`. `first_row` and `first_column` are the first that the tile stores.
    """

    def __init__(self, pipeline: Pipeline, shape: Shape, site: Site) -> None:
        super().__init__(pipeline, site)
        self.shape = shape
        x, y = pipeline.across, pipeline.stream or pipeline.across
        self.chunk, self.block = self.fresh(y, "c"), self.fresh(x, "b")
        self.warp, self.lane = self.fresh(x, "w"), site.names.fresh("lane")
        self.outer = {dim: self.fresh(dim) for dim in pipeline.outer}
        nothing = integer(0), integer(1)  # where nothing streams: one row, which has no number
        rows = [
            self.hull(s, pipeline.stream) if pipeline.stream else nothing for s in self.outputs
        ]
        lower = least([low for low, _ in rows])
        self.rows = Extent(lower, greatest([high for _, high in rows]), 1)
        self.end = greatest([self.hull(s, pipeline.across)[1] for s in self.outputs])
        strip = Iter(self.block) * shape.warps + Iter(self.warp)
        chunk = Iter(self.chunk) * shape.rows
        self.first_row = tidy(lower + chunk) if pipeline.stream else lower
        self.left = self._first_of_all()
        strips = strip * shape.stored
        self.first_column = tidy(self.left + strips)
        self.base = tidy(self.first_row - shape.warm)
        start = self.first_column - shape.pad
        own = Iter(self.lane) * shape.columns
        self.start, self.own = tidy(start), tidy(start + own)
        self.windows = {s.name: self._window(s) for s in holding_stages(pipeline)}
        self.kept = Kept(self)
        self.strips = {
            s.name: self.lanes_of(s)
            for s in pipeline.stages
            if s.left or s.right or self.mirrors(s, pipeline.across)
        }

    def _first_of_all(self) -> Expr:
        """The column where the first strip's stored part starts: 0, where rows are aligned, or
        before, where outputs stand behind what they read."""
        columns = self.shape.columns
        lower = least([self.hull(s, self.pipeline.across)[0] for s in self.outputs])
        value = constant_value(lower)
        return lower if value is None else integer(min(0, value) // columns * columns)

    # ----------------------------------------------------------------------------- extents

    def bounds(self, stage: Stage, dim: str) -> tuple[Expr, Expr]:
        """The rows or columns of the group that the stage's loop runs (exclusive end); for a
        loaded stage, those that memory has."""
        if stage.step is not None:
            return loop_range(stage.step, dim)
        position = stage.frame.position(dim)
        region = self.time.region(stage.array) if self.time is not None else None
        if region is None and self.time is not None:
            region = self.pipeline.region(stage.array)
        if region:
            return region[0][position]
        return integer(0), self.program.arrays[stage.array].extents[position]

    def ends(self, stage: Stage, dim: str) -> tuple[Expr | None, Expr | None]:
        """Between what a tile lies that needs no guard for the stage: inside the bounds of its loop
        or beside its border, behind one at a constant place and before one at the end; None where
        anywhere will do."""
        low, high = self.bounds(stage, dim)
        if not stage.is_border:
            return low, high
        assert stage.step is not None
        if not is_edge(stage.step.placed.coordinate(dim).iterator):
            return None, None
        return (high, None) if constant_value(low) is not None else (None, low)

    def hull(self, stage: Stage, dim: str) -> tuple[Expr, Expr]:
        """The rows or columns of the group where some loop writes the stage's array."""
        if stage.step is None:
            return self.bounds(stage, dim)
        position = stage.frame.position(dim)
        if len(self.pipeline.boxes(stage.array)) == 1:
            return self.bounds(stage, dim)
        boxes = [box[position] for box in self.pipeline.region(stage.array)]
        extent = self.program.arrays[stage.array].extents[position]
        low, high = least([low for low, _ in boxes]), greatest([high for _, high in boxes])
        if any(constant_value(each) == 0 for each, _ in boxes):
            low = integer(0)
        if any(same_index(each, extent) for _, each in boxes):
            high = extent
        moved = integer(stage.frame.shifts[position])
        return tidy(low - moved), tidy(high - moved)

    def computed(self, stage: Stage, dim: str) -> tuple[Expr, Expr]:
        """`bounds` of a computed stage; where it wraps, also what is read beyond them."""
        low, high = self.bounds(stage, dim)
        if not self.wraps(stage, dim):
            return low, high
        first, end = self.read_range(stage, dim)
        return least(_outer([low, first], -1)), greatest(_outer([high, end], 1))

    def read_range(self, stage: Stage, dim: str) -> tuple[Expr, Expr]:
        """The rows or columns of a stage that some loop may read (exclusive end)."""
        key = stage.name, dim
        if key not in self.read_ranges:
            self.read_ranges[key] = self._read_range(stage, dim)
        return self.read_ranges[key]

    def _read_range(self, stage: Stage, dim: str) -> tuple[Expr, Expr]:
        back = ahead = 0
        if dim == self.pipeline.stream:
            back, ahead = stage.up, stage.down
        elif dim == self.pipeline.across:
            back, ahead = stage.left, stage.right
        elif dim == self.pipeline.abreast:
            back, ahead = stage.band.north, stage.band.south
        ends = [
            self.computed(s, dim)
            for s in self.pipeline.stages
            if s.step is not None and stage.name in s.step.reads.values()
        ] or [self.bounds(stage, dim)]
        first = least(_outer([end[0] for end in ends], -1))
        last = greatest(_outer([end[1] for end in ends], 1))
        low, high = first - back, last + ahead
        later = self.pipeline.stage(later_name(stage.name))
        if later is None or self.is_made_anew(later):
            return tidy(low), tidy(high)
        # What the stage after it leaves as it is may be read there.
        moved = integer(later.ahead_of(stage, dim))
        theirs = (tidy(end + moved) for end in self.read_range(later, dim))
        lows, highs = zip((tidy(low), tidy(high)), theirs, strict=True)
        return least(_outer([*lows], -1)), greatest(_outer([*highs], 1))

    def is_read_unwritten(self, stage: Stage) -> bool:
        """May some loop read an element of a computed stage that its own loop does not write?"""
        return not all(
            lies_within(self.read_range(stage, dim), self.bounds(stage, dim)) for dim in self.group.dims
        )

    def is_made_anew(self, stage: Stage) -> bool:
        """Does the stage's window hold nothing of what was there before it, as loops that share it
        write the whole array?"""
        array = self.program.arrays[stage.array]
        return self.pipeline.passes_on(stage) and is_all(self.pipeline.made_with(stage), array)

    def inside(self) -> Expr:
        """The tile lies inside every loop's bounds and every loaded array."""
        shape = self.shape
        conditions: list[Expr] = []
        lows: dict[str, list[Expr]] = {"row": [], "column": []}
        highs: dict[str, list[Expr]] = {"row": [], "column": []}
        streams = [("row", self.pipeline.stream)] if self.pipeline.stream else []
        for s in self.pipeline.stages:
            for what, dim in (*streams, ("column", self.pipeline.across)):
                lag = s.lag if what == "row" else 0
                low, high = self.ends(s, dim)
                if low is not None:
                    lows[what].append(tidy(low + lag))
                if high is not None:
                    spared = self.spared(s) if what == "row" else 0
                    highs[what].append(tidy(high + (lag + spared)))
        last_row = tidy(self.base + shape.steps)
        last_column = tidy(self.start + (LANES * shape.columns))
        for low in dict.fromkeys(lows["row"]):
            conditions.append(self.base >= low)
        for high in dict.fromkeys(highs["row"]):
            conditions.append(last_row <= high)
        for low in dict.fromkeys(lows["column"]):
            conditions.append(self.start >= low)
        for high in dict.fromkeys(highs["column"]):
            conditions.append(last_column <= high)
        return conjoin(*dict.fromkeys((*conditions, *self._runs_outside())))

    def _runs_outside(self) -> list[Expr]:
        """All loops run in this iteration of the outer dimensions: some only over some images."""
        conditions: list[Expr] = []
        for dim, var in self.outer.items():
            extent = self.extents[dim]
            for s in self.pipeline.stages:
                if s.step is not None and self.bounds(s, dim) != (extent.lower, extent.upper):
                    conditions += in_range(value_at(extent, Iter(var)), *self.bounds(s, dim))
        return conditions

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
        last_column = tidy(self.start + (LANES * self.shape.columns))
        for s in self.pipeline.stages:
            array = self.program.arrays[s.array]
            room = straddled_elements(array.dtype, self.shape.columns)
            if s.step is not None or room == 1:
                continue
            # A loaded column stands where memory has it.
            before.append(self.start >= (room - 1))
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

    def stores_at(self, stage: Stage, row: Expr) -> list[Expr]:
        """What must hold for the row to be one that the chunk stores, and not one that only feeds
        those."""
        shape = self.shape
        tests: list[Expr] = [row >= shape.warm]
        if stage.lag < shape.steps - shape.warm - shape.rows:
            tests.append(row < (shape.warm + shape.rows))
        return tests

    def loaded_row(self, stage: Stage, row: Expr) -> Expr:
        """The row that is loaded for a row of the window: behind the last that is needed that one
        again, which costs no traffic."""
        if not self.spared(stage):
            return row
        return combine("min", row, integer(self.last_loaded(stage)))

    def last_loaded(self, stage: Stage) -> int:
        """The last row of the tile that is loaded of a stage."""
        return self.shape.steps - 1 - stage.lag - self.spared(stage)

    def spared(self, stage: Stage) -> int:
        """How many steps at the end of the tile load nothing new: loads run ahead of what uses
        them, and in a short chunk the row or two behind the last that is needed are much of its
        traffic. None in blocks of time steps and in three dimensions, which have long chunks, and
        proofs that this would make longer."""
        is_long = self.time is not None or self.pipeline.abreast
        if stage.step is not None or is_long or not self.pipeline.stream:
            return 0
        shape = self.shape
        beyond = shape.steps - stage.lag - (shape.warm + shape.rows + stage.below)
        return beyond if beyond * SPARED > shape.steps else 0

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

    def written(self, stage: Stage, point: dict[str, Expr], index: tuple[Expr, ...]) -> Expr:
        """Some loop writes the element `index` of the stage's array, at that point."""
        if len(self.pipeline.boxes(stage.array)) < 2:
            return self.running(stage, point)
        return in_region(index, self.pipeline.region(stage.array))

    def running(self, stage: Stage, point: dict[str, Expr], beyond: bool = False) -> Expr:
        """The stage's loop runs at the point; `beyond`: or one of its iterations is computed
        again there."""
        tests: list[Expr] = []
        for dim in self.group.dims:
            low, high = self.bounds(stage, dim)
            if beyond and self.wraps(stage, dim):
                tests.append(low < high)
                low, high = self.computed(stage, dim)
            tests += in_range(point[dim], low, high)
        return conjoin(*dict.fromkeys(tests))

    def abreast_range(self) -> dict[str, tuple[Expr, Expr]]:
        """By dimension: the rows of planes that some tile stores, in three dimensions."""
        return {}

    # ------------------------------------------------------------------------------ places

    def cell(self, stage: Stage, row: Expr, column: Expr) -> Load:
        """The window's cell; columns count from the lane's own first."""
        dtype = self.program.arrays[stage.array].dtype
        stage = self.pipeline.holder(stage)
        place = tidy(column + stage.left)
        return Load(self.windows[stage.name], (tidy(row), place), dtype)

    def held(self, stage: Stage, place: Expr) -> Load:
        """An element of the row that the warp holds."""
        dtype = self.program.arrays[stage.array].dtype
        return Load(self.strips[stage.name], (place,), dtype)

    def taken(self, stage: Stage) -> Load:
        """A register for one element that another lane holds."""
        dtype = self.program.arrays[stage.array].dtype
        return Load(self.declare(stage, "taken", (), Register()), (), dtype)

    def mirrors(self, stage: Stage, dim: str) -> bool:
        """The stage is computed, and read beyond its edge along `dim`, where it has a copy of
        what stands nearby."""
        return stage.step is not None and stage.frame.mode(dim) not in ("", "wrap")

    def wraps(self, stage: Stage, dim: str) -> bool:
        """The stage is computed beyond its edge along `dim`, as on the other side."""
        return stage.step is not None and stage.frame.mode(dim) == "wrap"

    # ----------------------------------------------------------------------------- buffers

    def _window(self, stage: Stage) -> str:
        """The stage's window: its rows, and each lane's columns with those it keeps beside."""
        rows = stage.rows if self.shape.unroll % stage.rows == 0 else self.shape.unroll
        width = stage.left + self.shape.columns + stage.right
        return self.declare(stage, "window", (rows, width), Window(rows), zeroed=True)

    def lanes_of(self, stage: Stage) -> str:
        """One row of the stage across the warp, for shuffles."""
        columns = self.shape.columns
        return self.declare(stage, "row", (LANES * columns,), Lanes(columns))


def _outer(ends: list[Expr], sign: int) -> list[Expr]:
    """The ends without those that others are seen to be greater (`sign` 1) or less (-1) than."""
    out: list[Expr] = []
    for end in ends:
        ahead = [constant_value(end - other) for other in out]
        if any(n is not None and n * sign <= 0 for n in ahead):
            continue
        kept = (other for other, n in zip(out, ahead, strict=True) if n is None)
        out = [*kept, end]
    return out
