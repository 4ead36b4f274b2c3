"""How fast this machine is just now: time limits of tests are those of a usual one."""

from __future__ import annotations

import time

USUAL = 0.1
"""Seconds that `slowness` counts for, on a usual machine (Python 3.11)."""


def slowness() -> float:
    """How many times as long as usual this machine takes, just now; at least 1.

    The longest of a few: a shared machine changes from one tenth of a second to the next.
    """
    return max(1.0, *(_seconds() / USUAL for _ in range(5)))


def _seconds() -> float:
    start, total = time.process_time(), 0
    for number in range(2_000_000):
        total += number * number
    return time.process_time() - start


def is_within(took: float, limit: float) -> bool:
    """Did it take less than the limit, which is that of a usual machine? One that is slow just now may
    have been slower still before."""
    return took < limit or took < 1.5 * limit * slowness()
