"""Choices whose arms are both computed: where all their loads are inside their arrays whatever is chosen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers import kernel

import loopfuse
from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU, Options
from loopfuse.lang.nodes import Expr, Select
from loopfuse.lang.walk import map_expr, walk_expr
from loopfuse.poly.bounds import find_preconditions
from loopfuse.poly.build import build_model
from loopfuse.poly.eager import mark_eager
from loopfuse.proof.check import verify
from loopfuse.tree.looptree import HostNode, Launch
from loopfuse.tree.walk import map_expressions

HEAD = "kernel f(a: f32[N], b: f32[M], m: f32[N], g: i64[N], out c: f32[N], k: i64):\n"


def marks(body: str, given: str = "") -> list[bool]:
    """Of each choice in the statements, outermost first."""
    model = build_model(kernel(HEAD + given + "    for i in 0..N:\n        " + body + "\n"))
    preconditions, context = find_preconditions(model)
    marked = mark_eager(replace(model, preconditions=preconditions, context=context))
    values = [s.value for s in marked.statements]
    return [part.eager for value in values for part in walk_expr(value) if isinstance(part, Select)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a[i] if m[i] > 0.0 else 2.0", [True]),
        ("1.0 if m[i] > 0.0 else 2.0", [True]),
        ("a[i-1] if m[i] > 0.0 and i > 0 else 2.0", [False]),
        ("a[i-1] if i > 0 else 2.0", [False]),
        ("a[i] if i > 3 else m[i]", [True]),
        ("a[i+1] if i < N - 1 else m[i]", [False]),
        ("a[N - 1 - i] if m[i] > 0.0 else m[i]", [True]),
        ("a[g[i]] if m[i] > 0.0 else 2.0", [False]),
        ("a[i] if m[i] > 0.0 else (a[i-1] if i > 0 else 0.0)", [False, False]),
        ("(a[i] if m[i] > 0.0 else 1.0) if i > 1 else m[i]", [True, True]),
    ],
)
def test_marks(value: str, expected: list[bool]) -> None:
    assert marks(f"c[i] = {value}") == expected


def test_what_is_asked_of_sizes_counts() -> None:
    assert marks("c[i] = b[i] if m[i] > 0.0 else 2.0") == [True]  # N <= M is asked of every call
    assert marks("c[i] = b[i] if i < M else 2.0") == [False]
    assert marks("c[i] = b[i] if i < M else 2.0", "    assume N <= M\n") == [True]


def test_a_tree_may_not_be_more_eager_than_the_program() -> None:
    """The checker takes the program's marks alone."""
    text = "kernel f(a: f32[N], out c: f32[N]):\n    for i in 0..N:\n        c[i] = a[i-1] if i > 0 else 2.0\n"
    program = pipeline.read_program(Source("f.lf", text))
    found = pipeline.plan_kernel(program, "f", Options(target=CPU))

    def eager(expr: Expr) -> Expr:
        return replace(expr, eager=True) if isinstance(expr, Select) else expr

    def changed(node: HostNode) -> HostNode:
        return replace(node, body=map_expressions(node.body, lambda expr: map_expr(eager, expr))) if isinstance(node, Launch) else node

    tree = replace(found.tree, body=tuple(map(changed, found.tree.body)))
    assert tree != found.tree
    assert verify(found.program, found.dependences, found.tree, True).answer == "proved"
    assert verify(found.program, found.dependences, tree, True).answer == "wrong"


def test_of_a_temporary_in_memory_too() -> None:
    """All of it is there: lanes of a sum need neither branches nor addresses of their own."""
    text = """
kernel f(a: f32[N], k: i64, out s: f32[N]):
    temp t: f32[N]
    for i in 0..N:
        t[N - 1 - i] = a[i] + 1.0
    for i in 0..N:
        s[i] = sum(p in 0..i: t[p] if p < k else a[i])
"""
    mlir = loopfuse.loads(text).with_options(fuel=0).compile("cpu", emit={"mlir"}).mlir
    assert "arith.select" in mlir
    assert "scf.if" not in mlir.partition("vector.load")[2]


@pytest.mark.parametrize("width", ["f32", "f64"])
def test_both_arms_are_right(width: str) -> None:
    """Sums, stores in both branches, and stores in one of two, of random data."""
    text = f"""
kernel f(a: {width}[N], b: {width}[N], m: {width}[N], out c: {width}[N], out d: {width}[N], out s: {width}[1], out t: {width}[1]):
    s[0] = sum(i in 0..N: a[i] if m[i] > 0.0 else b[i])
    t[0] = 0.0
    for i in 0..N:
        if m[i] > 1.0:
            t[0] += a[i]
    for i in 0..N:
        if m[i] == 0.0:
            c[i] = a[i] * 2.0
        else:
            c[i] = b[i] + 1.0
    for i in 0..N:
        d[i] = a[i]
        if m[i] < 0.0:
            d[i] = b[i]
"""
    compiled = loopfuse.loads(text)
    rng = np.random.default_rng(3)
    for count in (0, 1, 15, 16, 17, 5000):
        a, b, m = (rng.integers(-2, 3, count).astype(width.replace("f", "float")) for _ in range(3))
        c, d, s, t = compiled(a, b, m)
        np.testing.assert_array_equal(c, np.where(m == 0, a * 2, b + 1))
        np.testing.assert_array_equal(d, np.where(m < 0, b, a))
        assert (s[0], t[0]) == (np.where(m > 0, a, b).sum(), a[m > 1].sum())
