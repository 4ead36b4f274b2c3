"""Five statistics of one array in one pass."""

from __future__ import annotations

import math

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def stats(x: f32["N"]):
    N = len(x)
    mean = np.empty(1, np.float32)
    variance = np.empty(1, np.float32)
    smallest = np.empty(1, np.float32)
    largest = np.empty(1, np.float32)
    length = np.empty(1, np.float32)
    total = np.float32(0.0)
    for i in range(N):
        total += x[i]
    squares = np.float32(0.0)
    for i in range(N):
        squares += x[i] * x[i]
    low = np.float32(math.inf)
    for i in range(N):
        low = min(low, x[i])
    high = np.float32(-math.inf)
    for i in range(N):
        high = max(high, x[i])
    mean[0] = total / N
    variance[0] = squares / N - total / N * (total / N)
    smallest[0] = low
    largest[0] = high
    length[0] = np.sqrt(squares)
    return mean, variance, smallest, largest, length
