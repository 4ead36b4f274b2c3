"""Windows whose rows start anywhere: the PTX of the kernels, run as `tests/ptx_runs.py` says."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ptx_runs import DTYPES, run, size_of
from straddled_programs import BOX, DOWN, STEPS

from loopfuse.base.options import Tuning

MIXED = """
kernel f(a: {0}[H, W], k: f32[H, W], out c: f32[H, W], out d: {0}[H, W]):
    for y in 1..H-1, x in 1..W-1:
        c[y, x] = k[y, x-1] * f32(a[y+1, x]) + k[y-1, x]
    for y in 1..H-1, x in 1..W-1:
        d[y, x] = a[y-1, x+1]
"""
PLANES = """
kernel f(a: {0}[N, H, W], out c: {0}[N, H, W]):
    for n in 0..N, y in 1..H-1, x in 2..W:
        c[n, y, x] = a[n, y-1, x-2] + a[n, y+1, x]
"""

SMALL = Tuning(rows=6, warps=1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_pitch_and_any_start(dtype: str) -> None:
    """Also where rows are whole vectors, but arrays start between two."""
    for width, offset in zip(range(530, 541), (0, 1, 0, 3, 5, 7, 2, 0, 1, 4, 6), strict=True):
        stored = run(BOX.format(dtype), SMALL, {"H": 30, "W": width}, offset)
        whole = min(16, size_of(dtype) * (4 if size_of(dtype) == 4 else 2 if size_of(dtype) == 8 else 8))
        assert stored[whole] * whole > 0.2 * 30 * width * size_of(dtype), (width, offset)


@pytest.mark.parametrize("dtype", ["f32", "f16", "u8", "i64"])
@pytest.mark.parametrize("text", [DOWN, MIXED], ids=["down", "mixed"])
def test_other_chains(text: str, dtype: str) -> None:
    """No halo, so that the first strip has no room before it; arrays of several widths."""
    for width, offset in ((531, 0), (532, 1), (534, 2), (536, 0)):
        stored = run(text.format(dtype), SMALL, {"H": 30, "W": width}, offset)
        assert max(stored) * stored[max(stored)] > 30 * width * size_of(dtype) // 5


@pytest.mark.parametrize("dtype", ["f32", "u8"])
def test_several_planes(dtype: str) -> None:
    run(PLANES.format(dtype), SMALL, {"N": 2, "H": 29, "W": 531}, 1)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_time_steps(dtype: str) -> None:
    tuning = replace(SMALL, steps=2)
    stored = run(STEPS.format(dtype), tuning, {"H": 45, "W": 391, "n": 9}, 1)
    assert stored[16] > 45 * 391 // 4


@pytest.mark.parametrize(("dtype", "columns"), [("f32", 2), ("f32", 8), ("f64", 4), ("u8", 4),
                                                ("u8", 16), ("f16", 4), ("f16", 16), ("u8", 2)])  # fmt: skip
def test_other_widths_of_strips(dtype: str, columns: int) -> None:
    tuning = replace(SMALL, columns=columns)
    for bits in (32, 64):
        for width, offset in ((1111, 0), (1112, 3), (1114, 1)):
            run(BOX.format(dtype), tuning, {"H": 30, "W": width}, offset, bits)


IMAGES = Path(__file__).resolve().parents[2] / "benchmarks/kernels/images.lf"


@pytest.mark.parametrize("columns", [0, 4])
@pytest.mark.parametrize("name", ["blur_f16", "blur_u8", "unsharp_u8"])
def test_images(name: str, columns: int) -> None:
    """Edges that repeat, arithmetic in f32, neighbours' columns by the word."""
    whole = IMAGES.read_text().split("kernel ")
    text = next("kernel " + part for part in whole if part.startswith(name + "("))
    text = text.replace(name, "f").replace(", amount: f32", "").replace("amount", "1.5")
    for width, offset in ((531, 3), (544, 0)):
        run(text, replace(SMALL, columns=columns), {"H": 40, "W": width}, offset)
