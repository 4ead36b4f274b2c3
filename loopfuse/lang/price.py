"""What expressions cost, from the table of operations: what the planner weighs recomputation with, and
what threads are given work by.

The unit is an instruction that gives an f32 for every lane of the device (`lang.ops.price`); two of
them are an operation of the cost model, as a load is.
"""

from __future__ import annotations

from typing import assert_never

from loopfuse.lang import ops
from loopfuse.lang.nodes import (
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Fma,
    Iter,
    Load,
    Select,
    Symbol,
    Unary,
)
from loopfuse.lang.walk import children

OPERATION = 2
"""Instructions in the time of a load that finds its element in a cache."""

BY_CONSTANT = 6
"""An integer `//` or `%` by a constant: a multiplication of twice the width, shifts and corrections."""


def own_price(expr: Expr, device: str) -> float:
    """Instructions of the operation at the top of `expr`; of a load too, its subscripts aside."""
    match expr:
        case Const() | Iter() | Symbol():
            return 0.0
        case Load():
            return float(OPERATION)
        case Binary(op="floordiv" | "mod" | "fmod", right=Const(), dtype=dtype) if not dtype.is_float:
            return float(BY_CONSTANT)
        case Binary(op=op) | Unary(op=op):
            return ops.price(op, expr.dtype, device)
        case Compare():
            return ops.price("compare", expr.left.dtype, device)
        case Select():
            return ops.price("select", expr.dtype, device)
        case Cast(operand=operand):
            return ops.conversion_price(operand.dtype, expr.dtype, device)
        case Call(function=function) if function not in ops.BY_NAME:
            return 1.0  # `inside`: one comparison
        case Call(function=function):
            return ops.price(function, expr.dtype, device)
        case Fma():
            return ops.price("fma", expr.dtype, device)
        case _:
            assert_never(expr)


def expression_price(expr: Expr, device: str) -> float:
    """Instructions of a whole expression, those of its subscripts aside."""
    if isinstance(expr, Load):
        return float(OPERATION)
    return own_price(expr, device) + sum(expression_price(each, device) for each in children(expr))
