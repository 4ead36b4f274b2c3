"""RMS normalisation of f16 activations, computed in f32."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f16, f32


@loopfuse.kernel
def rmsnorm(x: f16["R", "C"], weight: f16["C"], epsilon: f32):
    R, C = x.shape
    y = np.empty_like(x)
    for r in range(R):
        squares = np.float32(0.0)
        for c in range(C):
            squares += np.float32(x[r, c]) * np.float32(x[r, c])
        scale = loopfuse.rsqrt(squares / C + epsilon)
        for c in range(C):
            y[r, c] = np.float16(np.float32(x[r, c]) * scale * np.float32(weight[c]))
    return y
