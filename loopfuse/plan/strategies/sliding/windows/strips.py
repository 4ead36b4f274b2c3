"""How a pipeline along one dimension is cut: the line in strips, one for a warp, a lane holding some
neighbouring columns.

    before:  for t: { for i: b[i] = f(a[i-1..i+1]);  for i: a[i] = b[i] }
    after:   for each strip of 256: load a;  8 times: b, then a, in registers;  store 240 of them

Nothing streams: all stages are computed for the whole strip, one after the other, so that registers
hold what is live between two of them and not a window for each. That leaves room for many columns,
which make the halo and the shuffles, one a stage and side, cheap.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopfuse.base.machine import Machine
from loopfuse.plan.fusion.cost import operations_of
from loopfuse.plan.strategies.sliding.windows.cuts import (
    ALONE,
    Shape,
    cut_strip,
    usual_columns,
    why_no_strip,
)
from loopfuse.plan.strategies.sliding.windows.invariants import invariant_words
from loopfuse.plan.strategies.sliding.windows.records import Pipeline, Stage, later_name
from loopfuse.plan.units.rules import Rules
from loopfuse.poly.model import PolyProgram

WIDER = (1, 2)
"""How many accesses of 16 bytes a lane's columns may make."""
NARROW = 0.04
"""What each doubling of that costs of the bandwidth: neighbouring lanes no longer fill a sector
together."""
SHUFFLE = 4
"""Operations in the time of a shuffle."""
REST = 40
"""Registers for everything but the columns."""
FEW = 128
"""The most registers that a choice of more columns may take; the fewest columns may take MOST."""
MOST = 240
WARPS = 4
"""Warps of a block, which share nothing."""


def cut_strips(pipeline: Pipeline, program: PolyProgram, rules: Rules) -> Shape | str:
    """The way to cut a line that takes least time, or why there is none."""
    tuning = rules.tuning
    best: Shape | None = None
    least = 0.0
    why = "its halo is as wide as a strip"
    usual = usual_columns(pipeline, program)
    for number, wider in enumerate(WIDER):
        columns = tuning.columns or usual * wider
        strip = cut_strip(pipeline, columns)
        if not_so := why_no_strip(pipeline, strip):
            why = not_so
            continue
        registers = strip_registers(pipeline, columns, program)
        if registers > (MOST if best is None else FEW) and not tuning.columns:
            why = "its columns take more registers than a thread has"
            continue
        # Lines of a batch may be shorter than the strips of a block: its other warps would idle.
        shape = Shape((ALONE, strip), tuning.warps or (1 if pipeline.outer else WARPS))
        price = _price(pipeline, shape, program, rules.machine) * (1 + NARROW * number)
        if best is None or price < 0.9 * least:
            best, least = shape, price
        if tuning.columns:
            break
    return why if best is None else best


def _price(pipeline: Pipeline, shape: Shape, program: PolyProgram, machine: Machine) -> float:
    """Seconds for a column stored: its bytes or its operations, whatever takes longer."""
    moved = busy = 0.0
    for stage in pipeline.stages:
        info = program.arrays[stage.array]
        if stage.step is None or (info.is_argument and pipeline.last(stage.array) is stage):
            moved += info.dtype.bytes
        words = max(1, info.dtype.bytes // 4)
        busy += SHUFFLE * words * stage.halos[-1].width / shape.columns
    for step in pipeline.steps:
        busy += sum(operations_of(s, "gpu") for s in step.placed.unit.statements)
    return max(moved / machine.bandwidth, busy * shape.redundancy / machine.operations)


def strip_registers(pipeline: Pipeline, columns: int, program: PolyProgram) -> int:
    """Registers of 32 bits that a thread takes, at most: the columns of the stages that are live
    while one is made, and the rest."""
    order = [None, *pipeline.steps]
    number = {id(step): k for k, step in enumerate(order)}
    spans = [(stage, *_life(pipeline, stage, number)) for stage in pipeline.stages]
    widest = 0
    for k in range(len(order)):
        live = [stage for stage, first, last in spans if first <= k <= last]
        widest = max(widest, _words(live, columns, program))
    return REST + widest + invariant_words(pipeline, program)


def _life(pipeline: Pipeline, stage: Stage, number: dict[int, int]) -> tuple[int, int]:
    """The numbers of the step that makes the stage (0: loads) and of the last that reads it."""
    first = number[id(stage.step)]
    readers = pipeline.readers(stage)
    later = pipeline.stage(later_name(stage.name))
    if later is not None and later.step is not None:  # it holds this one where its loop does not run
        readers.append(later.step)
    return first, max((number[id(step)] for step in readers), default=first)


def _words(stages: Sequence[Stage], columns: int, program: PolyProgram) -> int:
    total = 0
    for stage in stages:
        words = max(1, program.arrays[stage.array].dtype.bytes // 4)
        total += words * (columns + stage.halos[-1].width)
    return total
