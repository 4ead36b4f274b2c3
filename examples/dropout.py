"""Dropout whose random numbers come from a counter: Philox 4x32-10.

Under CPython, NumPy warns where the keys wrap around; that they do is meant.
"""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32, u64

MULTIPLIER_0 = 0xD2511F53
MULTIPLIER_1 = 0xCD9E8D57
WEYL_0 = 0x9E3779B9
WEYL_1 = 0xBB67AE85


def uniform(word):
    """The 24 high bits as a number in [0, 1): an f32 holds them exactly."""
    return np.float32(word >> 8) * 5.9604644775390625e-08


@loopfuse.kernel
def dropout(x: f32["N"], keep: f32, seed: u64, offset: u64):
    N = len(x)
    y = np.empty_like(x)
    for group in range((N + 3) // 4):
        c0 = np.uint32(group)
        c1 = np.uint32(0)
        c2 = np.uint32(offset & 0xFFFFFFFF)
        c3 = np.uint32(offset >> 32)
        key0 = np.uint32(seed & 0xFFFFFFFF)
        key1 = np.uint32(seed >> 32)
        for _ in range(10):
            product0 = np.uint64(c0) * MULTIPLIER_0
            product1 = np.uint64(c2) * MULTIPLIER_1
            c0 = np.uint32(product1 >> 32) ^ c1 ^ key0
            c1 = np.uint32(product1 & 0xFFFFFFFF)
            c2 = np.uint32(product0 >> 32) ^ c3 ^ key1
            c3 = np.uint32(product0 & 0xFFFFFFFF)
            key0 += WEYL_0
            key1 += WEYL_1
        y[4 * group] = x[4 * group] / keep if uniform(c0) < keep else 0.0
        if 4 * group + 1 < N:
            y[4 * group + 1] = x[4 * group + 1] / keep if uniform(c1) < keep else 0.0
        if 4 * group + 2 < N:
            y[4 * group + 2] = x[4 * group + 2] / keep if uniform(c2) < keep else 0.0
        if 4 * group + 3 < N:
            y[4 * group + 3] = x[4 * group + 3] / keep if uniform(c3) < keep else 0.0
    return y
