"""Rows of the mutation table on loads that run ahead of a recurrence, and on arrays that each thread has in
registers."""

from __future__ import annotations

from dataclasses import replace

from loopfuse.tree.looptree import Arrive, Shared
from tests.plan.mutate_edit import all_of, before, bounds, drop, everywhere, home, put, rewrite
from tests.plan.mutate_late import waits
from tests.plan.mutate_table import Row, planned
from tests.plan.mutate_windows import each, from_other, gone, reading, test, writing

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

CARRIED = """
kernel f(a: f32[B, T, D], b: f32[B, T, D], inout y: f32[B, T, D]):
    for n in 0..B, d in 0..D:
        for t in 1..T:
            y[n, t, d] = a[n, t, d] * y[n, t - 1, d] + b[n, t, d]
"""

BASES = [
    planned("recurrence", "gfx942", {"B": 1, "T": 53, "D": 2}, text=RECURRENCE),
    planned("recurrence in a ring", "sm_90", {"B": 1, "T": 150, "D": 32}, text=CARRIED),
]

RING = "recurrence in a ring gpu"
LATE, TAKE = r"copy late a_ring", r"copy a_now"

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
    Row("ring not waited for", RING, "at all", gone("^arrive")),
    Row("ring waited for one part too few", RING, "the part may be under way", waits(7)),
    Row("ring waited for where it is not empty", RING, "only where a part is taken",
        all_of(gone("^arrive"), put("if tq >= 7", lambda node: (replace(node, then=(Arrive(6), *node.then)),)))),
    Row("ring one part smaller", RING, "the part that is taken next is asked for", home("a_ring", home=Shared(7))),
    Row("ring to the next part", RING, "which is taken in the same step", writing(LATE, 0, 1)),
    Row("ring from the next place", RING, "shifted by one", rewrite(LATE, "tq * 16 + u + 1", "tq * 16 + u + 2")),
    Row("ring from the other array", RING, "b twice", from_other(LATE, "a", "b")),
    Row("ring to another's cells", RING, "the next thread's", writing(LATE, 3, 1)),
    Row("ring to another row's cells", RING, "the next row's", writing(LATE, 2, 1)),
    Row("ring taken from another's cells", RING, "the next thread's", reading(TAKE, "^a_ring", 3, 1)),
    Row("ring taken a step early", RING, "the part before", reading(TAKE, "^a_ring", 0, -1)),
    Row("ring taken a place on", RING, "of its part", reading(TAKE, "^a_ring", 1, 1)),
    Row("ring taken before it is full", RING, "from step 6 on", test("if tq >= 7", "tq >= 7", 1)),
    Row("ring taken a step too late", RING, "the first part is left out", test("if tq >= 7", "tq >= 7", -1)),
    Row("ring asked for once too often", RING, "beyond the array", each(r"if tq < ", lambda node: node.then)),
    Row("ring of one step less", RING, "the last part is never computed",
        bounds("tq", upper="max(0, T - 1) // 16 + 6")),
    Row("ring not computed with", RING, "with what the registers held", gone(TAKE)),
    Row("last loads of the ring's loop left out", RING, "the rest computes with what the registers held",
        gone("copy a_last")),
    Row("last loads of the next place", RING, "shifted by one", reading("copy a_last", r"^a\[", 1, 1)),
    Row("last iterations left out", RING, "behind the last part", drop("unrolled for u_4")),
    Row("the element before not there", RING, "the first iteration reads what the register held", drop("if 1 < T")),
    Row("the element before from the next place", RING, "the first one is its own",
        reading(r"copy y_before\[\] = y\[nb \* 2 \+ nt, 0", "^y", 1, 1)),
    Row("the element before not kept", RING, "each part continues with the first",
        gone(r"copy y_before\[\] = y\[nb \* 2 \+ nt, tq")),
    Row("the element before kept a place off", RING, "of the place before",
        reading(r"copy y_before\[\] = y\[nb \* 2 \+ nt, tq", "^y", 1, -1)),
]  # fmt: skip
