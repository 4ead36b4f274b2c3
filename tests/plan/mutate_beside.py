"""Rows of the mutation table on copies that go in a circle as nodes of the tree, not as instances: an
array that two loops of a time loop write in different parts, one inside the other."""

from __future__ import annotations

from loopfuse.base.options import Tuning
from tests.plan.mutate_table import Row, planned
from tests.plan.mutate_windows import from_other, gone, in_launch, reading, test

BESIDE = """
kernel f(a: f32[H, W], inout b: f32[H, W], inout z: f32[H, W], n: i64):
    for t in 0..n:
        for y in 1..H - 2, x in 0..W:
            b[y, x] = z[y, x] * 2.0
        for y in 2..H - 3, x in 0..W - 1:
            z[y, x] = (b[y-1, x] - b[y, x]) * a[y, x]
        swap b, z
"""

STEPS = Tuning(columns=1, rows=6, warps=1, steps=2)

BASES = [
    planned("beside", "sm_90", {"H": 9, "W": 7, "n": 4}, {"H": 21, "W": 35, "n": 5},
            text=BESIDE, tuning=STEPS),
]  # fmt: skip

WRITTEN = r"^\s*if \([^&|]* >= 1\) & \([^&|]* < H - 2\)"
"""The guard of the first loop where a tile lies at an edge."""

ROWS: list[Row] = [
    Row("left from another field", "beside windows", "elements that the second loop leaves are those of z",
        from_other("copy b_window_3", "b_window_2", "z_window_3")),
    Row("nothing left", "beside windows", "elements that the second loop leaves are not kept",
        gone("copy b_window_3")),
    Row("steps a row short", "beside windows", "the last row that the first loop writes is not computed",
        in_launch(0, test(WRITTEN, "H - 2", -1))),
    Row("steps back a row short", "beside windows", "the same in the launch back",
        in_launch(1, test(WRITTEN, "H - 2", -1))),
    Row("step from the first field", "beside windows", "the second step reads what the first one read",
        from_other(r"S1\[t \* 4 \+ 1", "b_window", "z_window")),
    Row("left from a row before", "beside windows", "elements that the second loop leaves are the row above's",
        reading("copy b_window_3", "b_window_2", 0, -1)),
    Row("back from the array", "beside windows", "the launch back reads what it overwrites",
        from_other("copy z_window_3", "z__copy", "z")),
]  # fmt: skip
