"""A vibrating string: three time levels in two arrays, exchanged after every step."""

from __future__ import annotations

import loopfuse
from loopfuse import f64


@loopfuse.kernel
def wave(now: f64["N"], before: f64["N"], steps: loopfuse.i64, courant: f64):
    N = len(now)
    for _ in range(steps):
        for i in range(1, N - 1):
            before[i] = (
                2.0 * now[i] - before[i] + courant * (now[i + 1] - 2.0 * now[i] + now[i - 1])
            )
        now, before = before, now
