"""Maxwell's equations in two dimensions by finite differences in time (FDTD, as in PolyBench)."""

from __future__ import annotations

import loopfuse
from loopfuse import f64


@loopfuse.kernel
def fdtd_2d(ex: f64["N", "M"], ey: f64["N", "M"], hz: f64["N", "M"], source: f64["T"]):
    N, M = ex.shape
    for t in range(len(source)):
        for j in range(M):
            ey[0, j] = source[t]
        for i in range(1, N):
            for j in range(M):
                ey[i, j] = ey[i, j] - 0.5 * (hz[i, j] - hz[i - 1, j])
        for i in range(N):
            for j in range(1, M):
                ex[i, j] = ex[i, j] - 0.5 * (hz[i, j] - hz[i, j - 1])
        for i in range(N - 1):
            for j in range(M - 1):
                hz[i, j] = hz[i, j] - 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])
