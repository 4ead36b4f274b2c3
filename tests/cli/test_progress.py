"""The progress bar: silent where nobody looks, there where it takes long, gone afterwards."""

from __future__ import annotations

import io
import sys

import pytest

from loopfuse.commands import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("patience, drawn", [(0.0, True), (60.0, False)])
def test_bar(monkeypatch: pytest.MonkeyPatch, patience: float, drawn: bool) -> None:
    monkeypatch.setattr(progress, "PATIENCE", patience)
    monkeypatch.setenv("TERM", "xterm")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    assert list(progress.with_progress([1, 2, 3], "counting")) == [1, 2, 3]
    assert ("counting" in screen.getvalue()) == drawn


def test_no_bar_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    assert list(progress.with_progress("ab", "counting")) == ["a", "b"]
    assert screen.getvalue() == ""
