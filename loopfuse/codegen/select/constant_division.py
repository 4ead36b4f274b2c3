"""Division by a constant as a multiplication and an FMA, where that is proved to give its bits.

    before:  q = x / c
    after:   q = fma(high, x, low * x)        high + low is nearly 1/c

The algorithm, and the way to prove it for one divisor, are from N. Brisebarre, J.-M. Muller and
S. K. Raina, "Accelerating Correctly Rounded Floating-Point Division when the Divisor Is Known in
Advance", IEEE Transactions on Computers 53(8), 2004 (Handbook of Floating-Point Arithmetic, 2nd
edition, section 4.7.5). Here `high` is 1/c cut off, not rounded, so that `low` has its sign: then
zeros and infinities come out with the right sign too, and no NaN where there should be none.

What is proved, for every finite x with |x| at least `least`, in any rounding-to-nearest format of
p bits: let v = high * x + RN(low * x), so that q = RN(v). Then

    |v - x/c| <= |x/c| * d    with d = |c| * (|high + low - 1/c| + 2**-p * |low|)

and RN(v) is RN(x/c) unless a midpoint m of two neighbouring numbers lies between them. Scaled to
integers (X and C the p-bit significands; M, odd, the midpoint's p + 1 bits) that is

    X * 2**k - M * C = e    with |e| <= X * 2**k * d    (k = p where X >= C, else p + 1).

d is about 2**(1 - 2p), so |e| is at most a handful, and never 0 (M is odd and C < 2**p). For each e
the congruence gives the few X there are; each is tried with exact numbers. So the check is as good as
trying all 2**(p-1) significands, and takes a fraction of a millisecond.

Below `least` the product low * x may be subnormal, or the quotient: there the division itself
has to be used (0 aside, which comes out right).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

PRECISION = {32: 24, 64: 53}
"""Bits of a significand, by the bits of the format."""
_LEAST_EXPONENT = {32: -126, 64: -1022}
"""The exponent of the smallest normal number."""
_RARE = {32: -80, 64: -900}
"""`least` / c may not be above 2 to this: else what is meant to be rare might not be."""
_MOST = 64
"""Residuals beyond which a divisor is not looked at further."""


@dataclass(frozen=True, slots=True)
class Reciprocal:
    """1/c as `high + low`, both of c's sign and of the format: for |x| >= `least` (a power of two),
    and for 0, infinities and NaN, `fma(high, x, low * x)` is x / c."""

    high: float
    low: float
    least: float


@cache
def reciprocal_of(divisor: float, bits: int) -> Reciprocal | None:
    """The reciprocal of a finite number of an IEEE format of 32 or 64 bits; None where it is not
    proved, or the divisor is too large or small, or a power of two (whose reciprocal is exact)."""
    if not math.isfinite(divisor) or divisor == 0.0:
        return None
    precision, lowest = PRECISION[bits], Fraction(2) ** _LEAST_EXPONENT[bits]
    size = Fraction(abs(divisor))
    high = _cut(1 / size, precision)
    rest = 1 / size - high
    if rest == 0 or not lowest <= high < 2 / lowest:
        return None
    nearest = round_to(rest, precision)
    unit = Fraction(2) ** (_exponent(nearest) - precision + 1)
    for low in (nearest, nearest - unit, nearest + unit):
        if low < lowest:
            continue
        least = max(lowest, Fraction(2) ** (_exponent(lowest / low) + 1))
        rare = least <= min(size, 1 / lowest) * Fraction(2) ** _RARE[bits]
        if rare and is_exact(size, high, low, precision):
            sign = math.copysign(1.0, divisor)
            return Reciprocal(sign * float(high), sign * float(low), float(least))
    return None


def is_exact(divisor: Fraction, high: Fraction, low: Fraction, precision: int) -> bool:
    """Whether RN(high * x + RN(low * x)) = RN(x / divisor) for all x of `precision` bits, however
    large or small. All arguments are positive; False also where that cannot be told."""
    error = abs(high + low - 1 / divisor) + low / 2**precision
    for x in _near_midpoints(divisor, error * divisor, precision):
        if x is None:
            return False
        got = round_to(high * x + round_to(low * x, precision), precision)
        if got != round_to(x / divisor, precision):
            return False
    return True


def _near_midpoints(
    divisor: Fraction, error: Fraction, precision: int
) -> Iterator[Fraction | None]:
    """Every significand x for which x / divisor lies within the relative `error` of a midpoint
    (and perhaps others); None where there may be more than are worth looking at."""
    smallest, end = 2 ** (precision - 1), 2**precision
    significand = divisor / Fraction(2) ** (_exponent(divisor) - precision + 1)
    assert significand.denominator == 1
    c = significand.numerator
    twos = (c & -c).bit_length() - 1
    for scale, first, last in ((precision, c, end), (precision + 1, smallest, c)):
        most = math.floor(error * last * 2**scale)
        if most > _MOST:
            yield None
            return
        for e in range(-most, most + 1):
            if e % 2**twos or e == 0:
                continue
            # M * (c / 2**twos) = -e / 2**twos  modulo `period`
            period = 2 ** (scale - twos)
            start = -(e >> twos) * pow(c >> twos, -1, period) % period
            for m in range(start + (end - start + period - 1) // period * period, 2 * end, period):
                x, over = divmod(m * c + e, 2**scale)
                if m % 2 and not over and first <= x < last:
                    yield Fraction(x)


def round_to(value: Fraction, precision: int) -> Fraction:
    """A positive number rounded to `precision` bits, to nearest even; exponents have no limits."""
    unit = Fraction(2) ** (_exponent(value) - precision + 1)
    return round(value / unit) * unit  # Python's `round` is to even


def _cut(value: Fraction, precision: int) -> Fraction:
    unit = Fraction(2) ** (_exponent(value) - precision + 1)
    return math.floor(value / unit) * unit


def _exponent(value: Fraction) -> int:
    """The largest k with 2**k <= value."""
    k = value.numerator.bit_length() - value.denominator.bit_length()
    return k if Fraction(2) ** k <= value else k - 1
