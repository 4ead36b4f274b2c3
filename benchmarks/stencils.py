"""Chains of stencils as plain Python functions: what `loopfuse.kernel` and `numba.njit` are given.

`prange` is the one word that differs: numba's for numba, loopfuse's (which is `range` to CPython)
here. Constants are f32, as numba takes a literal for f64.
"""

from __future__ import annotations

import numpy as np

from loopfuse import prange

THIRD = np.float32(1 / 3)
TWELFTH = np.float32(1 / 12)
SMALL, MIDDLE, LARGE = np.float32(0.0625), np.float32(0.25), np.float32(0.375)
TWO, WEIGHT, FIFTH = np.float32(2.0), np.float32(0.04), np.float32(0.2)


def blur(img, out):
    """A 3x3 box blur in two passes; the border pixel repeats outwards."""
    h, w = img.shape
    rows = np.empty_like(img)
    for y in prange(h):
        for x in range(w):
            rows[y, x] = (img[y, max(x - 1, 0)] + img[y, x] + img[y, min(x + 1, w - 1)]) * THIRD
    for y in prange(h):
        for x in range(w):
            out[y, x] = (rows[max(y - 1, 0), x] + rows[y, x] + rows[min(y + 1, h - 1), x]) * THIRD


def unsharp(img, out):
    """An unsharp mask of a 5x5 binomial blur."""
    h, w = img.shape
    rows = np.empty_like(img)
    soft = np.empty_like(img)
    for y in prange(h):
        for x in range(w):
            rows[y, x] = (
                SMALL * (img[y, max(x - 2, 0)] + img[y, min(x + 2, w - 1)])
                + MIDDLE * (img[y, max(x - 1, 0)] + img[y, min(x + 1, w - 1)])
                + LARGE * img[y, x]
            )
    for y in prange(h):
        for x in range(w):
            soft[y, x] = (
                SMALL * (rows[max(y - 2, 0), x] + rows[min(y + 2, h - 1), x])
                + MIDDLE * (rows[max(y - 1, 0), x] + rows[min(y + 1, h - 1), x])
                + LARGE * rows[y, x]
            )
    for y in prange(h):
        for x in range(w):
            out[y, x] = soft[y, x] + TWO * (img[y, x] - soft[y, x])


def harris(g, out):
    """Harris corners: Sobel gradients, their products, 3x3 sums, the response."""
    h, w = g.shape
    ix = np.empty_like(g)
    iy = np.empty_like(g)
    ixx = np.empty_like(g)
    iyy = np.empty_like(g)
    ixy = np.empty_like(g)
    sxx = np.empty_like(g)
    syy = np.empty_like(g)
    sxy = np.empty_like(g)
    for y in prange(1, h - 1):
        for x in range(1, w - 1):
            ix[y, x] = (g[y-1, x+1] - g[y-1, x-1] + TWO * (g[y, x+1] - g[y, x-1]) + g[y+1, x+1] - g[y+1, x-1]) * TWELFTH
            iy[y, x] = (g[y+1, x-1] - g[y-1, x-1] + TWO * (g[y+1, x] - g[y-1, x]) + g[y+1, x+1] - g[y-1, x+1]) * TWELFTH
    for y in prange(1, h - 1):
        for x in range(1, w - 1):
            ixx[y, x] = ix[y, x] * ix[y, x]
            iyy[y, x] = iy[y, x] * iy[y, x]
            ixy[y, x] = ix[y, x] * iy[y, x]
    for y in prange(2, h - 2):
        for x in range(2, w - 2):
            sxx[y, x] = ixx[y-1, x-1] + ixx[y-1, x] + ixx[y-1, x+1] + ixx[y, x-1] + ixx[y, x] + ixx[y, x+1] + ixx[y+1, x-1] + ixx[y+1, x] + ixx[y+1, x+1]
            syy[y, x] = iyy[y-1, x-1] + iyy[y-1, x] + iyy[y-1, x+1] + iyy[y, x-1] + iyy[y, x] + iyy[y, x+1] + iyy[y+1, x-1] + iyy[y+1, x] + iyy[y+1, x+1]
            sxy[y, x] = ixy[y-1, x-1] + ixy[y-1, x] + ixy[y-1, x+1] + ixy[y, x-1] + ixy[y, x] + ixy[y, x+1] + ixy[y+1, x-1] + ixy[y+1, x] + ixy[y+1, x+1]
    for y in prange(2, h - 2):
        for x in range(2, w - 2):
            trace = sxx[y, x] + syy[y, x]
            out[y, x] = sxx[y, x] * syy[y, x] - sxy[y, x] * sxy[y, x] - WEIGHT * trace * trace


def jacobi(a, b):
    """Sixteen 5-point sweeps, to the other array and back."""
    h, w = a.shape
    for _ in range(8):
        for y in prange(1, h - 1):
            for x in range(1, w - 1):
                b[y, x] = FIFTH * (a[y, x] + a[y, x-1] + a[y, x+1] + a[y+1, x] + a[y-1, x])
        for y in prange(1, h - 1):
            for x in range(1, w - 1):
                a[y, x] = FIFTH * (b[y, x] + b[y, x-1] + b[y, x+1] + b[y+1, x] + b[y-1, x])


CASES = {
    "separable 3x3 blur": blur,
    "unsharp 5x5": unsharp,
    "Harris corners": harris,
    "Jacobi 5-point, 16 sweeps": jacobi,
}
