"""The records of sliding windows: steps, frames, stages, the pipeline."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import reduce

from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Load
from loopfuse.plan.strategies.sliding.windows.borders import is_border
from loopfuse.plan.strategies.sliding.windows.parts import Parts
from loopfuse.plan.units.align import Placed
from loopfuse.plan.units.groups import Box, Group, Region
from loopfuse.poly.model import PolyProgram


@dataclass(frozen=True, slots=True)
class Step:
    """A unit in one iteration of the time loop: the one `ahead` iterations after the block's
    first (0 without a time loop). `swaps`: the parities of swaps there. `reads` and `writes`: the
    stage of each array that it reads from before it, and that it makes."""

    placed: Placed
    ahead: int = 0
    swaps: tuple[tuple[Expr, int], ...] = ()
    reads: Mapping[str, str] = field(default_factory=dict[str, str])
    writes: Mapping[str, str] = field(default_factory=dict[str, str])

    def array_of(self, load: Load) -> str:
        """The array that the access goes to, behind its swap."""
        if load.swapped is not None and dict(self.swaps)[load.swapped.parity]:
            return load.swapped.array
        return load.array

    def stage_of(self, array: str) -> str:
        """The stage that the step reads of an array: its own, where it writes that first."""
        return self.reads.get(array) or self.writes.get(array, "")


def loop_range(step: Step, dim: str) -> tuple[Expr, Expr]:
    """Where along a group dimension the step's loop runs (exclusive end)."""
    placed = step.placed
    c = placed.coordinate(dim)
    loop = next(loop for loop in placed.unit.common if loop.iterator == c.iterator)
    lower, upper = loop.lower - c.offset, loop.upper - c.offset
    return tidy(lower), tidy(upper)


Tap = tuple[int, ...]
"""How far what a point reads lies from it, by dimension of the windows."""


@dataclass(frozen=True, slots=True)
class Halo:
    """How far something reaches along one dimension, to the `low` and to the `high` side of where it
    stands (negative: all of it lies on the other side)."""

    low: int = 0
    high: int = 0

    @staticmethod
    def of(places: Collection[int]) -> Halo:
        """From the first to the last of the places."""
        return Halo(-min(places), max(places))

    def __bool__(self) -> bool:
        return bool(self.low or self.high)

    def __add__(self, other: Halo) -> Halo:
        return Halo(self.low + other.low, self.high + other.high)

    @property
    def width(self) -> int:
        """How many lie on both sides."""
        return self.low + self.high

    def widened(self, other: Halo) -> Halo:
        """As far as either reaches."""
        return Halo(max(self.low, other.low), max(self.high, other.high))

    def moved(self, by: int) -> Halo:
        """As seen from a place that stands `by` before it."""
        return Halo(self.low - by, self.high + by)


HERE = Halo()
Halos = tuple[Halo, ...]
"""By dimension of the windows."""


@dataclass(frozen=True, slots=True)
class Ages:
    """How many steps old what stands at a point is when what lies beside it along one dimension is
    first looked at, and for how many `steps` from then on."""

    first: int = 0
    steps: int = 0


@dataclass(frozen=True, slots=True)
class Frame:
    """How an array lies in the group: for each of its dimensions, the group dimension and what the
    subscript is ahead of it; the edge modes that reads use along each dimension ("" for none)."""

    array: str
    dims: tuple[str, ...]
    shifts: tuple[int, ...]
    modes: tuple[str, ...]

    def position(self, dim: str) -> int:
        """The array's dimension along the group's."""
        return self.dims.index(dim)

    def shift(self, dim: str) -> int:
        """How far its subscript is ahead along the group's dimension; 0 where there is none."""
        return self.shifts[self.dims.index(dim)] if dim in self.dims else 0

    def mode(self, dim: str) -> str:
        """The edge mode along the group's dimension; "" where there is none."""
        return self.modes[self.dims.index(dim)] if dim in self.dims else ""


@dataclass(frozen=True, slots=True)
class Stage:
    """One array's window, called `name` (the array and how often it was written before). `step`
    computes it; None: it is loaded. What a step makes or loads of it at once is a *slice*: all that
    stands at one place of the first of `dims`, the dimensions of the windows (`Pipeline.dims`).

    `lag`: slices behind the first load. `delay`: steps that pass between a slice's arrival and its
    first use (loads run ahead). `slices`: how many the window keeps. By dimension, `halos`: how far
    from a point it is read; `needed`: how far around what a tile stores it must be right; `ages` of
    what lies beside. `corner`: how far along the last dimension it is read at points beside along
    those between. `folded`: how many slices before its first and behind its last are read as its
    edge mode says (where it is computed). `kept`: how many slices of its own cells a lane keeps from
    one step to the next, `kept_beside` how many cells of its neighbours.
    """

    name: str
    step: Step | None
    frame: Frame
    dims: tuple[str, ...]
    halos: Halos
    lag: int = 0
    delay: int = 0
    slices: int = 1
    needed: Halos = ()
    ages: tuple[Ages, ...] = ()
    corner: Halo = HERE
    folded: Halo = HERE
    kept: int = 0
    kept_beside: int = 0

    @property
    def array(self) -> str:
        """The program's array."""
        return self.frame.array

    def ahead_of(self, other: Stage, dim: str) -> int:
        """How far the same element stands further along the dimension in the other's window."""
        return self.frame.shift(dim) - other.frame.shift(dim)

    @property
    def box(self) -> Box:
        """The elements of the array that the step writes."""
        assert self.step is not None
        ends = [loop_range(self.step, dim) for dim in self.frame.dims]
        return tuple(
            (tidy(low + by), tidy(high + by))
            for (low, high), by in zip(ends, self.frame.shifts, strict=True)
        )

    @property
    def is_border(self) -> bool:
        """Does its step write a border only?"""
        return self.step is not None and is_border(self.step.placed.unit)

    def halo(self, dim: str) -> Halo:
        """How far from a point it is read along the group's dimension."""
        return self.halos[self.dims.index(dim)] if dim in self.dims else HERE

    @property
    def beside(self) -> Halos:
        """By dimension: how many cells a thread keeps beside its own of a slice."""
        return (HERE, *self.halos[1:-1], self.halos[-1].widened(self.corner))

    @property
    def is_stencil(self) -> bool:
        """Is it read beside the point that reads?"""
        return any(self.halos)

    @property
    def is_shared(self) -> bool:
        """Does a warp read what others of its block hold: is it read beside along a dimension between?"""
        return any(self.halos[1:-1])

    @property
    def folds_between(self) -> bool:
        """Is it made, and read beyond an edge along a dimension that warps share?"""
        return self.step is not None and any(self.frame.mode(dim) for dim in self.dims[1:-1])

    @property
    def is_local(self) -> bool:
        """Is it needed only where the tile stores?"""
        return not any(self.halos) and not any(self.needed)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The stages of a window group, producers first, and the steps that make them. `outer`
    dimensions have no stencil; `dims` are those that windows have, in the order of memory: steps walk
    along the first, lanes (or a CPU's vectors) lie along the last, and the warps of a block share those
    between. The first is "" where there are stencils along one dimension alone: every window then is one
    slice, and nothing streams. `lines`: slices lie in line buffers of CPU workers, not in registers.
    `late`: how many steps before a slice is needed it is asked for, where it comes by itself, by way of
    shared memory; 0: loads run ahead of need, and hold registers."""

    group: Group
    steps: tuple[Step, ...]
    outer: tuple[str, ...]
    dims: tuple[str, ...]
    stages: tuple[Stage, ...]
    parts: Parts
    lines: bool = False
    late: int = 0
    regions: Mapping[str, Region] = field(default_factory=dict[str, Region])
    """Of arrays that several loops write: what they write together."""
    passed: frozenset[str] = frozenset()
    """The stages that only wait for the border that the next stage makes."""

    @property
    def stream(self) -> str:
        """The dimension that steps walk along; "" where there is none."""
        return self.dims[0]

    @property
    def across(self) -> str:
        """The dimension whose neighbours are neighbours in memory."""
        return self.dims[-1]

    @property
    def between(self) -> tuple[str, ...]:
        """The dimensions that the warps of a block share; where there are none, warps share nothing."""
        return self.dims[1:-1]

    @property
    def widest(self) -> Halos:
        """By dimension: how far around what a tile stores some stage must be right."""
        return tuple(reduce(Halo.widened, each) for each in zip(*(s.needed for s in self.stages), strict=True))

    @property
    def program(self) -> PolyProgram:
        """The program, with the parts of its arrays as arrays."""
        return self.parts.program

    def stage(self, name: str) -> Stage | None:
        """The stage called `name`, if there is one."""
        return next((stage for stage in self.stages if stage.name == name), None)

    def before(self, stage: Stage) -> Stage | None:
        """The stage that holds the array before this one is made, if there is one."""
        return self.stage(earlier_name(stage.name))

    def readers(self, stage: Stage) -> list[Step]:
        """The steps that read the stage's window."""
        return [step for step in self.steps if stage.name in step.reads.values()]

    def region(self, array: str) -> Region:
        """The elements of the array that the pipeline writes: one box, where its loops make one
        together, else a box of each, borders last."""
        return self.regions.get(array) or self.boxes(array)

    def boxes(self, array: str) -> Region:
        """The elements of the array that each loop writes, borders last."""
        made = [s for s in self.stages if s.step is not None and s.array == array]
        made.sort(key=lambda stage: stage.is_border)
        return tuple(dict.fromkeys(stage.box for stage in made))

    def passes_on(self, stage: Stage) -> bool:
        """Does the stage only wait for the border that the next stage makes, in the same row? Both
        then share a window."""
        return stage.name in self.passed

    def holder(self, stage: Stage) -> Stage:
        """The stage whose window it shares: itself, or the last of those that it is passed on to."""
        while self.passes_on(stage):
            later = self.stage(later_name(stage.name))
            assert later is not None
            stage = later
        return stage

    def made_with(self, stage: Stage) -> Region:
        """The elements that stages write which share this one's window."""
        holder = self.holder(stage)
        made = [s for s in self.stages if s.array == stage.array and self.holder(s) is holder]
        region = tuple(dict.fromkeys(each.box for each in made))
        return self.region(stage.array) if {*region} == {*self.boxes(stage.array)} else region

    def made_before(self, stage: Stage) -> Region:
        """The elements of the stage's array that earlier steps of the same iteration write."""
        boxes: list[Box] = []
        for other in self.stages:
            if other is stage or stage.step is None:
                break
            same = other.array == stage.array and other.step is not None
            if same and other.step is not None and other.step.ahead == stage.step.ahead:
                boxes.append(other.box)
        return tuple(dict.fromkeys(boxes))

    def last(self, array: str) -> Stage | None:
        """The stage that holds the array in the end, if the pipeline writes it."""
        made = [s for s in self.stages if s.step is not None and s.array == array]
        return made[-1] if made else None


def stage_name(array: str, number: int) -> str:
    """What the stage is called that holds the array once it was written `number` times."""
    return f"{array}.{number}"


def array_name(stage: str) -> str:
    """The array that the stage of this name holds."""
    return stage.rpartition(".")[0]


def later_name(stage: str) -> str:
    """The stage that holds the array once it is made again."""
    array, _, number = stage.rpartition(".")
    return stage_name(array, int(number) + 1)


def earlier_name(stage: str) -> str:
    """The stage that holds the array before this one is made."""
    array, _, number = stage.rpartition(".")
    return stage_name(array, int(number) - 1)
