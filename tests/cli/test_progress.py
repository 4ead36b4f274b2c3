"""What is shown of long work: nothing where nobody looks, a line where it takes long, gone
afterwards."""

from __future__ import annotations

import io
import re
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

import loopfuse
from loopfuse.base import progress
from loopfuse.pipeline import STAGES
from loopfuse.watch import WORDS

ADD = "kernel slowly(x: f32[N], out y: f32[N]):\n    for i in 0..N:\n        y[i] = x[i] + {}\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error from now on (pytest gives each phase of a test its own: no fixture)."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    return screen


def until(done: Any) -> None:
    """Wait for a timer's thread."""
    end = time.monotonic() + 10
    while not done() and time.monotonic() < end:
        time.sleep(0.002)
    assert done()


def wiped(text: str) -> bool:
    """The last thing that is drawn is nothing, and the cursor is there again."""
    return text.rstrip().endswith("\x1b[2K") and text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l")


@pytest.mark.parametrize("patience, drawn", [(0.0, True), (60.0, False)])
def test_bar(monkeypatch: pytest.MonkeyPatch, patience: float, drawn: bool) -> None:
    screen = terminal(monkeypatch)
    monkeypatch.setattr(progress, "PATIENCE", patience)
    seen: list[int] = []
    for item in progress.with_progress([1, 2, 3], "counting"):
        seen.append(item)
        if drawn:
            until(lambda: "counting" in screen.getvalue())
    assert seen == [1, 2, 3] and bool(screen.getvalue()) == drawn
    assert not drawn or wiped(screen.getvalue())


def test_it_shows_while_one_step_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    monkeypatch.setattr(progress, "COMPILING", 0.0)
    with progress.long_work("compiling k\x1b[31m[red]") as tell:
        tell("the proof")
        until(lambda: "the proof" in screen.getvalue())
        assert r"compiling k\x1b[31m[red]" in re.sub(r"\s+", " ", screen.getvalue())
        with progress.long_work("inside") as inner:
            inner("hidden")
            time.sleep(0.02)
    assert "hidden" not in screen.getvalue() and wiped(screen.getvalue())
    assert not [one for one in threading.enumerate() if isinstance(one, threading.Timer)]
    with progress.long_work("again"):
        until(lambda: "again" in screen.getvalue())


def test_a_failure_wipes_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with pytest.raises(KeyError), progress.progress_bar("tuning") as tell:
        tell(0.5, "halfway")
        until(lambda: "halfway" in screen.getvalue())
        raise KeyError
    assert "50" in screen.getvalue() or "━" in screen.getvalue()
    assert wiped(screen.getvalue())


@pytest.mark.parametrize("where", ["pipe", "dumb", "closed"])
def test_nothing_without_a_terminal(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    screen = Terminal() if where == "dumb" else io.StringIO()
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys, "stderr", None if where == "closed" else screen)
    before = threading.active_count()
    for _ in progress.with_progress("ab", "counting"):
        assert threading.active_count() == before
    assert screen.getvalue() == ""


def test_a_compile_shows_its_stages(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Here a compile is long at once."""
    screen = terminal(monkeypatch)
    monkeypatch.setattr(progress, "COMPILING", 0.0)
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("LOOPFUSE_DEBUG", raising=False)
    told: list[tuple[str, str]] = []

    class Seen:
        def __init__(self, doing: str) -> None:
            self.doing = doing

        def open(self, done: float | None, text: str) -> None:
            told.append((self.doing, text))

        update = open

        def close(self) -> None:
            told.append((self.doing, ""))

    monkeypatch.setattr(progress, "_Terminal", Seen)
    kernel = loopfuse.loads(ADD.format("1.0"), target="cpu")
    kernel.explain()
    kernel.with_options(fp="strict").compile(target="cpu")
    until(lambda: len(told) > 2)
    assert {doing for doing, _ in told} <= {"planning slowly", "compiling slowly"}
    assert {text for _, text in told} & set(WORDS.values())
    assert set(WORDS) == set(STAGES)
    assert screen.getvalue() == ""


def test_a_notebook_gets_a_line_and_keeps_how_long_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, html: str) -> None:
            shown.append(html)

    def display(html: str, display_id: bool) -> Handle:
        shown.append(html)
        return Handle()

    shell = SimpleNamespace(kernel=object())
    module = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", module)  # type: ignore[arg-type]
    shows = SimpleNamespace(HTML=str, display=display)
    monkeypatch.setitem(sys.modules, "IPython.display", shows)  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(progress, "COMPILING", 0.0)
    with progress.long_work("compiling <k>") as tell:
        until(lambda: shown)
        tell("the proof")
    assert "compiling &lt;k&gt;: the proof" in shown[-2] and ">compiling &lt;k&gt;: 0 s<" in shown[-1]
    shell.kernel = None  # a plain IPython, whose standard error is no terminal
    with progress.long_work("nothing"):
        time.sleep(0.01)
    assert "nothing" not in "".join(shown)
