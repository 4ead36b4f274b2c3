"""The budget of code: what the table says is what code generation makes, and long code is not planned."""

from __future__ import annotations

import re

import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import Options, Target
from loopfuse.lang import ops
from loopfuse.plan.strategies.sliding.windows.code_size import FUNCTIONS

GPU = Target("sm_90")


def compiled(text: str, what: str) -> str:
    """The LLVM IR or the PTX of the only kernel in `text`."""
    program = pipeline.read_program(Source("t.lf", text))
    made = pipeline.compile_kernel(program, program.kernels[0].name, Options(target=GPU), emit={what})
    return made.llvm if what == "llvm" else made.ptx


OURS = {row.name: row.arity for row in ops.OPERATIONS if row.made == "ours"}


@pytest.mark.parametrize("name", sorted(OURS))
def test_functions_are_as_long_as_the_table_says(name: str) -> None:
    for dtype, size in zip(("f32", "f64"), FUNCTIONS[name], strict=True):
        call = f"{name}({', '.join(['x[i]'] * OURS[name])})"
        text = f"kernel k(x: {dtype}[N], out y: {dtype}[N]):\n    for i in 0..N:\n        y[i] = {call}\n"
        found = re.search(rf"define [^\n]*@lf_{name}_{dtype}\(.*?^}}", compiled(text, "llvm"), re.M | re.S)
        if found is None:  # vectors
            pattern = rf"define [^\n]*@lf_{name}_{dtype}x\d+\(.*?^}}"
            found = re.search(pattern, compiled(text, "llvm"), re.M | re.S)
        assert found is not None
        made = sum(line.startswith("  ") for line in found[0].splitlines())
        assert made / 1.5 <= size <= 1.5 * made, made


STEPS = """
kernel k(inout u: f32[2, H, W], steps: i64):
    for t in 0..steps:
        for y in 0..H-1, x in 1..W:
            u[(t+1) % 2, y, x] = fmax(u[t % 2, y+1, x-1] {op}, 0.125)
"""

VOLUME = """
kernel k(x: f16[D, H, W], out y: f16[D, H, W]):
    temp s: f16[D, H, W]
    for i in 0..D, j in 0..H, k in 0..W:
        s[i, j, k] = x[i, j, k] * f16(0.5)
    for i in 1..D-1, j in 1..H-1, k in 1..W-1:
        y[i, j, k] = s[i-1, j, k] // f16(1.5) + s[i+1, j, k] // f16(1.5) + s[i, j-1, k] % f16(1.5)
"""


@pytest.mark.parametrize("text", [STEPS.format(op="// (-0.6)"), STEPS.format(op="% 0.7"), VOLUME])
def test_what_would_be_long_is_not_written_out(text: str) -> None:
    """Blocks of time steps and windows of remainders were megabytes of PTX."""
    assert len(compiled(text, "ptx")) < 200_000


def test_what_is_short_is() -> None:
    text = STEPS.format(op="* 0.6")
    program = pipeline.read_program(Source("t.lf", text))
    planned = pipeline.plan_kernel(program, "k", Options(target=GPU))
    assert any(kernel.strategy == "sliding" for kernel in planned.report.kernels)


MANY = """
kernel k(inout a: {dtype}[H, W], inout b: {dtype}[H, W], steps: i64):
    for t in 0..steps:
        for y in 1..H-1, x in 1..W-1:
            b[y, x] = {function}(a[y-1, x]{second}) + {function}(a[y+1, x]{second}) + {function}(a[y, x]{second})
        for y in 1..H-1, x in 1..W-1:
            a[y, x] = {function}(b[y-1, x]{second}) + {function}(b[y+1, x]{second})
"""


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(("function", "second"), [("sin", ""), ("pow", ", 1.3"), ("fmod", ", 0.7")])
def test_what_would_be_copied_very_often_is_called(function: str, second: str, dtype: str) -> None:
    """Copies of `sin` at five places were 9 MB of PTX, for which a first call took 40 s."""
    assert len(compiled(MANY.format(function=function, second=second, dtype=dtype), "ptx")) < 400_000


def test_what_is_copied_a_few_times_is_not_called() -> None:
    text = "kernel k(x: f32[N], out y: f32[N]):\n    for i in 0..N:\n        y[i] = sin(x[i]) ** x[i]\n"
    assert ".func" not in compiled(text, "ptx")
