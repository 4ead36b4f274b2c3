"""Jacobi relaxation on a square, two half steps per turn (PolyBench's jacobi-2d)."""

from __future__ import annotations

import loopfuse
from loopfuse import f64


@loopfuse.kernel
def jacobi(a: f64["N", "N"], b: f64["N", "N"], steps: loopfuse.i64):
    N = len(a)
    for _ in range(steps):
        for i in range(1, N - 1):
            for j in range(1, N - 1):
                b[i, j] = 0.2 * (a[i, j] + a[i, j - 1] + a[i, j + 1] + a[i + 1, j] + a[i - 1, j])
        for i in range(1, N - 1):
            for j in range(1, N - 1):
                a[i, j] = 0.2 * (b[i, j] + b[i, j - 1] + b[i, j + 1] + b[i + 1, j] + b[i - 1, j])
