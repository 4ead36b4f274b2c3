"""Rows of the mutation table on linear recurrences: maps of chunks, put together in order. Chunks are as small as those of
`mutate_scan`; no factor is 0, which would hide what stands before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from loopfuse.lang.nodes import Iter, integer
from loopfuse.lang.walk import substitute
from loopfuse.tree.looptree import LoopTree, Scan
from loopfuse.tree.walk import map_expressions
from tests.plan.mutate_edit import (
    all_of,
    before,
    bounds,
    double,
    drop,
    everywhere,
    put,
    rewrite,
    unguard,
)
from tests.plan.mutate_scan import PLAIN, WIDE, combined, exchanged, neutral, small, without
from tests.plan.mutate_table import Row

NUMBER = """
kernel f(a: i64[N], b: i64[N], inout s: i64[1], out y: i64[N]):
    for i in 0..N:
        s[0] = (a[i] * 2 + 1) * s[0] + b[i]
        y[i] = s[0] * 2
"""
THROUGH = """
kernel f(a: i64[R, N], b: i64[R, N], out y: i64[R, N]):
    for r in 0..R:
        y[r, 0] = b[r, 0]
        for i in 1..N:
            y[r, i] = (a[r, i] * 2 + 1) * y[r, i - 1] + b[r, i]
"""
BASES = [
    small("sm_90", {"N": 3}, {"N": 128}, {"N": 600}, {"N": 4200}, text=NUMBER, name="linear", more=PLAIN),
    small("sm_90", {"N": 3}, {"N": 2047}, {"N": 2600}, text=NUMBER, name="linear pass", more=WIDE),
    small("cpu", {"N": 3}, {"N": 16}, {"N": 61}, text=NUMBER, name="linear"),
    small("sm_90", {"R": 2, "N": 3}, {"R": 2, "N": 128}, {"R": 3, "N": 600}, text=THROUGH, name="through"),
]


def turned(at: str, var: str, last: int) -> Callable[[LoopTree], LoopTree]:
    """A loop's places the other way round."""
    return put(at, lambda node: (
        replace(node, body=map_expressions(node.body, lambda e: substitute(e, {var: integer(last) - Iter(var)}))),
    ))  # fmt: skip


L, T, C, PASS = "linear gpu", "through gpu", "linear cpu", "linear pass gpu"

ROWS = [
    Row("places of a thread turned", L, "its maps are put together from the last one on", turned("unrolled for e_5", "e_5", 1)),
    Row("places of a thread turned, the second time", L, "it goes along them backwards", turned("unrolled for e_10", "e_10", 1)),
    Row("threads turned", L, "the first thread has the last places of its chunk", everywhere("t_1 * 2", "126 - t_1 * 2")),
    Row("threads far apart", L, "a thread's places are half a chunk apart", everywhere("e_5 + ib * 128 + t_1 * 2", "e_5 * 64 + ib * 128 + t_1")),
    Row("chunks turned", L, "the middle block takes the last of 32 chunks first", everywhere("e_6 + q * 32 + t_2", "e_6 + q * 32 + 31 - t_2")),
    Row("32 chunks before what was before them", L, "the carry is what they make of nothing",
        before("fold linear s_carry[], s_total[]", "copy s_run_1[] = s_carry[]")),
    Row("chunk counted twice", L, "what chunks make goes into the carry twice", double("fold linear s_carry[], s_total[]")),
    Row("carry left out", L, "each 32 chunks start as the first do", drop("fold linear s_carry[], s_total[]")),
    Row("carry not in the starts", L, "what stands before a chunk is what 32 chunks have alone",
        neutral("copy s_run_1[] = s_carry[]")),
    Row("start of a chunk left out", L, "every chunk starts from nothing", neutral("copy s_run_2[] = s_start")),
    Row("start of the chunk before", L, "chunk off by one", rewrite("copy s_run_2[] = s_start", "ib_1", "ib_1 - 1")),
    Row("start after its own chunk", L, "the start holds the chunk itself", before("fold linear s_run_1[], s_part", "if e_7")),
    Row("scan left out", L, "a thread starts from its own map", drop("scan linear s_sum_3")),
    Row("scan twice", L, "maps of maps", double("scan linear s_sum_3")),
    Row("all for those before", L, "every thread starts from what the whole chunk has", combined("scan linear s_sum_3")),
    Row("carry scanned", L, "the carry has what stands before a thread, in each its own",
        put("combine linear s_total", lambda node: (Scan(node.op, node.buffer, node.over),))),
    Row("threads before left out", L, "every thread starts from the chunk's start", drop("fold linear s_run_2[], s_sum_3[]")),
    Row("threads before counted twice", L, "what threads before have is applied twice",
        double("fold linear s_run_2[], s_sum_3[]")),
    Row("threads before after the own", L, "a thread goes along before it has its start",
        before("fold linear s_run_2[], s_sum_3[]", "if aligned & (ib_1")),
    Row("partial result not combined", L, "the first thread's alone", drop("combine linear s_sum_1")),
    Row("partial result by all threads", L, "what is undefined is stored over it", unguard("if t_1 == 0")),
    Row("partial results read too early", L, "starts are made before the chunks have any", exchanged(0, 1)),
    Row("starts read too early", L, "running values come before their starts", exchanged(1, 2)),
    Row("partial results missing", L, "no chunk has any", without(0)),
    Row("places beyond the loop", L, "what registers held is applied", unguard("predicated if e_5")),
    Row("last place left out", L, "a thread has one place less", bounds("e_5", upper="1")),
    Row("map of the thread not cleared", L, "it starts from what the register held", drop("copy s_sum_3[] = 0")),
    Row("chunks behind the first 32 not asked", L, "one turn of the middle block", bounds("q", upper="1")),
    Row("parts share a map", C, "all parts of a chunk go into the first one's",
        all_of(rewrite("S1[ib * 8", "s_part[p_2]", "s_part[0]"))),
    Row("parts exchanged", C, "each has the map of the other", rewrite("S1[ib * 8", "s_part[p_2]", "s_part[1 - p_2]")),
    Row("places of a part turned", C, "its map is put together from the last one on", turned("serial for j in", "j", 3)),
    Row("map of a part not cleared", C, "it starts from what the chunk before left", drop("copy s_part[p] = 0")),
    Row("map of a part alone not cleared", C, "it starts from what the part before left", drop("copy s_part_1[] = 0")),
    Row("part counted twice", C, "its map is applied twice", double("fold linear s_carry[], s_partial")),
    Row("part after its own start", C, "the start holds the part itself", before("fold linear s_carry[], s_partial", "copy s_start[p_4]")),
    Row("rounds turned", C, "the last round before comes first",
        put("serial for q in", lambda node: (
            replace(node, body=map_expressions(node.body, lambda e: substitute(e, {"q": Iter("round") - 1 - Iter("q")}))),
        ))),
    Row("round with what is before it", C, "the round's map starts from the carry's", drop("copy s_sum[] = 0")),
    Row("parts of a chunk share a run", C, "all go on from the first one's value",
        all_of(rewrite("S1[ib_1 * 8", "s_run[p_6]", "s_run[0]"))),
    Row("start of a part left out", C, "it starts from nothing", neutral("copy s_run[p_5]")),
    Row("first value left out", T, "every row starts from nothing", neutral("copy y_carry[] = y[r_4, 0]")),
    Row("first value of another row", T, "each starts as row 0", rewrite("copy y_carry[] = y[r_4, 0]", "r_4", "0")),
    Row("first value before it is there", T, "the other threads do not wait for it", drop("barrier block", nth=5)),
    Row("result one place on", T, "each place has what the one before it should", before(": y_run_4[] =", ": y_row_2[e_26]")),
    Row("blocks turned", PASS, "the last chunk is taken first", everywhere("ib * 1024", "((N + 1023) // 1024 - 1 - ib) * 1024")),
    Row("threads of a block turned", PASS, "the first thread has the last places of a part", everywhere("t_1 * 2", "510 - t_1 * 2")),
    Row("parts of a chunk turned", PASS, "the last part is taken first", everywhere("k_2 * 512", "512 - k_2 * 512")),
    Row("scan over blocks left out", PASS, "a thread starts from its own map", drop("scan linear s_sum_1")),
    Row("scan over blocks twice", PASS, "maps of maps", double("scan linear s_sum_1")),
    Row("parts after threads", PASS, "a thread's parts are taken to be neighbours",
        put("scan linear s_sum_1", lambda node: (replace(node, over=(node.over[0], node.over[2], node.over[1])),))),
    Row("before the part left out", PASS, "every part of whole chunks starts from s", drop("fold linear s_run_1[], s_sum_1[k_3]")),
    Row("before the part twice", PASS, "what stands before a part is applied twice", double("fold linear s_run_1[], s_sum_1[k_3]")),
    Row("part not begun anew", PASS, "each part goes on from the one before", drop("copy s_run_1[] = s_start[]")),
    Row("start of all left out", PASS, "s is not in the running values", neutral("copy s_start[] = s[0]")),
    Row("map of a part not cleared", PASS, "it starts from what the register held", drop("copy s_sum_1[k_2] = 0")),
]  # fmt: skip
