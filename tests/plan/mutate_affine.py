"""Rows of the mutation table on nests in other orders than the program's (strategy `affine`): blocks of an outer loop, loops split
where they cross, rows together, each behind the one before it. Blocks and vectors are small, so that small arrays have several."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any
from unittest.mock import patch

from loopfuse.base.options import Tuning
from loopfuse.plan.strategies.affine.tiled import Shape, Tiles, find_tiles
from loopfuse.tree.looptree import HostLoop, LoopTree
from tests.plan.mutate_edit import Edit, before, bounds, drop, everywhere
from tests.plan.mutate_table import Base, Made, Row, planned


def no_tiles(*given: Any) -> Iterator[Tiles]:
    """No tiles of registers: the orders behind them are looked at."""
    return iter(())


@contextmanager
def small_blocks(tiles: bool = True) -> Generator[None, None, None]:
    """Orders have blocks of three iterations, two rows together, and vectors of eight bytes a register; of registers tiles of 2 x 4 in
    blocks of four, or none."""
    orders, tree = "loopfuse.plan.strategies.affine.orders", "loopfuse.plan.strategies.affine.tree"
    tiled = "loopfuse.plan.strategies.affine.tiled"
    with (
        patch(f"{tiled}.BLOCK", 4), patch(f"{tiled}.STRIP_ROWS", 4), patch(f"{tiled}.STRIP_COLUMNS", 8), patch(f"{tiled}.PANEL_ROWS", 2),
        patch(f"{tiled}.shape_of", lambda machine, bytes: Shape(2, 2, 2, 4)),
        patch(f"{orders}.find_tiles", find_tiles if tiles else no_tiles),
        patch(f"{orders}.BLOCK", 3), patch(f"{orders}.TOGETHER", 2), patch(f"{orders}.WAITING", 3),
        patch(f"{orders}.TILE", (2, 3)), patch(f"{orders}.DEEP_TILE", (2, 3)),
        patch(f"{tree}.vector_size", lambda machine, bytes: 2),
    ):  # fmt: skip
        yield


LU = """
kernel f(inout a: f64[N, N]):
    for i in 0..N:
        for j in 0..i:
            for k in 0..j:
                a[i, j] -= a[i, k] * a[k, j]
            a[i, j] /= a[j, j]
        for j in i..N, k in 0..i:
            a[i, j] -= a[i, k] * a[k, j]
"""

PATHS = """
kernel f(inout d: f32[N, N]):
    for k in 0..N:
        for i in 0..N, j in 0..N:
            d[i, j] = min(d[i, j], d[i, k] + d[k, j])
"""

CHOLESKY = """
kernel f(inout a: f64[N, N]):
    for i in 0..N:
        for j in 0..i:
            for k in 0..j:
                a[i, j] -= a[i, k] * a[j, k]
            a[i, j] /= a[j, j]
        for k in 0..i:
            a[i, i] -= a[i, k] * a[i, k]
        a[i, i] = sqrt(abs(a[i, i]) + 1.0)
"""

SWEEPS = """
kernel f(inout a: f64[H, W], steps: i64):
    for t in 0..steps:
        for i in 1..H-1, j in 1..W-1:
            a[i, j] = (a[i-1, j+1] + a[i, j-1] + a[i, j] + a[i, j+1] + a[i+1, j]) / 5.0
"""


FOLDING = """
kernel f(inout t: i32[N, N]):
    for i in N-2..-1 step -1, j in i+1..N:
        t[i, j] = max(t[i, j], t[i, j-1], t[i+1, j])
        for k in i+1..j:
            t[i, j] = max(t[i, j], t[i, k] + t[k+1, j])
"""


RIGHT = """
kernel f(inout a: f64[N, N]):
    for k in 0..N:
        for i in k+1..N:
            a[i, k] /= a[k, k]
        for i in k+1..N, j in k+1..N:
            a[i, j] -= a[i, k] * a[k, j]
"""

TRIANGLE = """
kernel f(s: f64, a: f64[N, N], inout b: f64[N, M]):
    for i in 0..N, j in 0..M:
        for k in i+1..N:
            b[i, j] += a[k, i] * b[k, j]
        b[i, j] = s * b[i, j]
"""


def _small(name: str, text: str, *sizes: dict[str, int], tiles: bool = False) -> Base:
    base = planned(name, "cpu", *sizes, text=text, tuning=Tuning())

    def make() -> Made:
        with small_blocks(tiles):
            made = base.make()
        assert all(launch.strategy == "affine" for launch in made.tree.launches)
        return made

    return replace(base, name=f"{name} cpu", make=cache(make))


BASES = [
    _small("lu", LU, {"N": 7}, {"N": 5}, {"N": 9}, {"N": 1}),
    _small("paths", PATHS, {"N": 6}, {"N": 1}, {"N": 5}),
    _small("rows of cholesky", CHOLESKY, {"N": 7}, {"N": 3}, {"N": 6}),
    _small("folding", FOLDING, {"N": 8}, {"N": 5}, {"N": 9}),
    _small("lu in tiles", LU, {"N": 13}, {"N": 5}, {"N": 16}, tiles=True),
    _small("cholesky in tiles", CHOLESKY, {"N": 14}, {"N": 6}, {"N": 17}, tiles=True),
    _small("triangle in tiles", TRIANGLE, {"N": 13, "M": 9}, {"N": 8, "M": 4}, {"N": 3, "M": 11}, tiles=True),
    _small("sweeps", SWEEPS, {"H": 9, "W": 11, "steps": 2}, {"H": 5, "W": 12, "steps": 3}, {"H": 8, "W": 4, "steps": 2}),
]


def launches(*order: int) -> Edit:
    """The launches in the host's loop, in another order."""

    def edit(tree: LoopTree) -> LoopTree:
        loop, *rest = tree.body
        assert isinstance(loop, HostLoop)
        return replace(tree, body=(replace(loop, body=tuple(loop.body[k] for k in order)), *rest))

    return edit


def last_launch_gone(tree: LoopTree) -> LoopTree:
    """What is left over behind the host's loop is not run."""
    return replace(tree, body=tree.body[:-1])


ROWS: list[Row] = [
    # ------------------------------------------------ blocks of an outer loop
    Row("rows before what their block makes", "lu cpu", "the launches exchanged", launches(1, 0)),
    Row("a row behind the block left out", "lu cpu", "threads start one row late", bounds("i", lower="kb * 3 + 4")),
    Row("a row of the block by a thread too", "lu cpu", "threads start one row early", bounds("i", lower="kb * 3 + 2")),
    Row("a step of the block left out", "lu cpu", "rows take two of three", bounds("k", upper="kb * 3 + 2")),
    Row("blocks overlap", "lu cpu", "each starts in the one before", everywhere("kb * 3", "kb * 2")),
    Row("a block too few", "lu cpu", "the last of all rows", bounds("kb", upper="N // 3 - 1")),
    Row("the rest left out", "lu cpu", "two rows are no block", last_launch_gone),
    Row("division behind its readers", "lu cpu", "columns take the row's factor as it was",
        before("serial for j_7", "S2[i, k]")),
    Row("loops meet one column early", "lu cpu", "the column between the two is left out", bounds("j_6", upper="i - 1")),
    Row("vectors beyond the loop", "lu cpu", "two columns run again as single ones",
        bounds("j_7", upper="k + 1 + max(0, i - k + 1) // 2 * 2")),
    Row("vectors that leave one out", "lu cpu", "the single ones start late",
        bounds("j_8", lower="i + max(0, N - i) // 2 * 2 + 1")),
    # ------------------------------------------------ loops split where they cross
    Row("split one late", "paths cpu", "threads run row k, which others read", bounds("i", upper="k + 1")),
    Row("split one early", "paths cpu", "the row before k is left out", bounds("i", upper="k - 1")),
    Row("rows behind before the row between", "paths cpu", "they read row k as it was", launches(0, 2, 1)),
    Row("rows before behind the row between", "paths cpu", "they read row k as it becomes", launches(1, 0, 2)),
    Row("column between left out", "paths cpu", "nobody runs j = k", drop("S1[k, i, k]")),
    Row("column between first", "paths cpu", "columns before it read it as it becomes", before("S1[k, i, k]", "serial for j_1 in")),
    Row("column left out", "paths cpu", "the last one behind k", bounds("j_2", upper="N - 1")),
    # ------------------------------------------------ rows together
    Row("row of a block left out", "rows of cholesky cpu", "one of two", bounds("r", upper="1")),
    Row("a block left out", "rows of cholesky cpu", "the first whole one", bounds("jb", lower="2")),
    Row("a step left out", "rows of cholesky cpu", "the last that all rows have", bounds("k", upper="jb * 2 - 1")),
    Row("division before the sum", "rows of cholesky cpu", "of the first row of each block",
        before("S2[i, jb * 2]:", "serial for k in")),
    Row("a step between rows left out", "rows of cholesky cpu", "the second row's of the first one's result",
        drop("S1[i, jb * 2 + 1, jb * 2]")),
    Row("rows before the rest of their block", "rows of cholesky cpu", "the second row is finished first",
        before("S2[i, jb * 2 + 1]:", "S1[i, jb * 2 + 1, jb * 2]")),
    # ------------------------------------------------ tiles of registers behind a block
    Row("tiles before the columns that they read", "cholesky in tiles cpu", "the launches exchanged", launches(0, 2, 1)),
    Row("columns before their own block", "cholesky in tiles cpu", "the launches exchanged", launches(1, 0, 2)),
    Row("panel not packed", "cholesky in tiles cpu", "tiles read what was there", drop("copy a_panel")),
    Row("panel one step short", "cholesky in tiles cpu", "three of four steps", bounds("k_1", upper="kb * 4 + 3")),
    Row("sums not taken up", "cholesky in tiles cpu", "they start from what the registers hold", drop("copy a_sums[r, u_1, v_1]")),
    Row("sums not put back", "cholesky in tiles cpu", "what a block adds is lost", drop("copy a[it_2 * 2 + r_2")),
    Row("tile one step short", "cholesky in tiles cpu", "three of four steps", bounds("k_4", upper="kb * 4 + 3")),
    Row("tile that is cut", "cholesky in tiles cpu", "one on the diagonal runs as a whole one",
        everywhere("it_2 >= jt_2 * 2 + 2", "it_2 >= jt_2 * 2 + 1")),
    Row("points of a cut tile left out", "cholesky in tiles cpu", "its last row", bounds("k_2", upper="min(N - 1, it_2 * 2 + 1)")),
    Row("sum of a point not put back", "cholesky in tiles cpu", "what a block adds is lost", drop("copy a[k_2, i]")),
    Row("columns of tiles left out", "cholesky in tiles cpu", "the first behind the block", bounds("jt_2", lower="kb + 2")),
    Row("strip of rows left out", "cholesky in tiles cpu", "the first behind the block", bounds("is_1", lower="kb + 2")),
    Row("diagonal left out", "cholesky in tiles cpu", "behind the block", drop("S3[jt_3, it_3]")),
    Row("tiles before the factors that they read", "lu in tiles cpu", "the launches exchanged", launches(0, 1, 3, 2)),
    Row("tiles before the rows that they read", "lu in tiles cpu", "the launches exchanged", launches(0, 2, 3, 1)),
    Row("rows of the block before those in front of it", "triangle in tiles cpu", "tiles read rows that are done",
        launches(1, 0)),
    # ------------------------------------------------ diagonals of tiles
    Row("a diagonal left out", "folding cpu", "the first", bounds("wave", lower="1")),
    Row("a tile left out", "folding cpu", "the last of each diagonal", bounds("it", upper="min(wave, N // 2 - 1)")),
    Row("a row of a tile left out", "folding cpu", "its last", bounds("i", upper="min(0, it * 2 - N + 3)")),
    Row("a column of a tile left out", "folding cpu", "its last",
        bounds("j", upper="min(N - 1, wave * 3 - i - it * 3 + 2) + 1")),
    Row("tiles that are no diagonal", "folding cpu", "each starts where the one above it does", everywhere("it * 3", "it * 2")),
    Row("a part left out", "folding cpu", "the last of those that a row is put together from", bounds("k", upper="j - 1")),
    # ------------------------------------------------ rows behind one another
    Row("skew one short", "sweeps cpu", "each row is one column behind the one before it", everywhere("r * 2", "r")),
    Row("start left out", "sweeps cpu", "the columns that not all rows have reached", drop("serial for j_1 in")),
    Row("end left out", "sweeps cpu", "the columns that the first rows have left", drop("serial for j_3 in")),
    Row("rows before they start", "sweeps cpu", "the start runs behind the middle", before("serial for j_2", "serial for j_1")),
    Row("rest of rows left out", "sweeps cpu", "those that are no block", drop("if (H - 2) % 3")),
    Row("a place too few", "sweeps cpu", "the last of the middle", bounds("j_2", upper="W + ib_1 * 6")),
    Row("narrow sweeps left out", "sweeps cpu", "those with fewer columns than rows need", drop("serial for t in")),
    Row("a block of rows left out", "sweeps cpu", "the first", bounds("ib_1", lower="1")),
]
