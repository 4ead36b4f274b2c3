"""How a pipeline of line buffers is cut on the CPU: columns of a strip, rows of a chunk."""

from __future__ import annotations

from math import prod

from loopfuse.base.machine import NEAR
from loopfuse.base.options import Tuning
from loopfuse.lang.linear import constant_value, tidy
from loopfuse.lang.nodes import integer
from loopfuse.plan.strategies.sliding.windows.cuts import Cut, Shape
from loopfuse.plan.strategies.sliding.windows.passes import find_passes, lines_of
from loopfuse.plan.strategies.sliding.windows.records import Pipeline, Stage, loop_range
from loopfuse.plan.units.groups import whole_name
from loopfuse.poly.model import PolyProgram
from loopfuse.tree.layout import Level, along

STRIPS = (4096, 2048, 1024, 512, 256)
"""Columns of a strip that are tried, widest first."""
IN_LINES = 1.6
"""How many times as long as sweeps over as many bytes line buffers wait for memory: they take a row of each array in
turn, and a value that is kept and needed besides is stored twice. (A pass that reads one array and writes two, 2048 x 2048 floats, two threads of
an EPYC: 2.3 ms, and 1.7 in two sweeps that move a third more.)"""
ROWS = (64, 512)
"""The fewest and the most rows of a chunk."""


def _is_far(pipeline: Pipeline, stage: Stage, program: PolyProgram) -> bool:
    """Is the stage read so many rows beyond the array's last (or first) that this is no longer in
    its lines?"""
    dim = pipeline.stream
    position = stage.frame.position(dim)
    shift, halo = integer(stage.frame.shifts[position]), stage.halos[0]
    first = 0 - shift
    last = program.arrays[stage.array].extents[position] - shift
    for step in pipeline.readers(stage):
        low, high = loop_range(step, dim)
        before = constant_value(tidy(first - low))
        behind = constant_value(tidy(high - last))
        if before is None or behind is None:
            return True
        if max(before + halo.low, behind + halo.high) >= stage.slices:
            return True
    return False


def cut_lines(pipeline: Pipeline, program: PolyProgram, tuning: Tuning) -> Shape | str:
    """The shape of a pipeline on the CPU, or why it has none."""
    kept = lines_of(pipeline, find_passes(pipeline))
    if not any(stage.is_stencil for stage in kept):
        return "it has no stencil"
    for stage in kept:
        for dim in pipeline.dims:
            mode = stage.frame.modes[stage.frame.position(dim)]
            if mode not in ("", "clamp"):
                return f"`{whole_name(stage.array)}` is read with `.{mode}`"
        if stage.frame.modes[stage.frame.position(pipeline.stream)] and _is_far(pipeline, stage, program):
            return f"`{whole_name(stage.array)}` is read far beyond its edge"
    chunk, strip = pipeline.widest
    rows = tuning.rows or min(ROWS[1], max(ROWS[0], 8 * chunk.width))

    def size(stored: int) -> int:
        width = strip.width + stored
        return sum(s.slices * width * program.arrays[s.array].dtype.bytes for s in kept)

    fitting = [stored for stored in STRIPS if size(stored) <= NEAR]
    stored = tuning.columns or (fitting or [STRIPS[-1]])[0]
    if size(stored) > NEAR:
        return "its lines take more than a cache holds"
    if strip.width > stored and not tuning.columns:
        return "its halo is as wide as a strip"
    steps = along((Level.STEP, rows + chunk.low + max(stage.lag for stage in pipeline.stages)))
    line = along((Level.SLOT, strip.width + stored))
    return Shape((Cut(steps, chunk.low, rows), Cut(line, strip.low, stored)))


def redundancy_in_lines(pipeline: Pipeline, shape: Shape) -> float:
    """Points computed for each point stored, about: each stage runs just where it is needed, in half of
    the halo."""
    return prod(
        1 + halo.width / 2 / cut.stored
        for halo, cut in zip(reversed(pipeline.widest), reversed(shape.cuts), strict=True)
    )
