"""Causal attention: a query sees the keys up to its own position; the loops are triangular."""

from __future__ import annotations

import math

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def causal_attention(
    q: f32["H", "T", "D"], k: f32["H", "T", "D"], v: f32["H", "T", "D"], scale: f32
):
    H, T, D = q.shape
    y = np.empty_like(q)
    scores = np.empty((H, T, T), np.float32)
    weights = np.empty((H, T, T), np.float32)
    for h in range(H):
        for i in range(T):
            for j in range(i + 1):
                dot = np.float32(0.0)
                for d in range(D):
                    dot += q[h, i, d] * k[h, j, d]
                scores[h, i, j] = scale * dot
    for h in range(H):
        for i in range(T):
            m = np.float32(-math.inf)
            for j in range(i + 1):
                m = max(m, scores[h, i, j])
            s = np.float32(0.0)
            for j in range(i + 1):
                s += np.exp(scores[h, i, j] - m)
            for j in range(i + 1):
                weights[h, i, j] = np.exp(scores[h, i, j] - m) / s
    for h in range(H):
        for i in range(T):
            for d in range(D):
                mixed = np.float32(0.0)
                for j in range(i + 1):
                    mixed += weights[h, i, j] * v[h, j, d]
                y[h, i, d] = mixed
    return y
