"""Planes that come by themselves, by way of shared memory: the PTX of late copies, run as
`tests/ptx_runs.py` says. The machine makes each copy as late as it may, and poisons its place
before; the interpreter of trees makes it at once."""

from __future__ import annotations

import re
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ptx_runs import compiled, run

from loopfuse.base.options import Tuning
from tests.codegen.test_planes_ptx import OTHERS, SIZES, SMALL
from tests.plan.test_sliding_planes import CHAINS

LATE = replace(SMALL, late=2)
PLANNED = {
    "star": (CHAINS["star"], LATE, (0, 1)),
    "box": (CHAINS["box"], replace(LATE, late=3), (1,)),
    "in place": (CHAINS["in place"], LATE, (0, 1)),
    "zero": (CHAINS["zero"], replace(LATE, late=1), (0,)),
    "two stencils": (CHAINS["two stencils"], replace(LATE, warps=3), (0,)),
    "from below alone": (OTHERS["from below alone"][0], replace(LATE, late=3), (0,)),
    "five warps": (OTHERS["five warps"][0], replace(OTHERS["five warps"][1], late=2), (0,)),
}


UNPROVED = {("symmetric", 3), ("reflected rows", 3), ("reflected columns", 3), *(("reflected everywhere", n) for n in (1, 2, 3))}
"""Chains and planes ahead whose proof takes more than a question may, in the shape of these tests."""


@pytest.mark.parametrize("name", PLANNED)
def test_planes_that_come_late(name: str) -> None:
    text, tuning, offsets = PLANNED[name]
    text = textwrap.dedent(text)
    for offset in offsets:
        for depth, height, width in SIZES:
            run(text, tuning, {"D": depth, "H": height, "W": width}, offset)


@pytest.mark.slow
@pytest.mark.parametrize("late", [1, 2, 3])
@pytest.mark.parametrize("name", [name for name in CHAINS if "batches" not in name and name != "weights"])
def test_all_chains_with_planes_that_come_late(name: str, late: int) -> None:
    if (name, late) in UNPROVED:
        pytest.skip("isl gives up over lanes of one column")
    text = textwrap.dedent(CHAINS[name])
    for offset in (0, 1):
        for depth, height, width in SIZES:
            tuning = replace(SMALL, late=late, warps=3)
            run(text, tuning, {"D": depth, "H": height, "W": width}, offset)


def test_what_the_code_does() -> None:
    """Vectors of a lane's own where rows are aligned; else words, neighbouring lanes neighbours; no
    plane waits in registers, and each step ends a group and waits for all but one."""
    text, tuning = textwrap.dedent(CHAINS["star"]), Tuning(columns=4, rows=9, warps=2, band=1, late=2)
    ptx = compiled(text, tuning)[2].ptx
    assert set(re.findall(r"cp\.async\.ca\.shared\.global \[.*\], (\d+);", ptx)) == {"4", "16"}
    assert ptx.count("cp.async.commit_group") == ptx.count("cp.async.wait_group")
    assert set(re.findall(r"cp\.async\.wait_group\s+(\d+);", ptx)) == {"1"}
    assert not re.search(r"ld\.global", ptx)
    # Neighbouring lanes take neighbours: a lane's own words lie a warp's apart.
    words = re.findall(r"cp\.async\.ca\.shared\.global \[.*\], \[(%\w+)(?:\+(-?\d+))?\], 4;", ptx)
    rows = [words[k : k + 4] for k in range(0, len(words), 4)]
    straight = [row for row in rows if len({base for base, _ in row}) == 1]
    assert straight
    for row in straight:
        first = int(row[0][1] or 0)
        assert [int(at or 0) - first for _, at in row] == [0, 128, 256, 384]
    assert ptx.count(".shared .align") == ptx.count(".shared .align 128") > 0


def test_elements_that_cannot_come_late() -> None:
    """`cp.async` moves 4 bytes at least."""
    text = textwrap.dedent(CHAINS["star"]).replace("f32", "f16")
    assert "cp.async" not in compiled(text, LATE)[2].ptx


RECURRENCES = {
    "one before": """kernel f(a: {0}[B, T, D], b: {0}[B, T, D], inout y: {0}[B, T, D]):
    for n in 0..B, d in 0..D:
        for t in 1..T:
            y[n, t, d] = a[n, t, d] * y[n, t - 1, d] + b[n, t, d]
""",
    "gates": """kernel f(a: {0}[B, T, D], b: {0}[B, T, D], out y: {0}[B, T, D]):
    for n in 0..B, d in 0..D:
        var h: {0} = 0.0
        for t in 0..T:
            let keep = 1.0 / (1.0 + exp(-a[n, t, d]))
            h = keep * h + (1.0 - keep) * b[n, t, d]
            y[n, t, d] = h * exp(-h * h)
""",
}


def ordinary(name: str, shape: list[int]) -> np.ndarray:
    return np.random.default_rng(len(name) + sum(shape)).standard_normal(shape)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", RECURRENCES)
def test_elements_of_a_recurrence_that_come_late(name: str, dtype: str) -> None:
    """Rows of whole lines of memory, others, and more parts than a ring has."""
    text = RECURRENCES[name].format(dtype)
    ptx = compiled(text, Tuning(), strategy="generic")[2].ptx
    rows = 8 if dtype == "f32" else 4
    assert set(re.findall(r"cp\.async\.wait_group\s+(\d+);", ptx)) == {str(rows - 2)}
    for batch, steps, width in [(1, 0, 32), (3, 17, 32), (1, 32, 64), (1, 16 * rows + 21, 32), (2, 33, 33), (3, 70, 5)]:
        run(text, Tuning(), {"B": batch, "T": steps, "D": width}, 1, strategy="generic", data_of=ordinary)
