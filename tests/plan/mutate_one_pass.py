"""Rows of the mutation table on rows and columns of an array that a CPU goes along in one pass. Shares and turns are small, so that small
arrays have several, with rests."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from unittest.mock import patch

from loopfuse.base.dtypes import DType
from loopfuse.base.options import Tuning
from loopfuse.lang.nodes import Expr, Iter, Load, integer
from loopfuse.lang.walk import map_expr
from loopfuse.tree.looptree import Compute, Fold, HostLoop, Loop, TreeNode
from loopfuse.tree.walk import map_expressions
from tests.plan.mutate_edit import (
    all_of,
    before,
    bounds,
    drop,
    everywhere,
    home,
    put,
    rewrite,
)
from tests.plan.mutate_table import Base, Made, Row, planned
from tests.plan.mutate_windows import each, gone, host_bounds, reading

ROOM = "loopfuse.plan.strategies.rows"


@contextmanager
def small_shares(share: int = 5, few: int = 2, turn: int = 2, points: int = 2) -> Generator[None, None, None]:
    """Rows and columns in one pass are planned with so many rows for each copy, from more than `few` rows on."""
    with ExitStack() as stack:
        for name, value in (("one_pass.SHARE", share), ("one_pass.FEW", few), ("one_pass.TURN", turn), ("blocks.TURN", turn), ("blocks.POINTS", points)):
            stack.enter_context(patch(f"{ROOM}.{name}", value))
        yield


BOTH = """
kernel f(x: f32[R, C], v: f32[C], inout s: f32[R], inout t: f32[C]):
    for r in 0..R:
        for c in 0..C:
            s[r] += x[r, c] * v[c]
        for c in 0..C:
            t[c] += x[r, c] * s[r]
"""


def _small(name: str, text: str, *sizes: dict[str, int]) -> Base:
    base = planned(name, "cpu", *sizes, text=text, tuning=Tuning())

    def make() -> Made:
        with small_shares():
            return base.make()

    return replace(base, name=f"{name} cpu", make=cache(make))


SIZES = ({"R": 14, "C": 4}, {"R": 11, "C": 1}, {"R": 3, "C": 3}, {"R": 0, "C": 2})
BASES = [_small("one pass", BOTH, *SIZES)]


def _first_copy(node: Compute) -> tuple[TreeNode, ...]:
    """All shares add to the first one's copy."""

    def one(expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr.array == "t_part":
            return replace(expr, index=(integer(0), *expr.index[1:]))
        return expr

    return map_expressions((node,), lambda expr: map_expr(one, expr))


def _no_copy(node: Compute) -> tuple[TreeNode, ...]:
    """A share adds to the result itself."""

    def one(expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr.array == "t_part":
            return replace(expr, array="t", index=expr.index[1:])
        return expr

    return map_expressions((node,), lambda expr: map_expr(one, expr))


def _late_sum() -> TreeNode:
    """The sums of a turn's last row, put together."""
    place = Iter("k") * 2 + 1 + Iter("rb_1") * 5
    return Fold("sum", Load("s", (place,), DType.F32), Load("s_lane_2", (integer(16),), DType.F32))


def _columns_first(loop: Loop) -> tuple[TreeNode, ...]:
    """Of some rows columns are added up before the rows are gone along."""
    return (replace(loop, body=(*loop.body[-1:], *loop.body[:-1])),)


def _sums_first(loop: HostLoop) -> HostLoop:
    return replace(loop, body=loop.body[::-1])


PASS = "one pass cpu"
ROWS: list[Row] = [
    Row("share left out", PASS, "the last rows", bounds("rb_1", upper="(max(0, R) + 4) // 5 - 1")),
    Row("shares too far apart", PASS, "a row between two shares", everywhere("rb_1 * 5", "rb_1 * 6")),
    Row("shares overlap", PASS, "a row in two shares", everywhere("rb_1 * 5", "rb_1 * 4")),
    Row("turn left out", PASS, "the last whole turn of each share", bounds("k", upper="(min(R, rb_1 * 5 + 5) - rb_1 * 5) // 2 - 1")),
    Row("rest left out", PASS, "a row that makes no turn", bounds("r_3", upper="min(R, rb_1 * 5 + 5) - 1")),
    Row("row of a turn not gone along", PASS, "the last of each", bounds("m_9", upper="1")),
    Row("row of a turn not added", PASS, "the first of each", bounds("l_24", lower="1")),
    Row("row gone along twice", PASS, "the rest begins a row too early",
        bounds("r_3", lower="rb_1 * 5 + (min(R, rb_1 * 5 + 5) - rb_1 * 5) // 2 * 2 - 1")),
    Row("columns before rows", PASS, "a row is added before its sum is there", put("for k in", _columns_first)),
    Row("rest's columns before its rows", PASS, "the same of a row by itself", before("for c_13", "for l_18")),
    Row("sum of another row", PASS, "all of a turn take the first one's",
        rewrite("S2[", "s[k * 2 + l_24 + rb_1 * 5]", "s[k * 2 + rb_1 * 5]", 1)),
    Row("sum of the row behind", PASS, "that of a turn is not there yet",
        rewrite("S2[", "s[k * 2 + l_24 + rb_1 * 5]", "s[min(k * 2 + l_24 + rb_1 * 5 + 1, R - 1)]", 1)),
    Row("sum used before it is added up", PASS, "lanes of a turn's row are put together too late",
        all_of(gone(r"^fold sum s\[k \* 2"), put("for c_15 in", lambda node: (node, _late_sum())))),
    Row("copy not started", PASS, "it holds anything", gone(r"^copy t_part")),
    Row("one share's copy", PASS, "all shares add to the first one's", each(r"^S2.*t_part", _first_copy)),
    Row("result in place of a copy", PASS, "shares add to it all at once", each(r"^S2.*t_part", _no_copy)),
    Row("copy left out", PASS, "the first share's", bounds("rb_2", lower="1")),
    Row("copy beyond the last", PASS, "one share too many", bounds("rb_2", upper="(max(0, R) + 4) // 5 + 1")),
    Row("copy of another column", PASS, "a column off by one", reading(r"^fold sum t_total", "t_part", 1, 1)),
    Row("total not started", PASS, "it goes on from the column before", drop("copy t_total[] = 0")),
    Row("total not added", PASS, "what shares leave goes nowhere", gone(r"^fold sum t\[")),
    Row("total added twice", PASS, "to what it was added to", each(r"^fold sum t\[", lambda node: (node, node))),
    Row("sums before the pass", PASS, "copies are added up before they are there", host_bounds(1, _sums_first)),
    Row("copies too few", PASS, "there is room for one share less", home("t_part", "(R + 4) // 5 - 1, C")),
    Row("both ways", PASS, "many rows are gone along again", bounds("once", upper="1")),
    Row("lanes of the row before", PASS, "they are not started anew", gone(r"^copy s_lane_2")),
]  # fmt: skip
