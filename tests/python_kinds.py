"""What kind of number a surface expression is: the little of typing that printing it as Python
needs, written anew from docs/types.md so that it does not lean on the checker it helps to test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

import ml_dtypes
import numpy as np

from loopfuse.base.dtypes import DType, from_numpy_name
from loopfuse.lang.surface import syntax

WHOLE = ("floor", "ceil", "round", "trunc")
"""Functions that leave an integer as it is."""
EXTREMES = ("min", "max", "fmin", "fmax")
PAIRS = ("atan2", "hypot", "copysign", "fmod")
TESTS = ("isnan", "isinf", "isfinite")
CASTS = {dtype.value: dtype for dtype in DType}


@dataclass(frozen=True)
class Kind:
    """A dtype, and whether it is a Python number (`weak`), which takes its neighbour's type."""

    dtype: DType
    weak: bool = False


INT = Kind(DType.I64, weak=True)
FLOAT = Kind(DType.F64, weak=True)
BOOL = Kind(DType.BOOL)


def numpy_type(dtype: DType) -> np.dtype:
    """The NumPy dtype of `dtype`."""
    return np.dtype(ml_dtypes.bfloat16 if dtype is DType.BF16 else dtype.numpy_name)


def join(left: Kind, right: Kind) -> Kind:
    """The kind of `left + right`: NEP 50."""
    if left.weak and right.weak:
        floating = DType.F64 in (left.dtype, right.dtype)
        return FLOAT if floating else INT
    if not left.weak and not right.weak:
        if left.dtype is right.dtype:
            return left
        found = from_numpy_name(
            np.result_type(numpy_type(left.dtype), numpy_type(right.dtype)).name
        )
        assert found is not None
        return Kind(found)
    weak, typed = (left, right) if left.weak else (right, left)
    if weak.dtype is DType.F64 and not typed.dtype.is_float:
        return Kind(DType.F64)
    return Kind(DType.I64) if typed.dtype is DType.BOOL else typed


@dataclass
class Kinds:
    """The kinds of the names in sight; arrays are names too (the kind of their elements)."""

    names: dict[str, Kind]
    functions: dict[str, Kind]

    def of(self, expr: syntax.Expr) -> Kind:
        """The kind of `expr`."""
        match expr:
            case syntax.Number(value=bool()):
                return BOOL
            case syntax.Number(value=value):
                return INT if isinstance(value, int) else FLOAT
            case syntax.Name(name=name):
                return self.names[name]
            case syntax.Subscript(array=array):
                return self.names[array]
            case syntax.Unary(op=op, operand=operand):
                return BOOL if op == "not" else self.of(operand)
            case syntax.Binary(op="and" | "or"):
                return BOOL
            case syntax.Binary(op=op, left=left, right=right):
                both = join(self.of(left), self.of(right))
                if op == "/" and not both.dtype.is_float:
                    return Kind(DType.F64, both.weak)
                return both
            case syntax.Comparison():
                return BOOL
            case syntax.Conditional(then=then, otherwise=otherwise):
                return join(self.of(then), self.of(otherwise))
            case syntax.Call(function=function, arguments=arguments):
                return self._call(function, arguments)
            case syntax.Reduction():
                return self.reduction(expr)
            case _:
                assert_never(expr)

    def _call(self, function: str, arguments: tuple[syntax.Expr, ...]) -> Kind:
        if function in self.functions:
            return self.functions[function]
        if function in CASTS:
            return Kind(CASTS[function])
        result = self.of(arguments[0])
        if function in TESTS:
            return Kind(DType.BOOL)
        if function in PAIRS:
            for argument in arguments[1:]:
                result = join(result, self.of(argument))
            return Kind(DType.F64, result.weak) if result.dtype.is_integer and function != "fmod" else result
        if function in (*EXTREMES, "pow", "clip"):
            for argument in arguments[1:]:
                result = join(result, self.of(argument))
            return result
        if result.dtype.is_integer and function not in (*WHOLE, "abs", "sign"):
            return Kind(DType.F64, result.weak)
        return result

    def reduction(self, expr: syntax.Reduction) -> Kind:
        """The kind of a reduction: sums of narrow numbers are wide."""
        element = self.element(expr)
        match expr.op:
            case "any" | "all":
                return BOOL
            case "argmin" | "argmax":
                return Kind(DType.I64)
            case "sum" | "prod" if not element.weak:
                if element.dtype.is_narrow_float:
                    return Kind(DType.F32)
                if element.dtype.is_unsigned:
                    return Kind(DType.U64)
                return element if element.dtype.is_float else Kind(DType.I64)
            case _:
                return element

    def element(self, expr: syntax.Reduction) -> Kind:
        """The kind of a reduction's body."""
        inner = Kinds(self.names | {each.iterator: INT for each in expr.ranges}, self.functions)
        return inner.of(expr.body)
