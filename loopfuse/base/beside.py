"""Work that a thread of its own does meanwhile: LLVM leaves Python's lock alone while it works, so that what is
Python's goes on."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from loopfuse.base import forks

T = TypeVar("T")

SWITCH = 2e-4
"""Seconds after which a thread that runs Python gives way to one that waits to. The usual 5 ms are long beside LLVM's
calls: a thread waits for each as it comes back from it."""

_lock, _running, _usual = forks.Lock(), 0, 0.0


def _count(change: int) -> None:
    """Sets the interval while work runs beside, and puts it back after the last."""
    global _running, _usual
    with _lock:
        if _running == 0:
            _usual = sys.getswitchinterval()
            sys.setswitchinterval(min(SWITCH, _usual))
        _running += change
        if _running == 0:
            sys.setswitchinterval(_usual)


def begin(work: Callable[[], T]) -> Callable[[], T]:
    """Starts `work`; what is returned waits for it, and returns or raises what it did."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # whoever waits gets it
            errors.append(error)
        finally:
            _count(-1)

    _count(1)
    thread = threading.Thread(target=run, name="loopfuse-llvm", daemon=True)
    thread.start()

    def finish() -> Any:
        thread.join()
        if errors:
            raise errors[0]
        return results[0]

    return finish
