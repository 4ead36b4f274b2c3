"""Strategy `rows`: which loops it takes, what its trees hold, and what the checker thinks of trees that are
wrong in one place."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU, Options, Target, parse_target
from loopfuse.lang.nodes import Compare, Const, Expr, Iter, Load, combine, integer
from loopfuse.lang.walk import iterators, loads, map_expr, substitute
from loopfuse.proof.check import Verdict, verify
from loopfuse.tree.looptree import (
    Combine,
    Compute,
    Copy,
    Fold,
    Guard,
    Launch,
    Loop,
    LoopTree,
    Register,
    TreeNode,
)
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.rewrite.specialise import erase
from loopfuse.tree.walk import map_expressions, map_nodes, split_chain, walk_nodes

GPU = Target("sm_90")
HEAD = "kernel f(x: f32[R, C], w: f32[C], idx: i32[R], inout s: f32[R], out y: f32[R, C]):\n"

SOFTMAX = """
    for r in 0..R:
        let m = max(c in 0..C: x[r, c])
        let z = sum(c in 0..C: exp(x[r, c] - m))
        for c in 0..C:
            y[r, c] = exp(x[r, c] - m) / z
"""
TAKEN = {
    "softmax": SOFTMAX,
    "one reduction": """
    for r in 0..R:
        s[r] = sum(c in 0..C: x[r, c] * w[c])
    for r in 0..R, c in 0..C:
        y[r, c] = w[c]
""",
    "a value in memory": """
    for r in 0..R:
        s[r] = 1.0
        for c in 0..C:
            s[r] += x[r, c]
        for c in 0..C:
            y[r, c] = x[r, c] / s[r]
""",
    "a place that data says": """
    for r in 0..R:
        let m = max(c in 0..C: x[r, c])
        s[r] = m - x[r, max(min(idx[r], C - 1), 0)]
        for c in 0..C:
            y[r, c] = w[c]
""",
    "two passes through memory": """
    for r in 0..R:
        for c in 0..C:
            y[r, c] = x[r, c] * w[c]
        let m = max(c in 0..C: y[r, c])
        s[r] = m
""",
    "neighbours where there are any": """
    for r in 0..R:
        var m: f32 = 0.0
        for c in 0..C:
            if c > 0:
                m += x[r, c - 1]
        s[r] = m
        for c in 0..C:
            y[r, c] = (x[r, c - 1] if c > 0 else 0.0) - m
""",
    "the row before": """
    for r in 0..R:
        var m: f32 = 0.0
        for c in 0..C:
            if r > 0:
                m += x[r - 1, c]
        s[r] = m
        for c in 0..C:
            y[r, c] = x[r, c] - m
""",
    "part of a row": """
    for r in 0..R:
        var m: f32 = 0.0
        for c in 1..C-1:
            if c > r:
                m += x[r, c] * x[r, c + 1]
        s[r] = m
        for c in 1..C-1:
            y[r, c] = m
""",
}
OTHERS = {
    "columns of rows": """
    for r in 0..R:
        s[r] = sum(c in 0..C: x[c % R, r % C])
""",
    "every other": """
    for r in 0..R:
        s[r] = sum(c in 0..C // 2: x[r, 2 * c])
""",
    "a recurrence": """
    for r in 0..R:
        var h: f32 = 0.0
        for c in 0..C:
            h = 0.5 * h + x[r, c]
            y[r, c] = h
""",
    "neighbours that it writes": """
    for r in 0..R:
        for c in 0..C:
            y[r, c] = x[r, c]
        s[r] = sum(c in 0..C - 1: y[r, c + 1])
""",
    "a value that comes in": """
    for r in 0..R:
        for c in 0..C:
            s[r] += x[r, c]
""",
    "two sums in one": """
    for r in 0..R:
        var m: f32 = 0.0
        for c in 0..C:
            m += x[r, c]
        for c in 0..C:
            m += w[c]
        s[r] = m
""",
    "the last one": """
    for r in 0..R:
        for c in 0..C:
            s[r] = x[r, c]
""",
    "few places": """
    for r in 0..R:
        s[r] = x[r, 0] + w[0]
        for c in 0..20:
            y[r, c] = x[r, c] * s[r]
""",
    "a product": """
    for r in 0..R, k in 0..R:
        y[r, k] = sum(c in 0..C: x[r, c] * x[k, c])
""",
}


ACROSS = {
    "column sums": """
    for c in 0..C:
        y[0, c] = sum(r in 0..R: x[r, c])
""",
    "column softmax": """
    for c in 0..C:
        let m = max(r in 0..R: x[r, c])
        let z = sum(r in 0..R: exp(x[r, c] - m))
        for r in 0..R:
            y[r, c] = exp(x[r, c] - m) / z
""",
    "weighted": """
    for c in 0..C:
        y[0, c] = w[c] * sum(r in 0..R: x[r, c] * s[r])
""",
}
"""Columns, which neighbouring threads have on a GPU."""

INNER = "kernel f(x: f32[N, D, P], w: f32[D], v: f32[N, P], out s: f32[N], out y: f32[N, D, P]):\n"
NESTS = {
    "group norm": """
    for n in 0..N:
        let m = sum(d in 0..D, p in 0..P: x[n, d, p])
        let q = sum(d in 0..D, p in 0..P: (x[n, d, p] - m) ** 2)
        for d in 0..D, p in 0..P:
            y[n, d, p] = (x[n, d, p] - m) * q * w[d]
""",
    "two sums in one loop": """
    for n in 0..N:
        let m = sum(d in 0..D, p in 0..P: x[n, d, p])
        let q = max(d in 0..D, p in 0..P: x[n, d, p])
        s[n] = m - q
    for n in 0..N, d in 0..D, p in 0..P:
        y[n, d, p] = w[d]
""",
    "part of them": """
    for n in 0..N:
        var m: f32 = 1.0
        for d in 1..D-1, p in 2..P:
            if p > d:
                m += x[n, d, p]
        s[n] = m
        for d in 1..D-1, p in 2..P:
            y[n, d, p] = x[n, d, p] * m
""",
}
NOT_NESTS = {
    "windows that overlap": """
    for n in 0..N - 4:
        s[n] = sum(d in 0..4, p in 0..P: x[n + d, 0, p])
""",
    "in another order": """
    for n in 0..N:
        for d in 0..D, p in 0..P:
            y[n, d, p] = x[n, d, p]
        s[n] = sum(p in 0..P, d in 0..D: y[n, d, p])
""",
    "another triangle": """
    for n in 0..N:
        s[n] = sum(d in 0..D, p in 0..d: x[n, d, p])
""",
    "handed along": """
    for n in 0..N:
        for d in 1..D, p in 0..P:
            y[n, d, p] = y[n, d - 1, p] + x[n, d, p]
""",
}


@functools.cache
def of_nests(text: str, target: Target, **options: Any) -> pipeline.Planned:
    program = pipeline.read_program(Source("f.lf", INNER + text))
    return pipeline.plan_kernel(program, "f", Options(target=target, **options))


@functools.cache
def plan(text: str, target: Target = GPU, **options: Any) -> pipeline.Planned:
    program = pipeline.read_program(Source("f.lf", HEAD + text))
    return pipeline.plan_kernel(program, "f", Options(target=target, **options))


def strategies(planned: pipeline.Planned) -> set[str]:
    return {launch.strategy for launch in planned.tree.launches}


@pytest.mark.parametrize("name", TAKEN)
def test_taken(name: str) -> None:
    found = plan(TAKEN[name])
    assert found.verdict.answer == "proved" and "rows" in strategies(found)


IN_BLOCKS = {"column sums", "weighted"}
"""Columns that a CPU adds up in blocks of rows: other ones go along a column several times, or have registers."""


@pytest.mark.parametrize("name", ACROSS)
def test_columns_are_taken_on_a_gpu(name: str) -> None:
    found = plan(ACROSS[name])
    assert found.verdict.answer == "proved" and "rows" in strategies(found)
    assert any("for 32 columns" in kernel.detail for kernel in found.report.kernels)
    assert ("rows" in strategies(plan(ACROSS[name], CPU))) == (name in IN_BLOCKS)


@pytest.mark.parametrize("target", [GPU, Target("sm_80"), CPU], ids=lambda target: target.name)
@pytest.mark.parametrize("name", NESTS)
def test_nests_are_taken(name: str, target: Target) -> None:
    found = of_nests(NESTS[name], target)
    guarded_on_a_cpu = name == "part of them" and target == CPU
    assert found.verdict.answer == "proved" and ("rows" in strategies(found)) != guarded_on_a_cpu


@pytest.mark.parametrize("name", NOT_NESTS)
@pytest.mark.filterwarnings("ignore:warning.never-used")
def test_other_nests_are_not(name: str) -> None:
    for target in (GPU, CPU):
        found = of_nests(NOT_NESTS[name], target)
        assert found.verdict.answer == "proved" and not found.used and "rows" not in strategies(found)


def test_loops_of_one_phase_are_one_pass() -> None:
    """What two sums read is loaded once, though nothing is held."""
    found = of_nests(NESTS["two sums in one loop"], GPU)
    launch = next(one for one in found.tree.launches if one.name.endswith("_0_long"))
    asked = [node for node in walk_nodes(launch.body) if isinstance(node, Copy) and isinstance(node.value, Load)]
    assert [node.value.array for node in asked] == ["x", "x"]  # type: ignore[union-attr]  # whole chunks, and the last
    assert sum(isinstance(node, Combine) for node in walk_nodes(launch.body)) == 2


def test_launches_say_for_which_columns_and_points_they_are() -> None:
    said = [launch.specialised for launch in plan(ACROSS["column softmax"]).tree.launches]
    assert said == [
        ("columns of up to 24 places",), ("columns of 25 to 256 places",), ("columns of 257 to 1024 places",),
        ("columns of 1025 to 2048 places",), ("columns of 2049 to 4096 places",), ("columns of 4097 to 8192 places",),
        ("columns of more than 8192 places", "up to 2048 of them"), ("columns of more than 8192 places", "more than 2048 of them"),
    ]  # fmt: skip
    said = [(launch.name.removeprefix("f_0_"), *launch.specialised) for launch in plan(ACROSS["column sums"], Target("sm_80")).tree.launches]
    assert said == [
        ("thread", "columns of up to 24 places"), ("few", "columns of 25 to 256 places"),
        *((name, "columns of more than 256 places", "up to 2048 of them") for name in ("shares", "together")),
        ("block", "columns of more than 256 places", "more than 2048 of them"),
    ]  # fmt: skip
    said = [launch.specialised for launch in of_nests(NESTS["group norm"], GPU).tree.launches]
    assert said[0] == ("rows of up to 32 places", "up to 2 of them")
    assert said[-1] == ("rows of more than 512 places", "more than 30 of them")


IN_LANES = {"softmax", "one reduction", "a value in memory", "a place that data says", "two passes through memory"}
"""What a CPU reduces in lanes: the rest has no reduction left to it, or guards inside one."""


@pytest.mark.parametrize("name", TAKEN)
def test_taken_on_a_cpu(name: str) -> None:
    found = plan(TAKEN[name], CPU)
    assert found.verdict.answer == "proved"
    assert ("rows" in strategies(found)) == (name in IN_LANES)
    if name in IN_LANES:
        assert any("reduced in lanes" in kernel.detail for kernel in found.report.kernels)


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.filterwarnings("ignore")
def test_others(name: str) -> None:
    for target in (GPU, CPU):
        # One worker has the row: it adds to what it found.
        assert ("rows" in strategies(plan(OTHERS[name], target))) == (target == CPU and name == "a value that comes in")


def test_the_order_of_sums_may_be_kept() -> None:
    for target in (GPU, CPU):
        assert "rows" not in strategies(plan(SOFTMAX, target, reassociate=False))
    assert "rows" in strategies(plan(TAKEN["two passes through memory"], reassociate=False))


@pytest.mark.parametrize("target", [GPU, CPU], ids=lambda target: target.name)
def test_reports_say_that_sums_are_in_another_order(target: Target) -> None:
    """A maximum is the same in any order."""
    assert plan(SOFTMAX, target).report.reassociated == ("z",)
    assert plan(SOFTMAX, target, reassociate=False).report.reassociated == ()


SHORT_ROWS = """
kernel f(x: f32[R, C], out y: f32[R], n: i64):
    assume n <= C
    for r in 0..R:
        var s: f32 = 1.0
        for c in 2..C-2:
            s += x[r, c]
        var t: f32 = s
        for c in 0..n:
            t += 2.0 * x[r, c]
        y[r] = t
"""


@pytest.mark.parametrize("width, n", [(0, -20), (1, 0), (3, -33), (4, 4), (40, -1), (40, 33)])
def test_rows_may_have_fewer_places_than_none(width: int, n: int) -> None:
    kernel = loopfuse.loads(SHORT_ROWS)
    assert [each["strategy"] for each in kernel.compile("cpu").report["kernels"]] == ["rows"]
    x = np.random.default_rng(width).integers(-9, 9, (5, width)).astype(np.float32)
    wanted = 1 + x[:, 2 : max(2, width - 2)].sum(1) + 2 * x[:, : max(n, 0)].sum(1)
    assert np.array_equal(kernel(x, n=n), wanted.astype(np.float32))


def test_each_row_is_read_once() -> None:
    """What several passes read is loaded before them, whole chunks and the last; each launch says for which rows
    it is."""
    found = plan(SOFTMAX)
    for launch in found.tree.launches:
        if launch.strategy != "rows" or launch.name.endswith(("large", "long")):
            continue  # (they may read rows again)
        held = [node for node in walk_nodes(launch.body) if isinstance(node, Copy) and isinstance(node.value, Load)]
        ways = ["whole", "last"]
        if "cluster" in launch.name:
            ways = ["surely whole", *ways]
        assert [node.value.array for node in held] == ["x"] * len(ways)  # type: ignore[union-attr]
        computed = [node for node in walk_nodes(launch.body) if isinstance(node, Compute)]
        assert computed and not any(load.array == "x" for node in computed for load in loads(node.value))
    said = [launch.specialised for launch in found.tree.launches]
    assert said == [
        ("rows of up to 4 places",), ("rows of 5 to 16 places",), ("rows of 17 to 32 places",), ("rows of 33 to 64 places",),
        ("rows of 65 to 128 places",), ("rows of 129 to 256 places",), ("rows of 257 to 512 places",),
        ("rows of 513 to 1024 places",), ("rows of 1025 to 4096 places",), ("rows of 4097 to 8192 places",),
        ("rows of 8193 to 24576 places",),
        ("rows of 24577 to 32768 places",), ("rows of 32769 to 65536 places",), ("rows of 65537 to 131072 places",),
        ("rows of more than 131072 places",),
    ]  # fmt: skip
    assert found.report.launches_after == 1
    details = [kernel.detail for kernel in found.report.kernels]
    assert any("x held in registers" in detail for detail in details)
    assert [detail.split(",")[1] for detail in details[-4:]] == [
        f" a cluster of {blocks} blocks a row" for blocks in (2, 4, 8, 8)
    ]


def test_what_has_no_clusters_keeps_its_launches() -> None:
    """A GPU without them; rows that are read once, and of small elements from which nothing costly is computed twice; and sums in the same order on every GPU of an
    architecture."""
    names = [launch.name for launch in plan(SOFTMAX, Target("sm_80")).tree.launches]
    assert names[-3:] == ["f_0_block", "f_0_middle", "f_0_large"]
    once = plan("""
    for r in 0..R:
        s[r] = sum(c in 0..C: x[r, c])
""").tree
    assert not any(clusters(launch) for launch in once.launches)
    assert [launch.specialised for launch in once.launches if launch.name.endswith("large")] == [
        ("rows of more than 8192 places",)
    ]
    small = pipeline.read_program(Source("f.lf", HEAD.replace("x: f32", "x: f16") + SOFTMAX.replace("exp(x[r, c] - m)", "(x[r, c] - m)")))
    assert not any(clusters(launch) for launch in pipeline.plan_kernel(small, "f", Options(target=GPU)).tree.launches)
    trees = [plan(SOFTMAX, parse_target(name)).tree for name in ("sm_90", "h200")]
    assert trees[0] == trees[1]


def test_long_rows_of_small_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is computed from them is held, where it is needed again and costs something; where it does not, they are kept near, or read again."""
    monkeypatch.setattr(pipeline, "verify", lambda *_: Verdict("proved"))

    def said(text: str, machine: str = "sm_90") -> dict[str, str]:
        program = pipeline.read_program(Source("f.lf", HEAD.replace("x: f32", "x: bf16") + text))
        found = pipeline.plan_kernel(program, "f", Options(target=Target(machine)))
        return {launch.name.removeprefix("f_0_"): launch.specialised[0].removeprefix("rows of ") for launch in found.tree.launches}

    twice, once = SOFTMAX.replace("x[r, c]", "f32(x[r, c])"), SOFTMAX.replace("exp(x[r, c] - m)", "(f32(x[r, c]) - f32(m))")
    made = """
    temp v: f32[R, C]
    for r in 0..R:
        for c in 0..C:
            v[r, c] = f32(x[r, c]) + w[c]
        let z = sum(c in 0..C: v[r, c])
        for c in 0..C:
            y[r, c] = v[r, c] - z
"""
    assert [*said(twice).items()][-4:] == [
        ("full", "16385 to 32768 places"), ("cluster_8x256", "32769 to 65536 places"), ("cluster_8x512", "65537 to 131072 places"),
        ("long", "more than 131072 places"),
    ]  # fmt: skip
    assert [*said(made).items()][-2:] == [("cluster_8x1024", "131073 to 262144 places"), ("long", "more than 262144 places")]
    assert [*said(once).items()][-2:] == [("kept", "16385 to 57344 places"), ("long", "more than 57344 places")]
    assert [*said(twice, "sm_80").items()][-1] == ("large", "more than 8192 places")


def clusters(launch: Launch) -> list[Expr]:
    """How many blocks clusters have."""
    return [loop.upper for loop in split_chain(launch)[0] if loop.mapping is Where.CLUSTER]


def test_a_length_that_is_known_needs_one_launch() -> None:
    teams = (
        (30, "4 threads"), (100, "8 threads"), (300, "16 threads"), (900, "a warp"), (3000, "a block"), (16384, "a block"),
        (24576, "a block"), (24577, "a cluster of 2 blocks"), (50000, "a cluster of 4 blocks"),
        (100000, "a cluster of 8 blocks"), (200000, "a cluster of 8 blocks"),
    )  # fmt: skip
    for length, name in teams:
        text = SOFTMAX.replace("0..C", f"0..{length}")
        head = HEAD.replace("C]", f"{length}]")
        program = pipeline.read_program(Source("f.lf", head + text))
        found = pipeline.plan_kernel(program, "f", Options(target=GPU))
        assert [launch.strategy for launch in found.tree.launches] == ["rows"]
        assert f"{name} a row" in found.report.kernels[0].detail


# --------------------------------------------------------------------------------- mutants


def changed(tree: LoopTree, change: Any) -> LoopTree:
    """The tree with `change` made of its nodes: a node, or None to leave it, or () to drop it."""
    count = 0

    def one(node: TreeNode) -> tuple[TreeNode, ...]:
        nonlocal count
        found = change(node)
        if found is None:
            return (node,)
        count += 1
        return found if isinstance(found, tuple) else (found,)

    out = map_nodes(one, tree)
    assert count
    return out


def shifted(array: str, by: int) -> Any:
    """Accesses of held elements, one off."""

    def change(node: TreeNode) -> TreeNode | None:
        if isinstance(node, Copy) and isinstance(node.target, Load) and node.target.array.startswith(array):
            index = (combine("add", node.target.index[0], integer(by)),)
            return replace(node, target=replace(node.target, index=index))
        return None

    return change


def is_whole(node: TreeNode) -> bool:
    """Does it ask whether a chunk of the row is followed by another?"""
    return isinstance(node, Guard) and any(name.startswith("k") for name in iterators(node.condition))


def whole_too_early(node: TreeNode) -> TreeNode | None:
    """A chunk counts as whole that misses a place."""
    if is_whole(node) and isinstance(node, Guard) and isinstance(node.condition, Compare):
        less = combine("sub", node.condition.left, integer(2))
        return replace(node, condition=replace(node.condition, left=less))
    return None


def whole_untested(node: TreeNode) -> tuple[TreeNode, ...] | None:
    return node.then if is_whole(node) and isinstance(node, Guard) else None


def last_untested(node: TreeNode) -> tuple[TreeNode, ...] | None:
    """The last chunk runs all its places."""
    is_test = isinstance(node, Guard) and any(name.startswith("u") for name in iterators(node.condition))
    return node.then if is_test and isinstance(node, Guard) else None


def on_one_thread(node: TreeNode) -> TreeNode | None:
    return replace(node, everywhere=False) if isinstance(node, Combine) else None


def by_everyone(node: TreeNode) -> tuple[TreeNode, ...] | None:
    """A value of the row that all threads store: the same, but by several."""
    if isinstance(node, Guard) and isinstance(node.condition, Compare) and node.condition.op == "eq":
        return node.then
    return None


def wrong_start(node: TreeNode) -> TreeNode | None:
    if isinstance(node, Copy) and isinstance(node.value, Const):
        return replace(node, value=Const(1.0, node.value.dtype))
    return None


def from_another_place(node: TreeNode) -> TreeNode | None:
    """Elements that are held, of one place further."""
    if isinstance(node, Copy) and isinstance(node.value, Load) and node.target.array.startswith("x_row"):
        *outer, last = node.value.index
        return replace(node, value=replace(node.value, index=(*outer, combine("add", last, integer(1)))))
    return None


def other_lanes(node: TreeNode) -> tuple[TreeNode, ...] | None:
    """Computations by half of the lanes."""
    if isinstance(node, Loop) and node.mapping.value == "lane":
        test = Compare("lt", Iter(node.var), integer(16))
        return (replace(node, body=(Guard(test, node.body),)),)
    return None


def assert_rejected(found: pipeline.Planned, change: Any) -> None:
    """The checker notices what a change makes wrong."""
    verdict = verify(found.program, found.dependences, changed(found.tree, change))
    assert verdict.answer == "wrong", verdict


WARP = SOFTMAX.replace("0..C", "0..767")
MUTANTS = {
    "results in one thread": on_one_thread,
    "no combine": lambda node: () if isinstance(node, Combine) else None,
    "combined twice": lambda node: (node, node) if isinstance(node, Combine) else None,
    "another operation": lambda node: replace(node, op="prod") if isinstance(node, Combine) else None,
    "whole chunks too early": whole_too_early,
    "every chunk is whole": whole_untested,
    "no whole chunks": lambda node: () if is_whole(node) else None,
    "the last chunk is whole": last_untested,
    "from one": wrong_start,
    "the place after": from_another_place,
    "no elements": lambda node: () if isinstance(node, Copy) and node.target.array.startswith("x_row") else None,
    "another register": shifted("x_row", 1),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_wrong_trees_are_rejected(name: str) -> None:
    program = pipeline.read_program(Source("f.lf", HEAD.replace("C]", "767]") + WARP))
    found = pipeline.plan_kernel(program, "f", Options(target=GPU))
    assert verify(found.program, found.dependences, found.tree).answer == "proved"
    assert_rejected(found, MUTANTS[name])


def untested(name: str) -> Any:
    """What the teams without a row leave out, done by them too."""

    def change(node: TreeNode) -> tuple[TreeNode, ...] | None:
        is_test = isinstance(node, Guard) and any(each.startswith(name) for each in iterators(node.condition))
        return node.then if is_test and isinstance(node, Guard) else None

    return change


def over_all(node: TreeNode) -> TreeNode | None:
    """The results of all teams of a block put together."""
    return replace(node, over=("rw", *node.over)) if isinstance(node, Combine) else None


PART_MUTANTS = {
    "results in one thread": on_one_thread,
    "no combine": lambda node: () if isinstance(node, Combine) else None,
    "over all teams": over_all,
    "rows beyond the last": untested("rw"),
    "the last chunk is whole": last_untested,
    "every chunk is whole": whole_untested,
    "from one": wrong_start,
    "the place after": from_another_place,
    "another register": shifted("x_row", 1),
}


@pytest.mark.parametrize("name", PART_MUTANTS)
def test_wrong_parts_of_a_warp_are_rejected(name: str) -> None:
    text = HEAD.replace("C]", "90]") + SOFTMAX.replace("0..C", "0..90")
    found = pipeline.plan_kernel(pipeline.read_program(Source("f.lf", text)), "f", Options(target=GPU))
    assert "8 threads a row" in found.report.kernels[0].detail
    assert_rejected(found, PART_MUTANTS[name])


def longer(by: int, mapping: Where) -> Any:
    """Loops of accumulators over so many more."""

    def change(node: TreeNode) -> TreeNode | None:
        if isinstance(node, Loop) and node.mapping is mapping and isinstance(node.body[0], Compute | Fold | Loop):
            return replace(node, upper=combine("add", node.upper, integer(by)))
        return None

    return change


def of_rest(by: int) -> Any:
    """What is left over starts so many places later."""

    def change(node: TreeNode) -> TreeNode | None:
        plain = isinstance(node, Loop) and node.mapping is Where.SERIAL and isinstance(node.body[0], Compute)
        if plain and node.lower != integer(0):
            return replace(node, lower=combine("add", node.lower, integer(by)))
        return None

    return change


def is_fold(node: TreeNode) -> bool:
    return isinstance(node, Loop) and isinstance(node.body[0], Fold)


LANE_MUTANTS = {
    "lanes not put together": lambda node: () if is_fold(node) else None,
    "put together twice": lambda node: (node, node) if is_fold(node) else None,
    "lanes put together with themselves": lambda node: (
        replace(node, body=(replace(node.body[0], value=node.body[0].target),)) if is_fold(node) else None
    ),
    "one lane too few": lambda node: replace(node, upper=integer(15)) if is_fold(node) else None,
    "another operation": lambda node: replace(node, op="prod") if isinstance(node, Fold) else None,
    "one place left out": of_rest(1),
    "one place twice": of_rest(-1),
    "a round too many": longer(1, Where.SERIAL),
    "from one": wrong_start,
    "in one lane": shifted("z_lane", 1),
}


@pytest.mark.parametrize("name", LANE_MUTANTS)
def test_wrong_lanes_are_rejected(name: str) -> None:
    found = plan(SOFTMAX, CPU)
    tree = changed(found.tree, LANE_MUTANTS[name])
    assert tree != found.tree
    verdict = verify(found.program, found.dependences, tree)
    assert verdict.answer == "wrong", verdict


@pytest.mark.parametrize("width", [0, 1, 15, 16, 17, 31, 33, 257])
def test_sums_in_lanes_are_the_same_for_any_number_of_threads(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = loopfuse.loads(HEAD + SOFTMAX)
    x = np.random.default_rng(width).normal(size=(37, width)).astype(np.float32)
    w, idx, s = np.zeros(width, np.float32), np.zeros(37, np.int32), np.zeros(37, np.float32)
    results: list[np.ndarray] = []
    for threads in (1, 2, 3, 7):
        monkeypatch.setenv("LOOPFUSE_NUM_THREADS", str(threads))
        results.append(kernel(x, w, idx, s))
    assert all(np.array_equal(each.view(np.int32), results[0].view(np.int32)) for each in results)
    if width:
        exact = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        assert np.allclose(results[0], exact / exact.sum(1, keepdims=True), rtol=1e-5, atol=0)


def test_values_of_rows_are_stored_once() -> None:
    """By the first thread: by all of them, or by none, is wrong."""
    found = plan(TAKEN["a value in memory"])
    for change in (by_everyone, lambda node: () if by_everyone(node) is not None else None):
        verdict = verify(found.program, found.dependences, changed(found.tree, change))
        assert verdict.answer == "wrong", verdict


def test_starts_are_counted_once() -> None:
    """What a sum starts from is each thread's, and is added after the sums of all are."""
    found = plan(TAKEN["part of a row"])

    def folded_first(node: TreeNode) -> TreeNode | None:
        if isinstance(node, Combine):
            return replace(node, buffer=node.buffer.replace("_part", ""))
        return None

    names = {buffer.name for buffer in found.tree.buffers if isinstance(buffer.home, Register)}
    assert {"m_1", "m_part"} <= names
    tree = changed(
        found.tree,
        lambda node: () if type(node).__name__ == "Fold" else folded_first(node),
    )
    tree = LoopTree(tree.kernel, tree.device, tree.buffers, tree.body)
    renamed = map_nodes(
        lambda node: map_expressions((node,), _own) if type(node).__name__ in ("Copy", "Compute") else (node,), tree
    )
    assert verify(found.program, found.dependences, renamed).answer == "wrong"


def _own(expr: Any) -> Any:
    """Sums in the value itself, with its start in each thread."""
    return map_expr(
        lambda e: replace(e, array=e.array.replace("m_part", "m")) if isinstance(e, Load) else e, expr
    )


# ------------------------------------------------------------------------------ specialise


def specialised(early: int) -> Any:
    """The last chunk of a row in two ways: without tests where the row has all of it (`early`: or that many places
    fewer), and with them."""

    def change(node: TreeNode) -> tuple[TreeNode, ...] | None:
        if not isinstance(node, Loop) or not isinstance(node.body[0], Guard):
            return None
        test = node.body[0].condition
        if not node.var.startswith("u") or not isinstance(test, Compare):
            return None
        ends: dict[str, Expr] = {node.var: integer(3), "lane": integer(31)}
        last, behind = substitute(test.left, ends), substitute(test.right, ends)
        full = replace(test, left=combine("sub", last, integer(early)), right=behind)
        whole = (replace(node, body=node.body[0].then),)
        return (Guard(full, whole, (node,)),)

    return change


def test_specialised_parts_are_erased() -> None:
    """The checker looks at the guarded way alone; a way that drops a test which its condition does not
    imply is none, and is looked at itself."""
    program = pipeline.read_program(Source("f.lf", HEAD.replace("C]", "767]") + WARP))
    found = pipeline.plan_kernel(program, "f", Options(target=GPU))
    tree = changed(found.tree, specialised(0))
    assert erase(tree) == found.tree
    assert verify(found.program, found.dependences, tree).answer == "proved"
    early = changed(found.tree, specialised(1))
    assert erase(early) == early
    assert verify(found.program, found.dependences, early).answer == "wrong"


# ------------------------------------------------------------------------------ columns, nests


def columns_in_one(node: TreeNode) -> TreeNode | None:
    """The results of all columns of a block put together."""
    return replace(node, over=(*node.over, "cw")) if isinstance(node, Combine) else None


def stepping(by: int) -> Any:
    """Groups of threads take more, or fewer, iterations of the outermost loop."""

    def change(node: TreeNode) -> TreeNode | None:
        is_shared = isinstance(node, Loop) and node.mapping is Where.SERIAL and node.step > 1
        return replace(node, step=node.step + by) if is_shared and isinstance(node, Loop) else None

    return change


COLUMN_MUTANTS = {
    "results in one thread": on_one_thread,
    "no combine": lambda node: () if isinstance(node, Combine) else None,
    "over all columns": columns_in_one,
    "columns beyond the last": untested("cb"),
    "from one": wrong_start,
    "the last chunk is whole": last_untested,
    "every chunk is whole": whole_untested,
    "another register": shifted("x_row", 1),
}


@pytest.mark.parametrize("name", COLUMN_MUTANTS)
def test_wrong_columns_are_rejected(name: str) -> None:
    head, text = HEAD.replace("[R, C]", "[150, C]"), ACROSS["column softmax"].replace("0..R", "0..150")
    found = pipeline.plan_kernel(pipeline.read_program(Source("f.lf", head + text)), "f", Options(target=GPU))
    assert "a block for 32 columns" in found.report.kernels[0].detail
    assert_rejected(found, COLUMN_MUTANTS[name])


def of_another_share(node: TreeNode) -> TreeNode | None:
    """What a share leaves, taken from the one behind it, or left where that leaves its own."""
    if isinstance(node, Copy) and node.target.array.endswith("_part"):
        first, *rest = node.target.index
        return replace(node, target=replace(node.target, index=(combine("add", first, integer(1)), *rest)))
    return None


def longer(name: str, by: int) -> Any:
    """A loop that goes round more often, or less."""

    def change(node: TreeNode) -> TreeNode | None:
        is_meant = isinstance(node, Loop) and node.var.startswith(name)
        return replace(node, upper=combine("add", node.upper, integer(by))) if is_meant and isinstance(node, Loop) else None

    return change


def folded_twice(node: TreeNode) -> tuple[TreeNode, ...] | None:
    return (node, node) if isinstance(node, Fold) else None


SHARE_MUTANTS = {
    "no combine": lambda node: () if isinstance(node, Combine) else None,
    "over all columns": columns_in_one,
    "columns beyond the last": untested("cb"),
    "from one": wrong_start,
    "the last chunk is whole": last_untested,
    "results of another share": of_another_share,
    "a share is left out": longer("share", -1),
    "a share too many": longer("share", 1),
    "a share's results twice": folded_twice,
    "no share's results": lambda node: () if isinstance(node, Fold) else None,
    "chunks that are the next share's": longer("q", 1),
}


@pytest.mark.parametrize("name", SHARE_MUTANTS)
def test_wrong_shares_are_rejected(name: str) -> None:
    head, text = HEAD.replace("[R, C]", "[5000, C]"), ACROSS["column sums"].replace("0..R", "0..5000")
    found = pipeline.plan_kernel(pipeline.read_program(Source("f.lf", head + text)), "f", Options(target=GPU))
    assert found.verdict.answer == "proved"
    assert [launch.name.removeprefix("f_0_") for launch in found.tree.launches] == ["shares", "together", "block"]
    assert_rejected(found, SHARE_MUTANTS[name])


NEST_MUTANTS = {
    "results in one thread": on_one_thread,
    "no combine": lambda node: () if isinstance(node, Combine) else None,
    "from one": wrong_start,
    "some iterations left out": stepping(1),
    "some iterations twice": stepping(-1),
    "the last chunk is whole": last_untested,
    "groups apart": lambda node: replace(node, over=node.over[1:]) if isinstance(node, Combine) else None,
    "threads apart": lambda node: replace(node, over=node.over[:1]) if isinstance(node, Combine) else None,
}


@pytest.mark.parametrize("name", NEST_MUTANTS)
def test_wrong_nests_are_rejected(name: str) -> None:
    head, text = INNER.replace("P]", "70]"), NESTS["group norm"].replace("0..P", "0..70")
    found = pipeline.plan_kernel(pipeline.read_program(Source("f.lf", head + text)), "f", Options(target=Target("sm_80")))
    assert strategies(found) == {"rows"}
    assert_rejected(found, NEST_MUTANTS[name])
