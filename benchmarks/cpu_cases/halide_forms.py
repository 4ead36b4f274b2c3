"""The image cases and horizontal diffusion in Halide: the algorithm alone, its automatic scheduler does the rest.

A form takes Halide itself and its inputs, by the names of the case's arguments, and gives the function that the case
calls `out` or `result`, first coordinate innermost. Where the loops repeat a border, `repeat_edge` does.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

SCHEDULER = "Mullapudi2016"
"""The faster of the two for a CPU in five of the six; the other, Adams2019, may also read beyond an input."""


def blur(hl: Any, img: Any) -> Any:
    """`stencils.blur`."""
    x, y = hl.Var("x"), hl.Var("y")
    rows, out = hl.Func("rows"), hl.Func("out")
    third = hl.f32(1 / 3)
    edge = hl.BoundaryConditions.repeat_edge(img)
    rows[x, y] = (edge[x - 1, y] + edge[x, y] + edge[x + 1, y]) * third
    out[x, y] = (rows[x, y - 1] + rows[x, y] + rows[x, y + 1]) * third
    return out


def unsharp(hl: Any, img: Any) -> Any:
    """`stencils.unsharp`."""
    x, y = hl.Var("x"), hl.Var("y")
    rows, soft, out = hl.Func("rows"), hl.Func("soft"), hl.Func("out")
    small, middle, large, two = hl.f32(0.0625), hl.f32(0.25), hl.f32(0.375), hl.f32(2)
    edge = hl.BoundaryConditions.repeat_edge(img)
    rows[x, y] = (
        small * (edge[x - 2, y] + edge[x + 2, y]) + middle * (edge[x - 1, y] + edge[x + 1, y]) + large * edge[x, y]
    )
    soft[x, y] = (
        small * (rows[x, y - 2] + rows[x, y + 2]) + middle * (rows[x, y - 1] + rows[x, y + 1]) + large * rows[x, y]
    )
    out[x, y] = soft[x, y] + two * (edge[x, y] - soft[x, y])
    return out


def harris(hl: Any, g: Any) -> Any:
    """`stencils.harris`."""
    x, y = hl.Var("x"), hl.Var("y")
    ix, iy, out = hl.Func("ix"), hl.Func("iy"), hl.Func("out")
    two, twelfth, weight = hl.f32(2), hl.f32(1 / 12), hl.f32(0.04)
    ix[x, y] = (
        g[x + 1, y - 1] - g[x - 1, y - 1] + two * (g[x + 1, y] - g[x - 1, y]) + g[x + 1, y + 1] - g[x - 1, y + 1]
    ) * twelfth
    iy[x, y] = (
        g[x - 1, y + 1] - g[x - 1, y - 1] + two * (g[x, y + 1] - g[x, y - 1]) + g[x + 1, y + 1] - g[x + 1, y - 1]
    ) * twelfth
    sums: list[Any] = []
    for name, a, b in (("xx", ix, ix), ("yy", iy, iy), ("xy", ix, iy)):
        product, total = hl.Func(f"i{name}"), hl.Func(f"s{name}")
        product[x, y] = a[x, y] * b[x, y]
        total[x, y] = added(product[x + i, y + j] for j in (-1, 0, 1) for i in (-1, 0, 1))
        sums.append(total)
    sxx, syy, sxy = sums
    trace = sxx[x, y] + syy[x, y]
    out[x, y] = sxx[x, y] * syy[x, y] - sxy[x, y] * sxy[x, y] - weight * trace * trace
    return out


def box7(hl: Any, img: Any) -> Any:
    """`images.box7`."""
    x, y = hl.Var("x"), hl.Var("y")
    sums, squares, out = hl.Func("sums"), hl.Func("squares"), hl.Func("out")
    share, floor, zero = hl.f32(1 / 49), hl.f32(0.04), hl.f32(0)
    sums[x, y] = added(img[x + k, y] for k in range(-3, 4))
    squares[x, y] = added(img[x + k, y] * img[x + k, y] for k in range(-3, 4))
    mean = added(sums[x, y + k] for k in range(-3, 4)) * share
    square = added(squares[x, y + k] for k in range(-3, 4)) * share
    out[x, y] = (img[x, y] - mean) / hl.sqrt(hl.max(square - mean * mean, zero) + floor)
    return out


def threshold_u8(hl: Any, img: Any) -> Any:
    """`images.threshold_u8`."""
    x, y = hl.Var("x"), hl.Var("y")
    rows, soft, out = hl.Func("rows"), hl.Func("soft"), hl.Func("out")
    edge = hl.BoundaryConditions.repeat_edge(img)
    rows[x, y] = hl.i16(edge[x - 1, y]) + hl.i16(edge[x, y]) + hl.i16(edge[x + 1, y])
    soft[x, y] = hl.u8((hl.i32(rows[x, y - 1]) + hl.i32(rows[x, y]) + hl.i32(rows[x, y + 1])) // 9)
    out[x, y] = hl.select(soft[x, y] > hl.u8(127), hl.u8(255), hl.u8(0))
    return out


def horizontal_diffusion(hl: Any, field: Any, coefficient: Any) -> Any:
    """`grids.horizontal_diffusion`."""
    i, j, k = hl.Var("i"), hl.Var("j"), hl.Var("k")
    laplacian, along, across, result = (hl.Func(name) for name in ("laplacian", "along", "across", "result"))
    zero, four = hl.f32(0), hl.f32(4)
    laplacian[i, j, k] = four * field[i, j, k] - (
        field[i + 1, j, k] + field[i - 1, j, k] + field[i, j + 1, k] + field[i, j - 1, k]
    )
    flux = laplacian[i + 1, j, k] - laplacian[i, j, k]
    along[i, j, k] = hl.select(flux * (field[i + 1, j, k] - field[i, j, k]) > zero, zero, flux)
    flux = laplacian[i, j + 1, k] - laplacian[i, j, k]
    across[i, j, k] = hl.select(flux * (field[i, j + 1, k] - field[i, j, k]) > zero, zero, flux)
    result[i, j, k] = field[i, j, k] - coefficient[i, j, k] * (
        along[i, j, k] - along[i - 1, j, k] + across[i, j, k] - across[i, j - 1, k]
    )
    return result


def added(terms: Any) -> Any:
    """A sum from left to right."""
    total, *rest = terms
    for term in rest:
        total = total + term
    return total


FORMS: Mapping[str, Callable[..., Any]] = {
    "blur 3x3": blur,
    "unsharp 5x5": unsharp,
    "Harris corners": harris,
    "box 7x7 normalised": box7,
    "mean 3x3, threshold, u8": threshold_u8,
    "horizontal diffusion": horizontal_diffusion,
}
"""By a case's key."""


def compiled(form: Callable[..., Any], held: Mapping[str, Any], written: str, inside: int) -> Callable[[], Any]:
    """What computes a form of these arrays into the array `written`, but for a border `inside` wide in the last two
    dimensions: scheduled for these sizes and for as many threads as the process may use, and compiled."""
    import halide as hl

    images: dict[str, Any] = {}
    for name in list(inspect.signature(form).parameters)[1:]:
        buffer = hl.Buffer(held[name])
        images[name] = hl.ImageParam(buffer.type(), buffer.dimensions(), name)
        images[name].set(buffer)
        images[name].set_estimates([hl.Range(0, size) for size in reversed(held[name].shape)])
    border = [inside if axis < 2 else 0 for axis in range(held[written].ndim)]
    target = held[written]
    made = hl.Buffer(target[tuple(slice(low, size - low) for low, size in zip(reversed(border), target.shape))])
    made.set_min(border)
    func = form(hl, **images)
    func.set_estimates([hl.Range(low, size - 2 * low) for low, size in zip(border, reversed(target.shape))])
    pipeline = hl.Pipeline(func)
    host = hl.get_jit_target_from_environment()
    threads = os.environ.get("HL_NUM_THREADS") or str(len(os.sched_getaffinity(0)))
    plugins(hl)
    pipeline.apply_autoscheduler(host, hl.AutoschedulerParams(SCHEDULER, {"parallelism": threads}))
    pipeline.compile_jit(host)
    return lambda: pipeline.realize(made)


def plugins(hl: Any) -> None:
    """Load the scheduler, which lies in the package."""
    (path,) = Path(hl.install_dir()).glob(f"lib*/libautoschedule_{SCHEDULER.lower()}.*")
    hl.load_plugin(str(path))
