"""Timing forms of a kernel in turns, as their user would time them.

A turn is a few calls of one form in a row, as a user's own loop has them, and the next form's turn
follows: what slows the machine down for a while slows all of them. The first call of a turn is not
counted (its data lies where the form before left it). On the CPU a call's time is wall time; on a
GPU it lies between two events around the call, one call enqueued after the other.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Call = Callable[[], Any]
FEWEST_TURNS = 5
MOST_TURNS = 100
TURN_SECONDS = 0.02
"""About how long a turn takes, unless one call takes longer."""
MOST_CALLS = 25
"""Calls of a turn."""


class Clock(Protocol):
    """Times calls."""

    def times(self, call: Call, count: int) -> list[float]:
        """The seconds of each of `count` calls in a row."""
        ...


class WallClock:
    """Wall time, for the CPU."""

    def times(self, call: Call, count: int) -> list[float]:
        """The seconds of each of `count` calls in a row."""
        found: list[float] = []
        for _ in range(count):
            start = time.perf_counter()
            call()
            found.append(time.perf_counter() - start)
        return found


@dataclass(frozen=True, slots=True)
class Times:
    """The seconds of every call of a form that was counted."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of all calls."""
        return max(statistics.median(self.seconds), 1e-9)

    @property
    def quickest(self) -> float:
        """What a tenth of the calls stay below."""
        return max(sorted(self.seconds)[len(self.seconds) // 10], 1e-9)

    @property
    def humps(self) -> tuple[tuple[float, float], tuple[float, float]] | None:
        """(median, share) of the quick and of the slow calls, where the times are of two sorts and
        no single number describes them; None where they lie around one."""
        return find_humps(self.seconds)


def time_in_turns(calls: Sequence[Call], clock: Clock, seconds: float) -> list[Times]:
    """The times of each of `calls`, measured in turns for about `seconds` together."""
    counts: list[int] = []
    for call in calls:  # also what compiles, allocates and warms up
        clock.times(call, 1)
        once = min(clock.times(call, 2))
        counts.append(max(2, min(MOST_CALLS, int(TURN_SECONDS / max(once, 1e-9)))))
    found: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + seconds
    order = list(range(len(calls)))
    for turn in range(MOST_TURNS):
        if turn >= FEWEST_TURNS and time.perf_counter() > end:
            break
        for number in order if turn % 2 == 0 else reversed(order):
            found[number] += clock.times(calls[number], counts[number])[1:]
    return [Times(tuple(one)) for one in found]


FEWEST_OF_A_HUMP = 0.15
"""The part of the calls that makes a hump."""
LEAST_RATIO = 1.2
"""Between the medians of two humps."""


def find_humps(
    seconds: Sequence[float],
) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Two medians with their shares, where the times fall into two groups far apart for how wide each
    is; None else. The cut is Otsu's, on logarithms: the one that leaves least variance within."""
    logs = sorted(math.log(max(one, 1e-12)) for one in seconds)
    count = len(logs)
    if count < 10:
        return None
    total, before, best, cut = sum(logs), 0.0, -1.0, 0
    for k in range(1, count):
        before += logs[k - 1]
        apart = before / k - (total - before) / (count - k)
        between = k * (count - k) * apart * apart
        if between > best:
            best, cut = between, k
    quick, slow = logs[:cut], logs[cut:]
    if min(len(quick), len(slow)) < FEWEST_OF_A_HUMP * count:
        return None
    apart = statistics.median(slow) - statistics.median(quick)
    if apart < math.log(LEAST_RATIO) or _width(quick) + _width(slow) > 0.5 * apart:
        return None
    share = len(quick) / count
    return (
        (math.exp(statistics.median(quick)), share),
        (math.exp(statistics.median(slow)), 1 - share),
    )


def _width(ordered: Sequence[float]) -> float:
    """How far apart the quarters are."""
    return ordered[(3 * len(ordered)) // 4] - ordered[len(ordered) // 4]
