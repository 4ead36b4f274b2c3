"""Rotary position embedding (RoPE): pairs (d, d + D/2) turned by an angle of their position."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def rope(
    q: f32["B", "T", "H", "D"],
    k: f32["B", "T", "H", "D"],
    cosine: f32["T", "D // 2"],
    sine: f32["T", "D // 2"],
):
    B, T, H, D = q.shape
    assert D % 2 == 0
    half = D // 2
    q_turned = np.empty_like(q)
    k_turned = np.empty_like(k)
    for b in range(B):
        for t in range(T):
            for h in range(H):
                for d in range(half):
                    q_turned[b, t, h, d] = (
                        q[b, t, h, d] * cosine[t, d] - q[b, t, h, d + half] * sine[t, d]
                    )
                    q_turned[b, t, h, d + half] = (
                        q[b, t, h, d + half] * cosine[t, d] + q[b, t, h, d] * sine[t, d]
                    )
    for b in range(B):
        for t in range(T):
            for h in range(H):
                for d in range(half):
                    k_turned[b, t, h, d] = (
                        k[b, t, h, d] * cosine[t, d] - k[b, t, h, d + half] * sine[t, d]
                    )
                    k_turned[b, t, h, d + half] = (
                        k[b, t, h, d + half] * cosine[t, d] + k[b, t, h, d] * sine[t, d]
                    )
    return q_turned, k_turned
