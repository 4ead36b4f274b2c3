"""Image pipelines: stages with a temporary each, as one writes them down."""

from __future__ import annotations

import formulas
import numpy as np
import stencils

from loopfuse import prange

from .case import Arguments, Case, F, by, f32, sizes

GROUP = "Images"
ZERO, IN49, FLOOR = F(0), F(1 / 49), F(0.04)
LEVEL = np.uint8(127)


def box7(img, out):
    """Each pixel less the mean of 7x7, over their deviation."""
    h, w = img.shape
    sums = np.empty_like(img)
    squares = np.empty_like(img)
    for y in prange(h):
        for x in range(3, w - 3):
            a = ZERO
            b = ZERO
            for k in range(7):
                a += img[y, x + k - 3]
                b += img[y, x + k - 3] * img[y, x + k - 3]
            sums[y, x] = a
            squares[y, x] = b
    for y in prange(3, h - 3):
        for x in range(3, w - 3):
            a = ZERO
            b = ZERO
            for k in range(7):
                a += sums[y + k - 3, x]
                b += squares[y + k - 3, x]
            mean = a * IN49
            out[y, x] = (img[y, x] - mean) / np.sqrt(max(b * IN49 - mean * mean, ZERO) + FLOOR)


def x_box7(img):
    def box(p):
        wide = p.shape[1] - 6
        rows = p[:, :wide] + 0.0
        for k in range(1, 7):
            rows = rows + p[:, k : wide + k]
        high = p.shape[0] - 6
        total = rows[:high]
        for k in range(1, 7):
            total = total + rows[k : high + k]
        return total

    mean = box(img) * (1 / 49)
    variance = (box(img * img) * (1 / 49) - mean * mean).clip(0.0)
    return (img[3:-3, 3:-3] - mean) / (variance + 0.04) ** 0.5


def threshold_u8(img, out):
    """A 3x3 mean of bytes in two passes, rounded down, and what is bright in it."""
    h, w = img.shape
    rows = np.empty(img.shape, np.int16)
    soft = np.empty_like(img)
    for y in prange(h):
        for x in range(w):
            rows[y, x] = np.int16(img[y, max(x - 1, 0)]) + np.int16(img[y, x]) + np.int16(img[y, min(x + 1, w - 1)])
    for y in prange(h):
        for x in range(w):
            total = np.int32(rows[max(y - 1, 0), x]) + np.int32(rows[y, x]) + np.int32(rows[min(y + 1, h - 1), x])
            soft[y, x] = np.uint8(total // 9)
    for y in prange(h):
        for x in range(w):
            out[y, x] = np.uint8(255) if soft[y, x] > LEVEL else np.uint8(0)


def n_threshold_u8(img):
    h, w = img.shape
    wide = np.pad(img.astype(np.int16), 1, mode="edge")
    rows = wide[:, :w] + wide[:, 1 : w + 1] + wide[:, 2:]
    soft = (rows[:h] + rows[1 : h + 1] + rows[2:]) // 9
    return np.where(soft > 127, np.uint8(255), np.uint8(0))


def t_threshold_u8(img):
    import torch

    h, w = img.shape
    wide = img.to(torch.int16)
    wide = torch.cat((wide[:, :1], wide, wide[:, -1:]), 1)
    wide = torch.cat((wide[:1], wide, wide[-1:]), 0)
    rows = wide[:, :w] + wide[:, 1 : w + 1] + wide[:, 2:]
    soft = torch.div(rows[:h] + rows[1 : h + 1] + rows[2:], 9, rounding_mode="floor")
    return (soft > 127).to(torch.uint8) * 255


def j_threshold_u8(img):
    import jax.numpy as jnp

    h, w = img.shape
    wide = jnp.pad(img.astype(jnp.int16), 1, mode="edge")
    rows = wide[:, :w] + wide[:, 1 : w + 1] + wide[:, 2:]
    soft = (rows[:h] + rows[1 : h + 1] + rows[2:]) // 9
    return jnp.where(soft > 127, jnp.uint8(255), jnp.uint8(0))


def picture(name: str):
    """An f32 picture of this name, and what is made of it."""

    def make(random: np.random.Generator, H: int, W: int) -> Arguments:
        return {name: f32(random, H, W), "out": np.zeros((H, W), F)}

    return make


def bytes_of_picture(random: np.random.Generator, H: int, W: int) -> Arguments:
    return {"img": random.integers(0, 256, (H, W), np.uint8), "out": np.zeros((H, W), np.uint8)}


FULL, TINY = sizes("H=4096 W=4096"), sizes("H=17 W=21")

CASES = (
    Case("blur 3x3", GROUP, stencils.blur, picture("img"), FULL, TINY, ("out",), 1e-6, unfused=True,
         forms=by(formulas.blur, "img")),
    Case("unsharp 5x5", GROUP, stencils.unsharp, picture("img"), FULL, TINY, ("out",), 1e-6, unfused=True,
         forms=by(formulas.unsharp, "img", amount=1.0)),
    Case("Harris corners", GROUP, stencils.harris, picture("g"), FULL, TINY, ("out",), 1e-4, inside=2, unfused=True,
         forms=by(formulas.harris, "g")),
    Case("box 7x7 normalised", GROUP, box7, picture("img"), FULL, TINY, ("out",), 1e-4, inside=3, unfused=True,
         libraries=x_box7),
    Case("mean 3x3, threshold, u8", GROUP, threshold_u8, bytes_of_picture, FULL, TINY, ("out",), 0.0, unfused=True,
         forms={"numpy": n_threshold_u8, "torch": t_threshold_u8, "jax": j_threshold_u8}),
)  # fmt: skip
