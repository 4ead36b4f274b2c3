"""What iterations do together: the bits of exponentials without the ends of their range, and of quotients by a reciprocal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))

from engines import our_math
from ptx_runs import compiled, run

from loopfuse.base.options import Tuning
from loopfuse.codegen.math.single import EXP_DIVIDED, EXP_NEAR, emit_exp_near

Floats = Any


def fma(a: Floats, b: Floats, c: Floats) -> Floats:
    """a * b + c of f32, rounded once: the product is exact in f64, the sum is rounded to odd there."""
    product, c = np.float64(a) * np.float64(b), np.float64(c)
    total = product + c
    back = total - product
    error = (product - (total - back)) + (c - back)
    bits = np.asarray(total).view(np.int64)
    up = (error > 0) == (total > 0)
    moved = np.where((error != 0) & (bits & 1 == 0), np.where(up, bits + 1, bits - 1), bits)
    return moved.view(np.float64).astype(np.float32)


class _Numbers:
    """`codegen.math.ops.Ops` on NumPy's numbers, as far as an exponential needs it."""

    bits = 32

    def f(self, value: float) -> Floats:
        return np.float32(value)

    def sub(self, a: Floats, b: Floats) -> Floats:
        return a - b

    def fma(self, a: Floats, b: Floats, c: Floats) -> Floats:
        return fma(a, b, c)

    def horner(self, x: Floats, coefficients: list[float]) -> Floats:
        total: Floats = np.full_like(x, coefficients[-1])
        for place in range(len(coefficients) - 2, -1, -1):
            total = fma(total, x, np.float32(coefficients[place]))
        return total

    def to_bits(self, a: Floats) -> Floats:
        return a.view(np.uint32)

    def from_bits(self, a: Floats) -> Floats:
        return a.view(np.float32)

    def shift_left(self, a: Floats, count: int) -> Floats:
        return a << np.uint32(count)

    def int_op(self, name: str, a: Floats, b: Floats) -> Floats:
        assert name == "addi"
        return a + b


def test_an_exponential_in_its_range_has_the_same_bits() -> None:
    """(All 2,237,399,042 arguments were tried once.)"""
    random = np.random.default_rng(1)
    x = np.concatenate([
        random.uniform(-EXP_NEAR, EXP_NEAR, 1_000_000).astype(np.float32),
        np.float32(EXP_NEAR) * np.exp2(-random.uniform(0, 140, 100_000)).astype(np.float32),
        np.arange(-87, 88, dtype=np.float32), np.array([-0.0, 0.0, 1e-45, -1e-45], np.float32),
    ])  # fmt: skip
    assert (emit_exp_near(_Numbers(), x).view(np.uint32) == our_math()["exp_f32"](x).view(np.uint32)).all()  # pyright: ignore


def test_exponentials_that_are_divided_lie_where_reciprocals_may() -> None:
    for x in (EXP_DIVIDED, -EXP_DIVIDED):
        assert 2.0**-63 <= np.exp(x) < 2.0**64


def corrected(a: Floats, s: Floats) -> Floats:
    """The quotient by the reciprocal of s."""
    r = np.float32(1) / s
    product = a * r
    return fma(fma(-s, product, a), r, product)


def test_quotients_of_any_numbers() -> None:
    random = np.random.default_rng(2)
    a, s = (random.integers(1 << 23, 1 << 24, 1_000_000).astype(np.float32) for _ in range(2))
    a *= np.exp2(random.integers(-86, 41, a.size)).astype(np.float32)
    s *= np.exp2(random.integers(-51, 5, s.size)).astype(np.float32)
    assert (corrected(a, s) == a / s).all()


@pytest.mark.parametrize("rest", (1, -1, 3, -3, 5, -5))
def test_quotients_beside_the_middle_of_two_numbers(rest: int) -> None:
    """a * 2**h = s * (2 q + 1) + `rest` in whole numbers: those nearest to a tie, which a slightly wrong quotient would round
    the other way. The error before rounding is below (1/2 + a/2) s**2 2**-25 of a place, of mantissas a and s, and a quotient
    that is no tie lies |rest| / (2 s 2**23) from one: beyond |rest| = 3 nothing can go wrong. (All odd s were tried once.)"""
    random = np.random.default_rng(3)
    for even in (0, 1):
        s = random.integers(1 << (22 - even), 1 << (23 - even), 200_000) * 2 + 1
        x = np.full_like(s, rest) % s
        for h in range(1, 26):
            x = np.where(x & 1, (x + s) >> 1, x >> 1)
            if h < 23:
                continue
            for times in range(4):
                a = x + times * s
                fits = (a >= 1 << 23) & (a < 1 << 24)
                one, other = a[fits].astype(np.float32), (s[fits] << even).astype(np.float32)
                assert (corrected(one, other) == one / other).all()


QUOTIENTS = """
kernel f(x: f32[R, {length}], out y: f32[R, {length}]):
    for r in 0..R:
        let most = max(c in 0..{length}: x[r, c])
        for c in 0..{length}:
            y[r, c] = x[r, c] / most
"""
SOFTMAX = """
kernel f(x: f32[R, {length}], out y: f32[R, {length}]):
    for r in 0..R:
        let most = max(c in 0..{length}: x[r, c])
        for c in 0..{length}:
            y[r, c] = exp(x[r, c] - most) / (most + 2.0)
"""


def hard(name: str, shape: list[int]) -> Floats:
    """Rows of ordinary numbers, and of such as are far apart, tiny, huge, zero, infinite or none."""
    random = np.random.default_rng(4)
    x = random.standard_normal(shape).astype(np.float32)
    x[1] *= np.exp2(random.uniform(-149, 127, shape[1])).astype(np.float32)
    x[2] *= np.exp2(random.uniform(-149, -100, shape[1])).astype(np.float32)
    x[3, ::2], x[3, 1::4] = 0.0, -0.0
    x[4] -= 10
    x[5, 3], x[6, 3], x[7, 3] = np.inf, -np.inf, np.nan
    x[8], x[9], x[10] = -np.inf, np.float32(1e38) * x[9], 40 * x[10]
    x[11], x[11, 0] = -88, 0
    return x


EACH = """
kernel f(x: f32[R, C], z: f32[R, C], out y: f32[R, C], out w: f32[R, C], out e: f32[R, C]):
    for r in 0..R, c in 0..C:
        y[r, c] = x[r, c] / z[r, c]
        w[r, c] = {number} / x[r, c]
        e[r, c] = exp(x[r, c])
"""
"""In vectors, where rows are aligned, else one by one."""
GATES = """
kernel f(x: f32[R, C], z: f32[R, C], out y: f32[R, C]):
    for c in 0..C:
        var h: f32 = 0.0
        for r in 0..R:
            h = x[r, c] / z[r, c] + {number} / x[r, c]
            y[r, c] = h * exp(x[r, c])
"""
"""In loops that are written out."""


def ordered(name: str, shape: list[int]) -> Floats:
    """Each hard row of `hard` over each, the signs of zeros too."""
    rows, width = hard("", [12, shape[1]]), shape[1]
    found = [rows[r // 12 if name == "x" else r % 12] for r in range(shape[0])]
    return np.stack([np.roll(row, (r % 7) * (name == "z")) for r, row in enumerate(found)]).reshape(shape[0], width)


@pytest.mark.parametrize("number", ("1.0", "-1.0", "3.0", "1e-30", "0.0"))
@pytest.mark.parametrize("columns", (64, 63))
def test_hard_quotients_of_each_other(number: str, columns: int) -> None:
    run(EACH.format(number=number), Tuning(), {"R": 144, "C": columns}, 0, strategy="pointwise", data_of=ordered)


@pytest.mark.parametrize("number", ("1.0", "3.0"))
def test_hard_quotients_in_a_serial_loop(number: str) -> None:
    run(GATES.format(number=number), Tuning(), {"R": 144, "C": 64}, 0, strategy="", data_of=ordered)


def test_reciprocals_by_an_approximate_one() -> None:
    """Of either side of the exact one, within an ulp, whatever the significand but the largest (of which the machine's is near
    enough: tests/gpu/test_quotients_gpu.py)."""
    random = np.random.default_rng(6)
    s = random.integers(1 << 23, (1 << 24) - 1, 1_000_000).astype(np.float32)
    right = np.float32(1) / s
    is_above = np.float64(right) > 1 / np.float64(s)
    other = np.where(is_above, np.nextafter(right, np.float32(0)), np.nextafter(right, np.float32(1)))
    for near in (right, other):
        assert (fma(near, fma(-s, near, np.float32(1)), near) == right).all()


@pytest.mark.parametrize("text", (QUOTIENTS, SOFTMAX), ids=("quotients", "exponentials"))
def test_hard_numbers(text: str) -> None:
    run(text.format(length=520), Tuning(), {"R": 12}, 0, strategy="rows", data_of=hard)


AGAIN = """
kernel f(x: f32[R, 8], out y: f32[R, 8]):
    for r in 0..R:
        temp u: f32[8]
        temp v: f32[8]
        var m: f32 = x[r, 0]
        for k in 0..8:
            u[k] = x[r, k] * 0.5
            v[k] = 0.0
        {first}for k in 0..8:
            {indent}v[k] = exp(u[k] - m)
        {between}
        {then}for k in 0..8:
            {other}y[r, k] = v[k] + exp(u[k] - m)
"""


def again(between: str = "", first: str = "", then: str = "") -> str:
    """Exponentials twice, with something between them, under conditions."""
    lines = {name: f"{word}\n            " if word else "" for name, word in (("first", first), ("then", then))}
    indents = {"indent": "    " * bool(first), "other": "    " * bool(then)}
    return AGAIN.format(between=between, **lines, **indents)


ONCE = {
    "unchanged": again(),
    "the same condition": again(first="if r % 2 == 0:", then="if r % 2 == 0:"),
}
TWICE = {
    "a number changed": again("m = m + 1.0"),
    "a number changed under a condition": again("if x[r, 1] > 10.0:\n            m = m + 1.0"),
    "elements changed": again("for k in 1..7:\n            u[k] = u[k] + u[k-1]"),
    "another condition": again(first="if r % 2 == 0:", then="if r % 3 == 0:"),
    "a narrower condition first": again(first="if r % 2 == 0:"),
    "data conditions": again("m = m - 1.0", first="if m > 9.0:", then="if m > 9.0:"),
}


@pytest.mark.parametrize("name", [*ONCE, *TWICE])
def test_exponentials_of_the_same_registers_are_made_once(name: str) -> None:
    """There are eight, and a function for arguments that are rare."""
    text = {**ONCE, **TWICE}[name]
    run(text, Tuning(), {"R": 70}, 0, strategy="", data_of=lambda _, shape: np.random.default_rng(2).integers(0, 20, shape))
    _, _, artifact = compiled(text, Tuning(), 32, "")
    made = artifact.ptx.count("0f3F38AA3B")  # half of log2(e), times an argument
    assert 8 <= made <= 9 if name in ONCE else made >= 14


DECLARED = """
kernel f(x: bf16[R, C], out y: bf16[R, C]):
    for r in 0..R:
        let m = max(c in 0..C: f32(x[r, c]))
        let s = sum(c in 0..C: exp(f32(x[r, c]) - m))
        for c in 0..C:
            y[r, c] = bf16(exp(f32(x[r, c]) - m) / s)
"""
NAMED = """
kernel f(x: bf16[R, C], out y: bf16[R, C]):
    temp e: f32[R, C]
    for r in 0..R:
        let m = max(c in 0..C: f32(x[r, c]))
        for c in 0..C:
            e[r, c] = exp(f32(x[r, c]) - m)
        let s = sum(c in 0..C: e[r, c])
        for c in 0..C:
            y[r, c] = bf16(e[r, c] / s)
"""


def test_a_softmax_makes_its_exponentials_once_also_where_it_does_not_name_them() -> None:
    def block(text: str) -> str:
        _, _, artifact = compiled(text, Tuning(), 32, "")
        return next(each for each in artifact.ptx.split(".visible .entry ") if each.startswith("f_0_block("))

    declared, named = (block(text).count("fma.rn.f32") for text in (DECLARED, NAMED))
    assert declared == named


@pytest.mark.parametrize("length", [7, 300, 1032, 1500])
def test_such_a_softmax_has_the_bits_of_its_tree(length: int) -> None:
    def data(name: str, shape: list[int]) -> Floats:
        x = 3 * np.random.default_rng(5).standard_normal(shape)
        x[0, ::3], x[1] = -np.inf, 40 * x[1] + 1000
        return x

    run(DECLARED, Tuning(), {"R": 3, "C": length}, 0, strategy="", data_of=data)
