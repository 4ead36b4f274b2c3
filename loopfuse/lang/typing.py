"""Types of expressions while a program is checked: weak numbers, promotion, conversion.

The rules are those of NumPy 2 (NEP 50). A *weak* value (a literal, a size, an iterator, or
arithmetic of these) takes the type of the typed operand beside it, or of its target; alone it is
an i64 or f64. Typed operands promote as `numpy.result_type`; an assignment converts as NumPy's
`same_kind`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from loopfuse.base.dtypes import DType
from loopfuse.lang.nodes import Cast, Const, Expr
from loopfuse.lang.semantics import integer_limits, represent

SUPPORTED = (DType.BOOL, DType.I32, DType.I64, DType.F32, DType.F64)
"""The dtypes this version compiles; the others parse and are refused by name."""


@dataclass(frozen=True, slots=True)
class Value:
    """A checked expression: its core, and whether its type is weak (then i64 or f64)."""

    expr: Expr
    weak: bool = False

    @property
    def dtype(self) -> DType:
        """The dtype it has now; a weak one's may still change."""
        return self.expr.dtype

    @property
    def is_literal(self) -> bool:
        """A weak constant, which may be folded with others."""
        return self.weak and isinstance(self.expr, Const)


class LiteralRange(Exception):
    """An integer literal does not fit the type it must take."""

    def __init__(self, value: int, dtype: DType) -> None:
        self.value, self.dtype = value, dtype
        super().__init__(f"{value} does not fit {dtype.value}")


_ORDER = (DType.BOOL, DType.I32, DType.I64, DType.F32, DType.F64)


def promote(left: DType, right: DType) -> DType:
    """The dtype of an operation on typed operands: `numpy.result_type(left, right)`."""
    low, high = sorted((left, right), key=_ORDER.index)
    # f32 holds neither every i32 nor every i64, so NumPy goes to f64.
    return DType.F64 if high is DType.F32 and low.is_integer else high


def loses_f32(left: DType, right: DType) -> bool:
    """True where an f32 and an integer meet and give f64: worth a warning."""
    return {left, right} in ({DType.F32, DType.I32}, {DType.F32, DType.I64})


def join(left: Value, right: Value) -> DType:
    """The dtype in which an operation on `left` and `right` is done."""
    if left.weak == right.weak:
        return promote(left.dtype, right.dtype)
    weak, typed = (left, right) if left.weak else (right, left)
    if weak.dtype is DType.BOOL:
        return typed.dtype
    if weak.dtype.is_float:
        return typed.dtype if typed.dtype.is_float else DType.F64
    return DType.I64 if typed.dtype is DType.BOOL else typed.dtype


def same_kind(source: DType, target: DType) -> bool:
    """Whether an assignment may convert `source` to `target` (NumPy's `same_kind`)."""
    return _kind(source) <= _kind(target)


def _kind(dtype: DType) -> int:
    return 0 if dtype is DType.BOOL else 1 if dtype.is_integer else 2


def convert(value: Value, dtype: DType) -> Expr:
    """`value` as an expression of `dtype`: a constant is folded, anything else gets a Cast.

    Raises LiteralRange where an integer literal does not fit an integer dtype.
    """
    expr = value.expr
    if expr.dtype is dtype:
        return expr
    if isinstance(expr, Const):
        if value.weak and expr.dtype.is_integer and dtype.is_integer:
            low, high = integer_limits(dtype)
            if not low <= int(expr.value) <= high:
                raise LiteralRange(int(expr.value), dtype)
        return replace(expr, value=represent_constant(expr, dtype), dtype=dtype)
    return Cast(expr, dtype, span=expr.span)


def represent_constant(expr: Const, dtype: DType) -> bool | int | float:
    """The value of `Cast(expr, dtype)`: saturates a float to an integer, NaN gives 0."""
    value = expr.value
    if isinstance(value, float) and dtype.is_integer:
        low, high = integer_limits(dtype)
        if value != value:
            return 0
        return low if value <= low else high if value >= high else int(value)
    return represent(value, dtype)
