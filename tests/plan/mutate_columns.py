"""Rows of the mutation table on columns that a CPU adds up in blocks of rows. Blocks, turns and strips are small, so that small
arrays have several, with rests."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from math import inf
from unittest.mock import patch

from loopfuse.base.options import Tuning
from loopfuse.lang.nodes import Expr, Load, integer
from loopfuse.lang.walk import map_expr
from loopfuse.tree.looptree import Compute, HostLoop, TreeNode
from loopfuse.tree.walk import map_expressions
from tests.plan.mutate_edit import Edit, bounds, drop, everywhere, home, rewrite
from tests.plan.mutate_table import Base, Made, Row, planned
from tests.plan.mutate_windows import constant, each, gone, host_bounds, reading

ROOM = "loopfuse.plan.strategies.rows.blocks"


@contextmanager
def small_blocks(rows: int = 5, turn: int = 2, row_bytes: int = 12, points: int = 2) -> Generator[None, None, None]:
    """Columns are planned with blocks of so many rows, and strips of so many bytes."""
    with ExitStack() as stack:
        for name, value in (("ROWS", rows), ("TURN", turn), ("ROW_BYTES", row_bytes), ("POINTS", points)):
            stack.enter_context(patch(f"{ROOM}.{name}", value))
        yield


SUMS = """
kernel f(x: f32[R, C], inout s: f32[C], out most: f32[C]):
    for c in 0..C:
        for r in 0..R:
            s[c] += x[r, c]
        most[c] = max(r in 0..R: x[r, c])
"""

STATISTICS = """
kernel f(x: f32[R, C], out m: f32[C], out v: f32[C]):
    for c in 0..C:
        m[c] = 0.0
        for r in 0..R:
            m[c] += x[r, c]
        m[c] /= 8.0
        v[c] = sum(r in 0..R: (x[r, c] - m[c]) * (x[r, c] - m[c]))
"""


def _small(name: str, text: str, *sizes: dict[str, int]) -> Base:
    base = planned(name, "cpu", *sizes, text=text, tuning=Tuning())

    def make() -> Made:
        with small_blocks():
            return base.make()

    return replace(base, name=f"{name} cpu", make=cache(make))


SIZES = ({"R": 14, "C": 4}, {"R": 11, "C": 1}, {"R": 3, "C": 3}, {"R": 0, "C": 2})
BASES = [_small("columns", SUMS, *SIZES), _small("columns twice", STATISTICS, *SIZES)]

def _first_block(node: Compute) -> tuple[TreeNode, ...]:
    """All blocks add to the first one's results."""

    def one(expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr.array == "s_part":
            return replace(expr, index=(integer(0), *expr.index[1:]))
        return expr

    return map_expressions((node,), lambda expr: map_expr(one, expr))


def _reordered(*order: int) -> Edit:
    """The launches for long columns in another order."""

    def change(loop: HostLoop) -> HostLoop:
        return replace(loop, body=tuple(loop.body[number] for number in order))

    return host_bounds(1, change)


ROWS: list[Row] = [
    Row("block left out", "columns cpu", "the last rows", bounds("rb", upper="(max(0, R) + 4) // 5 - 1")),
    Row("blocks too far apart", "columns cpu", "a row between two blocks", everywhere("rb * 5", "rb * 6")),
    Row("blocks overlap", "columns cpu", "a row in two blocks", everywhere("rb * 5", "rb * 4")),
    Row("turn left out", "columns cpu", "the last whole turn of each block",
        bounds("k", upper="(min(R, rb * 5 + 5) - rb * 5) // 2 - 1")),
    Row("rest left out", "columns cpu", "a row that makes no turn", bounds("r_1", upper="min(R, rb * 5 + 5) - 1")),
    Row("row of a turn left out", "columns cpu", "the first of each", bounds("l", lower="1")),
    Row("row added twice", "columns cpu", "all of a turn add its first row",
        rewrite("S1[", "x[k * 2 + l + rb * 5, c_5]", "x[k * 2 + rb * 5, c_5]", 1)),
    Row("partial results not started", "columns cpu", "they hold anything", gone(r"^copy s_part")),
    Row("greatest started from the greatest", "columns cpu", "and not from the least", constant(r"^copy most.max_part", -inf, inf)),
    Row("one block's results", "columns cpu", "all blocks add to the first one's", each(r"^S1.*s_part", _first_block)),
    Row("strips overlap", "columns cpu", "two workers add to one place", bounds("c_5", upper="min(C, cb_1 * 3 + 4)")),
    Row("partial result left out", "columns cpu", "the first block's", bounds("rb_1", lower="1")),
    Row("partial result beyond the last", "columns cpu", "one block too many", bounds("rb_1", upper="(max(0, R) + 4) // 5 + 1")),
    Row("partial result of another column", "columns cpu", "a column off by one", reading(r"^copy s_total|^fold sum s_total", "s_part", 1, 1)),
    Row("total not started", "columns cpu", "it goes on from the column before", drop("copy s_total[] = 0")),
    Row("total not added", "columns cpu", "what blocks leave goes nowhere", gone(r"^fold sum s\[")),
    Row("total added twice", "columns cpu", "to what it was added to", each(r"^fold sum s\[", lambda node: (node, node))),
    Row("columns before blocks", "columns cpu", "put together before they are there", _reordered(1, 0)),
    Row("too few partial results", "columns cpu", "there is room for one block less", home("s_part", "(R + 4) // 5 - 1, C")),
    Row("both ways", "columns cpu", "long columns are added up again", bounds("once", upper="1")),
    Row("second pass too early", "columns twice cpu", "before the first one's columns are put together", _reordered(0, 2, 1, 3)),
    Row("mean not divided", "columns twice cpu", "the second pass takes the sum", gone(r"^S3\[c_8\]")),
]  # fmt: skip
