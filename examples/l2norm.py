"""The Euclidean length of a vector."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def l2norm(x: f32["N"]):
    norm = np.empty(1, np.float32)
    total = np.float32(0.0)
    for i in range(len(x)):
        total += x[i] * x[i]
    norm[0] = np.sqrt(total)
    return norm
