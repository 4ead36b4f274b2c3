"""`fp="native"` on a GPU: divisions and functions of f32s become the hardware's approximations.

    before:  y = exp(x) / sqrt(s)
    after:   y = exp2.approx(x * 1.4426950) * rsqrt.approx(s)

It is done once, of the program, before anything is planned: what is fused, priced, proved and interpreted is what
runs, so that fused and unfused code have the same bits here too.

What `lang.ops.NATIVE` has no entry for stays as it is: f64, integers, remainders, other functions, and what divides by
a constant whose reciprocal is no normal number. FMAs were formed before, of divisions none are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from loopfuse.base.dtypes import DType
from loopfuse.lang import ops
from loopfuse.lang.nodes import Binary, Call, Const, Expr, Kernel, Unary
from loopfuse.lang.surface.depth import deep_recursion
from loopfuse.lang.walk import expressions, map_expr, map_stmt_expressions, walk_expr, walk_stmts

LOG2E, LN2, LOG10_2 = 1.4426950408889634, 0.6931471805599453, 0.3010299956639812

_DIRECT = {name: f"{name}.approx" for name in ("sqrt", "rsqrt", "exp2", "log2", "erf", "tanh")}
_SCALED = {"log": ("log2.approx", LN2), "log10": ("log2.approx", LOG10_2), "log1p": ("log2p1.approx", LN2)}


def approximated(kernel: Kernel) -> Kernel:
    """The kernel with approximations for all that has one."""
    with deep_recursion():
        return replace(kernel, body=tuple(map_stmt_expressions(approximated_value, stmt) for stmt in kernel.body))


def approximated_value(expr: Expr) -> Expr:
    """The expression with approximations for all that has one."""
    return map_expr(_approximated, expr)


def bounds(kernel: Kernel) -> tuple[str, ...]:
    """What a kernel has that becomes an approximation, each with its instruction and bound: for reports."""
    used = {name for name in map(_operation, _all(kernel)) if name in ops.NATIVE}
    words = {"div": "x / y"}
    return tuple(
        f"{words.get(name, name)} (f32): {found.instruction}, within {found.words}"
        for name, found in ops.NATIVE.items()
        if name in used
    )


def _all(kernel: Kernel) -> Iterator[Expr]:
    for stmt in walk_stmts(kernel.body):
        for expr in expressions(stmt):
            yield from walk_expr(expr)


def _operation(expr: Expr) -> str:
    """The operation at the top, if it is of f32s."""
    match expr:
        case Binary(op=name, dtype=DType.F32) | Call(function=name, dtype=DType.F32):
            return name
        case _:
            return ""


def _approximated(expr: Expr) -> Expr:
    """Of an expression whose operands are approximated already."""
    if expr.dtype is not DType.F32:
        return expr
    match expr:
        case Binary(op="div", left=left, right=right):
            return _quotient(expr, left, right)
        case Binary(op="pow", left=left, right=right):
            return Call("pow.approx", (left, right), DType.F32, span=expr.span)
        case Call(function="exp", arguments=(operand,)):
            return _call("exp2.approx", _scaled(operand, LOG2E), expr)
        case Call(function=name, arguments=(operand,)) if name in _DIRECT:
            return _call(_DIRECT[name], operand, expr)
        case Call(function=name, arguments=(operand,)) if name in _SCALED:
            word, factor = _SCALED[name]
            return Binary("mul", _call(word, operand, expr), _number(factor), DType.F32, span=expr.span)
        case _:
            return expr


def _quotient(expr: Expr, left: Expr, right: Expr) -> Expr:
    """left * (1 / right)."""
    match right:
        case Const(value=value):
            with np.errstate(all="ignore"):
                inverse = np.float32(1.0) / np.float32(value)
            if not (_is_normal(inverse) and _is_normal(np.float32(value))):
                return expr
            factor: Expr = _number(float(inverse))
        case Call(function="sqrt.approx", arguments=(operand,)):
            factor = _call("rsqrt.approx", operand, expr)
        case _:
            factor = _call("rcp.approx", right, expr)
    if isinstance(left, Const) and left.value == 1.0:
        return factor
    return Binary("mul", left, factor, DType.F32, span=expr.span)


def _scaled(expr: Expr, factor: float) -> Expr:
    """expr * factor, with a sign or a power of two of its own in the constant: what that rounds is the same."""
    match expr:
        case Unary(op="neg", operand=operand):
            return _scaled(operand, -factor)
        case (
            Binary(op="mul", left=operand, right=Const(value=value)) | Binary(op="mul", left=Const(value=value), right=operand)
        ) if abs(math.frexp(value)[0]) == 0.5 and 2.0**-60 < abs(value) < 2.0**60:
            return _scaled(operand, factor * float(value))
        case _:
            pass
    return Binary("mul", expr, _number(factor), DType.F32, span=expr.span)


def _call(name: str, operand: Expr, like: Expr) -> Call:
    return Call(name, (operand,), DType.F32, span=like.span)


def _number(value: float) -> Const:
    return Const(float(np.float32(value)), DType.F32)


def _is_normal(value: np.float32) -> bool:
    return bool(np.isfinite(value) and abs(value) >= np.float32(2.0**-126))
