"""One tile of a pipeline of windows: which rows and columns it holds, and its buffers."""

from __future__ import annotations

from collections.abc import Mapping

from loopfuse.lang.affine import combine, integer
from loopfuse.lang.nodes import Expr, Iter, Load
from loopfuse.plan.body import declare_global
from loopfuse.plan.expressions import compare, conjoin, greatest, in_range, least
from loopfuse.plan.generic import Extent, Site, dim_extents, hint_of, value_at
from loopfuse.plan.groups import TimeBlock
from loopfuse.plan.linear import constant_value
from loopfuse.plan.looptree import ALIGNED, Buffer, Global, Lanes, Window, straddled_elements
from loopfuse.plan.recompute import tidy
from loopfuse.plan.storage import Store
from loopfuse.plan.window_records import Pipeline, Stage
from loopfuse.plan.window_shape import LANES, Shape


class Tile:
    """A strip of columns times a chunk of rows, for one iteration of the outer dimensions.

    Rows and columns of the group: step t of stage s is row `base + t - s.lag`; the lane's first
    column is `own`. `first_row` and `first_column` are the first that the tile stores.
    """

    def __init__(self, pipeline: Pipeline, shape: Shape, site: Site) -> None:
        self.pipeline, self.shape, self.site = pipeline, shape, site
        self.group, self.time = pipeline.group, pipeline.group.time
        self.extents = dim_extents(self.group, site.program)
        self.outputs = stored_stages(pipeline, site.stores)
        names = site.names
        hint = {dim: hint_of(self.group, dim) for dim in self.group.dims}
        y, x = hint[pipeline.stream], hint[pipeline.across]
        self.chunk, self.block = names.fresh(f"{y}c"), names.fresh(f"{x}b")
        self.warp, self.lane = names.fresh(f"{x}w"), names.fresh("lane")
        self.outer = {dim: names.fresh(hint[dim]) for dim in pipeline.outer}
        lower = least([self.bounds(s, pipeline.stream)[0] for s in self.outputs])
        upper = greatest([self.bounds(s, pipeline.stream)[1] for s in self.outputs])
        self.rows = Extent(lower, upper, 1)
        self.end = greatest([self.bounds(s, pipeline.across)[1] for s in self.outputs])
        strip = combine("add", combine("mul", Iter(self.block), integer(shape.warps)), Iter(self.warp))
        chunk = combine("mul", Iter(self.chunk), integer(shape.rows))
        self.first_row = tidy(combine("add", lower, chunk))
        self.left = self._first_of_all()
        strips = combine("mul", strip, integer(shape.stored))
        self.first_column = tidy(combine("add", self.left, strips))
        self.base = tidy(combine("sub", self.first_row, integer(shape.warm)))
        start = combine("sub", self.first_column, integer(shape.pad))
        own = combine("mul", Iter(self.lane), integer(shape.columns))
        self.start, self.own = tidy(start), tidy(combine("add", start, own))
        self.windows = {s.name: self._window(s) for s in pipeline.stages}
        self.strips = {
            s.name: self._strip(s)
            for s in pipeline.stages
            if s.left or s.right or self.mirrors(s, pipeline.across)
        }

    def _first_of_all(self) -> Expr:
        """The column where the first strip's stored part starts: 0, where rows are aligned, or
        before, where outputs stand behind what they read."""
        columns = self.shape.columns
        lower = least([self.bounds(s, self.pipeline.across)[0] for s in self.outputs])
        value = constant_value(lower)
        return lower if value is None else integer(min(0, value) // columns * columns)

    # ----------------------------------------------------------------------------- extents

    def bounds(self, stage: Stage, dim: str) -> tuple[Expr, Expr]:
        """The rows or columns of the group that the stage's loop runs (exclusive end); for a
        loaded stage, those that memory has."""
        maker = stage if stage.step is not None or self.time is None else self.pipeline.last(stage.array)
        if maker is None or maker.step is None:
            extents = self.site.program.arrays[stage.array].extents
            return integer(0), extents[stage.frame.position(dim)]
        placed = maker.step.placed
        c = placed.coordinate(dim)
        loop = next(lp for lp in placed.unit.common if lp.iterator == c.iterator)
        moved = 0
        if maker is not stage:  # in the loaded stage's own frame
            moved = maker.frame.shifts[maker.frame.position(dim)]
        return (
            tidy(combine("add", combine("sub", loop.lower, c.offset), integer(moved))),
            tidy(combine("add", combine("sub", loop.upper, c.offset), integer(moved))),
        )

    def inside(self) -> Expr:
        """The tile lies inside every loop's bounds and every loaded array."""
        shape = self.shape
        conditions: list[Expr] = []
        lows: dict[str, list[Expr]] = {"row": [], "column": []}
        highs: dict[str, list[Expr]] = {"row": [], "column": []}
        for s in self.pipeline.stages:
            low, high = self.bounds(s, self.pipeline.stream)
            lows["row"].append(tidy(combine("add", low, integer(s.lag))))
            highs["row"].append(tidy(combine("add", high, integer(s.lag))))
            low, high = self.bounds(s, self.pipeline.across)
            lows["column"].append(low)
            highs["column"].append(high)
        last_row = tidy(combine("add", self.base, integer(shape.steps)))
        last_column = tidy(combine("add", self.start, integer(LANES * shape.columns)))
        for low in dict.fromkeys(lows["row"]):
            conditions.append(compare("ge", self.base, low))
        for high in dict.fromkeys(highs["row"]):
            conditions.append(compare("le", last_row, high))
        for low in dict.fromkeys(lows["column"]):
            conditions.append(compare("ge", self.start, low))
        for high in dict.fromkeys(highs["column"]):
            conditions.append(compare("le", last_column, high))
        return conjoin(*conditions)

    def roomy(self) -> tuple[Expr, Expr]:
        """Every row loaded has elements, as many as an aligned vector may reach over: before what
        the tile loads, and behind that."""
        before: list[Expr] = []
        behind: list[Expr] = []
        last_column = tidy(combine("add", self.start, integer(LANES * self.shape.columns)))
        for s in self.pipeline.stages:
            array = self.site.program.arrays[s.array]
            room = straddled_elements(array.dtype, self.shape.columns)
            if s.step is not None or room == 1:
                continue
            # A loaded column stands where memory has it.
            before.append(compare("ge", self.start, integer(room - 1)))
            end = tidy(combine("add", last_column, integer(room)))
            behind.append(compare("le", end, array.extents[-1]))
        return conjoin(*dict.fromkeys(before)), conjoin(*dict.fromkeys(behind))

    def aligned(self) -> Expr:
        """Rows start at multiples of 16 bytes."""
        conditions: list[Expr] = [ALIGNED]
        lengths = [
            self.site.program.arrays[s.array].extents[-1]
            for s in (*self.outputs, *self.pipeline.stages)
            if s.step is None or s in self.outputs
        ]
        for length in dict.fromkeys(lengths):
            rest = combine("mod", length, integer(self.shape.columns))
            conditions.append(compare("eq", rest, integer(0)))
        return conjoin(*conditions)

    def running(self, stage: Stage, point: dict[str, Expr]) -> Expr:
        """The stage's loop runs at the point."""
        tests: list[Expr] = []
        for dim in self.group.dims:
            tests += in_range(point[dim], *self.bounds(stage, dim))
        return conjoin(*dict.fromkeys(tests))

    # ------------------------------------------------------------------------------ places

    def point(self, row: Expr, column: Expr) -> dict[str, Expr]:
        """The group's point at a row of the window and a column of the lane."""
        point = {dim: value_at(self.extents[dim], Iter(var)) for dim, var in self.outer.items()}
        point[self.pipeline.stream] = tidy(combine("add", self.base, row))
        point[self.pipeline.across] = tidy(combine("add", self.own, column))
        return point

    def element(self, stage: Stage, row: Expr, column: Expr) -> tuple[Expr, ...]:
        """The subscripts of the array's own element there."""
        point = self.point(row, column)
        return tuple(
            tidy(combine("add", point[dim], integer(shift)))
            for dim, shift in zip(stage.frame.dims, stage.frame.shifts, strict=True)
        )

    def cell(self, stage: Stage, row: Expr, column: Expr) -> Load:
        """The window's cell; columns count from the lane's own first."""
        dtype = self.site.program.arrays[stage.array].dtype
        place = tidy(combine("add", column, integer(stage.left)))
        return Load(self.windows[stage.name], (tidy(row), place), dtype)

    def held(self, stage: Stage, place: Expr) -> Load:
        """An element of the row that the warp holds."""
        dtype = self.site.program.arrays[stage.array].dtype
        return Load(self.strips[stage.name], (place,), dtype)

    def memory(self, array: str, index: tuple[Expr, ...], copy: bool = False) -> Load:
        """An element of the array in memory, or of the copy that time blocks keep."""
        site = self.site
        name = declare_global(site.program, site.stores, site.extents, site.names, array)
        if copy:
            name = declare_copy(site, array)
        return Load(name, index, site.program.arrays[array].dtype)

    def mirrors(self, stage: Stage, dim: str) -> bool:
        """The stage is computed, and read beyond its edge along `dim`."""
        return stage.step is not None and stage.frame.modes[stage.frame.position(dim)] != ""

    # ----------------------------------------------------------------------------- buffers

    def _window(self, stage: Stage) -> str:
        """The stage's window: its rows, and each lane's columns with those it keeps beside."""
        array = self.site.program.arrays[stage.array]
        rows = stage.rows if self.shape.unroll % stage.rows == 0 else self.shape.unroll
        width = stage.left + self.shape.columns + stage.right
        name = self.site.names.fresh(f"{stage.array}_window")
        extents = (integer(rows), integer(width))
        self.site.names.add(
            Buffer(name, stage.array, array.dtype, extents, Window(rows), zeroed=True)
        )
        return name

    def _strip(self, stage: Stage) -> str:
        """One row of the stage across the warp, for shuffles."""
        array = self.site.program.arrays[stage.array]
        name = self.site.names.fresh(f"{stage.array}_row")
        columns = self.shape.columns
        self.site.names.add(
            Buffer(name, stage.array, array.dtype, (integer(LANES * columns),), Lanes(columns))
        )
        return name


def stored_stages(pipeline: Pipeline, stores: Mapping[str, Store]) -> tuple[Stage, ...]:
    """The computed stages whose array others need in memory."""
    made = [s for s in pipeline.stages if s.step is not None]
    time = pipeline.group.time
    if time is None:
        return tuple(s for s in made if stores[s.array].home == "global")
    loaded = {s.array for s in pipeline.stages if s.step is None}
    wanted = loaded | (time.live if time.back else frozenset())
    return tuple(s for s in made if s.array in wanted and pipeline.last(s.array) is s)


def declare_copy(site: Site, array: str) -> str:
    """The workspace that holds the array after every other block of time steps."""
    name = f"{array}__copy"
    if name not in site.names.buffers:
        about = site.program.arrays[array]
        site.names.used.add(name)
        site.names.add(Buffer(name, array, about.dtype, about.extents, Global()))
    return name


def source_is_copy(time: TimeBlock | None) -> bool:
    """Does the launch read the copies?"""
    return time is not None and time.back

