"""How a pipeline of windows is cut: columns of a lane, rows of a chunk; what that costs."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from loopfuse.base.options import Tuning
from loopfuse.plan.forest import Scope, Unit
from loopfuse.plan.groups import Group, TimeBlock
from loopfuse.plan.window_blocks import (
    PLANES,
    PLANES_AHEAD,
    BlockRows,
    Cut,
    cut_block,
    steps_of,
)
from loopfuse.plan.windows import Pipeline, find_pipeline
from loopfuse.poly.model import PolyProgram

LANES = 32
WARPS = 4
"""Warps of a block; they share nothing."""
AHEAD = 2
"""Rows that loads run ahead of their first use."""
ROWS = (64, 256)
"""The fewest and the most steps of a chunk."""
REGISTERS = 200
"""The most registers that windows may take, as `registers` estimates them; beyond lie spills."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How a pipeline is cut: columns a lane, warps a block, the strip's columns that are stored
    (after `pad` columns that only feed them), rows of a chunk that are stored (after `warm`
    steps), steps of a chunk, and how many of them bring every window's rows back to their places."""

    columns: int
    warps: int
    pad: int
    stored: int
    rows: int
    warm: int
    steps: int
    unroll: int
    block: BlockRows | None = None
    """The rows of a plane, in three dimensions; `rows` and `warm` then count planes."""

    @property
    def redundancy(self) -> float:
        """Points computed for each point stored."""
        plane = LANES * self.columns / self.stored
        if self.block is not None:
            plane *= self.warps * self.block.held / self.block.stored
        return plane * self.steps / self.rows


DEFAULT = Tuning()


@dataclass(frozen=True, slots=True)
class WindowRules:
    """What the planner may do with windows: `strided` arguments are views."""

    strided: frozenset[str] = frozenset()
    tuning: Tuning = DEFAULT


@dataclass(frozen=True, slots=True)
class Windowed:
    """A pipeline and its shape."""

    pipeline: Pipeline
    shape: Shape

    @property
    def group(self) -> Group:
        """The units as a group of kind `window`."""
        return self.pipeline.group


def fit_windows(
    units: tuple[Unit, ...],
    scope: Scope,
    program: PolyProgram,
    rules: WindowRules,
    time: TimeBlock | None = None,
) -> Windowed | str:
    """The units, as they run, as a pipeline of windows with its shape, or why they are none."""
    ahead = AHEAD if rules.tuning.ahead is None else rules.tuning.ahead
    planes_ahead = PLANES_AHEAD if rules.tuning.ahead is None else rules.tuning.ahead
    pipeline = find_pipeline(units, scope, program, ahead, time, planes_ahead)
    if isinstance(pipeline, str):
        return pipeline
    if any(stage.array in rules.strided for stage in pipeline.stages):
        return "an argument is a view"
    for stage in pipeline.stages:
        if stage.array in program.gathered:
            return f"`{stage.array}` is read elsewhere at places that depend on data"
        for dim in (pipeline.stream, pipeline.abreast, pipeline.across):
            mode = stage.frame.modes[stage.frame.position(dim)] if dim else ""
            if mode not in ("", "clamp"):
                return f"`{stage.array}` is read with `.{mode}`"
    if pipeline.abreast and time is not None and time.steps > 1:
        for stage in pipeline.stages:
            if stage.step is not None and any(stage.frame.modes):
                return f"`{stage.array}` is made and read beyond its edge, in three dimensions"
    if not any(stage.is_stencil for stage in pipeline.stages):
        return "it has no stencil"
    shape = shape_of(pipeline, program, rules.tuning)
    if isinstance(shape, str):
        return shape
    if not pipeline.abreast and registers(pipeline, shape, program) > REGISTERS:
        return "its windows take more registers than a thread has"
    return Windowed(pipeline, shape)


def shape_of(pipeline: Pipeline, program: PolyProgram, tuning: Tuning) -> Shape | str:
    """The shape of a pipeline, or why it has none."""
    if pipeline.abreast:
        cut = cut_block(pipeline, program, tuning)
        return cut if isinstance(cut, str) else _block_shape(pipeline, cut, tuning)
    widest = max(program.arrays[stage.array].dtype.bytes for stage in pipeline.stages)
    narrowest = min(program.arrays[stage.array].dtype.bytes for stage in pipeline.stages)
    columns = tuning.columns or (2 if narrowest == 8 else 4 if widest >= 4 else 8)
    before = max(stage.before for stage in pipeline.stages)
    after = max(stage.after for stage in pipeline.stages)
    pad = ceil(before / columns) * columns
    stored = (LANES * columns - pad - after) // columns * columns
    if stored < LANES * columns // 2:
        return "its halo is as wide as a strip"
    if max(max(stage.left, stage.right) for stage in pipeline.stages) > columns * LANES // 2:
        return "it reads columns too far apart"
    lag = max(stage.lag for stage in pipeline.stages)
    warm = max(stage.above for stage in pipeline.stages)
    unroll = max(stage.rows for stage in pipeline.stages)
    wanted = tuning.rows or min(ROWS[1], max(ROWS[0], 7 * (lag + warm)))
    steps = ceil((wanted + lag + warm) / unroll) * unroll
    warps = tuning.warps or WARPS
    return Shape(columns, warps, pad, stored, steps - lag - warm, warm, steps, unroll)


def _block_shape(pipeline: Pipeline, cut: Cut, tuning: Tuning) -> Shape:
    """The shape of a block that streams down planes."""
    lag, warm, unroll = steps_of(pipeline, cut.rows.copies)
    wanted = tuning.rows or min(PLANES[1], max(PLANES[0], 7 * (lag + warm)))
    steps = ceil((wanted + lag + warm) / unroll) * unroll
    return Shape(
        cut.columns,
        cut.warps,
        cut.pad,
        cut.stored,
        steps - lag - warm,
        warm,
        steps,
        unroll,
        cut.rows,
    )


def registers(pipeline: Pipeline, shape: Shape, program: PolyProgram) -> int:
    """Registers of 32 bits that the windows take, and 40 for the rest."""
    total = 40
    for stage in pipeline.stages:
        words = max(1, program.arrays[stage.array].dtype.bytes // 4)
        beside = stage.left + stage.right
        rows = stage.rows if stage.is_stencil or stage.step is None else 1
        total += words * rows * shape.columns + words * beside * min(rows, stage.up + stage.down + 1)
    return total
