"""How far beyond an array's first and last rows and columns a loop reads a computed stage, and what
its window has to hold for that.

    reflect, rows:   b.reflect[y-2] at y = 0 is b[2]: made two rows after b[0], so the reader runs
                     two rows behind, and the window keeps rows 0 to 2 and those before them for it

A loop may also run beyond the array itself, where what it writes is shifted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loopfuse.lang.linear import constant_value
from loopfuse.plan.strategies.sliding.windows.edges import MIRRORED
from loopfuse.plan.strategies.sliding.windows.records import Frame, Step
from loopfuse.plan.units.groups import whole_name
from loopfuse.poly.model import PolyProgram


@dataclass(frozen=True, slots=True)
class Beyond:
    """Along one dimension: how far a reader's loop starts before the first element (`first`;
    negative: behind it) and ends behind the last (`last`), and the edge mode of what it reads."""

    first: int
    last: int
    mode: str

    def least(self, taps: Sequence[int]) -> int:
        """How many places before the first element are read."""
        return max(0, self.first - min(taps))

    def most(self, taps: Sequence[int]) -> int:
        """How many places behind the last element are read."""
        return max(0, self.last + max(taps))

    def folded(self, taps: Sequence[int]) -> list[int]:
        """Where, from the reader, stands what the farthest of those places have a copy of."""
        out: list[int] = []
        for distance, sign, ends in (
            (self.least(taps), 1, self.first),
            (self.most(taps), -1, self.last),
        ):
            if distance:
                inwards = distance - (self.mode == "symmetric") if self.mode in MIRRORED else 0
                out.append(sign * (inwards + ends))
        return out


def beyond(step: Step, frame: Frame, dim: str, program: PolyProgram) -> Beyond | str:
    """How the step's loop along `dim` lies on the stage; or why that is not known."""
    mode = frame.mode(dim)
    if mode in ("", "wrap"):
        return Beyond(0, 0, mode)
    position = frame.position(dim)
    c = step.placed.coordinate(dim)
    loop = next(lp for lp in step.placed.unit.common if lp.iterator == c.iterator)
    ahead = frame.shifts[position] - c.offset
    first = constant_value(loop.lower + ahead)
    end = loop.upper + ahead - program.arrays[frame.array].extents[position]
    last = constant_value(end)
    if first is None or last is None:
        return (
            f"`{whole_name(frame.array)}` is read with `.{mode}` by {step.placed.unit.label}, "
            "which starts or ends at a place not known from it"
        )
    return Beyond(-first, last, mode)
