"""NumPy's functions that are operators: `np.add(a, b)` is `a + b`, but that what comes is NumPy's, never a
Python number, and that bools are added and multiplied as `or` and `and`.

before:  np.subtract(2, 1) * x[i]      (x: f32)      after:  i64(2 - 1) * x[i], an f64
"""

from __future__ import annotations

import ast
import math
from typing import Any

import numpy as np

from loopfuse.base.diagnostics import Span
from loopfuse.base.dtypes import DType
from loopfuse.frontend.python import comparisons as pyfunc_comparisons
from loopfuse.frontend.python import expr as pyfunc_expr
from loopfuse.frontend.python import numpy as pyfunc_numpy
from loopfuse.frontend.python.context import Reader, Typed
from loopfuse.frontend.python.types import BOOL, WEAK_FLOAT, literal, of_function, unary
from loopfuse.lang.surface import syntax

OF_BOOLS = {"+": "|", "*": "&"}
HALF_TURN = 180


def of_one(reader: Reader, node: ast.Call, function: Any, meaning: str, argument: Typed) -> Typed:
    """A function of one number; `meaning` is its operation on `x`."""
    span = reader.python.span(node)
    expr, kind = argument
    is_bool = kind is not None and kind.dtype is DType.BOOL
    match meaning:
        case "not x":
            sign = syntax.Comparison((expr, syntax.Number(0, span=span)), ("==",), span=span)
            return syntax.Unary("not", expr, span=span) if is_bool else sign, BOOL
        case "-x" | "+x" | "~x":
            made = syntax.Unary(meaning[0], expr, span=span)
            negative = kind if kind is None else unary(meaning[0], kind)[0]
            return typed(reader, node, (made, BOOL if is_bool else negative))
        case "x * x":
            two = (syntax.Number(2, span=span), literal(2))
            return typed(reader, node, pyfunc_expr.combine(reader, "**", argument, two, node))
        case "1.0 / x":
            if kind is not None and kind.dtype.is_integer:
                text = reader.python.text(node.args[0])
                reader.python.refuse(
                    "call-arguments",
                    f"`{reader.python.text(node)}` of an integer is 0, but for 1 and -1",
                    node,
                    f"write `1.0 / {text}`" if isinstance(node.args[0], (ast.Name, ast.Subscript)) else f"write `1.0 / ({text})`",
                )
            one = (syntax.Number(1.0, span=span), literal(1.0))
            return typed(reader, node, pyfunc_expr.combine(reader, "/", one, argument, node))
        case _:
            return _turned(reader, node, function, argument)


def _turned(reader: Reader, node: ast.Call, function: Any, argument: Typed) -> Typed:
    """Degrees and radians: a product in f32 (f64 of f64), as NumPy computes it."""
    span = reader.python.span(node)
    expr, made = pyfunc_numpy.operand(reader, function, argument, span)
    if made is None or made.dtype is DType.BOOL:
        return syntax.Binary("*", expr, syntax.Number(1.0, span=span), span=span), made
    wide = DType.F64 if made.dtype is DType.F64 else DType.F32
    kind = np.float64 if wide is DType.F64 else np.float32
    turn = kind(HALF_TURN)
    factor = kind(math.pi) / turn if function in (np.deg2rad, np.radians) else turn / kind(math.pi)
    if made.dtype is not wide:
        expr = syntax.Call(wide.value, (expr,), span=span)
    product = syntax.Binary("*", expr, _constant(float(factor), wide, span), span=span)
    return product if made.dtype is wide else syntax.Call(made.dtype.value, (product,), span=span), made


def _constant(value: float, dtype: DType, span: Span) -> syntax.Expr:
    return syntax.Call(dtype.value, (syntax.Number(value, span=span),), span=span)


def python_angle(reader: Reader, node: ast.Call, function: Any, argument: Typed) -> Typed:
    """`math.radians`, `math.degrees`: Python floats."""
    span = reader.python.span(node)
    factor = math.pi / HALF_TURN if function is math.radians else HALF_TURN / math.pi
    pyfunc_expr.widened(reader, argument, DType.F64)
    wide = syntax.Call("python.float", (argument[0],), span=span)
    return syntax.Binary("*", wide, syntax.Number(factor, span=span), span=span), WEAK_FLOAT


def of_two(
    reader: Reader, node: ast.Call, function: Any, meaning: str, parts: list[Typed]
) -> Typed:
    """A function of two numbers; `meaning` is its operation on `x` and `y`."""
    span = reader.python.span(node)
    left, right = parts
    sign = meaning.removeprefix("x ").removesuffix(" y")
    if sign in ("and", "or") or function is np.logical_xor:
        first, second = (_truth(part, span) for part in parts)
        return syntax.Binary(sign, first, second, span=span), BOOL
    if sign in pyfunc_comparisons.COMPARISONS.values():
        return pyfunc_comparisons.compare(reader, sign, left, right, node), BOOL
    if all(kind is not None and kind.dtype is DType.BOOL for _, kind in parts):
        sign = OF_BOOLS.get(sign, sign)
    return typed(reader, node, pyfunc_expr.combine(reader, sign, left, right, node))


def _truth(part: Typed, span: Span) -> syntax.Expr:
    expr, kind = part
    if kind is None or kind.dtype is DType.BOOL:
        return expr
    return syntax.Comparison((expr, syntax.Number(0, span=span)), ("!=",), span=span)


def typed(reader: Reader, node: ast.AST, value: Typed) -> Typed:
    """What NumPy makes of a result: a typed number, where an operator gives a Python one."""
    expr, kind = value
    if kind is None:
        return value
    if kind.dtype is DType.BOOL:
        return expr, BOOL
    made, good = of_function(kind, frozenset(dtype for dtype, _ in kind.forms))
    if not good:
        pyfunc_expr.refuse_mix(reader, value)
    if kind.weak:
        expr = syntax.Call(made.dtype.value, (expr,), span=reader.python.span(node))
    return expr, made
