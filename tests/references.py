"""What the examples compute, written a second time with whole NumPy arrays.

Each reference takes the kernel's arguments by name and returns the arrays it writes, by name; it
changes nothing in place. It computes in the dtype of the arrays it is given: called with float64
copies it is the yardstick for accuracy, called with the example's own dtype it shows what a user
of NumPy would get. Elements that a kernel leaves alone come from the caller's arrays.

`prepare` adjusts random arguments to what an example needs (a variance is positive, a one-hot row
has a single 1), and `TOLERANCE` is what the example's own dtype may lose against float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Arguments = Mapping[str, Any]
Reference = Callable[[Arguments], dict[str, np.ndarray]]

REFERENCES: dict[str, Reference] = {}


def reference(function: Reference) -> Reference:
    """Registers `function` as the reference of the kernel of the same name."""
    REFERENCES[function.__name__] = function
    return function


def erf(x: np.ndarray) -> np.ndarray:
    """The error function in x's dtype (NumPy itself has none)."""
    return np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype)


def gelu(v: np.ndarray) -> np.ndarray:
    """The exact GELU."""
    half, one, root = (v.dtype.type(c) for c in (0.5, 1.0, math.sqrt(0.5)))
    return half * v * (one + erf(v * root))


def like(a: Arguments, name: str, value: np.ndarray) -> np.ndarray:
    """`value` in the dtype of argument `name`."""
    return np.asarray(value).astype(a[name].dtype)


# ------------------------------------------------------------------------------ element-wise


@reference
def chain(a: Arguments) -> dict[str, np.ndarray]:
    """Ten element-wise operations."""
    x = a["x"]
    v = np.maximum(a["scale"] * x, 0) + 1
    v = np.tanh(v * 0.5) - 0.25
    v = v * v + x
    return {"y": like(a, "y", 1 / (1 + np.exp(-v)) * x)}


@reference
def scale_relu_add(a: Arguments) -> dict[str, np.ndarray]:
    """max(scale * x, 0) + residual."""
    return {"y": like(a, "y", np.maximum(a["scale"] * a["x"], 0) + a["residual"])}


@reference
def bias_gelu_residual(a: Arguments) -> dict[str, np.ndarray]:
    """gelu(x + bias) + residual."""
    return {"y": gelu(a["x"] + a["bias"]) + a["residual"]}


@reference
def batchnorm_relu_add(a: Arguments) -> dict[str, np.ndarray]:
    """Batch normalisation with given statistics, ReLU, skip connection."""
    shape = (1, -1, 1, 1)
    factor = a["gamma"] / np.sqrt(a["variance"] + a["epsilon"])
    offset = a["beta"] - a["mean"] * factor
    normal = a["x"] * factor.reshape(shape) + offset.reshape(shape)
    return {"y": like(a, "y", np.maximum(normal, 0) + a["skip"])}


@reference
def branches(a: Arguments) -> dict[str, np.ndarray]:
    """Two maps of one array."""
    return {"square": a["x"] * a["x"], "decay": np.exp(-a["x"])}


@reference
def saxpy(a: Arguments) -> dict[str, np.ndarray]:
    """a * x + y."""
    return {"y": like(a, "y", a["a"] * a["x"] + a["y"])}


@reference
def transpose_add(a: Arguments) -> dict[str, np.ndarray]:
    """2a + transposed b."""
    return {"c": 2 * a["a"] + a["b"].T}


@reference
def shift(a: Arguments) -> dict[str, np.ndarray]:
    """Doubled, and the doubled neighbour plus one."""
    doubled = 2 * a["x"]
    moved = a["moved"].copy()
    moved[1:] = doubled[:-1] + 1
    return {"doubled": doubled, "moved": moved}


@reference
def reversed(a: Arguments) -> dict[str, np.ndarray]:  # named after the example
    """x**2 + 1."""
    return {"y": a["x"] * a["x"] + 1}


# ---------------------------------------------------------------------------------- stencils


@reference
def unsharp(a: Arguments) -> dict[str, np.ndarray]:
    """Five-tap binomial-like blur in both directions, then an extrapolation away from it."""
    img = a["img"]
    h, w = img.shape
    taps = (0.0625, 0.25, 0.375, 0.25, 0.0625)
    padded = np.pad(img, ((0, 0), (2, 2)), "edge")
    rows = sum(c * padded[:, k : k + w] for k, c in enumerate(taps))
    padded = np.pad(rows, ((2, 2), (0, 0)), "edge")
    blurred = sum(c * padded[k : k + h] for k, c in enumerate(taps))
    return {"sharp": like(a, "sharp", blurred + (1 + a["amount"]) * (img - blurred))}


@reference
def blur(a: Arguments) -> dict[str, np.ndarray]:
    """A 3x3 mean with repeated edges."""
    p = np.pad(a["img"], 1, "edge")
    rows = (p[:, :-2] + p[:, 1:-1] + p[:, 2:]) / 3
    return {"smooth": like(a, "smooth", (rows[:-2] + rows[1:-1] + rows[2:]) / 3)}


def sobel(g: np.ndarray) -> np.ndarray:
    """The horizontal Sobel derivative over 12, on the inner pixels."""
    down = g[:-2] + 2 * g[1:-1] + g[2:]
    return (down[:, 2:] - down[:, :-2]) / 12


def box(v: np.ndarray) -> np.ndarray:
    """3x3 sums, on the inner pixels."""
    down = v[:-2] + v[1:-1] + v[2:]
    return down[:, :-2] + down[:, 1:-1] + down[:, 2:]


@reference
def harris(a: Arguments) -> dict[str, np.ndarray]:
    """Harris' corner response with k = 0.04 on the inner (H-4) x (W-4) pixels."""
    g = a["g"]
    response = a["response"].copy()
    if min(g.shape) > 4:
        ix, iy = sobel(g), sobel(g.T).T
        sxx, syy, sxy = box(ix * ix), box(iy * iy), box(ix * iy)
        response[2:-2, 2:-2] = sxx * syy - sxy * sxy - 0.04 * (sxx + syy) ** 2
    return {"response": response}


@reference
def horizontal_diffusion(a: Arguments) -> dict[str, np.ndarray]:
    """COSMO's limited horizontal diffusion on the points two away from the border."""
    f = a["field"]
    result = a["result"].copy()
    if min(f.shape[1:]) > 4:
        lap = np.zeros_like(f)
        inner = slice(1, -1)
        lap[:, 1:-1, 1:-1] = 4 * f[:, inner, inner] - (
            f[:, inner, 2:] + f[:, inner, :-2] + f[:, 2:, inner] + f[:, :-2, inner]
        )
        fi = np.diff(lap, axis=2)
        fi = np.where(fi * np.diff(f, axis=2) > 0, 0, fi)  # fi[i] lies between i and i+1
        fj = np.diff(lap, axis=1)
        fj = np.where(fj * np.diff(f, axis=1) > 0, 0, fj)
        update = np.diff(fi, axis=2)[:, 2:-2, 1:-1] + np.diff(fj, axis=1)[:, 1:-1, 2:-2]
        result[:, 2:-2, 2:-2] = f[:, 2:-2, 2:-2] - a["coefficient"][:, 2:-2, 2:-2] * update
    return {"result": result}


@reference
def jacobi(a: Arguments) -> dict[str, np.ndarray]:
    """PolyBench's jacobi-2d."""
    x, y = a["a"].copy(), a["b"].copy()
    for _ in range(a["steps"]):
        for source, sink in ((x, y), (y, x)):
            sink[1:-1, 1:-1] = 0.2 * (
                source[1:-1, 1:-1]
                + source[1:-1, :-2]
                + source[1:-1, 2:]
                + source[2:, 1:-1]
                + source[:-2, 1:-1]
            )
    return {"a": x, "b": y}


@reference
def heat3d(a: Arguments) -> dict[str, np.ndarray]:
    """PolyBench's heat-3d."""
    x, y = a["a"].copy(), a["b"].copy()
    inner = (slice(1, -1),) * 3
    for _ in range(a["steps"]):
        for source, sink in ((x, y), (y, x)):
            total = source[inner].copy()
            for axis in range(3):
                ahead = tuple(slice(2, None) if k == axis else slice(1, -1) for k in range(3))
                behind = tuple(slice(None, -2) if k == axis else slice(1, -1) for k in range(3))
                total = total + 0.125 * (source[ahead] - 2 * source[inner] + source[behind])
            sink[inner] = total
    return {"a": x, "b": y}


@reference
def wave(a: Arguments) -> dict[str, np.ndarray]:
    """A leapfrog step of the wave equation; the caller's arrays take turns as `now`."""
    now, before = a["now"].copy(), a["before"].copy()
    first, second = now, before
    for _ in range(a["steps"]):
        bend = now[2:] - 2 * now[1:-1] + now[:-2]
        before[1:-1] = 2 * now[1:-1] - before[1:-1] + a["courant"] * bend
        now, before = before, now
    return {"now": first, "before": second}


@reference
def gauss_seidel(a: Arguments) -> dict[str, np.ndarray]:
    """One in-place sweep and the residual it leaves."""
    b, x, residual = a["b"], a["x"].copy(), a["residual"].copy()
    for i in range(1, len(x) - 1):
        x[i] = 0.5 * (b[i] + x[i - 1] + x[i + 1])
    residual[1:-1] = b[1:-1] - (2 * x[1:-1] - x[:-2] - x[2:])
    return {"x": x, "residual": residual}


# -------------------------------------------------------------------- products, convolutions


@reference
def matmul_bias_relu(a: Arguments) -> dict[str, np.ndarray]:
    """max(a @ b + bias, 0)."""
    return {"c": np.maximum(a["a"] @ a["b"] + a["bias"], 0)}


@reference
def conv2d_bias_relu(a: Arguments) -> dict[str, np.ndarray]:
    """Valid correlation, bias, ReLU."""
    r, s = a["weight"].shape[2:]
    patches = np.lib.stride_tricks.sliding_window_view(a["x"], (r, s), axis=(2, 3))
    product = np.einsum("nchwrs,kcrs->nkhw", patches, a["weight"])
    return {"y": np.maximum(product + a["bias"].reshape(1, -1, 1, 1), 0)}


@reference
def depthwise_conv(a: Arguments) -> dict[str, np.ndarray]:
    """3x3 depthwise correlation with zero padding, bias, ReLU6."""
    padded = np.pad(a["x"], ((0, 0), (0, 0), (1, 1), (1, 1)))
    patches = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    filtered = np.einsum("nchwrs,crs->nchw", patches, a["weight"])
    return {"y": np.clip(filtered + a["bias"].reshape(1, -1, 1, 1), 0, 6)}


@reference
def triangular_solve(a: Arguments) -> dict[str, np.ndarray]:
    """L x = b by forward substitution."""
    return {"x": np.linalg.solve(np.tril(a["L"]), a["b"])}


@reference
def attention(a: Arguments) -> dict[str, np.ndarray]:
    """softmax(scale q k^T) v."""
    scores = a["scale"] * (a["q"] @ a["k"].transpose(0, 2, 1))
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return {"y": like(a, "y", e / e.sum(-1, keepdims=True) @ a["v"])}


# -------------------------------------------------------------------- reductions and scans


@reference
def l2norm(a: Arguments) -> dict[str, np.ndarray]:
    """The Euclidean length."""
    return {"norm": like(a, "norm", np.sqrt((a["x"] * a["x"]).sum())).reshape(1)}


@reference
def stats(a: Arguments) -> dict[str, np.ndarray]:
    """Mean, variance (mean of squares minus squared mean), extremes and length."""
    x = a["x"]
    squares = (x * x).sum()
    values = {
        "mean": x.mean(),
        "variance": squares / len(x) - x.mean() ** 2,
        "smallest": x.min(),
        "largest": x.max(),
        "length": np.sqrt(squares),
    }
    return {name: like(a, name, value).reshape(1) for name, value in values.items()}


@reference
def softmax(a: Arguments) -> dict[str, np.ndarray]:
    """Softmax of each row."""
    e = np.exp(a["x"] - a["x"].max(1, keepdims=True))
    return {"y": e / e.sum(1, keepdims=True)}


REFERENCES["softmax_loops"] = softmax


@reference
def layernorm_gelu(a: Arguments) -> dict[str, np.ndarray]:
    """Residual, layer normalisation over columns, GELU."""
    v = a["x"] + a["residual"]
    centred = v - v.mean(1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(1, keepdims=True) + a["epsilon"])
    return {"y": gelu(like(a, "y", centred * scale * a["gamma"] + a["beta"]))}


@reference
def cross_entropy(a: Arguments) -> dict[str, np.ndarray]:
    """Cross entropy of each row against its target distribution."""
    shifted = a["logits"] - a["logits"].max(1, keepdims=True)
    return {"loss": np.log(np.exp(shifted).sum(1)) - (a["target"] * shifted).sum(1)}


@reference
def linear_recurrence(a: Arguments) -> dict[str, np.ndarray]:
    """h[t] = a[t] h[t-1] + b[t]."""
    state, h = a["start"], np.empty_like(a["h"])
    for t in range(h.shape[1]):
        state = a["a"][:, t] * state + a["b"][:, t]
        h[:, t] = state
    return {"h": h}


@reference
def prefix_sum(a: Arguments) -> dict[str, np.ndarray]:
    """Inclusive prefix sum."""
    return {"y": np.cumsum(a["x"], dtype=a["x"].dtype)}


@reference
def gather_rows(a: Arguments) -> dict[str, np.ndarray]:
    """Rows of a table by index."""
    return {"rows": a["table"][a["token"]]}


@reference
def scatter_add(a: Arguments) -> dict[str, np.ndarray]:
    """The gradient of `gather_rows`."""
    total = a["table_grad"].copy()
    np.add.at(total, a["token"], a["grad"])
    return {"table_grad": total}


@reference
def csr_matvec(a: Arguments) -> dict[str, np.ndarray]:
    """b - A x, A in compressed rows."""
    residual = a["b"].copy()
    for row in range(len(residual)):
        cells = slice(a["start"][row], max(a["start"][row], a["start"][row + 1]))
        residual[row] -= np.dot(a["value"][cells], a["x"][a["column"][cells]])
    return {"residual": residual}


@reference
def histogram(a: Arguments) -> dict[str, np.ndarray]:
    """Counts of x in [0, 1) by bin; what lies outside falls into the first and the last."""
    bins = len(a["count"])
    where = np.clip(np.trunc(a["x"] * np.asarray(bins, a["x"].dtype)), 0, bins - 1)
    found = np.bincount(where.astype(np.int64), minlength=bins)
    return {"count": a["count"] + found.astype(a["count"].dtype)}


# ------------------------------------------------------------------------- what inputs need


def prepare(kernel: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """`arguments` made fit for `kernel` where plain random numbers are not."""
    a = dict(arguments)
    match kernel:
        case "batchnorm_relu_add":
            a["variance"] = np.abs(a["variance"]) + a["variance"].dtype.type(0.5)
        case "triangular_solve":
            n = len(a["L"])
            a["L"] = a["L"] + 2.0 * n * np.eye(n, dtype=a["L"].dtype)
        case "cross_entropy":
            labels = np.argmax(a["target"], 1) if a["target"].size else []
            a["target"] = np.eye(a["target"].shape[1], dtype=a["target"].dtype)[labels]
        case "demosaic":
            a["raw"] = (a["raw"].astype(np.int64) * 29 % 256).astype(np.uint8)
        case "smith_waterman":
            a["a"], a["b"] = a["a"] % 4, a["b"] % 4
        case "selective_scan":
            a["delta"] = np.abs(a["delta"]) / a["delta"].dtype.type(8)
            a["a"] = -np.abs(a["a"])
        case "lattice_boltzmann":
            a["f"] = np.abs(a["f"]) + a["f"].dtype.type(1)
        case "quantized_matmul":
            a["b_scale"] = np.abs(a["b_scale"])
        case "histogram":
            a["x"] = np.abs(a["x"]) / a["x"].dtype.type(4)
        case "linear_recurrence":
            a["a"] = np.abs(a["a"]) / a["a"].dtype.type(8)
        case _:
            from suites import fit  # which take arguments from here

            a = fit(kernel, a)
    return a


TOLERANCE = {
    "float16": 1e-3,
    "float32": 3e-5,
    "float64": 1e-11,
    **dict.fromkeys(("int8", "uint8", "int32", "int64"), 0.0),
}
"""Largest error an example may show against float64, relative to the largest value."""

# The rest of the references, which register themselves.
import references_grids  # noqa: E402, F401
import references_networks  # noqa: E402, F401
