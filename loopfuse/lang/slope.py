"""Values that are linear in one of their loads: `a[t] * s + b[t]` in `s`, whose slope is `a[t]`."""

from __future__ import annotations

from loopfuse.base.dtypes import DType
from loopfuse.lang.nodes import Binary, Const, Expr, Fma, Load, Select, Unary
from loopfuse.lang.walk import loads


def slope(value: Expr, load: Load) -> Expr | None:
    """`f` where `value` is `f * load` and something without the load, as numbers; None where that is not seen.

    Whole numbers wrap around in both. Every step between has the load's type: what is rounded to another on its
    way is not linear. Nor is what data choose to forget: `0 * load` would be NaN where the load is infinite.
    """
    if load.dtype is DType.BOOL:
        return None
    if load not in loads(value):
        return _number(0, load.dtype)
    if value == load:
        return _number(1, load.dtype)
    if value.dtype is not load.dtype:
        return None
    match value:
        case Unary(op="neg", operand=operand):
            found = slope(operand, load)
            return None if found is None else Unary("neg", found, load.dtype)
        case Binary(op="add" | "sub" as op, left=left, right=right):
            return _sum(op, slope(left, load), slope(right, load), load.dtype)
        case Binary(op="mul", left=left, right=right):
            return _times(left, right, load)
        case Binary(op="div", left=left, right=right) if load.dtype.is_float and load not in loads(right):
            found = slope(left, load)
            return None if found is None else Binary("div", found, right, load.dtype)
        case Fma(a=a, b=b, c=c):
            return _sum("add", _times(a, b, load), slope(c, load), load.dtype)
        case Select(condition=condition, then=then, otherwise=otherwise) if load not in loads(condition):
            one, other = slope(then, load), slope(otherwise, load)
            if one is None or other is None or (loads(condition) and (_is(one, 0) or _is(other, 0))):
                return None
            return Select(condition, one, other, load.dtype)
        case _:
            return None


def is_one(found: Expr | None) -> bool:
    """Is it a slope of 1: does the value add to the load?"""
    return found is not None and _is(found, 1)


def _times(left: Expr, right: Expr, load: Load) -> Expr | None:
    if load in loads(left) and load in loads(right):
        return None
    if load in loads(right):
        left, right = right, left
    found = slope(left, load)
    if found is None or _is(found, 0):
        return found
    return right if _is(found, 1) else Binary("mul", found, right, load.dtype)


def _sum(op: str, left: Expr | None, right: Expr | None, dtype: DType) -> Expr | None:
    if left is None or right is None:
        return None
    if _is(right, 0):
        return left
    if _is(left, 0):
        return right if op == "add" else Unary("neg", right, dtype)
    return Binary(op, left, right, dtype)


def _number(value: int, dtype: DType) -> Const:
    return Const(float(value) if dtype.is_float else value, dtype)


def _is(expr: Expr, value: int) -> bool:
    return isinstance(expr, Const) and expr.value == value
