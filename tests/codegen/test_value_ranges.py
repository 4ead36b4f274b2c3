"""Ranges of values: every value computed lies in them, and clamps that do nothing are left away."""

from __future__ import annotations

import math
import random
import re
from fractions import Fraction

import numpy as np
import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.dtypes import DType
from loopfuse.base.options import CPU, Options, Target
from loopfuse.codegen.select.value_ranges import Range, of_type, range_of, ranges_of, rounded
from loopfuse.lang.interp import interpret
from loopfuse.lang.nodes import Const, Fma, Unary
from loopfuse.tree.looptree import Compute
from loopfuse.tree.walk import walk_nodes


def planned(text: str) -> pipeline.Planned:
    program = pipeline.read_program(Source("t.lf", text.lstrip()))
    return pipeline.plan_kernel(program, "f", Options(target=CPU))


def expression(chance: random.Random, leaves: list[str], depth: int) -> str:
    """A random expression of f32."""
    if depth == 0 or chance.random() < 0.15:
        number = chance.choice(["0.1", "0.33333334", "2.0", "-1.5", "255.0", "0.0", "1e-3", "16777217.0"])
        return chance.choice([*leaves, *leaves, number])
    parts = [expression(chance, leaves, depth - 1) for _ in range(3)]
    return chance.choice([
        "({0} + {1})", "({0} + {1})", "({0} - {1})", "({0} * {1})", "min({0}, {1})", "max({0}, {1})",
        "fma({0}, {1}, {2})", "({0} * {1} + {2})", "floor({0})", "round({0})", "abs({0})", "-({0})",
        "(({0}) if ({1}) < ({2}) else ({1}))", "f32(i32({0}))", "f32(u8({0}))", "f32(f16({0}))",
        "trunc({0})", "ceil({0})", "f32(i8(i32({0})))",
    ]).format(*parts)  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_values_lie_in_their_ranges(seed: int) -> None:
    chance = random.Random(seed)
    first = expression(chance, ["f32(a[i])", "f32(b[i])", "x[i]"], 3)
    second = expression(chance, ["t[i]", "f32(a[i])"], 3)
    text = f"""
kernel f(a: u8[N], b: i8[N], x: f32[N], out t: f32[N], out o: f32[N]):
    for i in 0..N:
        t[i] = {first}
    for i in 0..N:
        o[i] = {second}
"""
    found = planned(text)
    held = ranges_of(found.tree)
    data = np.random.default_rng(seed)
    arrays = {
        "a": np.r_[0, 255, 255, data.integers(0, 256, 97)].astype(np.uint8),
        "b": np.r_[-128, 127, -128, data.integers(-128, 128, 97)].astype(np.int8),
        "x": data.standard_normal(100).astype(np.float32),
        "t": np.zeros(100, np.float32),
        "o": np.zeros(100, np.float32),
    }
    with np.errstate(all="ignore"):
        arrays = arrays | interpret(found.kernel, arrays, {"N": 100})
    for node in walk_nodes(found.tree.launches[0].body):
        if isinstance(node, Compute):
            known = range_of(node.value, held)
            name = found.tree.buffer(node.target.array).array
            if known is not None and name in arrays:
                values = arrays[name]
                assert (values >= known.low).all() and (values <= known.high).all(), (text, known)


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F32, DType.F64])
def test_ends_past_every_float_are_infinite(dtype: DType) -> None:
    """Of a sum of products that grows with each turn of a loop, which has no float near it."""
    far = Fraction(10) ** 400
    assert [rounded(end, dtype) for end in (far, -far, 10**400)] == [math.inf, -math.inf, math.inf]
    assert rounded(Fraction(1, 2), dtype) == rounded(0.5, dtype) == 0.5


def test_ends_are_rounded_as_the_operation_rounds() -> None:
    third = Const(float(np.float32(1 / 3)), DType.F32)
    whole = Const(765.0, DType.F32)
    assert range_of(Fma(whole, third, Const(0.0, DType.F32), DType.F32), {}) == Range(255.0, 255.0)
    tiny = Const(1.0 + 2.0**-23, DType.F32)
    product = range_of(Fma(tiny, tiny, Const(0.0, DType.F32), DType.F32), {})
    exact = (1.0 + 2.0**-23) ** 2
    assert product == Range(np.float32(exact), np.float32(exact))
    # 2**24 + 3 - 2**-30: rounded to f64 first, it would be halfway, and go to the even 2**24 + 4.
    more, less = Const(1.0 + 2.0**-15, DType.F32), Const(1.0 - 2.0**-15, DType.F32)
    once = range_of(Fma(more, less, Const(2.0**24 + 2, DType.F32), DType.F32), {})
    assert once == Range(2.0**24 + 2, 2.0**24 + 2)
    assert range_of(Unary("neg", whole, DType.F32), {}) == Range(-765.0, -765.0)
    assert range_of(Const(float("nan"), DType.F32), {}) is None
    assert of_type(DType.I8) == Range(-128, 127) and of_type(DType.F32) is None


def test_recurrences_may_be_anything() -> None:
    found = planned(
        """
kernel f(a: u8[N], out o: u8[N]):
    temp s: f32[N]
    for i in 0..N:
        s[i] = f32(a[i])
    for i in 1..N:
        s[i] = s[i] + s[i-1]
    for i in 0..N:
        o[i] = u8(round(s[i]))
"""
    )
    held = ranges_of(found.tree)
    (name,) = {b.name for b in found.tree.buffers if b.array == "s"}
    assert held[name] is None


BLUR = """
kernel f(a: u8[H, W], out o: u8[H, W]):
    temp r: f32[H, W]
    for y in 0..H, x in 0..W:
        r[y, x] = (f32(a.clamp[y, x-1]) + f32(a[y, x]) + f32(a.clamp[y, x+1])) * SCALE
    for y in 0..H, x in 0..W:
        o[y, x] = u8(round((r.clamp[y-1, x] + r[y, x] + r.clamp[y+1, x]) * SCALE))
"""


@pytest.mark.parametrize(("scale", "clamps"), [("0.33333334", 0), ("0.34", 1), ("-0.3", 0), ("(0.3 - 0.1 * f32(a[y, x]))", 2)])  # fmt: skip
def test_limits_that_are_never_passed_are_not_asked(scale: str, clamps: int) -> None:
    """Averages of bytes are bytes: neither limit; what may be too large or below 0 keeps one."""
    program = pipeline.read_program(Source("t.lf", BLUR.lstrip().replace("SCALE", scale)))
    ptx = pipeline.compile_kernel(program, "f", Options(target=Target("sm_90"))).ptx
    found = {word for word in ("min", "max") if re.search(rf"\b{word}\.f32", ptx)}
    assert len(found) == clamps, (found, scale)


@pytest.mark.parametrize(
    ("subscript", "is_checked"),
    [
        ("x[i]", False),
        ("min(max(k[i], 0), 255)", False),
        ("k[i] % 256", False),
        ("k[i] & 255", False),
        ("i32(x[i]) // 2 + 128", False),
        ("x[i] >> 1", False),
        ("i32(v[i] * 16.0)", True),
        ("k[i] // 256", True),
        ("k[i] % 257", True),
        ("i32(x[i]) + 1", True),
        ("min(k[i], 255)", True),
    ],
)
def test_subscripts_that_are_inside_whatever_the_data(subscript: str, is_checked: bool) -> None:
    """They are not checked, and nobody looks for an offender."""
    text = (
        "kernel f(x: u8[N], k: i32[N], v: f32[N], t: f32[256], inout h: i32[256], out y: f32[N]):\n"
        f"    for i in 0..N:\n        y[i] = t[{subscript}]\n    for i in 0..N:\n        h[{subscript}] += 1\n"
    )
    program = pipeline.read_program(Source("f.lf", text))
    for target in (CPU, Target("sm_90")):
        made = pipeline.compile_kernel(program, "f", Options(target=target), emit=frozenset({"mlir"}))
        assert bool(made.manifest.get("checks")) is is_checked
