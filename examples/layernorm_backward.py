"""The backward pass of layer normalisation: gradients of the input and of both parameters."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def layernorm_backward(
    x: f32["R", "C"], dy: f32["R", "C"], gamma: f32["C"], mean: f32["R"], scale: f32["R"]
):
    R, C = x.shape
    dx = np.empty_like(x)
    dgamma = np.empty_like(gamma)
    dbeta = np.empty_like(gamma)
    normal = np.empty_like(x)
    for r in range(R):
        for c in range(C):
            normal[r, c] = (x[r, c] - mean[r]) * scale[r]
    for r in range(R):
        total = np.float32(0.0)
        for c in range(C):
            total += dy[r, c] * gamma[c]
        slope = np.float32(0.0)
        for c in range(C):
            slope += dy[r, c] * gamma[c] * normal[r, c]
        for c in range(C):
            dx[r, c] = scale[r] * (dy[r, c] * gamma[c] - (total + normal[r, c] * slope) / C)
    for c in range(C):
        scales = np.float32(0.0)
        for r in range(R):
            scales += dy[r, c] * normal[r, c]
        shifts = np.float32(0.0)
        for r in range(R):
            shifts += dy[r, c]
        dgamma[c] = scales
        dbeta[c] = shifts
    return dx, dgamma, dbeta
