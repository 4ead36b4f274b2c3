"""Fusion through a transpose: the second loop reads `flipped` with its subscripts exchanged."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def transpose_add(a: f32["M", "N"], b: f32["N", "M"]):
    M, N = a.shape
    c = np.empty_like(a)
    flipped = np.empty_like(b)
    for j in range(N):
        for i in range(M):
            flipped[j, i] = 2.0 * a[i, j]
    for i in range(M):
        for j in range(N):
            c[i, j] = flipped[j, i] + b[j, i]
    return c
