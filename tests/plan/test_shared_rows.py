"""Temporaries that a few rows of a CPU's worker share: which do, that results stay, and that wrong trees are noticed."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU, Options
from loopfuse.lang.nodes import Expr, Iter, Load, combine, integer
from loopfuse.lang.walk import map_expr
from loopfuse.proof.check import verify
from loopfuse.tree.interp.run import run_tree
from loopfuse.tree.looptree import Loop, Mapping, TreeNode
from loopfuse.tree.walk import map_expressions, map_nodes
from tests.plan.calls import called, calls, copied, whole_numbers

NORM = """
    kernel f(x: f32[R, C], g: f32[C], out y: f32[R, C]):
        temp m: f32[R]
        temp e: f32[R, C]
        temp v: f32[R]
        for r in 0..R:
            m[r] = 0.0
            for c in 0..C:
                m[r] += x[r, c]
        for r in 0..R, c in 0..C:
            e[r, c] = x[r, c] - m[r]
        for r in 0..R:
            v[r] = 0.0
            for c in 0..C:
                v[r] += e[r, c] * e[r, c]
        for r in 0..R, c in 0..C:
            y[r, c] = e[r, c] * v[r] + g[c]
    """
TAKEN = {
    "an array for each step": NORM,
    "of one nest": """
    kernel f(x: f32[R, C], out y: f32[R, C]):
        temp e: f32[R, C]
        for r in 0..R:
            for c in 0..C:
                e[r, c] = x[r, c] * 0.5
            let s = sum(c in 0..C: e[r, c])
            for c in 0..C:
                y[r, c] = e[r, c] + s
    """,
    "two of them": NORM.replace("temp v", "temp d: f32[R, C]\n        temp v").replace(
        "        for r in 0..R:\n            v[r]", "        for r in 0..R, c in 0..C:\n            d[r, c] = e[r, c] * 2.0\n        for r in 0..R:\n            v[r]"
    ).replace("e[r, c] * e[r, c]", "d[r, c] * d[r, c]").replace("e[r, c] * v[r]", "e[r, c] * v[r] + d[r, c]"),
    "part of the places": NORM.replace("c in 0..C", "c in 1..C - 1").replace("out y", "inout y"),
    "part of the rows": NORM.replace("r in 0..R", "r in 2..R").replace("out y", "inout y"),
    "rows of rows": """
    kernel f(x: f32[R, R, C], out y: f32[R, R, C]):
        temp e: f32[R, R, C]
        for h in 0..R, r in 0..R:
            for c in 0..C:
                e[h, r, c] = x[h, r, c] * 0.5
            let s = sum(c in 0..C: e[h, r, c])
            for c in 0..C:
                y[h, r, c] = e[h, r, c] + s
    """,
}  # fmt: skip
LEFT = {
    "the row before is read": NORM.replace("out y", "inout y").replace("for r in 0..R, c in 0..C:\n            y", "for r in 1..R, c in 0..C:\n            y").replace(
        "e[r, c] * v[r]", "e[r - 1, c] * v[r]"),
    "the other way round": """
    kernel f(x: f32[R, C], out y: f32[R, C]):
        temp e: f32[C, R]
        for r in 0..R:
            for c in 0..C:
                e[c, r] = x[r, c] * 0.5
            let s = sum(c in 0..C: x[r, c])
            for c in 0..C:
                y[r, c] = e[c, r] + s
    """,
    "places from the other end": NORM.replace("y[r, c] = e[r, c]", "y[r, c] = e[r, C - 1 - c]"),
    "an argument": NORM.replace("        temp e: f32[R, C]\n", "").replace("out y", "out e: f32[R, C], out y"),
}  # fmt: skip


def planned(text: str) -> pipeline.Planned:
    made = pipeline.plan_kernel(pipeline.read_program(Source("f.lf", textwrap.dedent(text))), "f", Options(target=CPU))
    assert made.verdict.answer == "proved", made.verdict
    return made


def shared(made: pipeline.Planned) -> set[str]:
    """The temporaries of which a few rows share one."""
    return {buffer.array for buffer in made.tree.buffers if buffer.name.startswith(f"{buffer.array}_row")}


@pytest.mark.parametrize("name", TAKEN)
def test_taken(name: str) -> None:
    made = planned(TAKEN[name])
    assert "e" in shared(made) and not {buffer.name for buffer in made.tree.buffers} & shared(made)
    (kernel,) = made.report.kernels
    assert dict(kernel.homes)["e"] == "line(1)"


@pytest.mark.parametrize("name", LEFT)
def test_others(name: str) -> None:
    assert not shared(planned(LEFT[name]))


def test_what_a_few_rows_share_is_not_moved() -> None:
    assert planned(NORM).report.traffic_after.text == "8*R*C + 4*C"


@pytest.mark.parametrize("name", [*TAKEN, *LEFT])
def test_results(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = TAKEN[name] if name in TAKEN else LEFT[name]
    made, kernel = planned(text), loopfuse.loads(textwrap.dedent(text), target="cpu")
    unfused = kernel.with_options(fuel=0, reassociate=False)
    every = [{"R": rows, "C": places} for rows, places in ((1, 3), (3, 2), (4, 5), (5, 40), (9, 67), (17, 3))]
    for known, arrays in calls(made, every, whole_numbers):
        right, mine = called(unfused, made, arrays), copied(arrays)
        run_tree(made.tree, mine, known, order="shuffled")
        for threads in (1, 3):
            monkeypatch.setenv("LOOPFUSE_NUM_THREADS", str(threads))
            ours = called(kernel, made, arrays)
            for key, value in right.items():
                np.testing.assert_array_equal(ours[key], value, f"{key} at {known}")
        for key, value in right.items():
            np.testing.assert_array_equal(mine[key], value, f"{key} at {known}")


def elsewhere(place: Expr) -> Any:
    """Elements that rows share, of another of their chunks."""

    def moved(expr: Expr) -> Expr:
        return replace(expr, index=(place, *expr.index[1:])) if isinstance(expr, Load) and expr.array == "e_row" else expr

    return lambda node: map_expressions((node,), lambda expr: map_expr(moved, expr))


def at_once(node: TreeNode) -> TreeNode | None:
    """The rows of a chunk by several workers."""
    is_rows = isinstance(node, Loop) and node.mapping is Mapping.SERIAL and node.var == "r"
    return replace(node, mapping=Mapping.THREAD) if is_rows else None


MUTANTS: dict[str, Any] = {
    "one for all": elsewhere(integer(0)),
    "that of the chunk before": elsewhere(combine("sub", Iter("rb"), integer(1))),
    "the rows of a chunk at once": at_once,
}


@pytest.mark.parametrize("name", MUTANTS)
def test_wrong_trees_are_rejected(name: str) -> None:
    made = planned(NORM)

    def one(node: TreeNode) -> tuple[TreeNode, ...]:
        found = MUTANTS[name](node)
        return (node,) if found is None else found if isinstance(found, tuple) else (found,)

    tree = map_nodes(one, made.tree)
    assert tree != made.tree
    assert verify(made.program, made.dependences, tree).answer == "wrong"
