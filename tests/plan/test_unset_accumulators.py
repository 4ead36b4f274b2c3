"""Reductions into temporaries that perhaps nothing has set: no bug, but the program's own order."""

from __future__ import annotations

import numpy as np
import pytest

import loopfuse

TEXT = """kernel k(a: f32[N], inout b: f32[N], x: f32[M]):
    temp t: f32[N]
    for i in 0..N:
        for j in 0..M:
            t[i] = 1.0
    for i in 0..N:
        b[i] = b.reflect[i+1] * sum(p in 0..N: f32(p) - t[i])
        for j in i + 1..N:
            t[i] max= {operand}
    for i in 0..N:
        b[i] += t[i]
"""


@pytest.mark.parametrize("operand", ["a[j]", "t[j]"])
def test_it_is_compiled_in_order(operand: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPFUSE_CACHE", "0")
    kernel = loopfuse.loads(TEXT.format(operand=operand), target="cpu")
    a, b = np.random.default_rng(0).random((2, 6), np.float32)
    wanted, t = b.copy(), np.ones(6, np.float32)
    for i in range(6):
        wanted[i] = wanted[i + 1 if i < 5 else 4] * np.float32(sum(p - float(t[i]) for p in range(6)))
        for j in range(i + 1, 6):
            t[i] = max(t[i], a[j] if operand == "a[j]" else t[j])
    wanted += t
    with pytest.warns(UserWarning, match="could( not)? be proved"):
        kernel(a, b, np.zeros(3, np.float32))
    np.testing.assert_allclose(b, wanted, rtol=1e-5)
