"""How a pipeline of windows is cut: columns of a lane, rows of a chunk; what that costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from loopfuse.base.options import Tuning
from loopfuse.plan.forest import Scope, Unit
from loopfuse.plan.groups import Group, TimeBlock
from loopfuse.plan.windows import Pipeline, find_pipeline
from loopfuse.poly.model import PolyProgram

LANES = 32
WARPS = (4, 1)
"""Warps of a block, which share nothing: for threads with few registers, and for others. A block of
one fits where four no longer do."""
MANY = 128
"""Registers from which on a thread has many."""
FILE = 65536 // LANES
"""Registers that a multiprocessor has for one lane of all its warps."""
WARPS_HELD = 32
"""Warps that a multiprocessor holds, where a block has one."""
UNDER_WAY = 36 * 1024
"""Bytes that a multiprocessor must have asked for to keep an H100's memory busy (measured)."""
ASKED = 6
"""The most rows that are asked for before their load."""
AHEAD = 2
"""Rows that loads run ahead of their first use."""
ROWS = (32, 256)
"""The fewest and the most steps of a chunk."""
REST = 80
"""Registers for everything but windows."""
OTHER = 24
"""Registers for each array but one that a block of time steps keeps."""
REGISTERS = 248
"""The most registers that a thread may take, as `registers` estimates them; beyond lie spills."""
FEW_REGISTERS = 168
"""As many leave a multiprocessor enough warps even where a lane holds more columns than it has to."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How a pipeline is cut: columns a lane, warps a block, the strip's columns that are stored
    (after `pad` columns that only feed them), rows of a chunk that are stored (after `warm`
    steps), steps of a chunk, how many of them bring every window's rows back to their places, and how many
    rows before its load a row is asked for."""

    columns: int
    warps: int
    pad: int
    stored: int
    rows: int
    warm: int
    steps: int
    unroll: int
    asked: int = 0

    @property
    def redundancy(self) -> float:
        """Points computed for each point stored."""
        return LANES * self.columns / self.stored * self.steps / self.rows


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
    pipeline = find_pipeline(units, scope, program, ahead, time)
    if isinstance(pipeline, str):
        return pipeline
    if any(stage.array in rules.strided for stage in pipeline.stages):
        return "an argument is a view"
    for stage in pipeline.stages:
        if stage.array in program.gathered:
            return f"`{stage.array}` is read elsewhere at places that depend on data"
        for dim in (pipeline.stream, pipeline.across):
            mode = stage.frame.modes[stage.frame.position(dim)]
            if mode not in ("", "clamp"):
                return f"`{stage.array}` is read with `.{mode}`"
    if not any(stage.is_stencil for stage in pipeline.stages):
        return "it has no stencil"
    shape = shape_of(pipeline, program, rules.tuning)
    if isinstance(shape, str):
        return shape
    if registers(pipeline, shape, program) > REGISTERS:
        return "its windows take more registers than a thread has"
    return Windowed(pipeline, shape)


def shape_of(pipeline: Pipeline, program: PolyProgram, tuning: Tuning) -> Shape | str:
    """The shape of a pipeline, or why it has none."""
    if tuning.columns:
        return _shape(pipeline, tuning.columns, program, tuning)
    widest = max(program.arrays[stage.array].dtype.bytes for stage in pipeline.stages)
    narrowest = min(program.arrays[stage.array].dtype.bytes for stage in pipeline.stages)
    columns = 2 if narrowest == 8 else 4 if widest >= 4 else 8
    loaded = [stage.array for stage in pipeline.stages if stage.step is None]
    if columns == 4 and all(program.arrays[array].dtype.bytes <= 2 for array in loaded):
        # What is computed is wider than what is loaded: more columns, for longer loads.
        wide = _shape(pipeline, 2 * columns, program, tuning)
        if not isinstance(wide, str) and registers(pipeline, wide, program) <= FEW_REGISTERS:
            return wide
    return _shape(pipeline, columns, program, tuning)


def _shape(
    pipeline: Pipeline, columns: int, program: PolyProgram, tuning: Tuning
) -> Shape | str:
    """The shape of a pipeline with that many columns a lane, or why it has none."""
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
    wanted = tuning.rows or min(ROWS[1], max(ROWS[0], 4 * (lag + warm)))
    steps = ceil((wanted + lag + warm) / unroll) * unroll
    shape = Shape(columns, 1, pad, stored, steps - lag - warm, warm, steps, unroll)
    few, many = WARPS
    warps = tuning.warps or (few if registers(pipeline, shape, program) < MANY else many)
    ahead = max(stage.delay for stage in pipeline.stages)
    return replace(shape, warps=warps, asked=asked_ahead(pipeline, shape, program, ahead))


def registers(pipeline: Pipeline, shape: Shape, program: PolyProgram) -> int:
    """Registers of 32 bits that a thread takes, at most: what windows keep, a quarter of that for
    ways with guards, and the rest."""
    kept = 0
    for stage in pipeline.stages:
        words = max(1, program.arrays[stage.array].dtype.bytes // 4)
        kept += words * (stage.kept * shape.columns + stage.kept_beside)
    others = 0
    if pipeline.group.time is not None:  # what it does not write of others comes from memory
        arrays = {s.array for s in pipeline.stages if program.arrays[s.array].is_argument}
        others = max(len(arrays) - 1, 0)
    return REST + kept + kept // 4 + OTHER * others


def asked_ahead(pipeline: Pipeline, shape: Shape, program: PolyProgram, ahead: int) -> int:
    """How many rows before its load a row is asked for, so that a multiprocessor has enough bytes
    under way. Loads alone do not achieve it where few warps fit: ptxas moves them down to about
    300 instructions before their use, however many rows ahead the program has them."""
    loaded = [stage for stage in pipeline.stages if stage.step is None]
    width = sum(program.arrays[stage.array].dtype.bytes for stage in loaded)
    warps = min(WARPS_HELD, FILE // registers(pipeline, shape, program))
    rows = UNDER_WAY // max(1, warps * LANES * shape.columns * width) - ahead
    return min(rows, ASKED) if rows > 1 else 0
