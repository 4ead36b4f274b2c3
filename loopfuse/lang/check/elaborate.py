"""Elaborates surface expressions: names resolved, types found, conversions made explicit.

Stands above what elaborates each kind of expression. What lies within an expression, those files give to
`Context.elaborate`, which a context is made with.
"""

from __future__ import annotations

from typing import assert_never

from loopfuse.lang.check import calls, expressions, reductions
from loopfuse.lang.check.context import Context
from loopfuse.lang.check.operators import apply_binary, apply_unary, conjunction, need_bool
from loopfuse.lang.check.typing import Value
from loopfuse.lang.surface import syntax


def elaborate(context: Context, expr: syntax.Expr) -> Value:
    """`expr` as a typed core expression; statements it needs first go to `context.hoists`."""
    match expr:
        case syntax.Number():
            return expressions.number(context, expr)
        case syntax.Name():
            return expressions.name(context, expr)
        case syntax.Subscript():
            return expressions.subscript(context, expr)
        case syntax.Unary(op=op, operand=operand):
            return apply_unary(context, op, elaborate(context, operand), expr.span)
        case syntax.Binary(op="and" | "or" as op, left=left, right=right):
            what = f"an operand of `{op}`"
            first = need_bool(context, elaborate(context, left), what)
            second = need_bool(context, elaborate(context, right), what)
            return Value(conjunction(op, first, second, expr.span))
        case syntax.Binary(op=op, left=left, right=right):
            first_value, second_value = elaborate(context, left), elaborate(context, right)
            return apply_binary(context, op, first_value, second_value, expr.span)
        case syntax.Comparison():
            return expressions.comparison(context, expr)
        case syntax.Conditional():
            return expressions.conditional(context, expr)
        case syntax.Call():
            return calls.elaborate_call(context, expr)
        case syntax.Reduction():
            return reductions.elaborate_reduction(context, expr)
        case _:
            assert_never(expr)
