"""One tile of a pipeline of line buffers: a chunk of rows of a strip of columns, and its buffers."""

from __future__ import annotations

from loopfuse.base.machine import LINE, PAGE
from loopfuse.lang.index import greatest, least
from loopfuse.lang.linear import constant_value, lies_within, tidy
from loopfuse.lang.nodes import Expr, Iter, Load, integer
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.strategies.sliding.windows.cuts import Shape
from loopfuse.plan.strategies.sliding.windows.passes import Pass, find_passes, is_read, lines_of
from loopfuse.plan.strategies.sliding.windows.records import Pipeline, Stage, later_name, loop_range
from loopfuse.plan.strategies.sliding.windows.tile import PipelineTile
from loopfuse.tree.looptree import LineBuffer, Register

Range = tuple[Expr, Expr]
"""First and one past the last."""


class LineTile(PipelineTile):
    """A strip of columns times a chunk of rows, for one iteration of the outer dimensions.

    Rows and columns are counted from the tile's first: step t of stage s is row `t - s.lag`. `step` is
    the variable of the steps.
    """

    def __init__(self, pipeline: Pipeline, shape: Shape, site: Site) -> None:
        super().__init__(pipeline, shape, site)
        self.blocks = {dim: self.fresh(dim, end) for dim, end in zip(pipeline.dims, "cs", strict=True)}
        self.step = site.names.fresh("t")
        self.outer = {dim: self.fresh(dim) for dim in pipeline.outer}
        self.lay()
        self.passes = find_passes(pipeline)
        self.ahead = self._ahead()
        lines = lines_of(pipeline, self.passes, self.fills)
        self.lines: dict[str, str] = {}
        self.registers: dict[str, str] = {}
        for each in self.passes:
            for stage in each.made:
                if pipeline.passes_on(stage):
                    continue
                if stage in lines or (stage in self.outputs and not self.stores_at_once(stage, each)):
                    self.lines[stage.name] = self._line(stage)
                elif stage not in self.outputs:
                    self.registers[stage.name] = self._register(stage)

    def _ahead(self) -> int:
        """How many places a line has before the tile's first column, so that the loops over a row of the first strip begin
        on a line of the cache: vectors then lie in one each, and so do those of all strips that begin as whole vectors do."""
        across = self.pipeline.across
        made = [stage for each in self.passes for stage in each.made]
        starts = {constant_value(tidy(self.runs(stage, across)[0] - self.first_stored(across))) for stage in made}
        first = min((start for start in starts if start is not None), default=0)
        granule = LINE // min(self.program.arrays[stage.array].dtype.bytes for stage in made)
        return -(self.shape.strip.pad + first) % granule

    def first_stored(self, dim: str) -> Expr:
        """The first place along the dimension that any tile stores."""
        return self.stored[dim][0]

    # ----------------------------------------------------------------------------- extents

    def runs(self, stage: Stage, dim: str) -> Range:
        """The rows or columns of the group that the stage's loop runs; of a loaded stage, those
        that memory has."""
        if stage.step is None:
            return self.whole(stage, dim)
        return loop_range(stage.step, dim)

    def whole(self, stage: Stage, dim: str) -> Range:
        """The rows or columns of the group that the array has."""
        position = stage.frame.position(dim)
        extent = self.program.arrays[stage.array].extents[position]
        shift = integer(stage.frame.shifts[position])
        return tidy(0 - shift), tidy(extent - shift)

    def hull(self, stage: Stage, dim: str) -> Range:
        """The rows or columns of the group that the launch stores: copies of arrays are filled as
        a whole."""
        whole = self.to_copy or self.has_borders(stage)
        return self.whole(stage, dim) if whole else self.runs(stage, dim)

    def has_borders(self, stage: Stage) -> bool:
        """Do loops over borders write the array too? Then all of them write all of it."""
        return stage.step is not None and len(self.pipeline.boxes(stage.array)) > 1

    @property
    def to_copy(self) -> bool:
        """Does the launch store to the copies?"""
        return self.time is not None and not self.time.back

    def filled(self, stage: Stage, dim: str) -> Range:
        """The rows or columns of the group where the stage has a value: those that its loop runs,
        or all of the array where someone may look beyond."""
        whole = self.has_borders(stage) or self.is_wide(stage, dim)
        return self.whole(stage, dim) if whole else self.runs(stage, dim)

    def is_within(self, stage: Stage, dim: str) -> bool:
        """Does the stage have a value wherever its loop runs, also where the loop has no iteration
        along another dimension?"""
        return lies_within(self.runs(stage, dim), self.filled(stage, dim))

    def is_wide(self, stage: Stage, dim: str) -> bool:
        """May someone look at elements that the stage's loop does not write, nor one over a border?"""
        if self.has_borders(stage):
            return False
        if stage.step is None or (stage in self.outputs and self.to_copy):
            return True
        later = self.pipeline.stage(later_name(stage.name))
        if later is not None and self.fills(later):
            return True
        if self.mirrors(stage, dim):
            return True
        runs, halo = self.runs(stage, dim), stage.halo(dim)
        for step in self.pipeline.readers(stage):
            for name in step.writes.values():
                reader = self.pipeline.stage(name)
                assert reader is not None
                if not lies_within(self.runs(reader, dim), runs, (halo.low, halo.high)):
                    return True
        return False

    def fills(self, stage: Stage) -> bool:
        """Does the stage hold elements that its loop does not write?"""
        return any(self.is_wide(stage, dim) for dim in self.group.dims)

    def stores_at_once(self, stage: Stage, around: Pass) -> bool:
        """May the pass that makes the stage store it in memory: it runs over no more than what is
        the tile's own, and nothing reads it?"""
        return not is_read(self.pipeline, stage) and not any(any(s.needed) for s in around.made)

    # ------------------------------------------------------------------------------ places

    def cell(self, stage: Stage, *place: Expr) -> Load:
        """Where the stage has the value of a row and a column of the tile: its line, a register, or
        memory."""
        stage = self.pipeline.holder(stage)
        if stage.name in self.registers:
            dtype = self.program.arrays[stage.array].dtype
            return Load(self.registers[stage.name], (), dtype)
        if stage.name not in self.lines:
            return self.place(stage, self.element(stage, *place))
        dtype = self.program.arrays[stage.array].dtype
        row, column = place
        away = constant_value(tidy(row - Iter(self.step)))
        assert away is not None, "a row is a step and a constant"
        line = Iter(self.step) + (away % stage.slices)
        return Load(self.lines[stage.name], (line, tidy(column + self.ahead)), dtype)

    def place(self, stage: Stage, index: tuple[Expr, ...]) -> Load:
        """An element of a loaded or a stored stage in memory: in the array, or in the copy of it
        that time blocks keep."""
        copied = self.time is not None and self.time.region(stage.array) is not None
        from_copy = stage.step is None and copied
        to_copy = stage.step is not None and self.to_copy
        return self.memory(stage.array, index, from_copy or to_copy)

    # ----------------------------------------------------------------------------- buffers

    def _line(self, stage: Stage) -> str:
        """The stage's line buffer: its lines begin on lines of the cache, not all at one place in a page."""
        size = self.program.arrays[stage.array].dtype.bytes
        width = -(-(self.shape.strip.size + self.ahead) * size // LINE) * LINE
        if width % PAGE == 0:
            width += LINE
        return self.declare(stage, "line", (stage.slices, width // size), LineBuffer(stage.slices))

    def _register(self, stage: Stage) -> str:
        """The register of a stage that one pass makes and reads."""
        return self.declare(stage, "value", (), Register())


def moved(bounds: Range, base: Expr) -> Range:
    """The range counted from `base`."""
    low, high = bounds
    return tidy(low - base), tidy(high - base)


def meet(*ranges: Range) -> Range:
    """What all of the ranges have."""
    return greatest([low for low, _ in ranges]), least([high for _, high in ranges])
