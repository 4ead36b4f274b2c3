"""Walking and rewriting the core."""

from __future__ import annotations

from dataclasses import replace

from loopfuse.base.diagnostics import Source
from loopfuse.frontend.lf.door import parse
from loopfuse.lang import nodes
from loopfuse.lang.check.check import check
from loopfuse.lang.printer import print_expr, print_stmt
from loopfuse.lang.walk import (
    children,
    expressions,
    loads,
    map_stmt_expressions,
    map_stmts,
    substitute,
    walk_expr,
    walk_stmts,
    with_children,
)

TEXT = """
kernel test(a: f32[N], b: f32[N], p: bool[N], inout y: f32[N], inout z: f32[N], steps: i64):
    for t in 0..steps:
        for i in 1..N-1:
            if i > 3:
                let v = max(k in 0..3: exp(a.clamp[i + k]) * b[i])
                y[i] = v + (b[i - 1] * a[i] - sqrt(y[i]) if p[i] else -a[i + 1])
            else:
                z[i] += a[i] ** 3 // 2.0
        swap y, z
"""
KERNEL = check(parse(Source("test.lf", TEXT))).kernels[0]
STORES = [stmt for stmt in walk_stmts(KERNEL.body) if isinstance(stmt, nodes.Store)]


def test_loads_are_listed_in_evaluation_order() -> None:
    got = [print_expr(load) for load in loads(STORES[0].value)]
    assert got == ["v", "p[i]", "b[i - 1]", "a[i]", "y~z(t % 2)[i]", "a[i + 1]"]


def test_children_and_with_children_fit() -> None:
    marker = nodes.Iter("marker")
    for stmt in walk_stmts(KERNEL.body):
        for expr in expressions(stmt):
            for node in walk_expr(expr):
                below = children(node)
                assert with_children(node, below) is node
                if below:
                    new = tuple(marker for _ in below)
                    assert children(with_children(node, new)) == new


def test_every_statement_is_walked_once_in_text_order() -> None:
    kinds = [type(stmt).__name__ for stmt in walk_stmts(KERNEL.body)]
    assert kinds == ["For", "For", "If", "Reduce", "Store", "Store"]


def test_substitution_reaches_subscripts_and_parities() -> None:
    target = substitute(STORES[0].target, {"i": nodes.Iter("q"), "t": nodes.Iter("u")})
    assert print_expr(target) == "y~z(u % 2)[q]"
    assert substitute(STORES[0].value, {}) is STORES[0].value


def test_statements_are_rewritten_everywhere() -> None:
    new = {"i": nodes.Iter("q")}
    loop = map_stmt_expressions(lambda expr: substitute(expr, new), KERNEL.body[0])
    text = "\n".join(print_stmt(loop))
    assert "[i" not in text and "y~z(t % 2)[q] = " in text and "a.clamp[q + k]" in text

    def without_stores(stmt: nodes.Stmt) -> tuple[nodes.Stmt, ...]:
        return () if isinstance(stmt, nodes.Store) else (replace(stmt),)

    left = map_stmts(without_stores, KERNEL.body)
    assert not [s for s in walk_stmts(left) if isinstance(s, nodes.Store)]
    assert [s for s in walk_stmts(left) if isinstance(s, nodes.Reduce)]
