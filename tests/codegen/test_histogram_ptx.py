"""Updates at places that depend on data: the PTX of the kernels, run on the machine of `tests/ptx_machine.py` against
the interpreter, bit for bit, with few bins a block and few warps."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))

from ptx_runs import compiled, run

from loopfuse.base.options import Tuning
from loopfuse.plan.strategies.histogram import sizes
from loopfuse.tree.looptree import Compute, Fold
from loopfuse.tree.walk import walk_nodes
from tests.plan.mutate_histogram import made_small

COUNTS = """
kernel f(x: {kind}[N], inout h: {type}[{bins}]):
    for i in 0..N:
        h[x[i]] {update}
"""
WEIGHTS = """
kernel f(x: u8[N], y: i32[N], w: {type}[N], inout h: {type}[{bins}]):
    for i in 0..N:
        if w[i] > 20:
            h[(x[i] + y[i]) % {bins}] {update} w[i]
"""
IMAGE = """
kernel f(image: u8[H, W, 3], inout h: u32[3, 64]):
    for y in 0..H:
        for x in 0..W:
            for c in 0..3:
                let b = min(i32(image[y, x, c]), 63)
                h[c, b] += 1
"""
SMALL = {"ADDING": 32, "MOST_ALONE": 32, "ALONE_SHORT": 40, "WARPS": 2, "BLOCKS": 2, "ONE_THREAD": 2, "DIRECT": 100, "DIRECT_BLOCK": 64, "FEW_ROWS": 2, "SHORT_ROW": 30, "ROW_WARPS": 1, "ROW_BLOCKS": 2, "LONG_ROW": 200}


def compared(text: str, *sizes_: dict[str, int], offset: int = 0, is_atomic: bool = True) -> str:
    """Runs it with few threads, at each of the sizes; the PTX. `is_atomic`: it updates atomically."""
    ptx = ""
    with made_small(SMALL):
        compiled.cache_clear()
        for each in sizes_:
            run(text, Tuning(), each, offset, strategy="")
        _, tree, artifact = compiled(text, Tuning(), 32, "")
        ptx = artifact.ptx
        updates = [n for launch in tree.launches for n in walk_nodes(launch.body) if isinstance(n, Compute | Fold)]
        assert any(node.atomic for node in updates) is is_atomic
        assert any(launch.strategy == "histogram" for launch in tree.launches)
    compiled.cache_clear()
    return ptx


def lengths(*values: int) -> list[dict[str, int]]:
    """Sizes of one array."""
    return [{"N": value} for value in values]


@pytest.mark.parametrize("kind", ["u8", "i32"])
def test_counts(kind: str) -> None:
    ptx = compared(COUNTS.format(kind=kind, type="i32", bins=100, update="+= 1"), *lengths(0, 1, 70, 101, 2048, 4100))
    assert "atom.shared.add.u32" in ptx or "red.shared.add.u32" in ptx


def test_counts_of_arrays_that_are_not_aligned() -> None:
    compared(COUNTS.format(kind="u8", type="i32", bins=100, update="+= 1"), *lengths(3000), offset=1)


def test_more_bins_than_a_table() -> None:
    compared(COUNTS.format(kind="i32", type="u64", bins=sizes.MOST_SHARED + 1, update="+= 3"), *lengths(70, 500))


def test_fewer_copies() -> None:
    compared(COUNTS.format(kind="i32", type="i64", bins=1500, update="+= 3"), *lengths(700))


@pytest.mark.parametrize(("kind", "update"), [("i32", "min="), ("u32", "max="), ("i64", "max="), ("u64", "+="), ("u64", "min=")])
def test_types(kind: str, update: str) -> None:
    compared(WEIGHTS.format(type=kind, bins=40, update=update), *lengths(50, 500))


def test_rows_of_warps() -> None:
    compared(IMAGE, {"H": 2, "W": 40}, {"H": 7, "W": 70})


def test_a_number_of_bins_that_is_a_size() -> None:
    text = COUNTS.format(kind="i32", type="i32", bins="B", update="+= 1")
    compared(text, *({"N": 400, "B": bins} for bins in (100, 101, sizes.USUAL_SHARED, sizes.USUAL_SHARED + 1)))


@pytest.mark.parametrize(("kind", "update"), [("f32", "+="), ("f64", "min="), ("i16", "max="), ("u8", "+=")])
def test_tables_of_lanes(kind: str, update: str) -> None:
    """Sums of whole numbers, which floats have exactly."""
    text = WEIGHTS.format(type=kind, bins=12, update=update)
    assert "atom" not in compared(text, *lengths(39, 41, 300), is_atomic=False)


def test_tables_of_lanes_for_a_size() -> None:
    text = COUNTS.format(kind="i32", type="f32", bins="B", update="+= 1.0")
    compared(text, *({"N": 400, "B": bins} for bins in (100, sizes.USUAL_ALONE + 1)), is_atomic=False)


def test_tables_of_lanes_along_rows() -> None:
    compared(IMAGE.replace("u32", "f32"), {"H": 2, "W": 40}, {"H": 7, "W": 70}, is_atomic=False)


@pytest.mark.parametrize("length", [20, 70, 4000])
def test_histograms_of_rows(length: int) -> None:
    text = """
kernel f(x: u8[R, N], inout h: i32[R, 100]):
    for r in 0..R:
        for i in 0..N:
            h[r, x[r, i]] += 1
"""
    compared(text, {"R": 3, "N": length})
