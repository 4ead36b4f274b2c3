"""A 3x3 box blur in two one-dimensional passes; the border pixel repeats outwards."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import clamp, f32

THIRD = 0.3333333333333333


@loopfuse.kernel
def blur(img: f32["H", "W"]):
    H, W = img.shape
    rows = np.empty_like(img)
    smooth = np.empty_like(img)
    for y in range(H):
        for x in range(W):
            rows[y, x] = (img[y, clamp(x - 1, W)] + img[y, x] + img[y, clamp(x + 1, W)]) * THIRD
    for y in range(H):
        for x in range(W):
            # The same edge, written out.
            smooth[y, x] = (
                rows[min(max(y - 1, 0), H - 1), x] + rows[y, x] + rows[min(max(y + 1, 0), H - 1), x]
            ) * THIRD
    return smooth
