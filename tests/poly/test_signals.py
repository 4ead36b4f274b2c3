"""A signal while isl works: what its handler raises comes out."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import islpy
import pytest

from loopfuse.poly import isl

POINTS = islpy.Set("{ [i, j] : 0 <= i < 40 and 0 <= j < i }")
NUMBER = islpy.PwAff("[N] -> { [(4)] : N > 3; [(4)] : N <= 3 }")
QUOTIENTS = islpy.Map("{ [i] -> [j] : j = 3 * floor(i / 3) or j = -i }")
ASKED: dict[str, Callable[[], Any]] = {
    "points": lambda: isl.points_of(POINTS),
    "a number": lambda: isl.constant_of(NUMBER),
    "quotients": lambda: isl.quotients_of(QUOTIENTS),
}

def test_all_that_calls_back_is_here() -> None:
    """What is called back is a container's method: `foreach_piece(found.append)`."""
    files = (Path(isl.__file__).parents[1]).rglob("*.py")
    lines = [line.strip() for file in files for line in file.read_text().splitlines() if "foreach_" in line]
    assert len(lines) == len(ASKED)
    for line in lines:
        assert line.endswith((".append)", ".__setitem__)")), line


@pytest.mark.parametrize("name", ASKED)
def test_an_interrupt_comes_out_wherever_it_comes(name: str) -> None:
    """islpy forgets what is raised in a function that isl calls back, as a signal's handler may."""

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    ask = ASKED[name]
    before = signal.signal(signal.SIGALRM, stop)
    old = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        for moment in range(20):
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.001 + 0.0003 * moment, 1.0)
                for _ in range(1_000_000):
                    ask()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *old)
