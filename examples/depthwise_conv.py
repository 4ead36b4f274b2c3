"""Depthwise 3x3 convolution with zero padding, then ReLU6."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def depthwise_conv(x: f32["N", "C", "H", "W"], weight: f32["C", 3, 3], bias: f32["C"]):
    N, C, H, W = x.shape
    y = np.empty_like(x)
    filtered = np.empty_like(x)
    for n in range(N):
        for c in range(C):
            for h in range(H):
                for w in range(W):
                    total = np.float32(0.0)
                    for r in range(3):
                        for s in range(3):
                            if 0 <= h + r - 1 < H and 0 <= w + s - 1 < W:
                                total += x[n, c, h + r - 1, w + s - 1] * weight[c, r, s]
                    filtered[n, c, h, w] = bias[c] + total
    for n in range(N):
        for c in range(C):
            for h in range(H):
                for w in range(W):
                    y[n, c, h, w] = min(max(filtered[n, c, h, w], 0.0), 6.0)
    return y
