"""A bilateral filter: a 5x5 blur that stops at edges."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import clamp, f32


@loopfuse.kernel
def bilateral(img: f32["H", "W"], space: f32, tone: f32):
    H, W = img.shape
    smooth = np.empty_like(img)
    for y in range(H):
        for x in range(W):
            weights = np.float32(0.0)
            total = np.float32(0.0)
            for dy in range(-2, 3):
                for dx in range(-2, 3):
                    v = img[clamp(y + dy, H), clamp(x + dx, W)]
                    d = v - img[y, x]
                    w = np.exp(-(space * (dy * dy + dx * dx) + tone * d * d))
                    weights += w
                    total += w * v
            smooth[y, x] = total / weights
    return smooth
