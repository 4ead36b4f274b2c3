"""h[t] = a[t] * h[t-1] + b[t] along time, for every batch and channel on its own."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def linear_recurrence(a: f32["B", "T", "D"], b: f32["B", "T", "D"], start: f32["B", "D"]):
    B, T, D = a.shape
    h = np.empty_like(a)
    for n in range(B):
        for d in range(D):
            state = start[n, d]
            for t in range(T):
                state = a[n, t, d] * state + b[n, t, d]
                h[n, t, d] = state
    return h
