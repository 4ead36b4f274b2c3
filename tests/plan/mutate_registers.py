"""Rows of the mutation table on registers that several launches fill: blocks of time steps in windows,
where some of what goes into them is junk, and single steps behind them, which fill them under a
condition. Each launch has registers and windows of its own."""

from __future__ import annotations

from loopfuse.base.options import Tuning
from tests.plan.mutate_edit import all_of, everywhere
from tests.plan.mutate_table import Row, planned
from tests.plan.mutate_windows import behind, from_other, gone, in_launch, test

REGISTER = """
kernel f(a: f32[H, W], inout b: f32[H, W], out c: f32[H, W], inout z: f32[H, W], n: i64):
    for t in 0..n:
        for y in 1..H, x in 1..W - 1:
            b[y, x] = a[y-1, x-1] * f32(t) - z[y, x+1]
        for y in 0..H, x in 1..W - 1:
            let v: f32 = z[y, x-1] * 3.0
            c[y, x] = a[y, x] + v * v
        swap b, z
"""

STEPS = Tuning(columns=1, rows=6, warps=1, steps=2)

BASES = [
    planned("register", "sm_90", {"H": 9, "W": 7, "n": 5}, {"H": 9, "W": 34, "n": 4}, {"H": 3, "W": 9, "n": 6},
            text=REGISTER, tuning=STEPS),
]  # fmt: skip

ROWS: list[Row] = [
    Row("register not filled", "register windows", "in the launch back; the first launch fills its own",
        in_launch(1, gone(r"^S2\["))),
    Row("register not filled in the single steps", "register windows", "the blocks fill their own",
        in_launch(2, gone(r"^S2\["))),
    Row("register not filled in odd steps", "register windows", "single steps of one parity",
        in_launch(2, gone(r"^S2\[.*= b\["))),
    Row("register filled behind its reader", "register windows", "it holds what the column before left",
        in_launch(1, behind(r"^S2", r"^S3"))),
    Row("register filled behind its reader in the single steps", "register windows", "the same there",
        in_launch(2, behind(r"^S2", r"^S3"))),
    Row("register of the other parity", "register windows", "single steps fill it from the other field",
        in_launch(2, from_other(r"^S2\[.*= b\[", "b", "z"))),
    Row("register of the field written", "register windows", "in the blocks' last step",
        in_launch(1, from_other(r"^S2\[t \* 4 \+ 3", "b_window_1", "z_window_3"))),
    Row("a column of junk stored", "register windows", "a strip's last lane stores too",
        in_launch(1, test(r"lane_1 >= ", r"lane_1 < ", 1))),
    Row("a column of junk stored before", "register windows", "a strip's first lanes store too",
        in_launch(1, test(r"lane_1 >= ", r"lane_1 >= ", -1))),
    Row("strips too far apart", "register windows", "what a strip's last lane makes is junk, and stored",
        all_of(everywhere("xb * 29", "xb * 30"), everywhere("xb_1 * 29", "xb_1 * 30"),
               test(r"lane\w* >= ", r"lane\w* < 31", 1))),
    Row("strips too far apart on the way back", "register windows", "the same in the launch back",
        in_launch(1, all_of(everywhere("xb_1 * 29", "xb_1 * 30"), test(r"lane_1 >= ", r"lane_1 < ", 1)))),
    Row("window of the launch before", "register windows", "the launch back has one of its own",
        in_launch(1, from_other(r"^S3", "a_window_1", "a_window"))),
    Row("register and window of the launch before", "register windows", "what it left is not there",
        in_launch(1, all_of(gone(r"^S2\["), from_other(r"^S3", "a_window_1", "a_window")))),
]  # fmt: skip
