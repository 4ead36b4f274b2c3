"""Operators on checked values: promotion, weak folding, and the core node for each."""

from __future__ import annotations

import numpy as np

from loopfuse.base.diagnostics import Span
from loopfuse.base.dtypes import DType
from loopfuse.lang import semantics
from loopfuse.lang.check.context import Context, article, parenthesise, place
from loopfuse.lang.check.fma import negate
from loopfuse.lang.check.indices import affine_value
from loopfuse.lang.check.typing import Value, widens_to_f64
from loopfuse.lang.nodes import (
    Binary,
    Call,
    Compare,
    Const,
    Expr,
    Select,
    Unary,
)
from loopfuse.lang.walk import loads

ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floordiv", "%": "mod"}
BITWISE = {"&": "and", "|": "or", "^": "xor"}
SHIFTS = {"<<": "shl", ">>": "shr"}
COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}

MAX_INTEGER_POWER = 64


def apply_binary(context: Context, op: str, left: Value, right: Value, span: Span) -> Value:
    """`left op right` for every operator of the language but comparisons and `and`/`or`."""
    if op == "**":
        return apply_power(context, left, right, span)
    if op in BITWISE:
        return _bitwise(context, op, left, right, span)
    for operand in (left, right):
        refuse_bool(context, operand, f"`{op}`")
    if op in SHIFTS:
        for operand in (left, right):
            _need_integer(context, operand, op)
        return combine_values(context, SHIFTS[op], left, right, span)
    if op == "/" and left.dtype.is_integer and right.dtype.is_integer:
        weak = left.weak and right.weak
        left, right = (
            Value(context.convert(operand, DType.F64, operand.expr.span), operand.weak)
            for operand in (left, right)
        )
        result = combine_values(context, "div", left, right, span)
        return Value(result.expr, weak)
    return combine_values(context, ARITHMETIC[op], left, right, span)


def combine_values(context: Context, op: str, left: Value, right: Value, span: Span) -> Value:
    """The core Binary `op` on two values, promoted; literals are folded, as Python would."""
    dtype = context.join(left, right, span)
    if not left.weak and not right.weak and widens_to_f64(left.dtype, right.dtype):
        warn_promotion(context, left, right, span)
    if left.is_literal and right.is_literal and dtype.is_integer and op in _EXACT_FOLDS:
        return Value(_fold_exactly(context, op, left, right, span), weak=True)
    a = context.convert(left, dtype, left.expr.span)
    b = context.convert(right, dtype, right.expr.span)
    # Our own functions' bits are the compiled code's: not for this room to compute.
    if left.is_literal and right.is_literal and op not in semantics.OURS:
        assert isinstance(a, Const) and isinstance(b, Const)
        return Value(_fold(op, a, b, dtype, span), weak=True)
    return Value(Binary(op, a, b, dtype, span=span), left.weak and right.weak)


_EXACT_FOLDS = ("add", "sub", "mul", "shl")


def _fold_exactly(context: Context, op: str, left: Value, right: Value, span: Span) -> Const:
    """Python's integers do not wrap, and neither does arithmetic on literals."""
    assert isinstance(left.expr, Const) and isinstance(right.expr, Const)
    x, y = int(left.expr.value), int(right.expr.value)
    shift = x << y if op == "shl" and 0 <= y < 64 else 0
    exact = {"add": x + y, "sub": x - y, "mul": x * y, "shl": shift}[op]
    for dtype in (DType.I64, DType.U64):
        low, high = semantics.integer_limits(dtype)
        if low <= exact <= high:
            return Const(exact, dtype, span=span)
    context.fail("literal-range", f"{exact} does not fit i64", span, fix="use floats: write `1.0` for `1`")


def _fold(op: str, a: Const, b: Const, dtype: DType, span: Span) -> Const:
    kind = semantics.scalar_type(dtype)
    with np.errstate(all="ignore"):
        value = semantics.binary(op, dtype, {})(kind(a.value), kind(b.value))
    return Const(semantics.represent(_plain(value), dtype), dtype, span=span)


def _plain(value: semantics.Scalar) -> bool | int | float:
    return float(value) if isinstance(value, np.floating) else value


def warn_promotion(context: Context, left: Value, right: Value, span: Span) -> None:
    """Warn that two types that are not f64 meet and give f64, and propose the cast."""
    # The operand to convert: the integer beside a float, else the u64 beside a signed integer.
    whole, other = (right, left) if left.dtype.is_float else (left, right)
    if whole.dtype.is_signed and other.dtype is DType.U64:
        whole, other = other, whole
    target = other.dtype if other.dtype.is_float else DType.I64
    text = context.text(whole.expr.span)
    context.report.warn(
        "promotes-to-f64",
        f"{other.dtype.value} and {whole.dtype.value} are computed in f64",
        span,
        label="this is f64",
        fix=f"write `{target.value}({text})` to stay in {target.value}",
    )


def apply_power(context: Context, base: Value, exponent: Value, span: Span) -> Value:
    """`base ** exponent`: multiplications for an integer literal from 2 to 4, else `pow`."""
    for operand in (base, exponent):
        refuse_bool(context, operand, "`**`")
    literal = exponent.expr.value if isinstance(exponent.expr, Const) and exponent.weak else None
    whole = base.dtype.is_integer and exponent.dtype.is_integer
    if isinstance(literal, int) and (2 <= literal <= 4 or (whole and literal >= 0)):
        if literal > MAX_INTEGER_POWER:
            context.limit(
                "integer-power",
                f"an integer power of {literal} is not supported",
                span,
                fix=f"use an exponent up to {MAX_INTEGER_POWER}, or floats",
            )
        result = base if literal else Value(Const(1, base.dtype, span=span), base.weak)
        for _ in range(literal - 1):
            result = combine_values(context, "mul", result, base, span)
        context.check_size(result.expr, span)
        return result
    if whole:
        context.limit(
            "integer-power",
            "an integer can be raised only to a literal power",
            span,
            fix=f"write `f64({context.text(base.expr.span)}) ** ...`, or multiply",
        )
    return combine_values(context, "pow", base, exponent, span)


def _bitwise(context: Context, op: str, left: Value, right: Value, span: Span) -> Value:
    if left.dtype is DType.BOOL and right.dtype is DType.BOOL:
        return Value(Binary(BITWISE[op], left.expr, right.expr, DType.BOOL, span=span))
    for operand in (left, right):
        _need_integer(context, operand, op)
    return combine_values(context, BITWISE[op], left, right, span)


def _need_integer(context: Context, value: Value, op: str) -> None:
    if not value.dtype.is_integer:
        text = context.text(value.expr.span)
        both = " or two bools" if op in BITWISE else ""
        context.fail(
            "bitwise-type",
            f"`{op}` needs integers{both}, but `{text}` is {value.dtype.value}",
            value.expr.span,
            fix=f"write `i64({text})`" if value.dtype.is_float else "",
        )


def refuse_bool(context: Context, value: Value, what: str) -> None:
    """Error if `value` is a bool, where `what` computes with numbers."""
    if value.dtype is DType.BOOL:
        text = context.text(value.expr.span)
        context.fail(
            "bool-arithmetic",
            f"{what} does not take a bool",
            value.expr.span,
            label="this is bool",
            fix=f"write `i32({text})` to count true as 1",
        )


# ------------------------------------------------------------------------------- conditions


def need_bool(context: Context, value: Value, what: str) -> Expr:
    """`value` as a condition; only a bool is one."""
    if value.dtype is not DType.BOOL:
        text = context.text(value.expr.span)
        context.fail(
            "not-a-condition",
            f"{what} must be a bool, but `{text}` is {value.dtype.value}",
            value.expr.span,
            fix=f"compare it: `{parenthesise(text)} != 0`",
        )
    return value.expr


def compare(context: Context, op: str, left: Value, right: Value, span: Span) -> Value:
    """`left op right` as a bool. Two affine integers are compared as exact i64 index expressions,
    so that guards on iterators stay exact; two literals give a literal."""
    if op not in ("==", "!="):
        for operand in (left, right):
            refuse_bool(context, operand, f"`{op}`")
    dtype = context.join(left, right, span)
    if not left.weak and not right.weak and widens_to_f64(left.dtype, right.dtype):
        warn_promotion(context, left, right, span)
    a = context.convert(left, dtype, left.expr.span)
    b = context.convert(right, dtype, right.expr.span)
    if dtype.is_integer:
        first, second = affine_value(context, left), affine_value(context, right)
        if first is not None and second is not None:
            a, b = first, second
    if isinstance(a, Const) and isinstance(b, Const):
        answer = semantics.COMPARE[COMPARISONS[op]](a.value, b.value)
        return Value(Const(answer, DType.BOOL, span=span))
    return Value(Compare(COMPARISONS[op], a, b, span=span))


def conjunction(op: str, left: Expr, right: Expr, span: Span) -> Expr:
    """`left and right` (`or`), of bools.

    Where a guard on iterators stands before a condition on data, the data is read only where
    Python would read it: then it is a Select, else an operation on both sides.
    """
    if isinstance(left, Const):
        return right if bool(left.value) == (op == "and") else left
    if not loads(right):
        return Binary(op, left, right, DType.BOOL, span=span)
    if not loads(left):
        constant = Const(op == "or", DType.BOOL, span=span)
        then, otherwise = (right, constant) if op == "and" else (constant, right)
        return Select(left, then, otherwise, DType.BOOL, span=span)
    parts = _parts(op, left)
    if parts is not None and any(_guards(op, part) for part in parts):
        # (a and b) and c is a and (b and c): a guard among the first two guards c too.
        return conjunction(op, parts[0], conjunction(op, parts[1], right, span), span)
    return Binary(op, left, right, DType.BOOL, span=span)


def _parts(op: str, condition: Expr) -> tuple[Expr, Expr] | None:
    """The two sides of `left op right`, as `conjunction` wrote it."""
    match condition:
        case Binary(op=found, left=left, right=right, dtype=DType.BOOL) if found == op:
            return left, right
        case Select(condition=left, then=right, otherwise=Const(value=False)) if op == "and":
            return left, right
        case Select(condition=left, then=Const(value=True), otherwise=right) if op == "or":
            return left, right
        case _:
            return None


def _guards(op: str, condition: Expr) -> bool:
    """A condition on iterators alone stands among the operands of a chain of `op`."""
    parts = _parts(op, condition)
    return not loads(condition) or (parts is not None and any(_guards(op, p) for p in parts))


# ------------------------------------------------------------------------------ one operand


def apply_unary(context: Context, op: str, operand: Value, span: Span) -> Value:
    """`-x`, `+x`, `~x`, `not x`."""
    expr = operand.expr
    match op:
        case "not":
            condition = need_bool(context, operand, "the operand of `not`")
            if isinstance(condition, Const):
                return Value(Const(not condition.value, DType.BOOL, span=span))
            return Value(Unary("not", condition, DType.BOOL, span=span))
        case "~":
            if operand.dtype is DType.BOOL:
                return Value(Unary("not", expr, DType.BOOL, span=span))
            _need_integer(context, operand, "~")
            if isinstance(expr, Const):
                return Value(Const(~int(expr.value), expr.dtype, span=span), operand.weak)
            return Value(Unary("invert", expr, expr.dtype, span=span), operand.weak)
        case "+":
            refuse_bool(context, operand, "`+`")
            return Value(place(expr, span), operand.weak)
        case _:
            refuse_bool(context, operand, "`-`")
            if isinstance(expr, Const):
                value = semantics.represent(-expr.value, expr.dtype)
                return Value(Const(value, expr.dtype, span=span), operand.weak)
            if expr.dtype.is_float:
                return Value(place(negate(expr), span), operand.weak)
            return Value(Unary("neg", expr, expr.dtype, span=span), operand.weak)


def apply_call(context: Context, function: str, operand: Value, span: Span) -> Value:
    """A math function of one argument: integers become f64, except where the result is whole."""
    refuse_bool(context, operand, f"`{function}`")
    if operand.dtype.is_integer:
        if function in ("floor", "ceil", "round", "trunc"):
            return Value(place(operand.expr, span), operand.weak)
        if function not in ("abs", "sign"):
            operand = Value(context.convert(operand, DType.F64, span), operand.weak)
    expr, dtype = operand.expr, operand.dtype
    if operand.is_literal and isinstance(expr, Const) and function not in semantics.OURS:
        with np.errstate(all="ignore"):
            value = semantics.call(function, dtype, {})(semantics.scalar_type(dtype)(expr.value))
        return Value(Const(semantics.represent(_plain(value), dtype), dtype, span=span), True)
    return Value(Call(function, (expr,), dtype, span=span), operand.weak)


def describe_types(left: Value, right: Value) -> str:
    """`a bool and an f32`."""
    return f"{article(left.dtype)} and {article(right.dtype)}"
