"""The second loop counts down; it is parallel, so it may run forwards beside the first."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def reversed(x: f32["N"]):
    N = len(x)
    y = np.empty_like(x)
    squared = np.empty_like(x)
    for i in range(N):
        squared[i] = x[i] * x[i]
    for i in range(N - 1, -1, -1):
        y[i] = squared[i] + 1.0
    return y
