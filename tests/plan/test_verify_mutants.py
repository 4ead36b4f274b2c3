"""The checker against random changes to planned trees: what it proves computes the right thing."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from fuzz.choices import RandomChoices
from fuzz.generate import generate

from loopfuse.base.diagnostics import LoopfuseError, Source
from loopfuse.base.machine import machine_of
from loopfuse.base.options import CPU, Options, Target
from loopfuse.frontend.lf.door import parse
from loopfuse.lang.check.check import check
from loopfuse.lang.index import evaluate_index
from loopfuse.lang.interp import interpret
from loopfuse.lang.nodes import Kernel
from loopfuse.pipeline import plan_kernel, read_program
from loopfuse.plan.fusion.cost import CostModel
from loopfuse.plan.fusion.fuse import Planner
from loopfuse.plan.schedule import build_tree
from loopfuse.plan.units.rules import Rules
from loopfuse.poly.build import build_model
from loopfuse.poly.deps import find_dependences
from loopfuse.poly.model import Dependences, PolyProgram
from loopfuse.proof.check import verify
from loopfuse.tree.interp.run import run_tree
from loopfuse.tree.looptree import LoopTree
from tests.plan import mutate_headers, mutate_planned, mutate_windows, mutate_written
from tests.plan.mutate import mutate
from tests.plan.mutate_table import ORDERS, RECOMPUTED, Base, Made, arguments, equal, run

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
    machine = machine_of("sm_90" if device == "gpu" else "cpu")
    plan = Planner(program, deps, CostModel(program, machine, {}), True, fuel).plan()
    return program, deps, build_tree(program, deps, plan, device, Rules(machine, tuning=RECOMPUTED)).tree


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
        for seed in range(12):
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


# ------------------------------------------------------------------------------------ many mutants


@dataclass
class Tally:
    """How many mutants were tried, and how many of them the checker proved."""

    tried: int = 0
    proved: int = 0
    trees: int = 0


def try_mutants(
    made: Made, sizes: dict[str, int], seeds: Iterable[int], tally: Tally, note: str
) -> None:
    """Every mutant of a tree that is proved computes what the tree computes, in any order.

    Where the tree keeps the order of all reductions, mutants must too, so that bits can be
    compared; elsewhere whole numbers make sums exact.
    """
    exact = verify(made.program, made.dependences, made.tree, False).answer == "proved"
    given = arguments(made, sizes)
    if not exact:
        given = {k: np.round(4 * v) if isinstance(v, np.ndarray) and v.dtype.kind == "f" else v
                 for k, v in given.items()}  # fmt: skip
    right = run(made.tree, given, sizes, "forward", True)
    tally.trees += 1
    for seed in seeds:
        mutant = mutate(made.tree, seed)
        if mutant is None:
            continue
        changed, what = mutant
        verdict = verify(made.program, made.dependences, changed, not exact)
        tally.tried += 1
        if verdict.answer != "proved":
            assert verdict.findings
            continue
        tally.proved += 1
        for order in ORDERS:
            for aligned in (True, False):
                found = run(changed, given, sizes, order, aligned)
                for name, value in right.items():
                    assert equal(value, found[name]), (note, seed, what, name, order, aligned)


TREES = [
    *mutate_written.BASES, *mutate_planned.BASES, *mutate_headers.BASES, *mutate_windows.BASES,
]  # fmt: skip


@pytest.mark.parametrize("base", TREES, ids=lambda base: base.name)
def test_mutants_of_the_table(base: Base) -> None:
    tally = Tally()
    # The last sizes of windows are those that have a tile inside.
    sizes = base.sizes[-1 if base in mutate_windows.BASES else 0]
    for seeds in (range(4), range(4, 12)):  # some find nothing to change
        if not tally.tried:
            try_mutants(base.make(), sizes, seeds, tally, base.name)
    assert tally.tried >= 1


def try_random_program(number: int, mutants: int, tally: Tally) -> None:
    """Mutants of the trees of one random program, fused and not, for both devices."""
    program = generate(RandomChoices(number))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        core = read_program(Source("random.lf", program.text))
    for target in (CPU, Target("sm_90")):
        for fuel in (None, 0):
            options = Options(target=target, fuel=fuel, reassociate=False)
            try:
                plan = plan_kernel(core, core.kernels[-1].name, options)
            except LoopfuseError:
                return
            made = Made(plan.program, plan.dependences, plan.tree)
            sizes = {**program.sizes, **program.scalars}
            note = f"random program {number} {target.name} fuel={fuel}"
            seeds = range(number * mutants, (number + 1) * mutants)
            try_mutants(made, sizes, seeds, tally, note)


@pytest.mark.filterwarnings("ignore")
def test_mutants_of_random_programs() -> None:
    tally = Tally()
    for number in range(6):
        try_random_program(number, 3, tally)
    assert tally.tried > 20


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_20_000_mutants() -> None:
    """`LOOPFUSE_MUTANTS=n` of them; prints how many."""
    wanted, tally, number = int(os.environ.get("LOOPFUSE_MUTANTS", "20000")), Tally(), 0
    while tally.tried < wanted // 2:
        for base in TREES:
            try_mutants(
                base.make(), base.sizes[-1 if base in mutate_windows.BASES else 0], range(100 + 20 * number, 120 + 20 * number), tally, base.name
            )
        number += 1
    number = 100
    while tally.tried < wanted:
        try_random_program(number, 20, tally)
        number += 1
    print(f"\n{tally.tried} mutants of {tally.trees} trees, {tally.proved} proved, all right")
