"""The choices a search goes through: for each field of `Tuning` that applies, the values to try."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace

from loopfuse.base.choices import Choices
from loopfuse.base.options import Tuning

DEFAULT = Tuning()
FROM_ZERO = ("ahead", "late")
"""Fields for which 0 is a choice, and None leaves it to the planner."""

GPU: dict[str, tuple[int, ...]] = {
    "steps": (1, 2, 3, 4, 5, 6, 8, 10, 12, 16),
    "rows": (16, 32, 64, 96, 128, 192, 256, 384, 512),
    "columns": (1, 2, 4, 8, 16),
    "warps": (1, 2, 4, 8),
    "band": (1, 2, 3, 4, 6, 8),
    "ahead": (0, 1, 2, 3, 4, 6),
    "late": (0, 1, 2, 3, 4),
    "windows": (0, 1),
}
"""On a GPU, the field that matters most first."""
CPU: dict[str, tuple[int, ...]] = {
    "steps": (1, 2, 3, 4, 6, 8, 12, 16),
    "columns": (128, 256, 512, 1024, 2048, 4096, 8192),
    "rows": (16, 32, 64, 128, 256, 512, 1024),
    "windows": (0, 1),
}
"""On the CPU."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A field of `Tuning` and its values, rising. `chosen` is the planner's own value, where the
    field says nothing."""

    field: str
    values: tuple[int, ...]
    chosen: int

    def value(self, tuning: Tuning) -> int:
        """The value in use under `tuning`."""
        given = getattr(tuning, self.field)
        if self.field == "windows":
            return int(given)
        if given is None or (self.field not in FROM_ZERO and not given):
            return self.chosen
        return int(given)

    def put(self, tuning: Tuning, value: int) -> Tuning:
        """`tuning` with this value."""
        return replace(tuning, **{self.field: bool(value) if self.field == "windows" else value})

    def beside(self, tuning: Tuning) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The values above the one in use, and those below it, the nearest first."""
        value = self.value(tuning)
        place = bisect_left(self.values, value)
        above = self.values[place + (self.values[place : place + 1] == (value,)) :]
        return above, tuple(reversed(self.values[:place]))


def axes(start: Tuning, choices: Choices, on_gpu: bool) -> tuple[Axis, ...]:
    """The axes for a kernel planned as `choices` says. A field that `start` sets stays as it is;
    a kernel without windows and without a time loop has nothing to choose."""
    if not start.windows:
        return ()

    def applies(name: str) -> bool:
        if name == "steps":
            return choices.blocks
        if name in ("band", "late"):  # of planes: in three dimensions
            return bool(choices.tuning.band)
        return choices.streams

    table = GPU if on_gpu else CPU
    fields = [
        name for name in table if applies(name) and getattr(start, name) == getattr(DEFAULT, name)
    ]
    return tuple(Axis(name, table[name], getattr(choices.tuning, name) or 0) for name in fields)


def describe(tuning: Tuning) -> str:
    """`columns=8 rows=128`: what differs from the planner's own; `the planner's own`."""
    parts: list[str] = []
    for name in Tuning.__slots__:
        value = getattr(tuning, name)
        if value != getattr(DEFAULT, name):
            parts.append(f"{name}={value}")
    return " ".join(parts) or "the planner's own"
