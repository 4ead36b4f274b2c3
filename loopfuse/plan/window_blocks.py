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

from loopfuse.base.options import Tuning
from loopfuse.base.register_steps import registers_with
from loopfuse.lang.nodes import Load
from loopfuse.plan.window_kept import kept_words
from loopfuse.plan.window_records import Pipeline, Stage, Step
from loopfuse.poly.model import PolyProgram

LANES = 32
WARPS = (8, 12, 16)
ROWS = (1, 2, 3, 4, 6, 8)
"""Warps of a block, and rows of a warp, that are tried."""
REGISTER_FILE = 65_536
OVERWRITTEN = 8
"""Registers for the tests of each element that a tile at an edge loads of what it overwrites."""
TAKEN = 0.85
"""How much of what `block_registers` says threads take where they have as few as they can do with
(ptxas 13.0 for the wave equation)."""
FETCHED = 0.5
"""What a row costs that is loaded and not computed, for each that is."""
SHARED = 48 * 1024
"""Bytes that a block may declare."""
PLANES_AHEAD = 1
"""Planes that loads run ahead of their first use: a step does the work of many rows."""
PLANES = (64, 256)
"""The fewest and the most steps of a chunk."""


@dataclass(frozen=True, slots=True)
class BlockRows:
    """The rows of a block's tile: `held` by each warp; the tile's rows that are stored, after
    `pad` rows that are computed and only feed them; `copies`: planes that shared memory keeps of a stage (with two,
    one is filled while the other is read)."""

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
    usual, fixed = _usual_columns(pipeline, program), fixed_registers(pipeline, program)
    for cut in _cuts(pipeline, usual, tuning):
        if cut.stored * 2 < LANES * cut.columns or cut.rows.stored * 2 < cut.warps * cut.rows.held:
            continue
        chosen = bool(tuning.columns and tuning.warps and tuning.band)
        registers = fixed + block_registers(pipeline, cut, program)
        if not chosen and TAKEN * registers > registers_with(cut.warps):
            why = "its windows take more registers than a thread has"
            continue
        if shared_bytes(pipeline, cut, program) > SHARED:
            why = "its planes take more shared memory than a block has"
            continue
        price = _price(pipeline, cut, program, usual)
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
    """Bytes of shared memory that the planes take."""
    total = 0
    for stage in pipeline.stages:
        if stage.band.is_read_beside:
            copies, height, width = plane_extents(stage, cut.columns, cut.warps, cut.rows)
            total += copies * height * width * program.arrays[stage.array].dtype.bytes
    return total


def fixed_registers(pipeline: Pipeline, program: PolyProgram) -> int:
    """Registers of 32 bits that a thread takes however the planes are cut: what it keeps, the tests
    of what the tile overwrites, and 40 for the rest."""
    overwritten = sum(
        stage.step is None and pipeline.group.time is None and pipeline.last(stage.array) is not None
        for stage in pipeline.stages
    )
    return 40 + OVERWRITTEN * overwritten + kept_words(pipeline, program)


def block_registers(pipeline: Pipeline, cut: Cut, program: PolyProgram) -> int:
    """Registers of 32 bits that the windows take, beside those. What lies beside a plane comes as
    it is used; what only the point itself uses is gone with it."""
    total = 0
    for stage in pipeline.stages:
        words = max(1, program.arrays[stage.array].dtype.bytes // 4)
        planes = stage.rows if stage.rows > 1 or stage.step is None else 0
        total += words * planes * cut.rows.held * cut.columns
        band = stage.band
        if band.columns_kept:
            beside = (stage.left + stage.right) * cut.rows.held
            total += words * beside * band.columns_kept
        fetched = ceil(sum(cut.rows.fetched(stage, cut.warps)) / cut.warps)
        total += words * fetched * cut.columns
        if band.rows_kept:
            beside = (band.north + band.south) * (band.left + cut.columns + band.right)
            total += words * beside * band.rows_kept
    return total


def least_registers(pipeline: Pipeline, cut: Cut, program: PolyProgram) -> int:
    """Registers that a thread can do with: its windows, what lies beside one plane of one stage, and
    27 for the rest (heat in two steps, three rows of two columns: 85, which ptxas does with 80)."""
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
    return 27 + kept_words(pipeline, program) + own + beside


def _is_copy(step: Step) -> bool:
    """Does the step only copy an array?"""
    return all(isinstance(s.value, Load) for s in step.placed.unit.statements)


def _price(pipeline: Pipeline, cut: Cut, program: PolyProgram, usual: int) -> float:
    """What a point stored costs: points computed for it, more where few warps hide each other's
    waiting; what comes from neighbours, a little for narrow accesses and for a second barrier."""
    waiting = 1 + 5 / (cut.warps * _blocks(cut, least_registers(pipeline, cut, program)))
    aside = max(stage.left + stage.right for stage in pipeline.stages) / cut.columns
    rows = max(stage.band.north + stage.band.south for stage in pipeline.stages)
    beside = 1 + 0.06 * (aside + rows / (cut.rows.held * cut.columns))
    narrow = 1.05 if cut.columns < usual else 1.0
    again = 1.05 if cut.rows.copies == 1 else 1.0
    fetched = max(sum(cut.rows.fetched(stage, cut.warps)) for stage in pipeline.stages)
    around = 1 + FETCHED * fetched / cut.rows.stored
    return cut.redundancy * waiting * beside * narrow * again * around


def _blocks(cut: Cut, registers: int) -> int:
    """How many blocks a multiprocessor is taken to hold, whose threads can do with so many registers."""
    return max(1, int(REGISTER_FILE / (cut.warps * LANES * registers)))


def register_limit(pipeline: Pipeline, cut: Cut, program: PolyProgram) -> int:
    """The limit of registers that the assembler gets, so that as many blocks fit as the cut was
    chosen for."""
    return registers_with(cut.warps * _blocks(cut, least_registers(pipeline, cut, program)))


def steps_of(pipeline: Pipeline, copies: int) -> tuple[int, int, int]:
    """(the last stage's lag, planes before the first that is stored, steps after which every
    window's planes are back in their places)."""
    lag = max(stage.lag for stage in pipeline.stages)
    warm = max(stage.above for stage in pipeline.stages)
    return lag, warm, lcm(max(stage.rows for stage in pipeline.stages), copies)
