"""log, log2 and log1p for f64, and pow.

x = 2**k m with m in sqrt(1/2)..sqrt(2); log m = log1p(f), f = m - 1, is f - f^2/2 in two parts plus
a short rest, fdlibm's series in s = f / (2 + f). pow keeps log x
to twice the precision (the series for atanh, its first two terms in two parts), multiplies by y
the same way, and ends in exp of two parts.
"""

from __future__ import annotations

from loopfuse.codegen.ir import Value
from loopfuse.codegen.math.exp import exp_tail, scale
from loopfuse.codegen.math.ops import Ops
from loopfuse.codegen.math.tables import (
    LN2_HIGH,
    LN2_LOW,
    LOG,
    LOG2E,
    LOG2E_LOW,
    POW,
    TWO_THIRDS,
    TWO_THIRDS_LOW,
)

_ROOT_HALF = {32: 0x3F3504F3, 64: 0x3FE6A09E667F3BCD}
_POW_RANGE = {32: 120.0, 64: 800.0}
INFINITY = float("inf")


def log1p_parts(ops: Ops, f: Value) -> tuple[Value, Value]:
    """h + l = log(1 + f) for f in sqrt(1/2)-1..sqrt(2)-1, h the first |f| bits of it."""
    half = ops.mul(f, ops.f(0.5))
    a, a_low = ops.two_product(f, half)
    s = ops.div(f, ops.add(f, ops.f(2.0)))
    z = ops.mul(s, s)
    series = ops.mul(z, ops.horner(z, LOG[64]))
    rest = ops.mul(s, ops.add(a, series))
    h, lo = ops.fast_two_sum(f, ops.neg(a))
    return h, ops.add(ops.sub(lo, a_low), rest)


def split_exponent(ops: Ops, x: Value) -> tuple[Value, Value]:
    """k (a float) and m with x = 2**k m, m in sqrt(1/2)..sqrt(2); x positive, maybe subnormal."""
    least = ops.f(2.0 ** (1 - ops.bias))
    tiny = ops.less(x, least)
    x = ops.select(tiny, ops.mul(x, ops.f(2.0 ** (ops.mantissa + 2))), x)
    shift = ops.select(tiny, ops.i(-(ops.mantissa + 2)), ops.i(0))
    root = ops.i(_ROOT_HALF[ops.bits])
    moved = ops.int_op("subi", ops.to_bits(x), root)
    k = ops.int_op("shrsi", moved, ops.i(ops.mantissa))
    low = ops.int_op("andi", moved, ops.i((1 << ops.mantissa) - 1))
    m = ops.from_bits(ops.int_op("addi", low, root))
    return ops.to_float(ops.int_op("addi", k, shift)), m


def special_log(ops: Ops, x: Value, value: Value, zero: float) -> Value:
    """`value` but for x at `zero` (-inf), below it (NaN), +inf and NaN."""
    pole = ops.f(zero)
    value = ops.select(ops.equal(x, pole), ops.f(-INFINITY), value)
    value = ops.select(ops.compare("ult", x, pole), ops.f(float("nan")), value)
    return ops.select(ops.equal(x, ops.f(INFINITY)), x, value)


def emit_log(ops: Ops, x: Value) -> Value:
    """The natural logarithm."""
    k, m = split_exponent(ops, x)
    h, lo = log1p_parts(ops, ops.sub(m, ops.f(1.0)))
    return special_log(ops, x, _join_log(ops, k, h, lo), 0.0)


def _join_log(ops: Ops, k: Value, h: Value, lo: Value) -> Value:
    """k ln2 + h + l, rounded once; k * LN2_HIGH is exact."""
    total, error = ops.two_sum(ops.mul(k, ops.f(LN2_HIGH[ops.bits])), h)
    return ops.add(total, ops.add(error, ops.fma(k, ops.f(LN2_LOW[ops.bits]), lo)))


def emit_log2(ops: Ops, x: Value) -> Value:
    """The logarithm to base 2: k + (h + l) log2(e), the product in two parts."""
    k, m = split_exponent(ops, x)
    h, lo = log1p_parts(ops, ops.sub(m, ops.f(1.0)))
    factor = ops.f(LOG2E[ops.bits])
    p, p_low = ops.two_product(h, factor)
    p_low = ops.add(p_low, ops.fma(h, ops.f(LOG2E_LOW[ops.bits]), ops.mul(lo, factor)))
    total, error = ops.two_sum(k, p)
    return special_log(ops, x, ops.add(total, ops.add(error, p_low)), 0.0)


def emit_log1p(ops: Ops, x: Value) -> Value:
    """log(1 + x), accurate for small x. x = 0 keeps its sign.

    1 + x = u + c exactly. Where u needs no scaling, f is x itself; else f comes from u, and c,
    below half an ulp of u, enters as c / u by the first terms of 1 / (1 + f).
    """
    one = ops.f(1.0)
    u, c = ops.two_sum(one, x)
    k, m = split_exponent(ops, u)
    near = ops.equal(k, ops.f(0.0))
    f = ops.select(near, x, ops.sub(m, one))
    ratio = ops.mul(c, _inverse_power(ops, k))
    h, lo = log1p_parts(ops, f)
    inverse = ops.horner(f, [1.0, -1.0, 1.0, -1.0, 1.0])
    lo = ops.select(near, lo, ops.fma(ratio, inverse, lo))
    value = special_log(ops, x, _join_log(ops, k, h, lo), -1.0)
    return ops.select(ops.equal(x, ops.f(0.0)), x, value)


def _inverse_power(ops: Ops, k: Value) -> Value:
    """2**-k for a float k that is an integer; 2**-(bias) at least, which c does not notice."""
    most = ops.f(float(ops.bias - 1))
    held = ops.select(ops.less(most, k), most, k)
    moved = ops.add(held, ops.f(1.5 * 2.0**ops.mantissa))
    number = ops.int_op("subi", ops.to_bits(moved), ops.to_bits(ops.f(1.5 * 2.0**ops.mantissa)))
    return ops.power_of_two(ops.int_op("subi", ops.i(0), number))


# -------------------------------------------------------------------------------------- pow


def _log_twice(ops: Ops, x: Value) -> tuple[Value, Value]:
    """log x (x positive and finite) as h + l to about 2**-(2 * mantissa - 40) or better.

    s = f / (2 + f) in two parts; log m = 2 s + (2/3) s^3 + s^5 P(s^2), the first two in two parts.
    """
    k, m = split_exponent(ops, x)
    f = ops.sub(m, ops.f(1.0))
    below, below_low = ops.fast_two_sum(ops.f(2.0), f)
    s = ops.div(f, below)
    # The remainder of the division gives the low part.
    remainder = ops.fma(ops.neg(s), below, f)
    remainder = ops.fma(ops.neg(s), below_low, remainder)
    s_low = ops.div(remainder, below)
    z, z_low = ops.two_product(s, s)
    z_low = ops.fma(ops.add(s, s), s_low, z_low)
    c, c_low = ops.two_product(z, s)
    c_low = ops.add(c_low, ops.fma(z, s_low, ops.mul(z_low, s)))
    third = ops.f(TWO_THIRDS[ops.bits])
    t, t_low = ops.two_product(c, third)
    t_low = ops.add(t_low, ops.fma(c, ops.f(TWO_THIRDS_LOW[ops.bits]), ops.mul(c_low, third)))
    rest = ops.mul(ops.mul(c, z), ops.horner(z, POW[ops.bits]))
    # Largest first: k ln2, 2 s, t, rest.
    h, lo = ops.two_sum(ops.mul(k, ops.f(LN2_HIGH[ops.bits])), ops.add(s, s))
    h, e = ops.two_sum(h, t)
    # ln2's own low part is LN2_LOW to a float's precision: enough beside a high part of 16 or 40
    # bits.
    low, low_error = ops.two_product(k, ops.f(LN2_LOW[ops.bits]))
    h, e2 = ops.two_sum(h, low)
    tail = ops.add(ops.add(t_low, rest), ops.fma(ops.f(2.0), s_low, low_error))
    lo = ops.add(ops.add(lo, e), ops.add(e2, tail))
    return ops.fast_two_sum(h, lo)


def emit_pow(ops: Ops, x: Value, y: Value) -> Value:
    """x**y with C99's special cases (annex F.10.4.4)."""
    bits = ops.bits
    zero, one, infinity = (ops.f(v) for v in (0.0, 1.0, INFINITY))
    magnitude = ops.abs(x)
    h, lo = _log_twice(ops, magnitude)
    is_zero, is_infinite = ops.equal(magnitude, zero), ops.equal(magnitude, infinity)
    h = ops.select(is_zero, ops.f(-INFINITY), ops.select(is_infinite, infinity, h))
    lo = ops.select(is_zero, zero, ops.select(is_infinite, zero, lo))
    # y log|x| in two parts, held where exp is 0 or inf anyway.
    p, p_low = ops.two_product(y, h)
    p_low = ops.fma(y, lo, p_low)
    limit = ops.f(_POW_RANGE[bits])
    beyond = ops.less(limit, ops.abs(p))
    p = ops.select(beyond, ops.copysign(limit, p), p)
    p_low = ops.select(beyond, zero, p_low)
    n, number = ops.round_to_integer(ops.mul(p, ops.f(LOG2E[bits])))
    a = ops.fma(n, ops.f("-" + LN2_HIGH[bits]), p)
    b, b_low = ops.two_product(n, ops.f(LN2_LOW[bits]))
    r, r_low = ops.two_sum(a, ops.neg(b))
    r_low = ops.add(r_low, ops.sub(p_low, b_low))
    r, r_low = ops.fast_two_sum(r, r_low)
    tail = ops.add(r, exp_tail(ops, r, ops.fma(r, r_low, r_low)))
    return signs_of_power(ops, x, y, scale(ops, ops.add(one, tail), number))


def signs_of_power(ops: Ops, x: Value, y: Value, value: Value) -> Value:
    """x**y, of which `value` is the size where x is not 1 and y not 0: signs and exceptions."""
    one, infinity, nan = (ops.f(v) for v in (1.0, INFINITY, float("nan")))
    zero, magnitude = ops.f(0.0), ops.abs(x)
    whole = ops.equal(ops.builder.unary("trunc", y), y)
    half = ops.mul(y, ops.f(0.5))
    odd = ops.int_op("andi", whole, ops.compare("one", ops.builder.unary("trunc", half), half))
    sign = ops.select(odd, x, one)
    value = ops.copysign(value, sign)
    negative = ops.int_op("andi", ops.less(x, zero), ops.less(magnitude, infinity))
    not_whole = ops.compare("une", ops.builder.unary("trunc", y), y)
    value = ops.select(ops.int_op("andi", negative, not_whole), nan, value)
    value = ops.select(ops.int_op("ori", ops.unordered(x), ops.unordered(y)), nan, value)
    # (-1)**inf is 1, and so are 1**y and x**0, whatever the other is.
    minus = ops.int_op("andi", ops.equal(magnitude, one), ops.equal(ops.abs(y), infinity))
    value = ops.select(minus, one, value)
    return ops.select(ops.int_op("ori", ops.equal(x, one), ops.equal(y, zero)), one, value)
