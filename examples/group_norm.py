"""Group normalisation: groups of channels, normalised over their channels and pixels."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def group_norm(
    x: f32["N", "G", "C", "P"], gamma: f32["G", "C"], beta: f32["G", "C"], epsilon: f32
):
    N, G, C, P = x.shape
    y = np.empty_like(x)
    for n in range(N):
        for g in range(G):
            total = np.float32(0.0)
            for c in range(C):
                for p in range(P):
                    total += x[n, g, c, p]
            mean = total / (C * P)
            squares = np.float32(0.0)
            for c in range(C):
                for p in range(P):
                    squares += (x[n, g, c, p] - mean) ** 2
            scale = loopfuse.rsqrt(squares / (C * P) + epsilon)
            for c in range(C):
                for p in range(P):
                    y[n, g, c, p] = (x[n, g, c, p] - mean) * scale * gamma[g, c] + beta[g, c]
    return y
