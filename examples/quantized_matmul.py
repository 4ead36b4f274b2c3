"""Dequantise, multiply, quantise: an i8 matrix product with f32 scales."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32, i8


@loopfuse.kernel
def quantized_matmul(
    a: i8["M", "K"], b: i8["K", "N"], a_scale: f32, b_scale: f32["N"], c_scale: f32
):
    M, K = a.shape
    N = len(b_scale)
    c = np.empty((M, N), np.int8)
    total = np.empty((M, N), np.int64)
    real = np.empty((M, N), np.float32)
    for m in range(M):
        for n in range(N):
            products = np.int64(0)
            for k in range(K):
                products += np.int32(a[m, k]) * np.int32(b[k, n])
            total[m, n] = products
    for m in range(M):
        for n in range(N):
            real[m, n] = np.float32(total[m, n]) * (a_scale * b_scale[n])
    for m in range(M):
        for n in range(N):
            c[m, n] = np.int8(min(max(np.round(real[m, n] / c_scale), -128.0), 127.0))
    return c
