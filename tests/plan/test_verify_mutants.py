"""The checker against random changes to planned trees: what it proves computes the right thing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loopfuse.base.diagnostics import Source
from loopfuse.frontend.lf import parse
from loopfuse.lang.affine import evaluate_index
from loopfuse.lang.check import check
from loopfuse.lang.interp import interpret
from loopfuse.lang.nodes import Kernel
from loopfuse.plan.cost import CostModel
from loopfuse.plan.fuse import Planner
from loopfuse.plan.looptree import LoopTree
from loopfuse.plan.schedule import build_tree
from loopfuse.plan.tree_interp import run_tree
from loopfuse.plan.verify import verify
from loopfuse.poly.build import build_model
from loopfuse.poly.deps import find_dependences
from loopfuse.poly.model import Dependences, PolyProgram
from tests.plan.mutate import mutate

TEXTS = {
    "stencils": (
        """
kernel k(a: f64[H, W], out c: f64[H, W]):
    temp b: f64[H, W]
    for y in 0..H, x in 0..W:
        b[y, x] = a.clamp[y, x-1] + 2.0 * a[y, x] + a.clamp[y, x+1]
    for y in 0..H, x in 0..W:
        c[y, x] = b.clamp[y-1, x] + 3.0 * b[y, x] + b.clamp[y+1, x]
""",
        {"H": 4, "W": 5},
    ),
    "time": (
        """
kernel k(inout a: f64[N], inout b: f64[N], steps: i64):
    for t in 0..steps:
        for i in 1..N-1:
            b[i] = a[i-1] + 2.0 * a[i] + a[i+1]
        for i in 1..N-1:
            a[i] = b[i-1] - b[i+1]
""",
        {"N": 6, "steps": 3},
    ),
    "rows": (
        """
kernel k(x: f64[R, C], out y: f64[R, C], out m: f64[R]):
    for r in 0..R:
        let s = sum(c in 0..C: x[r, c])
        m[r] = s
        for c in 0..C:
            y[r, c] = x[r, c] - s
""",
        {"R": 3, "C": 4},
    ),
    "recurrence": (
        """
kernel k(x: f64[N], out y: f64[N], out z: f64[N]):
    for i in 0..N:
        y[i] = x[i] if i == 0 else y[i-1] + x[i]
    for i in 0..N:
        z[i] = y[N-1-i] * 2.0
""",
        {"N": 7},
    ),
    "sums with other writes between": (
        """
kernel k(c: f64[N], w: f64[M], inout z: f64[N]):
    for i in 1..N - 1, j in 0..M:
        if w[j] <= c[i]:
            for k in 0..M:
                z[i] += w[k] * c[i]
            z[i] = max(c[i + 1], z[i] - z[i - 1])
""",
        {"N": 4, "M": 3},
    ),
    "a sum under a condition": (
        """
kernel k(x: f64[N], inout total: f64[2]):
    for i in 0..N:
        if x[i] > 0.0:
            total[0] += x[i]
""",
        {"N": 5},
    ),
}


def planned(text: str, device: str, fuel: int | None) -> tuple[PolyProgram, Dependences, LoopTree]:
    kernel = check(parse(Source("<test>", text))).kernels[0]
    program = build_model(kernel)
    deps = find_dependences(program)
    plan = Planner(program, deps, CostModel(program, device, {}), True, fuel).plan()
    return program, deps, build_tree(program, deps, plan, device).tree


def wrong_at(kernel: Kernel, tree: LoopTree, sizes: dict[str, int], order: str) -> str:
    """The name of an array that comes out wrong, or ""."""
    random = np.random.default_rng(7)
    arguments: dict[str, object] = {}
    for array in kernel.arrays:
        shape = tuple(evaluate_index(extent, sizes) for extent in array.extents)
        arguments[array.name] = random.integers(-4, 5, shape).astype(np.float64)
    arguments |= {p.name: sizes[p.name] for p in kernel.scalars}
    expected = interpret(kernel, arguments, sizes)
    given = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
    run_tree(tree, given, sizes, order=order)
    return next((n for n, v in expected.items() if not np.array_equal(v, given[n])), "")


@pytest.mark.parametrize("device", ["cpu", "gpu"])
@pytest.mark.parametrize("name", sorted(TEXTS))
def test_what_is_proved_computes_the_right_thing(name: str, device: str) -> None:
    text, sizes = TEXTS[name]
    rejected = proved = 0
    for fuel in (None, 0):
        program, deps, tree = planned(text, device, fuel)
        assert verify(program, deps, tree).answer == "proved"
        assert not wrong_at(program.kernel, tree, sizes, "shuffled")
        for seed in range(20):
            mutant = mutate(tree, seed)
            if mutant is None:
                continue
            changed, what = mutant
            verdict = verify(program, deps, changed)
            assert not any("incompatible" in finding for finding in verdict.findings), what
            if verdict.answer != "proved":
                rejected += 1
                continue
            proved += 1
            for order in ("forward", "reverse"):
                assert not wrong_at(program.kernel, changed, sizes, order), what
    assert rejected > proved


def test_examples_are_proved() -> None:
    root = Path(__file__).parents[2] / "examples"
    for name in ("unsharp", "softmax", "jacobi", "matmul_bias_relu", "l2norm"):
        text = (root / f"{name}.lf").read_text(encoding="utf-8")
        for device in ("cpu", "gpu"):
            assert verify(*planned(text, device, None)).answer == "proved", (name, device)
