"""The benchmark cases: sizes, arguments, peers' versions, and the bytes a perfect fusion moves.

Each case is an example of `examples/` at a size that fills the GPU. The peers get the same work
written as their users would write it: one function of whole arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Arrays = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """`shapes` gives the random inputs by parameter name (f32 unless `dtype`), `outs` the outputs;
    `perfect` is the bytes moved if each input is read and each output written once. `torch` and
    `jax` compute the outputs from the inputs (called with the library's module first)."""

    name: str
    example: str
    shapes: dict[str, tuple[int, ...]]
    outs: dict[str, tuple[int, ...]]
    torch: Callable[[Any, Arrays], Any]
    scalars: dict[str, float | int] = field(default_factory=dict)
    jax: Callable[[Any, Arrays], Any] | None = None
    dtype: str = "f32"
    inouts: tuple[str, ...] = ()
    tolerance: float = 1e-5
    crop: int = 0  # rows and columns at each edge that the kernel leaves alone

    @property
    def perfect(self) -> int:
        """Bytes of all inputs and outputs, once."""
        width = 8 if self.dtype == "f64" else 4
        shapes = [*self.shapes.values(), *self.outs.values()]
        shapes += [self.shapes[name] for name in self.inouts]
        return width * sum(math.prod(shape) for shape in shapes)


def _chain(xp: Any, a: Arrays) -> Any:
    x = a["x"]
    v = xp.relu(x * a["scale"]) + 1.0
    v = xp.tanh(v * 0.5) - 0.25
    v = v * v + x
    return xp.sigmoid(v) * x


def _scale_relu_add(xp: Any, a: Arrays) -> Any:
    return xp.relu(a["x"] * a["scale"]) + a["residual"]


def _bias_gelu(xp: Any, a: Arrays) -> Any:
    return xp.gelu(a["x"] + a["bias"]) + a["residual"]


def _batchnorm(xp: Any, a: Arrays) -> Any:
    factor = a["gamma"] / xp.sqrt(a["variance"] + a["epsilon"])
    offset = a["beta"] - a["mean"] * factor
    shape = (1, -1, 1, 1)
    return xp.relu(a["x"] * factor.reshape(shape) + offset.reshape(shape)) + a["skip"]


def _pad(xp: Any, x: Any, rows: int, columns: int) -> Any:
    return xp.pad_edge(x, rows, columns)


def _blur3(xp: Any, a: Arrays) -> Any:
    x = a["img"]
    h, w = x.shape
    p = _pad(xp, x, 0, 1)
    rows = (p[:, :w] + x + p[:, 2:]) * 0.3333333333333333
    p = _pad(xp, rows, 1, 0)
    return (p[:h] + rows + p[2:]) * 0.3333333333333333


def _unsharp(xp: Any, a: Arrays) -> Any:
    x = a["img"]
    h, w = x.shape
    p = _pad(xp, x, 0, 2)
    rows = 0.0625 * (p[:, :w] + p[:, 4:]) + 0.25 * (p[:, 1 : w + 1] + p[:, 3 : w + 3]) + 0.375 * x
    p = _pad(xp, rows, 2, 0)
    blur = 0.0625 * (p[:h] + p[4:]) + 0.25 * (p[1 : h + 1] + p[3 : h + 3]) + 0.375 * rows
    return blur + (1.0 + a["amount"]) * (x - blur)


def _softmax(xp: Any, a: Arrays) -> Any:
    return xp.softmax(a["x"])


def _l2norm(xp: Any, a: Arrays) -> Any:
    return xp.sqrt((a["x"] * a["x"]).sum()).reshape(1)


def _harris(xp: Any, a: Arrays) -> Any:
    g = a["g"]

    def at(dy: int, dx: int) -> Any:
        return g[1 + dy : g.shape[0] - 1 + dy, 1 + dx : g.shape[1] - 1 + dx]

    ix = (at(-1, 1) - at(-1, -1) + 2 * (at(0, 1) - at(0, -1)) + at(1, 1) - at(1, -1)) / 12
    iy = (at(1, -1) - at(-1, -1) + 2 * (at(1, 0) - at(-1, 0)) + at(1, 1) - at(-1, 1)) / 12

    def box(v: Any) -> Any:
        rows = v[:-2] + v[1:-1] + v[2:]
        return rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]

    sxx, syy, sxy = box(ix * ix), box(iy * iy), box(ix * iy)
    trace = sxx + syy
    return sxx * syy - sxy * sxy - 0.04 * trace * trace


def _jacobi(xp: Any, given: Arrays) -> Any:
    a, b = given["a"], given["b"]

    def sweep(x: Any, y: Any) -> Any:
        inner = 0.2 * (x[1:-1, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] + x[2:, 1:-1] + x[:-2, 1:-1])
        return xp.set_inner(y, inner)

    for _ in range(given["steps"]):
        b = sweep(a, b)
        a = sweep(b, a)
    return a


BIG = 1 << 28

CASES = (
    Case("chain of ten, 2^28", "chain", {"x": (BIG,)}, {"y": (BIG,)}, _chain, {"scale": 1.5},
         _chain),
    Case("scale-ReLU-add, 16384 x 8192", "scale_relu_add",
         {"x": (16384, 8192), "residual": (16384, 8192)}, {"y": (16384, 8192)}, _scale_relu_add,
         {"scale": 1.5}, _scale_relu_add),
    Case("bias+GELU+residual f32, 16384 x 8192", "bias_gelu_residual",
         {"x": (16384, 8192), "bias": (8192,), "residual": (16384, 8192)}, {"y": (16384, 8192)},
         _bias_gelu, {}, _bias_gelu),
    Case("batch-norm+ReLU+add, 64 x 64 x 112 x 112", "batchnorm_relu_add",
         {"x": (64, 64, 112, 112), "skip": (64, 64, 112, 112), "mean": (64,), "variance": (64,),
          "gamma": (64,), "beta": (64,)}, {"y": (64, 64, 112, 112)}, _batchnorm,
         {"epsilon": 1e-5}, _batchnorm),
    Case("separable 3x3 blur, 8192^2", "blur", {"img": (8192, 8192)}, {"smooth": (8192, 8192)},
         _blur3, {}, _blur3),
    Case("unsharp 5x5, 8192^2", "unsharp", {"img": (8192, 8192)}, {"sharp": (8192, 8192)},
         _unsharp, {"amount": 1.5}, _unsharp),
    Case("Harris, 8192^2", "harris", {"g": (8192, 8192)}, {"response": (8192, 8192)},
         _harris, {}, _harris, crop=2, tolerance=1e-3),
    Case("softmax, 32768 x 4096", "softmax", {"x": (32768, 4096)}, {"y": (32768, 4096)},
         _softmax, {}, _softmax),
    Case("l2 norm, 2^28", "l2norm", {"x": (BIG,)}, {"norm": (1,)}, _l2norm, {}, _l2norm,
         tolerance=1e-4),
)  # fmt: skip
