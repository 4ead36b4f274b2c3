"""The tail of a transformer's feed-forward layer: bias, exact GELU, residual."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32

ROOT_HALF = 0.7071067811865476


def gelu(v):
    """The exact GELU; `loopfuse.erf` is an f32 for an f32, where `math.erf` is a Python float."""
    return 0.5 * v * (1.0 + loopfuse.erf(v * ROOT_HALF))


@loopfuse.kernel
def bias_gelu_residual(x: f32["R", "C"], bias: f32["C"], residual: f32["R", "C"]):
    R, C = x.shape
    y = np.empty_like(x)
    biased = np.empty_like(x)
    activated = np.empty_like(x)
    for r in range(R):
        for c in range(C):
            biased[r, c] = x[r, c] + bias[c]
    for r in range(R):
        for c in range(C):
            activated[r, c] = gelu(biased[r, c])
    for r in range(R):
        for c in range(C):
            y[r, c] = activated[r, c] + residual[r, c]
    return y
