"""A dense layer: matrix product, bias, ReLU."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def matmul_bias_relu(a: f32["M", "K"], b: f32["K", "N"], bias: f32["N"]):
    M, K = a.shape
    N = len(bias)
    c = np.empty((M, N), np.float32)
    product = np.empty((M, N), np.float32)
    biased = np.empty((M, N), np.float32)
    for i in range(M):
        for j in range(N):
            product[i, j] = 0.0
            for k in range(K):
                product[i, j] += a[i, k] * b[k, j]
    for i in range(M):
        for j in range(N):
            biased[i, j] = product[i, j] + bias[j]
    for i in range(M):
        for j in range(N):
            c[i, j] = max(biased[i, j], 0.0)
    return c
