"""Reads Python expressions: each becomes the surface expression with CPython's meaning, and its
kind (what NumPy would give, or a Python number).

Stands above what reads each kind of expression. What lies within an expression, those files give to
`Reader.read`, which a reader is made with.
"""

from __future__ import annotations

import ast
import functools

from loopfuse.base.dtypes import DType
from loopfuse.frontend.python import calls as pyfunc_calls
from loopfuse.frontend.python import comparisons as pyfunc_comparisons
from loopfuse.frontend.python import expr as pyfunc_expr
from loopfuse.frontend.python import refuse as pyfunc_refuse
from loopfuse.frontend.python import subscripts as pyfunc_subscripts
from loopfuse.frontend.python.context import Reader, Typed
from loopfuse.frontend.python.types import BOOL, PYTHON_BOOL, either
from loopfuse.lang.surface import syntax


def read_expression(reader: Reader, node: ast.expr) -> Typed:
    """`node` as a surface expression, with its kind."""
    span = reader.python.span(node)
    match node:
        case ast.Constant(value=value):
            return pyfunc_expr.read_constant(reader, node, value)
        case ast.Name():
            return pyfunc_expr.read_name(reader, node)
        case ast.Attribute():
            return pyfunc_expr.read_attribute(reader, node)
        case ast.Subscript():
            return pyfunc_subscripts.read_subscript(reader, node)
        case ast.UnaryOp(op=op, operand=operand):
            return pyfunc_expr.read_unary(reader, node, pyfunc_expr.UNARY[type(op)], operand)
        case ast.BinOp(left=left, op=op, right=right):
            if isinstance(op, ast.MatMult):
                reader.python.refuse(
                    "matrix-product",
                    "`@` multiplies whole matrices",
                    node,
                    "write the loops: `c[i, j] += a[i, k] * b[k, j]`",
                )
            return pyfunc_expr.combine(
                reader, pyfunc_expr.BINARY[type(op)], read_expression(reader, left),
                read_expression(reader, right), node,
            )  # fmt: skip
        case ast.BoolOp(op=op, values=values):
            word = "and" if isinstance(op, ast.And) else "or"
            read = [read_expression(reader, value) for value in values]
            result = read[0][0]
            for part, _ in read[1:]:
                result = syntax.Binary(word, result, part, span=result.span.to(part.span))
            if {kind.dtype is DType.BOOL for _, kind in read if kind is not None} == {False}:
                return _one_of(reader, word, read)
            kinds = [PYTHON_BOOL if kind is None else kind for _, kind in read]
            if any(kind.dtype is not DType.BOOL for kind in kinds):
                return result, PYTHON_BOOL if any(kind.among for kind in kinds) else BOOL
            return result, functools.reduce(either, kinds) or BOOL
        case ast.Compare():
            return pyfunc_comparisons.read_comparison(reader, node)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            condition = pyfunc_expr.read_condition(reader, test)
            ends = read_expression(reader, body), read_expression(reader, orelse)
            exprs, kind = pyfunc_expr.one_of(reader, span, *ends)
            return syntax.Conditional(condition, *exprs, span=span), kind
        case ast.Call():
            return pyfunc_calls.read_call(reader, node)
        case _:
            pyfunc_refuse.expression(reader.python, node)


def _one_of(reader: Reader, word: str, parts: list[Typed]) -> Typed:
    """`a or b` of numbers: `a if a != 0 else b`; `a and b`: `b if a != 0 else a`."""
    result, kind = parts[-1]
    for part, other in reversed(parts[:-1]):
        span = part.span.to(result.span)
        given = syntax.Comparison((part, syntax.Number(0, span=part.span)), ("!=",), span=part.span)
        (first, rest), kind = pyfunc_expr.one_of(reader, span, (part, other), (result, kind))
        ends = (first, rest) if word == "or" else (rest, first)
        result = syntax.Conditional(given, *ends, span=span)
    return result, kind
