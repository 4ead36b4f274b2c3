"""The assignment step of k-means: each point's nearest centre, and the square of its distance."""

from __future__ import annotations

import math

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def kmeans_assign(points: f32["N", "D"], centres: f32["K", "D"]):
    N, D = points.shape
    K = centres.shape[0]
    assert K >= 1
    label = np.empty(N, np.int32)
    squared = np.empty(N, np.float32)
    distance = np.empty((N, K), np.float32)
    for n in range(N):
        for k in range(K):
            square = np.float32(0.0)
            for d in range(D):
                square += (points[n, d] - centres[k, d]) ** 2
            distance[n, k] = square
    for n in range(N):
        # What `argmin` is in the .lf text: the first of the smallest.
        nearest = np.float32(math.inf)
        which = np.int32(0)
        for k in range(K):
            if distance[n, k] < nearest:
                nearest = distance[n, k]
                which = np.int32(k)
        label[n] = which
        squared[n] = nearest
    return label, squared
