"""Reductions, running values and histograms."""

from __future__ import annotations

import formulas
import numpy as np

from loopfuse import prange

from .case import Arguments, Case, F, by, f32, f64, sizes

GROUP = "Reductions and scans"
ZERO, LEAST, MOST = F(0), F(-np.inf), F(np.inf)


def l2norm(x, norm):
    total = ZERO
    for i in prange(len(x)):
        total += x[i] * x[i]
    norm[0] = np.sqrt(total)


def t_l2norm(x):
    import torch

    return torch.linalg.vector_norm(x)


def statistics(x, mean, variance, low, high):
    """Mean, variance, least and greatest: four loops."""
    n = len(x)
    total = ZERO
    for i in prange(n):
        total += x[i]
    squares = ZERO
    for i in prange(n):
        squares += x[i] * x[i]
    least = MOST
    for i in prange(n):
        least = min(least, x[i])
    most = LEAST
    for i in prange(n):
        most = max(most, x[i])
    mean[0] = total / F(n)
    variance[0] = squares / F(n) - (total / F(n)) * (total / F(n))
    low[0] = least
    high[0] = most


def n_statistics(x, mean, variance, low, high):
    n = len(x)
    total = 0.0
    squares = 0.0
    least = MOST
    most = LEAST
    for i in prange(n):
        total += x[i]
        squares += x[i] * x[i]
        least = min(least, x[i])
        most = max(most, x[i])
    mean[0] = total / n
    variance[0] = squares / n - (total / n) * (total / n)
    low[0] = least
    high[0] = most


def x_statistics(x):
    mean = x.mean()
    return mean, (x * x).mean() - mean * mean, x.min(), x.max()


def t_statistics(x):
    import torch

    variance, mean = torch.var_mean(x, correction=0)
    low, high = torch.aminmax(x)
    return mean, variance, low, high


def column_sums(x, s):
    R, C = x.shape
    for c in range(C):
        s[c] = ZERO
    for r in range(R):
        for c in range(C):
            s[c] += x[r, c]


def p_column_sums(x, s):
    R, C = x.shape
    for block in prange((C + 127) // 128):
        low = block * 128
        high = min(low + 128, C)
        part = np.zeros(128, F)
        for r in range(R):
            for c in range(low, high):
                part[c - low] += x[r, c]
        for c in range(low, high):
            s[c] = part[c - low]


def prefix_sum(x, y):
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = y[i - 1] + x[i]


def p_prefix_sum(x, y):
    n = len(x)
    parts = 64
    sums = np.zeros(parts + 1)
    for p in prange(parts):
        total = 0.0
        for i in range(p * n // parts, (p + 1) * n // parts):
            total += x[i]
        sums[p + 1] = total
    for p in range(parts):
        sums[p + 1] += sums[p]
    for p in prange(parts):
        total = sums[p]
        for i in range(p * n // parts, (p + 1) * n // parts):
            total += x[i]
            y[i] = total


def recurrence(a, b, start, h):
    """h[t] = a[t] h[t - 1] + b[t], the channels of a step together."""
    B, T, D = a.shape
    for n in prange(B):
        for d in range(D):
            h[n, 0, d] = a[n, 0, d] * start[n, d] + b[n, 0, d]
        for t in range(1, T):
            for d in range(D):
                h[n, t, d] = a[n, t, d] * h[n, t - 1, d] + b[n, t, d]


def recurrence_by_channel(a, b, start, h):
    """The same, a channel after the other with its state."""
    B, T, D = a.shape
    for n in prange(B):
        for d in range(D):
            state = start[n, d]
            for t in range(T):
                state = a[n, t, d] * state + b[n, t, d]
                h[n, t, d] = state


def p_recurrence(a, b, start, h):
    B, T, D = a.shape
    blocks = (D + 63) // 64
    for p in prange(B * blocks):
        n = p // blocks
        low = (p % blocks) * 64
        high = min(low + 64, D)
        for d in range(low, high):
            h[n, 0, d] = a[n, 0, d] * start[n, d] + b[n, 0, d]
        for t in range(1, T):
            for d in range(low, high):
                h[n, t, d] = a[n, t, d] * h[n, t - 1, d] + b[n, t, d]


def t_recurrence(a, b, start):
    import torch

    h = torch.empty_like(a)
    state = start
    for t in range(a.shape[1]):
        state = torch.addcmul(b[:, t], a[:, t], state)
        h[:, t] = state
    return h


def j_recurrence(a, b, start):
    import jax

    def step(state, given):
        state = given[0] * state + given[1]
        return state, state

    return jax.lax.scan(step, start, (a.swapaxes(0, 1), b.swapaxes(0, 1)))[1].swapaxes(0, 1)


def histogram(x, count):
    for i in range(len(x)):
        count[x[i]] += 1


def p_histogram(x, count):
    n = len(x)
    parts = 64
    own = np.zeros((parts, 256), np.int64)
    for p in prange(parts):
        for i in range(p * n // parts, (p + 1) * n // parts):
            own[p, x[i]] += 1
    for k in range(256):
        for p in range(parts):
            count[k] += own[p, k]


def t_histogram(x):
    import torch

    return torch.bincount(x, minlength=256)


def j_histogram(x):
    import jax.numpy as jnp

    return jnp.bincount(x, length=256)


def for_vector(*results: str, low: float = 0.0):
    """An f32 vector and the single numbers that are made of it."""

    def make(random: np.random.Generator, N: int) -> Arguments:
        return {"x": f32(random, N, low=low), **{name: np.zeros(1, F) for name in results}}

    return make


def for_columns(random: np.random.Generator, R: int, C: int) -> Arguments:
    return {"x": f32(random, R, C, low=-1), "s": np.zeros(C, F)}


def for_prefix_sum(random: np.random.Generator, N: int) -> Arguments:
    return {"x": f64(random, N), "y": np.zeros(N)}


def for_recurrence(random: np.random.Generator, B: int, T: int, D: int) -> Arguments:
    a, b, start = f32(random, B, T, D), f32(random, B, T, D), f32(random, B, D)
    return {"a": a, "b": b, "start": start, "h": np.zeros((B, T, D), F)}


def for_histogram(random: np.random.Generator, N: int) -> Arguments:
    return {"x": random.integers(0, 256, N, np.uint8), "count": np.zeros(256, np.int64)}


LONG, STEPS, FEW = sizes("N=67108864"), sizes("B=4 T=2048 D=1024"), sizes("B=2 T=9 D=11")
IN_BLOCKS = "numba in parallel: by hand, blocks of columns"

CASES = (
    Case("l2 norm", GROUP, l2norm, for_vector("norm", low=-1), LONG, sizes("N=203"), ("norm",), 1e-3,
         forms={**by(formulas.l2norm, "x", "jax"), "torch": t_l2norm, "numpy": lambda x: np.sqrt(x @ x)}),
    Case("statistics", GROUP, statistics, for_vector("mean", "variance", "low", "high"), LONG, sizes("N=203"),
         ("mean", "variance", "low", "high"), 5e-3, numba=n_statistics, libraries=x_statistics, forms={"torch": t_statistics},
         note="numba: one loop, sums in f64 (one f32 accumulator loses the sum)"),
    Case("column sums", GROUP, column_sums, for_columns, sizes("R=8192 C=4096"), sizes("R=19 C=37"), ("s",), 1e-4,
         parallel=p_column_sums, note=IN_BLOCKS, forms=by(formulas.column_sums, "x")),
    Case("prefix sum, f64", GROUP, prefix_sum, for_prefix_sum, sizes("N=16777216"), sizes("N=203"), ("y",), 1e-10,
         parallel=p_prefix_sum, note="numba in parallel: by hand, two passes over 64 parts", forms=by(formulas.prefix_sum, "x"),
         reason="two sweeps by two threads: where an addition takes two cycles, one thread's chain of them keeps up with memory"),
    Case("linear recurrence", GROUP, recurrence, for_recurrence, STEPS, FEW, ("h",), 1e-5, parallel=p_recurrence,
         note=IN_BLOCKS, forms={"torch": t_recurrence, "jax": j_recurrence}),
    Case("linear recurrence by channel", GROUP, recurrence_by_channel, for_recurrence, STEPS, FEW, ("h",), 1e-5,
         numba=recurrence, parallel=p_recurrence, note="numba: the channels of a step together; in parallel by blocks of them",
         forms={"torch": t_recurrence, "jax": j_recurrence}),
    Case("histogram of bytes", GROUP, histogram, for_histogram, LONG, sizes("N=1007"), ("count",), 0.0, inout=("count",),
         parallel=p_histogram, note="numba in parallel: by hand, 64 private histograms",
         forms={"numpy": lambda x: np.bincount(x, minlength=256), "torch": t_histogram, "jax": j_histogram}),
)  # fmt: skip
