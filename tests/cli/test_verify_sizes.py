"""`verify` finds sizes for kernels that no small ones fit."""

from __future__ import annotations

import pytest

import loopfuse
from loopfuse.base.diagnostics import UserError
from loopfuse.kernels import verify

FIXED = "kernel k(x: f32[60, 70], out y: f32[60, 70]):\n    for i in 0..60, j in 0..70:\n        y[i, j] = x[i, j] + 1.0\n"
PARAMETER = "kernel k(x: f32[N], out y: f32[N], n: i64):\n    assume n >= 10\n    for i in 0..N:\n        y[i] = x[i] + f32(n)\n"
LARGE = "kernel k(x: f32[N], out y: f32[N]):\n    assume N >= 5000\n    for i in 0..N:\n        y[i] = x[i]\n"
ROWS = "kernel k(x: f32[N, 128], out y: f32[N, 128]):\n    assume N % 48 == 0 and N >= 1\n    for i in 0..N, j in 0..128:\n        y[i, j] = x[i, j]\n"


@pytest.mark.parametrize(("text", "cases"), [(FIXED, 1), (PARAMETER, 12), (LARGE, 3), (ROWS, 2)])
def test_kernels_that_no_small_sizes_fit(text: str, cases: int) -> None:
    found = loopfuse.loads(text, target="cpu").verify()
    assert found
    assert found.cases >= cases


def test_sizes_that_are_given_may_be_large() -> None:
    kernel = loopfuse.loads(PARAMETER.replace("    assume n >= 10\n", ""), target="cpu")
    assert verify.verify_kernel(kernel, {"N": 4096}).cases >= 1


def test_sizes_that_no_machine_interprets() -> None:
    kernel = loopfuse.loads(FIXED.replace("60", "60000").replace("70", "70000"), target="cpu")
    with pytest.raises(UserError, match="more than 16777216 elements"):
        kernel.verify()
