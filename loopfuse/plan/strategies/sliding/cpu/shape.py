"""How a pipeline of line buffers is cut on the CPU: columns of a strip, rows of a chunk."""

from __future__ import annotations

from dataclasses import dataclass

from loopfuse.base.options import Tuning
from loopfuse.lang.linear import constant_value, tidy
from loopfuse.lang.nodes import integer
from loopfuse.plan.strategies.sliding.cpu.passes import find_passes, lines_of
from loopfuse.plan.strategies.sliding.windows.records import Pipeline, Stage, loop_range
from loopfuse.plan.units.groups import whole_name
from loopfuse.poly.model import PolyProgram

STRIPS = (4096, 2048, 1024, 512, 256)
"""Columns of a strip that are tried, widest first."""
CACHE = 256 << 10
"""Bytes that the line buffers of a worker take where some strip allows it: they share L2 with the
rows of memory that pass by."""
MOST = 384 << 10
"""Bytes that they may take at most: they lie on the worker's stack."""
IN_LINES = 1.6
"""How many times as long as sweeps over as many bytes line buffers wait for memory: they take a row of each array in
turn, and a value that is kept and needed besides is stored twice. (A pass that reads one array and writes two, 2048 x 2048 floats, two threads of
an EPYC: 2.3 ms, and 1.7 in two sweeps that move a third more.)"""
ROWS = (64, 512)
"""The fewest and the most rows of a chunk."""


@dataclass(frozen=True, slots=True)
class LineShape:
    """How a pipeline is cut: columns that a strip stores, with `pad` columns before and `after`
    columns behind them that only feed them; rows that a chunk stores, with `warm` before and
    `below` behind; steps of a chunk. `redundancy`: points computed for each
    point stored, about."""

    stored: int
    pad: int
    after: int
    rows: int
    warm: int
    below: int
    steps: int
    redundancy: float

    @property
    def width(self) -> int:
        """Columns of a line."""
        return self.pad + self.stored + self.after


def _is_far(pipeline: Pipeline, stage: Stage, program: PolyProgram) -> bool:
    """Is the stage read so many rows beyond the array's last (or first) that this is no longer in
    its lines?"""
    dim = pipeline.stream
    position = stage.frame.position(dim)
    shift = integer(stage.frame.shifts[position])
    first = 0 - shift
    last = program.arrays[stage.array].extents[position] - shift
    for step in pipeline.readers(stage):
        low, high = loop_range(step, dim)
        above = constant_value(tidy(first - low))
        below = constant_value(tidy(high - last))
        if above is None or below is None:
            return True
        if max(above + stage.up, below + stage.down) >= stage.rows:
            return True
    return False


def lines_for(pipeline: Pipeline, program: PolyProgram, tuning: Tuning) -> LineShape | str:
    """The shape of a pipeline on the CPU, or why it has none."""
    kept = lines_of(pipeline, find_passes(pipeline))
    if not any(stage.is_stencil for stage in kept):
        return "it has no stencil"
    for stage in kept:
        for dim in (pipeline.stream, pipeline.across):
            mode = stage.frame.modes[stage.frame.position(dim)]
            if mode not in ("", "clamp"):
                return f"`{whole_name(stage.array)}` is read with `.{mode}`"
        if stage.frame.modes[stage.frame.position(pipeline.stream)] and _is_far(pipeline, stage, program):
            return f"`{whole_name(stage.array)}` is read far beyond its edge"
    stages = pipeline.stages
    pad, after = max(s.before for s in stages), max(s.after for s in stages)
    warm, below = max(s.above for s in stages), max(s.below for s in stages)
    lag = max(stage.lag for stage in stages)
    rows = tuning.rows or min(ROWS[1], max(ROWS[0], 8 * (warm + below)))

    def size(stored: int) -> int:
        width = pad + stored + after
        return sum(s.rows * width * program.arrays[s.array].dtype.bytes for s in kept)

    fitting = [stored for stored in STRIPS if size(stored) <= CACHE]
    stored = tuning.columns or (fitting or [STRIPS[-1]])[0]
    if size(stored) > MOST:
        return "its lines take more than a cache holds"
    if pad + after > stored and not tuning.columns:
        return "its halo is as wide as a strip"
    wide = 1 + (pad + after) / 2 / stored
    deep = 1 + (warm + below) / 2 / rows
    return LineShape(stored, pad, after, rows, warm, below, rows + warm + lag, wide * deep)


