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
from dataclasses import dataclass
from math import ceil

from loopfuse.base.machine import LANES, Machine
from loopfuse.base.options import Tuning
from loopfuse.plan.fusion.cost import operations_of
from loopfuse.plan.strategies.sliding.windows.kept import kept_words
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


@dataclass(frozen=True, slots=True)
class LineCut:
    """Columns of a lane, warps of a block, the strip's columns that are stored and those before."""

    columns: int
    warps: int
    pad: int
    stored: int

    @property
    def redundancy(self) -> float:
        """Points computed for each point stored."""
        return LANES * self.columns / self.stored


def cut_line(pipeline: Pipeline, program: PolyProgram, rules: Rules) -> LineCut | str:
    """The way to cut a line that takes least time, or why there is none."""
    tuning = rules.tuning
    best: LineCut | None = None
    least = 0.0
    why = "its halo is as wide as a strip"
    usual = _usual_columns(pipeline, program)
    for number, wider in enumerate(WIDER):
        columns = tuning.columns or usual * wider
        cut = _cut(pipeline, columns, tuning)
        if isinstance(cut, str):
            why = cut
            continue
        registers = line_registers(pipeline, columns, program)
        if registers > (MOST if best is None else FEW) and not tuning.columns:
            why = "its columns take more registers than a thread has"
            continue
        price = _price(pipeline, cut, program, rules.machine) * (1 + NARROW * number)
        if best is None or price < 0.9 * least:
            best, least = cut, price
        if tuning.columns:
            break
    return why if best is None else best


def _cut(pipeline: Pipeline, columns: int, tuning: Tuning) -> LineCut | str:
    """The cut with that many columns a lane, or why there is none."""
    before = max(stage.before for stage in pipeline.stages)
    after = max(stage.after for stage in pipeline.stages)
    pad = ceil(before / columns) * columns
    stored = (LANES * columns - pad - after) // columns * columns
    if stored < LANES * columns // 2:
        return "its halo is as wide as a strip"
    if max(max(stage.left, stage.right) for stage in pipeline.stages) > columns * LANES // 2:
        return "it reads columns too far apart"
    # Lines of a batch may be shorter than the strips of a block: its other warps would idle.
    return LineCut(columns, tuning.warps or (1 if pipeline.outer else WARPS), pad, stored)


def _usual_columns(pipeline: Pipeline, program: PolyProgram) -> int:
    """Columns of a lane that make accesses of 16 bytes (or 32, of the widest of several types)."""
    sizes = [program.arrays[stage.array].dtype.bytes for stage in pipeline.stages]
    return 2 if min(sizes) == 8 else 4 if max(sizes) >= 4 else 8


def _price(pipeline: Pipeline, cut: LineCut, program: PolyProgram, machine: Machine) -> float:
    """Seconds for a column stored: its bytes or its operations, whatever takes longer."""
    moved = busy = 0.0
    for stage in pipeline.stages:
        info = program.arrays[stage.array]
        if stage.step is None or (info.is_argument and pipeline.last(stage.array) is stage):
            moved += info.dtype.bytes
        words = max(1, info.dtype.bytes // 4)
        busy += SHUFFLE * words * (stage.left + stage.right) / cut.columns
    for step in pipeline.steps:
        busy += sum(operations_of(s, "gpu") for s in step.placed.unit.statements)
    return max(moved / machine.bandwidth, busy * cut.redundancy / machine.operations)


def line_registers(pipeline: Pipeline, columns: int, program: PolyProgram) -> int:
    """Registers of 32 bits that a thread takes, at most: the columns of the stages that are live
    while one is made, and the rest."""
    order = [None, *pipeline.steps]
    number = {id(step): k for k, step in enumerate(order)}
    spans = [(stage, *_life(pipeline, stage, number)) for stage in pipeline.stages]
    widest = 0
    for k in range(len(order)):
        live = [stage for stage, first, last in spans if first <= k <= last]
        widest = max(widest, _words(live, columns, program))
    return REST + widest + kept_words(pipeline, program)


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
        total += words * (columns + stage.left + stage.right)
    return total
