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

from loopfuse.base.diagnostics import LimitError
from loopfuse.base.options import Target, Tuning
from loopfuse.codegen.mlir.module import emit_module
from loopfuse.codegen.shared_memory import placed_in
from loopfuse.codegen.targets.assemble import assemble
from loopfuse.lang.nodes import integer
from loopfuse.tree.looptree import Shared
from tests.plan.test_sliding_planes import CHAINS, OTHER, TIMES

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
    [("star", 0), ("star", 1), ("box", 0), ("in place", 0), ("two stencils", 0), ("reflected loads", 0),
     ("symmetric", 0), ("reflected planes", 0), ("reflected rows", 0), ("reflected columns", 0),
     ("reflected everywhere", 0)],
)
def test_chains(name: str, offset: int) -> None:
    tuning = replace(SMALL, warps=3) if name in ("two stencils", "reflected loads") else SMALL
    tuning = OTHER if name in ("reflected columns", "reflected everywhere") else tuning
    for depth, height, width in SIZES:
        run(textwrap.dedent(CHAINS[name]), tuning, {"D": depth, "H": height, "W": width}, offset)


def test_a_swap_in_blocks_of_time_steps() -> None:
    """Both arrays live on: every other launch writes the one that the next reads."""
    tuning = Tuning(columns=1, rows=4, warps=2, band=6, steps=2)
    for steps in (5, 8):
        run(textwrap.dedent(TIMES["swap"]), tuning, {"D": 9, "H": 13, "W": 40, "n": steps}, 0)


@pytest.mark.parametrize("name", OTHERS)
def test_rows_that_no_warp_holds(name: str) -> None:
    text, tuning = OTHERS[name]
    text = textwrap.dedent(text)
    for depth, height, width in SIZES:
        run(text, tuning, {"D": depth, "H": height, "W": width}, 0)
    ptx = compiled(text, tuning)[2].ptx
    assert re.search(r"st\.shared", ptx) and "bar.sync" in ptx


TWICE = """
    kernel f(a: f64[D, H, W], out c: f64[D, H, W]):
        temp b: f64[D, H, W]
        for z in 1..D-1, y in 1..H-1, x in 0..W-1:
            b[z, y, x] = a[z-1, y, x] - a[z+1, y, x] + a[z, y-1, x] - a[z, y+1, x+1]
        for z in 2..D-2, y in 2..H-2, x in 1..W-1:
            c[z, y, x] = b[z-1, y, x] - b[z+1, y, x] + b[z, y-1, x] - b[z, y+1, x-1]
"""


@pytest.mark.parametrize("warps", [12, 10], ids=["planes", "planes and rows on their way"])
def test_more_shared_memory_than_code_may_declare(warps: int) -> None:
    """The launch gives each block all of it: two planes of two stages, which are too large alone or
    with the rows that are put in order on their way to memory."""
    text = textwrap.dedent(TWICE)
    tuning = Tuning(columns=2, rows=3, warps=warps, band=2)
    run(text, tuning, {"D": 9, "H": 27, "W": 70}, 0)
    kernel, tree, artifact = compiled(text, tuning)
    (placed,) = placed_in(emit_module(tree, kernel, Target("sm_90"))).values()
    assert artifact.manifest["steps"][0]["launch"]["shared_bytes"] == placed.asked == placed.total
    *_, last = placed.starts.items()
    assert last[0].endswith("_scratch") and (last[1] > 48 << 10) == (warps == 12)
    declared = [line for line in artifact.ptx.splitlines() if ".shared .align" in line]
    assert declared == [".extern .shared .align 128 .b8 loopfuse_shared[];"]
    made = assemble(artifact.ptx, Target("sm_90"))
    assert made is None or not any(made[2].values())


def test_a_block_has_no_more_than_every_gpu_gives() -> None:
    """Too much of it is an error of the compiler, not of the launch."""
    kernel, tree, _ = compiled(textwrap.dedent(CHAINS["star"]), SMALL)
    huge = tuple(
        replace(one, extents=(*one.extents[:1], integer(99 << 10), *one.extents[2:]))
        if isinstance(one.home, Shared)
        else one
        for one in tree.buffers
    )
    with pytest.raises(LimitError, match="bytes of shared memory"):
        emit_module(replace(tree, buffers=huge), kernel, Target("sm_90"))
