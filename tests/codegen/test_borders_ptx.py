"""Borders that are loops of their own: the PTX of kernels with them, run on the machine of
`tests/ptx_machine.py` against the interpreter, bit for bit, at sizes with and without tiles that
meet no border."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ptx_runs import run

from loopfuse.base.options import Tuning
from tests.plan.mutate_borders import ENDS, FACES, SET, SIDES

NEIGHBOURS = """
kernel f(a: f32[H, W], out c: f32[H, W]):
    assume H >= 3 and W >= 3
    temp b: f32[H, W]
    for y in 1..H-1, x in 1..W-1:
        b[y, x] = a[y-1, x] + a[y+1, x] - a[y, x-1]
    for x in 1..W-1:
        b[0, x] = b[1, x]
        b[H-1, x] = 2.0 * b[H-2, x]
    for y in 0..H:
        b[y, 0] = b[y, 1]
        b[y, W-1] = b[y, W-2]
    for y in 1..H-1, x in 1..W-1:
        c[y, x] = b[y-1, x] - b[y+1, x] + b[y, x+1] + b[y-1, x-1]
"""


@pytest.mark.parametrize("text", [SIDES, NEIGHBOURS], ids=["sides", "neighbours"])
@pytest.mark.parametrize(("height", "width", "offset"), [(3, 3, 0), (23, 264, 0), (21, 263, 1)])
def test_sides(text: str, height: int, width: int, offset: int) -> None:
    tuning = Tuning(columns=4, rows=4, warps=1, ahead=0)
    stored = run(text, tuning, {"H": height, "W": width}, offset)
    if width > 3:  # rows move as a whole where a tile meets no border
        assert stored.get(16, 0) or offset


@pytest.mark.parametrize(("depth", "height", "width", "offset"), [(3, 3, 3, 0), (17, 17, 64, 0), (5, 9, 37, 1)])
def test_faces(depth: int, height: int, width: int, offset: int) -> None:
    sizes = {"D": depth, "H": height, "W": width}
    run(FACES, Tuning(columns=1, rows=4, warps=2, band=4), sizes, offset)


@pytest.mark.parametrize(("length", "offset"), [(3, 0), (700, 0), (701, 1)])
def test_ends(length: int, offset: int) -> None:
    run(ENDS, Tuning(columns=4, warps=1), {"N": length}, offset)


@pytest.mark.parametrize(("height", "width", "steps"), [(3, 3, 5), (25, 132, 5)])
def test_sides_of_time_steps(height: int, width: int, steps: int) -> None:
    tuning = Tuning(columns=4, rows=6, warps=1, steps=2)
    run(SET.replace("5.0", "6.0"), tuning, {"H": height, "W": width, "n": steps}, 0)
