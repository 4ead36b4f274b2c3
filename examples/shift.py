"""The second loop needs what the first wrote one iteration earlier: a fusion with a shift of 1."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def shift(x: f32["N"]):
    N = len(x)
    doubled = np.empty_like(x)
    moved = np.zeros_like(x)
    for i in range(N):
        doubled[i] = 2.0 * x[i]
    for i in range(1, N):
        moved[i] = doubled[i - 1] + 1.0
    return doubled, moved
