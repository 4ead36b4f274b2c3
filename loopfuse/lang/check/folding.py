"""Computes a constant expression while compiling, with the meaning `lang.semantics` gives it."""

from __future__ import annotations

from typing import assert_never

import numpy as np

from loopfuse.lang import ops, semantics
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


def fold_constant(expr: Expr) -> Const | None:
    """The Const that `expr` computes to; None if it reads a name, an element or calls one of the
    functions whose bits only the compiled code has."""
    with np.errstate(all="ignore"):
        value = _evaluate(expr)
    if value is None:
        return None
    plain = float(value) if isinstance(value, np.floating) else value
    return Const(semantics.represent(plain, expr.dtype), expr.dtype, span=expr.span)


def _evaluate(expr: Expr) -> semantics.Scalar | None:
    match expr:
        case Const(value=value, dtype=dtype):
            return semantics.scalar_type(dtype)(value)
        case Iter() | Symbol() | Load():
            return None
        case Unary(op=op, operand=operand, dtype=dtype):
            return _apply(semantics.unary(op, dtype), operand)
        case Cast(operand=operand, dtype=dtype):
            return _apply(semantics.cast(operand.dtype, dtype), operand)
        case Binary(op=op, left=left, right=right, dtype=dtype):
            if op in semantics.OURS:
                return None
            return _apply(semantics.binary(op, dtype, {}), left, right)
        case Compare(op=op, left=left, right=right):
            return _apply(semantics.COMPARE[op], left, right)
        case Select(condition=condition, then=then, otherwise=otherwise):
            choice = _evaluate(condition)
            return None if choice is None else _evaluate(then if choice else otherwise)
        case Call(function=function, arguments=arguments, dtype=dtype):
            if function in (*semantics.OURS, *ops.APPROXIMATE):
                return None
            return _apply(semantics.call(function, dtype, {}), *arguments)
        case Fma(a=a, b=b, c=c, dtype=dtype):
            return _apply(semantics.fma(dtype), a, b, c)
        case _:
            assert_never(expr)


def _apply(function: object, *operands: Expr) -> semantics.Scalar | None:
    values = [_evaluate(operand) for operand in operands]
    if any(value is None for value in values) or not callable(function):
        return None
    return function(*values)
