"""Well-known programs beside PolyBench's and Livermore's, as plain Python functions. What is an example already is not
here again: Smith-Waterman, the periodic lattice Boltzmann method, multigrid's restriction and prolongation, the
product with a matrix in compressed rows, the assignment step of k-means."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import wrap

CX = (0, 1, 0, -1, 0, 1, -1, -1, 1)
CY = (0, 0, 1, 0, -1, 1, 1, -1, -1)
BACK = (0, 3, 4, 1, 2, 7, 8, 5, 6)
WEIGHT = (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36)


@loopfuse.kernel
def lattice_boltzmann_walls(f, after, solid, omega, steps):
    _, H, W = f.shape
    for _ in range(steps):
        for y in range(H):
            for x in range(W):
                g = np.empty(9, f.dtype)
                for k in range(9):
                    if solid[wrap(y - CY[k], H), wrap(x - CX[k], W)]:
                        g[k] = f[BACK[k], y, x]
                    else:
                        g[k] = f[k, wrap(y - CY[k], H), wrap(x - CX[k], W)]
                density = f.dtype.type(0.0)
                for k in range(9):
                    density += g[k]
                along = f.dtype.type(0.0)
                for k in range(9):
                    along += f.dtype.type(CX[k]) * g[k]
                u = along / density
                across = f.dtype.type(0.0)
                for k in range(9):
                    across += f.dtype.type(CY[k]) * g[k]
                v = across / density
                energy = 1.5 * (u * u + v * v)
                for k in range(9):
                    c = 3.0 * (f.dtype.type(CX[k]) * u + f.dtype.type(CY[k]) * v)
                    equilibrium = WEIGHT[k] * density * (1.0 + c + 0.5 * c * c - energy)
                    if solid[y, x]:
                        after[k, y, x] = f[k, y, x]
                    else:
                        after[k, y, x] = g[k] + omega * (equilibrium - g[k])
        f, after = after, f


@loopfuse.kernel
def multigrid_smooth(u, f, spacing):
    N, M = u.shape
    for colour in range(2):
        for i in range(1, N - 1):
            for j in range(1, M - 1):
                if (i + j) % 2 == colour:
                    u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] + spacing * spacing * f[i, j])


@loopfuse.kernel
def multigrid_residual(u, f, r, spacing):
    N, M = u.shape
    for i in range(N):
        for j in range(M):
            r[i, j] = 0.0
    for i in range(1, N - 1):
        for j in range(1, M - 1):
            bend = 4.0 * u[i, j] - u[i - 1, j] - u[i + 1, j] - u[i, j - 1] - u[i, j + 1]
            r[i, j] = f[i, j] - bend / (spacing * spacing)


@loopfuse.kernel
def spmv_ell(column, value, x):
    N, K = value.shape
    y = np.empty(N, value.dtype)
    for i in range(N):
        total = value.dtype.type(0.0)
        for k in range(K):
            if column[i, k] >= 0:
                total += value[i, k] * x[column[i, k]]
        y[i] = total
    return y


@loopfuse.kernel
def kmeans_update(points, label, centres):
    N, D = points.shape
    K = len(centres)
    total = np.zeros((K, D), points.dtype)
    count = np.zeros(K, np.int64)
    for n in range(N):
        count[label[n]] += 1
        for d in range(D):
            total[label[n], d] += points[n, d]
    for k in range(K):
        for d in range(D):
            if count[k] > 0:
                centres[k, d] = total[k, d] / count[k]


@loopfuse.kernel
def mandelbrot(count, left, top, side, limit):
    H, W = count.shape
    for i in range(H):
        for j in range(W):
            re = left + side * j
            im = top + side * i
            x = 0.0
            y = 0.0
            n = 0
            for k in range(limit):
                if x * x + y * y <= 4.0:
                    new = x * x - y * y + re
                    y = 2.0 * x * y + im
                    x = new
                    n += 1
            count[i, j] = n
