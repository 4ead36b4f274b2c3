"""Two independent loops that read the same array: fused side by side, x is read once."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def branches(x: f32["N"]):
    square = np.empty_like(x)
    decay = np.empty_like(x)
    for i in range(len(x)):
        square[i] = x[i] * x[i]
    for i in range(len(x)):
        decay[i] = np.exp(-x[i])
    return square, decay
