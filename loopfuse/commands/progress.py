"""A progress bar for whatever turns out to take more than a second, on a terminal only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
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


@contextmanager
def progress_bar(doing: str) -> Generator[Callable[[float, str], None], None, None]:
    """A function that takes how much is done (0 to 1) and what comes now, and shows both in a bar
    on stderr once `PATIENCE` is over; as `with_progress`, on a terminal only."""
    start = time.monotonic()
    bars: list[Any] = []

    def tell(done: float, text: str) -> None:
        if not bars and time.monotonic() - start > PATIENCE and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            bar = Progress(
                TextColumn(doing), BarColumn(), TimeElapsedColumn(),
                TextColumn("{task.description}"),
                console=Console(file=sys.stderr), transient=True,
            )  # fmt: skip
            bar.start()
            bars.extend([bar, bar.add_task("", total=1.0)])
        if bars:
            bars[0].update(bars[1], completed=done, description=text)

    try:
        yield tell
    finally:
        if bars:
            bars[0].stop()
