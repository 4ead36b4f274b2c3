"""Rows of the mutation table on values that a tile of windows keeps in registers for all its rows."""

from __future__ import annotations

from dataclasses import replace

from loopfuse.base.options import Tuning
from loopfuse.lang.nodes import integer
from loopfuse.tree.looptree import Guard
from tests.plan.mutate_table import Row, planned
from tests.plan.mutate_windows import each, from_other, gone, reading, test

WEIGHTED = """
kernel f(a: i32[N, H, W], w: i32[N, 3], bias: i32[N], out c: i32[N, H, W]):
    temp b: i32[N, H, W]
    for n in 0..N, y in 0..H, x in 1..W-1:
        var total: i32 = 0
        for s in 0..3:
            total += w[n, s] * a[n, y, x+s-1]
        b[n, y, x] = total
    for n in 0..N, y in 1..H-1, x in 1..W-1:
        c[n, y, x] = b[n, y-1, x] - b[n, y+1, x] + bias[n]
"""

BASES = [
    planned("weighted", "sm_90", {"N": 2, "H": 5, "W": 6}, {"N": 1, "H": 26, "W": 63},
            text=WEIGHTED, tuning=Tuning(columns=1, rows=6, warps=1)),
]  # fmt: skip

ROWS = [
    Row("kept value of another image", "weighted windows", "the first one's bias for all",
        each(r"copy bias_kept", lambda node: (replace(node, value=replace(
            node.value, index=(integer(0),))),))),
    Row("kept value of another tap", "weighted windows", "w[n, 1] is kept as w[n, 0] too",
        reading(r"copy w_kept.*= w\[n, 0\]", "w", 1, 1)),
    Row("kept value not read", "weighted windows", "the register of a weight is never filled",
        gone(r"copy w_kept_1\[")),
    Row("kept values exchanged", "weighted windows", "a tap takes the next one's weight",
        from_other(r"^S2", "w_kept_1", "w_kept_2")),
    Row("kept value spoilt", "weighted windows", "a weight is overwritten by another behind it",
        from_other(r"copy w_kept_2\[", "w_kept_2", "w_kept_1")),
    Row("kept value read too rarely", "weighted windows", "not where there are less than 9 columns",
        test(r"if 1 < W - 1", "1 < W - 1", -6)),
    Row("kept value read in the other case", "weighted windows", "only where nothing needs it",
        each(r"if 1 < W - 1", lambda node: (Guard(node.condition, (), node.then),))),
]  # fmt: skip
