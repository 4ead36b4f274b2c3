"""Kernel objects with the whole compiler behind them, on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse import pipeline
from loopfuse.base.diagnostics import UserError
from loopfuse.proof.check import Verdict

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
SHIFT = """
kernel shift(x: f32[N], out y: f32[N], by: i64):
    temp t: f32[N]
    for i in 0..N:
        t[i] = 2.0 * x[i]
    for i in 0..N-by:
        y[i] = t[i + by]
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path))
    for name in ("LOOPFUSE_CACHE", "LOOPFUSE_DEBUG", "LOOPFUSE_FUEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def x() -> Any:
    return np.random.default_rng(5).random(100, np.float32)


def test_a_call_equals_the_reference(x: Any) -> None:
    kernel = loopfuse.loads(SHIFT)
    for by in (0, 1, 99):
        np.testing.assert_array_equal(kernel(x, by), kernel.reference(x, by))
        np.testing.assert_array_equal(kernel(x, by=by)[: 100 - by], 2 * x[by:])


def test_an_out_of_bounds_subscript_is_refused_before_anything_runs(x: Any) -> None:
    kernel = loopfuse.loads(SHIFT)
    y = np.full(100, 7, np.float32)
    with pytest.raises(UserError) as caught:
        kernel(x, y, -1)
    assert caught.value.diagnostics[0].code == "subscript-range"
    assert "by=-1" in str(caught.value) and "<string>:7" in str(caught.value)
    assert (y == 7).all()


@pytest.mark.parametrize("is_explained", [False, True])
def test_what_was_warned_of_is_told_again_by_the_disk_cache(
    x: Any, is_explained: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process hears that a plan was not proved, and not only the one that compiled."""
    def prove(*asked: Any) -> Any:
        return next(verdicts, None) or proof(*asked)

    proof, verdicts = pipeline.verify, iter([Verdict("unknown", ("too hard",))])
    monkeypatch.setattr(pipeline, "verify", prove)
    kernel = loopfuse.loads(SHIFT)
    with pytest.warns(UserWarning, match=r"of `shift` could not be proved \(too hard\)"):
        if is_explained:
            kernel.explain(target="cpu")
        else:
            kernel(x, 1)
    if is_explained:  # the plan that was explained is the one that is compiled
        kernel(x, 1)
    monkeypatch.delattr(pipeline, "compile_kernel")
    with pytest.warns(UserWarning, match=r"of `shift` could not be proved \(too hard\)"):
        loopfuse.loads(SHIFT)(x, 1)


def test_explain_takes_arrays_sizes_or_nothing(x: Any) -> None:
    kernel = loopfuse.load(EXAMPLES / "unsharp.lf")
    picture = np.zeros((8, 9), np.float32)
    for explained, sizes in (
        (kernel.explain(picture, 1.5), "H=8 W=9"),
        (kernel.explain(H=64, W=32), "H=64 W=32"),
        (kernel.explain(), "launches"),
    ):
        assert sizes in str(explained).splitlines()[0]
        assert explained.to_dict()["launches"]["before"] == 3
        assert "<table" in explained._repr_html_()


def test_dependences_verify_and_compile() -> None:
    kernel = loopfuse.loads(SHIFT)
    found = kernel.dependences({"N": 3, "by": 1}, instances=True)["dependences"]
    assert any(one["array"] == "t" and one["kind"] == "flow" for one in found)
    verified = kernel.verify()
    assert verified and "agree on 12 cases" in str(verified)
    ptx = kernel.compile("sm_90")
    assert ".target sm_90" in ptx.ptx and "gpu.module" in ptx.mlir and "define" in ptx.llvm
    assert kernel.compile("cpu").object.startswith(b"\x7fELF")


def test_strict_differs_from_fast_only_in_rounding(x: Any) -> None:
    text = "kernel k(x: f32[N], out y: f32[N]):\n    for i in 0..N:\n        y[i] = x[i]*x[i] - 0.3\n"
    fast, strict = loopfuse.loads(text), loopfuse.loads(text, fp="strict")
    np.testing.assert_array_equal(strict(x), x * x - np.float32(0.3))
    np.testing.assert_allclose(fast(x), strict(x), atol=1e-6)
    assert (fast(x) != strict(x)).any()


def test_unfused_is_the_same_in_every_bit(x: Any) -> None:
    kernel = loopfuse.load(EXAMPLES / "unsharp.lf")
    picture = np.random.default_rng(0).random((37, 41), np.float32)
    unfused = kernel.with_options(fuel=0)
    assert (kernel(picture, 1.5).view(np.uint32) == unfused(picture, 1.5).view(np.uint32)).all()


def test_debug_levels_print_to_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], x: Any
) -> None:
    monkeypatch.setenv("LOOPFUSE_DEBUG", "2")
    loopfuse.loads(SHIFT)(x, 1)
    said = capsys.readouterr()
    assert "== schedule" in said.err and "verify" in said.err and not said.out
    monkeypatch.setenv("LOOPFUSE_DEBUG", "loud")
    with pytest.raises(UserError, match="LOOPFUSE_DEBUG is `loud`"):
        loopfuse.loads(SHIFT)
