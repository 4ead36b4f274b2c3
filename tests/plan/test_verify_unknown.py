"""Where isl gives up, the checker does not know: it never proves, never accuses, never raises."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU, Options, Target, Tuning
from loopfuse.pipeline import plan_kernel, read_program
from loopfuse.poly import isl
from loopfuse.poly.deps import find_dependences
from loopfuse.poly.model import Dependences, PolyProgram
from loopfuse.proof.check import verify
from loopfuse.tree.looptree import LoopTree
from tests.plan.tree_examples import GOOD

ROOT = Path(__file__).parents[2]
SMALL = Tuning(steps=2)  # eight time steps are the same questions four times over
LIMITS = (1, 10, 100, 1000, 10_000, 100_000)
FILES = [
    *(ROOT / "examples" / f"{name}.lf" for name in (
        "unsharp", "softmax", "jacobi", "l2norm", "stats", "harris", "saxpy", "csr_matvec",
        "scatter_add", "linear_recurrence", "smith_waterman", "layernorm_backward", "wave",
        "transpose_add", "attention", "fdtd_2d")),
    *(ROOT / "tests" / "cases" / f"{name}.lf" for name in (
        "edge_wrap", "reduce_statements", "time_parity", "guarded_update_feeds_loop")),
]  # fmt: skip


def under_limits(
    program: PolyProgram, deps: Dependences, tree: LoopTree, limits: tuple[int, ...] = LIMITS
) -> list[str]:
    """The answers under each limit, the smallest first; then without any."""
    answers: list[str] = []
    raw = isl.context_of(program.context).raw
    for limit in limits:
        with isl.spending(limit):
            verdict = verify(program, deps, tree)
        raw.reset_operations()
        raw.set_max_operations(0)
        answers.append(verdict.answer)
        assert verdict.answer in ("proved", "unknown"), verdict
        if verdict.answer == "unknown":
            assert verdict.findings and "operation limit" in verdict.findings[-1], verdict
    assert verify(program, deps, tree).answer == "proved"
    return answers


@pytest.mark.parametrize("target", [CPU, Target("sm_90")], ids=["cpu", "gpu"])
@pytest.mark.parametrize(
    "limits",
    [(1, 1000, 100_000), pytest.param(LIMITS, marks=pytest.mark.slow)],
    ids=["three limits", "all limits"],
)
def test_planned_trees_under_any_limit(limits: tuple[int, ...], target: Target) -> None:
    seen: Counter[str] = Counter()
    for path in FILES:
        program = read_program(Source(path.name, path.read_text("utf-8")))
        for fuel in (None, 0):
            options = Options(target=target, fuel=fuel, tuning=SMALL)
            planned = plan_kernel(program, program.kernels[0].name, options)
            model = planned.program
            answers = under_limits(model, planned.dependences, planned.tree, limits)
            assert answers[0] == "unknown", path.name
            seen.update(answers)
    assert seen["unknown"] > 40 and seen["proved"] > 20, seen


@pytest.mark.parametrize("name", sorted(GOOD))
def test_trees_by_hand_under_any_limit(name: str) -> None:
    example = GOOD[name]()
    answers = under_limits(example.program, find_dependences(example.program), example.tree)
    assert answers[0] == "unknown"


def test_a_wrong_tree_is_never_proved_under_any_limit() -> None:
    from tests.plan import tree_examples as trees

    for broken in (trees.blur(shift=1), trees.tile(barrier=False), trees.total(twice=True)):
        deps = find_dependences(broken.program)
        raw = isl.context_of(broken.program.context).raw
        for limit in LIMITS:
            with isl.spending(limit):
                assert verify(broken.program, deps, broken.tree).answer in ("wrong", "unknown")
            raw.reset_operations()
            raw.set_max_operations(0)
