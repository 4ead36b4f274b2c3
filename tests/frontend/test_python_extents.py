"""Extents that are equal at the first call are one size, until a call's are not."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import UserError


def product(A: Any, x: Any, y: Any) -> None:
    H, W = A.shape
    for i in range(H):
        s = 0.0
        for j in range(W):
            s += A[i, j] * x[j]
        y[i] = s


def run(kernel: Any, rows: int, columns: int) -> None:
    random = np.random.default_rng(rows + 31 * columns)
    A, x, y = random.random((rows, columns)), random.random(columns), np.full(rows, np.nan)
    kernel(A, x, y)
    np.testing.assert_allclose(y, A @ x)


def made(kernel: Any) -> list[Any]:
    (found,) = kernel._kernels.values()
    return found


def test_a_kernel_for_each_way_in_which_extents_are_equal() -> None:
    kernel = loopfuse.kernel(product)
    run(kernel, 5, 5)
    assert made(kernel)[0].signature.sizes == ("H",)
    run(kernel, 9, 9)
    assert len(made(kernel)) == 1
    run(kernel, 5, 7)
    assert made(kernel)[1].signature.sizes == ("H", "W")
    for rows, columns in ((8, 3), (5, 5), (1, 1), (1, 6), (6, 1)):
        run(kernel, rows, columns)
    assert len(made(kernel)) == 2


def test_the_report_says_so_and_sizes_by_name_are_those_of_any_shape() -> None:
    kernel = loopfuse.kernel(product)
    run(kernel, 4, 4)
    assert "A[H, H], x[H], y[H] as at the first call" in " ".join(str(kernel.explain()).split())
    assert "first call" not in str(kernel.explain(H=100, W=50))
    assert kernel.explain(H=100, W=50).to_dict()["traffic"]["after"]["value"] == 8 * (5000 + 150)
    run(kernel, 4, 5)


def test_arrays_that_do_not_go_together_are_refused_as_ever() -> None:
    kernel = loopfuse.kernel(product)
    run(kernel, 4, 4)
    with pytest.raises(UserError, match="subscript-range"):
        kernel(np.ones((4, 4)), np.ones(3), np.ones(4))
    run(kernel, 4, 4)


def test_a_specialised_kernel_is_sent_with_what_it_takes_to_be_equal() -> None:
    kernel = loopfuse.kernel(product)
    one = np.ones((4, 4))
    kernel(one, one[0].copy(), np.ones(4))
    again = pickle.loads(pickle.dumps(kernel.specialise()))
    assert again.equal and again.signature.sizes == ("H",)
    assert kernel.specialise().with_options(fp="strict").equal == again.equal


def test_annotated_extents_are_as_annotated() -> None:
    def scale(x: loopfuse.f64["N"], y: loopfuse.f64["M"]) -> None:
        for i in range(len(x)):
            y[i] = 2.0 * x[i]

    kernel = loopfuse.kernel(scale)
    kernel(np.ones(4), np.ones(4))
    assert kernel.specialise().signature.sizes == ("N", "M")


def test_many_arrays_of_one_shape_need_nothing() -> None:
    """A step of an ocean model's kind: without the sizes being one, every pair would be compared."""

    def step(u: Any, v: Any, h: Any, fx: Any, fy: Any, out: Any) -> None:
        H, W = u.shape
        for j in range(1, H - 1):
            for i in range(1, W - 1):
                fx[j, i] = u[j, i] * (h[j, i] + h[j, i + 1])
                fy[j, i] = v[j, i] * (h[j, i] + h[j + 1, i])
        for j in range(1, H - 1):
            for i in range(1, W - 1):
                out[j, i] = h[j, i] - 0.1 * (fx[j, i] - fx[j, i - 1] + fy[j, i] - fy[j - 1, i])

    def arrays() -> list[Any]:
        return [np.random.default_rng(k).random((7, 9)) for k in range(6)]

    kernel, given, expected = loopfuse.kernel(step, fp="strict"), arrays(), arrays()
    kernel(*given)
    step(*expected)
    assert all(np.array_equal(one, other) for one, other in zip(given, expected))
    assert kernel.specialise().signature.sizes == ("H", "W")
    assert kernel.explain().report.preconditions[:-1] == ()


def test_the_report_says_which_type_a_sum_took() -> None:
    @loopfuse.kernel
    def variance(x, y):
        total = 0.0
        for i in range(len(x)):
            total += x[i]
        count = 0
        for i in range(len(x)):
            count += 1
        y[0] = total
        y[1] = count

    x = np.ones(5, np.float32)
    report = variance.explain(x, np.zeros(2, np.float32))
    said = "`total` is f32: it starts as a Python number, and is updated with f32 values"
    assert report.report.typed == (said,)
    assert "Type      `total` is f32" in str(report) and "count" not in report.report.typed[0]
    assert "`</code>" not in report._repr_html_() and "is f32: it starts" in report._repr_html_()
    assert "typed" not in report.to_dict()
