"""Where the loops of a pipeline run, write and read, along each dimension of the group."""

from __future__ import annotations

from loopfuse.lang.index import conjoin, greatest, in_range, least
from loopfuse.lang.linear import constant_value, lies_within, same_index, tidy
from loopfuse.lang.nodes import Expr, Iter, integer
from loopfuse.plan.mapping.space import value_at
from loopfuse.plan.strategies.sliding.windows.borders import is_edge
from loopfuse.plan.strategies.sliding.windows.records import Stage, later_name, loop_range
from loopfuse.plan.strategies.sliding.windows.regions import in_region, is_all
from loopfuse.plan.strategies.sliding.windows.tile import PipelineTile


class Extents(PipelineTile):
    """What a GPU's tile asks before it drops a guard, and what its guards ask."""

    def bounds(self, stage: Stage, dim: str) -> tuple[Expr, Expr]:
        """Where along the group's dimension the stage's loop runs (exclusive end); of a loaded
        stage, what memory has."""
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
        """Where along the group's dimension some loop writes the stage's array; where nothing streams
        the dimension is one slice."""
        if not dim:
            return integer(0), integer(1)
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
        """Where along the group's dimension some loop may read a stage (exclusive end)."""
        key = stage.name, dim
        if key not in self.read_ranges:
            self.read_ranges[key] = self._read_range(stage, dim)
        return self.read_ranges[key]

    def _read_range(self, stage: Stage, dim: str) -> tuple[Expr, Expr]:
        halo = stage.halo(dim)
        ends = [
            self.computed(s, dim)
            for s in self.pipeline.stages
            if s.step is not None and stage.name in s.step.reads.values()
        ] or [self.bounds(stage, dim)]
        first = least(_outer([end[0] for end in ends], -1))
        last = greatest(_outer([end[1] for end in ends], 1))
        low, high = first - halo.low, last + halo.high
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

    def wraps(self, stage: Stage, dim: str) -> bool:
        """The stage is computed beyond its edge along `dim`, as on the other side."""
        return stage.step is not None and stage.frame.mode(dim) == "wrap"

    def runs_outside(self) -> list[Expr]:
        """All loops run in this iteration of the outer dimensions: some only over some images."""
        conditions: list[Expr] = []
        for dim, var in self.outer.items():
            extent = self.extents[dim]
            for s in self.pipeline.stages:
                if s.step is not None and self.bounds(s, dim) != (extent.lower, extent.upper):
                    conditions += in_range(value_at(extent, Iter(var)), *self.bounds(s, dim))
        return conditions


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
