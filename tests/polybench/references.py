"""What PolyBench's programs compute, written a second time: with linear algebra and whole NumPy arrays, by other
methods than the loops where there are any.

Each takes the kernel's arguments by name and gives the arrays it writes, by name, in float64 (or the integers'
type); it changes nothing in place. `PREPARE` makes random arguments fit, as PolyBench's own data are: matrices that
are factored are positive definite, paths have positive lengths.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Arguments = dict[str, Any]
REFERENCES: dict[str, Callable[..., dict[str, np.ndarray]]] = {}
PREPARE: dict[str, Callable[..., dict[str, np.ndarray]]] = {}


def reference(function: Callable[..., Any]) -> Callable[..., Any]:
    """Registers `function` as the reference of the kernel of the same name; it is called with the arguments by name."""
    REFERENCES[function.__name__] = function
    return function


def prepare(function: Callable[..., Any]) -> Callable[..., Any]:
    """Registers `function`, which gives the arguments that it changes, for the kernel of the same name."""
    PREPARE[function.__name__.removeprefix("for_")] = function
    return function


# ------------------------------------------------------------------------------ fit arguments


def positive_definite(A: np.ndarray) -> np.ndarray:
    """A A' / n + 1 on the diagonal."""
    n = max(len(A), 1)
    return (A @ A.T / n + np.eye(len(A))).astype(A.dtype)


@prepare
def for_cholesky(A, **_):
    return {"A": positive_definite(A)}


@prepare
def for_lu(A, **_):
    return {"A": positive_definite(A)}


@prepare
def for_ludcmp(A, **_):
    return {"A": positive_definite(A)}


@prepare
def for_trisolv(L, **_):
    return {"L": (L / max(len(L), 1) + 2 * np.eye(len(L))).astype(L.dtype)}


@prepare
def for_trmm(A, **_):
    return {"A": (np.tril(A, -1) + np.eye(len(A))).astype(A.dtype)}


@prepare
def for_durbin(r, **_):
    """The correlations of a first-order process, a little disturbed: its Toeplitz matrix is positive definite."""
    return {"r": (0.4 ** (1 + np.arange(len(r))) + 0.01 * np.tanh(r) / (1 + np.arange(len(r))) ** 2).astype(r.dtype)}


@prepare
def for_floyd_warshall(path, **_):
    away = 1 - np.eye(len(path), dtype=path.dtype)
    return {"path": (1 + path.astype(np.int64) * 31 % 97).astype(path.dtype) * away}


@prepare
def for_nussinov(seq, table, **_):
    return {"seq": seq % 4, "table": 0 * table}


@prepare
def for_gramschmidt(A, **_):
    return {"A": (A + 3 * np.eye(*A.shape)).astype(A.dtype)}


# --------------------------------------------------------------------------------- references


@reference
def k2mm(alpha, beta, A, B, C, D):
    return {"D": beta * D + alpha * A @ B @ C}


@reference
def k3mm(A, B, C, D, **_):
    return {"G": (A @ B) @ (C @ D)}


@reference
def adi(u, steps):
    """Each half step by one tridiagonal matrix for all lines."""
    n, u = len(u), u.copy()
    inside = max(n - 2, 0)
    across, along = (1 / steps) * n * n, 0.5 * (1 / steps) * n * n  # half of mul1, half of mul2

    def solve(right: np.ndarray, weight: float) -> np.ndarray:
        matrix = (1 + 2 * weight) * np.eye(inside) - weight * (np.eye(inside, k=1) + np.eye(inside, k=-1))
        right = right.copy()
        right[:1] += weight  # both ends are held at 1
        right[-1:] += weight
        return np.linalg.solve(matrix, right)

    for _ in range(steps if inside else 0):
        v = np.ones((n, n))
        rows = u[1:-1]
        v[1:-1, 1:-1] = solve(along * rows[:, :-2] + (1 - 2 * along) * rows[:, 1:-1] + along * rows[:, 2:], across)
        columns = v[:, 1:-1]
        u[1:-1, 0] = u[1:-1, -1] = 1
        right = across * columns[:-2] + (1 - 2 * across) * columns[1:-1] + across * columns[2:]
        u[1:-1, 1:-1] = solve(right.T, along).T
    return {"u": u}


@reference
def atax(A, x, **_):
    return {"y": A.T @ (A @ x)}


@reference
def bicg(A, p, r, **_):
    return {"s": A.T @ r, "q": A @ p}


@reference
def cholesky(A):
    return {"A": np.triu(A, 1) + np.linalg.cholesky(A)}


@reference
def correlation(data, corr):
    centred = data - data.mean(0)
    spread = np.sqrt((centred**2).mean(0))
    spread = np.where(spread <= 0.1, 1.0, spread)
    data = centred / (np.sqrt(len(data)) * spread)
    corr = data.T @ data
    np.fill_diagonal(corr, 1.0)
    return {"data": data, "corr": corr}


@reference
def covariance(data, cov):
    return {"data": data - data.mean(0), "cov": np.atleast_2d(np.cov(data.T)) if data.shape[1] else cov}


@reference
def deriche(alpha, imgIn, **_):
    """The recurrence of all lines at once, along one axis, then along the other."""
    e = np.exp(-alpha)
    k = (1 - e) ** 2 / (1 + 2 * alpha * e - e**-2)
    a1, a2, a3, a4, b1, b2 = k, k * e * (alpha - 1), k * e * (alpha + 1), -k * e * e, 2**-alpha, -e * e

    def both(x: np.ndarray) -> np.ndarray:
        n = len(x)
        padded = np.concatenate([np.zeros_like(x[:1])] * 2 + [x] + [np.zeros_like(x[:1])] * 2) if n else x
        forward, backward = np.zeros((n + 2, *x.shape[1:])), np.zeros((n + 2, *x.shape[1:]))
        for i in range(n):
            forward[i + 2] = a1 * x[i] + a2 * padded[i + 1] + b1 * forward[i + 1] + b2 * forward[i]
        for i in range(n - 1, -1, -1):
            backward[i] = a3 * padded[i + 3] + a4 * padded[i + 4] + b1 * backward[i + 1] + b2 * backward[i + 2]
        return forward[2:] + backward[:n]

    return {"imgOut": both(both(imgIn.T).T)}


@reference
def doitgen(A, C4):
    return {"A": A @ C4}


@reference
def durbin(r, **_):
    """The symmetric Toeplitz system itself."""
    first = np.concatenate([[1.0], r[:-1]])
    place = np.arange(len(r))
    return {"y": np.linalg.solve(first[abs(place[:, None] - place)], -r)}


@reference
def fdtd_2d(ex, ey, hz, fict):
    ex, ey, hz = ex.copy(), ey.copy(), hz.copy()
    for value in fict:
        ey[0] = value
        ey[1:] -= 0.5 * np.diff(hz, axis=0)
        ex[:, 1:] -= 0.5 * np.diff(hz, axis=1)
        hz[:-1, :-1] -= 0.7 * (np.diff(ex, axis=1)[:-1] + np.diff(ey, axis=0)[:, :-1])
    return {"ex": ex, "ey": ey, "hz": hz}


@reference
def floyd_warshall(path):
    """Products of the matrix with itself in the algebra of min and +, until paths may be as long as they like."""
    n, long = len(path), path.copy()
    for _ in range(max(n, 1).bit_length()):
        if n:
            long = np.minimum(long, (long[:, :, None] + long[None]).min(1))
    return {"path": long}


@reference
def gemm(alpha, beta, C, A, B):
    return {"C": beta * C + alpha * A @ B}


@reference
def gemver(alpha, beta, A, u1, v1, u2, v2, y, z, **_):
    A = A + np.outer(u1, v1) + np.outer(u2, v2)
    return {"A": A, "w": alpha * A @ (beta * A.T @ y + z)}


@reference
def gesummv(alpha, beta, A, B, x, **_):
    return {"y": alpha * A @ x + beta * B @ x}


@reference
def gramschmidt(A, R, Q):
    """Householder's reflections, with the signs that make R's diagonal positive. What is left of a column of A
    after all projections is its part along the last: Q times R's diagonal."""
    q, r = np.linalg.qr(A)
    sign = np.where(np.diag(r) < 0, -1.0, 1.0)
    q, r = q * sign, r * sign[:, None]
    return {"A": q * np.diag(r), "R": np.triu(r) + np.tril(R, -1), "Q": q}


@reference
def heat_3d(A, B, steps):
    A, B = A.copy(), B.copy()
    inside = (slice(1, -1),) * 3
    for _ in range(steps if len(A) > 2 else 0):
        for source, target in ((A, B), (B, A)):
            found = source[inside].copy()
            for axis in range(3):
                apart = tuple(slice(None) if k == axis else slice(1, -1) for k in range(3))
                found += 0.125 * np.diff(source[apart], 2, axis)
            target[inside] = found
    return {"A": A, "B": B}


@reference
def jacobi_1d(A, B, steps):
    A, B = A.copy(), B.copy()
    for _ in range(steps):
        B[1:-1] = 0.33333 * (A[:-2] + A[1:-1] + A[2:])
        A[1:-1] = 0.33333 * (B[:-2] + B[1:-1] + B[2:])
    return {"A": A, "B": B}


@reference
def jacobi_2d(A, B, steps):
    A, B = A.copy(), B.copy()
    for _ in range(steps):
        for a, b in ((A, B), (B, A)):
            b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])
    return {"A": A, "B": B}


def factors(A: np.ndarray) -> np.ndarray:
    """L below the diagonal and U above it, by rank-one updates: of Crout's order of loops there is none left."""
    A = A.copy()
    for k in range(len(A)):
        A[k + 1 :, k] /= A[k, k]
        A[k + 1 :, k + 1 :] -= np.outer(A[k + 1 :, k], A[k, k + 1 :])
    return A


@reference
def lu(A):
    return {"A": factors(A)}


@reference
def ludcmp(A, b, **_):
    return {"A": factors(A), "x": np.linalg.solve(A, b)}


@reference
def mvt(x1, x2, y1, y2, A):
    return {"x1": x1 + A @ y1, "x2": x2 + A.T @ y2}


@reference
def nussinov(seq, table):
    """By the length of the part: its ends pair, or it falls into two parts."""
    n = len(seq)
    best = np.zeros((n + 1, n + 1), table.dtype)  # of seq[i..j] at [i, j + 1]; nothing of nothing
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            inner = best[i + 1, j] + (1 if length > 2 and seq[i] + seq[j] == 3 else 0)
            best[i, j + 1] = max([inner, *(best[i, k] + best[k, j + 1] for k in range(i + 1, j + 1))])
    return {"table": best[:n, 1:] if n else table}


@reference
def seidel_2d(A, steps):
    rows = [list(map(float, row)) for row in A]
    for _ in range(steps):
        for i in range(1, len(rows) - 1):
            for j in range(1, len(rows) - 1):
                rows[i][j] = sum(sum(row[j - 1 : j + 2]) for row in rows[i - 1 : i + 2]) / 9
    return {"A": np.array(rows).reshape(A.shape)}


@reference
def symm(alpha, beta, C, A, B):
    whole = np.tril(A) + np.tril(A, -1).T
    return {"C": beta * C + alpha * whole @ B}


def lower(C: np.ndarray, found: np.ndarray) -> np.ndarray:
    """`found` on and below the diagonal, `C` above."""
    return np.tril(found) + np.triu(C, 1)


@reference
def syr2k(alpha, beta, C, A, B):
    return {"C": lower(C, beta * C + alpha * (A @ B.T + B @ A.T))}


@reference
def syrk(alpha, beta, C, A):
    return {"C": lower(C, beta * C + alpha * A @ A.T)}


@reference
def trisolv(L, b, **_):
    return {"x": np.linalg.solve(np.tril(L), b)}


@reference
def trmm(alpha, A, B):
    return {"B": alpha * A.T @ B}
