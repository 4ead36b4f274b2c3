"""The report's number of launches is what a call makes, also where loops of the host depend on one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb
from pathlib import Path
from typing import Any

import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.dtypes import DType
from loopfuse.base.options import CPU, Options, Target
from loopfuse.lang.index_text import to_python
from loopfuse.lang.nodes import Iter, Symbol, integer
from loopfuse.plan.report import over_turns
from loopfuse.poly.model import Loop

ROOT = Path(__file__).parents[2]
LUDCMP = ROOT / "tests" / "polybench" / "ludcmp.lf"


def launched(steps: Sequence[Any], values: Mapping[str, int]) -> int:
    """How often the manifest's steps launch, grids of nothing too."""
    total = 0
    for step in steps:
        if "launch" in step:
            total += 1
            continue
        loop = step["loop"]
        lower, upper, by = (int(eval(str(loop[name]), dict(values))) for name in ("lower", "upper", "step"))
        for turn in range(lower, upper, by):
            total += launched(loop["body"], {**values, loop["var"]: turn})
    return total


@pytest.mark.parametrize("target", [CPU, Target("sm_80")])
def test_triangles_of_launches_are_counted(target: Target) -> None:
    """Unfused, each entry of the lower triangle of LU is two launches or three."""
    program = pipeline.read_program(Source("ludcmp.lf", LUDCMP.read_text()))
    options = Options(target=target, fuel=0)
    planned = pipeline.plan_kernel(program, "ludcmp", options)
    made = pipeline.compile_kernel(program, "ludcmp", options, emit={"report"}, planned=planned)
    formula = str(planned.report.launches_after)
    assert str(planned.report.launches_before) == formula
    for n in (1, 2, 5, 9):
        assert eval(formula, {"N": n}) == launched(made.manifest["steps"], {"N": n})


@pytest.mark.parametrize("step", [1, 2, -1])
def test_sums_of_polynomials_are_exact(step: int) -> None:
    """Of degree 3, over a range that starts anywhere; beyond that every turn counts as the first."""
    i, n = Iter("i"), Symbol("N", DType.I64)
    each = i * i * n - i + 4
    lower, upper = (integer(2), n) if step > 0 else (n, integer(2))
    loop = Loop("i", lower, upper, step, "L1", 1)
    trips = (n - 2 + (abs(step) - 1)) // abs(step)
    text = to_python(over_turns(loop, trips, each))
    for size in (2, 3, 6, 11):
        turns = range(2, size, step) if step > 0 else range(size, 2, step)
        assert eval(text, {"N": size}) == sum(k * k * size - k + 4 for k in turns)


def test_triangles_in_triangles() -> None:
    """Three loops, each up to the one around it: the binomial coefficients."""
    text = integer(1)
    for name, upper in (("k", Iter("j")), ("j", Iter("i")), ("i", Symbol("N", DType.I64))):
        text = over_turns(Loop(name, integer(0), upper, 1, "L1", 1), upper, text)
    for size in (0, 1, 4, 9):
        assert eval(to_python(text), {"N": size}) == comb(size, 3)
