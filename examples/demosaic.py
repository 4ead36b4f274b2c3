"""Bilinear demosaicing of an RGGB sensor image, mirrored at the border."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import reflect, u8


@loopfuse.kernel
def demosaic(raw: u8["H", "W"]):
    H, W = raw.shape
    rgb = np.empty((H, W, 3), np.uint8)
    for y in range(H):
        for x in range(W):
            here = np.int32(raw[y, x])
            across = np.int32(raw[y, reflect(x - 1, W)]) + np.int32(raw[y, reflect(x + 1, W)])
            along = np.int32(raw[reflect(y - 1, H), x]) + np.int32(raw[reflect(y + 1, H), x])
            corners = (
                np.int32(raw[reflect(y - 1, H), reflect(x - 1, W)])
                + np.int32(raw[reflect(y - 1, H), reflect(x + 1, W)])
                + np.int32(raw[reflect(y + 1, H), reflect(x - 1, W)])
                + np.int32(raw[reflect(y + 1, H), reflect(x + 1, W)])
            )
            if y % 2 == 0 and x % 2 == 0:  # red
                rgb[y, x, 0] = np.uint8(here)
                rgb[y, x, 1] = np.uint8((across + along + 2) // 4)
                rgb[y, x, 2] = np.uint8((corners + 2) // 4)
            elif y % 2 == 0:  # green between reds
                rgb[y, x, 0] = np.uint8((across + 1) // 2)
                rgb[y, x, 1] = np.uint8(here)
                rgb[y, x, 2] = np.uint8((along + 1) // 2)
            elif x % 2 == 0:  # green between blues
                rgb[y, x, 0] = np.uint8((along + 1) // 2)
                rgb[y, x, 1] = np.uint8(here)
                rgb[y, x, 2] = np.uint8((across + 1) // 2)
            else:  # blue
                rgb[y, x, 0] = np.uint8((corners + 2) // 4)
                rgb[y, x, 1] = np.uint8((across + along + 2) // 4)
                rgb[y, x, 2] = np.uint8(here)
    return rgb
