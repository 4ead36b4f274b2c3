"""Calls of the Triton kernels: `MAKERS[case](inputs)` gives a call that gives the outputs.

Of a few tile shapes the fastest is taken, timed once before the measurement.
"""

# A Triton function is launched as `kernel[grid](...)`.
# pyright: reportIndexIssue=false, reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import triton
import triton_kernels as t
from triton.testing import do_bench

Inputs = Mapping[str, Any]
Call = Callable[[], dict[str, Any]]

BLOCKS = (1024, 2048, 4096)
TILES = ((1, 1024), (4, 256), (8, 128), (16, 64), (32, 32))


def fastest(launch: Callable[[Any], Any], shapes: tuple[Any, ...], on_gpu: bool) -> Any:
    """The shape that `launch` is fastest with; without a GPU the second one."""
    if not on_gpu:
        return shapes[1]
    return min(shapes, key=lambda shape: do_bench(lambda: launch(shape), 2, 10))


def flat(kernel: Any, out: str, like: str, *names: str) -> Callable[[Inputs], Call]:
    """An element-wise kernel: its arrays and scalars by name, the output, the element count."""

    def make(a: Inputs) -> Call:
        result = torch.empty_like(a[like])
        given = [result if name == out else a.get(name) for name in names]
        if kernel is t.bias_gelu:
            given.append(a["x"].shape[1])
        count = result.numel()

        def launch(block: int) -> None:
            kernel[(triton.cdiv(count, block),)](*given, count, BLOCK=block)

        block = fastest(launch, BLOCKS, result.is_cuda)

        def call() -> dict[str, Any]:
            launch(block)
            return {out: result}

        return call

    return make


def batchnorm(a: Inputs) -> Call:
    """A plane of a channel a row of programs."""
    x = a["x"]
    result = torch.empty_like(x)
    planes, area = x.shape[0] * x.shape[1], x.shape[2] * x.shape[3]

    def launch(block: int) -> None:
        t.batchnorm[(triton.cdiv(area, block), planes)](
            x, a["skip"], a["mean"], a["variance"], a["gamma"], a["beta"], result, a["epsilon"],
            x.shape[1], area, BLOCK=block,
        )  # fmt: skip

    block = fastest(launch, BLOCKS, x.is_cuda)

    def call() -> dict[str, Any]:
        launch(block)
        return {"y": result}

    return call


def softmax(a: Inputs) -> Call:
    """A row a program."""
    x = a["x"]
    result = torch.empty_like(x)
    block = triton.next_power_of_2(x.shape[1])

    def call() -> dict[str, Any]:
        t.softmax[(x.shape[0],)](x, result, x.shape[1], BLOCK=block)
        return {"y": result}

    return call


def tiles(
    shape: tuple[int, ...], tile: tuple[int, int], edge: int, deep: int = 0
) -> tuple[int, ...]:
    """The grid of tiles over the last two dimensions without a border, times the planes before."""
    height, width = (extent - 2 * edge for extent in shape[-2:])
    planes = 1
    for extent in shape[:-2]:
        planes *= extent
    return triton.cdiv(width, tile[1]), triton.cdiv(height, tile[0]), planes - 2 * deep


def stencil(
    kernel: Any, out: str, source: str, *names: str, edge: int = 0, channels: bool = False
) -> Callable[[Inputs], Call]:
    """A kernel over tiles of planes, from inputs to an output; `edge`: the border that the output
    lacks."""

    def make(a: Inputs) -> Call:
        shape = tuple(a[source].shape)
        result = torch.empty_like(a[source])
        given = [result if name == out else a[name] for name in names]
        if channels:
            given.append(shape[1])

        def launch(tile: tuple[int, int]) -> None:
            kernel[tiles(shape, tile, edge)](*given, *shape[-2:], ROWS=tile[0], COLUMNS=tile[1])

        tile = fastest(launch, TILES, result.is_cuda)
        inner = result[..., edge:-edge, edge:-edge] if edge else result

        def call() -> dict[str, Any]:
            launch(tile)
            return {out: inner}

        return call

    return make


def sweeps(kind: int, names: tuple[str, ...], turns: int = 1) -> Callable[[Inputs], Call]:
    """Sweeps from one array to another and back; `turns` sweeps a step."""

    def make(a: Inputs) -> Call:
        first = a["a"]
        one, two = first.clone(), a.get("b", first).clone()
        edge = 2 if kind == 2 else 1
        count = a["steps"] * turns

        def launch(tile: tuple[int, int], x: Any = one, y: Any = two) -> None:
            t.sweep[tiles(tuple(x.shape), tile, edge)](
                x, y, *x.shape, KIND=kind, ROWS=tile[0], COLUMNS=tile[1]
            )

        tile = fastest(launch, TILES, first.is_cuda)

        def call() -> dict[str, Any]:
            x, y = one, two
            for _ in range(count):
                launch(tile, x, y)
                x, y = y, x
            return dict(zip(names, (x, y)))

        return call

    return make


def one_sweep(a: Inputs) -> Call:
    """One sweep, into another array."""
    return stencil(lambda_sweep(), "b", "a", "a", "b", edge=1)(a)


def lambda_sweep() -> Any:
    """`t.sweep` with its kind bound, to be launched as any other kernel."""

    class Five:
        def __getitem__(self, grid: Any) -> Callable[..., Any]:
            return lambda *given, **more: t.sweep[grid](*given, KIND=0, **more)

    return Five()


def fdtd(a: Inputs) -> Call:
    """Two kernels a step, in place."""
    ex, ey, hz = (a[name].clone() for name in ("ex", "ey", "hz"))
    shape = tuple(hz.shape)

    def launch(tile: tuple[int, int], steps: int = 1) -> None:
        grid = tiles(shape, tile, 0)
        for _ in range(steps):
            for kernel in (t.fdtd_electric, t.fdtd_magnetic):
                kernel[grid](ex, ey, hz, *shape, ROWS=tile[0], COLUMNS=tile[1])

    tile = fastest(launch, TILES, hz.is_cuda)
    for name, held in (("ex", ex), ("ey", ey), ("hz", hz)):
        held.copy_(a[name])  # the search has moved them on

    def call() -> dict[str, Any]:
        launch(tile, a["steps"])
        return {"ex": ex, "ey": ey, "hz": hz}

    return call


def heat(a: Inputs) -> Call:
    """Steps from one volume to another and back."""
    one, two = a["a"].clone(), a["a"].clone()
    shape = tuple(one.shape)

    def launch(tile: tuple[int, int], x: Any = one, y: Any = two) -> None:
        t.heat[tiles(shape, tile, 1, 1)](x, y, *shape[1:], ROWS=tile[0], COLUMNS=tile[1])

    tile = fastest(launch, TILES, one.is_cuda)

    def call() -> dict[str, Any]:
        x, y = one, two
        for _ in range(a["steps"]):
            launch(tile, x, y)
            x, y = y, x
        return {"a": x}

    return call


def wave(a: Inputs) -> Call:
    """One step, in place."""
    now, before = a["now"], a["before"].clone()
    shape = tuple(now.shape)

    def launch(tile: tuple[int, int]) -> None:
        t.wave[tiles(shape, tile, 4, 4)](
            now, before, a["courant"], *shape[1:], ROWS=tile[0], COLUMNS=tile[1]
        )

    tile = fastest(launch, TILES, now.is_cuda)
    before.copy_(a["before"])

    def call() -> dict[str, Any]:
        launch(tile)
        return {"before": before}

    return call


CHAIN = flat(t.chain, "y", "x", "x", "y", "scale")
GELU = flat(t.bias_gelu, "y", "x", "x", "bias", "residual", "y")
BLUR = stencil(t.blur, "smooth", "img", "img", "smooth")
UNSHARP = stencil(t.unsharp, "sharp", "img", "img", "sharp", "amount")

MAKERS: dict[str, Callable[[Inputs], Call]] = {
    "chain": CHAIN,
    "chain-small": CHAIN,
    "bias-gelu": GELU,
    "bias-gelu-f32": GELU,
    "batchnorm": batchnorm,
    "scale-relu-add": flat(t.scale_relu_add, "y", "x", "x", "residual", "y", "scale"),
    "softmax": softmax,
    "blur": BLUR,
    "blur-f16": BLUR,
    "unsharp": UNSHARP,
    "unsharp-f16": UNSHARP,
    "harris": stencil(t.harris, "response", "g", "g", "response", edge=2),
    "diffusion": stencil(
        t.diffusion, "result", "field", "field", "coefficient", "result", edge=2
    ),
    "jacobi": sweeps(0, ("a",)),
    "jacobi-f64": sweeps(0, ("a",)),
    "jacobi-swap": sweeps(0, ("a", "b")),
    "jacobi-pair": sweeps(0, ("a", "b"), 2),
    "jacobi-sweep": one_sweep,
    "box": sweeps(1, ("a",)),
    "star": sweeps(2, ("a",)),
    "fdtd": fdtd,
    "heat": heat,
    "wave": wave,
    "depthwise": stencil(
        t.depthwise, "y", "x", "x", "weight", "bias", "y", channels=True
    ),
}  # fmt: skip
