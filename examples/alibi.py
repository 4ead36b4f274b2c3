"""Attention weights with linear biases (ALiBi), computed where they are added."""

from __future__ import annotations

import math

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def alibi(scores: f32["H", "T", "T"], slope: f32["H"]):
    H, T, _ = scores.shape
    weights = np.empty_like(scores)
    biased = np.empty_like(scores)
    for h in range(H):
        for i in range(T):
            for j in range(T):
                biased[h, i, j] = scores[h, i, j] - slope[h] * abs(i - j)
    for h in range(H):
        for i in range(T):
            m = np.float32(-math.inf)
            for j in range(T):
                m = max(m, biased[h, i, j])
            s = np.float32(0.0)
            for j in range(T):
                s += np.exp(biased[h, i, j] - m)
            for j in range(T):
                weights[h, i, j] = np.exp(biased[h, i, j] - m) / s
    return weights
