"""How a pipeline of windows is cut: columns of a lane, rows of a chunk; what that costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from loopfuse.base.machine import LANES, MULTIPROCESSOR, Machine
from loopfuse.plan.strategies.sliding.cpu.shape import LineShape, lines_for
from loopfuse.plan.strategies.sliding.windows.blocks import (
    PLANES,
    PLANES_AHEAD,
    PLANES_LATE,
    WARMED,
    BlockRows,
    Cut,
    cut_block,
    planes_asked,
    should_come_late,
    steps_of,
)
from loopfuse.plan.strategies.sliding.windows.code_size import MOST as MOST_CODE
from loopfuse.plan.strategies.sliding.windows.code_size import code_of
from loopfuse.plan.strategies.sliding.windows.lines import cut_line
from loopfuse.plan.strategies.sliding.windows.records import Stage
from loopfuse.plan.strategies.sliding.windows.regions import is_all
from loopfuse.plan.strategies.sliding.windows.registers import most_registers, registers
from loopfuse.plan.strategies.sliding.windows.windows import Pipeline, come_late, find_pipeline
from loopfuse.plan.units.forest import Scope, Unit
from loopfuse.plan.units.groups import Group, TimeBlock, whole_name
from loopfuse.plan.units.rules import Rules
from loopfuse.poly.model import PolyProgram

WARPS = (4, 1)
"""Warps of a block, which share nothing: for threads with few registers, and for others. A block of
one fits where four no longer do."""
MANY = 116
"""Registers from which on a thread has many."""
ASKED = 6
"""The most rows that are asked for before their load."""
AHEAD = 2
"""Rows that loads run ahead of their first use."""
MOST_AHEAD = 176
"""Registers beyond which loads of a block of time steps do not run ahead: those they take are worth more
then. (Measured: docs/decisions/sliding.md.)"""
ROWS = (32, 256)
"""The fewest and the most steps of a chunk."""
REGISTERS = MULTIPROCESSOR.most_registers
"""The most registers that a thread may take, as `registers` estimates them; beyond lie spills."""
TIME_REGISTERS = 184
"""The same where more time steps in a block only save traffic: a multiprocessor that holds eight
warps in place of twelve loses more than that."""
FEW_REGISTERS = 168
"""As many leave a multiprocessor enough warps even where a lane holds more columns than it has to."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How a pipeline is cut: columns a lane, warps a block, the strip's columns that are stored
    (after `pad` columns that only feed them), rows of a chunk that are stored (after `warm`
    steps), steps of a chunk, how many of them bring every window's rows back to their places, and
    how many rows before its load a row is asked for."""

    columns: int
    warps: int
    pad: int
    stored: int
    rows: int
    warm: int
    steps: int
    unroll: int
    asked: int = 0
    block: BlockRows | None = None
    """The rows of a plane, in three dimensions; `rows` and `warm` then count planes."""

    @property
    def redundancy(self) -> float:
        """Points computed for each point stored."""
        plane = LANES * self.columns / self.stored
        if self.block is not None:
            plane *= self.warps * self.block.held / self.block.stored
        return plane * self.steps / self.rows


@dataclass(frozen=True, slots=True)
class Windowed:
    """A pipeline and its shape."""

    pipeline: Pipeline
    shape: Shape | LineShape
    ahead: int | None = None
    """Rows that loads run ahead; None: as many as they usually do."""

    @property
    def group(self) -> Group:
        """The units as a group of kind `window`."""
        return self.pipeline.group


def fit_windows(
    units: tuple[Unit, ...],
    scope: Scope,
    program: PolyProgram,
    rules: Rules,
    time: TimeBlock | None = None,
) -> Windowed | str:
    """The units, as they run, as a pipeline of windows with its shape, or why they are none."""
    if rules.lines:
        return _fit_lines(units, scope, program, rules, time)
    ahead = AHEAD if rules.tuning.ahead is None else rules.tuning.ahead
    planes_ahead = PLANES_AHEAD if rules.tuning.ahead is None else rules.tuning.ahead
    pipeline = find_pipeline(units, scope, program, ahead, time, planes_ahead)
    if isinstance(pipeline, str):
        return pipeline
    for stage in pipeline.stages:
        name = whole_name(stage.array)
        if name in program.gathered:
            return f"`{name}` is read elsewhere at places that depend on data"
    why = _why_no_block(pipeline) if pipeline.abreast else ""
    if why:
        return why
    if not any(stage.is_stencil for stage in pipeline.stages):
        return "it has no stencil"
    shape = shape_of(pipeline, pipeline.program, rules)
    if not isinstance(shape, str) and _code(pipeline, shape) > MOST_CODE:
        return "its code would be too long, written out for each of its windows' rows and columns"
    if pipeline.abreast and (late := _fit_late(pipeline, rules)) is not None:
        return late
    if isinstance(shape, str):
        return shape
    done = pipeline.abreast or not pipeline.stream
    many = 0 if done else registers(pipeline, shape.columns, pipeline.program)
    if many > (REGISTERS if time is None or time.steps == 1 else TIME_REGISTERS):
        return "its windows take more registers than a thread has"
    usual = Windowed(pipeline, shape, rules.tuning.ahead)
    if done or rules.tuning.ahead is not None or time is None or many <= MOST_AHEAD:
        return usual
    just = replace(rules, tuning=replace(rules.tuning, ahead=0))
    found = fit_windows(units, scope, program, just, time)
    return usual if isinstance(found, str) else found


def _code(pipeline: Pipeline, shape: Shape) -> int:
    """Instructions that the pipeline's body computes with."""
    held = shape.block.held if shape.block is not None else 1
    return code_of(pipeline, shape.columns, shape.unroll * held)


def _fit_late(pipeline: Pipeline, rules: Rules) -> Windowed | None:
    """The pipeline with planes that come late, where that is better, or asked for. Not in the second
    launch of a pair of time blocks: it writes arrays whose planes would still be on their way."""
    time, tuning = pipeline.group.time, rules.tuning
    if time is not None and time.back:
        return None
    cut = cut_block(pipeline, pipeline.program, tuning)
    if tuning.late == 0 or isinstance(cut, str):
        return None
    if not tuning.late and not should_come_late(pipeline, cut, pipeline.program, rules.machine):
        return None
    later = come_late(pipeline, tuning.late or PLANES_LATE)
    if later is None:
        return None
    shape = shape_of(later, later.program, rules)
    return None if isinstance(shape, str) else Windowed(later, shape)


def _why_no_block(pipeline: Pipeline) -> str:
    """Why the pipeline has no blocks that stream down planes; empty where it may."""
    time = pipeline.group.time
    for stage in pipeline.stages:
        name = whole_name(stage.array)
        is_again = time is not None and time.steps > 1
        if is_again and stage.step is not None and any(stage.frame.modes):
            return f"`{name}` is made and read beyond its edge, in three dimensions"
    return ""


def _fit_lines(
    units: tuple[Unit, ...],
    scope: Scope,
    program: PolyProgram,
    rules: Rules,
    time: TimeBlock | None,
) -> Windowed | str:
    """`fit_windows` on the CPU."""
    pipeline = find_pipeline(units, scope, program, 0, time, None)
    if isinstance(pipeline, str):
        return pipeline
    for stage in pipeline.stages:
        name = whole_name(stage.array)
        if name in program.gathered:
            return f"`{name}` is read elsewhere at places that depend on data"
        if _has_odd_borders(pipeline, stage):
            return f"other loops write other parts of `{name}`"
    shape = lines_for(pipeline, pipeline.program, rules.tuning)
    return shape if isinstance(shape, str) else Windowed(replace(pipeline, lines=True), shape)


def _has_odd_borders(pipeline: Pipeline, stage: Stage) -> bool:
    """Do several loops write the stage's array that are not a pass over all of it together?"""
    boxes = pipeline.boxes(stage.array)
    if stage.step is None or len(boxes) < 2:
        return False
    array = pipeline.program.arrays[stage.array]
    return not is_all(pipeline.made_with(stage), array)


def shape_of(pipeline: Pipeline, program: PolyProgram, rules: Rules) -> Shape | str:
    """The shape of a pipeline, or why it has none."""
    tuning = rules.tuning
    if pipeline.abreast:
        cut = cut_block(pipeline, program, tuning)
        return cut if isinstance(cut, str) else _block_shape(pipeline, cut, program, rules)
    if not pipeline.stream:
        line = cut_line(pipeline, program, rules)
        if isinstance(line, str):
            return line
        return Shape(line.columns, line.warps, line.pad, line.stored, 1, 0, 1, 1)
    if tuning.columns:
        return _shape(pipeline, tuning.columns, program, rules)
    widest = max(program.arrays[stage.array].dtype.bytes for stage in pipeline.stages)
    narrowest = min(program.arrays[stage.array].dtype.bytes for stage in pipeline.stages)
    columns = 2 if narrowest == 8 else 4 if widest >= 4 else 8
    loaded = [stage.array for stage in pipeline.stages if stage.step is None]
    if columns == 4 and all(program.arrays[array].dtype.bytes <= 2 for array in loaded):
        # What is computed is wider than what is loaded: more columns, for longer loads.
        wide = _shape(pipeline, 2 * columns, program, rules)
        if not isinstance(wide, str) and registers(pipeline, wide.columns, program) <= FEW_REGISTERS:
            return wide
    return _shape(pipeline, columns, program, rules)


def _shape(
    pipeline: Pipeline, columns: int, program: PolyProgram, rules: Rules
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
    tuning = rules.tuning
    wanted = tuning.rows or min(ROWS[1], max(ROWS[0], 4 * (lag + warm)))
    steps = ceil((wanted + lag + warm) / unroll) * unroll
    shape = Shape(columns, 1, pad, stored, steps - lag - warm, warm, steps, unroll)
    few, many = WARPS
    # Images in a batch may be narrower than the strips of a block: its other warps would idle.
    is_slim = registers(pipeline, columns, program) < MANY and not pipeline.outer
    warps = tuning.warps or (few if is_slim else many)
    ahead = max(stage.delay for stage in pipeline.stages)
    asked = asked_ahead(pipeline, shape, program, ahead, rules.machine)
    return replace(shape, warps=warps, asked=asked)


def _block_shape(pipeline: Pipeline, cut: Cut, program: PolyProgram, rules: Rules) -> Shape:
    """The shape of a block that streams down planes."""
    lag, warm, unroll = steps_of(pipeline, cut.rows.copies)
    if rules.tuning.rows:
        steps = ceil((rules.tuning.rows + lag + warm) / unroll) * unroll
    else:
        wanted = min(PLANES[1], max(PLANES[0], WARMED * (lag + warm)))
        steps = max(1, (wanted + lag + warm) // unroll) * unroll
    return Shape(
        cut.columns,
        cut.warps,
        cut.pad,
        cut.stored,
        steps - lag - warm,
        warm,
        steps,
        unroll,
        planes_asked(pipeline, cut, program, rules.machine),
        block=cut.rows,
    )


def asked_ahead(
    pipeline: Pipeline, shape: Shape, program: PolyProgram, ahead: int, machine: Machine
) -> int:
    """How many rows before its load a row is asked for, so that a multiprocessor has enough bytes
    under way. Loads alone do not achieve it where few warps fit: ptxas moves them down to about
    300 instructions before their use, however many rows ahead the program has them."""
    loaded = [stage for stage in pipeline.stages if stage.step is None]
    if not loaded:
        return 0
    width = sum(program.arrays[stage.array].dtype.bytes for stage in loaded)
    warps = min(MULTIPROCESSOR.blocks, MULTIPROCESSOR.warps_with(most_registers(pipeline, shape.columns, program)))
    rows = machine.in_flight // (warps * LANES * shape.columns * width) - ahead
    return min(rows, ASKED) if rows > 1 else 0
