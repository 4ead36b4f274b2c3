"""exp, exp2, expm1 and tanh for f64, and what pow takes from them.

Cody and Waite's reduction x = n ln2 + r with |r| <= ln2 / 2, a polynomial for exp(r), and 2**n by
exponent bits, in two factors so that overflow and gradual underflow come out of the last
multiplication. Where more than half an ulp would be lost, sums are kept in two parts (Dekker).
"""

from __future__ import annotations

from loopfuse.codegen.ir import Value
from loopfuse.codegen.math.ops import Ops
from loopfuse.codegen.math.tables import EXP, EXP2, LN2_HIGH, LN2_LOW, LOG2E

_EXP_RANGE = (-746.0, 710.0)
_EXP2_RANGE = (-1076.0, 1025.0)
_EXPM1_LEAST = -45.0
_TANH_MOST = 20.0


def clamp(ops: Ops, x: Value, least: float, most: float) -> Value:
    """x held in least..most; a NaN stays."""
    low, high = ops.f(least), ops.f(most)
    x = ops.select(ops.less(x, low), low, x)
    return ops.select(ops.less(high, x), high, x)


def scale(ops: Ops, p: Value, n: Value) -> Value:
    """p * 2**n for |n| up to twice the exponent range; rounds once, if the result is subnormal."""
    half = ops.int_op("shrsi", n, ops.i(1))
    rest = ops.int_op("subi", n, half)
    return ops.mul(ops.mul(p, ops.power_of_two(half)), ops.power_of_two(rest))


def reduce_exp(ops: Ops, x: Value) -> tuple[Value, Value, Value]:
    """n, r and the low part of r: x = n ln2 + r + low, to twice the precision."""
    bits = ops.bits
    n, number = ops.round_to_integer(ops.mul(x, ops.f(LOG2E[bits])))
    # Exact: n * LN2_HIGH has few enough bits, and the difference cancels.
    a = ops.fma(n, ops.f("-" + LN2_HIGH[bits]), x)
    b = ops.mul(n, ops.f(LN2_LOW[bits]))
    r = ops.sub(a, b)
    return number, r, ops.sub(ops.sub(a, r), b)


def exp_tail(ops: Ops, r: Value, low: Value) -> Value:
    """exp(r + low) - 1 - r."""
    q = ops.horner(r, EXP[ops.bits])
    return ops.fma(ops.mul(r, r), q, low)


def emit_exp(ops: Ops, x: Value) -> Value:
    """e**x."""
    number, r, low = reduce_exp(ops, clamp(ops, x, *_EXP_RANGE))
    p = ops.add(ops.f(1.0), ops.add(r, exp_tail(ops, r, low)))
    return scale(ops, p, number)


def emit_exp2(ops: Ops, x: Value) -> Value:
    """2**x: x less its nearest integer is exact."""
    x = clamp(ops, x, *_EXP2_RANGE)
    n, number = ops.round_to_integer(x)
    r = ops.sub(x, n)
    q = ops.horner(r, EXP2[ops.bits])
    return scale(ops, ops.fma(r, q, ops.f(1.0)), number)


def expm1_parts(ops: Ops, x: Value) -> tuple[Value, Value, Value]:
    """h, l and u with exp(x) - 1 = (h + l) u: u is 2 where 2**n would overflow, else 1."""
    number, r, low = reduce_exp(ops, clamp(ops, x, _EXPM1_LEAST, _EXP_RANGE[1]))
    big = ops.compare("sge", number, ops.i(ops.bias + 1))
    one = ops.select(big, ops.f(0.5), ops.f(1.0))
    up = ops.select(big, ops.f(2.0), ops.f(1.0))
    number = ops.select(big, ops.i(ops.bias), number)
    h, lo = ops.fast_two_sum(r, exp_tail(ops, r, low))
    s = ops.power_of_two(number)
    h, lo = ops.mul(h, s), ops.mul(lo, s)
    # exp(x) - 1 = 2**n (1 + h + l) - 1 = (2**n - 1) + 2**n h + 2**n l; the first may be inexact
    # only where it is so large that -1 is far below its last place.
    total, error = ops.two_sum(ops.sub(s, one), h)
    return total, ops.add(error, lo), up


def emit_expm1(ops: Ops, x: Value) -> Value:
    """e**x - 1, accurate for small x. x = 0 keeps its sign."""
    h, lo, up = expm1_parts(ops, x)
    value = ops.mul(ops.add(h, lo), up)
    # Past the clamp: inf stays inf, although two_sum made its error NaN.
    most = ops.f(_EXP_RANGE[1])
    value = ops.select(ops.less(most, x), ops.f(float("inf")), value)
    return ops.select(ops.equal(x, ops.f(0.0)), x, value)


def emit_tanh(ops: Ops, x: Value) -> Value:
    """tanh |x| = e / (e + 2) with e = exp(2 |x|) - 1 in two parts; one division, then a
    correction by its remainder."""
    magnitude = ops.abs(x)
    most = ops.f(_TANH_MOST)
    held = ops.select(ops.less(most, magnitude), most, magnitude)
    h, lo, _ = expm1_parts(ops, ops.add(held, held))
    h, lo = ops.fast_two_sum(h, lo)
    below, rest = ops.two_sum(h, ops.f(2.0))
    rest = ops.add(rest, lo)
    inverse = ops.div(ops.f(1.0), below)
    q = ops.mul(h, inverse)
    remainder = ops.fma(ops.neg(q), below, h)
    remainder = ops.add(remainder, ops.fma(ops.neg(q), rest, lo))
    value = ops.copysign(ops.fma(remainder, inverse, q), x)
    return ops.select(ops.unordered(x), x, value)
