"""The same softmax as an array library computes it: one loop per step, statistics in arrays."""

from __future__ import annotations

import math

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def softmax_loops(x: f32["R", "C"]):
    R, C = x.shape
    y = np.empty_like(x)
    m = np.empty(R, np.float32)
    e = np.empty_like(x)
    s = np.empty(R, np.float32)
    for r in range(R):
        m[r] = -math.inf
        for c in range(C):
            m[r] = max(m[r], x[r, c])
    for r in range(R):
        for c in range(C):
            e[r, c] = np.exp(x[r, c] - m[r])
    for r in range(R):
        s[r] = 0.0
        for c in range(C):
            s[r] += e[r, c]
    for r in range(R):
        for c in range(C):
            y[r, c] = e[r, c] / s[r]
    return y
