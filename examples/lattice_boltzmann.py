"""Lattice Boltzmann in two dimensions with nine velocities (D2Q9), periodic at all borders."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32, i64, wrap

CX = (0, 1, 0, -1, 0, 1, -1, -1, 1)
CY = (0, 0, 1, 0, -1, 1, 1, -1, -1)
WEIGHT = (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36)


@loopfuse.kernel
def lattice_boltzmann(f: f32[9, "H", "W"], next: f32[9, "H", "W"], omega: f32, steps: i64):
    _, H, W = f.shape
    for _ in range(steps):
        for y in range(H):
            for x in range(W):
                g = np.empty(9, np.float32)
                for k in range(9):
                    g[k] = f[k, wrap(y - CY[k], H), wrap(x - CX[k], W)]
                density = np.float32(0.0)
                for k in range(9):
                    density += g[k]
                along = np.float32(0.0)
                for k in range(9):
                    along += np.float32(CX[k]) * g[k]
                u = along / density
                across = np.float32(0.0)
                for k in range(9):
                    across += np.float32(CY[k]) * g[k]
                v = across / density
                energy = 1.5 * (u * u + v * v)
                for k in range(9):
                    c = 3.0 * (np.float32(CX[k]) * u + np.float32(CY[k]) * v)
                    equilibrium = WEIGHT[k] * density * (1.0 + c + 0.5 * c * c - energy)
                    next[k, y, x] = g[k] + omega * (equilibrium - g[k])
        f, next = next, f
