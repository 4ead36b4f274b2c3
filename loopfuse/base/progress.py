"""What is being done, for whatever turns out to take long: a line on a terminal, which is gone when
the work is done, or in a notebook's cell, where it then says how long it took. Elsewhere (a pipe,
a file, a test) nothing is written.

One thing is shown at a time: the compiles inside a verification or a search are part of it.
"""

from __future__ import annotations

import contextvars
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from loopfuse.base.printable import printable

T = TypeVar("T")
Tell = Callable[[float | None, str], None]
"""Says how much is done (0 to 1; None: not known) and what comes now."""

PATIENCE = 1.0
"""Seconds before a bar appears."""
COMPILING = 2.0
"""Seconds before a compile is said to run."""

_shown = threading.Lock()


def with_progress(items: Sequence[T], doing: str) -> Iterator[T]:
    """`items` in order; a bar says how far, once `PATIENCE` is over."""
    with _showing(doing, PATIENCE) as tell:
        for number, item in enumerate(items):
            tell(number / len(items), f"{number + 1} of {len(items)}")
            yield item


@contextmanager
def progress_bar(doing: str) -> Generator[Callable[[float, str], None], None, None]:
    """A function that takes how much is done (0 to 1) and what comes now, and shows both once
    `PATIENCE` is over."""
    with _showing(doing, PATIENCE) as tell:
        yield tell


@contextmanager
def long_work(doing: str) -> Generator[Callable[[str], None], None, None]:
    """A function that takes what comes now; shown once `COMPILING` is over."""
    with _showing(doing, COMPILING) as tell:
        yield lambda text: tell(None, text)


@contextmanager
def _showing(doing: str, patience: float) -> Generator[Tell, None, None]:
    look = _where()
    if look is None or not _shown.acquire(blocking=False):
        yield lambda done, text: None
        return
    display = _Display(look(printable(doing)))
    # Where output goes in a notebook is known to the context of the cell's own thread.
    timer = threading.Timer(patience, contextvars.copy_context().run, [display.start])
    timer.daemon = True
    timer.start()
    try:
        yield display.tell
    finally:
        timer.cancel()
        display.stop()
        _shown.release()


def _where() -> Callable[[str], _Terminal | _Notebook] | None:
    """How to show something here; None where nobody looks."""
    with suppress(AttributeError, ValueError):  # no standard error, or a closed one
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            return _Terminal
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return _Notebook if getattr(shell, "kernel", None) is not None else None


class _Display:
    """Something that may be shown: `start` is called by a timer's thread, once it has taken long."""

    def __init__(self, screen: _Terminal | _Notebook) -> None:
        self._screen = screen
        self._lock = threading.Lock()
        self._state = "waiting"
        self._now: tuple[float | None, str] = (None, "")

    def start(self) -> None:
        """Show it, if it is not over."""
        with self._lock:
            if self._state == "waiting":
                self._state = "shown"
                self._screen.open(*self._now)

    def tell(self, done: float | None, text: str) -> None:
        """What comes now."""
        with self._lock:
            self._now = (done, printable(text))
            if self._state == "shown":
                self._screen.update(*self._now)

    def stop(self) -> None:
        """It is over."""
        with self._lock:
            if self._state == "shown":
                self._screen.close()
            self._state = "over"


class _Terminal:
    """A line with a bar on standard error."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._begun = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def open(self, done: float | None, text: str) -> None:
        """Draw it: with the time since the work began, not since it was noticed."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._bar = Progress(
            TextColumn("{task.fields[doing]}", markup=False), BarColumn(), TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=Console(file=sys.stderr), transient=True, get_time=time.monotonic,
        )  # fmt: skip
        self._task = self._bar.add_task(text, total=None, doing=self._doing)
        self._bar.tasks[0].start_time = self._begun
        self.update(done, text)
        self._bar.start()

    def update(self, done: float | None, text: str) -> None:
        """Draw it anew."""
        if done is None:
            self._bar.update(self._task, description=text)
        else:
            self._bar.update(self._task, completed=done, total=1.0, description=text)

    def close(self) -> None:
        """Wipe it."""
        self._bar.stop()


class _Notebook:
    """A line of quiet text among a cell's outputs."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._begun = time.monotonic()
        self._handle: Any = None

    def _html(self, done: float | None, text: str) -> Any:
        from IPython.display import HTML

        from loopfuse.base import html

        share = "" if done is None else f" {round(100 * done)} %"
        words = html.text(f"{self._doing}{share}{': ' if text else ' '}{text} ...")
        return HTML(f'<span style="opacity:.7">{words}</span>')

    def open(self, done: float | None, text: str) -> None:
        """Show it."""
        from IPython.display import display

        self._handle = display(self._html(done, text), display_id=True)

    def update(self, done: float | None, text: str) -> None:
        """Show something else in its place."""
        if self._handle is not None:
            self._handle.update(self._html(done, text))

    def close(self) -> None:
        """Say how long it took: a notebook keeps what was shown, and would keep an empty output."""
        if self._handle is not None:
            from IPython.display import HTML

            from loopfuse.base import html

            words = html.text(f"{self._doing}: {time.monotonic() - self._begun:.0f} s")
            self._handle.update(HTML(f'<span style="opacity:.7">{words}</span>'))
