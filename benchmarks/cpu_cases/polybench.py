"""PolyBench's thirty programs. The loops are those of tests/polybench/kernels.py; here are sizes near its LARGE
ones, and forms of the loops that suit numba better: rows innermost, and blocks of columns to run in parallel."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from loopfuse import prange

from .case import Arguments, Case, Function, f64, pranges, sizes

GROUP = "PolyBench"


def _programs() -> Any:
    path = Path(__file__).resolve().parent.parent.parent / "tests" / "polybench" / "kernels.py"
    spec = importlib.util.spec_from_file_location("polybench_kernels", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PROGRAMS = _programs()

# ------------------------------------------------------------------------------- forms for numba


def k2mm(alpha, beta, A, B, C, D):
    NI, NK = A.shape
    NJ, NL = C.shape
    for i in prange(NI):
        row = np.zeros(NJ)
        for k in range(NK):
            for j in range(NJ):
                row[j] += alpha * A[i, k] * B[k, j]
        for j in range(NL):
            D[i, j] *= beta
        for k in range(NJ):
            for j in range(NL):
                D[i, j] += row[k] * C[k, j]


def k3mm(A, B, C, D):
    NI, NK = A.shape
    NJ, NM = C.shape
    NL = D.shape[1]
    F = np.zeros((NJ, NL))
    G = np.zeros((NI, NL))
    for i in prange(NJ):
        for k in range(NM):
            for j in range(NL):
                F[i, j] += C[i, k] * D[k, j]
    for i in prange(NI):
        row = np.zeros(NJ)
        for k in range(NK):
            for j in range(NJ):
                row[j] += A[i, k] * B[k, j]
        for k in range(NJ):
            for j in range(NL):
                G[i, j] += row[k] * F[k, j]
    return G


def atax(A, x):
    M, N = A.shape
    y = np.zeros(N)
    tmp = np.empty(M)
    for i in prange(M):
        total = 0.0
        for j in range(N):
            total += A[i, j] * x[j]
        tmp[i] = total
    for block in prange((N + 127) // 128):
        for i in range(M):
            for j in range(block * 128, min(block * 128 + 128, N)):
                y[j] += A[i, j] * tmp[i]
    return y


def bicg(A, p, r):
    N, M = A.shape
    s = np.zeros(M)
    q = np.empty(N)
    for i in prange(N):
        total = 0.0
        for j in range(M):
            total += A[i, j] * p[j]
        q[i] = total
    for block in prange((M + 127) // 128):
        for i in range(N):
            for j in range(block * 128, min(block * 128 + 128, M)):
                s[j] += r[i] * A[i, j]
    return s, q


def cholesky(A):
    N = len(A)
    for j in range(N):
        total = A[j, j]
        for k in range(j):
            total -= A[j, k] * A[j, k]
        root = np.sqrt(total)
        A[j, j] = root
        for i in prange(j + 1, N):
            rest = A[i, j]
            for k in range(j):
                rest -= A[i, k] * A[j, k]
            A[i, j] = rest / root


def correlation(data):
    N, M = data.shape
    corr = np.zeros((M, M))
    mean = np.zeros(M)
    stddev = np.zeros(M)
    for i in range(N):
        for j in range(M):
            mean[j] += data[i, j] / N
    for i in range(N):
        for j in range(M):
            stddev[j] += (data[i, j] - mean[j]) * (data[i, j] - mean[j])
    for j in range(M):
        spread = np.sqrt(stddev[j] / N)
        stddev[j] = 1.0 if spread <= 0.1 else spread
    for i in prange(N):
        for j in range(M):
            data[i, j] = (data[i, j] - mean[j]) / (np.sqrt(N) * stddev[j])
    for i in prange(M):
        for k in range(N):
            for j in range(i + 1, M):
                corr[i, j] += data[k, i] * data[k, j]
        corr[i, i] = 1.0
    for i in prange(M):
        for j in range(i):
            corr[i, j] = corr[j, i]
    return corr


def covariance(data):
    N, M = data.shape
    cov = np.zeros((M, M))
    mean = np.zeros(M)
    for i in range(N):
        for j in range(M):
            mean[j] += data[i, j] / N
    for i in prange(N):
        for j in range(M):
            data[i, j] -= mean[j]
    for i in prange(M):
        for k in range(N):
            for j in range(i, M):
                cov[i, j] += data[k, i] * data[k, j]
        for j in range(i, M):
            cov[i, j] /= N - 1.0
    for i in prange(M):
        for j in range(i):
            cov[i, j] = cov[j, i]
    return cov


def doitgen(A, C4):
    NR, NQ, NP = A.shape
    for r in prange(NR):
        for q in range(NQ):
            line = np.zeros(NP)
            for s in range(NP):
                for p in range(NP):
                    line[p] += A[r, q, s] * C4[s, p]
            for p in range(NP):
                A[r, q, p] = line[p]


def gemver(alpha, beta, A, u1, v1, u2, v2, y, z):
    N = len(A)
    x = np.zeros_like(y)
    w = np.zeros_like(y)
    for i in prange(N):
        for j in range(N):
            A[i, j] = A[i, j] + u1[i] * v1[j] + u2[i] * v2[j]
    for block in prange((N + 127) // 128):
        for j in range(N):
            for i in range(block * 128, min(block * 128 + 128, N)):
                x[i] = x[i] + beta * A[j, i] * y[j]
    for i in range(N):
        x[i] = x[i] + z[i]
    for i in prange(N):
        for j in range(N):
            w[i] = w[i] + alpha * A[i, j] * x[j]
    return w


def gramschmidt(A, R, Q):
    M, N = A.shape
    for k in range(N):
        nrm = 0.0
        for i in range(M):
            nrm += A[i, k] * A[i, k]
        R[k, k] = np.sqrt(nrm)
        for i in range(M):
            Q[i, k] = A[i, k] / R[k, k]
        for block in prange((N - k + 62) // 64):
            low = k + 1 + block * 64
            high = min(low + 64, N)
            for j in range(low, high):
                R[k, j] = 0.0
            for i in range(M):
                for j in range(low, high):
                    R[k, j] += Q[i, k] * A[i, j]
            for i in range(M):
                for j in range(low, high):
                    A[i, j] = A[i, j] - Q[i, k] * R[k, j]


def lu(A):
    N = len(A)
    for k in range(N):
        for i in prange(k + 1, N):
            A[i, k] /= A[k, k]
            for j in range(k + 1, N):
                A[i, j] -= A[i, k] * A[k, j]


def ludcmp(A, b):
    N = len(A)
    x = np.empty_like(b)
    y = np.empty_like(b)
    for k in range(N):
        for i in prange(k + 1, N):
            A[i, k] /= A[k, k]
            for j in range(k + 1, N):
                A[i, j] -= A[i, k] * A[k, j]
    for i in range(N):
        w = b[i]
        for j in range(i):
            w -= A[i, j] * y[j]
        y[i] = w
    for i in range(N - 1, -1, -1):
        w = y[i]
        for j in range(i + 1, N):
            w -= A[i, j] * x[j]
        x[i] = w / A[i, i]
    return x


def mvt(x1, x2, y1, y2, A):
    N = len(A)
    for i in prange(N):
        for j in range(N):
            x1[i] = x1[i] + A[i, j] * y1[j]
    for block in prange((N + 127) // 128):
        for j in range(N):
            for i in range(block * 128, min(block * 128 + 128, N)):
                x2[i] = x2[i] + A[j, i] * y2[j]


def symm(alpha, beta, C, A, B):
    M, N = C.shape
    for block in prange((N + 63) // 64):
        low = block * 64
        high = min(low + 64, N)
        for i in range(M):
            line = np.zeros(64)
            for k in range(i):
                for j in range(low, high):
                    C[k, j] += alpha * B[i, j] * A[i, k]
                    line[j - low] += B[k, j] * A[i, k]
            for j in range(low, high):
                C[i, j] = beta * C[i, j] + alpha * B[i, j] * A[i, i] + alpha * line[j - low]


def syr2k(alpha, beta, C, A, B):
    N, M = A.shape
    for i in prange(N):
        for j in range(i + 1):
            total = 0.0
            for k in range(M):
                total += A[j, k] * B[i, k] + B[j, k] * A[i, k]
            C[i, j] = beta * C[i, j] + alpha * total


def syrk(alpha, beta, C, A):
    N, M = A.shape
    for i in prange(N):
        for j in range(i + 1):
            total = 0.0
            for k in range(M):
                total += A[i, k] * A[j, k]
            C[i, j] = beta * C[i, j] + alpha * total


def trmm(alpha, A, B):
    M, N = B.shape
    for block in prange((N + 63) // 64):
        low = block * 64
        high = min(low + 64, N)
        for i in range(M):
            for k in range(i + 1, M):
                for j in range(low, high):
                    B[i, j] += A[k, i] * B[k, j]
            for j in range(low, high):
                B[i, j] = alpha * B[i, j]


# ------------------------------------------------------------------------------- arguments


def matrices(order: str, **shapes: str) -> Callable[..., Arguments]:
    """Random f64 arrays whose extents are sizes' names; other words of `order` are scalars or sizes."""
    scalars = {"alpha": 1.5, "beta": 1.2}

    def make(random: np.random.Generator, **extents: int) -> Arguments:
        return {
            name: f64(random, *(extents[size] for size in shapes[name].split()))
            if name in shapes
            else scalars.get(name, extents.get(name))
            for name in order.split()
        }

    return make


def definite(random: np.random.Generator, N: int) -> np.ndarray:
    """A symmetric matrix with a heavy diagonal."""
    A = f64(random, N, N)
    return (A + A.T) / 2 + N * np.eye(N)


def of_matrix(random: np.random.Generator, N: int) -> Arguments:
    return {"A": definite(random, N)}


def for_ludcmp(random: np.random.Generator, N: int) -> Arguments:
    return {"A": definite(random, N), "b": f64(random, N)}


def for_durbin(random: np.random.Generator, N: int) -> Arguments:
    # The correlations of a first-order process, a little disturbed; no subnormals.
    place = np.arange(1, N + 1)
    return {"r": 0.5 * 0.9 ** np.minimum(place, 900) + 1e-4 * f64(random, N, low=-1)}


def for_floyd_warshall(random: np.random.Generator, N: int) -> Arguments:
    path = random.integers(1, 1000, (N, N)).astype(np.int32)
    path[random.random((N, N)) < 0.8] = 99999
    return {"path": path}


def for_gramschmidt(random: np.random.Generator, M: int, N: int) -> Arguments:
    A = f64(random, M, N) + 4 * np.eye(M, N)
    return {"A": A, "R": np.zeros((N, N)), "Q": np.zeros((M, N))}


def for_nussinov(random: np.random.Generator, N: int) -> Arguments:
    return {"seq": random.integers(0, 4, N).astype(np.int32), "table": np.zeros((N, N), np.int32)}


def for_trisolv(random: np.random.Generator, N: int) -> Arguments:
    return {"L": f64(random, N, N) / N + 2 * np.eye(N), "b": f64(random, N)}


def for_deriche(random: np.random.Generator, W: int, H: int) -> Arguments:
    return {"alpha": np.float32(0.25), "imgIn": random.random((W, H), np.float32)}


# --------------------------------------------------------------------------- library forms


def t_cov(data):
    import torch

    return torch.cov(data.T)


def j_cov(data):
    import jax.numpy as jnp

    return jnp.cov(data, rowvar=False)


def t_corr(data):
    import torch

    return torch.corrcoef(data.T)


def j_corr(data):
    import jax.numpy as jnp

    return jnp.corrcoef(data, rowvar=False)


def t_cholesky(A):
    import torch

    return torch.linalg.cholesky(A)


def j_cholesky(A):
    import jax.numpy as jnp

    return jnp.linalg.cholesky(A)


def t_lu(A):
    import torch

    return torch.linalg.lu_factor(A)[0]


def j_lu(A):
    import jax

    return jax.scipy.linalg.lu_factor(A)[0]


def t_solve(A, b):
    import torch

    return torch.linalg.solve(A, b)


def j_solve(A, b):
    import jax.numpy as jnp

    return jnp.linalg.solve(A, b)


def t_trisolv(L, b):
    import torch

    return torch.linalg.solve_triangular(L, b[:, None], upper=False)[:, 0]


def j_trisolv(L, b):
    import jax

    return jax.scipy.linalg.solve_triangular(L, b, lower=True)


def t_trmm(alpha, A, B):
    import torch

    return alpha * (torch.tril(A, -1).T @ B + B)


def j_trmm(alpha, A, B):
    import jax.numpy as jnp

    return alpha * (jnp.tril(A, -1).T @ B + B)


def n_floyd_warshall(path):
    path = path.copy()
    for k in range(len(path)):
        np.minimum(path, path[:, k, None] + path[k], out=path)
    return path


def t_floyd_warshall(path):
    import torch

    for k in range(len(path)):
        torch.minimum(path, path[:, k, None] + path[k], out=path)
    return path


def j_floyd_warshall(path):
    import jax
    import jax.numpy as jnp

    return jax.lax.fori_loop(0, len(path), lambda k, p: jnp.minimum(p, p[:, k][:, None] + p[k]), path)


def x_jacobi_2d(a):
    return 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])


def x_jacobi_1d(a):
    return 0.33333 * (a[:-2] + a[1:-1] + a[2:])


def x_heat_3d(a):
    m = a[1:-1, 1:-1, 1:-1]
    return (
        0.125 * (a[2:, 1:-1, 1:-1] - 2.0 * m + a[:-2, 1:-1, 1:-1])
        + 0.125 * (a[1:-1, 2:, 1:-1] - 2.0 * m + a[1:-1, :-2, 1:-1])
        + 0.125 * (a[1:-1, 1:-1, 2:] - 2.0 * m + a[1:-1, 1:-1, :-2])
        + m
    )


def in_turns(step: Function) -> dict[str, Function | None]:
    """A to B and back, `step` giving the inside: NumPy and PyTorch in place, JAX in a `fori_loop`."""

    def in_place(A, B, steps):
        inside = (slice(1, -1),) * A.ndim
        for _ in range(steps):
            B[inside] = step(A)
            A[inside] = step(B)
        return A, B

    def jax_form(A, B, steps):
        import jax

        inside = (slice(1, -1),) * A.ndim

        def turn(_, held):
            a, b = held
            b = b.at[inside].set(step(a))
            return a.at[inside].set(step(b)), b

        return jax.lax.fori_loop(0, steps, turn, (A, B))

    return {"numpy": in_place, "torch": in_place, "jax": jax_form}


def p_fdtd_2d(ex, ey, hz, fict):
    for value in fict:
        ey[0, :] = value
        ey[1:] -= 0.5 * (hz[1:] - hz[:-1])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
    return ex, ey, hz


def j_fdtd_2d(ex, ey, hz, fict):
    import jax

    def step(t, held):
        ex, ey, hz = held
        ey = ey.at[0, :].set(fict[t])
        ey = ey.at[1:].add(-0.5 * (hz[1:] - hz[:-1]))
        ex = ex.at[:, 1:].add(-0.5 * (hz[:, 1:] - hz[:, :-1]))
        hz = hz.at[:-1, :-1].add(-0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]))
        return ex, ey, hz

    return jax.lax.fori_loop(0, len(fict), step, (ex, ey, hz))


def x_gemver(alpha, beta, A, u1, v1, u2, v2, y, z):
    A = A + u1[:, None] * v1 + u2[:, None] * v2
    return alpha * (A @ (beta * (A.T @ y) + z))


ORDER = "no parallel loop in this order"

_ROWS = "numba: rows innermost"
_BLOCKS = "numba: rows innermost, in parallel by blocks of columns"


def _case(name: str, program: str, make: Any, full: str, tiny: str, written: str, **more: Any) -> Case:
    function = getattr(PROGRAMS, program).reference
    loops = more.pop("loops", None)
    if loops is not None:
        more["parallel"] = pranges(function, *loops)

    return Case(
        name, GROUP, function, make, sizes(full), sizes(tiny), tuple(written.split()),
        more.pop("tolerance", 1e-11), **more,
    )  # fmt: skip


CASES = (
    _case("2mm", "k2mm", matrices("alpha beta A B C D", A="NI NK", B="NK NJ", C="NJ NL", D="NI NL"),
          "NI=600 NJ=650 NK=700 NL=750", "NI=7 NJ=5 NK=9 NL=6", "D", inout=("D",), numba=k2mm, note=_ROWS,
          libraries=lambda alpha, beta, A, B, C, D: beta * D + (alpha * A) @ B @ C),
    _case("3mm", "k3mm", matrices("A B C D", A="NI NK", B="NK NJ", C="NJ NM", D="NM NL"),
          "NI=550 NJ=600 NK=650 NL=700 NM=750", "NI=7 NJ=5 NK=9 NL=6 NM=4", "return", numba=k3mm, note=_ROWS,
          libraries=lambda A, B, C, D: (A @ B) @ (C @ D)),
    _case("adi", "adi", matrices("u steps", u="N N"), "N=500 steps=30", "N=9 steps=3", "u", inout=("u",), loops=(1, 4),
          tolerance=1e-10),
    _case("atax", "atax", matrices("A x", A="M N", x="N"), "M=3800 N=4200", "M=9 N=11", "return", parallel=atax,
          note="numba in parallel: two loops, the second by blocks of columns", libraries=lambda A, x: A.T @ (A @ x)),
    _case("bicg", "bicg", matrices("A p r", A="N M", p="M", r="N"), "M=3800 N=4200", "M=9 N=11", "return return",
          parallel=bicg, note="numba in parallel: two loops, the second by blocks of columns",
          libraries=lambda A, p, r: (A.T @ r, A @ p)),
    _case("cholesky", "cholesky", of_matrix, "N=1200", "N=13", "A", inout=("A",), lower=True, parallel=cholesky,
          note="numba in parallel: by columns; libraries: LAPACK",
          forms={"numpy": lambda A: np.linalg.cholesky(A), "torch": t_cholesky, "jax": j_cholesky}),
    _case("correlation", "correlation", matrices("data", data="N M"), "N=800 M=700", "N=9 M=7", "return",
          inout=("data",), numba=correlation, note=_ROWS,
          forms={"numpy": lambda data: np.corrcoef(data, rowvar=False), "torch": t_corr, "jax": j_corr}),
    _case("covariance", "covariance", matrices("data", data="N M"), "N=800 M=700", "N=9 M=7", "return",
          inout=("data",), numba=covariance, note=_ROWS,
          forms={"numpy": lambda data: np.cov(data, rowvar=False), "torch": t_cov, "jax": j_cov}),
    _case("deriche", "deriche", for_deriche, "W=4096 H=2160", "W=9 H=11", "return", loops=(0, 2, 4, 6, 8, 10), tolerance=1e-4),
    _case("doitgen", "doitgen", matrices("A C4", A="NR NQ NP", C4="NP NP"), "NR=150 NQ=140 NP=160",
          "NR=3 NQ=4 NP=5", "A", inout=("A",), numba=doitgen, note=_ROWS, libraries=lambda A, C4: A @ C4),
    _case("durbin", "durbin", for_durbin, "N=8000", "N=13", "return", loops=(2, 3), tolerance=1e-9,
          reason="one thread, three passes over the vector; in other runs of the table the two were equal"),
    _case("fdtd-2d", "fdtd_2d", matrices("ex ey hz fict", ex="NX NY", ey="NX NY", hz="NX NY", fict="T"),
          "NX=1000 NY=1200 T=30", "NX=9 NY=11 T=3", "ex ey hz", inout=("ex", "ey", "hz"), loops=(2, 4, 6),
          forms={"numpy": p_fdtd_2d, "torch": p_fdtd_2d, "jax": j_fdtd_2d}),
    _case("floyd-warshall", "floyd_warshall", for_floyd_warshall, "N=800", "N=13", "path", inout=("path",), loops=(1,),
          tolerance=0.0, forms={"numpy": n_floyd_warshall, "torch": t_floyd_warshall, "jax": j_floyd_warshall}),
    _case("gemm", "gemm", matrices("alpha beta C A B", C="NI NJ", A="NI NK", B="NK NJ"), "NI=700 NJ=750 NK=800",
          "NI=7 NJ=5 NK=9", "C", inout=("C",), loops=(0,),
          libraries=lambda alpha, beta, C, A, B: beta * C + alpha * (A @ B)),
    _case("gemver", "gemver", matrices("alpha beta A u1 v1 u2 v2 y z", A="N N", u1="N", v1="N", u2="N", v2="N", y="N", z="N"),
          "N=4000", "N=9", "return", inout=("A",), numba=gemver, note=_BLOCKS, libraries=x_gemver),
    _case("gesummv", "gesummv", matrices("alpha beta A B x", A="N N", B="N N", x="N"), "N=2800", "N=9", "return",
          loops=(0,), libraries=lambda alpha, beta, A, B, x: alpha * (A @ x) + beta * (B @ x),
          reason="both read both matrices once, in one launch; without the other peers in the process the two are level "
          "(4.7 and 4.4 ms), with them loopfuse takes 5 to 9"),
    _case("gramschmidt", "gramschmidt", for_gramschmidt, "M=500 N=400", "M=9 N=7", "R Q", inout=("A", "R", "Q"),
          numba=gramschmidt, note=_BLOCKS, tolerance=1e-9),
    _case("heat-3d", "heat_3d", matrices("A B steps", A="N N N", B="N N N"), "N=120 steps=30", "N=7 steps=2", "A B",
          inout=("A", "B"), loops=(1, 4), forms=in_turns(x_heat_3d)),
    _case("jacobi-1d", "jacobi_1d", matrices("A B steps", A="N", B="N"), "N=200000 steps=500", "N=19 steps=3", "A B",
          inout=("A", "B"), loops=(1, 2), forms=in_turns(x_jacobi_1d)),
    _case("jacobi-2d", "jacobi_2d", matrices("A B steps", A="N N", B="N N"), "N=1300 steps=40", "N=11 steps=3", "A B",
          inout=("A", "B"), loops=(1, 3), forms=in_turns(x_jacobi_2d)),
    _case("lu", "lu", of_matrix, "N=900", "N=13", "A", inout=("A",), numba=lu,
          note="numba: right-looking; libraries: LAPACK, which pivots", forms={"torch": t_lu, "jax": j_lu}),
    _case("ludcmp", "ludcmp", for_ludcmp, "N=900", "N=13", "return", inout=("A",), numba=ludcmp,
          note="numba: right-looking; libraries: LAPACK's solve, which pivots",
          forms={"numpy": lambda A, b: np.linalg.solve(A, b), "torch": t_solve, "jax": j_solve}),
    _case("mvt", "mvt", matrices("x1 x2 y1 y2 A", x1="N", x2="N", y1="N", y2="N", A="N N"), "N=4000", "N=9", "x1 x2",
          inout=("x1", "x2"), numba=mvt, note=_BLOCKS, libraries=lambda x1, x2, y1, y2, A: (x1 + A @ y1, x2 + A.T @ y2)),
    _case("nussinov", "nussinov", for_nussinov, "N=900", "N=13", "table", inout=("table",), parallel=ORDER, tolerance=0.0),
    _case("seidel-2d", "seidel_2d", matrices("A steps", A="N N"), "N=800 steps=30", "N=9 steps=3", "A", inout=("A",),
          parallel=ORDER),
    _case("symm", "symm", matrices("alpha beta C A B", C="M N", A="M M", B="M N"), "M=600 N=700", "M=9 N=7", "C",
          inout=("C",), numba=symm, note=_BLOCKS),
    _case("syr2k", "syr2k", matrices("alpha beta C A B", C="N N", A="N M", B="N M"), "N=700 M=600", "N=9 M=7", "C",
          inout=("C",), numba=syr2k, note="numba: dot products of rows"),
    _case("syrk", "syrk", matrices("alpha beta C A", C="N N", A="N M"), "N=700 M=600", "N=9 M=7", "C", inout=("C",),
          numba=syrk, note="numba: dot products of rows"),
    _case("trisolv", "trisolv", for_trisolv, "N=4000", "N=13", "return", parallel=ORDER,
          reason="one thread, sums in the program's order, four rows at once: numba adds up each row in vectors",
          forms={"torch": t_trisolv, "jax": j_trisolv}),
    _case("trmm", "trmm", matrices("alpha A B", A="M M", B="M N"), "M=700 N=800", "M=9 N=7", "B", inout=("B",), numba=trmm,
          note=_BLOCKS, forms={"torch": t_trmm, "jax": j_trmm}),
)  # fmt: skip

BY_NAME = {case.key: case for case in CASES}
