"""Helpers: choices compiled ahead, in processes of their own."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.options import Target, Tuning
from loopfuse.kernels.compile_helper import Wanted, compile_wanted
from loopfuse.kernels.stored import find_artifact
from loopfuse.tuning import session
from loopfuse.tuning.helpers import Helpers
from loopfuse.tuning.told import Told

TEXT = """\
kernel soft(x: f32[H, W], out y: f32[H, W]):
    temp r: f32[H, W]
    for i in 0..H, j in 0..W:
        r[i, j] = x.clamp[i, j-1] + x.clamp[i, j+1]
    for i in 0..H, j in 0..W:
        y[i, j] = r.clamp[i-1, j] + r.clamp[i+1, j]
"""
LINES = """\
kernel smooth(x: f32[H, W], out y: f32[H, W]):
    temp r: f32[H, W]
    for i in 0..H, j in 1..W-1:
        r[i, j] = 0.25 * (x[i, j-1] + x[i, j+1]) + 0.5 * x[i, j]
    for i in 1..H-1, j in 1..W-1:
        y[i, j] = 0.25 * (r[i-1, j] + r[i+1, j]) + 0.5 * r[i, j]
"""
ROWS = [Tuning(rows=16), Tuning(rows=32), Tuning(rows=48)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("LOOPFUSE_CACHE", "LOOPFUSE_DEBUG", "LOOPFUSE_FUEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("loopfuse.tuning.helpers.processors", lambda: 2)


def wanted(tuning: Tuning, operations: int = 0) -> Wanted:
    kernel = loopfuse.loads(TEXT)
    options = kernel.options(Target("sm_90"), tuning=tuning)
    options = replace(options, operations=operations)
    return Wanted(f"key{tuning.rows}", kernel.program(), "soft", options, frozenset({"ptx"}))


@pytest.fixture
def helpers() -> Iterator[Helpers]:
    made = Helpers(wanted)
    yield made
    made.close()


def test_as_many_as_there_are_processors_the_first_ones_first(helpers: Helpers) -> None:
    helpers.prepare(ROWS, 60)
    assert helpers.told == {ROWS[0]: Told(), ROWS[1]: Told()}
    kernel = loopfuse.loads(TEXT)
    for tuning in ROWS[:2]:
        found = find_artifact(f"key{tuning.rows}")
        same = kernel.with_options(tuning=tuning).compile("sm_90", emit={"ptx"})
        assert found is not None and found.ptx == same.ptx
    assert find_artifact("key48") is None
    helpers.prepare(ROWS[1:], 60)  # what is next is there
    assert len(helpers.told) == 2
    helpers.prepare(ROWS[2:], 60)  # one alone
    assert len(helpers.told) == 2


def test_what_cannot_be_used_is_told_and_not_kept() -> None:
    told = compile_wanted(wanted(ROWS[0], operations=1))
    assert told.problem and not told.is_bug
    assert find_artifact("key16") is None
    assert compile_wanted(wanted(ROWS[0])) == Told()
    assert find_artifact("key16") is not None


def test_no_longer_than_it_may_take(helpers: Helpers) -> None:
    before = time.monotonic()
    helpers.prepare(ROWS, 0.05)
    assert time.monotonic() - before < 20
    assert not helpers.told


def test_where_no_process_starts_there_are_none(
    helpers: Helpers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "")
    helpers.prepare(ROWS, 60)
    assert not helpers.told and helpers.many == 0


def test_a_process_that_cannot_run_us_is_asked_once(
    helpers: Helpers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loopfuse.tuning.helpers.START", "raise SystemExit(1)")
    helpers.prepare(ROWS, 60)
    assert not helpers.told and helpers.many == 0


def test_what_cannot_be_sent_is_compiled_here() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    helpers = Helpers(lambda tuning: nested)
    helpers.prepare(ROWS, 60)
    assert not helpers.told and helpers.many == 0
    while nested:
        nested = nested.pop()  # freed as it was built: not by a recursion


def test_a_search_is_helped_where_compiles_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[Tuning]] = []
    prepare = Helpers.prepare

    def noted(self: Helpers, coming: list[Tuning], seconds: float) -> None:
        asked.append(list(coming))
        prepare(self, coming, seconds)

    monkeypatch.setattr(Helpers, "prepare", noted)
    monkeypatch.setattr(session, "SLOW", 0.0)
    monkeypatch.setattr("loopfuse.tuning.space.CPU", {"rows": (16, 32, 64, 128)})
    kernel = loopfuse.loads(LINES).with_options(tune=True, tune_budget=120.0)
    found = kernel.tune(np.ones((300, 200), np.float32))
    assert asked and found.complete and found.tried > 1 and not found.wrong
    tried = [trial.tuning for trial in found.trials]
    assert {coming[0] for coming in asked} <= set(tried) | {asked[-1][0]}
