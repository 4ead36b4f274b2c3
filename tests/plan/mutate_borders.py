"""Rows of the mutation table on borders that are loops of their own: windows that they share with the
rest of their array, tiles beside them, faces in three dimensions, ends of lines, line buffers."""

from __future__ import annotations

from loopfuse.base.options import Tuning
from tests.plan.mutate_edit import bounds, put
from tests.plan.mutate_planes import CLAIM, later
from tests.plan.mutate_table import Row, planned
from tests.plan.mutate_windows import (
    behind,
    constant,
    from_other,
    gone,
    in_launch,
    reading,
    test,
    without,
    writing,
)

SIDES = """
kernel f(a: f32[H, W], out c: f32[H, W]):
    assume H >= 3 and W >= 3
    temp b: f32[H, W]
    for y in 1..H-1, x in 1..W-1:
        b[y, x] = a[y-1, x] + a[y+1, x] - a[y, x-1]
    for x in 0..W:
        b[0, x] = 2.0 * a[0, x]
        b[H-1, x] = 3.0
    for y in 1..H-1:
        b[y, 0] = a[y, 0]
        b[y, W-1] = 5.0 * a[y, W-1]
    for y in 1..H-1, x in 1..W-1:
        c[y, x] = b[y-1, x] - b[y+1, x] + b[y, x+1]
    for x in 0..W:
        c[0, x] = b[0, x]
        c[H-1, x] = b[H-1, x]
    for y in 1..H-1:
        c[y, 0] = b[y, 0]
        c[y, W-1] = b[y, W-1]
"""

FACES = """
kernel f(a: f32[D, H, W], out c: f32[D, H, W]):
    assume D >= 3 and H >= 3 and W >= 3
    temp b: f32[D, H, W]
    for z in 1..D-1, y in 1..H-1, x in 1..W-1:
        b[z, y, x] = a[z-1, y, x] + a[z, y-1, x] - a[z, y, x+1]
    for y in 0..H, x in 0..W:
        b[0, y, x] = 2.0
        b[D-1, y, x] = 3.0
    for z in 1..D-1, x in 0..W:
        b[z, 0, x] = 5.0
        b[z, H-1, x] = 7.0
    for z in 1..D-1, y in 1..H-1:
        b[z, y, 0] = 11.0
        b[z, y, W-1] = 13.0
    for z in 1..D-1, y in 1..H-1, x in 1..W-1:
        c[z, y, x] = b[z-1, y, x] + b[z, y-1, x] - b[z, y, x+1] + b[z+1, y+1, x]
"""

ENDS = """
kernel f(a: f32[N], out c: f32[N]):
    assume N >= 3
    temp b: f32[N]
    for x in 1..N-1:
        b[x] = a[x-1] - a[x+1]
    b[0] = 2.0
    b[N-1] = a[N-1]
    for x in 1..N-1:
        c[x] = b[x-1] - b[x+1]
"""

SET = """
kernel f(inout u: f32[H, W], n: i64):
    assume H >= 3 and W >= 3
    temp v: f32[H, W]
    for t in 0..n:
        for y in 1..H-1, x in 1..W-1:
            v[y, x] = u[y-1, x] + u[y+1, x] - u[y, x-1]
        for x in 0..W:
            v[0, x] = 2.0
            v[H-1, x] = 3.0
        for y in 1..H-1:
            v[y, 0] = 5.0
            v[y, W-1] = 7.0
        for y in 0..H, x in 0..W:
            u[y, x] = v[y, x]
"""

SMALL = Tuning(columns=1, rows=4, warps=1, ahead=0)

BASES = [
    planned("sides", "sm_90", {"H": 5, "W": 9}, {"H": 19, "W": 62}, text=SIDES, tuning=SMALL),
    planned("faces", "sm_90", {"D": 5, "H": 6, "W": 7}, {"D": 17, "H": 17, "W": 64}, text=FACES,
            tuning=Tuning(columns=1, rows=4, warps=2, band=4)),
    planned("ends", "sm_90", {"N": 5}, {"N": 90}, text=ENDS, tuning=Tuning(columns=1, warps=1)),
    planned("sides set", "sm_90", {"H": 6, "W": 7, "n": 4}, {"H": 25, "W": 63, "n": 5}, text=SET,
            tuning=Tuning(columns=1, rows=6, warps=1, steps=2)),
    planned("sides of lines", "cpu", {"H": 5, "W": 9}, {"H": 15, "W": 18}, text=SIDES,
            tuning=Tuning(columns=8, rows=4)),
]  # fmt: skip

ROWS = [
    # ------------------------------------------------ windows shared with borders
    Row("first row not set", "sides windows", "b[0, x] is never written", gone(r"^S2\[")),
    Row("a corner not set", "sides windows", "row 0 is set from column 1 on",
        test(r"^if .*< 1\) & .*< W\)", r">= 0$", 1)),
    Row("last row set too early", "sides windows", "row H - 2 is set too",
        test(r"^if .*>= H - 1\) & .*< H\)", r">= H - 1$", -1)),
    Row("side a column too wide", "sides windows", "columns 0 and 1 are set",
        test(r"^if .*< 1\)$", r"v_33.* < 1$", 1)),
    Row("rest over its borders", "sides windows", "row 0 is made as the rest is",
        behind(r"^S1\[", r"^S2\[")),
    Row("border made of another row", "sides windows", "a[1, x] instead of a[0, x]",
        reading(r"^S2\[", "a_window", 0, 1)),
    Row("border set to something else", "sides windows", "4.0 instead of 3.0",
        constant(r"^S3\[", 3.0, 4.0)),
    Row("border a row late in its window", "sides windows", "b[0, x] in the place of b[1, x]",
        writing(r"^S2\[", 0, 1)),
    Row("border set behind its readers", "sides windows", "S6 sees zeros in row H - 1",
        behind(r"^S3\[", r"^S6\[")),
    Row("result without its sides", "sides windows", "c's first and last row are not stored",
        test(r"^if .*t_2 \+ yc \* 5 - 4 >= 0\) & .*< H\) & .*v_41", r"(>= 0|< H)$", 1)),
    Row("tile at the top is inside", "sides windows", "rows 0 and 1 have no way of their own",
        put("yc * 5 - 2 >= 0", lambda node: (without(node, 0, 1, 2),))),
    Row("tile at the left is inside", "sides windows", "column 0 has no way of its own",
        put("yc * 5 - 2 >= 0", lambda node: (without(node, 5, 6),))),
    Row("tile at the bottom is inside", "sides windows", "row H - 1 has no way of its own",
        put("yc * 5 - 2 >= 0", lambda node: (without(node, 3, 4),))),
    # ------------------------------------------------ faces
    Row("a face not set", "faces windows", "b[D - 1, y, x] stays zero", gone(r"^S3\[")),
    Row("a face set to another's value", "faces windows", "2.0 on both", constant(r"^S3\[", 3.0, 2.0)),
    Row("face a row too thick", "faces windows", "row 1 of each plane is set too",
        test(r"^if .*< 1\) & .*< W\)$", r"r_\w+ .* < 1$", 1)),
    Row("face in the plane behind", "faces windows", "a plane further", writing(r"^S2\[", 0, 1)),
    Row("face in another row", "faces windows", "b[z, 0, x] in the place of b[z, 1, x]",
        writing(r"^S4\[", 1, 1)),
    Row("tile at a face is inside", "faces windows", "column 0 has no way of its own",
        put("zc * 6 - 1 >= 0", lambda node: (without(node, 4, 5),))),
    # ------------------------------------------------ ends of lines
    Row("an end not set", "ends windows", "b[0] stays zero", gone(r"^S2\[")),
    Row("an end set twice", "ends windows", "b[1] is 2.0 too", test(r"^if .*v_19.*", r"< 1$", 1)),
    Row("end made of its neighbour", "ends windows", "a[N - 2] instead of a[N - 1]",
        reading(r"^S3\[", "a_window", 1, -1)),
    Row("strip at the end is inside", "ends windows", "b[N - 1] has no way of its own",
        put("xb * 28 + xw * 28 - 2 >= 0", lambda node: (without(node, 2, 3),))),
    # ------------------------------------------------ time steps
    Row("border of the next step", "sides set windows", "2.0 in each, claimed a step later",
        in_launch(0, later(r"^S2\[t \* 4,", 1)), harmless=CLAIM),
    Row("border not set in a step", "sides set windows", "v[y, 0] of every other",
        gone(r"^S4\[t \* 4 \+ 1,")),
    Row("border in another step's window", "sides set windows", "the first step's",
        from_other(r"^S3\[t \* 4 \+ 1,", "v_window_1", "v_window")),
    Row("copy without its borders", "sides set windows", "row 0 of the copy is not filled",
        in_launch(0, test(r"^if .*>= 0\).*< H\).*< W\)$", r"yc \* 9 - 6 >= 0$", 1))),
    # ------------------------------------------------ line buffers
    Row("first row not set", "sides of lines lines", "b[0, x] is what was there", gone(r"^S2\[")),
    Row("a corner not set", "sides of lines lines", "row 0 is set from column 1 on",
        bounds("v_1", lower="max(1, 0 - xs * 8 + 2)")),
    Row("rest over its borders", "sides of lines lines", "column 0 is made as the rest is",
        bounds("v", lower="max(1, 0 - xs * 8 + 1)")),
    Row("side in another line", "sides of lines lines", "b[y, 0] a row further",
        writing(r"^S4\[", 0, 1)),
    Row("side not stored", "sides of lines lines", "c[y, W - 1]",
        bounds("v_9", upper="min(9, W - xs * 8)")),
]
