"""The records of sliding windows: steps, frames, stages, the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Load
from loopfuse.plan.strategies.sliding.windows.borders import is_border
from loopfuse.plan.strategies.sliding.windows.planes import Planes
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


@dataclass(frozen=True, slots=True)
class Tap:
    """Rows and columns between a point and what it reads there; in three dimensions `row` counts
    planes, and `beside` the rows within one."""

    row: int
    column: int
    beside: int = 0


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
class Band:
    """The rows of a plane, of a stage in three dimensions: `north` and `south` are how many rows
    of its neighbours a thread keeps beside its own, `left` and `right` how many columns of those;
    `before` and `after`: how many rows around what a tile stores must be right. `columns_age` and
    `rows_age`: how many steps old a plane is when its neighbouring columns, or rows, are first
    looked at; `columns_kept` and `rows_kept`: for how many steps from then on. `dim` is the group dimension that the rows lie along."""

    north: int = 0
    south: int = 0
    left: int = 0
    right: int = 0
    before: int = 0
    after: int = 0
    columns_age: int = 0
    rows_age: int = 0
    columns_kept: int = 0
    rows_kept: int = 0
    dim: str = ""

    @property
    def is_read_beside(self) -> bool:
        """Does someone read other rows of the plane?"""
        return bool(self.north or self.south)


@dataclass(frozen=True, slots=True)
class Stage:
    """One array's window, called `name` (the array and how often it was written before). `step`
    computes its rows; None: they are loaded.

    `lag`: rows behind the first load. `delay`: rows that pass between a row's arrival and its
    first use (loads run ahead). `rows`: how many the window keeps. `up` and `down`: how far
    above and below a row it is read. `left` and `right`: columns of its neighbours that a lane
    keeps beside its own. `above`, `below`, `before` and `after`: how many rows above and below,
    columns before and columns behind what a strip stores must be right. `kept`: how many rows of
    its own columns a lane keeps from one step to the next, `kept_beside` how many cells of its
    neighbours' columns. `first` and `last`: how many rows beyond its first and last are read as its
    edge mode says (where it is computed). In three dimensions all that is said of rows is said of
    planes, and `band` has the same of the rows within a plane.
    """

    name: str
    step: Step | None
    frame: Frame
    lag: int = 0
    delay: int = 0
    rows: int = 1
    up: int = 0
    down: int = 0
    left: int = 0
    right: int = 0
    above: int = 0
    below: int = 0
    before: int = 0
    after: int = 0
    band: Band = field(default_factory=lambda: Band())
    kept: int = 0
    kept_beside: int = 0
    first: int = 0
    last: int = 0

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

    @property
    def is_stencil(self) -> bool:
        """Is it read beside the point that reads?"""
        return bool(self.up or self.down or self.left or self.right or self.band.is_read_beside)

    @property
    def mirrors_rows(self) -> bool:
        """Is it made, and read beyond the first or last row of a plane?"""
        if self.step is None or not self.band.dim:
            return False
        return self.frame.modes[self.frame.position(self.band.dim)] != ""

    @property
    def is_local(self) -> bool:
        """Is it needed only where the strip stores?"""
        around = (self.above, self.before, self.after, self.band.before, self.band.after)
        return not self.is_stencil and not any(around)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The stages of a window group, producers first, and the steps that make them. `outer`
    dimensions have no stencil. `abreast`: where there are stencils along three dimensions, the
    middle one, whose rows the warps of a block hold beside each other ("" where there are two).
    `lines`: rows lie in line buffers of CPU workers, not in registers. `stream` is "" where there
    are stencils along one dimension alone: every window then is one row, and nothing streams.
    `late`: how many steps before a plane is needed it is asked for, where it comes by itself, by way of
    shared memory; 0: loads run ahead of need, and hold registers."""

    group: Group
    steps: tuple[Step, ...]
    outer: tuple[str, ...]
    stream: str
    across: str
    stages: tuple[Stage, ...]
    planes: Planes
    abreast: str = ""
    lines: bool = False
    late: int = 0
    regions: Mapping[str, Region] = field(default_factory=dict[str, Region])
    """Of arrays that several loops write: what they write together."""
    passed: frozenset[str] = frozenset()
    """The stages that only wait for the border that the next stage makes."""

    @property
    def program(self) -> PolyProgram:
        """The program, with the planes of its arrays as arrays."""
        return self.planes.program

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
