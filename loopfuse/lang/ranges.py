"""Ranges of loops and reductions: bounds as index expressions, constant steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from loopfuse.base.diagnostics import Span
from loopfuse.lang import expressions, syntax
from loopfuse.lang.affine import combine, integer, trip_count
from loopfuse.lang.context import Context
from loopfuse.lang.indices import to_index
from loopfuse.lang.nodes import Const, Expr, Iter, Stmt
from loopfuse.lang.unroll import MAX_COPIES


@dataclass(frozen=True, slots=True)
class Bounds:
    """A range's bounds and step, as index expressions."""

    lower: Expr
    upper: Expr
    step: int

    @property
    def trips(self) -> Expr:
        """How many values it has."""
        return trip_count(self.lower, self.upper, self.step)

    def passes(self, iterator: str) -> Expr:
        """How many values come before the present one."""
        here = Iter(iterator)
        if self.step > 0:
            return combine("floordiv", combine("sub", here, self.lower), integer(self.step))
        return combine("floordiv", combine("sub", self.lower, here), integer(-self.step))


def bounds(context: Context, each: syntax.Range) -> Bounds:
    """The bounds of a range; no statement can run before them."""
    lower = _bound(context, each.lower)
    upper = _bound(context, each.upper)
    return Bounds(lower, upper, _step(context, each))


def _bound(context: Context, expr: syntax.Expr) -> Expr:
    outer, first = context.hoists, list[Stmt]()
    context.hoists = first
    try:
        value = expressions.elaborate(context, expr)
    finally:
        context.hoists = outer
    if first:
        context.limit(
            "data-dependent-bound",
            "this bound depends on data, which this version cannot do yet",
            expr.span,
            fix="use a bound made of iterators, sizes and integer parameters",
        )
    return to_index(context, value, "bound", expr.span)


def _step(context: Context, each: syntax.Range) -> int:
    if each.step is None:
        return 1
    step = to_index(context, expressions.elaborate(context, each.step), "step", each.step.span)
    if not isinstance(step, Const):
        context.fail(
            "step-not-constant",
            f"the step `{context.text(each.step.span)}` is not a constant",
            each.step.span,
            fix="loop over the count, and multiply: `for k in 0..n: ... a + k*s`",
        )
    if int(step.value) == 0:
        context.fail(
            "step-zero",
            "a step of 0 never ends",
            each.step.span,
            fix="use a positive step, or a negative one to count down",
        )
    return int(step.value)


def constant_values(context: Context, each: syntax.Range, limits: Bounds) -> range:
    """The values of a range that must be unrolled."""
    if not isinstance(limits.lower, Const) or not isinstance(limits.upper, Const):
        context.limit(
            "unroll-bounds",
            f"`{each.iterator}` subscripts a constant table, but its bounds are not constant",
            each.span,
            fix="loop over constants, or pass the table as an array",
        )
    values = range(int(limits.lower.value), int(limits.upper.value), limits.step)
    if len(values) > MAX_COPIES:
        unroll_too_large(context, each.span)
    return values


def unroll_too_large(context: Context, span: Span) -> NoReturn:
    """The limit on unrolling."""
    context.limit(
        "unroll-too-large",
        f"unrolling this loop gives more than {MAX_COPIES} copies",
        span,
        fix="pass the table as an array",
    )
