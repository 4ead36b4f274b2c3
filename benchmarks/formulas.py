"""What the cases compute, written as a user of array libraries would: on whole arrays, in words.

`formula(words, arrays)` gives the written arrays by name; it changes nothing in place. Where a
kernel leaves a border alone, the formula of an `out` array gives the inside only (the case's
`margin` says how wide the border is), that of an `inout` array the whole array.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Arrays = Mapping[str, Any]
THIRD = 0.3333333333333333


# ------------------------------------------------------------------------------ element-wise


def chain(w: Any, a: Arrays) -> Arrays:
    """Ten element-wise operations."""
    x = a["x"]
    v = w.relu(x * a["scale"]) + 1.0
    v = w.tanh(v * 0.5) - 0.25
    v = v * v + x
    return {"y": w.sigmoid(v) * x}


def scale_relu_add(w: Any, a: Arrays) -> Arrays:
    """max(scale * x, 0) + residual."""
    return {"y": w.relu(a["x"] * a["scale"]) + a["residual"]}


def bias_gelu(w: Any, a: Arrays) -> Arrays:
    """gelu(x + bias) + residual, computed in f32 whatever the arrays hold."""
    biased = w.wide(a["x"]) + w.wide(a["bias"])
    return {"y": w.narrow(w.gelu(biased) + w.wide(a["residual"]), a["x"])}


def batchnorm(w: Any, a: Arrays) -> Arrays:
    """Batch normalisation with given statistics, ReLU, skip connection."""
    factor = a["gamma"] / w.sqrt(a["variance"] + a["epsilon"])
    offset = a["beta"] - a["mean"] * factor
    shape = (1, -1, 1, 1)
    return {"y": w.relu(a["x"] * factor.reshape(shape) + offset.reshape(shape)) + a["skip"]}


def colours(w: Any, a: Arrays) -> Arrays:
    """Pixels less the mean of their colour, times its gain."""
    return {"norm": (a["img"] - a["mean"]) * a["gain"]}


def softmax(w: Any, a: Arrays) -> Arrays:
    """Softmax of each row."""
    return {"y": w.softmax(a["x"])}


def column_softmax(w: Any, a: Arrays) -> Arrays:
    """Softmax of each column."""
    return {"y": w.softmax(a["x"], 0)}


def row_softmax(w: Any, a: Arrays) -> Arrays:
    """Softmax of each row, computed in f32 whatever the arrays hold."""
    return {"y": w.narrow(w.softmax(w.wide(a["x"])), a["x"])}


def layernorm_gelu(w: Any, a: Arrays) -> Arrays:
    """Residual, layer normalisation and GELU of each row, computed in f32 whatever the arrays hold."""
    v = w.wide(a["x"]) + w.wide(a["residual"])
    v = v - v.mean(1)[:, None]
    v = v / w.sqrt((v * v).mean(1)[:, None] + a["epsilon"])
    return {"y": w.narrow(w.gelu(v * w.wide(a["gamma"]) + w.wide(a["beta"])), a["x"])}


def rmsnorm(w: Any, a: Arrays) -> Arrays:
    """Each row divided by the root of its mean square, times a weight, computed in f32 whatever the arrays hold."""
    x = w.wide(a["x"])
    x = x / w.sqrt((x * x).mean(1)[:, None] + a["epsilon"])
    return {"y": w.narrow(x * w.wide(a["weight"]), a["x"])}


def swiglu(w: Any, a: Arrays) -> Arrays:
    """A gate's SiLU times another array, computed in f32 whatever the arrays hold."""
    gate = w.wide(a["gate"])
    return {"y": w.narrow(gate * w.sigmoid(gate) * w.wide(a["up"]), a["gate"])}


def log_sums(w: Any, a: Arrays) -> Arrays:
    """The logarithm of the sum of the exponentials of each row: what cross-entropy reads a row for."""
    return {"z": w.log_sum(w.wide(a["x"]))}


def cross_entropy(w: Any, a: Arrays) -> Arrays:
    """What each row's label has to do with it: the logarithm of the sum of exponentials less the label's."""
    x = w.wide(a["x"])
    return {"loss": w.log_sum(x) - w.pick(x, a["label"])}


def rope(w: Any, a: Arrays) -> Arrays:
    """Pairs of a head turned by the angle of their place, computed in f32 whatever the arrays hold."""
    x, half = w.wide(a["x"]), a["cosine"].shape[1]
    cosine, sine = a["cosine"][None, :, None, :], a["sine"][None, :, None, :]
    near, far = x[..., :half], x[..., half:]
    return {"y": w.narrow(w.join((near * cosine - far * sine, far * cosine + near * sine), -1), a["x"])}


def layernorm_backward(w: Any, a: Arrays) -> Arrays:
    """The gradients of layer normalisation's input and parameters."""
    normal = (a["x"] - a["mean"][:, None]) * a["scale"][:, None]
    slope = a["dy"] * a["gamma"]
    dx = a["scale"][:, None] * (slope - slope.mean(1)[:, None] - normal * (slope * normal).mean(1)[:, None])
    return {"dx": dx, "dgamma": (a["dy"] * normal).sum(0), "dbeta": a["dy"].sum(0)}


def column_sums(w: Any, a: Arrays) -> Arrays:
    """The sum of each column."""
    return {"s": a["x"].sum(0)}


def group_norm(w: Any, a: Arrays) -> Arrays:
    """Normalisation of each group of channels of each image."""
    n, g, d, p = a["x"].shape
    x = a["x"].reshape(n * g, d * p)
    x = x - x.mean(1)[:, None]
    x = (x / w.sqrt((x * x).mean(1)[:, None] + a["epsilon"])).reshape(n, g, d, p)
    return {"y": x * a["gamma"][None, :, :, None] + a["beta"][None, :, :, None]}


def batch_norm_relu(w: Any, a: Arrays) -> Arrays:
    """Normalisation of each channel by its own statistics, and ReLU."""
    x = a["x"] - a["x"].mean((0, 2))[None, :, None]
    return {"y": w.relu(x / w.sqrt((x * x).mean((0, 2))[None, :, None] + a["epsilon"]))}


def prefix_sum(w: Any, a: Arrays) -> Arrays:
    """All running sums."""
    return {"y": w.cumsum(a["x"], 0)}


def recurrence(w: Any, a: Arrays) -> Arrays:
    """h[t] = a[t] * h[t - 1] + b[t] along the second dimension."""
    return {"h": w.recurrence(a["a"], a["b"], 1)}


def gated_recurrence(w: Any, a: Arrays) -> Arrays:
    """A gated linear recurrence along the second dimension, times a SiLU."""
    keep = w.sigmoid(a["gate"])
    return {"y": w.recurrence(keep, (1.0 - keep) * a["x"], 1) * (a["z"] * w.sigmoid(a["z"]))}


def statistics(w: Any, a: Arrays) -> Arrays:
    """Mean, variance, least and greatest element, length."""
    x = a["x"]
    mean, squares = x.mean(), (x * x).sum()
    found = {
        "mean": mean, "variance": (x * x).mean() - mean * mean, "smallest": x.min(), "largest": x.max(), "length": w.sqrt(squares),
    }  # fmt: skip
    return {name: value.reshape(1) for name, value in found.items()}


def unit_vector(w: Any, a: Arrays) -> Arrays:
    """A vector over its length."""
    return {"y": a["x"] / w.sqrt((a["x"] * a["x"]).sum())}


def histogram(w: Any, a: Arrays) -> Arrays:
    """Counts, and how often each byte occurs."""
    return {"count": a["count"] + w.count(a["x"], a["count"].shape[0])}


def l2norm(w: Any, a: Arrays) -> Arrays:
    """The root of the sum of squares."""
    return {"norm": w.sqrt((a["x"] * a["x"]).sum()).reshape(1)}


# ------------------------------------------------------------------------------------ images


def _finish(w: Any, value: Any, like: Any, bytes_: bool) -> Any:
    return w.narrow(w.round(w.clip(value, 0.0, 255.0)) if bytes_ else value, like)


def _blur(w: Any, a: Arrays, bytes_: bool) -> Arrays:
    x = w.wide(a["img"])
    height, width = x.shape
    p = w.pad_edge(x, 0, 1)
    rows = (p[:, :width] + x + p[:, 2:]) * THIRD
    p = w.pad_edge(rows, 1, 0)
    return {"smooth": _finish(w, (p[:height] + rows + p[2:]) * THIRD, a["img"], bytes_)}


def blur(w: Any, a: Arrays) -> Arrays:
    """A 3x3 box blur in two passes."""
    return _blur(w, a, False)


def blur_bytes(w: Any, a: Arrays) -> Arrays:
    """The same, rounded to bytes."""
    return _blur(w, a, True)


def _unsharp(w: Any, a: Arrays, bytes_: bool) -> Arrays:
    x = w.wide(a["img"])
    h, n = x.shape
    p = w.pad_edge(x, 0, 2)
    rows = 0.0625 * (p[:, :n] + p[:, 4:]) + 0.25 * (p[:, 1 : n + 1] + p[:, 3 : n + 3]) + 0.375 * x
    p = w.pad_edge(rows, 2, 0)
    soft = 0.0625 * (p[:h] + p[4:]) + 0.25 * (p[1 : h + 1] + p[3 : h + 3]) + 0.375 * rows
    return {"sharp": _finish(w, soft + (1.0 + a["amount"]) * (x - soft), a["img"], bytes_)}


def unsharp(w: Any, a: Arrays) -> Arrays:
    """An unsharp mask with a 5x5 binomial filter."""
    return _unsharp(w, a, False)


def unsharp_bytes(w: Any, a: Arrays) -> Arrays:
    """The same, rounded to bytes."""
    return _unsharp(w, a, True)


def harris(w: Any, a: Arrays) -> Arrays:
    """Harris corners; the inside."""
    g = a["g"]

    def at(dy: int, dx: int) -> Any:
        return g[1 + dy : g.shape[0] - 1 + dy, 1 + dx : g.shape[1] - 1 + dx]

    ix = (at(-1, 1) - at(-1, -1) + 2.0 * (at(0, 1) - at(0, -1)) + at(1, 1) - at(1, -1)) / 12.0
    iy = (at(1, -1) - at(-1, -1) + 2.0 * (at(1, 0) - at(-1, 0)) + at(1, 1) - at(-1, 1)) / 12.0

    def box(v: Any) -> Any:
        rows = v[:-2] + v[1:-1] + v[2:]
        return rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]

    sxx, syy, sxy = box(ix * ix), box(iy * iy), box(ix * iy)
    trace = sxx + syy
    return {"response": sxx * syy - sxy * sxy - 0.04 * trace * trace}


def depthwise(w: Any, a: Arrays) -> Arrays:
    """A depthwise 3x3 convolution, bias and ReLU."""
    return {"y": w.relu(w.depthwise(a["x"], a["weight"], a["bias"]))}


# ---------------------------------------------------------------------------- grids in time


def horizontal_diffusion(w: Any, a: Arrays) -> Arrays:
    """COSMO's horizontal diffusion; the inside of each level."""
    f = a["field"]
    lap = 4.0 * f[:, 1:-1, 1:-1] - (
        f[:, 1:-1, 2:] + f[:, 1:-1, :-2] + f[:, 2:, 1:-1] + f[:, :-2, 1:-1]
    )
    flux_i = lap[:, 1:-1, 1:] - lap[:, 1:-1, :-1]
    flux_i = w.where(flux_i * (f[:, 2:-2, 2:-1] - f[:, 2:-2, 1:-2]) > 0.0, 0.0 * flux_i, flux_i)
    flux_j = lap[:, 1:, 1:-1] - lap[:, :-1, 1:-1]
    flux_j = w.where(flux_j * (f[:, 2:-1, 2:-2] - f[:, 1:-2, 2:-2]) > 0.0, 0.0 * flux_j, flux_j)
    spread = flux_i[:, :, 1:] - flux_i[:, :, :-1] + flux_j[:, 1:] - flux_j[:, :-1]
    return {"result": f[:, 2:-2, 2:-2] - a["coefficient"][:, 2:-2, 2:-2] * spread}


INSIDE = (slice(1, -1), slice(1, -1))
INSIDE_2 = (slice(2, -2), slice(2, -2))


def _five(x: Any) -> Any:
    return 0.2 * (x[1:-1, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] + x[2:, 1:-1] + x[:-2, 1:-1])


def jacobi_sweep(w: Any, a: Arrays) -> Arrays:
    """One five-point sweep; the inside."""
    return {"b": _five(a["a"])}


def jacobi(w: Any, a: Arrays) -> Arrays:
    """Five-point sweeps."""
    return {"a": w.repeat(a["steps"], lambda x: w.put(x, INSIDE, _five(x)), a["a"])}


def jacobi_swap(w: Any, a: Arrays) -> Arrays:
    """Sweeps over two arrays that exchange roles; an even number of them."""

    def step(held: Any) -> Any:
        now, other = held
        return w.put(other, INSIDE, _five(now)), now

    now, other = w.repeat(a["steps"], step, (a["a"], a["b"]))
    return {"a": now, "b": other}


def jacobi_pair(w: Any, a: Arrays) -> Arrays:
    """PolyBench's two sweeps an iteration."""

    def step(held: Any) -> Any:
        one, two = held
        two = w.put(two, INSIDE, _five(one))
        return w.put(one, INSIDE, _five(two)), two

    one, two = w.repeat(a["steps"], step, (a["a"], a["b"]))
    return {"a": one, "b": two}


def box_nine(w: Any, a: Arrays) -> Arrays:
    """Sweeps of the mean of nine points."""

    def step(x: Any) -> Any:
        rows = x[:, :-2] + x[:, 1:-1] + x[:, 2:]
        return w.put(x, INSIDE, 0.1111111111111111 * (rows[:-2] + rows[1:-1] + rows[2:]))

    return {"a": w.repeat(a["steps"], step, a["a"])}


def star_nine(w: Any, a: Arrays) -> Arrays:
    """Sweeps of a star of radius two."""

    def step(x: Any) -> Any:
        near = x[2:-2, 1:-3] + x[2:-2, 3:-1] + x[1:-3, 2:-2] + x[3:-1, 2:-2]
        far = x[2:-2, :-4] + x[2:-2, 4:] + x[:-4, 2:-2] + x[4:, 2:-2]
        return w.put(x, INSIDE_2, 0.5 * x[2:-2, 2:-2] + 0.1 * near + 0.025 * far)

    return {"a": w.repeat(a["steps"], step, a["a"])}


def fdtd(w: Any, a: Arrays) -> Arrays:
    """Maxwell's equations in two dimensions."""
    below, right, corner = (slice(1, None),), (slice(None), slice(1, None)), (slice(None, -1),) * 2

    def step(held: Any) -> Any:
        ex, ey, hz = held
        ey = w.put(ey, below, ey[1:] - 0.5 * (hz[1:] - hz[:-1]))
        ex = w.put(ex, right, ex[:, 1:] - 0.5 * (hz[:, 1:] - hz[:, :-1]))
        curl = ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]
        return ex, ey, w.put(hz, corner, hz[:-1, :-1] - 0.7 * curl)

    ex, ey, hz = w.repeat(a["steps"], step, (a["ex"], a["ey"], a["hz"]))
    return {"ex": ex, "ey": ey, "hz": hz}


def heat(w: Any, a: Arrays) -> Arrays:
    """The heat equation in three dimensions, seven points."""
    inside = (slice(1, -1),) * 3

    def step(u: Any) -> Any:
        c = u[1:-1, 1:-1, 1:-1]
        z = 0.125 * (u[2:, 1:-1, 1:-1] - 2.0 * c + u[:-2, 1:-1, 1:-1])
        y = 0.125 * (u[1:-1, 2:, 1:-1] - 2.0 * c + u[1:-1, :-2, 1:-1])
        x = 0.125 * (u[1:-1, 1:-1, 2:] - 2.0 * c + u[1:-1, 1:-1, :-2])
        return w.put(u, inside, c + z + y + x)

    return {"a": w.repeat(a["steps"], step, a["a"])}


WAVE = (-8.541666666666666, 1.6, -0.2, 0.025396825396825397, -0.0017857142857142857)


def wave(w: Any, a: Arrays) -> Arrays:
    """One step of the wave equation, a star of radius four."""
    now, before = a["now"], a["before"]
    inside = (slice(4, -4),) * 3
    c = now[inside]
    laplacian = WAVE[0] * c
    for r in range(1, 5):
        around = 0.0
        for axis in range(3):
            for by in (-r, r):
                cut = list(inside)
                cut[axis] = slice(4 + by, now.shape[axis] - 4 + by)
                around = around + now[tuple(cut)]
        laplacian = laplacian + WAVE[r] * around
    return {"before": w.put(before, inside, 2.0 * c - before[inside] + a["courant"] * laplacian)}
