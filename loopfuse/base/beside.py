"""Work that a thread of its own does meanwhile: LLVM leaves Python's lock alone while it works, so that what is
Python's goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def begin(work: Callable[[], T]) -> Callable[[], T]:
    """Starts `work`; what is returned waits for it, and returns or raises what it did."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # whoever waits gets it
            errors.append(error)

    thread = threading.Thread(target=run, name="loopfuse-llvm", daemon=True)
    thread.start()

    def finish() -> Any:
        thread.join()
        if errors:
            raise errors[0]
        return results[0]

    return finish
