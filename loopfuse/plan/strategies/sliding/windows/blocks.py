"""How a pipeline with stencils along three dimensions is cut: a block of warps owns a tile of rows
and columns and streams down the planes.

A warp holds some rows of the tile, a lane some columns of those. What a thread needs of its own
rows it has in registers, neighbouring columns come by shuffle, and rows of other warps through a
copy of the plane in shared memory, of which only the rows that others read are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from math import ceil, lcm, prod

from loopfuse.base.machine import LANES, MULTIPROCESSOR, Machine
from loopfuse.base.options import Tuning
from loopfuse.lang.nodes import Load
from loopfuse.plan.strategies.sliding.windows.cuts import (
    Cut,
    Shape,
    cut_chunk,
    cut_strip,
    usual_columns,
)
from loopfuse.plan.strategies.sliding.windows.invariants import invariant_words
from loopfuse.plan.strategies.sliding.windows.records import HERE, Halo, Pipeline, Stage, Step
from loopfuse.poly.model import PolyProgram
from loopfuse.tree.layout import Level, along

WARPS = (8, 12, 16)
ROWS = (1, 2, 3, 4, 6, 8)
"""Warps of a block, and rows of a warp, that are tried."""
TOLERANCE, SLACK = 9, 14
"""With how many registers fewer than `block_registers` says ptxas manages as a rule, and at best."""
BESIDE = 4
"""Elements beside such a row (`codegen.mlir.straddled.BESIDE`)."""
FETCHED = 0.5
"""What a row costs that is loaded and not computed, for each that is."""
PLANES_AHEAD = 1
"""Planes that loads run ahead of their first use: a step does the work of many rows."""
PLANES = (48, 256)
"""The fewest and the most planes of a chunk."""
WARMED = 6
"""Planes of a chunk for each that only feeds it, before the first or ahead of the last: with more,
the last round of blocks leaves more of the machine idle (docs/decisions/windows-3d.md)."""
PLANES_ASKED = 2
"""Planes at most that memory is asked for before their loads."""
PLANES_LATE = 2
"""Planes that are under way where they come by themselves, by way of shared memory."""


def cut_block(pipeline: Pipeline, program: PolyProgram, tuning: Tuning) -> Shape | str:
    """The shape that computes least anew and fits registers and shared memory."""
    best: Shape | None = None
    least = 0.0
    why = "its halo is as wide as a tile"
    usual, kept = usual_columns(pipeline, program), invariant_words(pipeline, program)
    for shape in _shapes(pipeline, usual, tuning):
        if any(cut.stored * 2 < cut.size for cut in shape.cuts[1:]):
            continue
        chosen = bool(tuning.columns and tuning.warps and tuning.band)
        registers = block_registers(pipeline, shape, program, kept)
        if not chosen and registers - SLACK > MULTIPROCESSOR.registers_with(shape.warps):
            why = "its windows take more registers than a thread has"
            continue
        shared = shared_bytes(pipeline, shape, program)
        if shared > MULTIPROCESSOR.shared_of_block:
            why = "its planes take more shared memory than a block has"
            continue
        price = _price(pipeline, shape, usual, _blocks_with(shape, registers, shared))
        if best is None or price < 0.98 * least:
            best, least = shape, price
    return why if best is None else best


def _shapes(pipeline: Pipeline, usual: int, tuning: Tuning) -> Iterator[Shape]:
    halo = reduce(Halo.widened, map(_held_around, pipeline.stages))
    chunks = [(copies, *_cut_planes(pipeline, copies, tuning)) for copies in (2, 1)]
    for columns in (tuning.columns,) if tuning.columns else (usual, usual // 2):
        strip = cut_strip(pipeline, columns)
        for warps in (tuning.warps,) if tuning.warps else WARPS:
            for held in (tuning.band,) if tuning.band else ROWS:
                rows = Cut(along((Level.WARP, warps), (Level.SLOT, held)), halo.low, warps * held - halo.width)
                if strip.stored > 0 and rows.stored > 0:
                    for copies, chunk, unroll in chunks:
                        yield Shape((chunk, rows, strip), warps, unroll, copies=copies)


def _cut_planes(pipeline: Pipeline, copies: int, tuning: Tuning) -> tuple[Cut, int]:
    """A chunk of planes, and after how many steps every window's planes are back in their places."""
    rings = lcm(copies, max(1, pipeline.late))
    unroll = ceil(max(stage.slices for stage in pipeline.stages) / rings) * rings
    lag, warm = max(stage.lag for stage in pipeline.stages), pipeline.widest[0].low
    wanted = tuning.rows or min(PLANES[1], max(PLANES[0], WARMED * (lag + warm)))
    return cut_chunk(pipeline, wanted, unroll, bool(tuning.rows)), unroll


def _held_around(stage: Stage) -> Halo:
    """How many rows around those stored some warp must hold of a stage: what is loaded and read beside
    may come to shared memory alone."""
    needed, halo = stage.needed[1], stage.halos[1]
    if stage.step is not None:
        return needed
    return HERE.widened(Halo(needed.low - halo.low, needed.high - halo.high))


def fetched_around(stage: Stage, shape: Shape) -> Halo:
    """How many rows around the tile's are read of a stage that is loaded: no warp holds them."""
    if stage.step is not None:
        return HERE
    rows, needed = shape.cuts[1], stage.needed[1]
    return HERE.widened(Halo(needed.low - rows.pad, needed.high - rows.behind))


def plane_rows(stage: Stage, shape: Shape) -> int:
    """How many of a warp's rows of a plane other warps read."""
    if stage.folds_between:
        return shape.rows  # any row may be the array's last
    return min(stage.halos[1].width, shape.rows)


def plane_extents(stage: Stage, shape: Shape) -> tuple[int, int, int]:
    """Copies, rows and columns of a plane in shared memory: beside the tile's own lie rows and
    columns that nothing fills, so that threads at the tile's edge need no test."""
    height = stage.halos[1].width + shape.warps * plane_rows(stage, shape)
    return shape.copies, height, plane_pad(stage, shape) + shape.strip.size + stage.corner.high


def plane_pad(stage: Stage, shape: Shape) -> int:
    """Columns of such a plane before the tile's own: whole lanes."""
    return ceil(stage.corner.low / shape.columns) * shape.columns


def shared_bytes(pipeline: Pipeline, shape: Shape, program: PolyProgram) -> int:
    """Bytes of shared memory that the planes take, and the rows that are put in order on their way to
    memory."""
    widest = max(program.arrays[stage.array].dtype.bytes for stage in pipeline.stages)
    total = shape.warps * (shape.strip.size + BESIDE) * max(4, widest)
    for stage in pipeline.stages:
        size = program.arrays[stage.array].dtype.bytes
        if stage.is_shared:
            total += prod(plane_extents(stage, shape)) * size
        if stage.step is None and pipeline.late:
            each = ceil(fetched_around(stage, shape).width / shape.warps)
            total += pipeline.late * shape.warps * (shape.rows + each) * shape.strip.size * size
    return total


def block_registers(pipeline: Pipeline, shape: Shape, program: PolyProgram, kept: int) -> int:
    """Registers of 32 bits that a thread needs to spill nothing, at most: its windows, what lies beside
    one plane of one stage, `kept` words that it reads once, and 36 for the rest. ptxas 13.0 does with
    fewer as a rule: it says 94 for heat in two steps (three rows of two columns), 142 in four, 180 for
    a wave equation (two rows of four), and 80, 128 and 168 are enough."""
    held, wide = shape.rows, shape.columns
    own = most = 0
    for stage in pipeline.stages:
        words = max(1, program.arrays[stage.array].dtype.bytes // 4)
        planes = stage.slices if stage.slices > 1 or stage.step is None else 0
        if planes and stage.step is not None and _is_copy(stage.step):
            planes -= 1  # its newest is the other's oldest
        own += words * planes * held * wide
        columns = stage.halos[2].width * held
        rows = stage.halos[1].width * (wide + stage.corner.width)
        most = max(most, words * (columns + rows))
        for cells, ages in zip((rows, columns), stage.ages[1:], strict=True):
            own += words * cells * max(0, ages.steps - 1)
    return 36 + kept + own + most


def _is_copy(step: Step) -> bool:
    """Does the step only copy an array?"""
    return all(isinstance(s.value, Load) for s in step.placed.unit.statements)


def _price(pipeline: Pipeline, shape: Shape, usual: int, blocks: int) -> float:
    """What a point stored costs with so many blocks on a multiprocessor: points computed for it, more where few warps hide each other's
    waiting; what comes from neighbours, a little for narrow accesses and for a second barrier."""
    waiting = 1 + 5 / (shape.warps * blocks)
    columns, rows = (max(stage.halos[k].width for stage in pipeline.stages) for k in (2, 1))
    beside = 1 + 0.06 * (columns / shape.columns + rows / (shape.rows * shape.columns))
    narrow = 1.05 if shape.columns < usual else 1.0
    again = 1.05 if shape.copies == 1 else 1.0
    fetched = max(fetched_around(stage, shape).width for stage in pipeline.stages)
    around = 1 + FETCHED * fetched / shape.cuts[1].stored
    redundancy = prod(cut.redundancy for cut in shape.cuts[1:])
    return redundancy * waiting * beside * narrow * again * around


def planes_asked(pipeline: Pipeline, shape: Shape, program: PolyProgram, machine: Machine) -> int:
    """How many planes before its load a plane is asked for, where a multiprocessor holds one block
    only: its loads alone are too few to keep memory busy. Not for one plane alone, which gains
    nothing and takes registers (a wave equation)."""
    planes = 0 if pipeline.late else _planes_wanted(pipeline, shape, program, machine)
    return min(PLANES_ASKED, planes) if planes > 1 else 0


def should_come_late(
    pipeline: Pipeline, shape: Shape, program: PolyProgram, machine: Machine
) -> bool:
    """Should planes come by themselves, by way of shared memory? Where one block fits a multiprocessor
    and one more plane under way would keep memory busy, but has no registers to wait in."""
    return not pipeline.late and _planes_wanted(pipeline, shape, program, machine) == 1


def _planes_wanted(
    pipeline: Pipeline, shape: Shape, program: PolyProgram, machine: Machine
) -> int:
    """How many planes more than loads run ahead must be under way to keep memory busy, where a
    multiprocessor holds one block."""
    if _blocks(pipeline, shape, program) > 1:
        return 0
    loaded = [stage for stage in pipeline.stages if stage.step is None]
    if not loaded:
        return 0
    width = sum(program.arrays[stage.array].dtype.bytes for stage in loaded)
    points = prod(cut.size for cut in shape.cuts[1:])
    return machine.in_flight // (points * width) - PLANES_AHEAD


def _blocks(pipeline: Pipeline, shape: Shape, program: PolyProgram) -> int:
    """How many blocks a multiprocessor is taken to hold."""
    registers = block_registers(pipeline, shape, program, invariant_words(pipeline, program))
    return _blocks_with(shape, registers, shared_bytes(pipeline, shape, program))


def _blocks_with(shape: Shape, registers: int, shared: int) -> int:
    """The same, where a thread takes so many registers and a block so much shared memory."""
    by_registers = int(MULTIPROCESSOR.registers / (shape.warps * LANES * (registers - TOLERANCE)))
    return max(1, min(by_registers, MULTIPROCESSOR.shared // max(1, shared)))


def register_limit(pipeline: Pipeline, shape: Shape, program: PolyProgram) -> int:
    """The limit of registers that the assembler gets, so that as many blocks fit as the shape was
    chosen for."""
    return MULTIPROCESSOR.registers_with(shape.warps * _blocks(pipeline, shape, program))
