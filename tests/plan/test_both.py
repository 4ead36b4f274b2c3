"""Rows and columns of an array that blocks of a GPU go along in one pass: which are taken, and that each row is there once, whoever runs it."""

from __future__ import annotations

import pytest

from loopfuse.base.options import Target
from loopfuse.plan import registry
from loopfuse.plan.strategies.rows import sizes as chosen
from loopfuse.plan.units.rules import Rules
from loopfuse.tree.looptree import Loop, Mapping
from loopfuse.tree.walk import walk_nodes
from tests.plan.mutate_both import BOTH, small_blocks
from tests.plan.test_one_pass import has_each_row_once, passes, planned

GPU = Target("sm_90")
HEAD = """kernel f(x: f32[R, C], dy: f32[R, C], a: f32[R], v: f32[C], out s: f32[R], out t: f32[C], out w: f32[C], out y: f32[R, C]):
"""

TAKEN = {
    "columns first": """    for c in 0..C:
        t[c] = sum(r in 0..R: x[r, c] * a[r])
    for r in 0..R:
        s[r] = sum(c in 0..C: x[r, c] * v[c])
""",
    "the least of rows and the greatest of columns": """    for r in 0..R:
        s[r] = min(c in 0..C: x[r, c])
    for c in 0..C:
        t[c] = max(r in 0..R: x[r, c] - s[r])
""",
    "a variable for each column": """    for r in 0..R:
        s[r] = sum(c in 0..C: x[r, c])
    for c in 0..C:
        let d = sum(r in 0..R: x[r, c] * s[r])
        w[c] = d * v[c] + 1.0
""",
    "several results, in loops of their own": """    for r in 0..R:
        let m = max(c in 0..C: x[r, c])
        for c in 0..C:
            y[r, c] = dy[r, c] - m
    for c in 0..C:
        t[c] = sum(r in 0..R: dy[r, c])
        w[c] = sum(r in 0..R: dy[r, c] * x[r, c])
""",
    "what rows make, in memory that is nobody else's": """    temp n: f32[R, C]
    for r in 0..R:
        for c in 0..C:
            n[r, c] = x[r, c] * a[r]
        let m = sum(c in 0..C: n[r, c] * dy[r, c])
        for c in 0..C:
            y[r, c] = dy[r, c] * v[c] - n[r, c] * m
    for c in 0..C:
        t[c] = sum(r in 0..R: dy[r, c] * n[r, c])
""",
}  # fmt: skip

LEFT = {
    "columns that rows need": """    for c in 0..C:
        t[c] = sum(r in 0..R: x[r, c])
    for r in 0..R:
        s[r] = sum(c in 0..C: x[r, c] * t[c])
""",
    "other places of the rows": """    for r in 0..R:
        s[r] = sum(c in 0..C: x[r, c])
    for c in 1..C:
        t[c] = sum(r in 0..R: x[r, c-1] * s[r])
""",
    "columns in two passes": """    for r in 0..R:
        s[r] = sum(c in 0..C: x[r, c])
    for c in 0..C:
        w[c] = sum(r in 0..R: x[r, c])
        t[c] = max(r in 0..R: x[r, c] - w[c])
""",
    "columns of something else": """    for r in 0..R:
        s[r] = sum(c in 0..C: x[r, c])
    for c in 0..C:
        t[c] = sum(r in 0..R: dy[r, c])
""",
    "in a loop around": """    for k in 0..3:
        for r in 0..R:
            s[r] = sum(c in 0..C: x[r, c])
        for c in 0..C:
            t[c] = sum(r in 0..R: x[r, c] * s[r])
""",
}  # fmt: skip


NORM = """kernel f(x: bf16[R, C], dy: bf16[R, C], weight: bf16[C], scale: f32[R], out dx: bf16[R, C], out dw: f32[C]):
    for r in 0..R:
        let slope = sum(c in 0..C: f32(dy[r, c]) * f32(weight[c]) * f32(x[r, c])) * scale[r] * scale[r] / C
        for c in 0..C:
            dx[r, c] = bf16(scale[r] * (f32(dy[r, c]) * f32(weight[c]) - f32(x[r, c]) * slope))
    for c in 0..C:
        dw[c] = sum(r in 0..R: f32(dy[r, c]) * f32(x[r, c]) * scale[r])
"""


@pytest.mark.parametrize("name", TAKEN)
def test_blocks_go_along_rows_and_columns(name: str) -> None:
    with small_blocks():
        made = planned(HEAD + TAKEN[name], target=GPU)
    assert len(passes(made)) == 2  # by a block and by a cluster
    assert sum("in one pass over the rows" in one.reason for one in made.report.decisions) == 1
    has_each_row_once(made, [(0, 3), (2, 5), (4, 1), (7, 7), (5, 65), (3, 130)])


@pytest.mark.parametrize("name", LEFT)
def test_others_stay_apart(name: str) -> None:
    assert not passes(planned(HEAD + LEFT[name], target=GPU))


def test_their_order_may_have_to_stay() -> None:
    assert not passes(planned(BOTH, reassociate=False, target=GPU))


@pytest.mark.parametrize("rows", [chosen.FEW_ROWS, chosen.FEW_ROWS + 1])
def test_few_rows_that_are_known_stay_apart(rows: int) -> None:
    made = planned(BOTH.replace("R]", f"{rows}]").replace("[R", f"[{rows}").replace("..R", f"..{rows}"), target=GPU)
    assert bool(passes(made)) == (rows > chosen.FEW_ROWS)


def test_an_easier_plan_keeps_them_apart() -> None:
    made = planned(BOTH, target=GPU)
    rules = Rules.of(made.options, made.program)
    words = [words for found, words in registry.easier([*made.scheduled.fits.values()], rules) if not found.crossings]
    assert words[0] == "rows and columns are gone along apart"


def test_reports_of_a_gpu_say_it() -> None:
    made = planned(BOTH, target=GPU)
    said = [kernel.detail for kernel in made.report.kernels if kernel.name.endswith("_pass")]
    who = f"one pass, {{}} for {chosen.ROWS_OF_SHARE} rows with a copy of t.sum, x held in registers, parallel over r"
    assert said == [f"rows, {who.format(one)}" for one in ("a block", "a block", "a block", "a cluster of 4 blocks")]
    assert made.report.launches_after == 2


def test_rows_of_two_byte_elements_go_by_vectors() -> None:
    made = planned(NORM, target=GPU)
    assert len(passes(made)) == len(chosen.SHARING_ROWS)
    for launch in passes(made):
        assert any(isinstance(node, Loop) and node.mapping is Mapping.VECTOR for node in walk_nodes(launch.body))
