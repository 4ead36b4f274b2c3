"""Rows of the mutation table on rows and columns of an array that blocks of a GPU go along in one pass. Shares and what threads hold are
small, so that small arrays have several, with rests."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from unittest.mock import patch

from loopfuse.base.dtypes import DType
from loopfuse.base.options import Tuning
from loopfuse.lang.nodes import Const, Expr, Load, integer
from loopfuse.lang.walk import map_expr
from loopfuse.tree.looptree import Compute, Copy, Loop, TreeNode
from loopfuse.tree.walk import map_expressions
from tests.plan.mutate_edit import bounds, drop, everywhere, home, put, rewrite
from tests.plan.mutate_one_pass import ROOM
from tests.plan.mutate_table import Base, Made, Row, planned
from tests.plan.mutate_windows import behind, each, gone, reading


@contextmanager
def small_blocks(share: int = 3, few: int = 2, held: int = 2, short: int = 2, shapes: tuple[tuple[int, int], ...] = ((1, 32), (2, 32))) -> Generator[None, None, None]:
    """Rows and columns in one pass are planned with so many rows for each copy, from more than `few` rows on, and so few places a thread."""
    values = {"ROWS_OF_SHARE": share, "FEW_ROWS": few, "HELD_OF_SHARE": held, "SHARING_ROWS": shapes, "LEAST_SHARED": short}
    with ExitStack() as stack:
        for name, value in values.items():
            stack.enter_context(patch(f"{ROOM}.sizes.{name}", value))
        yield


BOTH = """
kernel f(x: f32[R, C], out s: f32[R], out t: f32[C]):
    for r in 0..R:
        s[r] = sum(c in 0..C: x[r, c])
    for c in 0..C:
        t[c] = sum(r in 0..R: x[r, c] * s[r])
"""


def _small(name: str, text: str, *sizes: dict[str, int]) -> Base:
    base = planned(name, "sm_90", *sizes, text=text, tuning=Tuning())

    def make() -> Made:
        with small_blocks(shapes=((1, 4),)):
            return base.make()

    return replace(base, name=f"{name} sm_90", make=cache(make))


SIZES = ({"R": 8, "C": 7}, {"R": 4, "C": 1}, {"R": 2, "C": 3})
BASES = [_small("both", BOTH, *SIZES)]


def _cleared_in_each(loop: Loop) -> tuple[TreeNode, ...]:
    """Sums begin from nothing in each row."""
    clear = Copy(Load("t.sum_part_sum", (integer(0),), DType.F32), Const(0.0, DType.F32))
    return (replace(loop, body=(clear, *loop.body)),)


def _to_the_first(node: Compute) -> tuple[TreeNode, ...]:
    """A thread adds all of its columns to its first sum."""

    def one(expr: Expr) -> Expr:
        return replace(expr, index=(integer(0),)) if isinstance(expr, Load) and expr.array == "t.sum_part_sum" else expr

    return map_expressions((node,), lambda expr: map_expr(one, expr))


PASS = "both sm_90"
ROWS: list[Row] = [
    Row("share of a block left out", PASS, "the last rows", bounds("share_2", upper="(R + 2) // 3 - 1")),
    Row("shares of blocks too far apart", PASS, "a row between two shares", everywhere("share_2 * 3", "share_2 * 4")),
    Row("shares of blocks overlap", PASS, "a row in two shares", everywhere("share_2 * 3", "share_2 * 2")),
    Row("row of two shares", PASS, "each begins a row too early", bounds("r_3", lower="max(0, share_2 * 3 - 1)")),
    Row("row of a share left out", PASS, "its last", bounds("r_3", upper="min(R, share_2 * 3 + 3) - 1")),
    Row("sums of columns not started", PASS, "they are of the share before, or anything", gone(r"^copy t.sum_part_sum")),
    Row("one sum of columns not started", PASS, "the first of each thread", bounds("u_71", lower="1")),
    Row("sums of columns started in each row", PASS, "what the rows before left is lost", put("for r_3 in", _cleared_in_each)),
    Row("sum of other columns", PASS, "a thread's two change places when they are stored",
        rewrite("copy t.sum_part[", "t_18 + u_72 * 4", "t_18 + (1 - u_72) * 4")),
    Row("column added to another", PASS, "all go to a thread's first sum",
        each(r"^S3\[t_18", _to_the_first)),
    Row("column added twice", PASS, "in each row", each(r"^S3\[t_18", lambda node: (node, node))),
    Row("sums beyond the last column", PASS, "they are stored though", put("if t_18 + u_72 * 4 < C", lambda node: node.then)),
    Row("sums of one share", PASS, "all are stored as the first one's", rewrite("copy t.sum_part[", "share_2", "0")),
    Row("rows of other threads not added", PASS, "each thread goes on with its own part", gone(r"^combine sum s.sum_13")),
    Row("sums of shares left out", PASS, "of all threads the first", bounds("u_74", lower="1")),
    Row("sums of shares added twice", PASS, "in each column", each(r"^fold sum t.sum_5", lambda node: (node, node))),
    Row("sums of shares too few", PASS, "there is room for one share less", home("t.sum_part", "(R + 2) // 3 - 1, C")),
    Row("next row not asked for", PASS, "all rows of a share are its first", drop("if r_3 + 1 <")),
    Row("next row one too far", PASS, "the second row's elements are the third's",
        reading(r"copy x_ahead\[.*= x\[r_3 \+ 1", r"^x\[", 0, 1)),
    Row("next row that there is not", PASS, "behind the last of all", each(r"^if r_3 \+ 1 <", lambda node: node.then)),
    Row("first row not asked for", PASS, "each share begins with what the registers held", drop("if share_2 * 3 < min")),
    Row("first row is the second", PASS, "of each share", reading(r"copy x_ahead\[.*= x\[share_2", r"^x\[", 0, 1)),
    Row("row not taken", PASS, "rows are what the registers held", gone(r"^copy x_row")),
    Row("row taken from the next place", PASS, "of a thread", reading(r"^copy x_row", "^x_ahead", 0, 1)),
    Row("row taken behind the next one's loads", PASS, "each row is the next", behind(r"^unrolled for u_68 in", r"^if r_3 \+ 1 <")),
    Row("few rows left out", PASS, "nobody goes along them", bounds("once_16", upper="0")),
]  # fmt: skip
