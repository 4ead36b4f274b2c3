"""Rows of the mutation table on running values: partial results of chunks, what stands before each, and the second
time along. Chunks are small here, so that they can be interpreted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from typing import Any
from unittest.mock import patch

from loopfuse.base.dtypes import DType
from loopfuse.lang.nodes import Const, Load, integer
from loopfuse.plan.strategies.scan import cpu, gpu, prefix, strategy, tile
from loopfuse.tree import chains
from loopfuse.tree.looptree import Combine, Copy, HostLoop, HostNode, Launch, LoopTree, Scan
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
from tests.plan.mutate_table import Base, Made, Row, planned

RUNNING = """
kernel f(x: i64[N], inout s: i64[1], out y: i64[N], out z: i64[N]):
    for i in 0..N:
        z[i] = s[0]
        s[0] += x[i]
        y[i] = s[0] * 2
"""
SMALL: tuple[tuple[Any, str, Any], ...] = (
    (strategy, "SHORT", {"cpu": 4, "gpu": 4}), (strategy, "SHORT_ROW", 4), (strategy, "ROW_BLOCKS", (32,)),
    (cpu, "PART", 4), (cpu, "CHAINS", 2), (cpu, "CHUNK", 8), (cpu, "LANES", 2), (cpu, "ROUND", 16), (prefix, "NEIGHBOURS", 2),
    (tile, "THREADS", 64), (tile, "EACH", 2), (tile, "PASS_THREADS", 32), (gpu, "PASS_THREADS", 32), (tile, "PARTS", 2), (chains, "CHAIN", 4),
    (gpu, "MIDDLE_THREADS", 32), (gpu, "MIDDLE_EACH", 1),
)  # fmt: skip
"""Two warps of threads that have two places each, 32 chunks at a time; or a warp that has two of two parts, and four blocks that look
at each other."""


def small(
    target: str,
    *sizes: dict[str, int],
    text: str = RUNNING,
    name: str = "running",
    more: tuple[tuple[Any, str, Any], ...] = (),
) -> Base:
    """The planner's tree with small chunks, and with `more` constants changed."""
    base = planned(name, target, *sizes, text=text)

    def make() -> Made:
        with ExitStack() as stack:
            for room, what, value in (*SMALL, *more):
                stack.enter_context(patch.object(room, what, value))
            return base.make()

    return replace(base, make=cache(make))


ODD = """
kernel f(x: i64[R, N], out y: i64[R, N]):
    for r in 0..R:
        var s: i64 = 0
        for i in 0..N:
            s += x[r, i]
            y[r, i] = s
"""
THREE = (gpu, "is_one_pass", lambda body, group: False)  # pyright: ignore[reportUnknownLambdaType]
"""Three launches, as inside a loop of the host."""
PLAIN = (THREE, (tile, "PASS_THREADS", 512))
"""And no element goes by way of shared memory."""
WIDE = ((tile, "PASS_THREADS", chains.CHAIN), (gpu, "PASS_THREADS", chains.CHAIN), (chains, "CHAIN", chains.CHAIN))
"""Blocks as wide as they have to be, one after the other."""
BASES = [
    small("sm_90", {"R": 2, "N": 131}, {"R": 3, "N": 257}, text=ODD, name="odd", more=(THREE, (tile, "PASS_THREADS", 64))),
    small("sm_90", {"N": 3}, {"N": 128}, {"N": 600}, {"N": 4200}, more=PLAIN),
    small("sm_90", {"N": 3}, {"N": 2047}, {"N": 2600}, name="pass", more=WIDE),
    small("cpu", {"N": 3}, {"N": 16}, {"N": 61}, text=RUNNING.replace("i64", "f64")),
    small("cpu", {"N": 3}, {"N": 16}, {"N": 61}, text=RUNNING, name="whole"),
]


S, CARRY = Load("s", (integer(0),), DType.F64), Load("s_carry", (), DType.F64)


def neutral(at: str, value: int = 0, nth: int = 0) -> Callable[[LoopTree], LoopTree]:
    """A Copy brings the neutral element instead."""

    def make(node: Copy) -> tuple[Copy]:
        dtype = node.target.dtype
        return (Copy(node.target, Const(float(value) if dtype.is_float else value, dtype)),)

    return put(at, make, nth)


def combined(at: str) -> Callable[[LoopTree], LoopTree]:
    """All threads have all that was to be scanned."""
    return put(at, lambda node: (Combine(node.op, node.buffer, node.over, everywhere=True),))


def other(at: str) -> Callable[[LoopTree], LoopTree]:
    """The collective is by another operation."""
    return put(at, lambda node: (replace(node, op="max"),))


def swept(change: Callable[[list[HostNode]], list[HostNode]]) -> Callable[[LoopTree], LoopTree]:
    """The three launches, changed."""

    def host(nodes: tuple[HostNode, ...]) -> tuple[HostNode, ...]:
        if len(nodes) == 3 and all(isinstance(each, Launch) for each in nodes):
            return tuple(change(list(nodes)))
        return tuple(replace(each, body=host(each.body)) if isinstance(each, HostLoop) else each for each in nodes)

    return lambda tree: replace(tree, body=host(tree.body))


def exchanged(one: int, two: int) -> Callable[[LoopTree], LoopTree]:
    """Two launches in the other order."""

    def change(nodes: list[HostNode]) -> list[HostNode]:
        nodes[one], nodes[two] = nodes[two], nodes[one]
        return nodes

    return swept(change)


def without(number: int) -> Callable[[LoopTree], LoopTree]:
    """A launch is missing."""
    return swept(lambda nodes: [each for k, each in enumerate(nodes) if k != number])


GPU, CPU, WHOLE, STAGED, PASS = "running gpu", "running cpu", "whole cpu", "odd gpu", "pass gpu"
BEHIND_LOADS = 6
"""Which barrier of that tree stands between loading and reading, in its last launch."""

ROWS = [
    Row("chunk counted twice", GPU, "what chunks add goes into the carry twice", double("fold sum s_carry[], s_total[]")),
    Row("carry left out", GPU, "each 32 chunks start as the first do", drop("fold sum s_carry[], s_total[]")),
    Row("carry not in the starts", GPU, "what stands before a chunk is what 32 chunks have alone",
        neutral("copy s_run_1[] = s_carry[]")),
    Row("what the loop starts from counted by all", GPU, "each thread's sum starts from s",
        rewrite("copy s_sum_3[] = 0", "0", "s[0]")),
    Row("start of a chunk left out", GPU, "every chunk starts from nothing", neutral("copy s_run_2[] = s_start")),
    Row("start of the chunk before", GPU, "chunk off by one",
        rewrite("copy s_run_2[] = s_start", "ib_1", "ib_1 - 1")),
    Row("start after its own chunk", GPU, "the start holds the chunk itself: inclusive for exclusive",
        before("fold sum s_run_1[], s_part", "if e_7")),
    Row("scan left out", GPU, "a thread starts from its own sum", drop("scan sum s_sum_3")),
    Row("scan twice", GPU, "sums of sums", double("scan sum s_sum_3")),
    Row("scan by another operation", GPU, "the greatest before, not the sum", other("scan sum s_sum_3")),
    Row("all for those before", GPU, "every thread starts from what the whole chunk has", combined("scan sum s_sum_3")),
    Row("scan of the chunks left out", GPU, "a thread's chunks start from their own sum", drop("scan sum s_sum_2")),
    Row("carry scanned", GPU, "the carry has what stands before a thread, in each its own",
        put("combine sum s_total", lambda node: (Scan(node.op, node.buffer, node.over),))),
    Row("threads before left out", GPU, "every thread starts from the chunk's start", drop("fold sum s_run_2[], s_sum_3[]")),
    Row("threads before counted twice", GPU, "what threads before have is added twice",
        double("fold sum s_run_2[], s_sum_3[]")),
    Row("exclusive for inclusive", GPU, "y is stored before its own element is added",
        before("S3[e_10", "S2[e_10")),
    Row("inclusive for exclusive", GPU, "z is stored after its own element is added",
        before("S2[e_10", "S1[e_10")),
    Row("partial result before it is combined", GPU, "the first thread's alone", before("if t_1 == 0", "combine sum s_sum_1")),
    Row("partial result not combined", GPU, "the first thread's alone, at last", drop("combine sum s_sum_1")),
    Row("partial result by all threads", GPU, "what is undefined is stored over it", unguard("if t_1 == 0")),
    Row("partial result of the next chunk", GPU, "stored one too far",
        rewrite("copy s_partial[ib]", "ib", "ib + 1")),
    Row("partial results read too early", GPU, "starts are made before the chunks have added", exchanged(0, 1)),
    Row("starts read too early", GPU, "running values come before their starts", exchanged(1, 2)),
    Row("partial results missing", GPU, "no chunk adds", without(0)),
    Row("starts missing", GPU, "nothing says what stands before", without(1)),
    Row("total before all have begun", GPU, "s is stored while other threads still read it", drop("barrier block"),
        harmless="the scan waits too, which the checker does not count on"),
    Row("total after the last sweep begins anew", GPU, "s is stored before the starts are read from it",
        before("if t_2 == 0", "copy s_carry[] = s[0]")),
    Row("total of one thread", GPU, "the first thread's running value is no total",
        rewrite("if t == 63", "63", "0")),
    Row("places beyond the loop added", GPU, "what registers held is added", unguard("predicated if e_5")),
    Row("last place left out", GPU, "a thread adds one place less", bounds("e_5", upper="1")),
    Row("chunks overlap", GPU, "chunks of 128 begin 127 apart", everywhere("ib * 128", "ib * 127")),
    Row("one chunk too few", GPU, "the last chunk is left out", bounds("ib_1", upper="N // 128")),
    Row("chunks behind the first 32 not asked", GPU, "one turn of the middle block", bounds("q", upper="1")),
    Row("sum of the thread not cleared", GPU, "it starts from what the register held", drop("copy s_sum_3[] = 0")),
    Row("part of a chunk that is not there", GPU, "what the register held before is added", drop("copy s_part[e_6] = 0")),
    Row("running value of another thread's places", GPU, "a place is added twice, the next one never",
        rewrite("S2[e_10", "x_row_2[e_10]", "x_row_2[0]")),
    Row("row of another thread's stage", STAGED, "a thread takes what its neighbour has",
        rewrite("copy x_row_3[e_20] = stage_2", "t_4", "63 - t_4")),
    Row("stage read before all have loaded", STAGED, "other threads' elements may not be there", drop("barrier block", nth=BEHIND_LOADS)),
    Row("stage stored before all have put theirs", STAGED, "what was loaded is stored", drop("barrier block", nth=BEHIND_LOADS + 2)),
    Row("stage off by one", STAGED, "each element goes one place on",
        rewrite("copy stage_2[e_19 * 32", "t_4 % 2", "1 - t_4 % 2")),
    Row("stage off by a half", STAGED, "the second half of a chunk goes where the first does",
        rewrite("copy stage_2[e_19 * 32", "e_19 * 32", "e_19")),
    Row("elements beyond a row staged", STAGED, "the next row's are stored over", unguard("if e_24 * 64")),
    Row("blocks before left out", PASS, "each block starts from nothing",
        put("scan sum s_sum_1", lambda node: (Scan(node.op, node.buffer, node.over[1:], "", node.index),))),
    Row("scan over blocks left out", PASS, "a thread starts from what it adds itself",
        put("scan sum s_sum_1", lambda node: (Copy(Load(node.buffer, node.index, DType.I64), Load(node.buffer, node.index, DType.I64)),))),
    Row("scan over blocks twice", PASS, "sums of sums", double("scan sum s_sum_1")),
    Row("scan over blocks by another operation", PASS, "the greatest before, not the sum", other("scan sum s_sum_1")),
    Row("parts after threads", PASS, "a thread's parts are taken to be neighbours",
        put("scan sum s_sum_1", lambda node: (replace(node, over=(node.over[0], node.over[2], node.over[1])),))),
    Row("parts in another place", PASS, "a part starts from what stands before another",
        all_of(rewrite("fold sum s_run_1[], s_sum_1[k_3]", "k_3", "1 - k_3"),
               rewrite("fold sum s_run_1[], s_sum_1[k_3]", "k_3", "1 - k_3"))),
    Row("before the part left out", PASS, "every part of whole chunks starts from s", drop("fold sum s_run_1[], s_sum_1[k_3]")),
    Row("before the part left out at the end", PASS, "every part of the last chunk starts from s",
        drop("fold sum s_run_1[], s_sum_1[k_3]", nth=1)),
    Row("before the part twice", PASS, "what stands before a part is added twice", double("fold sum s_run_1[], s_sum_1[k_3]")),
    Row("part not begun anew", PASS, "each part goes on from the one before", drop("copy s_run_1[] = s_start[]")),
    Row("start of all left out", PASS, "s is not in the running values", neutral("copy s_start[] = s[0]")),
    Row("start of all in each thread's sum", PASS, "s is added by every part", rewrite("copy s_sum_1[k_2] = 0", "0", "s[0]")),
    Row("sum of a part not cleared", PASS, "it starts from what the register held", drop("copy s_sum_1[k_2] = 0")),
    Row("sum of a part in another", PASS, "all parts go into the first one's sum",
        rewrite("S2[e_7", "s_sum_1[k_2]", "s_sum_1[0]")),
    Row("scanned before it is added up", PASS, "parts hand on what they do not have yet", before("unrolled for k in", "if ib * 1024 + 1023 < N")),
    Row("chunk that lacks a place is whole", PASS, "places beyond the loop are stored", everywhere("ib * 1024 + 1023", "ib * 1024 + 1022")),
    Row("chunks of one part overlap", PASS, "chunks of 1024 begin 1023 apart", everywhere("ib * 1024", "ib * 1023")),
    Row("a chunk too few", PASS, "the last chunk is left out", bounds("ib", upper="N // 1024")),
    Row("places beyond the loop in a part", PASS, "what registers held is added", unguard("predicated if e_7")),
    Row("total of the first block", PASS, "s is what the first chunk leaves", rewrite("if (ib ==", "(N + 1023) // 1024 - 1", "0")),
    Row("total of the first thread", PASS, "s lacks what others add", rewrite("if (ib ==", "255", "0")),
    Row("total of every block", PASS, "blocks store theirs over it",
        put("if (ib ==", lambda node: (replace(node, condition=node.condition.right),)),
        harmless="a block ends behind those before it where they take turns"),
    Row("total not put", PASS, "s is what it was", put("copy s[0] = s_total", lambda node: ())),
    Row("total put while others start", PASS, "blocks behind start from it",
        put("copy s_total[]", lambda node: (node, Copy(Load("s", (integer(0),), DType.I64), node.value))),
        harmless="all have started where they take turns"),
    Row("total of what was", PASS, "s is put before it is known",
        put("copy s[0] = s_total", lambda node: (replace(node, value=Load("s", (integer(0),), DType.I64)),))),
    Row("sum of lanes left out", CPU, "one lane is all", drop("fold sum s_lane[0], s_lane[l_11]")),
    Row("sum of lanes twice", CPU, "a lane is added twice", double("fold sum s_lane[0], s_lane[l_11]")),
    Row("rest of a part twice", CPU, "it begins one earlier",
        put("serial for i_1 in", lambda node: (replace(node, lower=node.lower - 1),))),
    Row("totals before left out", CPU, "each round starts as the first", drop("fold sum s_carry[], s_total[q]")),
    Row("totals of this round too", CPU, "one round too many is added", bounds("q", upper="round + 1")),
    Row("total twice", CPU, "a part goes into its round twice", double("fold sum s_sum[], s_partial[p_1]")),
    Row("total not cleared", CPU, "a round holds those before it", all_of(drop("copy s_sum[] = 0"))),
    Row("total with the carry", CPU, "the round's total holds all before it",
        put("copy s_total[round]", lambda node: (Copy(node.target, CARRY),))),
    Row("start behind its part", CPU, "inclusive for exclusive", before("fold sum s_carry[], s_partial", "copy s_start[p_1]")),
    Row("part off by one", CPU, "runs start one part on", rewrite("copy s_run_3[] = s_start[p_2]", "p_2", "p_2 + 1")),
    Row("run of a part left out", CPU, "it starts from nothing", neutral("copy s_run_3[] = s_start")),
    Row("neighbours before left out", CPU, "a lane has its own element alone", drop("fold sum s_near_1[l_15")),
    Row("neighbours before counted twice", CPU, "what lanes before have is added twice", double("fold sum s_near_1[l_15")),
    Row("own element counted twice", CPU, "a lane adds what it has itself",
        rewrite("copy s_before_1[l_14]", "l_14 + 1", "l_14 + 2")),
    Row("neighbours before too far away", CPU, "a lane adds what is neutral",
        rewrite("copy s_before_1[l_14]", "l_14 + 1", "l_14")),
    Row("lanes not cleared", CPU, "what the turn before left is added", drop("copy s_near_1[l_12] = 0")),
    Row("start of lanes left out", CPU, "each turn starts from nothing", neutral("copy s_run_5[l_18] = s_run_3")),
    Row("inclusive for exclusive, in lanes", CPU, "z has its own element", rewrite("fold sum s_run_4[l_17]", "l_17 + 1", "l_17 + 2")),
    Row("exclusive for inclusive, in lanes", CPU, "y lacks its own element", rewrite("fold sum s_run_5[l_19]", "l_19 + 2", "l_19 + 1")),
    Row("total of one lane less", CPU, "the next turn lacks the last lane", rewrite("fold sum s_run_3[], s_near_1[3]", "3", "2")),
    Row("total of lanes left out", CPU, "each turn starts as the first", drop("fold sum s_run_3[], s_near_1[3]")),
    Row("total of lanes too early", CPU, "a turn starts from what it has itself",
        before("fold sum s_run_3[], s_near_1[3]", "vector for l_16")),
    Row("turns overlap", CPU, "each begins at the last lane of the one before", everywhere("k_2 * 2", "k_2")),
    Row("rest of lanes twice", CPU, "it begins one earlier",
        put("serial for i_2 in", lambda node: (replace(node, lower=node.lower - 1),))),
    Row("sweeps in the other order", CPU, "running values before their starts", exchanged(1, 2)),
    Row("first sweep missing", CPU, "no part adds", without(0)),
    Row("second sweep of the first round alone", CPU, "chunks of later rounds stay",
        put("thread for ib_1", lambda node: (replace(node, upper=node.lower + 1),))),
    Row("totals left out in the end", CPU, "s is what it was", drop("fold sum s_carry_1[], s_total[q_1]")),
    Row("last total left out in the end", CPU, "s lacks the last round", bounds("q_1", upper="(N + 15) // 16 - 1")),
    Row("part off by one", WHOLE, "parts start one on", rewrite("copy s_run[] = s_start[p_2]", "p_2", "p_2 + 1")),
    Row("part one place short", WHOLE, "the last place of each part keeps what was there", bounds("i_2", upper="3")),
    Row("part of the chunk before", WHOLE, "its places are another's",
        put("serial for p_2", lambda node: (replace(node, lower=node.lower - 1, upper=node.upper - 1),))),
    Row("s stored in every round", CPU, "the next round starts from it, and adds the rounds before again",
        put("copy s_total[round] =", lambda node: (node, Copy(S, CARRY)))),
]  # fmt: skip
