"""Rows of the mutation table on loads that run ahead of a recurrence, and on arrays that each thread has in
registers."""

from __future__ import annotations

from tests.plan.mutate_edit import before, bounds, drop, everywhere, home, rewrite
from tests.plan.mutate_table import Row, planned
from tests.plan.mutate_windows import each, from_other, gone, reading, test

RECURRENCE = """
kernel f(a: f32[B, T, D], b: f32[B, T, D], w: f32[2], out y: f32[B, T, D]):
    for n in 0..B, d in 0..D:
        temp h: f32[2]
        for s in 0..2:
            h[s] = 0.0
        for t in 0..T:
            for s in 0..2:
                h[s] = w[s] * h[s] + a[n, t, d]
            y[n, t, d] = h[0] - h[1] * b[n, t, d]
"""

BASES = [planned("recurrence", "sm_90", {"B": 1, "T": 53, "D": 2}, text=RECURRENCE)]

ROWS = [
    Row("chunk of loads not first", "recurrence gpu", "the first chunk computes with what the registers held",
        drop("if tq == 0")),
    Row("chunk of loads a second time", "recurrence gpu", "each chunk starts with the first one's loads",
        test(r"if tq == 0", "tq == 0", 1)),
    Row("chunk of loads not asked for", "recurrence gpu", "all chunks compute with the first one's loads",
        drop("if tq + 1 <")),
    Row("last chunk of loads not asked for", "recurrence gpu", "the last chunk computes with the one before",
        test(r"if tq \+ 1 <", r"tq \+ 1 <", -1)),
    Row("loads ahead of the array", "recurrence gpu", "behind the last chunk one more is read",
        each(r"if tq \+ 1 <", lambda node: node.then)),
    Row("chunk of loads behind its readers", "recurrence gpu", "the next chunk's loads are there before this one is taken",
        before("if tq + 1 <", "unrolled for u_1")),
    Row("chunk of loads one too far", "recurrence gpu", "every chunk but the first is shifted by one",
        rewrite("copy a_ahead[u_2]", "tq * 16 + u_2 + 16", "tq * 16 + u_2 + 17")),
    Row("chunk of loads of this chunk", "recurrence gpu", "the same chunk is loaded again",
        rewrite("copy a_ahead[u_2]", "tq * 16 + u_2 + 16", "tq * 16 + u_2")),
    Row("one load of the other array", "recurrence gpu", "b runs ahead twice",
        from_other(r"copy a_ahead\[u_2\]", "a", "b")),
    Row("one load of the next place", "recurrence gpu", "registers of a chunk are read one on",
        reading(r"^S2.*a_ahead_1", "a_ahead_1", 0, 1)),
    Row("loads not taken over", "recurrence gpu", "what is computed with is never filled",
        gone(r"copy a_ahead_1\[")),
    Row("loads under way read", "recurrence gpu", "a chunk computes with the next one's loads",
        from_other(r"^S2.*a_ahead_1", "a_ahead_1", "a_ahead")),
    Row("rest left out", "recurrence gpu", "what is behind the last whole chunk is never computed",
        drop("serial for t in")),
    Row("rest twice", "recurrence gpu", "the last iteration of the last chunk runs again",
        everywhere("T // 16 * 16", "T // 16 * 16 - 1")),
    Row("chunk too many", "recurrence gpu", "the last chunk reaches beyond the loop",
        bounds("tq", upper="(T + 15) // 16")),
    Row("registers shared by states", "recurrence gpu", "both states of a thread are one",
        everywhere("h[1]", "h[0]")),
    Row("too few registers", "recurrence gpu", "a thread's array has one element less",
        home("h", "1")),
    Row("registers of a thread not cleared", "recurrence gpu", "a state starts with what the register held",
        gone(r"^S1")),
]  # fmt: skip
