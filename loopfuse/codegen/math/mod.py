"""Float `%`: the exact remainder with the divisor's sign, by long division of the mantissas.

As Python's and NumPy's `%`: r = fmod(x, y), which is exact; then, if r is not 0 and its sign is
not y's, r + y; a zero takes the sign of y. x % 0, inf % y and any NaN are NaN; x % inf is x or
inf, by sign.
"""

from __future__ import annotations

from loopfuse.codegen.build import I32, I64, Builder
from loopfuse.codegen.ir import Value
from loopfuse.codegen.math.ops import Ops


def float_mod(builder: Builder, bits: int, x: Value, y: Value) -> Value:
    """x % y for scalars of `bits` bits: the exact fmod, moved to the divisor's sign."""
    ops = Ops(builder, bits, 0)
    remainder = _fmod(builder, bits, x, y)
    is_zero = ops.equal(remainder, ops.f(0.0))
    moved = ops.select(_signs_differ(ops, remainder, y), ops.add(remainder, y), remainder)
    return ops.select(is_zero, ops.copysign(remainder, y), moved)


def float_floordiv(builder: Builder, bits: int, x: Value, y: Value) -> Value:
    """x // y for scalars of `bits` bits, as Python and NumPy define it: (x - fmod(x, y)) / y is
    nearly whole; it goes down by one where the remainder has the other sign, then to the nearest
    whole number. x // 0 is x / 0."""
    ops = Ops(builder, bits, 0)
    remainder = _fmod(builder, bits, x, y)
    plain = ops.div(x, y)
    zero, one = ops.f(0.0), ops.f(1.0)
    quotient = ops.div(ops.sub(x, remainder), y)
    nonzero = ops.compare("une", remainder, zero)
    down = builder.binary("andi", nonzero, _signs_differ(ops, remainder, y))
    quotient = ops.select(down, ops.sub(quotient, one), quotient)
    floored = builder.unary("floor", quotient)
    far = ops.less(ops.f(0.5), ops.sub(quotient, floored))
    whole = ops.select(far, ops.add(floored, one), floored)
    whole = ops.select(ops.equal(quotient, zero), ops.copysign(zero, plain), whole)
    return ops.select(ops.equal(y, zero), plain, whole)


def float_fmod(builder: Builder, bits: int, x: Value, y: Value) -> Value:
    """C's and NumPy's fmod(x, y) for scalars of `bits` bits: exact, with the sign of x."""
    return _fmod(builder, bits, x, y)


def _signs_differ(ops: Ops, remainder: Value, y: Value) -> Value:
    signs = ops.int_op("xori", ops.to_bits(remainder), ops.to_bits(y))
    return ops.compare("slt", signs, ops.i(0))


def _fmod(builder: Builder, bits: int, x: Value, y: Value) -> Value:
    """C's fmod(x, y), exact, with the sign of x.

    With |x| = a 2**e and |y| = b 2**f (a, b whole), |x| mod |y| is (a 2**(e-f) mod b) 2**f: the
    shift is done in steps that keep 64 bits, each followed by an integer remainder.
    """
    ops = Ops(builder, bits, 0)
    mantissa = ops.mantissa
    sign = 1 << (bits - 1)

    def wide(value: Value) -> Value:
        return builder.convert("extui", value, I64) if bits == 32 else value

    def number(value: int) -> Value:
        return builder.constant(value, I64)

    def parts(value: Value) -> tuple[Value, Value]:
        """|value| as mantissa and exponent, both i64; a subnormal's exponent counts as 1."""
        raw = wide(ops.int_op("andi", ops.to_bits(value), ops.i(sign - 1)))
        exponent = builder.binary("shrui", raw, number(mantissa))
        fraction = builder.binary("andi", raw, number((1 << mantissa) - 1))
        normal = builder.compare("ne", exponent, number(0))
        full = builder.binary("ori", fraction, number(1 << mantissa))
        return (
            builder.select(normal, full, fraction),
            builder.binary("maxsi", exponent, number(1)),
        )

    a, e = parts(x)
    b, f = parts(y)
    divisor = builder.binary("maxui", b, number(1))
    gap = builder.binary("subi", e, f)
    steps_of = 63 - mantissa - 1
    # |x| < |y| with a smaller exponent: the remainder is x itself, chosen below.
    start = builder.binary("remui", a, divisor)
    zero, step = number(0), number(steps_of)

    def body(done: Value, carried: object) -> list[Value]:
        left = builder.binary("subi", gap, done)
        shift = builder.binary("minsi", left, step)
        moved = builder.binary("shli", carried[0], shift)  # pyright: ignore
        return [builder.binary("remui", moved, divisor)]

    rest = builder.carry(zero, gap, step, [start], body)[0]
    # rest * 2**(f - bias - mantissa): exact, since rest has at most mantissa + 1 bits.
    narrow = builder.convert("trunci", rest, I32) if bits == 32 else rest
    whole = builder.convert("sitofp", narrow, ops.float_type)
    # 2**(f - bias - mantissa) may be below the normal range: scale in two exact steps, the first
    # up by mantissa bits so that its exponent is normal.
    exponent = builder.convert("trunci", f, I32) if bits == 32 else f
    low = ops.from_bits(ops.int_op("shli", exponent, ops.i(mantissa)))  # 2**(f - bias)
    scale = ops.f(2.0**-mantissa)
    remainder = ops.mul(ops.mul(whole, scale), low)
    magnitude = ops.abs(x)
    smaller = ops.less(magnitude, ops.abs(y))
    remainder = ops.copysign(ops.select(smaller, magnitude, remainder), x)
    infinity = ops.f(float("inf"))
    bad = ops.compare("oeq", magnitude, infinity)
    bad = builder.binary("ori", bad, ops.compare("ueq", y, ops.f(0.0)))
    bad = builder.binary("ori", bad, ops.unordered(x))
    return ops.select(bad, ops.f(float("nan")), remainder)
