"""How a pipeline of windows is cut: columns of a lane, rows of a chunk; what that costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from loopfuse.base.machine import LANES, MULTIPROCESSOR, Machine
from loopfuse.plan.strategies.sliding.windows.blocks import (
    PLANES_AHEAD,
    PLANES_LATE,
    cut_block,
    planes_asked,
    should_come_late,
)
from loopfuse.plan.strategies.sliding.windows.code_size import MOST as MOST_CODE
from loopfuse.plan.strategies.sliding.windows.code_size import MOST_OF_STEPS, code_of
from loopfuse.plan.strategies.sliding.windows.cuts import (
    Shape,
    cut_chunk,
    cut_strip,
    usual_columns,
    why_no_strip,
)
from loopfuse.plan.strategies.sliding.windows.lines import cut_lines, redundancy_in_lines
from loopfuse.plan.strategies.sliding.windows.records import Stage
from loopfuse.plan.strategies.sliding.windows.regions import is_all
from loopfuse.plan.strategies.sliding.windows.registers import most_registers, registers
from loopfuse.plan.strategies.sliding.windows.strips import cut_strips
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
FEW_REGISTERS = MULTIPROCESSOR.registers_with(12)
"""As many leave a multiprocessor enough warps even where a lane holds more columns than it has to."""


@dataclass(frozen=True, slots=True)
class Windowed:
    """A pipeline and its shape."""

    pipeline: Pipeline
    shape: Shape
    ahead: int | None = None
    """Slices that loads run ahead; None: as many as they usually do."""

    @property
    def group(self) -> Group:
        """The units as a group of kind `window`."""
        return self.pipeline.group

    @property
    def redundancy(self) -> float:
        """Points computed for each point stored, about."""
        if self.pipeline.lines:
            return redundancy_in_lines(self.pipeline, self.shape)
        return self.shape.redundancy


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
    why = _why_no_block(pipeline) if pipeline.between else ""
    if why:
        return why
    if not any(stage.is_stencil for stage in pipeline.stages):
        return "it has no stencil"
    shape = shape_of(pipeline, pipeline.program, rules)
    most = MOST_CODE if time is None or time.steps == 1 else MOST_OF_STEPS
    if not isinstance(shape, str) and _code(pipeline, shape) > most:
        return "its code would be too long, written out for each of its windows' rows and columns"
    if pipeline.between and (late := _fit_late(pipeline, shape, rules)) is not None:
        return late
    if isinstance(shape, str):
        return shape
    done = pipeline.between or not pipeline.stream
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
    return code_of(pipeline, shape.columns, shape.unroll * shape.rows)


def _fit_late(pipeline: Pipeline, shape: Shape | str, rules: Rules) -> Windowed | None:
    """The pipeline with planes that come late, where that is better, or asked for. Not in the second
    launch of a pair of time blocks: it writes arrays whose planes would still be on their way."""
    time, tuning = pipeline.group.time, rules.tuning
    if time is not None and time.back:
        return None
    if tuning.late == 0 or isinstance(shape, str):
        return None
    if not tuning.late and not should_come_late(pipeline, shape, pipeline.program, rules.machine):
        return None
    later = come_late(pipeline, tuning.late or PLANES_LATE)
    if later is None:
        return None
    found = shape_of(later, later.program, rules)
    return None if isinstance(found, str) else Windowed(later, found)


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
    shape = cut_lines(pipeline, pipeline.program, rules.tuning)
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
    if pipeline.between:
        shape = cut_block(pipeline, program, tuning)
        if isinstance(shape, str):
            return shape
        return replace(shape, asked=planes_asked(pipeline, shape, program, rules.machine))
    if not pipeline.stream:
        return cut_strips(pipeline, program, rules)
    if tuning.columns:
        return _shape(pipeline, tuning.columns, program, rules)
    columns = usual_columns(pipeline, program)
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
    strip, tuning = cut_strip(pipeline, columns), rules.tuning
    if why := why_no_strip(pipeline, strip):
        return why
    lag, warm = max(stage.lag for stage in pipeline.stages), pipeline.widest[0].low
    unroll = max(stage.slices for stage in pipeline.stages)
    wanted = tuning.rows or min(ROWS[1], max(ROWS[0], 4 * (lag + warm)))
    few, many = WARPS
    # Images in a batch may be narrower than the strips of a block: its other warps would idle.
    is_slim = registers(pipeline, columns, program) < MANY and not pipeline.outer
    warps = tuning.warps or (few if is_slim else many)
    asked = asked_ahead(pipeline, columns, program, rules.machine)
    return Shape((cut_chunk(pipeline, wanted, unroll), strip), warps, unroll, asked)


def asked_ahead(
    pipeline: Pipeline, columns: int, program: PolyProgram, machine: Machine
) -> int:
    """How many rows before its load a row is asked for, with `columns` a lane, so that a multiprocessor has enough bytes
    under way. Loads alone do not achieve it where few warps fit: ptxas moves them down to about
    300 instructions before their use, however many rows ahead the program has them."""
    loaded = [stage for stage in pipeline.stages if stage.step is None]
    if not loaded:
        return 0
    width = sum(program.arrays[stage.array].dtype.bytes for stage in loaded)
    ahead = max(stage.delay for stage in pipeline.stages)
    warps = min(MULTIPROCESSOR.blocks, MULTIPROCESSOR.warps_with(most_registers(pipeline, columns, program)))
    rows = machine.in_flight // (warps * LANES * columns * width) - ahead
    return min(rows, ASKED) if rows > 1 else 0
