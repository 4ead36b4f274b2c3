"""Rows of the mutation table on blocks of time steps whose arrays exchange their roles (planes of
one array chosen by `t % 2` or `t % 3`, swaps in blocks of an odd length), and on borders that each
step sets."""

from __future__ import annotations

from dataclasses import replace

from loopfuse.lang.nodes import Expr, Load, combine, integer
from loopfuse.lang.walk import map_expr
from tests.plan.mutate_edit import Edit, put
from tests.plan.mutate_planned import plus
from tests.plan.mutate_table import Row, planned
from tests.plan.mutate_windows import (
    STEPS,
    SWAP,
    behind,
    constant,
    each,
    from_other,
    gone,
    host_bounds,
    in_launch,
    reading,
    test,
    way,
    without,
    writing,
)

LEVELS = """
kernel f(inout u: f32[2, H, W], n: i64):
    for t in 0..n:
        for y in 1..H-1, x in 1..W-1:
            u[(t + 1) % 2, y, x] = 0.2 * (u[t % 2, y, x] + u[t % 2, y, x-1] - u[t % 2, y, x+1] + u[t % 2, y+1, x] + u[t % 2, y-1, x])
"""

LEAPFROG = """
kernel f(inout u: f64[3, H, W], n: i64):
    for t in 0..n:
        for y in 1..H-1, x in 1..W-1:
            u[(t + 2) % 3, y, x] = 2.0 * u[(t + 1) % 3, y, x] - u[t % 3, y, x] + 0.5 * (u[(t + 1) % 3, y-1, x] - u[(t + 1) % 3, y, x+1])
"""

UPPER_ROW = """
kernel f(inout a: f32[H, W], inout b: f32[H, W], n: i64):
    for t in 0..n:
        for x in 0..W:
            b[0, x] = 1.0
        for y in 1..H-1, x in 1..W-1:
            b[y, x] = 0.25 * (a[y, x-1] + a[y, x+1] - a[y+1, x] + a[y-1, x])
        for y in 1..H-1, x in 1..W-1:
            a[y, x] = b[y, x] + b[y-1, x]
"""

NEIGHBOURS = """
kernel f(inout a: f64[H, W], n: i64):
    assume H >= 3
    assume W >= 3
    temp b: f64[H, W]
    for t in 0..n:
        for y in 1..H-1, x in 1..W-1:
            b[y, x] = 0.5 * (a[y, x-1] + a[y+1, x])
        for y in 1..H-1, x in 1..W-1:
            a[y, x] = b[y, x]
        for x in 1..W-1:
            a[H-1, x] = a[H-2, x]
        for y in 0..H:
            a[y, 0] = a[y, 1]
"""

BASES = [
    planned("levels", "sm_90", {"H": 6, "W": 7, "n": 5}, {"H": 25, "W": 63, "n": 4},
            text=LEVELS, tuning=replace(STEPS, steps=2)),
    planned("odd levels", "sm_90", {"H": 6, "W": 7, "n": 7}, {"H": 25, "W": 63, "n": 6},
            text=LEVELS, tuning=replace(STEPS, steps=3)),
    planned("odd swap", "sm_90", {"H": 6, "W": 7, "n": 7}, {"H": 25, "W": 63, "n": 6},
            text=SWAP, tuning=replace(STEPS, steps=3)),
    planned("leapfrog", "sm_90", {"H": 6, "W": 7, "n": 7}, {"H": 25, "W": 63, "n": 6},
            text=LEAPFROG, tuning=replace(STEPS, steps=3)),
    planned("upper row", "sm_90", {"H": 6, "W": 7, "n": 3}, {"H": 25, "W": 63, "n": 2},
            text=UPPER_ROW, tuning=STEPS),
    planned("neighbours", "sm_90", {"H": 6, "W": 7, "n": 3}, {"H": 25, "W": 63, "n": 2},
            text=NEIGHBOURS, tuning=STEPS),
]  # fmt: skip


def plane(at: str, array: str, other: int) -> Edit:
    """The nodes at `at` touch another plane of the array."""

    def one(expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr.array == array:
            return replace(expr, index=(integer(other), *expr.index[1:]))
        return expr

    return each(at, lambda node: (replace(
        node, target=map_expr(one, node.target), value=map_expr(one, node.value)),))  # fmt: skip


def later(at: str, by: int) -> Edit:
    """The instances at `at` claim to be of a later iteration of the time loop."""
    return each(at, lambda node: (replace(
        node, iteration=(plus(node.iteration[0], by), *node.iteration[1:])),))  # fmt: skip


CLAIM = "the iteration occurs in the claim alone"

ROWS = [
    # ------------------------------------------------ planes by t % 2
    Row("loaded from the other plane", "levels windows", "u[1] instead of u[0], by the first launch",
        in_launch(0, plane(r"copy u_0_window\[.*= u\[0", "u", 1))),
    Row("loaded from the other plane inside", "levels windows", "in the aligned way alone",
        in_launch(0, way(0, plane(r"copy u_0_window\[.*= u\[0", "u", 1)))),
    Row("border from the other plane", "levels windows", "u[0] where u[1] is not computed",
        in_launch(0, plane(r"copy u_1_window.*= u\[1", "u", 0))),
    Row("stored to the other plane", "levels windows", "the last step to u[1]",
        in_launch(1, plane(r"copy u\[0", "u", 1))),
    Row("both planes exchanged", "levels windows", "what is stored in the end",
        in_launch(1, each(r"copy u\[[01]", lambda node: (replace(node, target=replace(
            node.target, index=(combine("sub", integer(1), node.target.index[0]),
                                *node.target.index[1:]))),)))),
    Row("a plane not stored", "levels windows", "u[1] keeps what it held before the blocks",
        in_launch(1, gone(r"copy u\[1"))),
    Row("a plane not stored inside", "levels windows", "by the aligned way alone",
        in_launch(1, way(0, gone(r"copy u\[1")))),
    Row("plane overwritten while others read it", "levels windows",
        "the first launch stores to u[0] instead of its copy", in_launch(0, each(
            r"copy u_0__copy", lambda node: (replace(node, target=replace(
                node.target, array="u", index=(integer(0), *node.target.index))),)))),
    Row("plane read instead of its copy", "levels windows", "by the second launch", in_launch(
        1, each(r"= u_0__copy", lambda node: (replace(node, value=replace(
            node.value, array="u", index=(integer(0), *node.value.index))),)))),
    Row("border from the copy", "levels windows", "which nothing writes", in_launch(
        1, way(2, each(r"copy u_0_window_2.*= u\[0", lambda node: (replace(node, value=replace(
            node.value, array="u_0__copy", index=node.value.index[1:])),))))),
    Row("step reads its own plane", "levels windows", "the second step reads u of two steps before",
        each(r"^S1\[t \* 4 \+ 1,", lambda node: (replace(node, value=map_expr(
            lambda e: replace(e, array="u_0_window") if isinstance(e, Load) else e,
            node.value)),))),
    Row("steps two iterations on", "levels windows", "all planes are the same then",
        later(r"^S1\[t \* 4 \+ 2,", 2), harmless=CLAIM),
    Row("steps one iteration on", "levels windows", "the planes are exchanged then",
        later(r"^S1\[t \* 4 \+ 2,", 1), harmless=CLAIM),
    Row("two steps swapped", "levels windows", "the second step of a block before the first",
        behind(r"^S1\[t \* 4,", r"^S1\[t \* 4 \+ 1,")),
    Row("copy filled a column off", "levels windows", "by the first launch",
        in_launch(0, writing(r"copy u_0__copy", 1, 1))),
    Row("launches swapped", "levels windows", "the copies are read before they are filled",
        host_bounds(0, lambda loop: replace(loop, body=loop.body[::-1]))),
    Row("rest starts a step late", "levels windows", "with the planes exchanged",
        host_bounds(1, lambda loop: replace(loop, lower=plus(loop.lower, 1)))),
    # ------------------------------------------------ blocks of an odd length
    Row("copy of the wrong plane", "odd levels windows", "the first launch copies u[0], not u[1]",
        in_launch(0, each(r"copy u_1__copy", lambda node: (replace(node, value=replace(
            node.value, array="u_0_window_1", index=(plus(node.value.index[0], 1),
                                                     node.value.index[1]))),)))),
    Row("launch back from the wrong plane", "odd levels windows", "u[0] instead of the copy of u[1]",
        in_launch(1, each(r"= u_1__copy", lambda node: (replace(node, value=replace(
            node.value, array="u", index=(integer(0), *node.value.index))),)))),
    Row("the launch there twice", "odd levels windows", "as if its planes came round",
        host_bounds(0, lambda loop: replace(loop, body=(
            loop.body[0], replace(loop.body[0], name="again"))))),
    Row("launch back stores one array", "odd swap windows", "a, not b", in_launch(
        1, gone(r"copy b\["))),
    Row("launch back from the array", "odd swap windows", "b instead of its copy",
        in_launch(1, from_other(r"= b__copy", "b__copy", "b"))),
    Row("launch back from the other array", "odd swap windows", "a instead of b's copy",
        in_launch(1, from_other(r"= b__copy", "b__copy", "a"))),
    Row("border from the other array", "odd swap windows", "a's for b's, in the launch back",
        in_launch(1, way(2, from_other(r"copy b_window\w*\[.*= b\[", "b", "a")))),
    Row("another row of the copy", "odd swap windows", "in the launch back",
        in_launch(1, reading(r"= b__copy", "b__copy", 0, 1))),
    # ------------------------------------------------ planes by t % 3
    Row("older level from the newer", "leapfrog windows", "u[1] twice, u[0] never",
        in_launch(0, plane(r"copy u_0_window\[.*= u\[0", "u", 1))),
    Row("a level not stored", "leapfrog windows", "u[2] of the last but one step",
        in_launch(1, gone(r"copy u\[2"))),
    Row("a level not copied", "leapfrog windows", "the second launch reads an empty copy",
        in_launch(0, gone(r"copy u_0__copy"))),
    Row("copies exchanged", "leapfrog windows", "u[0] and u[1] between the launches",
        in_launch(1, each(r"= u_[01]__copy", lambda node: (replace(node, value=replace(
            node.value, array={"u_0__copy": "u_1__copy", "u_1__copy": "u_0__copy"}[
                node.value.array])),)))),
    # ------------------------------------------------ borders
    Row("border not set", "upper row windows", "b[0, x] stays what it was, in the launch back",
        in_launch(1, gone(r"^S1\["))),
    Row("border set to something else", "upper row windows", "2.0 instead of 1.0",
        in_launch(0, constant(r"^S1\[", 1.0, 2.0))),
    Row("border a row too thick", "upper row windows", "row 1 is set too",
        in_launch(0, test(r"^if .* < 1\)? ", r" < 1$", 1))),
    Row("border not stored", "upper row windows", "nothing of b at the edges",
        in_launch(1, way(2, gone(r"copy b\[")))),
    Row("rest not made inside", "upper row windows", "b's window stays empty",
        in_launch(0, way(1, gone(r"^S2\[")))),
    Row("border set too late", "upper row windows", "a row further down",
        in_launch(0, way(2, writing(r"^S1\[", 0, 1)))),
    Row("border of another step", "upper row windows", "every step sets the same",
        later(r"^S1\[t \* 2,", 1), harmless=CLAIM),
    Row("interior tile meets the border", "upper row windows", "tiles at the top are inside",
        in_launch(1, put("xb_1 * 30 + xw_1 * 30 - 1 >= 1", lambda node: (without(node, 0, 1),)))),
    Row("border copied from another row", "neighbours windows", "a[H-3] instead of a[H-2]",
        in_launch(0, reading(r"^S3\[", "a_window", 0, -1))),
    Row("corner before its row", "neighbours windows", "the column is copied before the row is",
        in_launch(0, way(2, behind(r"^S3\[", r"^S4\[")))),
    Row("column's neighbour missing", "neighbours windows", "the lane to the right hands nothing on",
        in_launch(1, gone(r"copy a_window_6.*a_row_3"))),
    Row("border's copy not read", "neighbours windows", "the launch back finds the old border",
        in_launch(1, way(2, from_other(r"= a__copy", "a__copy", "a")))),
    Row("border column not copied", "neighbours windows", "in the first launch",
        in_launch(0, gone(r"^S4\["))),
]  # fmt: skip
