"""Tuning as a user asks for it: the decorator, `load`, and `loopfuse bench`."""

from __future__ import annotations

import io
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base import progress
from loopfuse.base.diagnostics import UserError
from loopfuse.base.options import Tuning
from loopfuse.cli import _run
from loopfuse.tuning import session
from loopfuse.tuning.remember import Tuned
from loopfuse.tuning.search import Trial

SAXPY = """\
kernel saxpy(x: f32[N], inout y: f32[N], a: f32):
    for i in 0..N:
        y[i] = a * x[i] + y[i]
"""
FOUND = Tuned(
    Tuning(columns=512), 0.5, 1.0, 2, True, 30.0,
    (Trial(Tuning(), 1.0), Trial(Tuning(columns=512), 0.5), Trial(Tuning(rows=8), None, "too much")),
)  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("LOOPFUSE_CACHE", "LOOPFUSE_DEBUG", "LOOPFUSE_FUEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("loopfuse.commands.bench.SECONDS_EACH", 0.01)
    (tmp_path / "saxpy.lf").write_text(SAXPY)
    (tmp_path / "two.lf").write_text(SAXPY + "\n" + SAXPY.replace("saxpy", "again"))
    return tmp_path


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str, file: str = "saxpy.lf") -> tuple[int, str, str]:
        capsys.readouterr()
        code = _run(["bench", file, "--target", "cpu", "--size", "N=1000", *arguments])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every search finds `FOUND`; the budgets that were given."""
    budgets: list[float] = []

    def search(job: Any, budget: float, progress: Any) -> Tuned:
        budgets.append(budget)
        return FOUND

    monkeypatch.setattr(session, "_search", search)
    return budgets


# ---------------------------------------------------------------------------------------- python


@loopfuse.kernel(tune=True, tune_budget=5)
def double(x):
    y = np.empty_like(x)
    for i in range(len(x)):
        y[i] = 2.0 * x[i]
    return y


def test_the_decorator(found: list[float]) -> None:
    x = np.arange(100, dtype=np.float32)
    assert np.array_equal(double(x), 2 * x) and found == [5.0]
    assert np.array_equal(double(x + 1), 2 * x + 2) and found == [5.0]
    assert double.tune(x).tuning == FOUND.tuning and len(found) == 1
    assert np.array_equal(double(x[:10]), 2 * x[:10]) and len(found) == 2  # another size class
    assert double.with_options(tune=False, tune_budget=7.0)(x).shape == x.shape and len(found) == 2


def test_calls_after_the_search_take_the_fast_path(found: list[float]) -> None:
    kernel = loopfuse.loads(SAXPY, tune=True)
    x, y = np.ones(100, np.float32), np.zeros(100, np.float32)
    for _ in range(3):
        kernel(x, y, 2.0)
    assert (y == 6.0).all() and len(kernel.call_paths.paths) == 1
    long = [np.ones(100_000, np.float32) for _ in range(2)]
    kernel(*long, 2.0)
    assert (long[1] == 3.0).all() and len(found) == 2


def test_the_plan_of_a_call_is_the_tuned_one(
    found: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    from loopfuse import pipeline

    planned: list[Tuning] = []
    plain = pipeline.plan_kernel

    def plan(program: Any, name: str, options: Any, run: Any = None) -> Any:
        planned.append(options.tuning)
        return plain(program, name, options, run)

    monkeypatch.setattr(pipeline, "plan_kernel", plan)
    kernel = loopfuse.loads(SAXPY, tune=True)
    call = np.ones(100, np.float32), np.zeros(100, np.float32), 2.0
    kernel.explain(*call)
    kernel.tune(*call)
    kernel.explain(*call)
    assert planned == [Tuning(), FOUND.tuning]


def test_load_takes_it_too(found: list[float]) -> None:
    kernel = loopfuse.load("saxpy.lf", tune=True, tune_budget=2.5)
    kernel(np.ones(10, np.float32), np.ones(10, np.float32), 1.0)
    kernel.with_options(tune_budget=3.5)(np.ones(10, np.float32), np.ones(10, np.float32), 1.0)
    assert found == [2.5], "the second finds what the first has remembered"


def test_errors_of_the_call_come_first() -> None:
    kernel = loopfuse.loads(SAXPY, tune=True)
    with pytest.raises(UserError, match=r"size-mismatch|must be"):
        kernel(np.ones(10, np.float32), np.ones(9, np.float32), 1.0)
    with pytest.raises(UserError):
        kernel.tune(np.ones(10, np.float32), np.ones(10, np.float64), 1.0)


@pytest.mark.parametrize("budget", [0, -1.0, float("nan"), float("inf"), "long", True, None])
def test_a_bad_budget(budget: Any) -> None:
    with pytest.raises(UserError) as told:
        loopfuse.loads(SAXPY, tune=True, tune_budget=budget)
    assert told.value.diagnostics[0].code == "bad-budget"
    with pytest.raises(UserError):
        loopfuse.kernel(tune_budget=budget)(double.reference)


def test_tune_is_a_truth_value() -> None:
    for door in (
        lambda: loopfuse.loads(SAXPY, tune="yes"),
        lambda: loopfuse.kernel(tune=1)(double.reference),
    ):
        with pytest.raises(UserError) as told:
            door()
        assert told.value.diagnostics[0].code == "kernel-option"


# ------------------------------------------------------------------------------------------ bench


def test_a_table_with_the_tuning(bench: Any, found: list[float]) -> None:
    code, out, _ = bench("--tune", "--budget", "7")
    lines = out.splitlines()
    assert code == 0 and found == [7.0]
    assert [line.split()[0] for line in lines[2:6]] == ["fused", "tuned", "unfused", "copy"]
    assert lines[1].split() == ["median", "moved", "rate", "of", "copy", "launches"]
    assert "100%" in lines[5] and any("of its 12.0 kB" in line for line in lines[6:])
    (said,) = [line for line in lines if line.startswith("  tuning")]
    assert re.fullmatch(
        r"  tuning   columns=512: .*(as fast as|slower than) the default \(2 choices tried\)", said
    )


def test_nothing_to_choose(bench: Any) -> None:
    code, out, _ = bench("--tune")
    assert code == 0 and "nothing to choose" in out.splitlines()[-1]


def test_json(bench: Any, found: list[float]) -> None:
    code, out, _ = bench("--tune", "--format", "json")
    data = json.loads(out)
    assert code == 0 and found == [session.BUDGET]
    assert data["schema"] == 1 and data["kernel"] == "saxpy" and data["sizes"]["N"] == 1000
    assert data["perfect_bytes"] == 12000
    forms = {one["form"]: one for one in data["forms"]}
    assert list(forms) == ["fused", "tuned", "unfused", "copy"]
    for one in forms.values():
        assert one["bytes_per_second"] == pytest.approx(12000 / one["seconds"])
        assert one["share_of_copy"] == pytest.approx(forms["copy"]["seconds"] / one["seconds"])
    tuning = data["tuning"]
    assert tuning["found"]["columns"] == 512 and tuning["complete"]
    # What the search saw is not what is printed: both forms are measured again, in turns.
    assert tuning["gain"] == pytest.approx(forms["fused"]["seconds"] / forms["tuned"]["seconds"])
    assert [one["problem"] for one in tuning["trials"]] == [None, None, "too much"]


def test_json_of_a_file_of_several(bench: Any) -> None:
    code, out, _ = bench("--format", "json", file="two.lf")
    data = json.loads(out)
    assert code == 0 and [one["kernel"] for one in data] == ["saxpy", "again"]
    assert all(one["tuning"] is None for one in data)
    alone = json.loads(bench("--format", "json", "--kernel", "again", file="two.lf")[1])
    assert alone["kernel"] == "again"


@pytest.mark.parametrize("arguments", [
    ("--budget", "3"), ("--tune", "--budget", "0"), ("--tune", "--budget", "-2"), ("--tune", "--budget", "nan"),
])  # fmt: skip
def test_bad_budgets_on_the_command_line(bench: Any, arguments: tuple[str, ...]) -> None:
    code, out, err = bench(*arguments)
    assert code == 2 and not out and "error[bad-budget]" in err


def test_a_budget_that_is_no_number_is_bad_usage(bench: Any) -> None:
    assert bench("--tune", "--budget", "long")[0] == 2


def test_a_tuning_that_computes_something_else(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        session, "_search", lambda *given: replace(FOUND, wrong=("rows=8: element 3 of `y` is 1",))
    )
    with pytest.warns(UserWarning, match="tuning-differs"):
        code, out, err = bench("--tune")
    assert code == 70 and "bug[tuning-differs]" in err
    assert out.splitlines()[-1] == "  DIFFERS  rows=8: element 3 of `y` is 1"


# --------------------------------------------------------------------------------------- progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    "terminal, patience, drawn", [(True, 0.0, True), (True, 60.0, False), (False, 0.0, False)]
)
def test_the_bar(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, patience: float, drawn: bool
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", patience)
    monkeypatch.setenv("TERM", "xterm")
    screen = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    with progress.progress_bar("tuning blur") as tell:
        tell(0.1, "columns=4")
        tell(0.5, "columns=8")
    assert ("tuning blur" in screen.getvalue()) == drawn
    assert bool(screen.getvalue()) == drawn
