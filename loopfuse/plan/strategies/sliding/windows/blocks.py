"""How a pipeline with stencils along three dimensions is cut: a block of warps owns a tile of rows
and columns and streams down the planes.

A warp holds some rows of the tile, a lane some columns of those. What a thread needs of its own
rows it has in registers, neighbouring columns come by shuffle, and rows of other warps through a
copy of the plane in shared memory, of which only the rows that others read are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, lcm

from loopfuse.base.machine import LANES, MULTIPROCESSOR, Machine
from loopfuse.base.options import Tuning
from loopfuse.lang.nodes import Load
from loopfuse.plan.strategies.sliding.windows.kept import kept_words
from loopfuse.plan.strategies.sliding.windows.records import Pipeline, Stage, Step
from loopfuse.poly.model import PolyProgram

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


@dataclass(frozen=True, slots=True)
class BlockRows:
    """The rows of a block's tile: `held` by each warp; the tile's rows that are stored, after
    `pad` rows that are computed and only feed them; `copies`: planes that shared memory keeps of
    a stage (with two, one is filled while the other is read)."""

    held: int
    pad: int
    stored: int
    copies: int

    def fetched(self, stage: Stage, warps: int) -> tuple[int, int]:
        """How many rows above the tile's first and below its last are read of a stage that is
        loaded: no warp holds them."""
        if stage.step is not None:
            return 0, 0
        behind = warps * self.held - self.pad - self.stored
        return max(0, stage.band.before - self.pad), max(0, stage.band.after - behind)


@dataclass(frozen=True, slots=True)
class Cut:
    """A way to cut: columns of a lane and warps of a block, and the rest as `Shape` has it."""

    columns: int
    warps: int
    pad: int
    stored: int
    rows: BlockRows

    @property
    def redundancy(self) -> float:
        """Points computed for each point stored in a plane."""
        return LANES * self.columns / self.stored * self.warps * self.rows.held / self.rows.stored


def cut_block(pipeline: Pipeline, program: PolyProgram, tuning: Tuning) -> Cut | str:
    """The way to cut the planes that computes least anew and fits registers and shared memory."""
    best: Cut | None = None
    least = 0.0
    why = "its halo is as wide as a tile"
    usual, kept = _usual_columns(pipeline, program), kept_words(pipeline, program)
    for cut in _cuts(pipeline, usual, tuning):
        if cut.stored * 2 < LANES * cut.columns or cut.rows.stored * 2 < cut.warps * cut.rows.held:
            continue
        chosen = bool(tuning.columns and tuning.warps and tuning.band)
        registers = block_registers(pipeline, cut, program, kept) - SLACK
        if not chosen and registers > MULTIPROCESSOR.registers_with(cut.warps):
            why = "its windows take more registers than a thread has"
            continue
        if shared_bytes(pipeline, cut, program) > MULTIPROCESSOR.shared_of_block:
            why = "its planes take more shared memory than a block has"
            continue
        price = _price(pipeline, cut, program, usual, kept)
        if best is None or price < 0.98 * least:
            best, least = cut, price
    return why if best is None else best


def _usual_columns(pipeline: Pipeline, program: PolyProgram) -> int:
    """Columns of a lane that make accesses of 16 bytes (or 32, of the widest of several types)."""
    sizes = [program.arrays[stage.array].dtype.bytes for stage in pipeline.stages]
    return 2 if min(sizes) == 8 else 4 if max(sizes) >= 4 else 8


def _cuts(pipeline: Pipeline, usual: int, tuning: Tuning) -> Iterator[Cut]:
    before = max(stage.before for stage in pipeline.stages)
    after = max(stage.after for stage in pipeline.stages)
    ends = [_held_around(stage) for stage in pipeline.stages]
    north, south = max(above for above, _ in ends), max(below for _, below in ends)
    for columns in (tuning.columns,) if tuning.columns else (usual, usual // 2):
        pad = ceil(before / columns) * columns
        stored = (LANES * columns - pad - after) // columns * columns
        for warps in (tuning.warps,) if tuning.warps else WARPS:
            for held in (tuning.band,) if tuning.band else ROWS:
                for copies in (2, 1):
                    rows = BlockRows(held, north, warps * held - north - south, copies)
                    if stored > 0 and rows.stored > 0:
                        yield Cut(columns, warps, pad, stored, rows)


def _held_around(stage: Stage) -> tuple[int, int]:
    """How many rows above and below those stored some warp must hold of a stage: what is loaded and
    read beside may come to shared memory alone."""
    band = stage.band
    if stage.step is not None:
        return band.before, band.after
    return max(0, band.before - band.north), max(0, band.after - band.south)


def plane_rows(stage: Stage, rows: BlockRows) -> int:
    """How many of a warp's rows of a plane other warps read."""
    if stage.mirrors_rows:
        return rows.held  # any row may be the array's last
    return min(stage.band.north + stage.band.south, rows.held)


def plane_extents(stage: Stage, columns: int, warps: int, rows: BlockRows) -> tuple[int, int, int]:
    """Copies, rows and columns of a plane in shared memory: beside the tile's own lie rows and
    columns that nothing fills, so that threads at the tile's edge need no test."""
    band = stage.band
    west = ceil(band.left / columns) * columns
    height = band.north + warps * plane_rows(stage, rows) + band.south
    return rows.copies, height, west + LANES * columns + band.right


def shared_bytes(pipeline: Pipeline, cut: Cut, program: PolyProgram) -> int:
    """Bytes of shared memory that the planes take, and the rows that are put in order on their way to
    memory."""
    widest = max(program.arrays[stage.array].dtype.bytes for stage in pipeline.stages)
    total = cut.warps * (LANES * cut.columns + BESIDE) * max(4, widest)
    for stage in pipeline.stages:
        if stage.band.is_read_beside:
            copies, height, width = plane_extents(stage, cut.columns, cut.warps, cut.rows)
            total += copies * height * width * program.arrays[stage.array].dtype.bytes
        if stage.step is None:
            each = ceil(sum(cut.rows.fetched(stage, cut.warps)) / cut.warps)
            lines = pipeline.late * cut.warps * (cut.rows.held + each)
            total += lines * LANES * cut.columns * program.arrays[stage.array].dtype.bytes
    return total


def block_registers(pipeline: Pipeline, cut: Cut, program: PolyProgram, kept: int) -> int:
    """Registers of 32 bits that a thread needs to spill nothing, at most: its windows, what lies beside
    one plane of one stage, `kept` words that it reads once, and 36 for the rest. ptxas 13.0 does with
    fewer as a rule: it says 94 for heat in two steps (three rows of two columns), 142 in four, 180 for
    a wave equation (two rows of four), and 80, 128 and 168 are enough."""
    own = beside = 0
    for stage in pipeline.stages:
        words = max(1, program.arrays[stage.array].dtype.bytes // 4)
        planes = stage.rows if stage.rows > 1 or stage.step is None else 0
        if planes and stage.step is not None and _is_copy(stage.step):
            planes -= 1  # its newest is the other's oldest
        own += words * planes * cut.rows.held * cut.columns
        band = stage.band
        columns = (stage.left + stage.right) * cut.rows.held
        rows = (band.north + band.south) * (band.left + cut.columns + band.right)
        beside = max(beside, words * (columns + rows))
        own += words * columns * max(0, band.columns_kept - 1)
        own += words * rows * max(0, band.rows_kept - 1)
    return 36 + kept + own + beside


def _is_copy(step: Step) -> bool:
    """Does the step only copy an array?"""
    return all(isinstance(s.value, Load) for s in step.placed.unit.statements)


def _price(pipeline: Pipeline, cut: Cut, program: PolyProgram, usual: int, kept: int) -> float:
    """What a point stored costs: points computed for it, more where few warps hide each other's
    waiting; what comes from neighbours, a little for narrow accesses and for a second barrier."""
    waiting = 1 + 5 / (cut.warps * _blocks(pipeline, cut, program, kept))
    aside = max(stage.left + stage.right for stage in pipeline.stages) / cut.columns
    rows = max(stage.band.north + stage.band.south for stage in pipeline.stages)
    beside = 1 + 0.06 * (aside + rows / (cut.rows.held * cut.columns))
    narrow = 1.05 if cut.columns < usual else 1.0
    again = 1.05 if cut.rows.copies == 1 else 1.0
    fetched = max(sum(cut.rows.fetched(stage, cut.warps)) for stage in pipeline.stages)
    around = 1 + FETCHED * fetched / cut.rows.stored
    return cut.redundancy * waiting * beside * narrow * again * around


def planes_asked(pipeline: Pipeline, cut: Cut, program: PolyProgram, machine: Machine) -> int:
    """How many planes before its load a plane is asked for, where a multiprocessor holds one block
    only: its loads alone are too few to keep memory busy. Not for one plane alone, which gains
    nothing and takes registers (a wave equation)."""
    planes = 0 if pipeline.late else _planes_wanted(pipeline, cut, program, machine)
    return min(PLANES_ASKED, planes) if planes > 1 else 0


def should_come_late(
    pipeline: Pipeline, cut: Cut, program: PolyProgram, machine: Machine
) -> bool:
    """Should planes come by themselves, by way of shared memory? Where one block fits a multiprocessor
    and one more plane under way would keep memory busy, but has no registers to wait in."""
    return not pipeline.late and _planes_wanted(pipeline, cut, program, machine) == 1


def _planes_wanted(
    pipeline: Pipeline, cut: Cut, program: PolyProgram, machine: Machine
) -> int:
    """How many planes more than loads run ahead must be under way to keep memory busy, where a
    multiprocessor holds one block."""
    if _blocks(pipeline, cut, program, kept_words(pipeline, program)) > 1:
        return 0
    loaded = [stage for stage in pipeline.stages if stage.step is None]
    if not loaded:
        return 0
    width = sum(program.arrays[stage.array].dtype.bytes for stage in loaded)
    points = cut.warps * LANES * cut.rows.held * cut.columns
    return machine.in_flight // (points * width) - PLANES_AHEAD


def _blocks(pipeline: Pipeline, cut: Cut, program: PolyProgram, kept: int) -> int:
    """How many blocks a multiprocessor is taken to hold."""
    registers = block_registers(pipeline, cut, program, kept) - TOLERANCE
    by_registers = int(MULTIPROCESSOR.registers / (cut.warps * LANES * registers))
    return max(1, min(by_registers, MULTIPROCESSOR.shared // max(1, shared_bytes(pipeline, cut, program))))


def register_limit(pipeline: Pipeline, cut: Cut, program: PolyProgram) -> int:
    """The limit of registers that the assembler gets, so that as many blocks fit as the cut was
    chosen for."""
    kept = kept_words(pipeline, program)
    return MULTIPROCESSOR.registers_with(cut.warps * _blocks(pipeline, cut, program, kept))


def steps_of(pipeline: Pipeline, copies: int) -> tuple[int, int, int]:
    """(the last stage's lag, planes before the first that is stored, steps after which every
    window's planes are back in their places)."""
    lag = max(stage.lag for stage in pipeline.stages)
    warm = max(stage.above for stage in pipeline.stages)
    rows = max(stage.rows for stage in pipeline.stages)
    rings = lcm(copies, max(1, pipeline.late))
    return lag, warm, ceil(rows / rings) * rings
