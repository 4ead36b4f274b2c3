"""A generator that shows what a campaign does with crashes, hangs and differences: numbers that end
in 3 kill their process, in 5 differ, in 7 are refused, in 9 (below 10) take for ever."""

from __future__ import annotations

import os
import signal

from fuzz.campaigns import Checked

SUFFIX = ".txt"


def text(number: int, notes: str) -> str:
    """See `campaigns`."""
    return "".join(f"# {line}\n" for line in notes.splitlines()) + f"program {number}\n"


def check(number: int) -> Checked:
    """See `campaigns`."""
    match number % 10:
        case 3:
            os.kill(os.getpid(), signal.SIGSEGV)
        case 5:
            return Checked("failed", "", "differ: compiled", f"{number} is not {number + 1}")
        case 7:
            return Checked("refused", "because")
        case 9 if number < 10:
            while True:  # processor time is what counts
                pass
        case _:
            pass
    return Checked("ok", ran={"compiled": 2, os.environ.get("LOOPFUSE_CPU", ""): 1})
