"""Rows whose sums share what they read go together on a CPU: which do, what they compute, and that wrong trees are noticed."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.dtypes import DType
from loopfuse.base.options import CPU, Options
from loopfuse.lang.nodes import Const, Expr, Load, combine, integer
from loopfuse.lang.walk import map_expr
from loopfuse.proof.check import verify
from loopfuse.tree.interp.run import run_tree
from loopfuse.tree.looptree import Compute, Copy, Fold, Guard, Loop, LoopTree, Mapping, TreeNode
from loopfuse.tree.walk import map_nodes, walk_nodes
from tests.plan.calls import called, calls, copied, whole_numbers

ONE = """
    kernel f(a: f64[M, N], x: f64[N], out y: f64[M]):
        for i in 0..M:
            y[i] = sum(j in 0..N: a[i, j] * x[j])
    """
TWO = """
    kernel f(a: f32[M, N], b: f32[M, N], x: f32[N], inout y: f32[M], w: f32[M]):
        for i in 0..M:
            var s: f32 = w[i]
            y[i] = 0.5 * y[i]
            for j in 0..N:
                s += a[i, j] * x[j]
                y[i] += b[i, j] * x[j]
            y[i] = y[i] + 2.0 * s
    """
TAKEN = {
    "a product with a vector": (ONE, 4),
    "two of them": (TWO, 2),
    "part of the places": (ONE.replace("0..N:", "1..N - 1:"), 4),
    "part of the rows": (ONE.replace("i in 0..M", "i in 2..M - 1").replace("out y", "inout y"), 4),
    "the least": (ONE.replace("sum(", "min("), 4),
    "rows of rows": (
        """
    kernel f(a: f64[H, M, N], x: f64[H, N], out y: f64[H, M]):
        for h in 0..H, i in 0..M:
            y[h, i] = sum(j in 0..N: a[h, i, j] * x[h, j])
    """, 4),
}  # fmt: skip
LEFT = {
    "nothing is shared": ONE.replace("* x[j]", "* a[i, j]"),
    "much to do": ONE.replace("* x[j]", "* exp(x[j])"),
    "a value of the row is needed": """
    kernel f(a: f64[M, N], x: f64[N], out y: f64[M]):
        for i in 0..M:
            let m = a[i, 0] + 1.0
            y[i] = sum(j in 0..N: m * a[i, j] + x[j])
    """,
    "two passes": """
    kernel f(a: f64[M, N], x: f64[N], out y: f64[M, N]):
        for i in 0..M:
            let s = sum(j in 0..N: a[i, j] * x[j])
            for j in 0..N:
                y[i, j] = a[i, j] / s
    """,
}  # fmt: skip


def planned(text: str) -> pipeline.Planned:
    made = pipeline.plan_kernel(pipeline.read_program(Source("f.lf", textwrap.dedent(text))), "f", Options(target=CPU))
    assert made.verdict.answer == "proved", made.verdict
    return made


def together(tree: LoopTree) -> int:
    """How many rows of some loop go together: 1 where none do."""
    (launch,) = tree.launches
    found = [node for node in walk_nodes(launch.body) if isinstance(node, Loop) and node.mapping is Mapping.UNROLLED and node.var.startswith("m")]
    return max((int(node.upper.value) for node in found), default=1)  # pyright: ignore


@pytest.mark.parametrize("name", TAKEN)
def test_taken(name: str) -> None:
    text, rows = TAKEN[name]
    assert together(planned(text).tree) == rows


@pytest.mark.parametrize("name", LEFT)
def test_others(name: str) -> None:
    assert together(planned(LEFT[name]).tree) == 1


@pytest.mark.parametrize("name", [*TAKEN, *LEFT])
def test_results(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = TAKEN[name][0] if name in TAKEN else LEFT[name]
    made, kernel = planned(text), loopfuse.loads(textwrap.dedent(text), target="cpu")
    unfused = kernel.with_options(fuel=0, reassociate=False)
    every = [{"H": 2, "M": rows, "N": places} for rows, places in ((0, 3), (3, 1), (4, 0), (5, 7), (9, 40), (17, 16), (8, 67))]
    for known, arrays in calls(made, every, whole_numbers):
        with np.errstate(all="ignore"):
            right, mine = called(unfused, made, arrays), copied(arrays)
            run_tree(made.tree, mine, known, order="shuffled")
            for threads in (1, 3):
                monkeypatch.setenv("LOOPFUSE_NUM_THREADS", str(threads))
                ours = called(kernel, made, arrays)
                for key, value in right.items():
                    np.testing.assert_allclose(ours[key], value, rtol=1e-5, err_msg=f"{key} at {known}")
        for key, value in right.items():
            np.testing.assert_allclose(mine[key], value, rtol=1e-5, err_msg=f"{key} at {known}")


def test_a_row_has_its_order_wherever_it_stands() -> None:
    """Left over or not: its sum is the same, to the last bit."""
    kernel = loopfuse.loads(textwrap.dedent(ONE), target="cpu")
    rng = np.random.default_rng(0)
    a, x = rng.standard_normal((1, 333)), rng.standard_normal(333)
    for rows in (1, 2, 3, 4, 5, 7):
        found = kernel(np.repeat(a, rows, axis=0), x)
        assert len({*found.tolist()}) == 1 and found[0] == kernel(a, x)[0]


def of_sums(change: Any) -> Any:
    """A change of the computations that stand under a loop over rows."""
    return lambda node: change(node) if isinstance(node, Compute) and node.statement == "S1" else None


def at_row(node: Compute, by: int) -> Compute:
    """The same with elements of another row."""

    def moved(expr: Expr) -> Expr:
        is_row = isinstance(expr, Load) and expr.array == "a"
        return replace(expr, index=(combine("add", expr.index[0], integer(by)), expr.index[1])) if is_row else expr

    return replace(node, value=map_expr(moved, node.value))


def in_lane(node: Compute, by: int) -> Compute:
    """The same, added up elsewhere."""
    place = Load(node.target.array, (combine("add", node.target.index[0], integer(by)),), node.target.dtype)
    return replace(node, target=place, value=map_expr(lambda expr: place if expr == node.target else expr, node.value))


MUTANTS: dict[str, Any] = {
    "the row before": of_sums(lambda node: at_row(node, -1)),
    "lanes of the next row": of_sums(lambda node: in_lane(node, 16)),
    "no fold": lambda node: () if isinstance(node, Fold) and node.value.array.startswith("y.sum_lane") else None,
    "sums of the row before": lambda node: replace(node, value=replace(node.value, index=(integer(0),)))
    if isinstance(node, Copy) and isinstance(node.value, Load) and "lane" in node.value.array else None,
    "not cleared": lambda node: () if isinstance(node, Copy) and isinstance(node.value, Const) and "lane" in node.target.array else None,
    "rows beyond": lambda node: replace(node, condition=Const(True, DType.BOOL)) if isinstance(node, Guard) else None,
    "no rows that are left over": lambda node: replace(node, otherwise=()) if isinstance(node, Guard) else None,
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_wrong_trees_are_rejected(name: str) -> None:
    made = planned(ONE)
    count = 0

    def one(node: TreeNode) -> tuple[TreeNode, ...]:
        nonlocal count
        found = MUTANTS[name](node)
        if found is None:
            return (node,)
        count += 1
        return found if isinstance(found, tuple) else (found,)

    tree = map_nodes(one, made.tree)
    assert count
    assert verify(made.program, made.dependences, tree).answer == "wrong"
