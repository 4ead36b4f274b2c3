"""Rounding to f16 and bf16, once and to nearest even, from any number.

NumPy and ml_dtypes round some conversions twice (an i64 to f16 goes through f32, an f64 to
bfloat16 too); these do not. Overflow gives infinity and a NaN stays one.
"""

from __future__ import annotations

import math
import struct

from loopfuse.base.dtypes import DType

FIELDS = {DType.F16: (10, 15), DType.BF16: (7, 127)}
"""Mantissa bits and exponent bias of the two storage types."""


def round_to_narrow(value: int | float, dtype: DType) -> float:
    """`value` rounded to f16 or bf16, as the float of the same value."""
    mantissa, bias = FIELDS[dtype]
    number = _odd(value) if isinstance(value, int) else value
    if number == 0 or not math.isfinite(number):
        return number
    # The spacing of the type's numbers around `number`: 2**last.
    _, exponent = math.frexp(number)
    if exponent - 1 > bias:
        return math.copysign(math.inf, number)
    last = max(exponent - 1, 1 - bias) - mantissa
    # Scaling by a power of two is exact here, and round() takes halves to even.
    rounded = math.ldexp(round(math.ldexp(number, -last)), last)
    largest = math.ldexp(2.0 - 2.0**-mantissa, bias)
    if abs(rounded) > largest:
        return math.copysign(math.inf, number)
    return math.copysign(rounded, number)


def _odd(value: int) -> float:
    """An integer as a float that rounds to any shorter type as the integer itself does: bits
    past the 53rd only count as "there are some"."""
    size = abs(value).bit_length()
    if size <= 53:
        return float(value)
    if size > 1023:
        return math.copysign(math.inf, value)
    shift = size - 53
    kept = abs(value) >> shift
    if kept << shift != abs(value):
        kept |= 1
    return math.copysign(math.ldexp(kept, shift), value)


def narrow_bits(value: float, dtype: DType) -> int:
    """The 16 bits of a number that `dtype` can hold (a NaN gives the default one)."""
    if dtype is DType.F16:
        return 0x7E00 if value != value else struct.unpack("<H", struct.pack("<e", value))[0]
    return 0x7FC0 if value != value else struct.unpack("<I", struct.pack("<f", value))[0] >> 16
