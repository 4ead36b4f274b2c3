"""Elaborates reductions: each becomes a Reduce statement before the statement that uses it.

before:  y[r] = sum(c in 0..C: x[r, c]) / 2.0
after:   reduce y.sum = sum over c in 0..C:  y.sum = y.sum + x[r, c]
         y[r] = y.sum / 2.0
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from loopfuse.base.dtypes import DType
from loopfuse.lang.check import arg_reductions, expressions, ranges
from loopfuse.lang.check.context import Context
from loopfuse.lang.check.fma import form_fmas
from loopfuse.lang.check.narrow import rounded
from loopfuse.lang.check.operators import need_bool, refuse_bool
from loopfuse.lang.check.scope import ValueEntry
from loopfuse.lang.check.typing import Value
from loopfuse.lang.check.unroll import MAX_COPIES, unrolled_ranges
from loopfuse.lang.nodes import (
    Binary,
    Cast,
    Const,
    Define,
    Expr,
    Fma,
    For,
    Load,
    Range,
    Reduce,
    Stmt,
    Store,
)
from loopfuse.lang.semantics import neutral
from loopfuse.lang.surface import syntax

OPERATIONS = {
    "sum": "add",
    "prod": "mul",
    "min": "min",
    "max": "max",
    "any": "or",
    "all": "and",
}
STORE_NAMES = {"any": "or", "all": "and"}

MAX_CHAIN = 64
"""The most steps of an unrolled reduction that become one expression."""


def elaborate_reduction(context: Context, expr: syntax.Reduction, core: str = "") -> Value:
    """The reduction's value: a Load of its accumulator, called `core` where that is given."""
    unrolled = unrolled_ranges(context, expr)
    with context.inner():
        if expr.op not in OPERATIONS:
            return arg_reductions.elaborate_arg(context, expr, unrolled, core)
        if unrolled:
            return _unrolled(context, expr, unrolled, core)
        before = len(context.hoists)
        with suppress(_Nested), context.inner():
            return _plain(context, expr, core)
        del context.hoists[before:]
        return _steps(context, expr, set(), core)


class _Nested(Exception):
    """A range after the first depends on data: each of its bounds is found in the one before."""


def _plain(context: Context, expr: syntax.Reduction, core: str) -> Value:
    headers: list[Range] = []
    for each in expr.ranges:
        limits = ranges.run_time_bounds(context, each)
        if headers and not limits.is_known:
            raise _Nested
        iterator = ranges.declare_iterator(context, each, limits)
        headers.append(Range(iterator, limits.lower, limits.upper, limits.step, span=each.span))
    outer, context.hoists = context.hoists, []
    try:
        element, narrow = _element(context, expr)
        body = context.hoists
    finally:
        context.hoists = outer
    dtype = element.dtype
    name = core or context.names.hoisted(context.target, expr.op)
    cell = Load(name, (), dtype, span=expr.span)
    value = step(context, expr.op, cell, element.expr, is_product(expr.body))
    context.hoists.append(
        Reduce(name, dtype, expr.op, tuple(headers), tuple(body), value, span=expr.span)
    )
    return Value(_result(context, cell, narrow), element.weak)


def _result(context: Context, cell: Load, narrow: DType | None) -> Load:
    """The accumulator as an expression sees it: of the narrow type whose numbers it holds."""
    if narrow is None:
        return cell
    context.accumulators.add(cell.array)
    return replace(cell, dtype=narrow)


def step(
    context: Context, op: str, accumulator: Expr, element: Expr, fused: bool = False
) -> Expr:
    """One step, `accumulator op element`; a sum of products is an Fma, in strict programs where
    the step was written `fused`."""
    value = Binary(OPERATIONS[op], accumulator, element, element.dtype, span=element.span)
    if fused and isinstance(element, Binary) and element.dtype.is_float:
        return Fma(element.left, element.right, accumulator, element.dtype, span=element.span)
    return value if context.fp == "strict" else form_fmas(value)


def is_product(body: syntax.Expr) -> bool:
    """Whether the MLIR door wrote `body` as the product of a step that is an FMA."""
    return isinstance(body, syntax.Call) and body.function == "mlir.product"


def _element(context: Context, expr: syntax.Reduction) -> tuple[Value, DType | None]:
    """The body, converted to the accumulator's dtype: narrow integers add up in 64 bits, f16 and
    bf16 in f32. The smallest of f16s is one too: it is kept as an f32, and the dtype it is of is
    given besides."""
    value = context.elaborate(expr.body)
    span = expr.body.span
    if expr.op in ("any", "all"):
        return Value(context.widen(need_bool(context, value, f"the body of `{expr.op}`"))), None
    if expr.op == "sum" and value.dtype is DType.BOOL:
        return Value(context.convert(value, DType.I64, span)), None
    refuse_bool(context, value, f"`{expr.op}`")
    dtype = value.dtype
    if expr.op in ("sum", "prod"):
        if dtype.is_integer:
            wide = DType.U64 if dtype.is_unsigned and not value.weak else DType.I64
            return Value(context.convert(value, wide, span), value.weak), None
        if dtype.is_narrow_float:
            return Value(context.widen(context.convert(value, DType.F32, span))), None
        return Value(context.widen(value.expr), value.weak), None
    if dtype.is_narrow_float:
        return Value(rounded(context.widen(value.expr), dtype)), dtype
    return Value(context.widen(value.expr), value.weak), None


# -------------------------------------------------------------------- over constant tables


def _unrolled(context: Context, expr: syntax.Reduction, unrolled: set[str], core: str) -> Value:
    """A reduction whose body subscripts a constant table, step by step in the same order.

    before:  y[i] = sum(k in 0..3: w[k] * x[i + k])
    after:   y[i] = fma(w2, x[i + 2], fma(w1, x[i + 1], fma(w0, x[i], 0.0)))

    Where a range stays a loop, or the steps are many, they are Stores to a variable instead. So
    they are for `prod`: a chain would let the last product join an FMA.
    """
    if unrolled == {each.iterator for each in expr.ranges} and expr.op != "prod":
        points = _points(context, expr)
        if len(points) <= MAX_CHAIN:
            return _chain(context, expr, points)
    return _steps(context, expr, unrolled, core)


def _points(context: Context, expr: syntax.Reduction) -> list[tuple[int, ...]]:
    """The iterators' values at each step; a bound may name an iterator before it."""
    points: list[tuple[int, ...]] = [()]
    for position, each in enumerate(expr.ranges):
        longer: list[tuple[int, ...]] = []
        for point in points:
            with context.inner():
                _bind(context, expr.ranges[:position], point)
                limits = ranges.bounds(context, each)
                values = ranges.constant_values(context, each, limits)
                longer += [(*point, value) for value in values]
        points = longer
        if len(points) > MAX_COPIES:
            ranges.unroll_too_large(context, each.span)
    return points


def _bind(context: Context, headers: tuple[syntax.Range, ...], point: tuple[int, ...]) -> None:
    for each, number in zip(headers, point, strict=True):
        constant = Value(expressions.index_literal(number, each.span), weak=True)
        context.define(each.iterator, ValueEntry(constant, "iterator", each.span))


def _chain(context: Context, expr: syntax.Reduction, points: list[tuple[int, ...]]) -> Value:
    result: Value | None = None
    narrow: DType | None = None
    for point in points:
        with context.inner():
            _bind(context, expr.ranges, point)
            element, narrow = _element(context, expr)
        if result is None:
            start = Const(neutral(expr.op, element.dtype), element.dtype, span=expr.span)
            result = Value(start, element.weak)
        value = step(context, expr.op, result.expr, element.expr)
        result = Value(replace(value, span=expr.span), result.weak and element.weak)
    if result is None:
        dtype = _empty_dtype(expr.op)
        return Value(Const(neutral(expr.op, dtype), dtype, span=expr.span), weak=True)
    context.check_size(result.expr, expr.span)
    if narrow is not None:
        return Value(Cast(result.expr, narrow, span=expr.span))
    return result


def _empty_dtype(op: str) -> DType:
    """The dtype of a reduction without steps: nothing tells it but the operation."""
    return DType.BOOL if op in ("any", "all") else DType.I64


def _steps(context: Context, expr: syntax.Reduction, unrolled: set[str], core: str) -> Value:
    name = core or context.names.hoisted(context.target, expr.op)
    found: list[Value] = []
    narrows: list[DType | None] = []

    def nest(k: int) -> list[Stmt]:
        if k == len(expr.ranges):
            return leaf()
        each = expr.ranges[k]
        outer, context.hoists = context.hoists, []
        try:
            limits = ranges.run_time_bounds(context, each)
            first = context.hoists
        finally:
            context.hoists = outer
        if each.iterator not in unrolled:
            with context.inner():
                iterator = ranges.declare_iterator(context, each, limits)
                body = tuple(nest(k + 1))
            return [
                *first,
                For(iterator, limits.lower, limits.upper, limits.step, body, span=each.span),
            ]
        out: list[Stmt] = []
        for number in ranges.constant_values(context, each, limits):
            with context.inner():
                _bind(context, (each,), (number,))
                out += nest(k + 1)
        return out

    def leaf() -> list[Stmt]:
        context.count_statement(expr.span)
        outer, context.hoists = context.hoists, []
        try:
            element, narrow = _element(context, expr)
            first = context.hoists
        finally:
            context.hoists = outer
        found.append(element)
        narrows.append(narrow)
        cell = Load(name, (), element.dtype, span=expr.span)
        value = step(context, expr.op, cell, element.expr)
        label = STORE_NAMES.get(expr.op, expr.op)
        return [*first, Store(cell, value, label, span=expr.span)]

    steps = nest(0)
    dtype = found[0].dtype if found else _empty_dtype(expr.op)
    start = Const(neutral(expr.op, dtype), dtype, span=expr.span)
    context.hoists += [Define(name, dtype, start, mutable=True, span=expr.span), *steps]
    cell = Load(name, (), dtype, span=expr.span)
    narrow = narrows[0] if narrows else None
    return Value(_result(context, cell, narrow), all(element.weak for element in found))
