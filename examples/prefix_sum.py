"""Inclusive prefix sum: every element needs the one before."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def prefix_sum(x: f32["N"]):
    y = np.empty_like(x)
    for i in range(len(x)):
        if i == 0:
            y[i] = x[i]
        else:
            y[i] = y[i - 1] + x[i]
    return y
