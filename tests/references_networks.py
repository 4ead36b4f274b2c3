"""References of the examples from neural networks and machine learning.

Imported by `references`, which says what a reference is.
"""

from __future__ import annotations

import numpy as np
from references import Arguments, like, reference


@reference
def rmsnorm(a: Arguments) -> dict[str, np.ndarray]:
    """Each row over its root mean square, computed in f32 at least."""
    x = a["x"].astype(np.result_type(a["x"], np.float32))
    scale = 1 / np.sqrt((x * x).mean(1, keepdims=True) + a["epsilon"])
    return {"y": like(a, "y", x * scale * a["weight"])}


@reference
def group_norm(a: Arguments) -> dict[str, np.ndarray]:
    """Groups normalised over their channels and pixels."""
    x = a["x"]
    centred = x - x.mean((2, 3), keepdims=True)
    variance = (centred * centred).mean((2, 3), keepdims=True)
    normal = centred / np.sqrt(variance + a["epsilon"])
    return {"y": like(a, "y", normal * a["gamma"][..., None] + a["beta"][..., None])}


@reference
def layernorm_backward(a: Arguments) -> dict[str, np.ndarray]:
    """The three gradients, the Jacobian of the normalisation applied to dy * gamma."""
    dy, scale = a["dy"], a["scale"][:, None]
    normal = (a["x"] - a["mean"][:, None]) * scale
    g = dy * a["gamma"]
    along = (g * normal).mean(1, keepdims=True)
    return {
        "dx": like(a, "dx", scale * (g - g.mean(1, keepdims=True) - normal * along)),
        "dgamma": (dy * normal).sum(0),
        "dbeta": dy.sum(0),
    }


@reference
def rope(a: Arguments) -> dict[str, np.ndarray]:
    """Pairs (d, d + D/2) as complex numbers, times exp(i angle)."""
    turn = (a["cosine"] + 1j * a["sine"])[None, :, None, :]

    def turned(x: np.ndarray) -> np.ndarray:
        half = x.shape[-1] // 2
        z = (x[..., :half] + 1j * x[..., half:]) * turn
        return np.concatenate([z.real, z.imag], -1).astype(x.dtype)

    return {"q_turned": turned(a["q"]), "k_turned": turned(a["k"])}


@reference
def alibi(a: Arguments) -> dict[str, np.ndarray]:
    """softmax(scores - slope |i - j|)."""
    at = np.arange(a["scores"].shape[1])
    away = np.abs(at[:, None] - at).astype(a["scores"].dtype)
    scores = a["scores"] - a["slope"][:, None, None] * away
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return {"weights": e / e.sum(-1, keepdims=True)}


@reference
def causal_attention(a: Arguments) -> dict[str, np.ndarray]:
    """softmax(scale q k^T, masked above the diagonal) v."""
    scores = a["scale"] * (a["q"] @ a["k"].transpose(0, 2, 1))
    scores = np.where(np.tri(scores.shape[1], dtype=bool), scores, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return {"y": like(a, "y", e / e.sum(-1, keepdims=True) @ a["v"])}


@reference
def selective_scan(a: Arguments) -> dict[str, np.ndarray]:
    """Mamba's recurrence, all batches, channels and states of one time step at once."""
    x, delta = a["x"], a["delta"]
    h = np.zeros((x.shape[0], *a["a"].shape), x.dtype)
    y = np.empty_like(a["y"])
    for t in range(x.shape[1]):
        step = delta[:, t, :, None]
        h = np.exp(step * a["a"]) * h + step * a["b"][:, t, None, :] * x[:, t, :, None]
        y[:, t] = (h * a["c"][:, t, None, :]).sum(-1) + a["skip"] * x[:, t]
    return {"y": y}


@reference
def strided_conv(a: Arguments) -> dict[str, np.ndarray]:
    """Correlation with one pixel of zeros around, at every second position."""
    padded = np.pad(a["x"], ((0, 0), (0, 0), (1, 1), (1, 1)))
    patches = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    product = np.einsum("nchwrs,kcrs->nkhw", patches, a["weight"])
    return {"y": product + a["bias"].reshape(1, -1, 1, 1)}


@reference
def quantized_matmul(a: Arguments) -> dict[str, np.ndarray]:
    """clip(round(scales * (a @ b)))."""
    kind = a["b_scale"].dtype
    total = (a["a"].astype(np.int64) @ a["b"].astype(np.int64)).astype(kind)
    real = total * (a["a_scale"] * a["b_scale"]) / a["c_scale"]
    return {"c": np.clip(np.rint(real), -128, 127).astype(np.int8)}


@reference
def dropout(a: Arguments) -> dict[str, np.ndarray]:
    """Philox 4x32-10 in Python's own integers, after Salmon et al.'s text."""
    n, keep = len(a["x"]), a["keep"]
    words: list[int] = []
    seed, offset = int(a["seed"]), int(a["offset"])
    for group in range((n + 3) // 4):
        words += philox((group, 0, offset % 2**32, offset >> 32), (seed % 2**32, seed >> 32))
    drawn = np.array([(word >> 8) / 2**24 for word in words[:n]])
    return {"y": np.where(drawn < keep, a["x"] / keep, 0).astype(a["x"].dtype)}


def philox(counter: tuple[int, ...], key: tuple[int, ...]) -> tuple[int, ...]:
    """Ten rounds of Philox 4x32."""
    for k in range(10):
        k0, k1 = (key[0] + k * 0x9E3779B9) % 2**32, (key[1] + k * 0xBB67AE85) % 2**32
        high0, low0 = divmod(0xD2511F53 * counter[0], 2**32)
        high1, low1 = divmod(0xCD9E8D57 * counter[2], 2**32)
        counter = (high1 ^ counter[1] ^ k0, low1, high0 ^ counter[3] ^ k1, low0)
    return counter


@reference
def kmeans_assign(a: Arguments) -> dict[str, np.ndarray]:
    """The nearest centre of each point, and how far it is."""
    squares = ((a["points"][:, None] - a["centres"]) ** 2).sum(-1)
    return {
        "label": squares.argmin(1).astype(np.int32),
        "squared": squares.min(1),
    }
