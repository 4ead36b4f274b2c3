"""Two serial sweeps that may not share a loop as they stand."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f64


@loopfuse.kernel
def gauss_seidel(b: f64["N"], x: f64["N"]):
    N = len(x)
    residual = np.zeros_like(b)
    for i in range(1, N - 1):
        x[i] = 0.5 * (b[i] + x[i - 1] + x[i + 1])
    for i in range(1, N - 1):
        residual[i] = b[i] - (2.0 * x[i] - x[i - 1] - x[i + 1])
    return residual
