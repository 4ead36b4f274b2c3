"""Multigrid, up: the coarse grid's correction, interpolated bilinearly and added."""

from __future__ import annotations

import loopfuse
from loopfuse import f64


@loopfuse.kernel
def multigrid_prolong(coarse: f64["N", "M"], u: f64["2*N - 1", "2*M - 1"]):
    N, M = coarse.shape
    for i in range(N):
        for j in range(M):
            u[2 * i, 2 * j] += coarse[i, j]
    for i in range(N - 1):
        for j in range(M):
            u[2 * i + 1, 2 * j] += 0.5 * (coarse[i, j] + coarse[i + 1, j])
    for i in range(N):
        for j in range(M - 1):
            u[2 * i, 2 * j + 1] += 0.5 * (coarse[i, j] + coarse[i, j + 1])
    for i in range(N - 1):
        for j in range(M - 1):
            u[2 * i + 1, 2 * j + 1] += 0.25 * (
                coarse[i, j] + coarse[i + 1, j] + coarse[i, j + 1] + coarse[i + 1, j + 1]
            )
