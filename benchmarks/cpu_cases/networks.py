"""Element-wise chains and the parts of neural networks, in f32."""

from __future__ import annotations

import math

import formulas
import numpy as np

from loopfuse import prange

from .case import Arguments, Case, F, by, f32, sizes

GROUP = "Networks"
ZERO, ONE, HALF, QUARTER, SCALE = F(0), F(1), F(0.5), F(0.25), F(1.25)
LEAST, EPSILON, ROOT_HALF, EIGHTH = F(-np.inf), F(1e-5), F(math.sqrt(0.5)), F(0.125)
erf = math.erf
"""loopfuse's own for loopfuse."""


def gelu(v):
    return HALF * v * (ONE + erf(v * ROOT_HALF))


def chain(x, y):
    """Ten element-wise loops."""
    n = len(x)
    scaled = np.empty_like(x)
    rectified = np.empty_like(x)
    raised = np.empty_like(x)
    halved = np.empty_like(x)
    squashed = np.empty_like(x)
    lowered = np.empty_like(x)
    squared = np.empty_like(x)
    added = np.empty_like(x)
    gate = np.empty_like(x)
    for i in prange(n):
        scaled[i] = SCALE * x[i]
    for i in prange(n):
        rectified[i] = max(scaled[i], ZERO)
    for i in prange(n):
        raised[i] = rectified[i] + ONE
    for i in prange(n):
        halved[i] = raised[i] * HALF
    for i in prange(n):
        squashed[i] = np.tanh(halved[i])
    for i in prange(n):
        lowered[i] = squashed[i] - QUARTER
    for i in prange(n):
        squared[i] = lowered[i] * lowered[i]
    for i in prange(n):
        added[i] = squared[i] + x[i]
    for i in prange(n):
        gate[i] = ONE / (ONE + np.exp(-added[i]))
    for i in prange(n):
        y[i] = gate[i] * x[i]


def bias_gelu_residual(x, bias, residual, y):
    R, C = x.shape
    biased = np.empty_like(x)
    activated = np.empty_like(x)
    for r in prange(R):
        for c in range(C):
            biased[r, c] = x[r, c] + bias[c]
    for r in prange(R):
        for c in range(C):
            activated[r, c] = gelu(biased[r, c])
    for r in prange(R):
        for c in range(C):
            y[r, c] = activated[r, c] + residual[r, c]


def t_bias_gelu_residual(x, bias, residual):
    from torch.nn import functional

    return functional.gelu(x + bias) + residual


def softmax(x, y):
    R, C = x.shape
    for r in prange(R):
        most = LEAST
        for c in range(C):
            most = max(most, x[r, c])
        total = ZERO
        for c in range(C):
            total += np.exp(x[r, c] - most)
        for c in range(C):
            y[r, c] = np.exp(x[r, c] - most) / total


def n_softmax(x, y):
    R, C = x.shape
    for r in prange(R):
        most = x[r, 0]
        for c in range(1, C):
            most = max(most, x[r, c])
        total = ZERO
        for c in range(C):
            e = np.exp(x[r, c] - most)
            y[r, c] = e
            total += e
        share = ONE / total
        for c in range(C):
            y[r, c] *= share


def layernorm_gelu(x, residual, gamma, beta, y):
    R, C = x.shape
    v = np.empty_like(x)
    for r in prange(R):
        for c in range(C):
            v[r, c] = x[r, c] + residual[r, c]
    for r in prange(R):
        total = ZERO
        for c in range(C):
            total += v[r, c]
        mean = total / F(C)
        squares = ZERO
        for c in range(C):
            squares += (v[r, c] - mean) * (v[r, c] - mean)
        scale = ONE / np.sqrt(squares / F(C) + EPSILON)
        for c in range(C):
            y[r, c] = gelu((v[r, c] - mean) * scale * gamma[c] + beta[c])


def t_layernorm_gelu(x, residual, gamma, beta):
    from torch.nn import functional

    return functional.gelu(functional.layer_norm(x + residual, (x.shape[-1],), gamma, beta, 1e-5))


def rmsnorm(x, weight, y):
    R, C = x.shape
    for r in prange(R):
        squares = ZERO
        for c in range(C):
            squares += x[r, c] * x[r, c]
        scale = ONE / np.sqrt(squares / F(C) + EPSILON)
        for c in range(C):
            y[r, c] = x[r, c] * scale * weight[c]


def t_rmsnorm(x, weight):
    from torch.nn import functional

    return functional.rms_norm(x, (x.shape[-1],), weight, 1e-5)


def cross_entropy(logits, label, loss):
    B, V = logits.shape
    for b in prange(B):
        most = LEAST
        for v in range(V):
            most = max(most, logits[b, v])
        total = ZERO
        for v in range(V):
            total += np.exp(logits[b, v] - most)
        loss[b] = np.log(total) - (logits[b, label[b]] - most)


def t_cross_entropy(logits, label):
    from torch.nn import functional

    return functional.cross_entropy(logits, label, reduction="none")


def j_cross_entropy(logits, label):
    import jax
    import jax.numpy as jnp

    return jax.nn.logsumexp(logits, 1) - jnp.take_along_axis(logits, label[:, None], 1)[:, 0]


def attention(q, k, v, y):
    """Scores, their softmax, the weighted sum; a head after the other, whole matrices between."""
    H, T, D = q.shape
    scores = np.empty((H, T, T), q.dtype)
    weights = np.empty((H, T, T), q.dtype)
    for h in prange(H):
        for i in range(T):
            for j in range(T):
                dot = ZERO
                for d in range(D):
                    dot += q[h, i, d] * k[h, j, d]
                scores[h, i, j] = EIGHTH * dot
    for h in prange(H):
        for i in range(T):
            most = LEAST
            for j in range(T):
                most = max(most, scores[h, i, j])
            total = ZERO
            for j in range(T):
                total += np.exp(scores[h, i, j] - most)
            for j in range(T):
                weights[h, i, j] = np.exp(scores[h, i, j] - most) / total
    for h in prange(H):
        for i in range(T):
            for d in range(D):
                sum_ = ZERO
                for j in range(T):
                    sum_ += weights[h, i, j] * v[h, j, d]
                y[h, i, d] = sum_


def n_attention(q, k, v, y):
    H, T, D = q.shape
    for p in prange(H * T):
        h = p // T
        i = p % T
        row = np.empty(T, q.dtype)
        for j in range(T):
            dot = ZERO
            for d in range(D):
                dot += q[h, i, d] * k[h, j, d]
            row[j] = EIGHTH * dot
        most = row[0]
        for j in range(T):
            most = max(most, row[j])
        total = ZERO
        for j in range(T):
            row[j] = np.exp(row[j] - most)
            total += row[j]
        for d in range(D):
            y[h, i, d] = ZERO
        for j in range(T):
            for d in range(D):
                y[h, i, d] += row[j] * v[h, j, d]
        for d in range(D):
            y[h, i, d] /= total


def t_attention(q, k, v):
    from torch.nn import functional

    return functional.scaled_dot_product_attention(q[None], k[None], v[None], scale=0.125)[0]


def j_attention(q, k, v):
    import jax
    import jax.numpy as jnp

    return jax.nn.softmax(0.125 * jnp.einsum("hid,hjd->hij", q, k), -1) @ v


def conv(x, weight, bias, y):
    """A 3x3 convolution without padding, bias and ReLU."""
    N, C, H, W = x.shape
    K, _, R, S = weight.shape
    for n in prange(N):
        for k in range(K):
            for h in range(H - R + 1):
                for w in range(W - S + 1):
                    total = ZERO
                    for c in range(C):
                        for r in range(R):
                            for s in range(S):
                                total += x[n, c, h + r, w + s] * weight[k, c, r, s]
                    y[n, k, h, w] = max(total + bias[k], ZERO)


def n_conv(x, weight, bias, y):
    N, C, H, W = x.shape
    K, _, R, S = weight.shape
    for p in prange(N * K):
        n = p // K
        k = p % K
        for h in range(H - R + 1):
            for w in range(W - S + 1):
                y[n, k, h, w] = bias[k]
            for c in range(C):
                for r in range(R):
                    for s in range(S):
                        for w in range(W - S + 1):
                            y[n, k, h, w] += weight[k, c, r, s] * x[n, c, h + r, w + s]
            for w in range(W - S + 1):
                y[n, k, h, w] = max(y[n, k, h, w], ZERO)


def t_conv(x, weight, bias):
    import torch
    from torch.nn import functional

    return torch.relu(functional.conv2d(x, weight, bias))


def j_conv(x, weight, bias):
    import jax

    made = jax.lax.conv_general_dilated(x, weight, (1, 1), "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW"))
    return jax.nn.relu(made + bias[:, None, None])


def rope(q, k, cosine, sine, q_turned, k_turned):
    """Rotary position embedding of queries and keys."""
    B, T, H, D = q.shape
    assert D % 2 == 0
    half = D // 2
    for b in prange(B):
        for t in range(T):
            for h in range(H):
                for d in range(half):
                    q_turned[b, t, h, d] = q[b, t, h, d] * cosine[t, d] - q[b, t, h, d + half] * sine[t, d]
                    q_turned[b, t, h, d + half] = q[b, t, h, d + half] * cosine[t, d] + q[b, t, h, d] * sine[t, d]
    for b in prange(B):
        for t in range(T):
            for h in range(H):
                for d in range(half):
                    k_turned[b, t, h, d] = k[b, t, h, d] * cosine[t, d] - k[b, t, h, d + half] * sine[t, d]
                    k_turned[b, t, h, d + half] = k[b, t, h, d + half] * cosine[t, d] + k[b, t, h, d] * sine[t, d]


def turned(join):
    def form(q, k, cosine, sine):
        c, s = cosine[:, None, :], sine[:, None, :]
        half = q.shape[-1] // 2

        def turn(v):
            a, b = v[..., :half], v[..., half:]
            return join((a * c - b * s, b * c + a * s), -1)

        return turn(q), turn(k)

    return form


def t_rope(q, k, cosine, sine):
    import torch

    return turned(torch.cat)(q, k, cosine, sine)


def j_rope(q, k, cosine, sine):
    import jax.numpy as jnp

    return turned(jnp.concatenate)(q, k, cosine, sine)


def for_chain(random: np.random.Generator, N: int) -> Arguments:
    return {"x": f32(random, N, low=-2, high=2), "y": np.zeros(N, F)}


def rows(**names: str):
    """Arrays `R` by `C` or of length `C`, as `names` says, and the result `y`."""

    def make(random: np.random.Generator, R: int, C: int) -> Arguments:
        shapes = {"RC": (R, C), "C": (C,)}
        made = {name: f32(random, *shapes[shape], low=-2, high=2) for name, shape in names.items()}
        return {**made, "y": np.zeros((R, C), F)}

    return make


def for_cross_entropy(random: np.random.Generator, B: int, V: int) -> Arguments:
    logits = f32(random, B, V, low=-4, high=4)
    return {"logits": logits, "label": random.integers(0, V, B), "loss": np.zeros(B, F)}


def for_attention(random: np.random.Generator, H: int, T: int, D: int) -> Arguments:
    return {**{name: f32(random, H, T, D, low=-1) for name in "qkv"}, "y": np.zeros((H, T, D), F)}


def for_conv(random: np.random.Generator, N: int, C: int, H: int, W: int, K: int) -> Arguments:
    x, weight, bias = f32(random, N, C, H, W, low=-1), f32(random, K, C, 3, 3, low=-1), f32(random, K)
    return {"x": x, "weight": weight, "bias": bias, "y": np.zeros((N, K, H - 2, W - 2), F)}


def for_rope(random: np.random.Generator, B: int, T: int, H: int, D: int) -> Arguments:
    q, k = f32(random, B, T, H, D, low=-1), f32(random, B, T, H, D, low=-1)
    angle = np.arange(T)[:, None] * 10000.0 ** (-np.arange(D // 2) * 2 / D)
    turns = {"cosine": np.cos(angle).astype(F), "sine": np.sin(angle).astype(F)}
    return {"q": q, "k": k, **turns, "q_turned": np.zeros_like(q), "k_turned": np.zeros_like(k)}


FULL, TINY = sizes("R=4096 C=4096"), sizes("R=5 C=37")

CASES = (
    Case("chain of ten", GROUP, chain, for_chain, sizes("N=16777216"), sizes("N=203"), ("y",), 1e-5, unfused=True,
         forms=by(formulas.chain, "x", scale=1.25)),
    Case("bias + GELU + residual", GROUP, bias_gelu_residual, rows(x="RC", bias="C", residual="RC"), FULL, TINY, ("y",),
         1e-5, unfused=True, forms={"torch": t_bias_gelu_residual, **by(formulas.bias_gelu, "x bias residual", "jax")}),
    Case("softmax", GROUP, softmax, rows(x="RC"), FULL, TINY, ("y",), 2e-5, unfused=True, numba=n_softmax,
         note="numba: exponentials kept", forms=by(formulas.softmax, "x")),
    Case("layernorm + GELU", GROUP, layernorm_gelu, rows(x="RC", residual="RC", gamma="C", beta="C"), FULL, TINY, ("y",),
         2e-5, unfused=True,
         forms={"torch": t_layernorm_gelu, **by(formulas.layernorm_gelu, "x residual gamma beta", "jax", epsilon=1e-5)}),
    Case("RMSnorm", GROUP, rmsnorm, rows(x="RC", weight="C"), FULL, TINY, ("y",), 2e-5, unfused=True,
         forms={**by(formulas.rmsnorm, "x weight", epsilon=1e-5), "torch": t_rmsnorm}),
    Case("cross-entropy", GROUP, cross_entropy, for_cross_entropy, sizes("B=2048 V=16384"), sizes("B=5 V=37"), ("loss",),
         2e-5, unfused=True, forms={"torch": t_cross_entropy, "jax": j_cross_entropy}),
    Case("attention", GROUP, attention, for_attention, sizes("H=8 T=512 D=64"), sizes("H=2 T=9 D=5"), ("y",), 2e-5,
         unfused=True, numba=n_attention, note="numba: a row of scores at a time, over heads and rows",
         forms={"torch": t_attention, "jax": j_attention}),
    Case("3x3 convolution + bias + ReLU", GROUP, conv, for_conv, sizes("N=4 C=32 H=64 W=64 K=32"),
         sizes("N=2 C=3 H=7 W=8 K=4"), ("y",), 2e-5, unfused=True, numba=n_conv,
         note="numba: rows of the result innermost, over images and channels", forms={"torch": t_conv, "jax": j_conv}),
    Case("RoPE", GROUP, rope, for_rope, sizes("B=4 T=1024 H=16 D=64"), sizes("B=2 T=3 H=2 D=6"), ("q_turned", "k_turned"),
         2e-5, unfused=True, forms={"numpy": turned(np.concatenate), "torch": t_rope, "jax": j_rope}),
)  # fmt: skip
