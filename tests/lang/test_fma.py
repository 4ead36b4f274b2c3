"""`fma(a, b, c)` is rounded once, whatever `fp` says, and is a step of a sum where it adds to what it
assigns; the Python door reads `math.fma`."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import LoopfuseError, Source
from loopfuse.frontend.lf.door import parse
from loopfuse.lang.check.check import check
from loopfuse.lang.interp import interpret
from loopfuse.lang.nodes import Kernel
from loopfuse.lang.printer import print_kernel

F64 = loopfuse.f64["N"]
EACH = """
kernel each(a: {0}[N], b: {0}[N], c: {0}[N], out y: {0}[N]):
    for i in 0..N:
        y[i] = {1}
"""
SUM = """
kernel total(x: f32[N], w: f32[N], inout z: f32[1]):
    for i in 0..N:
        z[0] = {}
"""


def kernel(text: str, fp: str) -> Kernel:
    """The only kernel of `text`."""
    return check(parse(Source("test.lf", text)), fp=fp).kernels[0]


@pytest.mark.parametrize("fp", ["fast", "strict"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_one_rounding(fp: str, dtype: str) -> None:
    kind = np.float32 if dtype == "f32" else np.float64
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(50).astype(kind) for _ in "ab")
    c = (-a * b).astype(kind)  # what is left is the rounding error of the product
    found = interpret(
        kernel(EACH.format(dtype, "fma(a[i], b[i], c[i])"), fp), {"a": a, "b": b, "c": c}, {"N": 50}
    )
    exact = [
        kind(float(Fraction(float(p)) * Fraction(float(q)) + Fraction(float(r))))
        for p, q, r in zip(a, b, c)
    ]
    assert np.array_equal(found["y"], np.array(exact, kind))
    assert np.count_nonzero(found["y"]) > 25
    twice = interpret(
        kernel(EACH.format(dtype, "a[i]*b[i] + c[i]"), "strict"),
        {"a": a, "b": b, "c": c},
        {"N": 50},
    )
    assert not twice["y"].any()


@pytest.mark.parametrize("fp", ["fast", "strict"])
def test_an_fma_onto_what_it_assigns_is_a_sum(fp: str) -> None:
    assert "[sum]" in print_kernel(kernel(SUM.format("fma(x[i], w[i], z[0])"), fp))


@pytest.mark.parametrize("fp", ["fast", "strict"])
@pytest.mark.parametrize("value", ["fma(x[i], z[0], w[i])", "fma(z[0], z[0], z[0])"])
def test_any_other_fma_is_no_sum(fp: str, value: str) -> None:
    assert "[sum]" not in print_kernel(kernel(SUM.format(value), fp))


def test_integers_are_refused() -> None:
    with pytest.raises(LoopfuseError) as caught:
        kernel(EACH.format("i32", "fma(a[i], b[i], c[i])"), "fast")
    first = caught.value.diagnostics[0]
    assert first.code == "fma-of-integers"
    assert (first.span.line, first.span.column) == (4, 16)
    assert first.fix == "write `a*b + c`, which is exact for integers"


@pytest.mark.skipif(not hasattr(math, "fma"), reason="math.fma is new in Python 3.13")
def test_python_reads_math_fma() -> None:
    @loopfuse.kernel
    def each(a: F64, b: F64, c: F64, y: loopfuse.Out[F64]) -> None:
        for i in range(len(y)):
            y[i] = math.fma(a[i], b[i], c[i])

    a, b = np.random.default_rng(4).standard_normal((2, 20))
    c, y = -a * b, np.zeros(20)
    each(a, b, c, y)
    assert y.tolist() == [math.fma(p, q, r) for p, q, r in zip(a.tolist(), b.tolist(), c.tolist())]
