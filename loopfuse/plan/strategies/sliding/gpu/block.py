"""One tile of a pipeline in three dimensions: a block of warps that streams down planes."""

from __future__ import annotations

from math import ceil

from loopfuse.base.machine import LANES
from loopfuse.lang.index import conjoin, greatest, in_range, least
from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter, Load, integer
from loopfuse.plan.mapping.space import Extent, Site
from loopfuse.plan.strategies.sliding.gpu.kept import Kept
from loopfuse.plan.strategies.sliding.gpu.tile import Tile
from loopfuse.plan.strategies.sliding.tile import PipelineTile, holding_stages
from loopfuse.plan.strategies.sliding.windows.blocks import BlockRows, plane_extents, plane_rows
from loopfuse.plan.strategies.sliding.windows.records import Pipeline, Stage
from loopfuse.plan.strategies.sliding.windows.shape import Shape
from loopfuse.tree.looptree import Shared, Window


class BlockTile(Tile):
    """A tile of rows and columns times a chunk of planes, for one iteration of the outer
    dimensions.

    Step t of stage s is plane `base + t - s.lag` of the group; the warp's first row is `own_row`,
    the lane's first column `own`. What a `Tile` says of rows is said of planes here;
    `first_band` is the first row of a plane that the tile stores.
    """

    def __init__(self, pipeline: Pipeline, shape: Shape, site: Site) -> None:
        assert shape.block is not None
        PipelineTile.__init__(self, pipeline, site)
        self.shape = shape
        self.block_rows: BlockRows = shape.block
        z, y, x = pipeline.stream, pipeline.abreast, pipeline.across
        self.chunk, self.block, self.band = self.fresh(z, "c"), self.fresh(x, "b"), self.fresh(y, "b")
        self.warp, self.lane = self.fresh(y, "w"), site.names.fresh("lane")
        self.outer = {dim: self.fresh(dim) for dim in pipeline.outer}
        self.rows, self.bands = self._stored(pipeline.stream), self._stored(pipeline.abreast)
        self.end = self._stored(pipeline.across).upper
        rows = self.block_rows
        self.first_row = self._at(self.rows.lower, self.chunk, shape.rows)
        self.base = tidy(self.first_row - shape.warm)
        self.first_band = self._at(self.bands.lower, self.band, rows.stored)
        self.start_row = tidy(self.first_band - rows.pad)
        self.own_row = self._at(self.start_row, self.warp, rows.held)
        self.left = self._first_of_all()
        self.first_column = self._at(self.left, self.block, shape.stored)
        self.start = tidy(self.first_column - shape.pad)
        self.own = self._at(self.start, self.lane, shape.columns)
        self.windows = {s.name: self._window(s) for s in holding_stages(pipeline)}
        self.strips = {}
        self.row_strips = {
            (s.name, row): self.lanes_of(s)
            for s in pipeline.stages
            for row in range(rows.held)
            if s.left or s.right or self.mirrors(s, pipeline.across)
        }
        self.waiting = {s.name: self._waiting(s) for s in pipeline.stages if sum(self.fetched(s))}
        self.coming = {
            s.name: self._coming(s, rows.held)
            for s in pipeline.stages
            if s.step is None and pipeline.late
        }
        self.planes = {s.name: self._plane(s) for s in pipeline.stages if s.band.is_read_beside}
        self.kept = Kept(self)

    @staticmethod
    def _at(first: Expr, var: str, size: int) -> Expr:
        """`first + var * size`."""
        return tidy(first + Iter(var) * size)

    def _stored(self, dim: str) -> Extent:
        """From the first to behind the last that any output stores along `dim`."""
        ends = [self.hull(s, dim) for s in self.outputs]
        return Extent(least([low for low, _ in ends]), greatest([high for _, high in ends]), 1)

    # ----------------------------------------------------------------------------- extents

    def inside(self) -> Expr:
        """The tile lies inside every loop's bounds and every loaded array."""
        lows: dict[str, list[Expr]] = {}
        highs: dict[str, list[Expr]] = {}
        spans = self._spans()
        for s in self.pipeline.stages:
            for dim in spans:
                low, high = self.ends(s, dim)
                before = after = s.lag if dim == self.pipeline.stream else 0
                if dim == self.pipeline.abreast:
                    north, south = self.fetched(s)
                    before, after = north, -south
                if low is not None:
                    lows.setdefault(dim, []).append(tidy(low + before))
                if high is not None:
                    highs.setdefault(dim, []).append(tidy(high + after))
        conditions: list[Expr] = []
        for dim, (first, _) in spans.items():
            conditions += [first >= low for low in dict.fromkeys(lows[dim])]
        for dim, (_, last) in spans.items():
            conditions += [last <= high for high in dict.fromkeys(highs[dim])]
        return conjoin(*dict.fromkeys((*conditions, *self._runs_outside())))

    def _spans(self) -> dict[str, tuple[Expr, Expr]]:
        """By dimension: the first that the tile computes and what is behind the last."""
        shape, rows = self.shape, self.block_rows
        sizes = {
            self.pipeline.stream: (self.base, shape.steps),
            self.pipeline.abreast: (self.start_row, shape.warps * rows.held),
            self.pipeline.across: (self.start, LANES * shape.columns),
        }
        return {
            dim: (first, tidy(first + size))
            for dim, (first, size) in sizes.items()
        }

    def is_stored(self, stage: Stage, plane: Expr, row: Expr) -> Expr:
        """The row of the lane's columns is one that the tile stores."""
        shape = self.shape
        first = shape.pad // shape.columns
        last = first + shape.stored // shape.columns
        tests = in_range(Iter(self.lane), integer(first), integer(last))
        return conjoin(self.is_stored_row(stage, plane, row), *tests)

    def is_stored_row(self, stage: Stage, plane: Expr, row: Expr) -> Expr:
        """The row is one that the tile stores, but for columns at its ends."""
        shape, rows = self.shape, self.block_rows
        tests = self.stores_at(stage, plane)
        if rows.stored < shape.warps * rows.held:
            place = self._at(row, self.warp, rows.held)
            tests += in_range(place, integer(rows.pad), integer(rows.pad + rows.stored))
        return conjoin(*tests)

    def stores_some(self, stage: Stage, plane: Expr) -> Expr:
        """The tile stores some row of the warp's in the plane."""
        rows = self.block_rows
        first, last = (self._at(integer(row), self.warp, rows.held) for row in (0, rows.held - 1))
        low, high = integer(rows.pad), integer(rows.pad + rows.stored)
        tests = last >= low, first < high
        return conjoin(*self.stores_at(stage, plane), *tests)

    def abreast_range(self) -> dict[str, tuple[Expr, Expr]]:
        """The rows of planes that some tile stores."""
        return {self.pipeline.abreast: (self.bands.lower, self.bands.upper)}

    # ------------------------------------------------------------------------------ places

    def point_at(self, plane: Expr, row: Expr, column: Expr) -> dict[str, Expr]:
        """The group's point at a plane of the window, a row and a column of the thread."""
        point = self.point(plane, column)
        point[self.pipeline.abreast] = tidy(self.own_row + row)
        return point

    def cell_at(self, stage: Stage, plane: Expr, row: Expr, column: Expr) -> Load:
        """The window's cell; rows and columns count from the thread's own first."""
        dtype = self.program.arrays[stage.array].dtype
        stage = self.pipeline.holder(stage)
        index = (
            tidy(plane),
            tidy(row + stage.band.north),
            tidy(column + self._west(stage)),
        )
        return Load(self.windows[stage.name], index, dtype)

    def row_held(self, stage: Stage, row: int, place: Expr) -> Load:
        """An element of one of the warp's rows."""
        dtype = self.program.arrays[stage.array].dtype
        return Load(self.row_strips[stage.name, row], (place,), dtype)

    def shared_at(self, stage: Stage, plane: Expr, row: Expr, column: Expr) -> Load:
        """An element of a plane in shared memory: `row` counts the rows kept, from the warp's
        first on, `column` the lane's columns."""
        kept = plane_rows(stage, self.block_rows)
        return self.line_at(stage, plane, self._at(row, self.warp, kept), column)

    def line_at(self, stage: Stage, plane: Expr, line: Expr, column: Expr) -> Load:
        """An element of a plane in shared memory; `line` counts the rows kept of the whole tile."""
        band, columns = stage.band, self.shape.columns
        west = ceil(band.left / columns) * columns
        place = self._at(column + west, self.lane, columns)
        dtype = self.program.arrays[stage.array].dtype
        row = tidy(line + band.north)
        return Load(self.planes[stage.name], (tidy(plane), row, place), dtype)

    def fetched(self, stage: Stage) -> tuple[int, int]:
        """How many rows above the tile's first and below its last are read of a stage that is
        loaded: they are fetched for shared memory alone."""
        return self.block_rows.fetched(stage, self.shape.warps)

    def fetched_by_each(self, stage: Stage) -> int:
        """How many of those rows one warp fetches."""
        return ceil(sum(self.fetched(stage)) / self.shape.warps)

    def fetched_at(self, stage: Stage, plane: Expr, slot: Expr, column: Expr) -> Load:
        """An element of the rows that the thread's warp has fetched."""
        if self.pipeline.late:
            return self._late(self.waiting, stage, plane, slot, column)
        dtype = self.program.arrays[stage.array].dtype
        return Load(self.waiting[stage.name], (tidy(plane), slot, column), dtype)

    def coming_at(self, stage: Stage, plane: Expr, row: Expr, column: Expr) -> Load:
        """An element of the warp's rows of a plane that comes late."""
        return self._late(self.coming, stage, plane, row, column)

    def _late(
        self, rings: dict[str, str], stage: Stage, plane: Expr, row: Expr, column: Expr
    ) -> Load:
        dtype = self.program.arrays[stage.array].dtype
        place = tidy(plane), Iter(self.warp), row, Iter(self.lane), column
        return Load(rings[stage.name], place, dtype)

    def is_stored_column(self, column: Expr) -> Expr:
        """The column, counted from the lane's first, is one that the tile stores."""
        place = self._at(column, self.lane, self.shape.columns)
        ends = integer(self.shape.pad), integer(self.shape.pad + self.shape.stored)
        return conjoin(*in_range(place, *ends))

    @staticmethod
    def _west(stage: Stage) -> int:
        """Columns before a lane's own in the window."""
        return max(stage.left, stage.band.left)

    # ----------------------------------------------------------------------------- buffers

    def _window(self, stage: Stage) -> str:
        """The stage's window: its planes, the thread's rows and columns with those it keeps
        beside them."""
        planes = stage.rows if self.shape.unroll % stage.rows == 0 else self.shape.unroll
        band = stage.band
        height = band.north + self.block_rows.held + band.south
        width = self._west(stage) + self.shape.columns + max(stage.right, band.right)
        return self.declare(stage, "window", (planes, height, width), Window(planes), zeroed=True)

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
        shape, rows = self.shape, self.block_rows
        extents = plane_extents(stage, shape.columns, shape.warps, rows)
        return self.declare(stage, "plane", extents, Shared(rows.copies))
