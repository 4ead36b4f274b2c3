"""The programs of `sizes.py` as plain Python functions: what `loopfuse.kernel` and `numba.njit` are given.

`prange` stands where iterations are independent: numba's for numba, loopfuse's (which is `range` to CPython) here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from cpu_cases.networks import softmax
from cpu_cases.polybench import PROGRAMS as POLYBENCH
from stencils import unsharp

from loopfuse import prange

HALF, ONE, ROOT_HALF = np.float32(0.5), np.float32(1.0), np.float32(0.7978845608)
CUBE, FIFTH, NINTH = np.float32(0.044715), np.float32(0.2), np.float32(1 / 9)
ZERO = np.float32(0.0)


def chain(x, y):
    h, w = x.shape
    a = np.empty_like(x)
    b = np.empty_like(x)
    for i in prange(h):
        for j in range(w):
            a[i, j] = HALF * x[i, j] + ONE
    for i in prange(h):
        for j in range(w):
            b[i, j] = max(a[i, j], ZERO) * a[i, j]
    for i in prange(h):
        for j in range(w):
            y[i, j] = ONE / (ONE + np.exp(-b[i, j]))


def bias_gelu(x, bias, residual, y):
    h, w = x.shape
    for i in prange(h):
        for j in range(w):
            v = x[i, j] + bias[j]
            y[i, j] = HALF * v * (ONE + np.tanh(ROOT_HALF * (v + CUBE * v * v * v))) + residual[i, j]


def jacobi(a, b, steps):
    n = len(a)
    for _ in range(steps):
        for i in prange(1, n - 1):
            for j in range(1, n - 1):
                b[i, j] = FIFTH * (a[i, j] + a[i, j - 1] + a[i, j + 1] + a[i + 1, j] + a[i - 1, j])
        for i in prange(1, n - 1):
            for j in range(1, n - 1):
                a[i, j] = FIFTH * (b[i, j] + b[i, j - 1] + b[i, j + 1] + b[i + 1, j] + b[i - 1, j])


def seidel(a, steps):
    n = len(a)
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                a[i, j] = (
                    a[i - 1, j - 1] + a[i - 1, j] + a[i - 1, j + 1]
                    + a[i, j - 1] + a[i, j] + a[i, j + 1]
                    + a[i + 1, j - 1] + a[i + 1, j] + a[i + 1, j + 1]
                ) * NINTH  # fmt: skip


def matmul(a, b, c):
    n, m = a.shape
    k = b.shape[1]
    for i in prange(n):
        for j in range(k):
            c[i, j] = 0.0
        for p in range(m):
            for j in range(k):
                c[i, j] += a[i, p] * b[p, j]


def atax(a, x, y):
    m, n = a.shape
    tmp = np.empty(m, a.dtype)
    for j in range(n):
        y[j] = 0.0
    for i in range(m):
        tmp[i] = 0.0
        for j in range(n):
            tmp[i] = tmp[i] + a[i, j] * x[j]
        for j in range(n):
            y[j] = y[j] + a[i, j] * tmp[i]


def mvt(x1, x2, y1, y2, a):
    n = len(a)
    for i in prange(n):
        for j in range(n):
            x1[i] = x1[i] + a[i, j] * y1[j]
    for i in prange(n):
        for j in range(n):
            x2[i] = x2[i] + a[j, i] * y2[j]


def gemver(alpha, beta, a, u1, v1, u2, v2, x, y, z, w):
    n = len(a)
    for i in prange(n):
        for j in range(n):
            a[i, j] = a[i, j] + u1[i] * v1[j] + u2[i] * v2[j]
    for i in prange(n):
        x[i] = 0.0
        for j in range(n):
            x[i] = x[i] + beta * a[j, i] * y[j]
        x[i] = x[i] + z[i]
    for i in prange(n):
        w[i] = 0.0
        for j in range(n):
            w[i] = w[i] + alpha * a[i, j] * x[j]


def trisolv(a, b, x):
    n = len(a)
    for i in range(n):
        x[i] = b[i]
        for j in range(i):
            x[i] -= a[i, j] * x[j]
        x[i] = x[i] / a[i, i]


def floyd_warshall(path):
    n = len(path)
    for k in range(n):
        for i in range(n):
            for j in range(n):
                path[i, j] = min(path[i, j], path[i, k] + path[k, j])


def recurrence(a, x, y):
    n = len(x)
    y[0] = x[0]
    for i in range(1, n):
        y[i] = a[i] * y[i - 1] + x[i]


def prefix_sum(x, y):
    s = ZERO
    for i in range(len(x)):
        s += x[i]
        y[i] = s


def column_sums(x, y):
    h, w = x.shape
    for j in range(w):
        y[j] = 0.0
    for i in range(h):
        for j in range(w):
            y[j] += x[i, j]


def histogram(x, count):
    h, w = x.shape
    for k in range(len(count)):
        count[k] = 0
    for i in range(h):
        for j in range(w):
            count[min(np.int32(x[i, j] * np.float32(256.0)), 255)] += 1


@dataclass(frozen=True, slots=True)
class Program:
    """A function, how its arguments are made for a side of n, which of them are made anew before each call (the results
    of many calls would not stay finite), and the least side that is left out."""

    function: Callable[..., Any]
    arguments: Callable[[int], tuple[Any, ...]]
    anew: tuple[int, ...] = ()
    below: int = 1 << 30


_random = np.random.default_rng(0)


def _f32(*shape: int) -> Any:
    return _random.random(shape, np.float32)


def _f64(*shape: int) -> Any:
    return _random.random(shape)


def _definite(n: int) -> Any:
    found = 0.1 * _f64(n, n)
    return (found + found.T) / 2 + n * np.eye(n)


PROGRAMS = {
    "chain": Program(chain, lambda n: (_f32(n, n), _f32(n, n))),
    "bias_gelu": Program(bias_gelu, lambda n: (_f32(n, n), _f32(n), _f32(n, n), _f32(n, n))),
    "softmax": Program(softmax, lambda n: (_f32(n, n), _f32(n, n))),
    "unsharp": Program(unsharp, lambda n: (_f32(n, n), _f32(n, n))),
    "jacobi": Program(jacobi, lambda n: (_f32(n, n), _f32(n, n), 10)),
    "seidel": Program(seidel, lambda n: (_f32(n, n), 4)),
    "matmul": Program(matmul, lambda n: (_f32(n, n), _f32(n, n), _f32(n, n)), below=2048),
    "atax": Program(atax, lambda n: (_f64(n, n), _f64(n), _f64(n))),
    "mvt": Program(mvt, lambda n: (_f64(n), _f64(n), _f64(n), _f64(n), _f64(n, n))),
    "gemver": Program(gemver, lambda n: (1.5, 1.2, _f64(n, n), *(_f64(n) for _ in range(8)))),
    "lu": Program(POLYBENCH.lu.__wrapped__, lambda n: (_definite(n),), anew=(0,), below=2048),
    "cholesky": Program(POLYBENCH.cholesky.__wrapped__, lambda n: (_definite(n),), anew=(0,), below=2048),
    "trisolv": Program(trisolv, lambda n: (_definite(n), _f64(n), _f64(n))),
    "floyd_warshall": Program(floyd_warshall, lambda n: (_f32(n, n),), anew=(0,), below=1024),
    "recurrence": Program(recurrence, lambda n: (HALF * _f32(n), _f32(n), _f32(n))),
    "prefix_sum": Program(prefix_sum, lambda n: (_f32(n), _f32(n))),
    "column_sums": Program(column_sums, lambda n: (_f32(n, n), _f32(n))),
    "histogram": Program(histogram, lambda n: (_f32(n, n), np.zeros(256, np.int32))),
}
