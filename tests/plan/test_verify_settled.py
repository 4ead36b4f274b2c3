"""Values of which the planner leaves out what a loop's bounds decide: proved, their neighbours not.

Programs are random: sums, products, `min`, `max`, `%`, choices and conditions in which comparisons
of the iterator and literals decide much. Peeling then writes most values anew.
"""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from loopfuse.base.diagnostics import Source
from loopfuse.base.dtypes import DType
from loopfuse.base.options import Options
from loopfuse.frontend.lf.door import parse
from loopfuse.lang.check.check import check
from loopfuse.lang.nodes import Binary, Const, Expr, Iter, Load, Select, Unary, combine, integer
from loopfuse.lang.walk import children, with_children
from loopfuse.pipeline import plan_kernel
from loopfuse.proof.check import verify
from loopfuse.tree.looptree import Compute, LoopTree, TreeNode
from loopfuse.tree.printer import print_expr
from loopfuse.tree.walk import walk_nodes
from tests.plan.mutate_edit import map_bodies
from tests.plan.mutate_table import Made, equal, interpreted, run

KERNEL = """
kernel k(a: i64[N], b: bool[N], x: f32[N], n: i32[N], w: i64[1], inout c: {type}[N], m: i64):
    for i in {range}:
        c[i] = {value}
"""

FIXED = {
    "not of a literal": ("bool", "0..N", "not (true | b[i])"),
    "literals under operators": ("bool", "0..N", "not (b[i] and not (b[i] or not false))"),
    "not of what is decided": ("bool", "0..N", "not ((i < N - 2) | b[i])"),
    "one times": ("i64", "0..N", "i * (i64(1) if i <= N - 2 else i)"),
    "zero times": ("i64", "1..N - 2", "i - (i if i <= 1 else w[0])"),
    "sums that cancel": ("i64", "0..N", "a[i] * ((2 if i < 3 else w[0]) - 2 + i)"),
    "a choice in a comparison": ("bool", "0..N", "(i * (1 if i < 3 else w[0]) < 3) & b[i]"),
    "a choice in a minimum": ("i64", "0..N", "min(i * (1 if i < 4 else w[0]), 2) + a[i]"),
    "a choice in a remainder": ("i64", "0..N", "(i + (1 if i < 4 else w[0])) % N"),
    "a choice of floats": ("f32", "0..N", "x[i] * (x[i] if not ((i < 3) | false) else 2.0)"),
    "a choice of narrow integers": ("i32", "0..N", "(i32(1) if i < 3 else n[i]) * i32(i)"),
    "nested choices": ("i64", "0..N", "(w[0] if (b[i] if i < 3 else i > 1) else i) + i * 2"),
    "neither bound nor literal": ("i64", "0..N", "(i * m + 2 * i if i * m < 3 or i < 4 else a[i])"),
}  # fmt: skip


def condition(rng: random.Random, depth: int) -> str:
    """A condition, often a decided one."""
    if depth <= 0 or rng.random() < 0.3:
        if rng.random() < 0.25:
            return rng.choice(["true", "false", "b[i]", "b[i]", "(x[i] < 0.5)"])
        left = index(rng, depth - 1) if rng.random() < 0.3 else "i"
        right = rng.choice(["0", "1", "2", "3", "N - 1", "N - 2", "N", "m"])
        return f"({left} {rng.choice(['<', '<=', '>', '>=', '==', '!='])} {right})"
    if rng.random() < 0.25:
        return f"(not {condition(rng, depth - 1)})"
    if rng.random() < 0.1:
        return choice(rng, depth, condition)
    operator = rng.choice(["and", "or", "&", "|", "^"])
    return f"({condition(rng, depth - 1)} {operator} {condition(rng, depth - 1)})"


def index(rng: random.Random, depth: int) -> str:
    """An i64 that may be without data."""
    if depth <= 0 or rng.random() < 0.2:
        return rng.choice(["i", "i", "i64(1)", "i64(2)", "i64(0)", "N", "m", "a[i]", "w[0]"])
    match rng.randrange(5):
        case 0:
            return choice(rng, depth, index)
        case 1:
            return f"{rng.choice(['min', 'max'])}({index(rng, depth - 1)}, {index(rng, depth - 1)})"
        case 2:
            return f"({index(rng, depth - 1)} % {rng.choice(['N', '3', 'N'])})"
        case _:
            operator = rng.choice("+-*")
            return f"({index(rng, depth - 1)} {operator} {index(rng, depth - 1)})"


def number(rng: random.Random, depth: int) -> str:
    """An f32."""
    if depth <= 0 or rng.random() < 0.3:
        return rng.choice(["x[i]", "f32(1.0)", "f32(0.0)", "f32(i)", "x[0]"])
    if rng.random() < 0.5:
        return choice(rng, depth, number)
    return f"({number(rng, depth - 1)} {rng.choice('+-*')} {number(rng, depth - 1)})"


def choice(rng: random.Random, depth: int, arm: Callable[[random.Random, int], str]) -> str:
    """One of two, often a decided one."""
    return f"({arm(rng, depth - 1)} if {condition(rng, depth - 1)} else {arm(rng, depth - 1)})"


def random_program(seed: int) -> str:
    rng = random.Random(seed)
    kind, make = rng.choice([("bool", condition), ("i64", index), ("f32", number)])
    span = rng.choice(["0..N", "1..N", "0..N - 1", "1..N - 2", "2..N - 1"])
    return KERNEL.format(type=kind, range=span, value=make(rng, rng.randint(2, 4)))


def planned(text: str, fuel: int | None) -> Made:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", message=".*never")
        program = check(parse(Source("k.lf", text)))
        plan = plan_kernel(program, "k", Options(fuel=fuel))
    assert plan.verdict.answer == "proved", plan.verdict
    return Made(plan.program, plan.dependences, plan.tree)


def calls(made: Made) -> Iterator[tuple[dict[str, Any], dict[str, int]]]:
    """Arguments at a few sizes, with sizes and scalars."""
    for seed, (size, m) in enumerate(((4, 1), (5, -2), (9, 3))):
        rng = np.random.default_rng(seed)
        dtype = made.program.kernel.arrays[-1].dtype.numpy_name
        given = {
            "a": rng.integers(-3, 6, size),
            "b": rng.integers(0, 2, size).astype(bool),
            "x": rng.standard_normal(size).astype("f4"),
            "n": rng.integers(-3, 6, size).astype("i4"),
            "w": rng.integers(2, 6, 1),
            "c": np.zeros(size, dtype),
            "m": m,
        }
        yield given, {"N": size, "m": m}


def neighbours(expr: Expr) -> Iterator[Expr]:
    """`expr` with one mistake."""
    match expr:
        case Const(value=bool() as value):
            yield replace(expr, value=not value)
        case Const(value=value):
            yield replace(expr, value=value + 1)
        case Iter():
            yield combine("add", expr, integer(1))
        case Select(then=then, otherwise=otherwise):
            yield from (then, otherwise, replace(expr, then=otherwise, otherwise=then))
        case Binary(op="and" | "or" as op, left=left, right=right):
            yield from (left, right, replace(expr, op="or" if op == "and" else "and"))
        case Binary(op="min" | "max" as op, left=left, right=right):
            yield from (left, right, replace(expr, op="max" if op == "min" else "min"))
        case Binary(op="mod" | "mul" | "sub" | "add", left=left):
            yield left
        case Unary(operand=operand):
            yield operand
        case _:
            pass
    if expr.dtype is DType.BOOL:
        yield from (Const(True, DType.BOOL), Const(False, DType.BOOL))
        yield Unary("not", expr, DType.BOOL)
    if expr.dtype is DType.I64:
        yield integer(0)
    if isinstance(expr, Load):
        return
    below = children(expr)
    for position, child in enumerate(below):
        for other in neighbours(child):
            if other.dtype is child.dtype:
                yield with_children(expr, (*below[:position], other, *below[position + 1 :]))


def with_value(tree: LoopTree, old: Compute, value: Expr) -> LoopTree:
    def body(nodes: tuple[TreeNode, ...]) -> tuple[TreeNode, ...]:
        return tuple(replace(n, value=value) if n is old else n for n in nodes)

    return map_bodies(tree, body)


def differs(made: Made, tree: LoopTree) -> bool:
    for given, sizes in calls(made):
        right = interpreted(made, given, sizes)
        found = run(tree, given, sizes, "forward", True)
        if not all(equal(value, found[name]) for name, value in right.items()):
            return True
    return False


def try_neighbours(made: Made, most: int, seed: int) -> int:
    """How many neighbours of the tree's values were rejected. None that is proved computes
    anything else."""
    assert not differs(made, made.tree)
    nodes = [n for launch in made.tree.launches for n in walk_nodes(launch.body)]
    computes = [n for n in nodes if isinstance(n, Compute)]
    found = [(n, v) for n in computes for v in neighbours(n.value) if v != n.value]
    # What is right in one part of a peeled loop only must not stand in another.
    found += [(n, o.value) for n in computes for o in computes if n.value != o.value]
    rejected = 0
    for node, value in random.Random(seed).sample(found, min(most, len(found))):
        mutant = with_value(made.tree, node, value)
        verdict = verify(made.program, made.dependences, mutant)
        rejected += verdict.answer != "proved"
        if verdict.answer == "proved":
            assert not differs(made, mutant), print_expr(value)
    return rejected


@pytest.mark.parametrize("fuel", [None, 0])
@pytest.mark.parametrize("name", FIXED)
def test_what_is_decided_may_be_missing(name: str, fuel: int | None) -> None:
    kind, span, value = FIXED[name]
    made = planned(KERNEL.format(type=kind, range=span, value=value), fuel)
    assert try_neighbours(made, 12, 1) >= 3


@pytest.mark.parametrize("part", range(4))
def test_random_values(part: int) -> None:
    """`LOOPFUSE_VALUES=n` programs."""
    most = int(os.environ.get("LOOPFUSE_VALUES", "60"))
    rejected = 0
    for seed in range(part, most, 4):
        text = random_program(seed)
        try:
            rejected += try_neighbours(planned(text, None), 3, seed)
        except AssertionError as error:
            raise AssertionError(f"program {seed}: {text}\n{error}") from None
    assert rejected > most // 4
