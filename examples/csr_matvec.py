"""A sparse matrix in compressed rows, times a vector, then a residual: one pass over the rows."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32, i32


@loopfuse.kernel
def csr_matvec(start: i32["R+1"], column: i32["Z"], value: f32["Z"], x: f32["C"], b: f32["R"]):
    R = len(b)
    residual = np.empty_like(b)
    product = np.empty_like(b)
    for r in range(R):
        total = np.float32(0)
        for k in range(start[r], start[r + 1]):
            total += value[k] * x[column[k]]
        product[r] = total
    for r in range(R):
        residual[r] = b[r] - product[r]
    return residual
