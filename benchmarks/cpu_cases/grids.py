"""Grids in time: steps over the same fields, in f32. PolyBench has others in f64."""

from __future__ import annotations

import formulas
import numpy as np
import stencils

from loopfuse import prange

from .case import Arguments, Case, F, by, f32, sizes
from .polybench import in_turns, j_fdtd_2d, p_fdtd_2d, x_heat_3d

GROUP = "Grids in time"
ZERO, EIGHTH, TWO, FOUR, HALF, SEVENTH, COURANT = F(0), F(0.125), F(2), F(4), F(0.5), F(0.7), F(0.2)


def heat(A, B, steps):
    """The 7-point heat equation, to the other field and back."""
    n = len(A)
    for _ in range(steps):
        for i in prange(1, n - 1):
            for j in range(1, n - 1):
                for k in range(1, n - 1):
                    B[i, j, k] = (
                        EIGHTH * (A[i + 1, j, k] - TWO * A[i, j, k] + A[i - 1, j, k])
                        + EIGHTH * (A[i, j + 1, k] - TWO * A[i, j, k] + A[i, j - 1, k])
                        + EIGHTH * (A[i, j, k + 1] - TWO * A[i, j, k] + A[i, j, k - 1])
                        + A[i, j, k]
                    )
        for i in prange(1, n - 1):
            for j in range(1, n - 1):
                for k in range(1, n - 1):
                    A[i, j, k] = (
                        EIGHTH * (B[i + 1, j, k] - TWO * B[i, j, k] + B[i - 1, j, k])
                        + EIGHTH * (B[i, j + 1, k] - TWO * B[i, j, k] + B[i, j - 1, k])
                        + EIGHTH * (B[i, j, k + 1] - TWO * B[i, j, k] + B[i, j, k - 1])
                        + B[i, j, k]
                    )


def fdtd(ex, ey, hz, fict):
    """Maxwell's equations in two dimensions, three fields."""
    n, m = ex.shape
    for t in range(len(fict)):
        for j in range(m):
            ey[0, j] = fict[t]
        for i in prange(1, n):
            for j in range(m):
                ey[i, j] = ey[i, j] - HALF * (hz[i, j] - hz[i - 1, j])
        for i in prange(n):
            for j in range(1, m):
                ex[i, j] = ex[i, j] - HALF * (hz[i, j] - hz[i, j - 1])
        for i in prange(n - 1):
            for j in range(m - 1):
                hz[i, j] = hz[i, j] - SEVENTH * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])


def wave(now, before, steps):
    """The wave equation, two levels that change places: after two steps they are back."""
    h, w = now.shape
    for _ in range(steps):
        for y in prange(1, h - 1):
            for x in range(1, w - 1):
                before[y, x] = (
                    TWO * now[y, x] - before[y, x]
                    + COURANT * (now[y - 1, x] + now[y + 1, x] + now[y, x - 1] + now[y, x + 1] - FOUR * now[y, x])
                )  # fmt: skip
        now, before = before, now


def x_wave(now, before):
    m = now[1:-1, 1:-1]
    around = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:]
    return 2.0 * m - before[1:-1, 1:-1] + 0.2 * (around - 4.0 * m)


def p_wave(now, before, steps):
    for _ in range(steps):
        before[1:-1, 1:-1] = x_wave(now, before)
        now, before = before, now
    return now, before


def j_wave(now, before, steps):
    import jax

    def step(_, held):
        now, before = held
        return before.at[1:-1, 1:-1].set(x_wave(now, before)), now

    return jax.lax.fori_loop(0, steps, step, (now, before))


def x_jacobi(a):
    return 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])


def of_sixteen(form):
    """A form of turns, of which the kernel has eight."""
    return lambda a, b: form(a, b, 8)


def horizontal_diffusion(field, coefficient, result):
    """COSMO's horizontal diffusion with flux limiters."""
    K, H, W = field.shape
    laplacian = np.empty_like(field)
    along = np.empty_like(field)
    across = np.empty_like(field)
    for k in prange(K):
        for j in range(1, H - 1):
            for i in range(1, W - 1):
                laplacian[k, j, i] = FOUR * field[k, j, i] - (
                    field[k, j, i + 1] + field[k, j, i - 1] + field[k, j + 1, i] + field[k, j - 1, i]
                )
    for k in prange(K):
        for j in range(2, H - 2):
            for i in range(1, W - 2):
                flux = laplacian[k, j, i + 1] - laplacian[k, j, i]
                along[k, j, i] = ZERO if flux * (field[k, j, i + 1] - field[k, j, i]) > ZERO else flux
    for k in prange(K):
        for j in range(1, H - 2):
            for i in range(2, W - 2):
                flux = laplacian[k, j + 1, i] - laplacian[k, j, i]
                across[k, j, i] = ZERO if flux * (field[k, j + 1, i] - field[k, j, i]) > ZERO else flux
    for k in prange(K):
        for j in range(2, H - 2):
            for i in range(2, W - 2):
                result[k, j, i] = field[k, j, i] - coefficient[k, j, i] * (
                    along[k, j, i] - along[k, j, i - 1] + across[k, j, i] - across[k, j - 1, i]
                )


def two_fields(*names: str):
    """Two f32 fields of these names, and `steps` where it is among the sizes."""

    def make(random: np.random.Generator, N: int, dimensions: int = 2, **more: int) -> Arguments:
        return {**{name: f32(random, *[N] * dimensions) for name in names}, **more}

    return make


def for_fdtd(random: np.random.Generator, N: int, T: int) -> Arguments:
    return {**{name: f32(random, N, N) for name in ("ex", "ey", "hz")}, "fict": f32(random, T)}


def for_diffusion(random: np.random.Generator, K: int, H: int, W: int) -> Arguments:
    fields = {name: f32(random, K, H, W) for name in ("field", "coefficient")}
    return {**fields, "result": np.zeros((K, H, W), F)}


CASES = (
    Case("Jacobi 5-point, 16 sweeps", GROUP, stencils.jacobi, two_fields("a", "b"), sizes("N=4096"), sizes("N=13"),
         ("a", "b"), 1e-5, inout=("a", "b"), unfused=True,
         forms={name: of_sixteen(form) for name, form in in_turns(x_jacobi).items()}),
    Case("heat 7-point, 8 sweeps", GROUP, heat, two_fields("A", "B"), sizes("N=256 dimensions=3 steps=4"),
         sizes("N=7 dimensions=3 steps=2"), ("A", "B"), 1e-5, inout=("A", "B"), unfused=True, forms=in_turns(x_heat_3d)),
    Case("FDTD, three fields", GROUP, fdtd, for_fdtd, sizes("N=2000 T=16"), sizes("N=11 T=3"), ("ex", "ey", "hz"), 1e-4,
         inout=("ex", "ey", "hz"), unfused=True, forms={"numpy": p_fdtd_2d, "torch": p_fdtd_2d, "jax": j_fdtd_2d}),
    Case("wave equation", GROUP, wave, two_fields("now", "before"), sizes("N=4096 steps=10"), sizes("N=11 steps=4"),
         ("now", "before"), 1e-4, inout=("now", "before"), unfused=True,
         forms={"numpy": p_wave, "torch": p_wave, "jax": j_wave}),
    Case("horizontal diffusion", GROUP, horizontal_diffusion, for_diffusion, sizes("K=64 H=256 W=256"),
         sizes("K=3 H=11 W=13"), ("result",), 2e-4, inside=2, unfused=True,
         forms=by(formulas.horizontal_diffusion, "field coefficient"),
         note="a limiter compares with zero: a flux within rounding of it may be cut in f32 and not in f64"),
)  # fmt: skip
