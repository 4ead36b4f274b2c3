"""Timing forms of a kernel in turns, as their user would time them.

A turn is a few calls of one form in a row, as a user's own loop has them, and the next form's turn
follows: what slows the machine down for a while slows all of them. The first call of a turn is not
counted (its data lies where the form before left it). On the CPU a call's time is wall time; on a
GPU it lies between two events, one call enqueued after the other. Short calls share two events: what
the GPU does for an event, a microsecond, is no part of a call.
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
"""What is timed in a turn: calls, or batches of short ones."""


BATCH_SECONDS = 2e-4
"""What lies between two events is at least so long: an event costs the GPU about a microsecond."""
MOST_OF_A_BATCH = 25


def batch_of(seconds: float) -> int:
    """How many calls in a row of about so many seconds are timed together, by events."""
    return max(1, min(MOST_OF_A_BATCH, math.ceil(BATCH_SECONDS / seconds)))


class Clock(Protocol):
    """Times calls."""

    def batch(self, seconds: float) -> int:
        """How many calls in a row, each of about so many seconds, are to be timed as one."""
        ...

    def times(self, call: Call, count: int, batch: int = 1) -> list[float]:
        """The seconds of a call, for each of `count` batches of calls in a row."""
        ...


class WallClock:
    """Wall time, for the CPU."""

    def batch(self, seconds: float) -> int:
        """One: reading this clock takes no time that shows."""
        return 1

    def times(self, call: Call, count: int, batch: int = 1) -> list[float]:
        """The seconds of a call, for each of `count` batches of calls in a row."""
        found: list[float] = []
        for _ in range(count):
            start = time.perf_counter()
            for _ in range(batch):
                call()
            found.append((time.perf_counter() - start) / batch)
        return found


@dataclass(frozen=True, slots=True)
class Times:
    """The seconds of every call of a form that was counted, or of every batch of short calls, a call."""

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
    counts: list[tuple[int, int]] = []
    for call in calls:  # also what compiles, allocates and warms up
        clock.times(call, 1)
        once = max(min(clock.times(call, 2)), 1e-9)
        batch = clock.batch(once)
        counts.append((max(2, min(MOST_CALLS, int(TURN_SECONDS / (once * batch)))), batch))
    found: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + seconds
    order = list(range(len(calls)))
    for turn in range(MOST_TURNS):
        if turn >= FEWEST_TURNS and time.perf_counter() > end:
            break
        for number in order if turn % 2 == 0 else reversed(order):
            found[number] += clock.times(calls[number], *counts[number])[1:]
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
