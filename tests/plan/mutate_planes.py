"""Rows of the mutation table on blocks of time steps whose arrays exchange their roles: planes of
one array chosen by `t % 2` or `t % 3`, and swaps in blocks of an odd length."""

from __future__ import annotations

from dataclasses import replace

from loopfuse.lang.affine import combine, integer
from loopfuse.lang.nodes import Expr, Load
from loopfuse.lang.walk import map_expr
from tests.plan.mutate_edit import Edit
from tests.plan.mutate_planned import plus
from tests.plan.mutate_table import Row, planned
from tests.plan.mutate_windows import (
    STEPS,
    SWAP,
    behind,
    each,
    from_other,
    gone,
    host_bounds,
    in_launch,
    reading,
    way,
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

BASES = [
    planned("levels", "sm_90", {"H": 6, "W": 7, "n": 5}, {"H": 25, "W": 63, "n": 4},
            text=LEVELS, tuning=replace(STEPS, steps=2)),
    planned("odd levels", "sm_90", {"H": 6, "W": 7, "n": 7}, {"H": 25, "W": 63, "n": 6},
            text=LEVELS, tuning=replace(STEPS, steps=3)),
    planned("odd swap", "sm_90", {"H": 6, "W": 7, "n": 7}, {"H": 25, "W": 63, "n": 6},
            text=SWAP, tuning=replace(STEPS, steps=3)),
    planned("leapfrog", "sm_90", {"H": 6, "W": 7, "n": 7}, {"H": 25, "W": 63, "n": 6},
            text=LEAPFROG, tuning=replace(STEPS, steps=3)),
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
]  # fmt: skip
