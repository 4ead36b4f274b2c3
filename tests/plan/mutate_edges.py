"""Rows of the mutation table on edge modes of windows: `reflect`, `symmetric` and `wrap`, of arrays
that are loaded and of stages that are computed."""

from __future__ import annotations

from dataclasses import replace

from tests.plan.mutate_edit import everywhere, put
from tests.plan.mutate_table import Row, planned
from tests.plan.mutate_windows import SMALL, gone, reading, test, way, without, writing

CHAIN = """
kernel f(a: f32[H, W], out c: f32[H, W]):
    temp b: f32[H, W]
    for y in 0..H, x in 0..W:
        b[y, x] = a.MODE[y, x-1] + 2.0 * a.MODE[y+1, x]
    for y in 0..H, x in 0..W:
        c[y, x] = b.MODE[y-1, x] + 3.0 * b.MODE[y+1, x] - b.MODE[y, x-2]
"""

BASES = [
    planned(name, "sm_90", {"H": 1, "W": 1}, {"H": 2, "W": 2}, {"H": 3, "W": 4},
            {"H": 24, "W": 63}, text=CHAIN.replace("MODE", mode), tuning=SMALL)
    for name, mode in
    (("reflected", "reflect"), ("symmetric", "symmetric"), ("wrapped", "wrap"))
]  # fmt: skip

_COLUMN = "lane + v_12 + xb * {0} + xw * {0} - 3"
_ROW = "yc * 7 - 1 + min(t_2, 9)"


ROWS = [
    # ------------------------------------------------ loads
    Row("load wrapped in another row", "wrapped windows", "a[1] for a[H]",
        everywhere(f"({_ROW}) % H", "(yc * 7 + min(t_2, 9)) % H")),
    Row("load wrapped in another column", "wrapped windows", "a[W - 2] for a[-1]",
        everywhere(f"({_COLUMN.format(29)}) % W", "(lane + v_12 + xb * 29 + xw * 29 - 4) % W")),
    Row("load wrapped by another period", "wrapped windows", "rows wrap a row late",
        everywhere(f"({_ROW}) % H", f"({_ROW}) % (H + 1)")),
    Row("load reflected as if symmetric", "reflected windows", "a[H - 1] for a[H]",
        everywhere(f"({_ROW}) % max(2 * (H - 1), 1)", f"({_ROW}) % (2 * H)")),
    Row("load wrapped instead of mirrored", "symmetric windows", "a[0] for a[H]",
        everywhere(f"min(({_ROW}) % (2 * H), 2 * H - 1 - ({_ROW}) % (2 * H))", f"({_ROW}) % H")),
    Row("load not beyond the last row", "wrapped windows", "a[H] is not loaded: it is zero",
        test(r"\(H > 0\)", "H \\+ 2$", -1)),
    Row("load not beyond the first column", "wrapped windows", "a[-3] is not loaded",
        test(r"\(H > 0\)", ">= -3$", 1)),
    # ------------------------------------------------ stages that wrap
    Row("stage not computed above its first row", "wrapped windows", "b[-1] is zero",
        test(r"^if \(0 < H\)", ">= -1$", 1)),
    Row("stage not computed below its last row", "wrapped windows", "b[H] is zero",
        test(r"^if \(0 < H\)", "H \\+ 1$", -1)),
    Row("stage not computed before its first column", "wrapped windows", "b[-2] is zero",
        test(r"^if \(0 < H\)", ">= -2$", 1)),
    Row("instance not wrapped", "wrapped windows", "it claims to be row -1",
        put("S1[(t_2 + yc", lambda node: (replace(
            node, iteration=(node.iteration[0].left, node.iteration[1])),)),
        harmless="the iteration occurs in the claim alone"),
    Row("interior guard without its last row", "wrapped windows", "tiles at the bottom are inside",
        put("xb * 29 + xw * 29 - 3 >= 0", lambda node: (without(node, 3, 4, 5),))),
    Row("interior guard without its first column", "wrapped windows",
        "tiles at the left are inside",
        put("xb * 29 + xw * 29 - 3 >= 0", lambda node: (without(node, 6, 7),))),
    # ------------------------------------------------ rows that are mirrored
    Row("row reflected around the edge", "reflected windows", "b[H - 1] for b[H]",
        reading(r"copy b_window\[t_2 - 3, c_1", "b_window", 0, 1)),
    Row("row mirrored around the last row", "symmetric windows", "b[H - 2] for b[H]",
        reading(r"copy b_window\[t_2 - 3, c_1", "b_window", 0, -1)),
    Row("row below the last missing", "reflected windows", "b[H] is zero",
        gone(r"if \(t_2 \+ yc \* 7 - 4 == H\)")),
    Row("row above the first missing", "reflected windows", "b[-1] is zero",
        gone(r"if \(t_2 \+ yc \* 7 - 4 == 1\)")),
    Row("row above the first missing", "symmetric windows", "b[-1] is zero",
        gone(r"if \(t_2 \+ yc \* 7 - 4 == 0\)")),
    Row("a row alone not repeated", "reflected windows", "at H = 1, b[1] is zero",
        gone(r"if \(H == 1\)")),
    Row("row above written a row off", "reflected windows", "b[1] goes to b[-2]",
        writing(r"copy b_window\[t_2 - 5, c_3", 0, -1)),
    Row("row above written a row early", "symmetric windows", "b[1] for b[-1]",
        test(r"- 4 == 0\) & \(H > 0\)", "== 0$", 1)),
    # ------------------------------------------------ columns that are mirrored
    Row("columns reflected as if symmetric", "reflected windows", "b[W - 1] for b[W]",
        way(2, everywhere("max(2 * (W - 1), 1)", "2 * W"))),
    Row("columns beyond the first not mirrored", "symmetric windows", "b[-2] is b[0]",
        everywhere("max(min(lane + v_15 + xb * 28 + xw * 28 - 3, W - 1), -2)",
                   "max(min(lane + v_15 + xb * 28 + xw * 28 - 3, W - 1), 0)")),
    Row("columns mirrored from another strip", "reflected windows", "a column off in all strips",
        everywhere("xb * 27 + xw * 27 - 3", "xb * 27 + xw * 27 - 2")),
    Row("columns not mirrored", "reflected windows", "b before its first column is zero",
        gone(r"copy b_window\[t_2 - 3, v_15 \+ 1\] = b_taken")),
    Row("mirrored columns not spread", "symmetric windows", "halos of the columns before",
        gone(r"unrolled for v_17")),
]  # fmt: skip
