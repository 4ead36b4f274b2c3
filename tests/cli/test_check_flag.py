"""`--check lazy|sync|off` of `compile` and `run`: how subscripts that depend on data are tested."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from loopfuse.cli import _run

GATHER = """\
kernel gather(x: f32[N], at: i64[M], out y: f32[M]):
    for i in 0..M:
        y[i] = x[at[i]]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "gather.lf").write_text(GATHER)
    np.save("x.npy", np.arange(4, dtype=np.float32))
    np.save("good.npy", np.array([3, 0, 2], np.int64))
    np.save("bad.npy", np.array([3, 0, 4], np.int64))
    return tmp_path


def test_run_tells_of_a_bad_subscript_unless_it_is_off(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for flags in ((), ("--check", "lazy"), ("--check", "sync")):
        assert _run(["run", "gather.lf", "x=x.npy", "at=bad.npy", *flags]) == 1
        assert "subscript-out-of-range" in capsys.readouterr().err
    assert (
        _run(["run", "gather.lf", "x=x.npy", "at=good.npy", "--check", "off", "--save", "y=y.npy"])
        == 0
    )
    assert np.load("y.npy").tolist() == [3, 0, 2]


def test_compile_writes_it_into_the_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    sizes: dict[str, int] = {}
    for check in ("lazy", "sync", "off"):
        assert _run(["compile", "gather.lf", "--target", "sm_80", "--check", check]) == 0
        assert json.loads(Path("gather.json").read_text())["check"] == check
        sizes[check] = len(Path("gather.ptx").read_text())
    assert sizes["off"] < sizes["lazy"]  # nothing is tested
    assert _run(["compile", "gather.lf", "--check", "never"]) == 2
    assert "'never' is not one of 'lazy', 'sync', 'off'" in capsys.readouterr().err
