"""The smallest useful kernel: y = a * x + y, in place."""

from __future__ import annotations

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def saxpy(x: f32["N"], y: f32["N"], a: f32):
    for i in range(len(x)):
        y[i] = a * x[i] + y[i]
