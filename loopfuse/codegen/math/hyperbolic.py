"""sinh, cosh, asinh, acosh, atanh, log10, cbrt and hypot, for f32 and f64 alike, branch-free."""

from __future__ import annotations

from loopfuse.codegen.ir import Value
from loopfuse.codegen.math import circle_tables as tables
from loopfuse.codegen.math.exp import reduce_exp
from loopfuse.codegen.math.log import split_exponent
from loopfuse.codegen.math.ops import Ops
from loopfuse.codegen.math.tables import LN2_HIGH, LN2_LOW

INFINITY, NAN = float("inf"), float("nan")
_MOST = {32: 89.45, 64: 710.5}
"""Past the last argument whose sinh is finite (89.416, 710.476); n is then bias + 2."""
_LARGE = {32: 2.0**20, 64: 2.0**54}
"""From here on asinh(x) = acosh(x) = log(2 x), to the last bit."""


# ------------------------------------------------------------------------------- hyperbolics


def _hyperbolic(ops: Ops, size: Value, odd: bool) -> Value:
    """sinh (odd) or cosh of |x|.

    |x| = n ln2 + r. With C = cosh r, S = sinh r, a = 2**(n-1) and b = 2**(-n-1) they are
    (a - b) C + (a + b) S and (a + b) C + (a - b) S: where n is 0, S and C themselves. Halved until
    the end, since a would overflow.
    """
    bits = ops.bits
    most = ops.f(_MOST[bits])
    size = ops.select(ops.less(most, size), most, size)
    number, r, low = reduce_exp(ops, size)
    limit = ops.i(ops.mantissa + 8)  # b does not matter any more, and must stay normal
    held = ops.select(ops.compare("sgt", number, limit), limit, number)
    a = ops.power_of_two(ops.int_op("subi", number, ops.i(2)))
    b = ops.power_of_two(ops.int_op("subi", ops.i(-2), held))
    plus, minus = ops.fast_two_sum(a, b), ops.fast_two_sum(a, ops.neg(b))
    (even, even_low), (across, _) = (minus, plus) if odd else (plus, minus)
    z = ops.mul(r, r)
    cosine = ops.mul(z, ops.horner(z, tables.COSH[bits]))  # less 1
    sine = ops.fma(ops.mul(r, z), ops.horner(z, tables.SINH[bits]), low)  # less r
    p, p_low = ops.two_product(across, r)
    h, error = ops.two_sum(even, p)
    rest = ops.add(ops.add(even_low, p_low), error)
    rest = ops.fma(even, ops.fma(r, low, cosine), ops.fma(across, sine, rest))
    value = ops.add(h, rest)
    return ops.add(value, value)


def emit_sinh(ops: Ops, x: Value) -> Value:
    """The hyperbolic sine. x = 0 keeps its sign."""
    value = ops.copysign(_hyperbolic(ops, ops.abs(x), odd=True), x)
    # Half of a subnormal is not exact.
    small = ops.less(ops.abs(x), ops.f(2.0 ** -(ops.mantissa // 2 + 2)))
    return ops.select(small, x, value)


def emit_cosh(ops: Ops, x: Value) -> Value:
    """The hyperbolic cosine."""
    return _hyperbolic(ops, ops.abs(x), odd=False)


# -------------------------------------------------------------------------------- logarithms


def _log1p_parts(ops: Ops, f: Value) -> tuple[Value, Value]:
    """h + l = log(1 + f) for f in sqrt(1/2)-1..sqrt(2)-1: f - f^2/2 in two parts, and fdlibm's
    rest."""
    a, a_low = ops.two_product(f, ops.mul(f, ops.f(0.5)))
    s = ops.div(f, ops.add(f, ops.f(2.0)))
    z = ops.mul(s, s)
    rest = ops.mul(s, ops.fma(z, ops.horner(z, tables.LOG[ops.bits]), a))
    h, low = ops.fast_two_sum(f, ops.neg(a))
    return h, ops.add(ops.sub(low, a_low), rest)


def _log_of_sum(ops: Ops, x: Value, rest: Value, doubled: Value) -> Value:
    """log(1 + x + rest) for x >= 0 and a rest far below it; where `doubled`, log(2 x).

    1 + x = u + c exactly. Where u needs no scaling, f is x; else c / u enters by its first term.
    """
    one, zero = ops.f(1.0), ops.f(0.0)
    u, c = ops.two_sum(one, x)
    u, c = ops.select(doubled, x, u), ops.select(doubled, zero, ops.add(c, rest))
    k, m = split_exponent(ops, u)
    near = ops.equal(k, zero)
    f = ops.select(near, x, ops.sub(m, one))
    c = ops.select(near, rest, c)
    h, low = _log1p_parts(ops, f)
    low = ops.add(low, ops.div(c, ops.select(near, ops.add(f, one), u)))
    k = ops.select(doubled, ops.add(k, one), k)
    total, error = ops.two_sum(ops.mul(k, ops.f(LN2_HIGH[ops.bits])), h)
    return ops.add(total, ops.add(error, ops.fma(k, ops.f(LN2_LOW[ops.bits]), low)))


def emit_asinh(ops: Ops, x: Value) -> Value:
    """log(1 + |x| + x^2 / (1 + sqrt(1 + x^2))). x = 0 keeps its sign."""
    size, one = ops.abs(x), ops.f(1.0)
    large = ops.less(ops.f(_LARGE[ops.bits]), size)
    held = ops.select(large, one, size)
    square = ops.mul(held, held)
    more = ops.div(square, ops.add(one, ops.sqrt(ops.add(square, one))))
    total, rest = ops.fast_two_sum(held, more)
    total, rest = ops.select(large, size, total), ops.select(large, ops.f(0.0), rest)
    value = ops.copysign(_log_of_sum(ops, total, rest, large), x)
    tiny = ops.less(size, ops.f(2.0 ** -(ops.mantissa // 2 + 2)))
    infinite = ops.equal(size, ops.f(INFINITY))
    return ops.select(ops.int_op("ori", tiny, infinite), x, value)


def emit_acosh(ops: Ops, x: Value) -> Value:
    """log(1 + t + sqrt(2 t + t^2)) with t = x - 1; NaN below 1."""
    one = ops.f(1.0)
    large = ops.less(ops.f(_LARGE[ops.bits]), x)
    t = ops.sub(ops.select(large, one, x), one)
    square = ops.fma(t, t, ops.add(t, t))
    root = ops.sqrt(square)
    left = ops.fma(ops.neg(root), root, square)
    more = ops.div(left, ops.add(root, root))
    more = ops.select(ops.equal(root, ops.f(0.0)), root, more)
    total, rest = ops.two_sum(root, t)
    rest = ops.add(rest, more)
    total, rest = ops.select(large, x, total), ops.select(large, ops.f(0.0), rest)
    value = _log_of_sum(ops, total, rest, large)
    value = ops.select(ops.less(x, ops.f(INFINITY)), value, x)
    return ops.select(ops.less(x, one), ops.f(NAN), value)


def emit_atanh(ops: Ops, x: Value) -> Value:
    """log(1 + 2 |x| / (1 - |x|)) / 2, the quotient in two parts. x = 0 keeps its sign."""
    one, size = ops.f(1.0), ops.abs(x)
    below, below_low = ops.fast_two_sum(one, ops.neg(size))
    above = ops.add(size, size)
    q = ops.div(above, below)
    rest = ops.fma(ops.neg(q), below, above)
    rest = ops.div(ops.fma(ops.neg(q), below_low, rest), below)
    value = _log_of_sum(ops, q, rest, ops.less(q, ops.f(0.0)))
    value = ops.copysign(ops.mul(value, ops.f(0.5)), x)
    value = ops.select(ops.equal(size, one), ops.copysign(ops.f(INFINITY), x), value)
    value = ops.select(ops.less(one, size), ops.f(NAN), value)
    tiny = ops.less(size, ops.f(2.0 ** -(ops.mantissa // 2 + 2)))
    return ops.select(tiny, x, value)


def emit_log10(ops: Ops, x: Value) -> Value:
    """The logarithm to base 10, k log10(2) + (h + l) log10(e), the product in two parts."""
    bits = ops.bits
    k, m = split_exponent(ops, x)
    h, low = _log1p_parts(ops, ops.sub(m, ops.f(1.0)))
    factor, factor_low = (ops.f(each) for each in tables.LOG10E[bits])
    high, high_low = (ops.f(each) for each in tables.LOG10_2[bits])
    p, p_low = ops.two_product(h, factor)
    p_low = ops.add(p_low, ops.fma(h, factor_low, ops.mul(low, factor)))
    total, error = ops.two_sum(ops.mul(k, high), p)
    value = ops.add(total, ops.add(error, ops.fma(k, high_low, p_low)))
    zero = ops.f(0.0)
    value = ops.select(ops.equal(x, zero), ops.f(-INFINITY), value)
    value = ops.select(ops.compare("ult", x, zero), ops.f(NAN), value)
    return ops.select(ops.equal(x, ops.f(INFINITY)), x, value)


# ------------------------------------------------------------------------------------- roots


def emit_cbrt(ops: Ops, x: Value) -> Value:
    """The cube root: x = 8**q 2**s m, m**(-1/3) by a polynomial and one step of third order, then
    y + (t - y^3) / (3 y^2), which leaves little but the last rounding. 0, inf and NaN stay."""
    bits = ops.bits
    one, third = ops.f(1.0), ops.f(1.0 / 3.0)
    size = ops.abs(x)
    k, m = split_exponent(ops, size)
    q, number = ops.round_to_integer(ops.mul(k, third))
    s = ops.fma(q, ops.f(-3.0), k)  # -1, 0 or 1
    up, down = ops.less(ops.f(0.0), s), ops.less(s, ops.f(0.0))
    root_two, root_half = (ops.f(each) for each in tables.CBRT_HALVES[bits])
    start = ops.horner(ops.sub(m, one), tables.CBRT[bits])
    t = ops.mul(m, ops.select(up, ops.f(2.0), ops.select(down, ops.f(0.5), one)))
    z = ops.mul(start, ops.select(up, root_half, ops.select(down, root_two, one)))
    d = ops.fma(ops.neg(ops.mul(z, t)), ops.mul(z, z), one)
    z = ops.fma(ops.mul(z, d), ops.fma(d, ops.f(2.0 / 9.0), third), z)
    square = ops.mul(z, z)
    y = ops.mul(t, square)
    y2, y2_low = ops.two_product(y, y)
    left = ops.fma(ops.neg(y2_low), y, ops.fma(ops.neg(y2), y, t))
    y = ops.fma(left, ops.mul(square, third), y)
    value = ops.copysign(ops.mul(y, ops.power_of_two(number)), x)
    plain = ops.int_op("andi", ops.less(ops.f(0.0), size), ops.less(size, ops.f(INFINITY)))
    return ops.select(plain, value, x)


_HYPOT = {32: (2.0**60, 2.0**-70, 2.0**-30, 2.0**80), 64: (2.0**500, 2.0**-600, 2.0**-400, 2.0**700)}
"""Above the first, operands are multiplied by the second; below the third, by the fourth."""


def emit_hypot(ops: Ops, x: Value, y: Value) -> Value:
    """sqrt(x^2 + y^2): the squares and their sum in two parts, then the root with its remainder.
    It overflows only where the result does; inf where either is infinite, even beside a NaN."""
    a, b = ops.abs(x), ops.abs(y)
    bigger = ops.less(a, b)
    most, least = ops.select(bigger, b, a), ops.select(bigger, a, b)
    high, down, low, up = _HYPOT[ops.bits]
    large, small = ops.less(ops.f(high), most), ops.less(most, ops.f(low))
    one = ops.f(1.0)
    factor = ops.select(large, ops.f(down), ops.select(small, ops.f(up), one))
    back = ops.select(large, ops.f(1 / down), ops.select(small, ops.f(1 / up), one))
    most, least = ops.mul(most, factor), ops.mul(least, factor)
    p, p_low = ops.two_product(most, most)
    q, q_low = ops.two_product(least, least)
    total, error = ops.fast_two_sum(p, q)
    error = ops.add(error, ops.add(p_low, q_low))
    root = ops.sqrt(total)
    left = ops.add(ops.fma(ops.neg(root), root, total), error)
    more = ops.div(left, ops.add(root, root))
    root = ops.select(ops.less(ops.f(0.0), total), ops.add(root, more), total)
    infinity = ops.f(INFINITY)
    either = ops.int_op("ori", ops.equal(a, infinity), ops.equal(b, infinity))
    return ops.select(either, infinity, ops.mul(root, back))
