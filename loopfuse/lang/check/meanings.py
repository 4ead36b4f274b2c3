"""Operations that are others: what a row of `lang.ops` says it means stands in a call's place."""

from __future__ import annotations

import ast
import functools
import math

from loopfuse.base.diagnostics import Span
from loopfuse.base.dtypes import DType
from loopfuse.lang import ops
from loopfuse.lang.check.context import Context
from loopfuse.lang.check.operators import refuse_bool
from loopfuse.lang.check.scope import Globals, Scope, ValueEntry
from loopfuse.lang.check.typing import Value
from loopfuse.lang.surface import syntax

_NUMBERS = {"inf": math.inf, "nan": math.nan, "pi": math.pi}
_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


def expand(context: Context, row: ops.Operation, values: list[Value], span: Span) -> Value:
    """The call of an operation that is written in others.

    before:  y[i] = clip(x[i], 0, 1)
    after:   y[i] = min(max(x[i], 0), 1)

    Of integers, one that gives a float is computed in f64. Names and functions of the module mean nothing within.
    """
    for value in values:
        refuse_bool(context, value, f"`{row.name}`")
    if row.gives == "float" and not any(value.dtype.is_float for value in values):
        values = [Value(context.convert(each, DType.F64, each.expr.span), each.weak) for each in values]
    scope = Scope()
    for name, value in zip(ops.OPERANDS, values):
        scope.entries[name] = ValueEntry(value, "argument", span)
    outer, module = context.scope, context.module
    context.scope, context.module = scope, Globals(Scope(), {}, frozenset(), set())
    try:
        found = context.elaborate(_surface(_parsed(row.meaning), span))
    finally:
        context.scope, context.module = outer, module
    context.check_size(found.expr, span)
    return found


@functools.cache
def _parsed(meaning: str) -> ast.expr:
    return ast.parse(meaning, mode="eval").body


def _surface(node: ast.expr, span: Span) -> syntax.Expr:
    """A meaning as the surface expression that a program would have written, all of it at `span`."""
    match node:
        case ast.Constant(value=bool() | int() | float() as value):
            return syntax.Number(value, span=span)
        case ast.Name(id=name) if name in _NUMBERS:
            return syntax.Number(_NUMBERS[name], span=span)
        case ast.Name(id=name):
            return syntax.Name(name, span=span)
        case ast.UnaryOp(op=ast.USub() | ast.Not() as op, operand=operand):
            return syntax.Unary("-" if isinstance(op, ast.USub) else "not", _surface(operand, span), span=span)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return syntax.Binary(_BINARY[type(op)], _surface(left, span), _surface(right, span), span=span)
        case ast.BoolOp(op=op, values=values):
            word = "and" if isinstance(op, ast.And) else "or"
            return functools.reduce(
                lambda left, right: syntax.Binary(word, left, right, span=span), (_surface(one, span) for one in values)
            )
        case ast.Compare(left=left, ops=signs, comparators=others):
            parts = tuple(_surface(one, span) for one in (left, *others))
            return syntax.Comparison(parts, tuple(_COMPARE[type(sign)] for sign in signs), span=span)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return syntax.Conditional(_surface(test, span), _surface(body, span), _surface(orelse, span), span=span)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            return syntax.Call(name, tuple(_surface(one, span) for one in args), span=span)
        case _:
            raise ValueError(f"no operation can mean `{ast.unparse(node)}`")
