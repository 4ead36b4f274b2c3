"""Types of Python expressions while a function is read: what `lang` will find, one step earlier.

A *weak* value is a Python number, which takes the type of the NumPy value beside it (NEP 50). A
*loose* one is typed here but may still be a Python number in CPython: `max(x, 0.1)` is x's f32 or
the f64 0.1. Arithmetic of a loose value with a weak one could round differently, and is refused
unless it cannot.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, replace

from loopfuse.base.dtypes import DType
from loopfuse.lang.nodes import Symbol
from loopfuse.lang.typing import Value, join

ZERO, EXACT, ANY = "zero", "exact", "any"


@dataclass(frozen=True, slots=True)
class Kind:
    """A dtype, whether it is weak, whether it is loose ("", or the Python number that it may
    be: "zero", "exact", which f32 holds, or "any"), and the value of a literal."""

    dtype: DType
    weak: bool = False
    loose: str = ""
    value: bool | int | float | None = None

    @property
    def plain(self) -> Kind:
        """This kind without the value."""
        return replace(self, value=None)


WEAK_INT = Kind(DType.I64, weak=True)
WEAK_FLOAT = Kind(DType.F64, weak=True)
BOOL = Kind(DType.BOOL)


def literal(value: bool | int | float) -> Kind:
    """The kind of a Python number."""
    if isinstance(value, bool):
        return Kind(DType.BOOL, value=value)
    return replace(WEAK_INT if isinstance(value, int) else WEAK_FLOAT, value=value)


def common(left: Kind | None, right: Kind | None) -> Kind | None:
    """The kind of arithmetic on both; None (not known yet) leaves the other."""
    if left is None or right is None:
        return (left or right) and (left or right).plain  # pyright: ignore[reportOptionalMemberAccess]
    try:
        dtype = join(_value(left), _value(right))
    except ValueError:  # a dtype that this version refuses by name, later
        dtype = left.dtype
    return Kind(dtype, left.weak and right.weak)


def either(left: Kind | None, right: Kind | None) -> Kind | None:
    """The kind of a place that holds the one or the other (an `if`, `max`, a local)."""
    both = common(left, right)
    if both is None or left is None or right is None:
        return both
    if both.weak or both.dtype is not DType.F32:
        return both
    return replace(both, loose=max(_looseness(left), _looseness(right), key=("", ZERO, EXACT, ANY).index))


def _looseness(kind: Kind) -> str:
    if not kind.weak:
        return kind.loose
    if kind.value is None:
        return ANY
    return ZERO if kind.value == 0 else EXACT if fits_f32(kind.value) else ANY


def fits_f32(value: float) -> bool:
    """f32 holds `value` exactly."""
    number = float(value)
    if not math.isfinite(number):
        return True
    try:
        return struct.unpack("f", struct.pack("f", number))[0] == number
    except OverflowError:
        return False


def _value(kind: Kind) -> Value:
    return Value(Symbol("", kind.dtype), kind.weak)


def arithmetic(op: str, left: Kind | None, right: Kind | None) -> tuple[Kind | None, bool]:
    """(the kind of `left op right`, whether its bits are CPython's whatever a loose operand is)."""
    both = common(left, right)
    if both is None or left is None or right is None:
        return both, True
    if op == "/" and both.dtype.is_integer:
        both = replace(both, dtype=DType.F64)
    if not (left.loose or right.loose) or both.dtype is not DType.F32:
        return both, True
    loose, other = (left, right) if left.loose else (right, left)
    if not other.weak and not other.loose:
        return both, True  # the NumPy value beside it settles the type
    if other.value is not None and _scales(op, other.value, other is right):
        return replace(both, loose=loose.loose), True
    if loose.loose == ZERO and other.weak:  # 0.0 op w is zero, or w
        if op == "*" or (op == "/" and loose is left):
            return replace(both, loose=ZERO), True
        if op in "+-":
            fits = other.value is not None and fits_f32(other.value)
            return replace(both, loose=EXACT if fits else ANY), True
    # One f64 operation on two f32 numbers, rounded to f32, is the f32 operation.
    good = loose.loose != ANY and (
        other.loose != ANY if other.loose else other.value is not None and fits_f32(other.value)
    )
    return replace(both, loose=ANY), good and op in "+-*/"


def _scales(op: str, value: float, on_right: bool) -> bool:
    """`x op value` is exact: multiplication or division by a power of two (or adding zero)."""
    number = abs(float(value))
    if number == 0:
        return op in "+-*"
    if not math.isfinite(number):
        return op in "+-*/"
    power = math.frexp(number)[0] == 0.5 and 2.0**-60 < number < 2.0**60
    return power and (op == "*" or (op == "/" and on_right))
