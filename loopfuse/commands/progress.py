"""A progress bar for whatever turns out to take more than a second, on a terminal only."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE = 1.0
"""Seconds before a bar appears."""


def with_progress(items: Sequence[T], doing: str) -> Iterator[T]:
    """`items` in order; a bar on stderr says how far, once `PATIENCE` is over. Nothing is drawn
    where stderr is no terminal, and nothing is left behind."""
    start = time.monotonic()
    bar: Any = None
    task: Any = None
    try:
        for number, item in enumerate(items):
            if bar is None and time.monotonic() - start > PATIENCE and sys.stderr.isatty():
                from rich.console import Console
                from rich.progress import Progress

                bar = Progress(console=Console(file=sys.stderr), transient=True)
                bar.start()
                task = bar.add_task(doing, total=len(items))
            if bar is not None:
                bar.update(task, completed=number)
            yield item
    finally:
        if bar is not None:
            bar.stop()
