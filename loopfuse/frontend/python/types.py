"""Types of Python expressions while a function is read: what `lang` will find, one step earlier.

A *weak* value is a Python number, which takes the type of the NumPy value beside it (NEP 50). What
a branch, `max` or a local of several assignments gives may be *one of several* types in CPython:
`max(x, 0.1)` is x's f32 or the f64 0.1, `t` an i32 on one path and a Python 7 on another. It has one
type here, which holds every value it may have, but for Python numbers that an f32 beside them does
not hold (*loose*). An operation whose type would depend on the path, or that would see more of such
a number than was kept, is refused. Where it is known which Python numbers a value may be (*constants*),
both are computed, and only what differs is refused.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from loopfuse.base.diagnostics import Span
from loopfuse.base.dtypes import DType
from loopfuse.lang.check.typing import Value, join
from loopfuse.lang.nodes import Symbol

ZERO, UNIT, EXACT, ANY = "zero", "unit", "exact", "any"
_ORDER = ("", ZERO, UNIT, EXACT, ANY)
_NARROW = {DType.F32: "f", DType.F16: "e"}

Form = tuple[DType, bool]
"""A type that CPython's value may have: the dtype, and whether it is weak."""
MOST_CONSTANTS = 6


@dataclass(frozen=True, slots=True)
class Kind:
    """A dtype, whether it is weak, whether it is loose ("", or the Python numbers that it may be:
    "zero", "unit" (0 or 1), "exact", which its dtype holds, or "any"), and the value of a literal.
    `among`: what it may be in CPython; empty where that is this dtype. `place`: where the Python
    number in it stands. `constants`: the Python numbers that it may be, where they are few and known."""

    dtype: DType
    weak: bool = False
    loose: str = ""
    value: bool | int | float | None = None
    among: frozenset[Form] = frozenset()
    constants: frozenset[int | float] | None = None
    place: Span | None = field(default=None, compare=False)

    @property
    def plain(self) -> Kind:
        """This kind without the value."""
        return replace(self, value=None, constants=self.known if self.weak else self.constants)

    @property
    def known(self) -> frozenset[int | float] | None:
        """The Python numbers that it may be; None where they are not known."""
        if self.value is not None and self.weak:
            return None if self.value != self.value else frozenset({self.value})
        if any(not weak and dtype is not self.dtype for dtype, weak in self.forms):
            return None  # of a type of NumPy's, and wider than it is kept
        return self.constants if any(weak for _, weak in self.forms) else frozenset()

    @property
    def forms(self) -> frozenset[Form]:
        """What it may be in CPython."""
        if self.dtype is DType.BOOL:
            return frozenset({(DType.BOOL, False)})
        return self.among or frozenset({(self.dtype, self.weak)})


WEAK_INT = Kind(DType.I64, weak=True)
WEAK_FLOAT = Kind(DType.F64, weak=True)
BOOL = Kind(DType.BOOL)
PYTHON_BOOL = Kind(DType.BOOL, among=frozenset({(DType.BOOL, True)}))
"""`True`, `i > 2`, `not b`: of these, `~` makes a number."""


def literal(value: bool | int | float) -> Kind:
    """The kind of a Python number."""
    if isinstance(value, bool):
        return replace(PYTHON_BOOL, value=value)
    return replace(WEAK_INT if isinstance(value, int) else WEAK_FLOAT, value=value)


def common(left: Kind | None, right: Kind | None) -> Kind | None:
    """The kind of arithmetic on both; None (not known yet) leaves the other."""
    if left is None or right is None:
        return (left or right) and (left or right).plain  # pyright: ignore[reportOptionalMemberAccess]
    dtype, weak = _join((left.dtype, left.weak), (right.dtype, right.weak))
    return Kind(dtype, weak)


def _join(left: Form, right: Form) -> Form:
    try:
        dtype = join(_value(left), _value(right))
    except ValueError:  # a dtype that this version refuses by name, later
        dtype = left[0]
    return dtype, left[1] and right[1]


def either(left: Kind | None, right: Kind | None) -> Kind | None:
    """The kind of a place that holds the one or the other (an `if`, `max`, a local)."""
    left, right = _counted(left, right), _counted(right, left)
    both = common(left, right)
    if both is None or left is None or right is None:
        return both
    if both.dtype is DType.BOOL:
        typed = frozenset({(DType.BOOL, False)})
        among = (left.among or typed) | (right.among or typed)
        return replace(both, among=frozenset() if among == typed else among)
    among = left.forms | right.forms
    both = replace(
        both,
        among=among if len(among) > 1 else frozenset(),
        constants=_few(left.known, right.known),
        place=left.place or right.place,
    )
    held = both.dtype is DType.U64 or (holds(both.dtype, left) and holds(both.dtype, right))
    if both.dtype.is_integer and not both.weak and not held:
        return replace(both, dtype=DType.I64)  # an integer of Python
    if both.weak or both.dtype not in (DType.F32, DType.F16, DType.BF16):
        return both
    looser = max(_looseness(left, both.dtype), _looseness(right, both.dtype), key=_ORDER.index)
    return replace(both, loose=looser)


def _counted(kind: Kind | None, other: Kind | None) -> Kind | None:
    """A Python bool where a Python number may be too: one of 0 and 1."""
    if kind is None or other is None or not other.weak or kind.among != PYTHON_BOOL.among:
        return kind
    values = frozenset({0, 1}) if kind.value is None else frozenset({int(kind.value)})
    return replace(WEAK_INT, constants=values, place=kind.place)


def _few(
    left: frozenset[int | float] | None, right: frozenset[int | float] | None
) -> frozenset[int | float] | None:
    if left is None or right is None or len(left | right) > MOST_CONSTANTS:
        return None
    return left | right


def holds(dtype: DType, kind: Kind) -> bool:
    """The integer type `dtype` holds a Python integer of this kind (which an i64 holds, always)."""
    if not kind.weak or dtype is DType.I64:
        return True
    known = kind.known
    return known is not None and all(in_range(dtype, one) for one in known)


def is_cut(kind: Kind) -> bool:
    """It may be an integer of Python's that its integer type does not hold."""
    if kind.dtype is DType.I64 or not kind.dtype.is_integer or not any(weak for _, weak in kind.forms):
        return False
    return kind.known is None or not all(in_range(kind.dtype, one) for one in kind.known)


def in_range(dtype: DType, value: float) -> bool:
    """The integer type `dtype` holds `value`."""
    low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
    high = 1 << (dtype.bits - 1 if dtype.is_signed else dtype.bits)
    return low <= value < high


def gathered(start: Kind | None, added: Kind | None) -> Kind | None:
    """The kind of a variable that starts as `start` and is updated: where that is a Python number
    which the updates' type holds, it has their type from the beginning. What reads it before its first
    update sees both (`pyfunc_expr.read_name`)."""
    if start is None or added is None:
        return either(start, added)
    first, then = (start, added) if start.weak else (added, start)
    if first.weak and not then.weak and not then.among and first.value is not None:
        dtype = common(first, then)
        if dtype is not None and dtype.dtype is then.dtype and _looseness(first, then.dtype) != ANY:
            return then.plain
    return either(start, added)


def _looseness(kind: Kind, dtype: DType) -> str:
    if not kind.weak:
        return kind.loose
    if kind.value is None:
        return ANY
    if kind.value in (0, 1):
        return ZERO if kind.value == 0 else UNIT
    return EXACT if fits(kind.value, dtype) else ANY


def fits(value: float, dtype: DType) -> bool:
    """`dtype` (f16, bf16 or f32) holds `value` exactly."""
    if dtype is DType.BF16:
        return fits_f32(value) and struct.pack(">f", float(value))[2:] == b"\0\0"
    number = float(value)
    if not math.isfinite(number):
        return True
    try:
        form = _NARROW.get(dtype, "d")
        return struct.unpack(form, struct.pack(form, number))[0] == number
    except OverflowError:
        return False


def fits_f32(value: float) -> bool:
    """f32 holds `value` exactly."""
    number = float(value)
    if not math.isfinite(number):
        return True
    try:
        return struct.unpack("f", struct.pack("f", number))[0] == number
    except OverflowError:
        return False


def _value(form: Form) -> Value:
    return Value(Symbol("", form[0]), form[1])


def arithmetic(op: str, left: Kind | None, right: Kind | None) -> tuple[Kind | None, bool]:
    """(the kind of `left op right`, whether it is CPython's, type and bits, on every path)."""
    both = common(left, right)
    if both is None or left is None or right is None:
        return both, True
    if op == "/" and both.dtype.is_integer:
        both = replace(both, dtype=DType.F64)
    place = left.place or right.place
    forms = {_result(op, one, other) for one in left.forms for other in right.forms}
    if len(forms) == 1:
        ((dtype, weak),) = forms
        made = Kind(dtype, weak, place=place if weak else None)
        if weak:
            made = replace(made, constants=_of_constants(op, left, right, dtype))
        # Of a number that the kept type does not hold, a wider operation would see more.
        cut = [one for one in (left, right) if one.loose == ANY and one.dtype is not dtype]
        return made, not cut and (both.dtype is dtype or both.weak == weak)
    narrow = both.dtype in (DType.F32, DType.F16, DType.BF16)
    found = _of_constants(op, left, right, both.dtype)
    if narrow and (both.dtype, False) in forms and {dtype for dtype, _ in forms} == {both.dtype, DType.F64}:
        if found is not None:
            loose = max((_looseness(literal(one), both.dtype) for one in found), key=_ORDER.index, default="")
            made = replace(both, loose=loose, among=frozenset(forms), constants=found, place=place)
            return made, True
        made, good = _loose(op, left, right, both)
        return made and replace(made, among=frozenset(forms), place=place), good
    whole = all(dtype.is_integer for dtype, _ in forms)
    weak = {dtype for dtype, is_weak in forms if is_weak}
    made = replace(both, among=frozenset(forms), constants=found, place=place)
    if whole and len(forms) == 2 and weak == {DType.I64}:
        # An integer, Python's or NumPy's, which wraps where Python's grows.
        return made, forms == {(DType.I64, True), (DType.I64, False)} or (
            found is not None and (both.dtype, False) in forms
        )
    if all(is_weak for _, is_weak in forms):  # Python's, an int or a float
        return made, op in "+-*/" and (found is not None or left.known is None or right.known is None)
    if forms == {(DType.F64, True), (DType.F64, False)}:
        return made, True
    return made, False


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "**": operator.pow, "&": operator.and_, "|": operator.or_,
    "^": operator.xor, ">>": operator.rshift, "<<": operator.lshift,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
    "!=": operator.ne,
}  # fmt: skip
"""What Python does, by operator."""
_FLOATS = {DType.F16: np.float16, DType.F32: np.float32, DType.F64: np.float64}


def _of_constants(op: str, left: Kind, right: Kind, dtype: DType) -> frozenset[int | float] | None:
    """What Python makes of the numbers that both may be, where the kept type makes the same of them,
    rounded; None where they are not known, or it does not."""
    ones, others = left.known, right.known
    if ones is None or others is None or op not in OPERATIONS or len(ones) * len(others) > MOST_CONSTANTS:
        return None
    if op in ("<<", "**") and any(isinstance(shift, int) and not 0 <= shift < 64 for shift in others):
        return None
    found: list[int | float] = []
    for one in ones:
        for other in others:
            try:
                value = OPERATIONS[op](one, other)
            except (ZeroDivisionError, ValueError):  # CPython raises
                continue
            except (OverflowError, TypeError):
                return None
            if value != value or not _same(op, one, other, value, dtype):
                return None
            found.append(value)
    return frozenset(found)


def _same(op: str, one: float, other: float, value: float, dtype: DType) -> bool:
    """The operation on two numbers as `dtype` keeps them gives `value` as it keeps that."""
    if dtype.is_integer:
        return all(isinstance(each, int) and in_range(dtype, each) for each in (one, other, value))
    kind = _FLOATS.get(dtype)
    if op == "**":
        return one in (0, 1) and value in (0, 1)
    if kind is None or op not in "+-*/":
        return False
    with np.errstate(all="ignore"):
        try:
            made, wanted = OPERATIONS[op](kind(one), kind(other)), kind(value)
        except OverflowError:
            return False
    return made.tobytes() == wanted.tobytes()


def compares_alike(op: str, left: Kind | None, right: Kind | None) -> bool:
    """Whether the numbers that both may be compare as they are kept as they do in Python; False where
    they are not known."""
    both = common(left, right)
    if both is None or left is None or right is None or not (left.among or right.among):
        return False
    ones, others, kind = left.known, right.known, _FLOATS.get(both.dtype)
    if ones is None or others is None or kind is None or len(left.forms | right.forms) > 2:
        return False
    try:
        return all(
            OPERATIONS[op](one, other) == bool(OPERATIONS[op](kind(one), kind(other)))
            for one in ones
            for other in others
        )
    except OverflowError:
        return False


_OF_ONE: dict[str, Callable[[Any], Any]] = {"-": operator.neg, "~": operator.invert, "abs": abs}


def unary(op: str, kind: Kind) -> tuple[Kind, bool]:
    """(the kind of `-x`, `+x`, `~x` and `abs(x)`, whether it is CPython's on every path)."""
    if not (kind.among or kind.weak) or op == "+" or kind.dtype is DType.BOOL:
        return kind.plain, True
    known = kind.known if op != "~" or kind.dtype.is_integer else None
    values = None if known is None else frozenset(_OF_ONE[op](one) for one in known)
    made = replace(kind.plain, constants=values)
    if not kind.among:
        return made, True
    if not kind.dtype.is_integer or kind.forms == frozenset({(DType.I64, True), (DType.I64, False)}):
        return made, True
    fits_ = values is not None and all(in_range(kind.dtype, one) for one in values)
    return made, fits_ and (kind.dtype, False) in kind.forms


def of_function(kind: Kind, given: frozenset[DType]) -> tuple[Kind, bool]:
    """(the kind of what a function of NumPy makes of `kind`, which gives `given` for what that may be;
    whether it is CPython's on every path)."""
    if len(given) == 1:
        (dtype,) = given
        return Kind(dtype), kind.loose != ANY
    forms = frozenset((dtype, False) for dtype in given)
    if kind.loose and given == frozenset({kind.dtype, DType.F64}):
        return Kind(kind.dtype, loose=ANY, among=forms, place=kind.place), kind.loose != ANY
    return Kind(DType.F64, among=forms, place=kind.place), False


def _result(op: str, left: Form, right: Form) -> Form:
    dtype, weak = _join(left, right)
    return (DType.F64, weak) if op == "/" and dtype.is_integer else (dtype, weak)


def _loose(op: str, left: Kind, right: Kind, both: Kind) -> tuple[Kind | None, bool]:
    """Of a narrow float or what may be wider (a Python number, what a function of NumPy makes of one),
    with a number that the narrow type holds or another like it."""
    if not (left.loose or right.loose):
        return both, False
    loose, other = (left, right) if left.loose else (right, left)
    if other.value is not None and _scales(op, other.value, other is right):
        return replace(both, loose=loose.loose), True
    if op == "**" and loose is left and loose.loose in (ZERO, UNIT):
        return replace(both, loose=UNIT), True
    held = not other.weak or (other.value is not None and fits(other.value, both.dtype))
    if loose.loose == ZERO and not other.loose:  # 0.0 op w is zero, or w
        if op == "*" or (op == "/" and loose is left):
            return replace(both, loose=ZERO), True
        if op in "+-":
            return replace(both, loose=EXACT if held else ANY), True
        if op == "/":  # an error of Python's, or an infinity
            return replace(both, loose=EXACT), True
    # One f64 operation on two narrow numbers, rounded to their type, is its operation.
    good = loose.loose != ANY and (other.loose != ANY if other.loose else held)
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
