"""Accesses of an array that are said never to meet do not, against enumeration; and LLVM is told of them."""

from __future__ import annotations

import re
from random import Random

import pytest

from loopfuse.base.diagnostics import Source
from loopfuse.base.dtypes import DType
from loopfuse.codegen.mlir.apart import always_differ
from loopfuse.codegen.mlir.index import Facts, linear
from loopfuse.kernels.kernel import load_all
from loopfuse.lang.index import evaluate_index
from loopfuse.lang.nodes import Expr, Iter, Symbol, combine, integer

N = Symbol("N", DType.I64)


def a_form(random: Random, names: tuple[str, ...]) -> Expr:
    """A sum of a few names, sizes and numbers; now and then its remainder."""
    out: Expr = integer(random.randint(-2, 2))
    for name in names:
        if random.random() < 0.6:
            out = out + Iter(name) * random.choice((1, 1, 1, -1, 2))
    if random.random() < 0.2:
        out = out + N
    return combine("mod", out, integer(random.choice((2, 3)))) if random.random() < 0.2 else out


def an_end(random: Random, op: str, names: tuple[str, ...]) -> Expr:
    """A bound of a loop."""
    one = a_form(random, names)
    return combine(op, one, a_form(random, names)) if random.random() < 0.3 else one


def points(names: tuple[str, ...], ends: list[tuple[Expr, Expr]], size: int) -> list[dict[str, int]]:
    """The iterations of a nest."""
    found = [{"N": size}]
    for name, (lower, upper) in zip(names, ends, strict=True):
        found = [{**each, name: k} for each in found for k in range(evaluate_index(lower, each), evaluate_index(upper, each))]
    return found


def test_what_is_said_to_differ_differs():
    random, names, said = Random(7), ("i", "j", "k"), 0
    for _ in range(2500):
        facts = Facts(1 << 31)
        facts.sizes.add("N")
        ends: list[tuple[Expr, Expr]] = []
        for number, name in enumerate(names):
            lower, upper = (an_end(random, op, names[:number]) for op in ("max", "min"))
            ends.append((lower, upper))
            facts.ranges[name] = linear(lower, facts), linear(upper, facts)
        one, other = a_form(random, names), a_form(random, names)
        if not always_differ(linear(one, facts), linear(other, facts), facts):
            continue
        said += 1
        for size in range(5):
            for point in points(names, ends, size):
                assert evaluate_index(one, point) != evaluate_index(other, point), (one, other, ends, point)
    assert said > 250


TOLD = {
    "rows by number": "for i in 2..N:\n    for j in 0..N:\n        x[1, j] = max(x[1, j], x[0, i])",
    "the row before": "for i in 1..N:\n    for j in 1..N:\n        x[i, j] = x[i - 1, j - 1] + x[i, j]",
    "in turns": "for i in 0..N:\n    for j in 1..N - 1:\n        x[(i + 1) % 2, j] = x[i % 2, j - 1] + x[i % 2, j + 1]",
    "rows above": "for i in 0..N:\n    for k in 0..i:\n        for j in 0..N:\n            x[i, j] -= y[i, k] * x[k, j]",
    "elements before": "for i in 1..N:\n    for j in 0..i:\n        x[0, i] -= y[i, j] * x[0, j]",
}
NOT_TOLD = {
    "by parameters": "for i in 0..N:\n    for j in 1..N:\n        x[p, j] = x[q, j - 1] + 1.0",
    "one row": "for i in 0..N:\n    for j in 1..N:\n        x[i, j] = x[i, j - 1] + 1.0",
    "every other": "for i in 0..N:\n    for j in 1..N - 1:\n        x[(i + 2) % 2, j] = x[i % 2, j - 1] + x[i % 2, j]",
    "rows up to its own": "for i in 0..N:\n    for k in 0..i + 1:\n        for j in 0..N:\n            x[i, j] -= y[i, k] * x[k, j]",
    "elements up to its own": "for i in 1..N:\n    for j in 0..i + 1:\n        x[0, i] -= y[i, j] * x[0, j]",
    "where data says": "for i in 0..N:\n    for j in 0..N:\n        x[i, j] = x[rows[i], j] + 1.0",
}
HEAD = "kernel k(inout x: f32[N, N], y: f32[N, N], rows: i64[N], p: i64, q: i64):\n    assume N >= 2 and p >= 0 and q >= 0 and p < N and q < N\n"


def llvm(text: str) -> str:
    lines = "".join(f"    {line}\n" for line in text.splitlines())
    kernel = load_all(Source("k.lf", HEAD + lines), target="cpu")["k"].with_options(fuel=0, reassociate=False)
    return kernel.compile("cpu", emit={"llvm"}).llvm


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", TOLD)
def test_rows_that_never_meet_are_told(name: str):
    text = llvm(TOLD[name])
    assert "noalias.scope.decl" in text
    own = re.findall(r"store float .*!alias\.scope (!\d+), !noalias (!\d+)", text)
    assert own and any(f"!alias.scope {scope}" in text and scope != other for scope, other in own)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", NOT_TOLD)
def test_rows_that_may_meet_are_not(name: str):
    assert "alias.scope" not in llvm(NOT_TOLD[name])
