"""y = max(scale * x, 0) + residual, as three loops over a matrix."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def scale_relu_add(x: f32["R", "C"], residual: f32["R", "C"], scale: f32):
    R, C = x.shape
    y = np.empty_like(x)
    scaled = np.empty_like(x)
    positive = np.empty_like(x)
    for r in range(R):
        for c in range(C):
            scaled[r, c] = scale * x[r, c]
    for r in range(R):
        for c in range(C):
            positive[r, c] = max(scaled[r, c], 0.0)
    for r in range(R):
        for c in range(C):
            y[r, c] = positive[r, c] + residual[r, c]
    return y
