"""Rows of bf16: the PTX of the kernels, run on the machine of `tests/ptx_machine.py` against the tree's interpreter, bit for
bit, for rows of whole vectors and others, of arrays that are aligned and others."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))

from ptx_runs import compiled, run

from loopfuse.base.options import Tuning
from loopfuse.plan.strategies.rows import sizes as sizes_of_teams
from loopfuse.tree.looptree import ALIGNED, Guard, Loop, Mapping, TreeNode
from loopfuse.tree.walk import map_nodes, walk_nodes, without_written_out

SOFTMAX = """
kernel f(x: bf16[R, C], out y: bf16[R, C]):
    temp e: f32[R, C]
    for r in 0..R:
        let m = max(c in 0..C: x[r, c])
        for c in 0..C:
            e[r, c] = exp(x[r, c] - m)
        let s = sum(c in 0..C: e[r, c])
        for c in 0..C:
            y[r, c] = e[r, c] / s
"""
NORM = """
kernel f(x: bf16[R, C], z: bf16[R, C], gamma: bf16[C], out y: bf16[R, C]):
    temp v: f32[R, C]
    for r in 0..R, c in 0..C:
        v[r, c] = x[r, c] + z[r, c]
    for r in 0..R:
        let mean = sum(c in 0..C: v[r, c]) / C
        let scale = rsqrt(sum(c in 0..C: (v[r, c] - mean) ** 2) / C + 1.0e-5)
        for c in 0..C:
            y[r, c] = (v[r, c] - mean) * scale * gamma[c]
"""
ENTROPY = """
kernel f(x: bf16[R, C], out loss: f32[R]):
    for r in 0..R:
        let m = max(c in 0..C: f32(x[r, c]))
        let s = sum(c in 0..C: exp(f32(x[r, c]) - m))
        loss[r] = log(s) - m
"""


def plain(name: str, shape: list[int]) -> Any:
    return 3 * np.random.default_rng(5).standard_normal(shape)


def hard(name: str, shape: list[int]) -> Any:
    """Rows with masked places, far apart, of nothing but -inf, at the ends of exp's range, with a NaN and an inf."""
    x = plain(name, shape)
    x[0, ::3], x[1], x[2] = -np.inf, 40 * x[1] + 1000, -np.inf
    x[3, 1:], x[3, 0], x[4, 7], x[5, 9] = -88, 0, np.nan, np.inf
    return x


@pytest.mark.parametrize(("length", "offset"), ((1032, 0), (1032, 1), (1033, 0), (1034, 0), (1033, 1)))
def test_softmax_of_hard_rows(length: int, offset: int) -> None:
    stored = run(SOFTMAX, Tuning(), {"R": 6, "C": length}, offset, strategy="", data_of=hard)
    shared = 6 * 2 * 4  # what four warps leave each other, of two sums a row
    if offset:
        assert stored == {2: 6 * length, 4: shared}
    elif length % 8:  # pairs in every row, wherever it starts, and one place that is in none where there is
        assert stored.get(4) == 6 * (length // 2) + shared and stored.get(2, 0) == 6 * (length % 2)
    else:
        assert stored == {16: 6 * length // 8, 4: shared}


@pytest.mark.parametrize(
    ("text", "length"), ((SOFTMAX, 16392), (SOFTMAX, 20001), (NORM, 2048), (NORM, 1041), (NORM, 17000)),
    ids=("softmax long", "softmax long odd", "norm", "norm odd", "norm long"),
)  # fmt: skip
def test_rows(text: str, length: int) -> None:
    for offset in (0, 1):
        run(text, Tuning(), {"R": 1, "C": length}, offset, strategy="", data_of=plain)


MIXED = """
kernel f(x: {x}[R, C], w: {w}[C], out total: i32[R], out y: {y}[R, C]):
    for r in 0..R:
        let most = max(c in 0..C: i32(x[r, c]))
        total[r] = sum(c in 0..C: (i32(x[r, c]) - most) * i32(w[c]))
        for c in 0..C:
            y[r, c] = {y}(i32(x[r, c]) * i32(w[c]) % 100)
"""


@pytest.mark.parametrize("types", (("u8", "i16", "i32"), ("i16", "u8", "u8"), ("f16", "bf16", "f16")), ids="-".join)
def test_rows_of_other_narrow_types(types: tuple[str, str, str]) -> None:
    text = MIXED.format(**dict(zip("xwy", types, strict=True)))
    for length in (1032, 5000, 17000):
        for offset in (0, 1):
            run(text, Tuning(), {"R": 2, "C": length}, offset, strategy="")


@pytest.mark.parametrize("length", (16392, 33000, 20001, 57352))
def test_rows_that_shared_memory_keeps(length: int) -> None:
    run(ENTROPY, Tuning(), {"R": 1, "C": length}, 0, strategy="", data_of=plain)


AGAIN = """
kernel f(x: bf16[R, C], out y: bf16[R, C]):  # which teams are small is no part of the text: this says it
    for r in 0..R:
        let m = max(c in 0..C: f32(x[r, c]))
        let s = sum(c in 0..C: exp(f32(x[r, c]) - m))
        for c in 0..C:
            y[r, c] = exp(f32(x[r, c]) - m) / s
"""
MADE = NORM.replace("):\n", "):  # the same\n", 1)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of more than 1,024 places are a block's of 128 threads, from 2,049 places on a cluster's, from 16,385 on read again."""
    teams = (("FEW_THREADS", 32), ("MORE_THREADS", 64), ("THREADS", 64), ("HELD", 16), ("HOLDING", ((1, 128), (8, 32), (8, 64), (8, 128))))
    for name, value in teams:
        monkeypatch.setattr(sizes_of_teams, name, value)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("length", (1032, 1033, 2056, 2057, 4104, 8200))
@pytest.mark.parametrize("text", (AGAIN, MADE), ids=("computed again", "made"))
def test_long_rows_that_are_held(text: str, length: int) -> None:
    for offset in (0, 1):
        run(text, Tuning(), {"R": 2, "C": length}, offset, strategy="", data_of=plain)


PLANES = """
kernel f(x: bf16[A, B, R, C], out y: bf16[A, B, R, C]):
    for a in 0..A, b in 0..B, r in 0..R:
        let s = sum(c in 0..C: f32(x[a, b, r, c]))
        for c in 0..C:
            y[a, b, r, c] = x[a, b, r, c] - s
"""


def test_rows_of_several_dimensions() -> None:
    run(PLANES, Tuning(), {"A": 2, "B": 1, "R": 1, "C": 1027}, 0, strategy="", data_of=plain)


def test_only_the_same_way_is_left_out_of_the_proof() -> None:
    """Guards on ALIGNED are one way for the checker where both do the same, and stay where one does more."""
    _, tree, _ = compiled(ENTROPY, Tuning(), strategy="")

    def guards(nodes: tuple[TreeNode, ...]) -> list[Guard]:
        return [node for node in walk_nodes(nodes) if isinstance(node, Guard) and node.condition == ALIGNED]

    assert sum(len(guards(launch.body)) for launch in tree.launches) > 3
    assert not any(guards(launch.body) for launch in without_written_out(tree).launches)

    def shorter(node: TreeNode) -> tuple[TreeNode, ...]:
        if not isinstance(node, Guard) or node.condition != ALIGNED:
            return (node,)
        return (Guard(node.condition, node.then, node.otherwise[:-1]),)

    def longer(node: TreeNode) -> tuple[TreeNode, ...]:
        if isinstance(node, Loop) and node.mapping is Mapping.VECTOR:
            return (Loop(node.var, node.lower, node.upper + 1, 1, node.mapping, node.body),)
        return (node,)

    for change in (shorter, longer):
        changed = map_nodes(change, tree)
        assert all(guards(launch.body) for launch in without_written_out(changed).launches if guards(launch.body))
        assert any(guards(launch.body) for launch in without_written_out(changed).launches)
