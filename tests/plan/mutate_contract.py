"""Rows of the mutation table on products in tiles of registers: blocks, panels, and sums that go from the block to
registers and back. The tiles are small, so that small arrays have several, with edges."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from unittest.mock import patch

from loopfuse.base.options import Tuning
from loopfuse.lang.nodes import Iter, compare, integer
from loopfuse.plan.strategies.contract.shape import Shape
from loopfuse.tree.looptree import Copy, Guard, Loop, LoopTree, TreeNode
from tests.plan.mutate_edit import before, bounds, everywhere, home, launches, put, rewrite
from tests.plan.mutate_table import Base, Made, Row, planned
from tests.plan.mutate_windows import CLAIM, each, gone, reading, test, writing

SMALL = Shape(rows=2, vectors=2, lanes=2, row_tiles=2, column_tiles=2, steps=3)


@contextmanager
def small_tiles(shape: Shape = SMALL) -> Generator[None, None, None]:
    """Products are planned with these tiles."""
    with patch("loopfuse.plan.strategies.contract.strategy.shape_of", lambda machine, dtype: shape):
        yield


PRODUCT = """
kernel f(a: f32[M, K], b: f32[K, N], bias: f32[N], out c: f32[M, N]):
    for i in 0..M, j in 0..N:
        var s: f32 = 0.0
        for k in 0..K:
            s += a[i, k] * b[k, j]
        c[i, j] = max(s + bias[j], 0.0)
"""

IN_PLACE = """
kernel f(a: f32[M, K], b: f32[K, N], inout c: f32[M, N]):
    for i in 0..M, k in 0..K, j in 0..N:
        c[i, j] += a[i, k] * b[k, j]
"""

ROWS_OF_THEIR_OWN = """
kernel f(a: f32[M, K], b: f32[K, N], inout c: f32[M, N], alpha: f32, beta: f32):
    for i in 0..M:
        for j in 0..N:
            c[i, j] *= beta
        for k in 0..K:
            let v = alpha * a[i, k]
            for j in 0..N:
                c[i, j] += v * b[k, j]
"""

CONVOLUTION = """
kernel f(x: f32[C, W], w: f32[K, C, S], bias: f32[K], out y: f32[K, W-S+1]):
    for k in 0..K, p in 0..W-S+1:
        let s = sum(c in 0..C, t in 0..S: x[c, p+t] * w[k, c, t])
        y[k, p] = s + bias[k]
"""


TRIANGLE = """
kernel f(a: f32[N, K], b: f32[K, N], inout c: f32[N, N]):
    for i in 0..N, j in i..N:
        for k in 0..K:
            c[i, j] += a[i, k] * b[k, j]
        c[j, i] = c[i, j]
"""

IN_PROPORTION = """
kernel f(a: f32[M, K], b: f32[K, N], out y: f32[M, N]):
    for i in 0..M:
        temp line: f32[N]
        for j in 0..N:
            line[j] = sum(k in 0..K: a[i, k] * b[k, j])
        for j in 0..N:
            y[i, j] = line[j] / line[0]
"""


def _tiled(name: str, text: str, *sizes: dict[str, int]) -> Base:
    base = planned(name, "cpu", *sizes, text=text, tuning=Tuning())

    def make() -> Made:
        with small_tiles():
            return base.make()

    return replace(base, name=f"{name} cpu", make=cache(make))


SIZES = {"M": 7, "N": 11, "K": 7}
BASES = [
    _tiled("product", PRODUCT, SIZES, {"M": 4, "N": 8, "K": 3}, {"M": 1, "N": 1, "K": 2}, {"M": 2, "N": 3, "K": 0}),
    _tiled("product in place", IN_PLACE, SIZES, {"M": 5, "N": 4, "K": 1}, {"M": 3, "N": 9, "K": 0}),
    _tiled("gemm", ROWS_OF_THEIR_OWN, SIZES, {"M": 4, "N": 2, "K": 0}),
    _tiled("triangle", TRIANGLE, {"N": 9, "K": 7}, {"N": 5, "K": 1}, {"N": 8, "K": 0}, {"N": 2, "K": 3}),
    _tiled("distributed", IN_PROPORTION, SIZES, {"M": 4, "N": 8, "K": 3}),
    _tiled("convolution", CONVOLUTION, {"C": 2, "W": 13, "K": 7, "S": 3}, {"C": 1, "W": 3, "K": 2, "S": 1}),
]


def _first_steps(node: Copy) -> tuple[TreeNode, ...]:
    """A panel that is packed in the first block of steps only."""
    return (Guard(compare("eq", Iter("kb"), integer(0)), (node,)),)


def _again(tree: LoopTree) -> LoopTree:
    """What stands before the product runs for each panel."""
    starts: list[TreeNode] = []

    def take(node: Loop) -> tuple[TreeNode, ...]:
        starts.append(node)
        return ()

    def give(node: Loop) -> tuple[TreeNode, ...]:
        return (replace(node, body=(*starts, *node.body)),)

    return put("for kb in", give)(put("for jt in", take)(tree))


def _from_memory(tree: LoopTree) -> LoopTree:
    """The other half is copied from memory, before the sum is put there."""
    return rewrite("S2[", "c_block[0, (i - ib * 4) // 2, (i - ib * 4) % 2, (j - jb * 8) // 2 // 2, (j - jb * 8) // 2 % 2, (j - jb * 8) % 2]", "c[i, j]")(
        before("S2[", "if 0 < K")(tree)
    )


ROWS: list[Row] = [
    # ------------------------------------------------ tiles
    Row("tile of rows left out", "product cpu", "a block has one tile of rows less",
        bounds("it_2", upper="min(2, (M - ib * 4 + 1) // 2) - 1")),
    Row("tile of columns left out", "product cpu", "the tile at the edge is left out",
        bounds("jt_2", upper="min(2, (N - jb * 8) // 4)")),
    Row("blocks of rows too far apart", "product cpu", "a row between two blocks", everywhere("ib * 4", "ib * 5")),
    Row("blocks of columns overlap", "product cpu", "two workers write some columns", everywhere("jb * 8", "jb * 7"),
        harmless="both write the same"),
    Row("tile off by one row", "product cpu", "a tile is said to be the rows below its panel's",
        rewrite("S2[", "ib * 4 + it_2 * 2 + r_2", "ib * 4 + it_2 * 2 + r_2 + 1"), harmless=CLAIM),
    Row("row of a tile beyond the last", "product cpu", "the rows of the last tile are not held back",
        rewrite("S2[", "min(ib * 4 + it_2 * 2 + r_2, M - 1)", "ib * 4 + it_2 * 2 + r_2"), harmless=CLAIM),
    Row("sums of another row", "product cpu", "each row adds to the first one's registers",
        rewrite("S2[", "s_sums[r_2, u_3, v_3]", "s_sums[0, u_3, v_3]")),
    Row("sums of another vector", "product cpu", "the vectors of a row share one",
        rewrite("S2[", "s_sums[r_2, u_3, v_3]", "s_sums[r_2, 0, v_3]")),
    Row("too few sums", "product cpu", "a tile has registers for one row", home("s_sums", "1, 2, 2")),
    Row("too small a block", "product cpu", "a block has room for one tile of columns", home("s_block", "1, 2, 2, 1, 2, 2")),
    # ------------------------------------------------ steps
    Row("steps left out", "product cpu", "the last steps, fewer than a panel has", bounds("kb", upper="K // 3")),
    Row("block of steps skipped", "product cpu", "the first steps", bounds("kb", lower="1")),
    Row("steps twice", "product cpu", "blocks of steps overlap by one", everywhere("kb * 3", "kb * 2")),
    Row("a step too few", "product cpu", "the last of each block", bounds("k_3", upper="min(K, kb * 3 + 2)")),
    # ------------------------------------------------ panels
    Row("panel of rows stale", "product cpu", "it is packed for the first steps only", each(r"^copy a_panel", _first_steps)),
    Row("panel of columns stale", "product cpu", "the same of the columns of whole tiles", each(r"^copy b_panel.*v_1\]", _first_steps)),
    Row("panel of rows not packed", "product cpu", "it holds anything", gone(r"^copy a_panel")),
    Row("panel of columns not packed at the edge", "product cpu", "the tile that is not whole", gone(r"^copy b_panel.*v_2\]")),
    Row("panel of columns one step on", "product cpu", "the update reads the step after its own",
        reading(r"^S2.*b_panel", "b_panel", 2, 1)),
    Row("panel of another tile of columns", "product cpu", "all tiles use the first one's",
        rewrite("S2[", "b_panel[0, jt_2, k_3 - kb * 3, u_3, v_3]", "b_panel[0, 0, k_3 - kb * 3, u_3, v_3]")),
    Row("panel of another tile of rows", "product cpu", "all tiles use the first one's",
        rewrite("S2[", "a_panel[0, it_2, k_3 - kb * 3, r_2]", "a_panel[0, 0, k_3 - kb * 3, r_2]")),
    Row("panel packed from the row below", "product cpu", "a row off by one", reading(r"^copy a_panel", r"^a\[", 0, 1)),
    Row("panel packed behind its readers", "product cpu", "the tiles compute with the panel before",
        before("serial for jt_2", "serial for it_1")),
    Row("panel too short", "product cpu", "it has room for two steps", home("a_panel", "1, 2, 2, 2")),
    # ------------------------------------------------ what comes before and behind
    Row("sums not set", "product cpu", "the block holds what the one before left", gone(r"^S1\[.*s_block")),
    Row("sums not taken up", "product cpu", "registers hold what the tile before left", gone(r"^copy s_sums")),
    Row("sums not put back", "product cpu", "an accumulator is not written back", gone(r"^copy s_block")),
    Row("sums set again", "product cpu", "each block of steps starts from nothing", _again),
    Row("sums put back one tile on", "product cpu", "in the place of the next tile of columns", writing(r"^copy s_block", 3, 1)),
    Row("result of another row", "product cpu", "a row of the block off by one",
        rewrite("S3[", "(i - ib * 4) % 2", "(i - ib * 4 + 1) % 2")),
    Row("result of another column", "product cpu", "the vectors of a tile exchanged",
        rewrite("S3[", "(j - jb * 8) // 2 % 2", "((j - jb * 8) // 2 + 1) % 2")),
    Row("a column of the result left out", "product cpu", "the last of each block",
        bounds("j", upper="min(N, jb * 8 + 8) - 1")),
    Row("neither way", "product cpu", "few rows and columns are run by nobody", bounds("once_1", upper="0")),
    Row("both ways", "product in place cpu", "everything is added twice", bounds("once_1", upper="1")),
    # ------------------------------------------------ in place
    Row("sums do not go on", "product in place cpu", "they start from nothing", gone(r"^copy c_block\[0, it, ")),
    Row("sums of another place", "product in place cpu", "a block starts from the row below",
        reading(r"^copy c_block\[0, it, ", r"^c\[", 0, 1)),
    Row("result not put back", "product in place cpu", "the sums stay in the block", gone(r"^copy c\[")),
    # ------------------------------------------------ columns that are loops of their own
    Row("register of another row", "gemm cpu", "all rows use the first one's",
        rewrite("S3[", "v_panel[0, it_2, k_3 - kb * 3, r_2]", "v_panel[0, it_2, k_3 - kb * 3, 0]")),
    Row("registers not made", "gemm cpu", "the panel holds anything", gone(r"^S2\[.*v_panel")),
    Row("block not scaled", "gemm cpu", "what stands before the product is left out", gone(r"^S1\[.*c_block")),
    Row("block scaled again", "gemm cpu", "what stands before the product runs for each block of steps", _again),
    # ------------------------------------------------ triangles
    Row("tile that an edge goes through left out", "triangle cpu", "a tile whose far corner alone is inside",
        test(r"^if .*jt_2 \* 4 - ib .* \+ 3 >= 0$", ">= 0", 3)),
    Row("tile that an edge goes through not started", "triangle cpu", "the same of what stands before",
        test(r"^if .*jt \* 4 - ib .* \+ 3 >= 0$", ">= 0", 3)),
    Row("tile taken for a whole one", "triangle cpu", "a corner is outside", test(r"^if .*jt_2 \* 4 - ib .* - 1 >= 0$", ">= 0", -2), harmless=CLAIM),
    Row("block left out", "triangle cpu", "it has a corner inside", test(r"^if jb \* 8 - ib \* 4 \+ 7 >= 0", ">= 0", 6)),
    Row("lane too many", "triangle cpu", "a lane beyond the edge adds too", test(r"^predicated if.* r_7 ", "r_7 >= 0", -1), harmless=CLAIM),
    Row("lane too few", "triangle cpu", "the diagonal does not add", test(r"^predicated if.* r_7 ", "r_7 >= 0", 1)),
    Row("lane of no column", "triangle cpu", "lanes behind the last column add too", test(r"^predicated if.* r_7 ", "v_8 < N", None), harmless=CLAIM),
    Row("every lane adds", "triangle cpu", "none is asked", each(r"^predicated if.* r_7 ", lambda node: node.then), harmless=CLAIM),
    Row("lanes keep nothing", "triangle cpu", "each block of steps starts from nothing", gone(r"^predicated if.* r_8 ")),
    Row("lanes keep another row's sums", "triangle cpu", "a row of the block off by one", reading(r"^copy c_found", "c_block", 2, 1)),
    Row("operand of the step before", "triangle cpu", "the row's elements are not taken", gone("^copy a_row")),
    Row("operand of another vector", "triangle cpu", "all take the first one's",
        rewrite("S1[", "b_columns[u_8, v_8]", "b_columns[0, v_8]", 1)),
    Row("result beyond the edge", "triangle cpu", "a column too many of each row", bounds("j", lower="max(jb * 8, i - 1)")),
    Row("result short of the edge", "triangle cpu", "the diagonal is left out", bounds("j", lower="max(jb * 8, i + 1)")),
    Row("other half before the sum is there", "triangle cpu", "it copies what memory holds", _from_memory),
    Row("other half in the same place", "triangle cpu", "the result twice in its own", rewrite("S2[", "c[j, i]", "c[i, j]")),
    # ------------------------------------------------ loops distributed for a product
    Row("what follows first", "distributed cpu", "its launch before the product's", launches(lambda found: [found[-1], *found[:-1]])),
    Row("rows of what lies between", "distributed cpu", "all read the first row's", rewrite("S3[", "line[i_2, j_2]", "line[0, j_2]")),
    # ------------------------------------------------ nests
    Row("tile of columns beyond the last", "convolution cpu", "it does not end with the last column",
        everywhere("min(jt_1 * 4 + pb * 8, W - S - 3)", "jt_1 * 4 + pb * 8")),
    Row("result of a tile that was moved", "convolution cpu", "the last tile's columns are taken where whole ones are",
        rewrite("S2[", "min(jt_2 * 4 + pb * 8, W - S - 3)", "jt_2 * 4 + pb * 8")),
    Row("tap left out", "convolution cpu", "the first of each channel", bounds("t", lower="1")),
    Row("tiles for few columns", "convolution cpu", "where there is no whole tile", bounds("once", upper="1")),
]  # fmt: skip
