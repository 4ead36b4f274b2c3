"""Harris corners: Sobel gradients, their products, 3x3 sums, and the response."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def harris(g: f32["H", "W"]):
    H, W = g.shape
    response = np.zeros_like(g)
    ix = np.empty_like(g)
    iy = np.empty_like(g)
    for y in range(1, H - 1):
        for x in range(1, W - 1):
            ix[y, x] = (
                -g[y - 1, x - 1] + g[y - 1, x + 1] - 2.0 * g[y, x - 1]
                + 2.0 * g[y, x + 1] - g[y + 1, x - 1] + g[y + 1, x + 1]
            ) / 12.0
    for y in range(1, H - 1):
        for x in range(1, W - 1):
            iy[y, x] = (
                -g[y - 1, x - 1] + g[y + 1, x - 1] - 2.0 * g[y - 1, x]
                + 2.0 * g[y + 1, x] - g[y - 1, x + 1] + g[y + 1, x + 1]
            ) / 12.0
    ixx = np.empty_like(g)
    iyy = np.empty_like(g)
    ixy = np.empty_like(g)
    for y in range(1, H - 1):
        for x in range(1, W - 1):
            ixx[y, x] = ix[y, x] * ix[y, x]
            iyy[y, x] = iy[y, x] * iy[y, x]
            ixy[y, x] = ix[y, x] * iy[y, x]
    sxx = np.empty_like(g)
    syy = np.empty_like(g)
    sxy = np.empty_like(g)
    for y in range(2, H - 2):
        for x in range(2, W - 2):
            sxx[y, x] = (
                ixx[y - 1, x - 1] + ixx[y - 1, x] + ixx[y - 1, x + 1]
                + ixx[y, x - 1] + ixx[y, x] + ixx[y, x + 1]
                + ixx[y + 1, x - 1] + ixx[y + 1, x] + ixx[y + 1, x + 1]
            )
    for y in range(2, H - 2):
        for x in range(2, W - 2):
            syy[y, x] = (
                iyy[y - 1, x - 1] + iyy[y - 1, x] + iyy[y - 1, x + 1]
                + iyy[y, x - 1] + iyy[y, x] + iyy[y, x + 1]
                + iyy[y + 1, x - 1] + iyy[y + 1, x] + iyy[y + 1, x + 1]
            )
    for y in range(2, H - 2):
        for x in range(2, W - 2):
            sxy[y, x] = (
                ixy[y - 1, x - 1] + ixy[y - 1, x] + ixy[y - 1, x + 1]
                + ixy[y, x - 1] + ixy[y, x] + ixy[y, x + 1]
                + ixy[y + 1, x - 1] + ixy[y + 1, x] + ixy[y + 1, x + 1]
            )
    for y in range(2, H - 2):
        for x in range(2, W - 2):
            trace = sxx[y, x] + syy[y, x]
            response[y, x] = sxx[y, x] * syy[y, x] - sxy[y, x] * sxy[y, x] - 0.04 * trace * trace
    return response
