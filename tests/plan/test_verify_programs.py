"""The checker proves what the planner makes of whole programs, fused and not, for both devices."""

from __future__ import annotations

import pytest

from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU, Options, Target
from loopfuse.pipeline import plan_kernel, read_program

PROGRAMS = {
    "reduction under a condition on data": """
kernel k(x: f32[R, C], out y: f32[R]):
    for r in 0..R:
        if x[r, 0] > 1.5:
            y[r] = 1.0
        else:
            y[r] = sum(c in 0..C: x[r, c] * x[r, c])
""",
    "var under a condition on data": """
kernel k(x: f32[R, C], out y: f32[R]):
    for r in 0..R:
        if x[r, 0] > 0.0:
            var s: f32 = 0.0
            for c in 0..C:
                if x[r, c] > 0.0:
                    s += x[r, c]
            y[r] = s
""",
    "an argument that is never really written": """
kernel k(a: f32[N], inout b: f32[N]):
    for i in 2..N:
        if i == 1:
            b[i] = a[i]
""",
    "swapped arrays under a condition on data": """
kernel k(inout b: f32[M], inout d: f32[M], inout c: f32[M], steps: i64):
    for t in 0..steps:
        for i in 0..M:
            if c[i] > 0.0:
                c[i] = sum(p in 0..M: d[p])
                b[i] = c[i]
        swap b, d
""",
    "sums added to cells": """
kernel k(x: f32[R, C], inout total: f32[2], inout s: f32[R]):
    for r in 0..R, c in 0..C:
        total[0] += x[r, c]
    for r in 0..R:
        for c in 0..C:
            s[r] += x[r, c]
""",
    "every edge mode": """
kernel k(a: i32[N], out b: i32[N]):
    for i in 0..N:
        b[i] = a.wrap[i - 3] + a.reflect[i + 2] + a.symmetric[i - 2] + a.zero[i + 1] + a.clamp[i - 1]
""",
}


@pytest.mark.filterwarnings("error")  # no second try without fusion
@pytest.mark.parametrize("fuel", [None, 0])
@pytest.mark.parametrize("target", [CPU, Target("sm_90")], ids=["cpu", "gpu"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_planned_programs_are_proved(name: str, target: Target, fuel: int | None) -> None:
    program = read_program(Source("test.lf", PROGRAMS[name]))
    planned = plan_kernel(program, "k", Options(target=target, fuel=fuel))
    assert planned.verdict.answer == "proved", planned.verdict
