"""Turns a checked expression into an index expression, or says why it cannot be one.

before:  i32(i) + K * 2         (an i32 sum of an iterator and a parameter)
after:   i + K * 2              (the same number as an exact i64)

Extents and steps must be affine: iterators, sizes and integer parameters with `+ - *` by constants,
`//` and `%` by positive constants, `min` and `max`, and `% size`. Subscripts and the bounds of inner
loops that are not are data-dependent: `to_subscript` and `data_index`.
"""

from __future__ import annotations

from dataclasses import replace

from loopfuse.base.diagnostics import LimitError, LoopfuseError, Span
from loopfuse.base.dtypes import DType
from loopfuse.lang.check.context import Context
from loopfuse.lang.check.typing import Value, promote
from loopfuse.lang.index import checked
from loopfuse.lang.linear import LARGEST
from loopfuse.lang.nodes import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Iter,
    Load,
    Symbol,
    Unary,
    combine,
)
from loopfuse.lang.surface import syntax
from loopfuse.lang.walk import iterators, loads


def to_index(context: Context, value: Value, what: str, span: Span, array: str = "a") -> Expr:
    """`value` as an i64 index expression. `what` is `subscript` (of `array`), `bound`, `step` or
    `extent`."""
    if not value.dtype.is_integer:
        text = context.text(span)
        context.fail(
            "index-type",
            f"a {what} must be an integer, but `{text}` is {value.dtype.value}",
            span,
            fix=f"use `//` instead of `/`, or write `i64({text})`"
            if value.dtype.is_float
            else "write it as an integer",
        )
    # Folding loses places: the whole expression stands where it was written.
    return replace(_Converter(context, what, span, array).convert(value.expr), span=span)


def to_subscript(context: Context, value: Value, span: Span, array: str, extent: Expr | None) -> Expr:
    """`value` as a subscript of a dimension of `extent` (None where an edge mode folds it): an
    index expression where it is one and its iterators' ranges are known, else checked when it
    runs."""
    affine = affine_value(context, value)
    if affine is not None:
        if extent is None or not (iterators(affine) & context.unknown):
            return replace(affine, span=span)
        return checked(replace(affine, span=span), extent)
    index = data_index(context, value, "subscript", span, array)
    return index if extent is None else checked(index, extent)


def data_index(context: Context, value: Value, what: str, span: Span, array: str = "a") -> Expr:
    """An integer that depends on data, or is not affine, as an i64; UserError for other types.

    A product of iterators gets a warning that proposes the array of higher rank."""
    if not value.dtype.is_integer:
        return to_index(context, value, what, span, array)  # says so
    text = context.text(span)
    if not loads(value.expr):
        try:
            return to_index(context, value, what, span, array)  # `i % -4` is a mistake all the same
        except LimitError as error:
            if error.diagnostics[0].code == "index-too-large":
                raise
        name = array
        context.report.warn(
            "not-affine",
            f"`{text}` is not affine, so this {what} is treated as data",
            span,
            label=f"checked when it runs; what it {'touches' if what == 'subscript' else 'bounds'} "
            "is not known before",
            fix=f"write `i64(...)` around each {value.dtype.value} in it, whose arithmetic wraps"
            if _wraps(value.dtype)
            else f"give `{name}` a dimension more: `{name}[i, j]` instead of `{name}[i*N + j]`"
            if what == "subscript"
            else "make the product a size or an integer parameter of its own",
        )
    expr = replace(value.expr, span=span)
    return expr if expr.dtype is DType.I64 else Cast(expr, DType.I64, span=span)


def affine_value(context: Context, value: Value) -> Expr | None:
    """`value` as an index expression if it is one, without complaint."""
    if not value.dtype.is_integer:
        return None
    try:
        return _Converter(context, "subscript", value.expr.span).convert(value.expr)
    except LoopfuseError:
        return None


def _wraps(dtype: DType) -> bool:
    """Whether arithmetic of `dtype` is not the integers' own: of i32 and i64 it is taken to be."""
    return dtype not in (DType.I32, DType.I64)


_ARTICLES = {"extent": "an"}


class _Converter:
    def __init__(self, context: Context, what: str, span: Span, array: str = "a") -> None:
        self.context, self.what, self.span, self.array = context, what, span, array

    def convert(self, expr: Expr) -> Expr:
        match expr:
            case Const(value=value) if abs(int(value)) > LARGEST:
                self.context.limit(
                    "index-too-large",
                    f"the number {value} is too large for {_ARTICLES.get(self.what, 'a')} {self.what}",
                    self.place(expr),
                    fix=f"use numbers of at most {LARGEST} (2**40) there",
                )
            case Const(value=value):
                return Const(int(value), DType.I64, span=expr.span)
            case Unary() | Binary(op="add" | "sub" | "mul") | Call() if _wraps(expr.dtype):
                return self.refuse(expr)
            case Cast(operand=operand, dtype=dtype) if _wraps(dtype) and (
                operand.dtype.is_integer and promote(operand.dtype, dtype) is not dtype
            ):
                return self.refuse(expr)
            case Iter():
                return expr
            case Symbol(dtype=dtype):
                return expr if dtype is DType.I64 else Cast(expr, DType.I64, span=expr.span)
            case Load(array=array, index=()) if array in self.context.affine:
                self.context.used.add(array)
                return self.context.affine[array]
            case Cast(operand=operand) if operand.dtype.is_integer:
                return self.convert(operand)
            case Unary(op="neg", operand=operand):
                return 0 - self.convert(operand)
            case Binary(op="add" | "sub" | "min" | "max" as op, left=left, right=right):
                return combine(op, self.convert(left), self.convert(right))
            case Binary(op="mul", left=left, right=right):
                factors = self.convert(left), self.convert(right)
                if not any(isinstance(factor, Const) for factor in factors):
                    self.refuse_product(expr)
                return combine("mul", *factors)
            case Binary(op="floordiv" | "mod" as op, left=left, right=right):
                return self.divide(expr, op, self.convert(left), self.convert(right))
            case Call(function="abs", arguments=(operand,)):
                inside = self.convert(operand)
                return combine("max", inside, 0 - inside)
            case _:
                return self.refuse(expr)

    def divide(self, expr: Expr, op: str, left: Expr, right: Expr) -> Expr:
        if isinstance(right, Const):
            if int(right.value) > 0:
                return combine(op, left, right)
            self.context.fail(
                "division-in-index",
                f"a {self.what} may divide only by a positive constant, not by {right.value}",
                self.place(expr),
                fix="divide by a positive number",
            )
        if op == "mod" and isinstance(right, Symbol):
            return combine(op, left, right)
        return self.refuse_product(expr)

    def place(self, expr: Expr) -> Span:
        return expr.span if expr.span.line else self.span

    def refuse_product(self, expr: Expr) -> Expr:
        context = self.context
        text = context.text(self.place(expr))
        if self.what == "subscript":
            name = self.array
            fix = f"give `{name}` a dimension more: `{name}[i, j]` instead of `{name}[i*N + j]`"
        else:
            fix = "make the product a size or an integer parameter of its own"
        context.limit(
            "not-affine",
            f"`{text}` makes this {self.what} not affine",
            self.place(expr),
            notes=(f"a {self.what} may use + and -, * // % by constants, min and max",),
            fix=fix,
        )

    def refuse(self, expr: Expr) -> Expr:
        if loads(expr):
            self.context.limit(
                "data-dependent-extent",
                f"the {self.what} depends on data, and must be known before anything runs",
                self.place(expr),
                fix="pass it as a size or an integer parameter",
            )
        return self.refuse_product(expr)


def check_extent(context: Context, expr: Expr, span: Span) -> Expr:
    """`expr` as an extent: no iterators in it, and not a negative number."""
    inside = sorted(iterators(expr))
    if inside:
        name = inside[0].split(".")[0]
        context.fail(
            "extent-iterator",
            f"the extent of an array cannot depend on the iterator `{name}`",
            span,
            fix="use the largest extent it may have",
        )
    if isinstance(expr, Const) and int(expr.value) < 0:
        context.fail(
            "negative-extent",
            f"an extent cannot be {expr.value}",
            span,
            fix="write the number of elements",
        )
    return expr


def check_rank(context: Context, expr: syntax.Subscript, rank: int) -> None:
    """Error unless as many subscripts as dimensions."""
    if len(expr.index) != rank:
        given = len(expr.index)
        context.fail(
            "wrong-rank",
            f"`{expr.array}` has {rank} dimension{'s' * (rank != 1)}, "
            f"but {given} subscript{'s are' if given != 1 else ' is'} given",
            expr.span,
            fix=f"give {rank}: one for each of its extents",
        )
