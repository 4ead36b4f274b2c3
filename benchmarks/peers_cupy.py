"""CuPy's versions: `MAKERS[case](inputs)` gives a call and what turns its result into tensors.

Element-wise work is an ElementwiseKernel, the blur a ready-made filter of `cupyx.scipy.ndimage`,
stencils are plain CUDA through a RawKernel: a thread a point, neighbours read from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import cupy
import torch

Inputs = Mapping[str, Any]
Made = tuple[Callable[[], Any], Callable[[Any], dict[str, Any]]]

CUDA = r"""
extern "C" __global__ void five(const REAL* a, REAL* b, int height, int width) {
  int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y * blockDim.y + threadIdx.y + 1;
  if (x >= width - 1 || y >= height - 1) return;
  const REAL* p = a + y * width + x;
  b[y * width + x] = (REAL)0.2 * (p[0] + p[-1] + p[1] + p[width] + p[-width]);
}
extern "C" __global__ void nine(const REAL* a, REAL* b, int height, int width) {
  int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y * blockDim.y + threadIdx.y + 1;
  if (x >= width - 1 || y >= height - 1) return;
  const REAL* p = a + y * width + x;
  REAL v = 0;
  for (int i = -1; i <= 1; i++) for (int j = -1; j <= 1; j++) v += p[i * width + j];
  b[y * width + x] = v * (REAL)0.1111111111111111;
}
extern "C" __global__ void star(const REAL* a, REAL* b, int height, int width) {
  int x = blockIdx.x * blockDim.x + threadIdx.x + 2, y = blockIdx.y * blockDim.y + threadIdx.y + 2;
  if (x >= width - 2 || y >= height - 2) return;
  const REAL* p = a + y * width + x;
  REAL near = p[-1] + p[1] + p[-width] + p[width];
  REAL far = p[-2] + p[2] + p[-2 * width] + p[2 * width];
  b[y * width + x] = (REAL)0.5 * p[0] + (REAL)0.1 * near + (REAL)0.025 * far;
}
extern "C" __global__ void harris(const REAL* g, REAL* response, int height, int width) {
  int x = blockIdx.x * blockDim.x + threadIdx.x + 2, y = blockIdx.y * blockDim.y + threadIdx.y + 2;
  if (x >= width - 2 || y >= height - 2) return;
  REAL v[5][5], sxx = 0, syy = 0, sxy = 0;
  #pragma unroll
  for (int i = 0; i < 5; i++)
    #pragma unroll
    for (int j = 0; j < 5; j++) v[i][j] = g[(y + i - 2) * width + x + j - 2];
  #pragma unroll
  for (int i = 1; i < 4; i++)
    #pragma unroll
    for (int j = 1; j < 4; j++) {
      REAL ix = (v[i-1][j+1] - v[i-1][j-1] + 2 * (v[i][j+1] - v[i][j-1]) + v[i+1][j+1] - v[i+1][j-1]) / 12;
      REAL iy = (v[i+1][j-1] - v[i-1][j-1] + 2 * (v[i+1][j] - v[i-1][j]) + v[i+1][j+1] - v[i-1][j+1]) / 12;
      sxx += ix * ix; syy += iy * iy; sxy += ix * iy;
    }
  REAL trace = sxx + syy;
  response[y * width + x] = sxx * syy - sxy * sxy - (REAL)0.04 * trace * trace;
}
extern "C" __global__ void heat(const REAL* a, REAL* b, int height, int width) {
  int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y * blockDim.y + threadIdx.y + 1;
  if (x >= width - 1 || y >= height - 1) return;
  int area = height * width, at = (blockIdx.z + 1) * area + y * width + x;
  const REAL* p = a + at;
  REAL c = 2 * p[0], e = (REAL)0.125;
  b[at] = p[0] + e * (p[area] - c + p[-area]) + e * (p[width] - c + p[-width]) + e * (p[1] - c + p[-1]);
}
extern "C" __global__ void wave(const REAL* now, REAL* before, REAL courant, int height, int width) {
  int x = blockIdx.x * blockDim.x + threadIdx.x + 4, y = blockIdx.y * blockDim.y + threadIdx.y + 4;
  if (x >= width - 4 || y >= height - 4) return;
  int area = height * width, at = (blockIdx.z + 4) * area + y * width + x;
  const REAL* p = now + at;
  const REAL w[5] = {(REAL)-8.541666666666666, (REAL)1.6, (REAL)-0.2, (REAL)0.025396825396825397,
                     (REAL)-0.0017857142857142857};
  REAL v = w[0] * p[0];
  #pragma unroll
  for (int r = 1; r < 5; r++)
    v += w[r] * (p[-r] + p[r] + p[-r * width] + p[r * width] + p[-r * area] + p[r * area]);
  before[at] = 2 * p[0] - before[at] + courant * v;
}
"""
BLOCK = (64, 4)


def compiled(name: str, dtype: Any) -> Any:
    """A kernel of `CUDA` for a dtype."""
    real = "double" if dtype == torch.float64 else "float"
    return cupy.RawKernel(CUDA.replace("REAL", real), name)


def grid(shape: tuple[int, ...], edge: int) -> tuple[int, int, int]:
    """Blocks over the last two dimensions, and over the first of three."""
    height, width = (extent - 2 * edge for extent in shape[-2:])
    planes = shape[0] - 2 * edge if len(shape) == 3 else 1
    return -(-width // BLOCK[0]), -(-height // BLOCK[1]), planes


def tensors(result: Mapping[str, Any]) -> dict[str, Any]:
    """CuPy arrays as tensors, without a copy."""
    return {name: torch.as_tensor(value, device="cuda") for name, value in result.items()}


def elementwise(out: str, parameters: str, body: str, *names: str) -> Callable[[Inputs], Made]:
    """An ElementwiseKernel on inputs by name; vectors of a channel are spread over NCHW."""

    def make(a: Inputs) -> Made:
        kernel = cupy.ElementwiseKernel(parameters, "float32 result", body, "peer")
        given: list[Any] = []
        for name in names:
            value = a[name]
            if torch.is_tensor(value):
                if value.dim() == 1 and a["x"].dim() == 4:
                    value = value.reshape(1, -1, 1, 1)
                value = cupy.from_dlpack(value)
            given.append(value)
        result = cupy.empty(tuple(a["x"].shape), cupy.float32)
        return lambda: {out: kernel(*given, result)}, tensors

    return make


def blur(a: Inputs) -> Made:
    """SciPy's filter."""
    from cupyx.scipy.ndimage import uniform_filter

    image = cupy.from_dlpack(a["img"])
    return lambda: {"smooth": uniform_filter(image, 3, mode="nearest")}, tensors


def l2norm(a: Inputs) -> Made:
    """A ReductionKernel."""
    kernel = cupy.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2")
    x = cupy.from_dlpack(a["x"])
    return lambda: {"norm": kernel(x).reshape(1)}, tensors


def steps(name: str, names: tuple[str, ...], edge: int, turns: int = 1) -> Callable[[Inputs], Made]:
    """Sweeps from one array to another and back."""

    def make(a: Inputs) -> Made:
        kernel = compiled(name, a["a"].dtype)
        one, two = (cupy.from_dlpack(v.clone()) for v in (a["a"], a.get("b", a["a"])))
        blocks, count = grid(one.shape, edge), a["steps"] * turns
        extents = tuple(cupy.int32(extent) for extent in one.shape[-2:])

        def call() -> Any:
            x, y = one, two
            for _ in range(count):
                kernel(blocks, BLOCK, (x, y, *extents))
                x, y = y, x
            return dict(zip(names, (x, y)))

        return call, tensors

    return make


def one_pass(name: str, out: str, source: str, edge: int) -> Callable[[Inputs], Made]:
    """One launch into another array; the inside."""

    def make(a: Inputs) -> Made:
        kernel = compiled(name, a[source].dtype)
        x = cupy.from_dlpack(a[source])
        y = cupy.empty_like(x)
        blocks = grid(x.shape, edge)
        extents = tuple(cupy.int32(extent) for extent in x.shape)
        inner = y[edge:-edge, edge:-edge]

        def call() -> Any:
            kernel(blocks, BLOCK, (x, y, *extents))
            return {out: inner}

        return call, tensors

    return make


def wave(a: Inputs) -> Made:
    """One step, in place."""
    kernel = compiled("wave", a["now"].dtype)
    now, before = cupy.from_dlpack(a["now"]), cupy.from_dlpack(a["before"].clone())
    blocks, courant = grid(now.shape, 4), cupy.float32(a["courant"])
    extents = tuple(cupy.int32(extent) for extent in now.shape[1:])

    def call() -> Any:
        kernel(blocks, BLOCK, (now, before, courant, *extents))
        return {"before": before}

    return call, tensors


CHAIN = elementwise(
    "y", "float32 x, float32 scale",
    "float v = tanhf((fmaxf(x * scale, 0.f) + 1.f) * 0.5f) - 0.25f; v = v * v + x;"
    " result = x / (1.f + expf(-v))",
    "x", "scale",
)  # fmt: skip

MAKERS: dict[str, Callable[[Inputs], Made]] = {
    "chain": CHAIN,
    "chain-small": CHAIN,
    "scale-relu-add": elementwise(
        "y", "float32 x, float32 residual, float32 scale",
        "result = fmaxf(x * scale, 0.f) + residual", "x", "residual", "scale",
    ),
    "bias-gelu-f32": elementwise(
        "y", "float32 x, float32 bias, float32 residual",
        "float v = x + bias; result = 0.5f * v * (1.f + erff(v * 0.7071067811865476f)) + residual",
        "x", "bias", "residual",
    ),
    "batchnorm": elementwise(
        "y", "float32 x, float32 skip, float32 mean, float32 variance, float32 gamma, float32 beta,"
        " float32 epsilon",
        "float f = gamma / sqrtf(variance + epsilon);"
        " result = fmaxf(x * f + (beta - mean * f), 0.f) + skip",
        "x", "skip", "mean", "variance", "gamma", "beta", "epsilon",
    ),
    "l2norm": l2norm,
    "blur": blur,
    "harris": one_pass("harris", "response", "g", 2),
    "jacobi": steps("five", ("a",), 1),
    "jacobi-f64": steps("five", ("a",), 1),
    "jacobi-swap": steps("five", ("a", "b"), 1),
    "jacobi-pair": steps("five", ("a", "b"), 1, 2),
    "jacobi-sweep": one_pass("five", "b", "a", 1),
    "box": steps("nine", ("a",), 1),
    "star": steps("star", ("a",), 2),
    "heat": steps("heat", ("a",), 1),
    "wave": wave,
}  # fmt: skip
