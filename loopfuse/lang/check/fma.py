"""Forms fused multiply-adds: the one place where the language contracts anything.

before:  add(mul(a, b), c)        sub(c, mul(a, b))
after:   fma(a, b, c)             fma(-a, b, c)

Needs one whole right-hand side, after `func`s were inlined; leaves the same value but for the
rounding of each multiplication taken in. Bottom-up, one per addition, a multiplication on the
left first. It does not look through casts, `let`s or temporaries: those end a contraction.
"""

from __future__ import annotations

from dataclasses import replace

from loopfuse.lang.nodes import Binary, Const, Expr, Fma, Unary
from loopfuse.lang.walk import map_expr


def negate(expr: Expr) -> Expr:
    """`-expr`, exact; a constant or another negation is folded."""
    match expr:
        case Const(value=value) if expr.dtype.is_float:
            return replace(expr, value=-value)
        case Unary(op="neg", operand=operand):
            return operand
        case _:
            return Unary("neg", expr, expr.dtype, span=expr.span)


def form_fmas(expr: Expr) -> Expr:
    """`expr` with every float addition or subtraction of a product made an Fma."""
    return map_expr(_contract, expr)


def _contract(expr: Expr) -> Expr:
    match expr:
        case Binary(op="add" | "sub" as op, left=left, right=right, dtype=dtype) if dtype.is_float:
            if isinstance(left, Binary) and left.op == "mul":
                addend = right if op == "add" else negate(right)
                return Fma(left.left, left.right, addend, dtype, span=expr.span)
            if isinstance(right, Binary) and right.op == "mul":
                factor = right.left if op == "add" else negate(right.left)
                return Fma(factor, right.right, left, dtype, span=expr.span)
            return expr
        case _:
            return expr
