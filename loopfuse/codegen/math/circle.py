"""sin, cos, tan, asin, acos, atan and atan2, for f32 and f64 alike.

Arguments are reduced exactly over the whole range: up to 2**16 (2**30) by three parts of pi/2
(Cody and Waite, with FMA), beyond by the digits of 2/pi that matter (Payne and Hanek, in floating
point), which is a rare path. Every value on the way is a sum of two, so that little more than the
last rounding is lost.
"""

from __future__ import annotations

from loopfuse.codegen.ir import Value
from loopfuse.codegen.math import circle_tables as tables
from loopfuse.codegen.math.ops import Ops

_NEAR = {32: 2.0**16, 64: 2.0**30}
_CHUNK = {32: (24, 96), 64: (53, 600)}
"""Bits of a chunk of 2/pi, and the power of two that it is scaled by."""
_MULTIPLIER = {32: (43, 10), 64: (1237, 16)}
"""m and s with (e * m) >> s = e // 24 (e // 53) for every exponent."""
KEPT = 5
"""So many chunks hold all that 4 does not divide, and the digits that cancel."""


def half_pi(ops: Ops) -> tuple[Value, Value]:
    """pi / 2 as a sum of two."""
    high, low, _ = tables.HALF_PI[ops.bits]
    return ops.f(high), ops.f(low)


def reduce_circle(ops: Ops, x: Value) -> tuple[Value, Value, Value]:
    """h, l and q with x = (h + l) + q pi/2 (q modulo 4) and |h| <= pi/4 and a bit."""
    bits = ops.bits
    first, second, third = (ops.f(-float.fromhex(each)) for each in tables.HALF_PI[bits])
    n, number = ops.round_to_integer(ops.mul(x, ops.f(tables.TWO_OVER_PI[bits][0])))
    near = ops.fma(n, first, x)  # exact: what is left has few enough bits
    p, p_low = ops.two_product(n, second)
    h, low = ops.two_sum(near, p)
    low = ops.add(low, ops.fma(n, third, p_low))
    h, low = ops.fast_two_sum(h, low)
    far = ops.less(ops.f(_NEAR[bits]), ops.abs(x))
    h, low, number = ops.rare(far, lambda: _reduce_far(ops, x), (h, low, number))
    return h, low, number


def _reduce_far(ops: Ops, x: Value) -> tuple[Value, Value, Value]:
    """As `reduce_circle`, for large x: x times five chunks of 2/pi. Those before give multiples of
    4, and those after too little, even for the x nearest to a multiple of pi/2."""
    bits = ops.bits
    width, scaled = _CHUNK[bits]
    factor, shift = _MULTIPLIER[bits]
    raw = ops.int_op("shrui", ops.to_bits(ops.abs(x)), ops.i(ops.mantissa))
    above = ops.int_op("subi", raw, ops.i(ops.bias + width + 1))
    above = ops.select(ops.compare("slt", above, ops.i(0)), ops.i(0), above)
    skipped = ops.int_op("shrui", ops.int_op("muli", above, ops.i(factor)), ops.i(shift))
    chosen = _window(ops, skipped)
    x = ops.mul(x, ops.f(2.0**-scaled))
    products = [ops.two_product(x, each) for each in chosen]

    def modulo_four(value: Value) -> Value:
        whole = ops.builder.unary("trunc", ops.mul(value, ops.f(0.25)))
        return ops.fma(whole, ops.f(-4.0), value)

    (p0, e0), (p1, e1), (p2, e2), (p3, e3), (p4, _) = products
    total, small = modulo_four(p0), list[Value]()
    for each in (modulo_four(e0), modulo_four(p1), e1, p2):
        total, error = ops.two_sum(total, each)
        small.append(error)
    n, number = ops.round_to_integer(total)
    total, rest = ops.sub(total, n), ops.add(e3, p4)
    for each in (*small, p3, e2):
        total, error = ops.two_sum(total, each)
        rest = ops.add(rest, error)
    h, low = ops.fast_two_sum(total, rest)
    high, high_low = half_pi(ops)
    p, p_low = ops.two_product(h, high)
    p_low = ops.add(p_low, ops.fma(h, high_low, ops.mul(low, high)))
    h, low = ops.fast_two_sum(p, p_low)
    return h, low, number


def _window(ops: Ops, skipped: Value) -> list[Value]:
    """The KEPT chunks from number `skipped` on, moved there in steps of powers of two."""
    values = [ops.f(each) for each in tables.CHUNKS[ops.bits]]
    step = 1 << (len(values) - KEPT).bit_length() - 1
    while step:
        moves = ops.compare("ne", ops.int_op("andi", skipped, ops.i(step)), ops.i(0))
        count = KEPT + step - 1
        values = [
            ops.select(moves, values[i + step], values[i]) if i + step < len(values) else values[i]
            for i in range(min(count, len(values)))
        ]
        step //= 2
    return values[:KEPT]


def _sine(ops: Ops, h: Value, low: Value) -> tuple[Value, Value]:
    """sin(h + low) as h and a rest."""
    z = ops.mul(h, h)
    slope = ops.fma(z, ops.mul(low, ops.f(-0.5)), low)  # low cos(h)
    return h, ops.fma(ops.mul(z, h), ops.horner(z, tables.SIN[ops.bits]), slope)


def _cosine(ops: Ops, h: Value, low: Value) -> tuple[Value, Value]:
    """cos(h + low) as 1 - h^2/2 and a rest."""
    z, z_low = ops.two_product(h, h)
    half = ops.f(-0.5)
    first, rest = ops.fast_two_sum(ops.f(1.0), ops.mul(z, half))
    rest = ops.fma(z_low, half, rest)
    rest = ops.fma(ops.neg(h), low, rest)
    return first, ops.fma(ops.mul(z, z), ops.horner(z, tables.COS[ops.bits]), rest)


def _bit(ops: Ops, number: Value, bit: int) -> Value:
    return ops.compare("ne", ops.int_op("andi", number, ops.i(bit)), ops.i(0))


def _wave(ops: Ops, x: Value, quarter: int) -> Value:
    h, low, number = reduce_circle(ops, x)
    if quarter:
        number = ops.int_op("addi", number, ops.i(quarter))
    sine = ops.add(*_sine(ops, h, low))
    cosine = ops.add(*_cosine(ops, h, low))
    value = ops.select(_bit(ops, number, 1), cosine, sine)
    value = ops.select(_bit(ops, number, 2), ops.neg(value), value)
    return ops.select(ops.less(ops.abs(x), ops.f(float("inf"))), value, ops.f(float("nan")))


def emit_sin(ops: Ops, x: Value) -> Value:
    """The sine. x = 0 keeps its sign."""
    return ops.select(ops.equal(x, ops.f(0.0)), x, _wave(ops, x, 0))


def emit_cos(ops: Ops, x: Value) -> Value:
    """The cosine."""
    return _wave(ops, x, 1)


def emit_tan(ops: Ops, x: Value) -> Value:
    """The tangent: sine by cosine (-cosine by sine in odd quarters), all in two parts."""
    h, low, number = reduce_circle(ops, x)
    sine, sine_low = ops.fast_two_sum(*_sine(ops, h, low))
    cosine, cosine_low = ops.fast_two_sum(*_cosine(ops, h, low))
    odd = _bit(ops, number, 1)
    above = ops.select(odd, ops.neg(cosine), sine)
    above_low = ops.select(odd, ops.neg(cosine_low), sine_low)
    below = ops.select(odd, sine, cosine)
    below_low = ops.select(odd, sine_low, cosine_low)
    q = ops.div(above, below)
    rest = ops.fma(ops.neg(q), below, above)
    rest = ops.add(rest, ops.fma(ops.neg(q), below_low, above_low))
    value = ops.add(q, ops.div(rest, below))
    value = ops.select(ops.less(ops.abs(x), ops.f(float("inf"))), value, ops.f(float("nan")))
    return ops.select(ops.equal(x, ops.f(0.0)), x, value)


# ---------------------------------------------------------------------------------- inverses


def _arc(ops: Ops, t: Value) -> Value:
    """atan(t) - t for t in 0..1."""
    z = ops.mul(t, t)
    return ops.mul(ops.mul(t, z), ops.horner(z, tables.ATAN[ops.bits]))


def _complement(
    ops: Ops, swapped: Value, behind: Value | None, t: Value, rest: Value
) -> Value:
    """t + rest, or pi/2 less it where `swapped`; of that pi less it where `behind`."""
    high, low = half_pi(ops)
    at, at_low, turned = ops.f(0.0), ops.f(0.0), swapped
    if behind is not None:
        turned = ops.int_op("xori", swapped, behind)
        at = ops.select(behind, ops.add(high, high), at)
        at_low = ops.select(behind, ops.add(low, low), at_low)
    at, at_low = ops.select(swapped, high, at), ops.select(swapped, low, at_low)
    t, rest = ops.select(turned, ops.neg(t), t), ops.select(turned, ops.neg(rest), rest)
    h, error = ops.two_sum(at, t)
    return ops.add(h, ops.add(ops.add(error, at_low), rest))


def emit_atan(ops: Ops, x: Value) -> Value:
    """The arc tangent: of 1/x, with the remainder of that division, where |x| > 1."""
    one, size = ops.f(1.0), ops.abs(x)
    swapped = ops.less(one, size)
    t = ops.select(swapped, ops.div(one, size), size)
    value = _complement(ops, swapped, None, t, _arc(ops, t))
    value = ops.with_sign(value, x)
    value = ops.select(ops.unordered(x), x, value)
    return ops.select(ops.equal(x, ops.f(0.0)), x, value)


def emit_atan2(ops: Ops, y: Value, x: Value) -> Value:
    """The angle of the point (x, y), as C's: every sign of every zero and infinity counts."""
    zero = ops.f(0.0)
    across, up = ops.abs(x), ops.abs(y)
    swapped = ops.less(across, up)
    least, most = ops.select(swapped, across, up), ops.select(swapped, up, across)
    t = ops.div(least, most)
    t = ops.select(ops.equal(least, most), ops.f(1.0), t)  # both infinite, too
    t = ops.select(ops.equal(least, zero), zero, t)  # both zero, too
    behind = ops.compare("slt", ops.to_bits(x), ops.i(0))
    value = ops.copysign(_complement(ops, swapped, behind, t, _arc(ops, t)), y)
    either = ops.int_op("ori", ops.unordered(x), ops.unordered(y))
    return ops.select(either, ops.f(float("nan")), value)


def _half_arc(ops: Ops, size: Value) -> tuple[Value, Value, Value]:
    """near, h and l: asin(size) = h + l where it is near (up to 1/2), else pi/2 - 2 (h + l)."""
    half = ops.f(0.5)
    near = ops.compare("ole", size, half)
    z = ops.fma(size, ops.f(-0.5), half)  # exact
    root = ops.sqrt(z)
    left = ops.fma(ops.neg(root), root, z)
    c = ops.div(left, ops.add(root, root))
    c = ops.select(ops.equal(root, ops.f(0.0)), root, c)
    t = ops.select(near, size, root)
    square = ops.select(near, ops.mul(size, size), z)
    rest = ops.mul(ops.mul(t, square), ops.horner(square, tables.ASIN[ops.bits]))
    return near, t, ops.select(near, rest, ops.add(rest, c))


def emit_asin(ops: Ops, x: Value) -> Value:
    """The arc sine; of x past 1/2 by sqrt((1 - x) / 2). x = 0 keeps its sign."""
    near, h, low = _half_arc(ops, ops.abs(x))
    high, high_low = half_pi(ops)
    far, error = ops.fast_two_sum(high, ops.mul(h, ops.f(-2.0)))
    far = ops.add(far, ops.add(error, ops.fma(low, ops.f(-2.0), high_low)))
    value = ops.with_sign(ops.select(near, ops.add(h, low), far), x)
    return ops.select(ops.less(ops.f(1.0), ops.abs(x)), ops.f(float("nan")), value)


def emit_acos(ops: Ops, x: Value) -> Value:
    """The arc cosine."""
    near, h, low = _half_arc(ops, ops.abs(x))
    negative = ops.less(x, ops.f(0.0))
    high, high_low = half_pi(ops)
    two = ops.select(near, ops.f(1.0), ops.f(2.0))
    h, low = ops.mul(h, two), ops.mul(low, two)
    # near: pi/2 - asin x; far: 2 (h + l), or pi less that.
    zero = ops.f(0.0)
    at = ops.select(near, high, ops.select(negative, ops.add(high, high), zero))
    at_low = ops.select(near, high_low, ops.select(negative, ops.add(high_low, high_low), zero))
    turned = ops.int_op("xori", near, negative)
    h, low = ops.select(turned, ops.neg(h), h), ops.select(turned, ops.neg(low), low)
    total, error = ops.two_sum(at, h)
    return ops.add(total, ops.add(error, ops.add(at_low, low)))
