"""The limits that keep planning short, each where it bites."""

from __future__ import annotations

import time

import islpy
import pytest
from bombs import SLOW, _apart

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import Options, parse_target
from loopfuse.plan.fusion import fuse
from loopfuse.poly import isl, isl_budget


def test_a_plan_computes_few_values_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the limit loops stay apart, the report says so, and what was fused is proved."""
    monkeypatch.setattr(fuse, "MAX_ANEW", 12)
    program = pipeline.read_program(Source("k.lf", _apart(24)))
    planned = pipeline.plan_kernel(program, "k", Options(target=parse_target("sm_90")))
    assert planned.verdict.answer == "proved"
    assert 1 < planned.report.launches_after < 25
    reasons = [d.reason for d in planned.plan.decisions if not d.fused]
    assert "the kernels of one plan compute at most 12 values anew" in reasons


def test_deep_nests_may_ask_less() -> None:
    with isl.spending(1200) as budget:
        isl.weigh(isl_budget.SHALLOW)
        assert (budget.question, budget.left) == (1200, 1200 * isl_budget.QUESTIONS)
        isl.weigh(2 * isl_budget.SHALLOW)
        assert (budget.question, budget.left) == (600, 600 * isl_budget.QUESTIONS)


def test_pieces_of_many_dimensions_are_not_merged() -> None:
    """Comparing two pieces takes time with the fifth power of the dimensions: 120 s here, once."""
    start = time.thread_time()
    program = pipeline.read_program(Source("k.lf", SLOW["30 deep loops"]()))
    with isl.spending():
        pipeline.check_kernel(program, "k")
    assert time.thread_time() - start < 5.0
    few = islpy.Map("{ [i] -> [j] : 0 <= i < 5 and j = i; [i] -> [j] : 5 <= i < 9 and j = i }")
    assert isl.simplified(few).n_basic_map() == 1
