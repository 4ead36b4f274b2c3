"""A 3x3 convolution that halves the image: stride 2, one pixel of zeros around."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def strided_conv(x: f32["N", "C", "H", "W"], weight: f32["K", "C", 3, 3], bias: f32["K"]):
    N, C, H, W = x.shape
    K = len(bias)
    y = np.empty((N, K, (H + 1) // 2, (W + 1) // 2), np.float32)
    for n in range(N):
        for k in range(K):
            for h in range((H + 1) // 2):
                for w in range((W + 1) // 2):
                    total = np.float32(0.0)
                    for c in range(C):
                        for r in range(3):
                            for s in range(3):
                                # `.zero` in the .lf text: what lies outside counts nothing.
                                if 0 <= 2 * h + r - 1 < H and 0 <= 2 * w + s - 1 < W:
                                    total += x[n, c, 2 * h + r - 1, 2 * w + s - 1] * weight[k, c, r, s]
                    y[n, k, h, w] = bias[k] + total
    return y
