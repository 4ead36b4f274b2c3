"""Tuning on this machine's CPU, end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse import pipeline
from loopfuse.base.options import Options, Tuning
from loopfuse.cli import _run
from loopfuse.tuning import space

TEXT = """\
kernel sharpen(img: f32[H, W], inout seen: f32[H, W], out sharp: f32[H, W]):
    temp rows: f32[H, W]
    temp blur: f32[H, W]
    for y in 0..H, x in 0..W:
        rows[y, x] = 0.0625*(img.clamp[y, x-2] + img.clamp[y, x+2]) + 0.25*(img.clamp[y, x-1] + img.clamp[y, x+1]) + 0.375*img[y, x]
    for y in 0..H, x in 0..W:
        blur[y, x] = 0.0625*(rows.clamp[y-2, x] + rows.clamp[y+2, x]) + 0.25*(rows.clamp[y-1, x] + rows.clamp[y+1, x]) + 0.375*rows[y, x]
    for y in 0..H, x in 0..W:
        sharp[y, x] = 2.0*img[y, x] - blur[y, x]
    nofuse:
        for y in 0..H, x in 0..W:
            seen[y, x] = seen[y, x] + sharp[y, x]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("LOOPFUSE_CACHE", "LOOPFUSE_DEBUG", "LOOPFUSE_FUEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(space, "CPU", {"columns": (64, 128), "rows": (16, 64), "windows": (0, 1)})
    program = loopfuse.loads(TEXT).program()
    if not pipeline.find_choices(program, "sharpen", Options()).streams:
        pytest.skip("this loopfuse keeps no lines on the CPU: there is nothing to choose")
    return tmp_path


def call() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    return random.random((150, 333), np.float32), random.random((150, 333), np.float32)


def test_found_used_and_the_same_bits() -> None:
    image, seen = call()
    kept = image.copy(), seen.copy()
    expected = seen.copy()
    sharp = loopfuse.loads(TEXT)(image, expected)
    kernel = loopfuse.loads(TEXT, tune=True, tune_budget=60.0)
    found = kernel.tune(image, seen)
    assert found.complete and not found.wrong and found.tried >= 3 and found.gain >= 1.0
    assert all(trial.seconds is not None for trial in found.trials), "each was verified and timed"
    assert np.array_equal(image, kept[0]) and np.array_equal(seen, kept[1])
    tuned = kernel(image, seen)
    assert tuned.tobytes() == sharp.tobytes() and seen.tobytes() == expected.tobytes()


def test_every_trial_runs_other_code() -> None:
    kernel = loopfuse.loads(TEXT)
    image, seen = call()
    results: set[bytes] = set()
    codes: set[bytes] = set()
    for tuning in (Tuning(), Tuning(columns=64), Tuning(rows=16), Tuning(windows=False)):
        other = kernel.with_options(tuning=tuning)
        codes.add(other.compile("cpu", emit=("object",)).object)
        results.add(other(image, seen.copy()).tobytes())
    assert len(results) == 1 and len(codes) == 4


def test_the_command_line(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loopfuse.commands.bench.SECONDS_EACH", 0.01)
    file = folder / "sharpen.lf"
    file.write_text(TEXT)
    arguments = ["bench", str(file), "--target", "cpu", "--size", "H=100,W=200", "--tune",
                 "--budget", "60", "--format", "json"]  # fmt: skip
    for remembered in (False, True):
        assert _run(arguments) == 0
        data = json.loads(capsys.readouterr().out)
        tuning = data["tuning"]
        assert tuning["remembered"] == remembered and tuning["wrong"] == []
        assert data["perfect_bytes"] == 100 * 200 * 4 * 4
        assert bool(tuning["trials"]) != remembered
    assert tuning["tried"] >= 3 and tuning["complete"]
