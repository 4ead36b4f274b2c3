"""Makes f16 and bf16 storage types: every operation is done in f32, and where it rounds is written.

before:  y[i] = a[i] * b[i] + c[i]                                    (all f16)
after:   y[i] = f16(fma(f32(a[i]), f32(b[i]), f32(c[i])))             fp fast
         y[i] = f16(f32(f16(f32(a[i]) * f32(b[i]))) + f32(c[i]))      fp strict

Needs the whole value of a `let`, temporary, store or accumulation; leaves f16 and bf16 on loads,
casts and constants alone. In `strict` each operation that can round is followed by its rounding,
as NumPy does it. Exact operations (negation, min and max, floor, a choice) never are.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import assert_never

from loopfuse.base.dtypes import DType
from loopfuse.lang.check.fma import form_fmas
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
    Stmt,
    Symbol,
    Unary,
)
from loopfuse.lang.walk import map_expr, map_stmt_expressions, walk_expr

_EXACT = ("min", "max", "fmin", "fmax", "abs", "floor", "ceil", "round", "trunc", "sign", "copysign")


def finish(expr: Expr, fp: str, accumulators: Set[str] = frozenset()) -> Expr:
    """One whole right-hand side as it will be computed: widened, with FMAs unless `fp` is strict.

    `accumulators` are scalars of a narrow type whose core is an f32 that holds its numbers.
    """
    wide = widen(expr, fp, accumulators)
    return _stored(wide if fp == "strict" else form_fmas(wide), expr.dtype)


def widen(expr: Expr, fp: str, accumulators: Set[str] = frozenset()) -> Expr:
    """`expr`, as an f32 where it is an f16 or bf16. Widening again changes nothing."""
    if not any(node.dtype.is_narrow_float for node in walk_expr(expr)):
        return expr

    def one(node: Expr) -> Expr:
        return _widened(node, fp == "strict", accumulators)

    return map_expr(one, expr)


def rounded(expr: Expr, dtype: DType) -> Expr:
    """The f32 `expr` rounded to a narrow `dtype`, again as an f32; nothing to do for a number
    that has just been loaded."""
    if isinstance(expr, Cast) and expr.operand.dtype is dtype:
        return expr
    return Cast(Cast(expr, dtype, span=expr.span), DType.F32, span=expr.span)


def widen_statements(body: tuple[Stmt, ...], fp: str, accumulators: Set[str]) -> tuple[Stmt, ...]:
    """What no right-hand side is: conditions, bounds and subscripts."""

    def whole(expr: Expr) -> Expr:
        return _stored(widen(expr, fp, accumulators), expr.dtype)

    return tuple(map_stmt_expressions(whole, stmt) for stmt in body)


def _stored(wide: Expr, dtype: DType) -> Expr:
    if wide.dtype is dtype:
        return wide
    match wide:
        case Const():
            return replace(wide, dtype=dtype)
        case Cast(operand=operand) if operand.dtype is dtype:
            return operand
        case _:
            return Cast(wide, dtype, span=wide.span)


def _widened(node: Expr, strict: bool, accumulators: Set[str]) -> Expr:
    """`node`, whose operands are wide already."""
    narrow = node.dtype
    if not narrow.is_narrow_float:
        same = isinstance(node, Cast) and node.operand.dtype is node.dtype
        return node.operand if isinstance(node, Cast) and same else node
    match node:
        case Const():
            return replace(node, dtype=DType.F32)
        case Load(array=array) if array in accumulators:
            return replace(node, dtype=DType.F32)
        case Cast(operand=operand) if not operand.dtype.is_float and operand.dtype.bits == 8:
            return replace(node, dtype=DType.F32)  # both hold every number of 8 bits
        case Load() | Symbol() | Cast():
            return Cast(node, DType.F32, span=node.span)
        case Unary() | Select():
            return replace(node, dtype=DType.F32)
        case Binary(op=word) | Call(function=word):
            wide = replace(node, dtype=DType.F32)
            return rounded(wide, narrow) if strict and word not in _EXACT else wide
        case Fma():
            return replace(node, dtype=DType.F32)
        case Iter() | Compare():
            raise AssertionError("an iterator or a comparison is no narrow float")
        case _:
            assert_never(node)
