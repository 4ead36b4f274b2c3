"""Forward substitution: solve L x = b for many right-hand sides, L lower triangular."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f64


@loopfuse.kernel
def triangular_solve(L: f64["N", "N"], b: f64["N", "R"]):
    N, R = b.shape
    x = np.empty_like(b)
    for r in range(R):
        for i in range(N):
            known = 0.0
            for k in range(i):
                known += L[i, k] * x[k, r]
            x[i, r] = (b[i, r] - known) / L[i, i]
    return x
