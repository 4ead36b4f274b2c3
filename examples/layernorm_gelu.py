"""Residual, layer normalisation and GELU over the columns of each row."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32

ROOT_HALF = 0.7071067811865476


def gelu(v):
    """The exact GELU; `loopfuse.erf` is an f32 for an f32, where `math.erf` is a Python float."""
    return 0.5 * v * (1.0 + loopfuse.erf(v * ROOT_HALF))


@loopfuse.kernel
def layernorm_gelu(
    x: f32["R", "C"], residual: f32["R", "C"], gamma: f32["C"], beta: f32["C"], epsilon: f32
):
    R, C = x.shape
    y = np.empty_like(x)
    v = np.empty_like(x)
    for r in range(R):
        for c in range(C):
            v[r, c] = x[r, c] + residual[r, c]
    for r in range(R):
        total = np.float32(0.0)
        for c in range(C):
            total += v[r, c]
        mean = total / C
        squares = np.float32(0.0)
        for c in range(C):
            squares += (v[r, c] - mean) ** 2
        scale = loopfuse.rsqrt(squares / C + epsilon)
        for c in range(C):
            y[r, c] = gelu((v[r, c] - mean) * scale * gamma[c] + beta[c])
    return y
