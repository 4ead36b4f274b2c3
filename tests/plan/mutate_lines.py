"""Rows of the mutation table on line buffers: rows kept in lines, strips and chunks of CPU workers,
elements that a stage's loop does not write, passes over a row, blocks of time steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from loopfuse.base.options import Tuning
from loopfuse.lang.nodes import Expr, Iter, Load, compare, integer
from loopfuse.lang.walk import map_expr
from loopfuse.tree.looptree import Copy, Guard, LineBuffer
from tests.plan.mutate_edit import Nodes, all_of, bounds, everywhere, home
from tests.plan.mutate_planned import plus
from tests.plan.mutate_table import Row, planned
from tests.plan.mutate_windows import (
    BLUR,
    CLAIM,
    CLAMPED,
    OUTER,
    SAME,
    SWAP,
    TEMPORARY,
    TWO_ARRAYS,
    behind,
    each,
    from_other,
    gone,
    host_bounds,
    in_launch,
    reading,
    test,
    writing,
)

PASSES = """
kernel f(a: f32[H, W], out d: f32[H, W]):
    temp b: f32[H, W]
    temp c: f32[H, W]
    temp e: f32[H, W]
    for y in 1..H-1, x in 1..W-1:
        b[y, x] = a[y-1, x] - a[y+1, x] + a[y, x-1] * a[y, x+1]
    for y in 1..H-1, x in 1..W-1:
        c[y, x] = b[y, x] * b[y, x]
    for y in 2..H-2, x in 2..W-2:
        e[y, x] = c[y-1, x-1] + c[y, x] - c[y+1, x+1]
    for y in 2..H-2, x in 2..W-2:
        d[y, x] = e[y, x] - c[y, x] * 0.5
"""

SMALL = Tuning(columns=7, rows=6)
STEPS = Tuning(columns=7, rows=6, steps=1)

BASES = [
    planned("blur", "cpu", {"H": 5, "W": 9}, {"H": 15, "W": 18}, text=BLUR, tuning=SMALL),
    planned("clamped", "cpu", {"H": 3, "W": 4}, {"H": 13, "W": 17}, text=CLAMPED, tuning=SMALL),
    planned("outer", "cpu", {"N": 2, "H": 5, "W": 6}, {"N": 1, "H": 15, "W": 17}, text=OUTER,
            tuning=SMALL),
    planned("passes", "cpu", {"H": 6, "W": 7}, {"H": 15, "W": 18}, text=PASSES, tuning=SMALL),
    planned("two arrays", "cpu", {"H": 6, "W": 7, "n": 3}, {"H": 15, "W": 18, "n": 2},
            text=TWO_ARRAYS, tuning=STEPS),
    planned("temporary", "cpu", {"H": 6, "W": 7, "n": 5}, {"H": 15, "W": 18, "n": 4},
            text=TEMPORARY, tuning=replace(STEPS, steps=2)),
    planned("swapped", "cpu", {"H": 6, "W": 7, "n": 5}, {"H": 15, "W": 18, "n": 4},
            text=SWAP, tuning=replace(STEPS, steps=2)),
]  # fmt: skip


def claimed_later(node: Any) -> Nodes:
    """The instance claims to be a step of time further on."""
    return (replace(node, iteration=(plus(node.iteration[0], 1), *node.iteration[1:])),)


def _first_image(value: Expr) -> Expr:
    """The value with the images that it reads the first of all."""

    def one(expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr.array == "a":
            return replace(expr, index=(integer(0), *expr.index[1:]))
        return expr

    return map_expr(one, value)


ROWS = [
    # ------------------------------------------------ lines: rows
    Row("line buffer a row too small", "blur lines", "2 rows of b instead of 3",
        home("b_line", home=LineBuffer(2))),
    Row("rows taken modulo another number", "blur lines", "4 rows of b, read as if they were 3",
        home("b_line", home=LineBuffer(4))),
    Row("row of a line off by one", "blur lines", "b[y] where b[y - 1] is meant",
        reading(r"^S2", r"b_line\[t \+ 1,", 0, 1)),
    Row("row read before it is computed", "blur lines", "b[y + 2] where b[y + 1] is meant",
        reading(r"^S2", r"b_line\[t,", 0, 1)),
    Row("stages swapped", "blur lines", "a row of c is computed before that of b",
        behind(r"^S1", r"^S2")),
    Row("stage written a row late", "blur lines", "b's line is filled a row further",
        writing(r"^S1", 0, 1)),
    Row("row of another stage's lag", "blur lines", "b is made of the next row of a",
        reading(r"^S1", r"^a\[", 0, 1)),
    Row("lag off by one", "blur lines", "what is stored is a row further up",
        writing(r"^S2", 0, -1)),
    Row("steps too few", "blur lines", "the last row of each chunk is missing",
        each("rotated|shifted", lambda node: (replace(node, upper=integer(7)),))),
    Row("row of the iteration, not of the line", "blur lines",
        "the statement claims to be a row further down", each(r"^S1", lambda node: (replace(
            node, iteration=(plus(node.iteration[0], 1), node.iteration[1])),)), harmless=CLAIM),
    # ------------------------------------------------ lines: columns
    Row("column of a line off by one", "blur lines", "b[x + 1] where b[x] is meant",
        reading(r"^S2", r"b_line\[t,", 1, 1)),
    Row("column written off by one", "blur lines", "b's line is filled a column further",
        writing(r"^S1", 1, 1)),
    Row("line starts a column late", "blur lines", "b's first column of a strip is not computed",
        bounds("v", lower="max(2, 0 - xs * 7 + 1)")),
    Row("line ends a column early", "blur lines", "b's last column of a strip is not computed",
        bounds("v", upper="min(7, W - xs * 7 - 1)")),
    Row("halo a column short", "outer lines", "b's last column, beyond what is stored",
        bounds("v", upper="min(8, W - xs * 7)")),
    # ------------------------------------------------ strips and chunks
    Row("strip stored too wide", "blur lines", "a column of the next strip, from no line",
        bounds("v_1", upper="min(9, W - xs * 7 - 1)")),
    Row("strips overlap", "blur lines", "both compute and store a column",
        all_of(bounds("v", upper="min(9, W - xs * 7 - 1)"),
               bounds("v_1", upper="min(9, W - xs * 7 - 1)")), harmless=SAME),
    Row("strip stored too narrow", "blur lines", "its last column is missing",
        bounds("v_1", upper="min(7, W - xs * 7 - 1)")),
    Row("strips too far apart", "blur lines", "8 columns, 7 of them stored",
        everywhere("xs * 7", "xs * 8")),
    Row("one strip too few", "blur lines", "the last columns are never stored",
        bounds("xs", upper="(W - 2) // 7")),
    Row("chunk warm-up too short", "blur lines", "rows are stored from the first step on",
        test(r"t - 1 >= 1", "t - 1 >= 1", -1)),
    Row("chunks leave a gap", "blur lines", "a row of each chunk is not stored",
        test(r"t - 1 >= 1", "t - 1 >= 1", 1)),
    Row("chunks too far apart", "blur lines", "7 rows, 6 of them stored",
        everywhere("yc * 6", "yc * 7")),
    Row("one chunk too few", "blur lines", "the last rows are never stored",
        bounds("yc", upper="(H - 2) // 6")),
    Row("line left by the chunk before", "blur lines", "the first row of a chunk is not computed",
        each(r"^serial for v ", lambda node: (Guard(compare("ge", Iter("t"), integer(1)), (node,)),))),
    Row("first row not computed", "blur lines", "b starts at row 1",
        test(r"t \+ yc \* 6 >= 0", ">= 0", 1)),
    Row("last row not computed", "blur lines", "b ends at row H - 1",
        test(r"t \+ yc \* 6 < H", "< H", -1)),
    Row("last row not stored", "blur lines", "c ends a row early",
        test(r"< H - 1", "< H - 1", -1)),
    Row("outer dimension short", "outer lines", "the last image is missing",
        bounds("n", upper="N - 1")),
    Row("another image read", "outer lines", "the first one, for all",
        each(r"^S1", lambda node: (replace(node, value=_first_image(node.value)),))),
    # ------------------------------------------------ edges
    Row("mirrored column from the wrong column", "clamped lines", "the second one",
        reading(r"copy b_line\[t, v_3", "b_line", 1, 1)),
    Row("mirrored columns missing", "clamped lines", "those behind the last",
        gone(r"copy b_line\[t, v_4")),
    Row("mirrored columns too early", "clamped lines", "before the row is computed",
        behind(r"^S1", r"copy b_line\[t, v_3")),
    Row("mirrored row from the wrong row", "clamped lines", "the row before the last",
        reading(r"copy b_line\[t, v_5", "b_line", 0, -1)),
    Row("mirror's guard widened", "clamped lines", "the last row itself is overwritten too",
        test(r"yc \* 6 - 2 == H", "== H", -1)),
    Row("rows above missing", "clamped lines", "the row above the first is not mirrored",
        gone(r"copy b_line\[t \+ 3, v_8")),
    Row("rows mirrored too late", "clamped lines", "the second row is the mirrored one",
        test(r"yc \* 6 - 2 == 0", "== 0", 1)),
    Row("row beyond the edge stored", "clamped lines", "c ends a row late",
        test(r"yc \* 6 - 4 < H", "< H", 1)),
    # ------------------------------------------------ passes over a row
    Row("register used before it is made", "passes lines", "c of b of the point before",
        behind(r"^S1", r"^S2")),
    Row("register of another stage", "passes lines", "d is made of b's value",
        from_other(r"^S4", "e_value", "b_value")),
    Row("register made for another point", "passes lines", "b of the next column",
        reading(r"^S1", r"^a\[", 1, 1)),
    Row("neighbour of the pass's own row", "passes lines", "c[x + 1] where c[x] is meant",
        reading(r"^S4", "c_line", 1, 1)),
    Row("line written before the row is read", "passes lines", "c a row further than it is read",
        writing(r"^S2", 0, 1)),
    # ------------------------------------------------ blocks of time steps
    Row("border from another array", "two arrays lines", "a's column beside b's",
        from_other(r"copy b_line\[t_1 \+ 2, v_1 \+ 13\]", "b", "a")),
    Row("border row not filled", "two arrays lines", "the line holds another row",
        gone(r"copy b_line\[t_1 \+ 2, v_3 \+ 13\]")),
    Row("border column not filled", "two arrays lines", "the last one",
        gone(r"copy b_line\[t_1 \+ 2, v_2 \+ 13\]")),
    Row("border over what is computed", "two arrays lines", "one column too many",
        bounds("v_1", upper="min(min(10, W - xs * 7 + 2), 0 - xs * 7 + 4)")),
    Row("copy's border rows not filled", "two arrays lines", "the launch back reads them",
        gone(r"copy a__copy\[.*v_7")),
    Row("copy's border columns not filled", "two arrays lines", "the launch back reads them",
        gone(r"copy a__copy\[.*v_5")),
    Row("array read instead of its copy", "two arrays lines", "in the launch back",
        in_launch(1, from_other(r"^S1", "a__copy", "a"))),
    Row("copy read instead of the array", "two arrays lines", "in the first launch",
        in_launch(0, from_other(r"^S1", "a", "a__copy"))),
    Row("array overwritten while others read it", "temporary lines",
        "the first launch stores to the array instead of its copy",
        all_of(in_launch(0, each(r"a__copy\[.* = ", lambda node: (replace(
            node, target=replace(node.target, array="a")),))),
            in_launch(1, from_other(r"a__copy", "a__copy", "a")))),
    Row("a field not stored back", "two arrays lines", "b of the last step",
        in_launch(1, gone(r"copy b\["))),
    Row("a field stored beyond the chunk", "two arrays lines", "the row above is the next chunk's",
        in_launch(1, test(r"t_2 - 1 >= 2", "t_2 - 1 >= 2", -1)), harmless=SAME),
    Row("wrong step in an instance", "swapped lines", "t * 4 + 2 instead of t * 4 + 1",
        each(r"^S1\[t \* 4 \+ 1,", claimed_later), harmless=CLAIM),
    Row("a step left out", "swapped lines", "the second step of a block copies the first",
        each(r"^S1\[t \* 4 \+ 1,", lambda node: (Copy(node.target, Load(
            "b_line", (plus(Iter("t_1"), 2), Iter("v_4")), node.target.dtype)),))),
    Row("two steps swapped", "swapped lines", "the second step of a block before the first",
        behind(r"^S1\[t \* 4,", r"^S1\[t \* 4 \+ 1,")),
    Row("blocks too few", "two arrays lines", "the last block is not run, nor its steps",
        host_bounds(0, lambda loop: replace(loop, upper=plus(loop.upper, -1)))),
    Row("rest starts a step late", "two arrays lines", "an odd step is not run",
        host_bounds(1, lambda loop: replace(loop, lower=plus(loop.lower, 1)))),
    Row("the launch back is missing", "two arrays lines", "half of each block",
        host_bounds(0, lambda loop: replace(loop, body=loop.body[:1]))),
]  # fmt: skip
