"""The selective scan of Mamba: a linear recurrence whose coefficients depend on the input."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32

S = 4


@loopfuse.kernel
def selective_scan(
    x: f32["B", "T", "D"],
    delta: f32["B", "T", "D"],
    a: f32["D", S],
    b: f32["B", "T", S],
    c: f32["B", "T", S],
    skip: f32["D"],
):
    B, T, D = x.shape
    y = np.empty_like(x)
    for n in range(B):
        for d in range(D):
            h = np.empty(S, np.float32)
            for s in range(S):
                h[s] = 0.0
            for t in range(T):
                for s in range(S):
                    h[s] = (
                        np.exp(delta[n, t, d] * a[d, s]) * h[s]
                        + delta[n, t, d] * b[n, t, s] * x[n, t, d]
                    )
                state = np.float32(0.0)
                for s in range(S):
                    state += c[n, t, s] * h[s]
                y[n, t, d] = state + skip[d] * x[n, t, d]
    return y
