"""Division by constants as multiplication: every significand of some divisors, and the compiled
loops with all kinds of operands."""

from __future__ import annotations

import ctypes
import math
import struct
import textwrap
from fractions import Fraction
from functools import cache
from typing import Any

import llvmlite.binding as binding
import numpy as np
import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import Options, Target
from loopfuse.codegen.llvm.passes import optimize, parse
from loopfuse.codegen.mlir import module as mlir_module
from loopfuse.codegen.mlir.emit import Emitter
from loopfuse.codegen.select.constant_division import is_exact, reciprocal_of, round_to
from loopfuse.codegen.targets.assemble import assemble, find_ptxas
from loopfuse.codegen.targets.native import new_host_machine
from loopfuse.lang import nodes as n
from loopfuse.tree import looptree as t

from .trees import CPU, F32, F64, M, add, buffer, compute, it, kernel, launch, load, loop, mul

from .trees import op, param, run_cpu, size, tree  # isort: skip

N = size("N")
DIVISORS = (3.0, 12.0, -7.0, 0.1, 255.0, 1.0e-3)
MORE = (
    *(float(k) for k in range(3, 300) if k & (k - 1)),
    *(0.2, 0.3, 0.7, 1.1, 1.5, 2.54, math.pi, math.e, math.sqrt(2.0), 1e6, 1e9, 1e-6, 65535.0),
    *(1.0 + 2.0**-23, 2.0 - 2.0**-23, 1.0 / 3.0, 1.0 / 12.0, 4095.0, 299792458.0),
)
REFUSED = ("0x1.6d2f06p+0", "0x1.f8b5a6p+0", "0x1.5b70f6p+0")
"""Divisors of which the sequence is wrong for some operand, whatever the last bits of `low`."""

TRY_ALL = """
define i64 @wrong(float %c, float %high, float %low) {
entry:
  br label %loop
loop:
  %k = phi i32 [ 1065353216, %entry ], [ %next, %loop ]
  %count = phi i64 [ 0, %entry ], [ %more, %loop ]
  %x = bitcast i32 %k to float
  %want = fdiv float %x, %c
  %u = fmul float %low, %x
  %got = call float @llvm.fma.f32(float %high, float %x, float %u)
  %bad = fcmp une float %want, %got
  %one = zext i1 %bad to i64
  %more = add i64 %count, %one
  %next = add i32 %k, 1
  %end = icmp eq i32 %next, 1073741824
  br i1 %end, label %out, label %loop
out:
  ret i64 %more
}
declare float @llvm.fma.f32(float, float, float)
"""


def single(value: float) -> float:
    return float(np.float32(value))


@cache
def engine() -> Any:
    module = parse(TRY_ALL)
    machine = new_host_machine(CPU)
    optimize(module, machine, vectorize=True)
    made = binding.create_mcjit_compiler(module, machine)
    made.finalize_object()
    return made


def count_wrong(divisor: float, high: float, low: float) -> int:
    """For how many of the 2**23 significands the sequence is not the division."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_float, ctypes.c_float, ctypes.c_float)
    return kind(engine().get_function_address("wrong"))(divisor, high, low)


@pytest.mark.parametrize("divisor", DIVISORS)
def test_every_significand(divisor: float) -> None:
    found = reciprocal_of(single(divisor), 32)
    assert found is not None
    assert count_wrong(single(divisor), found.high, found.low) == 0


@pytest.mark.slow
def test_every_significand_of_many_divisors() -> None:
    random = np.random.default_rng(5)
    some = random.uniform(1.0, 2.0, 500).astype(np.float32)
    for divisor in (*map(single, MORE), *map(float, some)):
        found = reciprocal_of(divisor, 32)
        if found is not None:
            assert count_wrong(divisor, found.high, found.low) == 0, divisor


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_proved_is_wrong(text: str) -> None:
    """The check refuses nothing for want of patience: some operand tells the sequence apart."""
    divisor = float.fromhex(text)
    exact = Fraction(divisor)
    high = Fraction(math.floor(1 / exact * 2**24), 2**24)
    low = round_to(1 / exact - high, 24)
    assert not is_exact(exact, high, low, 24)
    assert count_wrong(divisor, float(high), float(low)) > 0


def test_few_bits_against_all_operands() -> None:
    """Formats of 5 to 8 bits: the check agrees with trying every operand, for every divisor."""
    refused = 0
    for precision in range(5, 9):
        for c in range(2 ** (precision - 1) + 1, 2**precision):
            divisor = Fraction(c)
            unit = Fraction(1, 2 ** (2 * precision - 1))
            high = math.floor(1 / divisor / unit) * unit
            if high == 1 / divisor:
                continue
            low = round_to(1 / divisor - high, precision)
            right = all(
                round_to(high * x + round_to(low * x, precision), precision)
                == round_to(Fraction(x) / divisor, precision)
                for x in range(2 ** (precision - 1), 2**precision)
            )
            assert is_exact(divisor, high, low, precision) == right
            refused += not right
    assert refused > 0


@pytest.mark.parametrize("bits", [32, 64])
def test_no_reciprocal(bits: int) -> None:
    """Powers of two are LLVM's business; zeros, infinities, NaN and extremes are divided by."""
    tiny, large = (2.0**-126, 3e38) if bits == 32 else (2.0**-1022, 1.7e308)
    for divisor in (0.0, -0.0, math.inf, math.nan, 1.0, -2.0, 0.25, tiny * 1.5, large):
        assert reciprocal_of(divisor, bits) is None


# --------------------------------------------------------------------------- compiled loops


def operands(bits: int, divisor: float) -> np.ndarray:
    """Random bit patterns, small numbers, and all kinds of ends."""
    random = np.random.default_rng(bits)
    word, kind = (np.uint32, np.float32) if bits == 32 else (np.uint64, np.float64)
    found = reciprocal_of(divisor, bits)
    assert found is not None
    info = np.finfo(kind)
    ends = [0.0, found.least, info.max, info.tiny, info.smallest_subnormal, math.inf, math.nan, 1.0]
    ends += [float(np.nextafter(kind(end), kind(0))) for end in ends[1:5]]
    ends += [k * float(info.smallest_subnormal) for k in range(1, 200)]
    ends += [divisor * k * float(info.smallest_subnormal) for k in range(1, 60)]
    ends = [sign * end for end in ends for sign in (1.0, -1.0)]
    patterns = random.integers(0, 2**bits - 1, 20_000, dtype=word).view(kind)
    normal = random.standard_normal(20_000).astype(kind)
    out = np.concatenate([np.array(ends, kind), patterns, normal])
    return out[: len(out) // 4 * 4]


@pytest.mark.parametrize("divisor", [12.0, -7.0, 0.1])
@pytest.mark.parametrize("dtype", [F32, F64])
def test_compiled_loop(dtype: Any, divisor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop as windows have it, its divisions multiplied, here by a CPU."""

    class Multiplying(Emitter):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.multiplies = True

    bits = dtype.bytes * 8
    constant = single(divisor) if bits == 32 else divisor
    x = operands(bits, constant)
    program = kernel(param("x", N, dtype=dtype), param("y", N, dtype=dtype, mode="out"))
    place = add(mul(it("i"), 4), it("v"))
    quotient = n.Binary("div", load("x", place, dtype=dtype), n.Const(constant, dtype), dtype)
    made = tree(
        program,
        launch(loop("i", 0, op("floordiv", N, 4), M.THREAD,
            loop("v", 0, 4, M.UNROLLED, compute(load("r", it("v"), dtype=dtype), quotient)),
            loop("v", 0, 4, M.UNROLLED,
                 compute(load("y", place, dtype=dtype), load("r", it("v"), dtype=dtype))))),
        buffers=(buffer("r", t.Register(), 4, dtype=dtype),),
    )  # fmt: skip
    monkeypatch.setattr(mlir_module, "Emitter", Multiplying)
    y = np.zeros_like(x)
    lowered = run_cpu(made, program, {"x": x, "y": y, "N": len(x)}, CPU)
    assert lowered.mlir.count("math.fma") == 4
    assert lowered.mlir.count("arith.divf") == 4
    with np.errstate(all="ignore"):
        wanted = x / x.dtype.type(constant)
    known = ~np.isnan(wanted)
    assert np.isnan(y[~known]).all()
    word = np.uint32 if bits == 32 else np.uint64
    np.testing.assert_array_equal(y[known].view(word), wanted[known].view(word))


GRADIENT = """
    kernel f(g: f32[H, W], out e: f32[H, W]):
        temp d: f32[H, W]
        for y in 1..H-1, x in 1..W-1:
            d[y, x] = (g[y-1, x] - g[y+1, x]) / 12.0
        for y in 2..H-2, x in 2..W-2:
            e[y, x] = d[y, x-1] * d[y, x+1] / 3.0
    """


@pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas")
def test_machine_code() -> None:
    """Windows divide behind one test for each row of a stage; nothing else changes in the PTX."""
    program = pipeline.read_program(Source("t.lf", textwrap.dedent(GRADIENT)))
    ptx = pipeline.compile_kernel(program, "f", Options(target=Target("sm_90"))).ptx
    assert "fma.rn.f32" in ptx
    assert f"0f{struct.pack('>f', reciprocal_of(12.0, 32).high).hex().upper()}" in ptx  # pyright: ignore
    made: Any = assemble(ptx, Target("sm_90"))
    assert set(made[2].values()) == {0}


def test_what_a_loop_may_not_do_twice() -> None:
    """An update of memory or of a register from before is divided as it is written."""
    program = pipeline.read_program(
        Source(
            "t.lf",
            textwrap.dedent(
                """
                kernel f(inout g: f32[N]):
                    for i in 0..N:
                        g[i] = g[i] / 12.0
                """
            ),
        )
    )
    ptx = pipeline.compile_kernel(program, "f", Options(target=Target("sm_90"))).ptx
    assert "div.rn.f32" in ptx
    assert "fma.rn.f32" not in ptx
