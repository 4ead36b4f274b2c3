"""Batch normalisation at inference, ReLU, and a skip connection, in NCHW order."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def batchnorm_relu_add(
    x: f32["N", "C", "H", "W"],
    skip: f32["N", "C", "H", "W"],
    mean: f32["C"],
    variance: f32["C"],
    gamma: f32["C"],
    beta: f32["C"],
    epsilon: f32,
):
    N, C, H, W = x.shape
    y = np.empty_like(x)
    factor = np.empty_like(mean)
    offset = np.empty_like(mean)
    for c in range(C):
        factor[c] = gamma[c] / np.sqrt(variance[c] + epsilon)
        offset[c] = beta[c] - mean[c] * factor[c]
    normal = np.empty_like(x)
    for n in range(N):
        for c in range(C):
            for h in range(H):
                for w in range(W):
                    normal[n, c, h, w] = x[n, c, h, w] * factor[c] + offset[c]
    positive = np.empty_like(x)
    for n in range(N):
        for c in range(C):
            for h in range(H):
                for w in range(W):
                    positive[n, c, h, w] = max(normal[n, c, h, w], 0.0)
    for n in range(N):
        for c in range(C):
            for h in range(H):
                for w in range(W):
                    y[n, c, h, w] = positive[n, c, h, w] + skip[n, c, h, w]
    return y
