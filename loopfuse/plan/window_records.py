"""The records of sliding windows: steps, frames, stages, the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from loopfuse.lang.nodes import Expr, Load
from loopfuse.plan.align import Placed
from loopfuse.plan.groups import Group


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


@dataclass(frozen=True, slots=True)
class Tap:
    """Rows and columns between a point and what it reads there."""

    row: int
    column: int


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


@dataclass(frozen=True, slots=True)
class Stage:
    """One array's window, called `name` (the array and how often it was written before). `step`
    computes its rows; None: they are loaded.

    `lag`: rows behind the first load. `delay`: rows that pass between a row's arrival and its
    first use (loads run ahead). `rows`: how many the window keeps. `up` and `down`: how far
    above and below a row it is read. `left` and `right`: columns of its neighbours that a lane
    keeps beside its own. `above`, `before` and `after`: how many rows above, columns before and
    columns behind what a strip stores must be right. `kept`: how many rows of its own columns a
    lane keeps from one step to the next, `kept_beside` how many cells of its neighbours' columns.
    `first` and `last`: how many rows beyond its first and last are read as its edge mode says
    (where it is computed).
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
    before: int = 0
    after: int = 0
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
        return self.frame.shifts[self.frame.position(dim)] - other.frame.shifts[
            other.frame.position(dim)
        ]

    @property
    def is_stencil(self) -> bool:
        """Is it read beside the point that reads?"""
        return bool(self.up or self.down or self.left or self.right)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The stages of a window group, producers first, and the steps that make them. `outer`
    dimensions have no stencil."""

    group: Group
    steps: tuple[Step, ...]
    outer: tuple[str, ...]
    stream: str
    across: str
    stages: tuple[Stage, ...]

    def stage(self, name: str) -> Stage | None:
        """The stage called `name`, if there is one."""
        return next((stage for stage in self.stages if stage.name == name), None)

    def before(self, stage: Stage) -> Stage | None:
        """The stage that holds the array before this one is made, if there is one."""
        return self.stage(earlier_name(stage.name))

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


def earlier_name(stage: str) -> str:
    """The stage that holds the array before this one is made."""
    array, _, number = stage.rpartition(".")
    return stage_name(array, int(number) - 1)
