"""References of the examples on images, grids and sequences.

Imported by `references`, which says what a reference is.
"""

from __future__ import annotations

import numpy as np
from references import Arguments, reference


@reference
def bilateral(a: Arguments) -> dict[str, np.ndarray]:
    """All 25 neighbours as whole images."""
    img = a["img"]
    h, w = img.shape
    padded = np.pad(img, 2, "edge")
    weights, total = np.zeros_like(img), np.zeros_like(img)
    for dy in range(5):
        for dx in range(5):
            v = padded[dy : dy + h, dx : dx + w]
            far = (dy - 2) ** 2 + (dx - 2) ** 2
            weight = np.exp(-(a["space"] * far + a["tone"] * (v - img) ** 2))
            weights += weight
            total += weight * v
    return {"smooth": total / weights}


@reference
def demosaic(a: Arguments) -> dict[str, np.ndarray]:
    """Bilinear: each colour's own pixels, spread by the kernel that interpolates them."""
    raw = a["raw"].astype(np.int64)
    h, w = raw.shape
    odd_row, odd_column = np.arange(h) % 2 == 1, np.arange(w) % 2 == 1
    red = ~odd_row[:, None] & ~odd_column
    blue = odd_row[:, None] & odd_column
    planes = []
    for mask, corner in ((red, 1), (~(red | blue), 0), (blue, 1)):
        taps = ((corner, 2, corner), (2, 4, 2), (corner, 2, corner))
        value = np.pad(np.where(mask, raw, 0), 1, "reflect")
        count = np.pad(mask.astype(np.int64), 1, "reflect")
        cells = [(taps[i][j], slice(i, i + h), slice(j, j + w)) for i in range(3) for j in range(3)]
        total = sum(tap * value[rows, columns] for tap, rows, columns in cells)
        weight = sum(tap * count[rows, columns] for tap, rows, columns in cells)
        planes.append(np.where(mask, raw, (2 * total + weight) // (2 * weight)))
    return {"rgb": np.stack(planes, -1).astype(np.uint8)}


@reference
def lattice_boltzmann(a: Arguments) -> dict[str, np.ndarray]:
    """D2Q9, BGK: roll, then relax; the caller's arrays take turns."""
    velocities = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
    f, other = a["f"].copy(), a["next"].copy()
    first, second = f, other
    for _ in range(a["steps"]):
        g = np.stack([np.roll(f[k], (cy, cx), (0, 1)) for k, (cx, cy) in enumerate(velocities)])
        density = g.sum(0)
        u = sum(cx * g[k] for k, (cx, _) in enumerate(velocities)) / density
        v = sum(cy * g[k] for k, (_, cy) in enumerate(velocities)) / density
        for k, (cx, cy) in enumerate(velocities):
            weight = (4 / 9, 1 / 9, 1 / 36)[abs(cx) + abs(cy)]
            c = 3 * (cx * u + cy * v)
            equilibrium = weight * density * (1 + c + c * c / 2 - 1.5 * (u * u + v * v))
            other[k] = g[k] + a["omega"] * (equilibrium - g[k])
        f, other = other, f
    return {"f": first, "next": second}


@reference
def fdtd_2d(a: Arguments) -> dict[str, np.ndarray]:
    """PolyBench's fdtd-2d."""
    ex, ey, hz = a["ex"].copy(), a["ey"].copy(), a["hz"].copy()
    for value in a["source"]:
        ey[0] = value
        ey[1:] -= 0.5 * np.diff(hz, axis=0)
        ex[:, 1:] -= 0.5 * np.diff(hz, axis=1)
        hz[:-1, :-1] -= 0.7 * (np.diff(ex, axis=1)[:-1] + np.diff(ey, axis=0)[:, :-1])
    return {"ex": ex, "ey": ey, "hz": hz}


@reference
def multigrid_restrict(a: Arguments) -> dict[str, np.ndarray]:
    """Full weighting of f + laplace(u), as a product of two one-dimensional weightings."""
    u = a["u"]
    coarse = np.zeros_like(a["coarse"])
    if min(coarse.shape) > 2:
        bend = 4 * u[1:-1, 1:-1] - u[:-2, 1:-1] - u[2:, 1:-1] - u[1:-1, :-2] - u[1:-1, 2:]
        r = a["f"][1:-1, 1:-1] - bend / a["spacing"] ** 2
        r = (r[:-2:2] + 2 * r[1:-1:2] + r[2::2]) / 4
        coarse[1:-1, 1:-1] = (r[:, :-2:2] + 2 * r[:, 1:-1:2] + r[:, 2::2]) / 4
    return {"coarse": coarse}


@reference
def multigrid_prolong(a: Arguments) -> dict[str, np.ndarray]:
    """u plus the bilinear interpolation of the coarse correction."""
    fine = a["coarse"]
    for axis in (0, 1):
        count = fine.shape[axis]
        spread = np.zeros((2 * count - 1, count), fine.dtype)
        for i in range(count):
            spread[2 * i, i] = 1
        for i in range(count - 1):
            spread[2 * i + 1, i : i + 2] = 0.5
        fine = np.moveaxis(np.tensordot(spread, fine, (1, axis)), 0, axis)
    return {"u": a["u"] + fine}


@reference
def smith_waterman(a: Arguments) -> dict[str, np.ndarray]:
    """Local alignment, the recurrence cell by cell."""
    n, m = len(a["a"]), len(a["b"])
    score = np.zeros((n + 1, m + 1), np.int32)
    for i in range(n):
        for j in range(m):
            found = a["match"] if a["a"][i] == a["b"][j] else a["mismatch"]
            beside = max(score[i, j + 1], score[i + 1, j]) - a["gap"]
            score[i + 1, j + 1] = max(0, score[i, j] + found, beside)
    return {"score": score, "best": score.max().reshape(1)}
