"""Rows of the mutation table on windows along one dimension: strips of a line in registers, columns
handed from lane to lane, ends with edge modes, blocks of time steps."""

from __future__ import annotations

from dataclasses import replace

from loopfuse.base.options import Tuning
from loopfuse.lang.nodes import Load, integer
from loopfuse.tree.looptree import Copy
from tests.plan.mutate_edit import bounds, everywhere, put
from tests.plan.mutate_planned import plus
from tests.plan.mutate_table import Row, planned
from tests.plan.mutate_windows import (
    CLAIM,
    behind,
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

BLUR = """
kernel f(a: f32[N], out c: f32[N]):
    temp b: f32[N]
    for i in 1..N-1:
        b[i] = a[i-1] + 2.0 * a[i] + 3.0 * a[i+1]
    for i in 2..N-2:
        c[i] = b[i-1] + 2.0 * b[i] - b[i+1]
"""

CLAMPED = """
kernel f(inout a: f32[N], inout b: f32[N], n: i64):
    for t in 0..n:
        for i in 0..N:
            b[i] = a.clamp[i-1] + 0.5 * a.clamp[i+2]
        swap a, b
"""

TEMPORARY = """
kernel f(inout a: f64[N], n: i64):
    temp b: f64[N]
    for t in 0..n:
        for i in 1..N-1:
            b[i] = 0.25 * a[i-1] + 0.5 * a[i] - 0.25 * a[i+1]
        for i in 1..N-1:
            a[i] = b[i]
"""

RING = """
kernel f(x: i32[N], out y: i32[N]):
    temp b: i32[N]
    for i in 0..N:
        b[i] = x.wrap[i-1] - 2 * x.wrap[i+1]
    for i in 0..N:
        y[i] = b.wrap[i-2] + 3 * b.wrap[i+1]
"""

STEPS = Tuning(columns=1, warps=1, steps=2)
BASES = [
    planned("line", "sm_90", {"N": 9}, {"N": 90}, text=BLUR, tuning=Tuning(columns=1, warps=1)),
    planned("wide line", "sm_90", {"N": 150}, text=BLUR, tuning=Tuning(columns=2, warps=1)),
    planned("stepped line", "sm_90", {"N": 7, "n": 5}, {"N": 80, "n": 4}, text=CLAMPED,
            tuning=STEPS),
    planned("kept line", "sm_90", {"N": 7, "n": 7}, {"N": 80, "n": 4}, text=TEMPORARY,
            tuning=STEPS),
    planned("ring", "sm_90", {"N": 6}, {"N": 40}, text=RING,
            tuning=Tuning(columns=1, warps=1)),
]  # fmt: skip

ROWS = [
    # ------------------------------------------------ columns and lanes
    Row("neighbour off by one", "line windows", "a[i] where a[i - 1] is meant",
        reading(r"^S1", r"a_window\[.*, v\w*\]", 1, 1)),
    Row("shuffle in the other direction", "line windows", "the left halo from the lane to the right",
        reading(r"copy b_window.*lane - 1", "b_row", 0, 2)),
    Row("shuffle of a wrong column", "wide line windows", "a lane's first column instead of its last",
        reading(r"copy b_window.*\(h\w* \+ lane \* 2 - 1\)", "b_row", 0, -1)),
    Row("halo not copied", "line windows", "the column of b to the right is missing",
        gone(r"copy b_window.*lane \+ 1")),
    Row("halo of another stage", "line windows", "b's columns from a's row",
        from_other(r"copy b_window.*b_row\[", "b_row", "a_row")),
    Row("columns spread too late", "line windows", "after the halos are read",
        behind(r"copy b_row", r"copy b_window.*b_row")),
    Row("half of the columns spread", "wide line windows", "one of a lane's two",
        each(r"unrolled for v_(1|6|11|3|8|13) ", lambda node: (replace(node, upper=integer(1)),))),
    Row("stages swapped", "line windows", "c is computed before b", behind(r"^S1", r"^S2")),
    Row("no step", "line windows", "nothing is computed",
        each("rotated|shifted", lambda node: (replace(node, upper=integer(0)),))),
    # ------------------------------------------------ strips
    Row("strip stored too wide on the left", "line windows", "from lane 1 instead of 2",
        test(r"lane >= 2", "lane >= 2", -1)),
    Row("strip stored too wide on the right", "line windows", "to lane 31 instead of 30",
        test(r"lane < 30", "lane < 30", 1)),
    Row("strip stored too narrow", "line windows", "to lane 29 instead of 30",
        test(r"lane < 30", "lane < 30", -1)),
    Row("strips too far apart", "line windows", "29 columns, 28 of them stored",
        everywhere("ib * 28", "ib * 29")),
    Row("one strip too few", "line windows", "the last columns are never stored",
        bounds("ib", upper="(N - 3) // 28")),
    Row("strip starts a column late", "line windows", "all columns but the stored ones moved",
        reading(r"copy a_window\[.*= a\[", r"^a\[", 0, 1)),
    Row("stored a column off", "line windows", "c[i + 1] is stored for c[i]",
        writing(r"copy c\[", 0, 1)),
    # ------------------------------------------------ both ways of a tile
    Row("interior guard without its first column", "line windows", "the first strip is inside",
        put("ib * 28 + iw * 28 - 2 >= 0", lambda node: (without(node, 0, 1, 2),))),
    Row("interior guard without its last column", "line windows", "the last strip is inside",
        put("ib * 28 + iw * 28 - 2 >= 0", lambda node: (without(node, 3, 4, 5),))),
    Row("interior always taken", "stepped line windows", "by strips at the ends too",
        in_launch(0, put("ib * 26 + iw * 26 - 2 >= 0", lambda node: node.then))),
    Row("edge way without its store", "line windows", "nothing of c is stored at the ends",
        way(2, gone(r"copy c\["))),
    Row("inside way without its store", "line windows", "nothing of c is stored",
        way(1, gone(r"copy c\["))),
    Row("another tap in the aligned way", "line windows", "b[i] where b[i + 1] is meant",
        way(0, reading(r"^S2", r"b_window\[.*, v\w* \+ 2\]", 1, -1))),
    # ------------------------------------------------ ends
    Row("clamped to another column", "stepped line windows", "the last but one, at both ends",
        in_launch(0, way(2, reading(r"copy b_taken", "b_row", 0, 1)))),
    Row("not clamped", "stepped line windows", "what lies beyond the ends of b is not filled",
        way(2, gone(r"copy b_window.*b_taken"))),
    Row("clamped before it is there", "stepped line windows", "b's row is spread before b is made",
        in_launch(0, way(2, behind(r"copy b_row", r"copy b_taken")))),
    Row("wrapped iteration of another element", "ring windows", "b beyond the ends a column off",
        way(2, reading(r"^S1", r"x_window", 1, 1))),
    Row("wrapped loads of another element", "ring windows", "x beyond the ends a column off",
        way(2, reading(r"copy x_window\[.*= x\[", r"^x\[", 0, 1))),
    # ------------------------------------------------ blocks of time steps
    Row("a step left out", "stepped line windows", "the second step of a block copies the first",
        each(r"^S1\[t \* 4 \+ 1,", lambda node: (Copy(node.target, Load(
            "b_window", (node.target.index[0], plus(node.target.index[1], 1)),
            node.target.dtype)),))),
    Row("wrong step in an instance", "kept line windows", "t * 4 + 2 instead of t * 4 + 1",
        each(r"^S1\[t \* 4 \+ 1,", lambda node: (replace(
            node, iteration=(plus(node.iteration[0], 1), *node.iteration[1:])),)),
        harmless=CLAIM),
    Row("array read instead of its copy", "kept line windows", "in the launch back, everywhere",
        in_launch(1, from_other(r"= a__copy", "a__copy", "a"))),
    Row("copy read instead of the array", "stepped line windows", "in the first launch",
        in_launch(0, from_other(r"= a\[", "a", "a__copy"))),
    Row("copy filled a column off", "kept line windows", "by the first launch, everywhere",
        in_launch(0, writing(r"copy a__copy", 0, 1))),
    Row("a field not stored back", "stepped line windows", "b of the last step",
        in_launch(1, gone(r"copy b\["))),
    Row("halo a column too narrow for its steps", "kept line windows", "stored from lane 1 on",
        in_launch(0, test(r"lane\w* >= 2", r"lane\w* >= 2", -1))),
    Row("blocks too many", "kept line windows", "steps past the last",
        host_bounds(0, lambda loop: replace(loop, upper=plus(loop.upper, 1)))),
    Row("rest starts a step late", "kept line windows", "an odd step is not run",
        host_bounds(1, lambda loop: replace(loop, lower=plus(loop.lower, 1)))),
]  # fmt: skip
