"""Launches that ask for ALIGNED, beside launches that do not: what is proved of them alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.dtypes import DType
from loopfuse.base.options import Options, Target
from loopfuse.lang.nodes import Binary, Const, Expr, Load
from loopfuse.lang.walk import loads, map_expr, walk_expr
from loopfuse.proof import check as checker
from loopfuse.tree.looptree import ALIGNED, Compute, Copy, Guard, Launch, Loop, LoopTree
from loopfuse.tree.walk import map_nodes, walk_nodes

TEXT = """\
kernel k(x: f32[H, 4096], out r: f32[H, 4096], inout a: f32[H, 4096], inout b: f32[H, 4096]):
    for y in 0..H, x1 in 0..4096:
        let double = 2.0*x[y, x1]
        r[y, x1] = double + double*double
    for x1 in 0..4096:
        for y in 1..H:
            b[y, x1] = 0.5*b[y-1, x1] + a[y, x1]
            a[y, x1] = b[y, x1]
"""
WRITTEN_BEFORE = TEXT.replace("    for x1 in 0..4096:\n", "    for y in 0..H:\n        x[y, 0] = 0.5\n    for x1 in 0..4096:\n", 1)
WRITTEN_BEFORE = WRITTEN_BEFORE.replace("kernel k(x:", "kernel k(inout x:")


def planned(text: str) -> Any:
    program = pipeline.read_program(Source("k.lf", text))
    return pipeline.plan_kernel(program, "k", Options(target=Target("sm_90")))


PLANNED = planned(TEXT)


def verdict(made: Any, tree: LoopTree) -> str:
    return checker.verify(made.program, made.dependences, tree).answer


def full_runs(monkeypatch: pytest.MonkeyPatch, made: Any, tree: LoopTree) -> tuple[str, int]:
    """The verdict, and how often a whole tree was proved."""
    runs: list[bool] = []
    run = checker._Checker.run

    def counted(self: Any, alone: bool = False) -> None:
        runs.append(alone)
        run(self, alone)

    monkeypatch.setattr(checker._Checker, "run", counted)
    return verdict(made, tree), runs.count(False)


def test_the_other_launches_are_proved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(PLANNED.tree.launches) > 1
    assert full_runs(monkeypatch, PLANNED, PLANNED.tree) == ("proved", 1)


def test_what_reads_what_is_written_elsewhere_is_proved_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    made = planned(WRITTEN_BEFORE)
    assert full_runs(monkeypatch, made, made.tree) == ("proved", 2)


def within(tree: LoopTree, change: Callable[[Any], Any]) -> Iterator[LoopTree]:
    """The tree with one node of an aligned branch changed, one after the other."""
    inside = [
        node
        for launch in tree.launches
        for guard in walk_nodes(launch.body)
        if isinstance(guard, Guard) and ALIGNED in walk_expr(guard.condition)
        for node in walk_nodes(guard.then)
    ]
    for chosen in inside:
        changed = change(chosen)
        if changed is not None and changed != chosen:
            yield map_nodes(lambda node, old=chosen, new=changed: (new if node == old else node,), tree)


def plus(expr: Expr, amount: int) -> Expr:
    return Binary("add", expr, Const(amount, DType.I64), DType.I64)


def _target(node: Any) -> Any:
    if isinstance(node, Compute | Copy) and node.target.index:
        target = node.target
        return replace(node, target=replace(target, index=(*target.index[:-1], plus(target.index[-1], 1))))
    return None


def _iteration(node: Any) -> Any:
    if isinstance(node, Compute) and node.iteration:
        return replace(node, iteration=(*node.iteration[:-1], plus(node.iteration[-1], 1)))
    return None


def _read(node: Any) -> Any:
    if not isinstance(node, Compute | Copy):
        return None

    def one(expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr.index:
            return replace(expr, index=(*expr.index[:-1], plus(expr.index[-1], 1)))
        return expr

    return replace(node, value=map_expr(one, node.value))


def _shorter(node: Any) -> Any:
    return replace(node, upper=plus(node.upper, -1)) if isinstance(node, Loop) else None


def _longer(node: Any) -> Any:
    return replace(node, upper=plus(node.upper, 1)) if isinstance(node, Loop) else None


def _other_array(node: Any) -> Any:
    """`a` has the shape of `r`, and is written later."""
    if isinstance(node, Compute | Copy) and node.target.array == "r":
        return replace(node, target=replace(node.target, array="a"))
    return None


def _other_operand(node: Any) -> Any:
    def one(expr: Expr) -> Expr:
        return replace(expr, array="b") if isinstance(expr, Load) and expr.array == "x" else expr

    return replace(node, value=map_expr(one, node.value)) if isinstance(node, Compute | Copy) else None


@pytest.mark.parametrize(
    "change", [_target, _iteration, _read, _shorter, _longer, _other_array, _other_operand], ids=lambda f: f.__name__[1:]
)
def test_an_aligned_branch_that_does_something_else_is_rejected(change: Callable[[Any], Any]) -> None:
    mutants = list(within(PLANNED.tree, change))
    assert mutants
    for mutant in mutants:
        assert verdict(PLANNED, mutant) != "proved"


def test_an_aligned_branch_that_does_nothing_is_rejected() -> None:
    def emptied(node: Any) -> tuple[Any, ...]:
        asks = isinstance(node, Guard) and ALIGNED in walk_expr(node.condition)
        return (replace(node, then=()),) if asks else (node,)

    assert verdict(PLANNED, map_nodes(emptied, PLANNED.tree)) != "proved"


def test_the_launches_are_as_the_tests_take_them() -> None:
    first = PLANNED.tree.body[0]
    assert isinstance(first, Launch) and len(PLANNED.tree.body) == 2
    assert {load.array for node in walk_nodes(first.body) if isinstance(node, Compute) for load in loads(node.value)} & {"x"}
