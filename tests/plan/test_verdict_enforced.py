"""Code is made only of what the checker proved, or of the program's own order."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import loopfuse
from loopfuse import pipeline
from loopfuse.base.diagnostics import InternalError
from loopfuse.proof.check import Verdict

BLUR = """
kernel blur(x: f32[N], out y: f32[N]):
    temp t: f32[N]
    for i in 0..N:
        t[i] = 2.0 * x[i]
    for i in 0..N:
        y[i] = t.clamp[i-1] + t.clamp[i+1]
"""


def answer(monkeypatch: pytest.MonkeyPatch, *answers: str) -> None:
    """What the checker says, in turn; the last for ever."""
    left = list(answers)

    def verdict(*_: object) -> Verdict:
        now = left.pop(0) if len(left) > 1 else left[0]
        return Verdict(now, () if now == "proved" else (f"it is {now}",), 0)

    monkeypatch.setattr(pipeline, "verify", verdict)
    monkeypatch.setenv("LOOPFUSE_CACHE", "0")


def run_blur() -> tuple[list[str], np.ndarray]:
    """What a call warned of, and its result for 0, 1, 2, ..."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = loopfuse.loads(BLUR)(np.arange(6, dtype=np.float32))
    assert all(one.filename == __file__ for one in caught)
    return [str(one.message) for one in caught], y


EXPECTED = [2.0, 4.0, 8.0, 12.0, 16.0, 18.0]


@pytest.mark.parametrize("fuel", ["", "0"])
@pytest.mark.parametrize("target", ["cpu", "sm_90"])
def test_what_is_rejected_is_not_compiled(
    fuel: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fuel:
        monkeypatch.setenv("LOOPFUSE_FUEL", fuel)
    answer(monkeypatch, "wrong")
    with pytest.raises(InternalError, match=r"every schedule was rejected \(it is wrong\)"):
        loopfuse.loads(BLUR).compile(target)


def test_what_is_undecided_runs_in_program_order(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, "unknown")
    said, y = run_blur()
    assert said == [
        "no schedule of `blur` could be proved (it is unknown); it is compiled as it is written, "
        "for one thread"
    ]
    np.testing.assert_array_equal(y, EXPECTED)


@pytest.mark.parametrize("first", ["wrong", "unknown"])
def test_one_warning_says_what_is_used(first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the unfused kernels were not proved either."""
    answer(monkeypatch, first, "unknown", "proved")
    said, y = run_blur()
    assert len(said) == 1 and f"(it is {first})" in said[0]
    assert "it runs in program order, by one thread" in said[0]
    np.testing.assert_array_equal(y, EXPECTED)


def test_a_proof_of_the_unfused_kernels_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, "wrong", "proved")
    said, y = run_blur()
    assert len(said) == 1 and "wrongly and noticed" in said[0]
    assert "the unfused kernels are used" in said[0]
    np.testing.assert_array_equal(y, EXPECTED)
