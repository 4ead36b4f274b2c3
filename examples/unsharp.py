"""Sharpen an image: two stencil stages and a blend, written as three plain loops."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import clamp, f32


def lerp(a, b, t):
    """From `a` to `b`, by `t`."""
    return a + t * (b - a)


@loopfuse.kernel
def unsharp(img: f32["H", "W"], amount: f32):
    H, W = img.shape
    sharp = np.empty_like(img)
    rows = np.empty_like(img)
    blur = np.empty_like(img)
    for y in range(H):
        for x in range(W):
            rows[y, x] = (
                0.0625 * (img[y, clamp(x - 2, W)] + img[y, clamp(x + 2, W)])
                + 0.25 * (img[y, clamp(x - 1, W)] + img[y, clamp(x + 1, W)])
                + 0.375 * img[y, x]
            )
    for y in range(H):
        for x in range(W):
            blur[y, x] = (
                0.0625 * (rows[clamp(y - 2, H), x] + rows[clamp(y + 2, H), x])
                + 0.25 * (rows[clamp(y - 1, H), x] + rows[clamp(y + 1, H), x])
                + 0.375 * rows[y, x]
            )
    for y in range(H):
        for x in range(W):
            sharp[y, x] = lerp(blur[y, x], img[y, x], 1.0 + amount)
    return sharp
