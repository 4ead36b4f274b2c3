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


class MixedHalves(Exception):
    """f16 and bf16 meet: neither holds the other's numbers."""


def promote(left: DType, right: DType) -> DType:
    """The dtype of an operation on typed operands: `numpy.result_type(left, right)`.

    ml_dtypes leaves bf16 beside an integer of 16 bits or more undefined; here that goes where f16
    goes. Raises MixedHalves for f16 with bf16.
    """
    if left is right or right is DType.BOOL:
        return left
    if left is DType.BOOL:
        return right
    if left.is_float and right.is_float:
        if left.bits == right.bits:
            raise MixedHalves
        return left if left.bits > right.bits else right
    if left.is_float or right.is_float:
        number, whole = (left, right) if left.is_float else (right, left)
        # The float must hold the integers: f16 counts for 8 bits, f32 for 16, f64 for all.
        if 2 * whole.bits <= number.bits or number is DType.F64:
            return number
        return DType.F32 if whole.bits == 16 else DType.F64
    if left.is_signed == right.is_signed:
        return left if left.bits > right.bits else right
    signed, unsigned = (left, right) if left.is_signed else (right, left)
    if signed.bits > unsigned.bits:
        return signed
    return _WIDER_SIGNED[unsigned]


_WIDER_SIGNED = {
    DType.U8: DType.I16,
    DType.U16: DType.I32,
    DType.U32: DType.I64,
    DType.U64: DType.F64,
}


def widens_to_f64(left: DType, right: DType) -> bool:
    """True where neither operand is an f64 and the operation is done in f64: worth a warning."""
    return DType.F64 not in (left, right) and promote(left, right) is DType.F64


def join(left: Value, right: Value) -> DType:
    """The dtype in which an operation on `left` and `right` is done."""
    if left.weak == right.weak:
        if left.weak and DType.U64 in (left.dtype, right.dtype):
            # A literal past i64 beside another weak integer: Python's have no width.
            return DType.F64 if DType.F64 in (left.dtype, right.dtype) else DType.U64
        return promote(left.dtype, right.dtype)
    weak, typed = (left, right) if left.weak else (right, left)
    if weak.dtype is DType.BOOL:
        return typed.dtype
    if weak.dtype.is_float:
        return typed.dtype if typed.dtype.is_float else DType.F64
    return DType.I64 if typed.dtype is DType.BOOL else typed.dtype


def same_kind(source: DType, target: DType) -> bool:
    """Whether an assignment may convert `source` to `target` (NumPy's `same_kind`): from bool to
    unsigned to signed to float, and between widths, but not between f16 and bf16."""
    if {source, target} == {DType.F16, DType.BF16}:
        return False
    return _kind(source) <= _kind(target)


def _kind(dtype: DType) -> int:
    if dtype is DType.BOOL:
        return 0
    return 1 if dtype.is_unsigned else 2 if dtype.is_integer else 3


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
