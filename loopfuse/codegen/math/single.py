"""The f32 functions, made for few instructions: exp exp2 expm1 log log2 log1p tanh erf.

A fused kernel of a few dozen operations per element is bound by instructions, not by memory, so
these trade the last tenths of an ulp (all stay below 1.5) for length. What they share:

- Adding 1.5 * 2**23 rounds to an integer; with an exponent's bias added to that constant, a shift
  of the sum's bits by 23 is a power of two, with no other operation.
- `minimum` and `maximum` hold an argument in its range, and let NaN through.
- No two-part sums: each value is used where its rounding error is small beside the result.

The ideas are mostly N. Juffa's (his single-precision functions in public CUDA forums).
"""

from __future__ import annotations

from loopfuse.codegen.ir import Value
from loopfuse.codegen.math import single_tables as tables
from loopfuse.codegen.math.ops import Ops

LOG2E, LN2 = "0x1.715476p+0", "0x1.62e43p-1"
LN2_REST = "0x1.05c61p-29"
"""LN2 is nearest; this is it less log(2)."""

_ROUND = 1.5 * 2.0**23
INFINITY, NAN = float("inf"), float("nan")
_ROOT_HALF = 0x3F3504F3


def hold(ops: Ops, x: Value, least: float, most: float) -> Value:
    """x held in least..most; a NaN stays."""
    return ops.minimum(ops.maximum(x, ops.f(least)), ops.f(most))


def whole(ops: Ops, x: Value, factor: float | str, bias: int) -> tuple[Value, Value]:
    """n, the integer nearest to x * factor, as a float; and 2**(n + bias - 127)."""
    magic = ops.f(_ROUND + bias)
    moved = ops.fma(x, ops.f(factor), magic)
    return ops.sub(moved, magic), ops.from_bits(ops.shift_left(ops.to_bits(moved), 23))


# ------------------------------------------------------------------------------ exponentials


def emit_exp(ops: Ops, x: Value) -> Value:
    """e**x = e**r s s with s = 2**n, x = 2 n ln2 + r and |r| <= ln2: s stays normal where e**x is
    subnormal or overflows, and only the last product rounds."""
    x = hold(ops, x, -104.0, 89.0)
    n, s = whole(ops, x, float.fromhex(LOG2E) / 2, 127)
    r = ops.fma(n, ops.f(-2 * float.fromhex(LN2)), x)
    r = ops.fma(n, ops.f(2 * float.fromhex(LN2_REST)), r)
    return ops.mul(ops.mul(ops.horner(r, tables.EXP), s), s)


EXP_NEAR = 87.0
EXP_DIVIDED = 43.5
"""Up to this size of x, e**x lies in 2**-63..2**63."""


def emit_exp_near(ops: Ops, x: Value) -> Value:
    """e**x with the bits of `emit_exp` for |x| <= EXP_NEAR, where nothing overflows and no result is subnormal:
    2**(2 n) is added to the exponent's bits. Of n + 128 the upper bit changes the sign, which is the other one
    before."""
    magic = ops.f(_ROUND + 128)
    moved = ops.fma(x, ops.f(float.fromhex(LOG2E) / 2), magic)
    n = ops.sub(moved, magic)
    r = ops.fma(n, ops.f(-2 * float.fromhex(LN2)), x)
    r = ops.fma(n, ops.f(2 * float.fromhex(LN2_REST)), r)
    minus = ops.horner(r, [-float.fromhex(each) for each in tables.EXP])
    return ops.from_bits(ops.int_op("addi", ops.to_bits(minus), ops.shift_left(ops.to_bits(moved), 24)))


def emit_exp2(ops: Ops, x: Value) -> Value:
    """2**x in the same way; r is exact."""
    x = hold(ops, x, -151.0, 129.0)
    n, s = whole(ops, x, 0.5, 127)
    r = ops.fma(n, ops.f(-2.0), x)
    return ops.mul(ops.mul(ops.horner(r, tables.EXP2), s), s)


def emit_expm1(ops: Ops, x: Value) -> Value:
    """e**x - 1 = (s - 1) + s f + s w with s = 2**n, f = x - n ln2 but for the last bits, which w
    has; s is halved, since 2**128 would overflow."""
    held = hold(ops, x, -20.0, 89.0)
    n, s = whole(ops, held, LOG2E, 126)
    f = ops.fma(n, ops.f("-0x1.62e4p-1"), held)  # exact: few enough bits
    low = ops.mul(n, ops.f("-0x1.7f7d1cp-20"))
    r = ops.add(f, low)
    w = ops.fma(ops.mul(r, r), ops.horner(r, tables.EXPM1), low)
    value = ops.fma(w, s, ops.fma(f, s, ops.sub(s, ops.f(0.5))))
    value = ops.add(value, value)
    # Half of a subnormal is not exact, and 0 keeps its sign.
    return ops.select(ops.less(ops.abs(x), ops.f(2.0**-30)), x, value)


def emit_tanh(ops: Ops, x: Value) -> Value:
    """x P(x^2) near 0, else 1 - 1 / d with d = (e**(2 |x|) + 1) / 2, one in two ulps
    of which is lost by far less than half: 1 / d is below 1/2."""
    square = ops.mul(x, x)
    near = ops.mul(ops.horner(square, tables.TANH), x)  # -0 stays
    held = ops.minimum(ops.abs(x), ops.f(9.5))
    n, s = whole(ops, held, 2 * float.fromhex(LOG2E), 126)
    r = ops.fma(n, ops.f(-float.fromhex(LN2) / 2), held)
    d = ops.fma(ops.horner(r, tables.EXP_TWICE), s, ops.f(0.5))
    minus = _minus_reciprocal(ops, d)
    far = ops.with_sign(ops.add(minus, ops.f(1.0)), x)
    return ops.select(ops.less(ops.abs(x), ops.f(0.65)), near, far)


def _minus_reciprocal(ops: Ops, d: Value) -> Value:
    """-1 / d for a normal d, to about 1.2 ulp: subtracting bits gives a multiple of 1 / d to 1.5
    in a hundred, a straight line corrects it to 1e-4, Newton's step to 1e-8."""
    guess = ops.from_bits(ops.int_op("subi", ops.i(0x7F350000), ops.to_bits(d)))
    line = ops.fma(ops.mul(d, guess), ops.f("0x1.f0f83cp-2"), ops.f("-0x1.64b47ap+0"))
    y = ops.mul(guess, line)
    return ops.fma(ops.fma(d, y, ops.f(1.0)), y, y)


def emit_erf(ops: Ops, x: Value) -> Value:
    """x + x P(x^2) up to 1, then Q(|x| - 2.25), of which the constant is nearly all; it is 1 from
    about 3.86 to 3.92."""
    size = ops.abs(x)
    near = ops.fma(x, ops.horner(ops.mul(x, x), tables.ERF), x)
    moved = ops.sub(ops.minimum(size, ops.f(3.9)), ops.f(2.25))
    far = ops.with_sign(ops.horner(moved, tables.ERF_FAR), x)
    return ops.select(ops.less(size, ops.f(1.0)), near, far)


# -------------------------------------------------------------------------------- logarithms


def split(ops: Ops, x: Value) -> tuple[Value, Value]:
    """k (a float) and f with x = 2**k (1 + f), 1 + f in sqrt(1/2)..sqrt(2), for positive x."""
    tiny = ops.less(x, ops.f(2.0**-126))
    x = ops.select(tiny, ops.mul(x, ops.f(2.0**25)), x)
    offset = ops.select(tiny, ops.i(_ROOT_HALF + (25 << 23)), ops.i(_ROOT_HALF))
    moved = ops.int_op("subi", ops.to_bits(x), offset)
    k = ops.to_float(ops.int_op("shrsi", moved, ops.i(23)))
    low = ops.int_op("andi", moved, ops.i((1 << 23) - 1))
    m = ops.from_bits(ops.int_op("addi", low, ops.i(_ROOT_HALF)))
    return k, ops.sub(m, ops.f(1.0))


def special(ops: Ops, x: Value, value: Value, pole: float) -> Value:
    """`value` but for x at `pole` (-inf), below it (NaN), +inf and NaN."""
    start = ops.f(pole)
    value = ops.select(ops.less(x, ops.f(INFINITY)), value, x)
    other = ops.select(ops.equal(x, start), ops.f(-INFINITY), ops.f(NAN))
    return ops.select(ops.less(start, x), value, other)


def emit_log(ops: Ops, x: Value) -> Value:
    """The natural logarithm, k ln2 + log(1 + f)."""
    k, f = split(ops, x)
    value = ops.fma(ops.horner(f, tables.LOG), ops.mul(f, f), f)
    return special(ops, x, ops.fma(k, ops.f(LN2), value), 0.0)


def emit_log2(ops: Ops, x: Value) -> Value:
    """The logarithm to base 2, (k + f) + f Q(f); the first sum is exact for k in -1..1."""
    k, f = split(ops, x)
    return special(ops, x, ops.fma(f, ops.horner(f, tables.LOG2), ops.add(f, k)), 0.0)


def emit_log1p(ops: Ops, x: Value) -> Value:
    """log(1 + x) = k ln2 + log(1 + f): with k from the bits of 1 + x rounded,
    f = x / 2**k - (1 - 1 / 2**k), where x keeps its bits. Signs are such that -0 stays.
    """
    near = ops.to_bits(ops.add(x, ops.f(1.0)))
    moved = ops.int_op("subi", ops.i(0x3F400000 + (1 << 23) - 1), near)
    down = ops.int_op("andi", moved, ops.i(-(1 << 23)))  # -k, as an exponent
    scaled = ops.from_bits(ops.int_op("addi", ops.to_bits(x), down))
    four = ops.from_bits(ops.int_op("addi", down, ops.i(0x40800000)))  # stays normal
    f = ops.sub(scaled, ops.fma(four, ops.f(-0.25), ops.f(1.0)))
    value = ops.fma(ops.horner(f, tables.LOG1P), ops.mul(f, f), f)
    k = ops.to_float(down)
    value = ops.fma(k, ops.f(-float.fromhex(LN2) / 2**23), value)
    return special(ops, x, value, -1.0)
