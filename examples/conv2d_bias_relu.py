"""A 2-D convolution without padding, its bias and ReLU."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def conv2d_bias_relu(x: f32["N", "C", "H", "W"], weight: f32["K", "C", "R", "S"], bias: f32["K"]):
    N, C, H, W = x.shape
    K, _, R, S = weight.shape
    high = H - R + 1
    wide = W - S + 1
    y = np.empty((N, K, high, wide), np.float32)
    product = np.empty((N, K, high, wide), np.float32)
    biased = np.empty((N, K, high, wide), np.float32)
    for n in range(N):
        for k in range(K):
            for h in range(high):
                for w in range(wide):
                    total = np.float32(0.0)
                    for c in range(C):
                        for r in range(R):
                            for s in range(S):
                                total += x[n, c, h + r, w + s] * weight[k, c, r, s]
                    product[n, k, h, w] = total
    for n in range(N):
        for k in range(K):
            for h in range(high):
                for w in range(wide):
                    biased[n, k, h, w] = product[n, k, h, w] + bias[k]
    for n in range(N):
        for k in range(K):
            for h in range(high):
                for w in range(wide):
                    y[n, k, h, w] = max(biased[n, k, h, w], 0.0)
    return y
