"""Who holds which element: of a buffer, of a tile that a team shares, of a tensor core's operand.

A layout is a list of digits in one order. A digit is of one dimension and says who its values tell apart: the blocks
of a cluster, warps, lanes, a thread's steps, or its registers (SLOT; of memory the places in it). An element's
subscript in a dimension is written in the digits of that dimension, the number of its holder at a level in those of
that level; in both an earlier digit is worth more. A digit of no dimension has holders of copies.

    a row of a warp's       (x LANE 32)(x SLOT 4)            element 4 * lane + slot
    unsharp's window        ring 5 of y, (y SLOT 5)(x LANE 32)(x SLOT 8), the strips of warps 120 apart
    a chunk of a row        (c SLOT 4)(c THREAD 256)(c SLOT 4)
    its maximum             (- THREAD 256)
    mma's accumulator       (m SLOT 2)(m LANE 8)(n LANE 4)(n SLOT 2)

Which of what is held is right (the halo of lanes 0 and 31, rows before the first) is no matter of a layout.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from loopfuse.lang.linear import interval, tidy
from loopfuse.lang.nodes import Expr, Iter, integer


class Level(enum.Enum):
    """Whom the values of a digit tell apart, outer ones first."""

    CLUSTER = "cluster"  # blocks of a cluster
    WARP = "warp"  # warps of a block
    LANE = "lane"  # lanes of a warp
    THREAD = "thread"  # threads of a team, whoever they are
    STEP = "step"  # one after the other
    SLOT = "slot"  # a thread's registers, or places in memory


@dataclass(frozen=True, slots=True)
class Digit:
    """`count` values, which tell apart holders at a level. Of two next to each other the elements lie `step` apart in
    dimension `dim` (0: as many as the digits of that dimension behind this one tell apart; fewer than those: they overlap).
    `dim` None: they hold copies of one another."""

    dim: int | None
    by: Level
    count: int
    step: int = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """Digits, those worth more first. `rings`: what the subscript of each dimension is taken modulo before it is
    written in digits (0 or left away: it is not)."""

    digits: tuple[Digit, ...]
    rings: tuple[int, ...] = ()

    @property
    def steps(self) -> tuple[int, ...]:
        """How far apart in its dimension neighbours of each digit hold elements; 0 of copies."""
        found: list[int] = []
        inside: dict[int | None, int] = {None: 0}
        for digit in reversed(self.digits):
            step = digit.step or inside.get(digit.dim, 1)
            found.append(step)
            if digit.dim is not None:
                inside[digit.dim] = step * (digit.count - 1) + inside.get(digit.dim, 1)
        return tuple(reversed(found))

    def extent(self, dim: int) -> int:
        """How many elements the layout holds along a dimension."""
        steps = zip(self.digits, self.steps, strict=True)
        return 1 + sum((digit.count - 1) * step for digit, step in steps if digit.dim == dim)

    def ring(self, dim: int) -> int:
        """What the dimension's subscript is taken modulo; 0 where it is not."""
        return self.rings[dim] if dim < len(self.rings) else 0

    def count(self, by: Level, dim: int | None = None) -> int:
        """How many holders there are at a level (1: it tells none apart), of one dimension or of all."""
        return prod(d.count for d in self.digits if d.by is by and dim in (None, d.dim))

    # ------------------------------------------------------------------------------- numbers

    def number(self, by: Level, values: Sequence[int]) -> int:
        """Which of the level's holders it is, of digits that have these values."""
        found = 0
        for digit, value in zip(self.digits, values, strict=True):
            if digit.by is by:
                found = found * digit.count + value
        return found

    def element(self, values: Sequence[int], dims: int) -> tuple[int, ...]:
        """The element that digits of these values stand for, of so many dimensions (one of a ring: the first of those
        that lie there)."""
        places = [0] * dims
        for digit, step, value in zip(self.digits, self.steps, values, strict=True):
            if digit.dim is not None:
                places[digit.dim] += step * value
        return tuple(places)

    def held(self, dims: int) -> Iterator[tuple[dict[Level, int], tuple[int, ...]]]:
        """Every place of every holder, by the numbers of its levels, and the element that lies there."""
        levels = dict.fromkeys(digit.by for digit in self.digits)
        for values in product(*(range(digit.count) for digit in self.digits)):
            yield {by: self.number(by, values) for by in levels}, self.element(values, dims)

    def places(self, element: Sequence[int]) -> list[dict[Level, int]]:
        """Where an element lies: in one place, in several where holders overlap or have copies, or in none."""
        left = {dim: place % self.ring(dim) if self.ring(dim) else place for dim, place in enumerate(element)}
        return [
            {by: self.number(by, values) for by in dict.fromkeys(digit.by for digit in self.digits)}
            for values in self._written(left, 0)
        ]

    def _written(self, left: dict[int, int], first: int) -> Iterator[tuple[int, ...]]:
        """The values of all digits from the one `first` on that make up what is left of each subscript."""
        if first == len(self.digits):
            if not any(left.values()):
                yield ()
            return
        digit, step = self.digits[first], self.steps[first]
        values = range(digit.count)
        if digit.dim is not None:
            inside = Layout(self.digits[first + 1 :]).extent(digit.dim)
            rest = left[digit.dim]
            values = range(max(0, -((inside - 1 - rest) // step)), min(digit.count, rest // step + 1))
        for value in values:
            after = left if digit.dim is None else {**left, digit.dim: left[digit.dim] - value * step}
            for inner in self._written(after, first + 1):
                yield (value, *inner)

    # --------------------------------------------------------------------------- expressions

    def parts(self, dim: int, values: Sequence[Expr]) -> tuple[Expr, ...]:
        """What each digit of the dimension adds to the subscript, of digits that have these values."""
        return tuple(
            value * step
            for digit, step, value in zip(self.digits, self.steps, values, strict=True)
            if digit.dim == dim
        )

    def begin(self, dim: int, holders: Mapping[Level, Expr]) -> Expr:
        """Where along the dimension the elements of a holder begin, of which each level has a number (others: 0). Only
        of levels that have one digit of the dimension each."""
        values = [holders.get(digit.by, integer(0)) for digit in self.digits]
        return tidy(sum(self.parts(dim, values), integer(0)))

    def slot(self, values: Sequence[Expr]) -> Expr:
        """Which of a holder's registers it is, of digits that have these values."""
        found: Expr = integer(0)
        for digit, value in zip(self.digits, values, strict=True):
            if digit.by is Level.SLOT:
                found = found * digit.count + value
        return tidy(found)

    def owns(self, by: Level, holder: str, dim: int, subscript: Expr, ranges: Mapping[str, tuple[int, int]]) -> bool:
        """Is `subscript` of the dimension always an element of the holder itself, numbered by the variable `holder`, which has the
        level's one digit? Any variable beside it must be one of `ranges`: its first and last value."""
        (step,) = (s for d, s in zip(self.digits, self.steps, strict=True) if d.by is by and d.dim == dim)
        own = {name: ends for name, ends in ranges.items() if name != holder}
        rest = interval(tidy(subscript - Iter(holder) * step), own)
        return rest is not None and rest[0] >= 0 and rest[1] < step


def along(*digits: tuple[Level, int]) -> Layout:
    """A layout of one dimension: of how many of each level, outer ones first."""
    return Layout(tuple(Digit(0, by, count) for by, count in digits))


def print_layout(layout: Layout, dims: Sequence[str]) -> str:
    """The layout as these docs write it: `(x LANE 32)(x SLOT 4)`, of dimensions that have these names."""
    rings = "".join(f"ring {size} of {dims[dim]}, " for dim, size in enumerate(layout.rings) if size)
    digits = (
        f"({'-' if d.dim is None else dims[d.dim]} {d.by.name} {d.count}{f' step {d.step}' if d.step else ''})"
        for d in layout.digits
    )
    return rings + "".join(digits)
