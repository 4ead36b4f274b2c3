"""What those programs compute, in whole NumPy arrays.

As `tests/polybench/references.py`: arguments by name, arrays written by name, in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

REFERENCES: dict[str, Callable[..., dict[str, np.ndarray]]] = {}
PREPARE: dict[str, Callable[..., dict[str, np.ndarray]]] = {}


def reference(function: Callable[..., Any]) -> Callable[..., Any]:
    """Registers `function` as the reference of the kernel of the same name; it is called with the arguments by name."""
    REFERENCES[function.__name__] = function
    return function


def prepare(function: Callable[..., Any]) -> Callable[..., Any]:
    """Registers `function`, which gives the arguments that it changes, for the kernel of the same name."""
    PREPARE[function.__name__.removeprefix("for_")] = function
    return function


@prepare
def for_lattice_boltzmann_walls(f, solid, **_):
    """A channel with a stone in it."""
    walls = np.zeros_like(solid)
    walls[[0, -1]] = True
    walls[len(walls) // 2, walls.shape[1] // 3] = True
    return {"f": abs(f) + f.dtype.type(1), "solid": walls}


@prepare
def for_spmv_ell(column, x, **_):
    return {"column": np.where(column % 3 == 0, -1, abs(column) % max(len(x), 1)).astype(column.dtype)}


@prepare
def for_kmeans_update(label, centres, **_):
    return {"label": abs(label) % max(len(centres) - 1, 1)}


@reference
def lattice_boltzmann_walls(f, after, solid, omega, steps):
    velocities = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
    now, other = f.copy(), after.copy()
    first, second = now, other
    for _ in range(steps):
        g = np.empty_like(now)
        for k, (cx, cy) in enumerate(velocities):
            back = velocities.index((-cx, -cy))
            g[k] = np.where(np.roll(solid, (cy, cx), (0, 1)), now[back], np.roll(now[k], (cy, cx), (0, 1)))
        density = g.sum(0)
        u = sum(cx * g[k] for k, (cx, _) in enumerate(velocities)) / density
        v = sum(cy * g[k] for k, (_, cy) in enumerate(velocities)) / density
        for k, (cx, cy) in enumerate(velocities):
            weight = (4 / 9, 1 / 9, 1 / 36)[abs(cx) + abs(cy)]
            c = 3 * (cx * u + cy * v)
            equilibrium = weight * density * (1 + c + c * c / 2 - 1.5 * (u * u + v * v))
            other[k] = np.where(solid, now[k], g[k] + omega * (equilibrium - g[k]))
        now, other = other, now
    return {"f": first, "after": second}


def beside(u: np.ndarray) -> np.ndarray:
    """The sum of the four neighbours of each inner point."""
    return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]


@reference
def multigrid_smooth(u, f, spacing):
    u = u.copy()
    place = np.add.outer(np.arange(u.shape[0]), np.arange(u.shape[1]))[1:-1, 1:-1]
    for colour in range(2) if min(u.shape) > 2 else ():
        found = (beside(u) + spacing**2 * f[1:-1, 1:-1]) / 4
        u[1:-1, 1:-1] = np.where(place % 2 == colour, found, u[1:-1, 1:-1])
    return {"u": u}


@reference
def multigrid_residual(u, f, r, spacing):
    r = np.zeros_like(r)
    if min(u.shape) > 2:
        r[1:-1, 1:-1] = f[1:-1, 1:-1] - (4 * u[1:-1, 1:-1] - beside(u)) / spacing**2
    return {"r": r}


@reference
def spmv_ell(column, value, x, **_):
    dense = np.zeros((len(value), len(x)))
    rows, places = np.nonzero(column >= 0)
    np.add.at(dense, (rows, column[rows, places]), value[rows, places])
    return {"y": dense @ x}


@reference
def kmeans_update(points, label, centres):
    found = [points[label == k].mean(0) if (label == k).any() else old for k, old in enumerate(centres)]
    return {"centres": np.array(found).reshape(centres.shape)}


@reference
def mandelbrot(count, left, top, side, limit):
    h, w = count.shape
    c = (left + side * np.arange(w)) + 1j * (top + side * np.arange(h))[:, None]
    z, found = np.zeros_like(c), np.zeros_like(count)
    for _ in range(limit):
        inside = abs(z) <= 2
        found += inside
        z = np.where(inside, z * z + c, z)
    return {"count": found}
