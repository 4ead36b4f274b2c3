"""Products and factorisations in other orders of their loops, and other programs. PolyBench has more."""

from __future__ import annotations

import numpy as np

from loopfuse import prange

from . import polybench
from .case import Arguments, Case, F, f32, f64, sizes

PRODUCTS, OTHERS = "Products and factorisations", "Others"
ZERO = F(0)


def matmul(a, b, bias, c):
    """max(a b + bias, 0), dot products of a row and a column."""
    M, K = a.shape
    N = len(bias)
    for i in prange(M):
        for j in range(N):
            c[i, j] = ZERO
            for k in range(K):
                c[i, j] += a[i, k] * b[k, j]
    for i in prange(M):
        for j in range(N):
            c[i, j] = max(c[i, j] + bias[j], ZERO)


def matmul_rows(a, b, bias, c):
    """The same, rows added up."""
    M, K = a.shape
    N = len(bias)
    for i in prange(M):
        for j in range(N):
            c[i, j] = ZERO
        for k in range(K):
            for j in range(N):
                c[i, j] += a[i, k] * b[k, j]
        for j in range(N):
            c[i, j] = max(c[i, j] + bias[j], ZERO)


def t_matmul(a, b, bias):
    import torch

    return torch.relu(torch.addmm(bias, a, b))


def j_matmul(a, b, bias):
    import jax

    return jax.nn.relu(a @ b + bias)


def trmm_rows(alpha, A, B):
    M, N = B.shape
    for i in range(M):
        for k in range(i + 1, M):
            for j in range(N):
                B[i, j] += A[k, i] * B[k, j]
        for j in range(N):
            B[i, j] = alpha * B[i, j]


def lu_right(A):
    """LU, right-looking: a column, then all that is below and to its right."""
    n = len(A)
    for k in range(n):
        for i in prange(k + 1, n):
            A[i, k] /= A[k, k]
        for i in prange(k + 1, n):
            for j in range(k + 1, n):
                A[i, j] -= A[i, k] * A[k, j]


def smith_waterman(a, b, score, best):
    """Local alignment of two sequences, and its best score."""
    N = len(a)
    M = len(b)
    for i in range(N + 1):
        score[i, 0] = 0
    for j in range(1, M + 1):
        score[0, j] = 0
    for i in range(1, N + 1):
        for j in range(1, M + 1):
            diagonal = score[i - 1, j - 1] + (3 if a[i - 1] == b[j - 1] else -3)
            score[i, j] = max(diagonal, score[i - 1, j] - 2, score[i, j - 1] - 2, 0)
    best[0] = 0
    for i in range(N + 1):
        for j in range(M + 1):
            best[0] = max(best[0], score[i, j])


def mandelbrot(cx, cy, count, iterations):
    """How many iterations each point stays inside."""
    H, W = count.shape
    for y in prange(H):
        for x in range(W):
            zr = 0.0
            zi = 0.0
            n = 0
            for _ in range(iterations):
                if zr * zr + zi * zi <= 4.0:
                    t = zr * zr - zi * zi + cx[x]
                    zi = 2.0 * zr * zi + cy[y]
                    zr = t
                    n += 1
            count[y, x] = n


def t_mandelbrot(cx, cy, iterations):
    import torch

    zr = torch.zeros(len(cy), len(cx), dtype=cx.dtype)
    zi, n = torch.zeros_like(zr), torch.zeros(zr.shape, dtype=torch.int32)
    for _ in range(iterations):
        inside = zr * zr + zi * zi <= 4.0
        t = zr * zr - zi * zi + cx
        zi = torch.where(inside, 2.0 * zr * zi + cy[:, None], zi)
        zr = torch.where(inside, t, zr)
        n += inside
    return n


def j_mandelbrot(cx, cy, iterations):
    import jax
    import jax.numpy as jnp

    def step(_, held):
        zr, zi, n = held
        inside = zr * zr + zi * zi <= 4.0
        t = zr * zr - zi * zi + cx
        i = 2.0 * zr * zi + cy[:, None]
        return jnp.where(inside, t, zr), jnp.where(inside, i, zi), n + inside

    zero = jnp.zeros((len(cy), len(cx)), cx.dtype)
    return jax.lax.fori_loop(0, iterations, step, (zero, zero, jnp.zeros(zero.shape, jnp.int32)))[2]


def for_matmul(make, dtype):
    def made(random: np.random.Generator, M: int, N: int, K: int) -> Arguments:
        a, b, bias = make(random, M, K, low=-1), make(random, K, N, low=-1), make(random, N, low=-1)
        return {"a": a, "b": b, "bias": bias, "c": np.zeros((M, N), dtype)}

    return made


def for_alignment(random: np.random.Generator, N: int, M: int) -> Arguments:
    a, b = (random.integers(0, 4, n, np.uint8) for n in (N, M))
    return {"a": a, "b": b, "score": np.zeros((N + 1, M + 1), np.int32), "best": np.zeros(1, np.int32)}


def for_mandelbrot(random: np.random.Generator, H: int, W: int, iterations: int) -> Arguments:
    cx, cy = np.linspace(-2.0, 0.6, W), np.linspace(-1.2, 1.2, H)
    return {"cx": cx, "cy": cy, "count": np.zeros((H, W), np.int32), "iterations": iterations}


def _products(name: str, function, make, dtype, tolerance: float, **more) -> Case:
    return Case(name, PRODUCTS, function, for_matmul(make, dtype), sizes("M=1024 N=1024 K=1024"), sizes("M=7 N=9 K=11"),
                ("c",), tolerance, numba=matmul_rows, forms={"numpy": lambda a, b, bias: np.maximum(a @ b + bias, 0),
                "torch": t_matmul, "jax": j_matmul}, **more)  # fmt: skip


ROWS = "numba: rows added up"
_poly = polybench.BY_NAME

CASES = (
    _products("product + bias + ReLU, f32", matmul, f32, F, 1e-5, note=ROWS),
    _products("product by rows, f32", matmul_rows, f32, F, 1e-5),
    _products("product + bias + ReLU, f64", matmul, f64, np.float64, 1e-12, note=ROWS),
    _products("product by rows, f64", matmul_rows, f64, np.float64, 1e-12),
    Case("3mm by rows", PRODUCTS, polybench.k3mm, _poly["3mm"].make, _poly["3mm"].sizes, _poly["3mm"].tiny, ("return",), 1e-11,
         libraries=_poly["3mm"].libraries),
    Case("trmm by rows", PRODUCTS, trmm_rows, _poly["trmm"].make, _poly["trmm"].sizes, _poly["trmm"].tiny, ("B",), 1e-11,
         inout=("B",), parallel=polybench.trmm, note="numba in parallel: by blocks of columns", forms=_poly["trmm"].forms),
    Case("LU, right-looking", PRODUCTS, lu_right, _poly["lu"].make, _poly["lu"].sizes, _poly["lu"].tiny, ("A",), 1e-11,
         inout=("A",), note="libraries: LAPACK, which pivots", forms=_poly["lu"].forms),
    Case("Smith-Waterman", OTHERS, smith_waterman, for_alignment, sizes("N=4000 M=4000"), sizes("N=11 M=13"),
         ("score", "best"), 0.0, parallel=polybench.ORDER),
    Case("Mandelbrot set", OTHERS, mandelbrot, for_mandelbrot, sizes("H=1024 W=1024 iterations=80"),
         sizes("H=9 W=11 iterations=20"), ("count",), 1000.0, forms={"torch": t_mandelbrot, "jax": j_mandelbrot},
         note="counts may differ near the border, where a fused multiply-add moves a point"),
)  # fmt: skip
