"""Elaborates `argmin` and `argmax`: a loop over two variables, the best element and its index.

before:  y[r] = argmin(c in 0..C: x[r, c])
after:   assume 0 < C
         var best = inf; var first = 0
         for c in 0..C:
             let element = x[r, c]
             let better = not element >= best and best == best
             best = element if better else best; first = c if better else first
         y[r] = first

The first such index wins, and so does the first NaN, as NumPy has it; -0.0 equals 0.0. The order
matters, so no later stage takes the loop apart. An empty range is an error of the call.
"""

from __future__ import annotations

from loopfuse.base.dtypes import DType
from loopfuse.lang.check import expressions, ranges
from loopfuse.lang.check.context import Context
from loopfuse.lang.check.narrow import rounded
from loopfuse.lang.check.scope import ValueEntry
from loopfuse.lang.check.typing import Value
from loopfuse.lang.nodes import (
    Assume,
    Binary,
    Compare,
    Const,
    Define,
    Expr,
    For,
    Load,
    Select,
    Stmt,
    Store,
    Unary,
)
from loopfuse.lang.semantics import neutral
from loopfuse.lang.surface import syntax


def elaborate_arg(
    context: Context, expr: syntax.Reduction, unrolled: set[str], core: str = ""
) -> Value:
    """The index of the first smallest (greatest) element, an i64."""
    if len(expr.ranges) != 1:
        context.fail(
            "arg-ranges",
            f"`{expr.op}` takes one range: its value is one index",
            expr.span,
            fix=f"nest two: the `{expr.op}` of each row, and then the best of the rows",
        )
    (each,) = expr.ranges
    limits = ranges.bounds(context, each)
    lower, upper = limits.lower, limits.upper
    down = limits.step < 0
    if isinstance(lower, Const) and isinstance(upper, Const):
        if (lower.value <= upper.value) if down else (lower.value >= upper.value):
            context.fail(
                "empty-arg-reduction",
                f"`{expr.op}` over an empty range has no index",
                each.span,
                fix="give it a range with at least one element",
            )
    else:
        context.hoists.append(Assume(Compare("gt" if down else "lt", lower, upper), span=each.span))
    name = core or context.names.hoisted(context.target, expr.op)
    best, element = (context.names.declare(f"{name}.{word}") for word in ("best", "element"))
    better = context.names.declare(f"{name}.better")
    body: list[Stmt] = []
    kinds: set[DType] = set()

    def leaf(index: Expr) -> list[Stmt]:
        context.count_statement(expr.span)
        outer, context.hoists = context.hoists, []
        try:
            value = _element(context, expr)
            first = context.hoists
        finally:
            context.hoists = outer
        kinds.add(value.dtype)
        return [*first, *_steps(expr, value, index, (name, best, element, better))]

    if each.iterator in unrolled:
        for number in ranges.constant_values(context, each, limits):
            with context.inner():
                constant = Const(number, DType.I64, span=each.span)
                entry = ValueEntry(Value(constant, weak=True), "iterator", each.span)
                context.define(each.iterator, entry)
                body += leaf(constant)
                element, better = (
                    context.names.declare(f"{name}.{word}") for word in ("element", "better")
                )
    else:
        iterator = ranges.declare_iterator(context, each, limits)
        index = expressions.name(context, syntax.Name(each.iterator, span=each.span)).expr
        inner = tuple(leaf(index))
        body = [For(iterator, lower, upper, limits.step, inner, span=each.span)]
    (dtype,) = kinds
    worst = Const(neutral(expr.op[3:], dtype), dtype, span=expr.span)
    context.hoists += [
        Define(best, dtype, worst, mutable=True, span=expr.span),
        Define(name, DType.I64, lower, mutable=True, span=expr.span),
        *body,
    ]
    return Value(Load(name, (), DType.I64, span=expr.span))


def _element(context: Context, expr: syntax.Reduction) -> Expr:
    """The body as it is compared: a bool as a u8, f16 and bf16 rounded and as f32."""
    value = context.elaborate(expr.body)
    if value.dtype is DType.BOOL:
        return context.convert(value, DType.U8, expr.body.span)
    dtype = value.dtype
    if not dtype.is_narrow_float:
        return context.finish(value.expr)
    return rounded(context.widen(value.expr), dtype)


def _steps(
    expr: syntax.Reduction, value: Expr, index: Expr, names: tuple[str, str, str, str]
) -> list[Stmt]:
    name, best, element, better = names
    span, dtype = expr.span, value.dtype
    now, kept = Load(element, (), dtype, span=span), Load(best, (), dtype, span=span)
    first, wins = Load(name, (), DType.I64, span=span), Load(better, (), DType.BOOL, span=span)
    if dtype.is_float:
        # A NaN is not >= anything, and nothing is better than one.
        word = "ge" if expr.op == "argmin" else "le"
        behind = Unary("not", Compare(word, now, kept, span=span), DType.BOOL, span=span)
        number = Compare("eq", kept, kept, span=span)
        test: Expr = Binary("and", behind, number, DType.BOOL, span=span)
    else:
        test = Compare("lt" if expr.op == "argmin" else "gt", now, kept, span=span)
    return [
        Define(element, dtype, value, span=span),
        Define(better, DType.BOOL, test, span=span),
        Store(kept, Select(wins, now, kept, dtype, span=span), span=span),
        Store(first, Select(wins, index, first, DType.I64, span=span), span=span),
    ]
