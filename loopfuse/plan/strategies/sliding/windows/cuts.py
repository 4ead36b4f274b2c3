"""How a pipeline is cut into tiles, dimension by dimension: who holds a tile's points, and which of them
it stores.

    unsharp, y in steps, x in lanes:  y: 64 steps, 60 stored after 2    x: 32 lanes of 4, 120 stored after 4
    heat, y in warps:                 y: 12 warps of 3, 30 stored after 3

The halo of a tile is what it computes and does not store: other tiles compute it too.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from loopfuse.base.machine import LANES
from loopfuse.plan.strategies.sliding.windows.records import Pipeline
from loopfuse.poly.model import PolyProgram
from loopfuse.tree.layout import Layout, Level, along


@dataclass(frozen=True, slots=True)
class Cut:
    """How one dimension is cut: the layout of a tile's points; how many of them
    are `stored`, after `pad` that only feed them."""

    layout: Layout
    pad: int
    stored: int

    @property
    def size(self) -> int:
        """Points of the tile."""
        return self.layout.extent(0)

    @property
    def behind(self) -> int:
        """Points behind the last that is stored."""
        return self.size - self.pad - self.stored

    @property
    def redundancy(self) -> float:
        """Points computed for each that is stored."""
        return self.size / self.stored

    def by(self, level: Level) -> int:
        """How many of the level hold the points (1: they are not divided so)."""
        return self.layout.count(level)


@dataclass(frozen=True, slots=True)
class Shape:
    """How a pipeline is cut, along each of its `dims`; warps of a block (which share a tile, or have one
    each beside the others along the last dimension; 0 on a CPU); how many steps bring every window's
    slices back to their places; how many slices before its load one is asked for; `copies`: slices that
    shared memory keeps of a stage (with two, one is filled while the other is read)."""

    cuts: tuple[Cut, ...]
    warps: int = 0
    unroll: int = 1
    asked: int = 0
    copies: int = 1

    @property
    def chunk(self) -> Cut:
        """Along the dimension of the steps."""
        return self.cuts[0]

    @property
    def strip(self) -> Cut:
        """Along the last dimension."""
        return self.cuts[-1]

    @property
    def columns(self) -> int:
        """Neighbours in memory that a lane holds."""
        return self.strip.by(Level.SLOT)

    @property
    def rows(self) -> int:
        """Rows of such columns that a thread holds of a slice."""
        return prod(cut.by(Level.SLOT) for cut in self.cuts[1:-1])

    @property
    def redundancy(self) -> float:
        """Points computed for each point stored."""
        return prod(cut.redundancy for cut in self.cuts)


ALONE = Cut(along((Level.STEP, 1)), 0, 1)
"""Where nothing streams: one slice."""


def cut_chunk(pipeline: Pipeline, wanted: int, unroll: int, is_least: bool = True) -> Cut:
    """As many steps as bring the windows round together and store the slices `wanted`: no fewer, or no
    more."""
    lag = max(stage.lag for stage in pipeline.stages)
    warm = pipeline.widest[0].low
    rounds = (wanted + lag + warm) / unroll
    steps = (ceil(rounds) if is_least else max(1, int(rounds))) * unroll
    return Cut(along((Level.STEP, steps)), warm, steps - lag - warm)


def cut_strip(pipeline: Pipeline, columns: int) -> Cut:
    """A strip of a warp, each of its lanes with so many columns: what lies before those stored is whole
    lanes, so that vectors stay vectors."""
    halo = pipeline.widest[-1]
    pad = ceil(halo.low / columns) * columns
    stored = (LANES * columns - pad - halo.high) // columns * columns
    return Cut(along((Level.LANE, LANES), (Level.SLOT, columns)), pad, stored)


def why_no_strip(pipeline: Pipeline, cut: Cut) -> str:
    """Why warps that share nothing cannot have such strips; empty where they may."""
    if cut.stored * 2 < cut.size:
        return "its halo is as wide as a strip"
    halos = [stage.halos[-1] for stage in pipeline.stages]
    if max(max(halo.low, halo.high) for halo in halos) * 2 > cut.size:
        return "it reads columns too far apart"
    return ""


def usual_columns(pipeline: Pipeline, program: PolyProgram) -> int:
    """Columns of a lane that make accesses of 16 bytes (or 32, of the widest of several types)."""
    sizes = [program.arrays[stage.array].dtype.bytes for stage in pipeline.stages]
    return 2 if min(sizes) == 8 else 4 if max(sizes) >= 4 else 8
