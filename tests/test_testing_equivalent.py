"""loopfuse.testing.assert_equivalent: every form agrees, a planted difference is found and named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_testing import example, refused, said, smooth_and_blend

import loopfuse
from loopfuse.testing import assert_equivalent
from loopfuse.testing import forms as testing_forms
from loopfuse.testing.forms import find_difference

SWEEPS = """
kernel sweeps(inout a: f64[N, M], inout b: f64[N, M], steps: i64):
    for t in 0..steps:
        for i in 0..N, j in 0..M:
            b[i, j] = 0.5 * a[i, j]
        for i in 0..N, j in 0..M:
            a[i, j] = a[i, j] + b[i, M-1-j]
"""
SCALE = """
kernel scale(x: f32[N], out y: f32[N]):
    for i in 0..N:
        y[i] = 2.0 * x[i]
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder: Path = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(folder))


@pytest.mark.parametrize("name", ["blur", "jacobi", "csr_matvec", "histogram", "softmax"])
def test_examples_on_random_data(name: str) -> None:
    assert_equivalent(example(name))


def test_on_arguments_which_stay_as_they_are() -> None:
    sweeps = loopfuse.loads(SWEEPS)
    a, b = np.random.default_rng(0).random((2, 9, 9))
    before = a.copy(), b.copy()
    assert_equivalent(sweeps, a, b, 3)
    assert_equivalent(sweeps, a, b=b, steps=2, target="cpu")
    np.testing.assert_array_equal((a, b), before)
    assert_equivalent(loopfuse.loads(SCALE), np.array([np.nan, np.inf, -0.0], np.float32))


def test_against_a_function_that_returns_or_writes() -> None:
    scale = loopfuse.loads(SCALE)
    x = np.arange(5, dtype=np.float32)
    assert_equivalent(scale, x, against=lambda x: 2 * x)
    assert_equivalent(scale, x, np.ones_like(x), against=lambda x, y: 2 * x)

    def writes(x: Any, y: Any) -> None:
        y[...] = x + x

    assert_equivalent(scale, x, np.ones_like(x), against=writes)
    assert_equivalent(scale, against=writes)
    assert_equivalent(scale, against=lambda values: values + values)  # by position
    assert_equivalent(scale, against=lambda **given: 2 * given["x"])


def test_a_python_kernel_against_cpython() -> None:
    strict = loopfuse.kernel(smooth_and_blend.reference, fp="strict", reassociate=False)
    x = np.random.default_rng(3).random(64, np.float32)
    t = np.float32(0.3)
    assert_equivalent(strict, x, t, args=(x, t))

    def reference(x: Any, t: Any) -> Any:
        found = np.zeros_like(x)
        found[1:-1] = smooth_and_blend.reference(x, t)[1:-1]
        return found

    assert_equivalent(strict, x, t, against=reference)
    assert_equivalent(strict, against=reference)


def test_how_a_difference_from_a_reference_reads() -> None:
    scale = loopfuse.loads(SCALE)
    x = np.arange(4, dtype=np.float32)
    assert said(assert_equivalent, scale, x, against=lambda x: x * np.float32(2) + (x > 1)) == (
        "`scale` differs from its reference\n\n"
        "  `y` differs in 2 of 4 elements, first at y[2]\n"
        "    kernel     4.0\n"
        "    reference  5.0"
    )
    text = said(assert_equivalent, scale, x, against=lambda x: x * 2.5, rtol=0.1)
    assert text.startswith("`scale` differs from its reference by more than rtol=0.1, atol=0\n")
    text = said(assert_equivalent, scale, x, against=lambda x: x[1:])
    assert "`y` has the shapes (4) and (3)" in text


def test_a_planted_miscompile_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code that is wrong in one element, for one size."""
    real = testing_forms.run_kernel

    def wrong(kernel: Any, arguments: Any, on_gpu: bool) -> Any:
        done = real(kernel, arguments, on_gpu)
        if kernel.options(kernel._target).fuel is None and arguments["x"].size > 3:
            arguments["y"][3] += 1
        return done

    monkeypatch.setattr(testing_forms, "run_kernel", wrong)
    assert said(assert_equivalent, loopfuse.loads(SCALE), np.arange(6, dtype=np.float32)) == (
        "the forms of `scale` differ\n\n"
        "  `y` differs in 1 of 6 elements, first at y[3]\n"
        "    fused, compiled for the CPU  7.0\n"
        "    interpreted                  6.0\n"
        "  agree: interpreted; unfused, compiled for the CPU; fused, the sm_80 plan\n"
        "    interpreted"
    )
    text = said(assert_equivalent, loopfuse.loads(SCALE), seed=7)
    assert text.splitlines()[-1].startswith("  on random data at N=")
    assert text.endswith("(seed=7)")


def test_a_wrong_gpu_plan_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from loopfuse.tree.interp import run as tree_interp

    real = tree_interp.run_tree

    def wrong(tree: Any, arguments: Any, *rest: Any, **more: Any) -> None:
        real(tree, arguments, *rest, **more)
        arguments["y"][...] = -arguments["y"]

    monkeypatch.setattr(tree_interp, "run_tree", wrong)
    text = said(assert_equivalent, loopfuse.loads(SCALE), np.zeros(3, np.float32))
    assert "`y` differs in 3 of 3 elements, first at y[0]" in text
    assert "    fused, the sm_80 plan interpreted  -0.0\n" in text
    assert_equivalent(loopfuse.loads(SCALE), np.zeros(3, np.float32), target="cpu")


def test_a_reassociated_sum_is_compared_to_rounding() -> None:
    text = "kernel total(x: f32[N], out y: f32[1]):\n    y[0] = sum(i in 0..N: x[i])\n"
    x = np.random.default_rng(0).random(3000, np.float32)
    assert_equivalent(loopfuse.loads(text), x, target="cpu")
    kernel = loopfuse.loads(text)
    assert_equivalent(kernel, x, target="cpu", against=lambda x: x.sum(keepdims=True), rtol=1e-5)
    said(assert_equivalent, kernel, x, target="cpu", against=lambda x: x[:1], rtol=1e-5)


def test_calls_that_make_no_sense() -> None:
    scale = loopfuse.loads(SCALE)
    x = np.ones(4, np.float32)
    assert refused(assert_equivalent, scale, x.astype(np.float64))[0] == "wrong-dtype"
    code, text = refused(assert_equivalent, scale, against=lambda a, b, c: a)
    assert code == "reference-arguments" and "takes a, b, c, the kernel x" in text
    assert refused(assert_equivalent, scale, x, against=lambda x: None)[0] == (
        "reference-returns-nothing"
    )
    assert refused(assert_equivalent, scale, x, against=lambda x: (x, x))[0] == "reference-results"
    assert refused(assert_equivalent, scale, sizes={"M": 3})[0] == "unknown-argument"


def test_differences_bit_by_bit() -> None:
    one = np.array([[0.0, np.nan], [1.0, 2.0]], np.float32)
    other = np.array([[0.0, -np.nan], [1.0, 2.0]], np.float32)
    assert find_difference("a", one, other) is None
    other[1, 0] = np.nextafter(np.float32(1), np.float32(2))
    found = find_difference("a", one, other)
    assert found and found.element == (1, 0) and found.values == ("1.0", "1.0000001")
    assert find_difference("a", one, other, rtol=1e-6) is None
    assert find_difference("a", np.float32(0.0), np.float32(-0.0))
    assert find_difference("a", np.arange(3), np.arange(3, dtype=np.int32)) is None
    assert find_difference("a", np.zeros((0, 3)), np.zeros((0, 3))) is None
