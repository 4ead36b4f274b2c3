"""How often each bin occurs. Two elements may fall into one bin, so the loop runs in order."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32, i32


@loopfuse.kernel
def histogram(x: f32["N"], count: i32["B"]):
    B = len(count)
    for i in range(len(x)):
        count[min(max(np.int32(x[i] * np.float32(B)), 0), np.int32(B) - 1)] += 1
