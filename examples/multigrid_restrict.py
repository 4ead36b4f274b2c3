"""Multigrid, down: the residual of Poisson's equation, restricted by full weighting."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f64


@loopfuse.kernel
def multigrid_restrict(u: f64["H", "W"], f: f64["H", "W"], spacing: f64):
    H, W = u.shape
    assert H % 2 == 1 and W % 2 == 1
    coarse = np.empty(((H + 1) // 2, (W + 1) // 2))
    residual = np.empty((H, W))
    for i in range(1, H - 1):
        for j in range(1, W - 1):
            residual[i, j] = f[i, j] - (
                4.0 * u[i, j] - u[i - 1, j] - u[i + 1, j] - u[i, j - 1] - u[i, j + 1]
            ) / (spacing * spacing)
    for i in range((H + 1) // 2):
        for j in range((W + 1) // 2):
            if 0 < i < (H - 1) // 2 and 0 < j < (W - 1) // 2:
                straight = (
                    residual[2 * i - 1, 2 * j]
                    + residual[2 * i + 1, 2 * j]
                    + residual[2 * i, 2 * j - 1]
                    + residual[2 * i, 2 * j + 1]
                )
                corners = (
                    residual[2 * i - 1, 2 * j - 1]
                    + residual[2 * i - 1, 2 * j + 1]
                    + residual[2 * i + 1, 2 * j - 1]
                    + residual[2 * i + 1, 2 * j + 1]
                )
                coarse[i, j] = 0.25 * residual[2 * i, 2 * j] + 0.125 * straight + 0.0625 * corners
            else:
                coarse[i, j] = 0.0
    return coarse
