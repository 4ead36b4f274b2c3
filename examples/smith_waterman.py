"""Smith-Waterman local alignment: the best match of some part of a with some part of b."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import i32, u8


@loopfuse.kernel
def smith_waterman(a: u8["N"], b: u8["M"], match: i32, mismatch: i32, gap: i32):
    N = len(a)
    M = len(b)
    score = np.empty((N + 1, M + 1), np.int32)
    best = np.empty(1, np.int32)
    for i in range(N + 1):
        score[i, 0] = 0
    for j in range(1, M + 1):
        score[0, j] = 0
    for i in range(1, N + 1):
        for j in range(1, M + 1):
            diagonal = score[i - 1, j - 1] + (match if a[i - 1] == b[j - 1] else mismatch)
            score[i, j] = max(diagonal, score[i - 1, j] - gap, score[i, j - 1] - gap, 0)
    best[0] = 0
    for i in range(N + 1):
        for j in range(M + 1):
            best[0] = max(best[0], score[i, j])
    return score, best
