"""Where a generator's decisions come from: one stream of small integers, 0 the simplest.

A program is a function of the numbers drawn, so the same generator serves random campaigns
(`RandomChoices`), Hypothesis (`DrawnChoices`) and the shrinker, which edits the list of numbers
and plays it again (`Replay`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Choices(Protocol):
    """A stream of decisions."""

    def choice(self, count: int) -> int:
        """A number from 0, the simplest, to `count - 1`."""
        ...


class RandomChoices:
    """Random decisions, remembered in `taken`."""

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(seed)
        self.taken: list[int] = []

    def choice(self, count: int) -> int:
        """See `Choices`."""
        found = int(self._random.random() * count)
        self.taken.append(found)
        return found


class Replay:
    """The decisions of a list; behind its end the simplest. `taken` is what was really used."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = numbers
        self.taken: list[int] = []

    def choice(self, count: int) -> int:
        """See `Choices`."""
        position = len(self.taken)
        wanted = self._numbers[position] if position < len(self._numbers) else 0
        found = min(wanted, count - 1)
        self.taken.append(found)
        return found


class DrawnChoices:
    """Decisions drawn by Hypothesis, which then shrinks them."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        from hypothesis import strategies

        self._draw, self._integers = draw, strategies.integers

    def choice(self, count: int) -> int:
        """See `Choices`."""
        return self._draw(self._integers(0, count - 1)) if count > 1 else 0
