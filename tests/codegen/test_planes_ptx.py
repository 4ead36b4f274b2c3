"""Stencils along three dimensions: the PTX of blocks that stream down planes, run as `tests/ptx_runs.py`
says; their warps hand rows to each other through shared memory and wait at the block's barriers."""

from __future__ import annotations

import re
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ptx_runs import compiled, run

from loopfuse.base.options import Tuning
from tests.plan.test_sliding_planes import CHAINS

SMALL = Tuning(columns=2, rows=4, warps=2, band=4)
SIZES = [(9, 13, 70), (3, 5, 4)]
OTHERS = {
    # Rows that no warp holds: more above than below, more than there are warps.
    "radius 3": (
        """
        kernel f(a: f32[D, H, W], out b: f32[D, H, W]):
            for z in 1..D-3, y in 3..H-2, x in 2..W-1:
                b[z, y, x] = a[z, y, x] + a[z-1, y, x] - a[z+3, y, x] + a[z, y-3, x] - a[z, y+2, x] + a[z, y, x-2] - a[z, y, x+1]
        """,
        replace(SMALL, columns=4),
    ),
    "five warps": (CHAINS["star"], Tuning(columns=1, rows=3, warps=5, band=1)),
    "from above alone": (
        """
        kernel f(a: f64[D, H, W], out b: f64[D, H, W]):
            for z in 1..D, y in 2..H, x in 1..W:
                b[z, y, x] = a[z, y, x] + a[z-1, y, x] - a[z, y-2, x] + a[z, y, x-1]
        """,
        SMALL,
    ),
    "from below alone": (
        """
        kernel f(a: i32[D, H, W], out b: i32[D, H, W]):
            for z in 1..D, y in 0..H-2, x in 1..W:
                b[z, y, x] = a[z, y, x] + a[z-1, y, x] - a[z, y+2, x] + a[z, y, x-1]
        """,
        replace(SMALL, ahead=0),
    ),
}


@pytest.mark.parametrize(
    ("name", "offset"),
    [("star", 0), ("star", 1), ("box", 0), ("in place", 0), ("two stencils", 0), ("reflected loads", 0)],
)
def test_chains(name: str, offset: int) -> None:
    tuning = replace(SMALL, warps=3) if name in ("two stencils", "reflected loads") else SMALL
    for depth, height, width in SIZES:
        run(textwrap.dedent(CHAINS[name]), tuning, {"D": depth, "H": height, "W": width}, offset)


@pytest.mark.parametrize("name", OTHERS)
def test_rows_that_no_warp_holds(name: str) -> None:
    text, tuning = OTHERS[name]
    text = textwrap.dedent(text)
    for depth, height, width in SIZES:
        run(text, tuning, {"D": depth, "H": height, "W": width}, 0)
    ptx = compiled(text, tuning)[2].ptx
    assert re.search(r"st\.shared", ptx) and "bar.sync" in ptx
