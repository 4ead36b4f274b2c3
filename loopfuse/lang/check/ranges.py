"""Ranges of loops and reductions: bounds as index expressions, constant steps."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NoReturn

from loopfuse.base.diagnostics import Span
from loopfuse.base.dtypes import DType
from loopfuse.lang.check.context import Context
from loopfuse.lang.check.indices import affine_value, data_index, to_index
from loopfuse.lang.check.scope import ValueEntry
from loopfuse.lang.check.typing import Value
from loopfuse.lang.check.unroll import MAX_COPIES
from loopfuse.lang.index import trip_count
from loopfuse.lang.labels import HIDDEN
from loopfuse.lang.nodes import (
    Binary,
    Const,
    Define,
    Expr,
    Iter,
    Load,
    Stmt,
    Symbol,
    integer,
)
from loopfuse.lang.printer import print_expr
from loopfuse.lang.surface import syntax
from loopfuse.lang.walk import iterators, loads, walk_expr

MOST_PERIODS = 16
"""`e % n` of an `e` of more times `n` than this is taken to be known only when the program runs
(`poly.isl.DIVISION_PIECES`)."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """A range's bounds and step, as index expressions. A range of a data-dependent bound and a
    step counts its passes instead: then the source's iterator is `first + stride * iterator`."""

    lower: Expr
    upper: Expr
    step: int
    first: Expr | None = None
    stride: int = 1

    def value(self, iterator: Expr) -> Expr:
        """What the source's iterator is, in terms of the core's."""
        if self.first is None:
            return iterator
        return self.first + iterator * self.stride

    @property
    def trips(self) -> Expr:
        """How many values it has."""
        return trip_count(self.lower, self.upper, self.step)

    def passes(self, iterator: str) -> Expr:
        """How many values come before the present one."""
        here = Iter(iterator)
        if self.step > 0:
            return (here - self.lower) // self.step
        return (self.lower - here) // (-self.step)


    @property
    def is_known(self) -> bool:
        """Both bounds are index expressions: nothing has to run to know them."""
        return not loads(self.lower) and not loads(self.upper)


def bounds(context: Context, each: syntax.Range) -> Bounds:
    """The bounds of a range that nothing has to run for; a limit for one that depends on data."""
    lower = _affine_bound(context, each.lower)
    upper = _affine_bound(context, each.upper)
    return Bounds(lower, upper, _step(context, each))


def _affine_bound(context: Context, expr: syntax.Expr) -> Expr:
    outer, first = context.hoists, list[Stmt]()
    context.hoists = first
    try:
        value = context.elaborate(expr)
    finally:
        context.hoists = outer
    index = affine_value(context, value) if value.dtype.is_integer else None
    if first or (value.dtype.is_integer and index is None):
        context.limit(
            "data-dependent-bound",
            "the bounds of this loop must be known before anything runs",
            expr.span,
            fix="use bounds made of iterators, sizes and integer parameters",
        )
    rest = None if index is None else far_division(context, index)
    if rest is not None:
        text = re.sub(r"(?<=\w)\.\d+", "", print_expr(rest))
        context.limit(
            "data-dependent-bound",
            f"the bounds of this loop must be known before anything runs, and `{text}` is not",
            expr.span,
            fix=f"make what is now `{text}` the iterator of a loop of its own",
        )
    return to_index(context, value, "bound", expr.span)


def far_division(context: Context, index: Expr) -> Expr | None:
    """The first `e % n` by a size in `index` where `e` may be many times `n`: it cannot be told piece by
    piece what that is before the program gets there."""
    for expr in walk_expr(index):
        match expr:
            case Binary(op="mod", left=left, right=Symbol(name=period)):
                if not _is_positive(context, period) or not _is_near(context, left, period):
                    return expr
            case _:
                pass
    return None


def _is_positive(context: Context, period: str) -> bool:
    """A size, or a parameter that something is assumed of."""
    entry = context.scope.find(period)
    is_size = isinstance(entry, ValueEntry) and (entry.what == "size" or entry.value.weak)
    return is_size or any(period in each for each in context.related)


def _is_near(context: Context, expr: Expr, period: str) -> bool:
    """Does `expr` grow with nothing but the size `period`, and what is assumed of it together with
    others?"""
    for each in walk_expr(expr):
        match each:
            case Binary(op="mul", left=Const(value=value)) | Binary(op="mul", right=Const(value=value)):
                if abs(int(value)) > MOST_PERIODS:
                    return False
            case Symbol(name=name) | Iter(name=name):
                if name == period or any({name, period} <= one for one in context.related):
                    continue
                ends = context.ends.get(name)
                if ends is None or not all(_is_near(context, one, period) for one in ends):
                    return False
            case _:
                pass
    return True


def run_time_bounds(context: Context, each: syntax.Range) -> Bounds:
    """The bounds of a range, which may depend on data, or on what only the program can compute.

    before:  for k in ptr[i]..ptr[i + 1]: ...
    after:   define k_start = ptr[i]; define k_end = ptr[i + 1]; for k in k_start..k_end: ...

    What has to run first goes to `context.hoists`.
    """
    values = [context.elaborate(expr) for expr in (each.lower, each.upper)]
    step = _step(context, each)
    ends: list[Expr] = []
    cells = 0
    for value, expr, word in zip(values, (each.lower, each.upper), ("start", "end"), strict=True):
        index = affine_value(context, value) if value.dtype.is_integer else None
        if index is None or far_division(context, index) is not None:
            if index is None:
                index = data_index(context, value, "bound", expr.span)
            index, cells = _cell(context, each, word, index), cells + 1
        ends.append(replace(index, span=expr.span))
    lower, upper = ends
    if not cells or step == 1:
        return Bounds(lower, upper, step)
    # Whether an iterator of another step is in the range depends on data too: count the passes.
    passes = _cell(context, each, "count", trip_count(lower, upper, step))
    return Bounds(integer(0), passes, 1, lower, step)


def _cell(context: Context, each: syntax.Range, word: str, value: Expr) -> Load:
    """A scalar of the compiler's own that holds `value` from here on: where it reads no data, one for
    all ranges that are bounded by it."""
    text = print_expr(value)
    known = None if loads(value) else context.scope.find_cell(text)
    if known is not None:
        return Load(known, (), DType.I64, span=value.span)
    core = context.names.declare(f"{each.iterator}_{word}")
    context.hoists.append(Define(core, DType.I64, value, label=HIDDEN, span=value.span))
    if not loads(value):
        context.scope.cells[text] = core
    return Load(core, (), DType.I64, span=value.span)


def is_unknown(context: Context, limits: Bounds) -> bool:
    """Is the range known only when the program runs?"""
    used = iterators(limits.lower) | iterators(limits.upper)
    return not limits.is_known or bool(used & context.unknown)


def _constant_step(context: Context, step: syntax.Expr) -> str:
    """How to make the step a constant: as a parameter, where it is one."""
    entry = context.scope.find(step.name) if isinstance(step, syntax.Name) else None
    if isinstance(step, syntax.Name) and isinstance(entry, ValueEntry) and entry.what == "parameter":
        return f"make it a constant that each call gives: `{step.name}: const i64`"
    return "use a number, a `const`, or a parameter declared `const`: `s: const i64`"


def _step(context: Context, each: syntax.Range) -> int:
    if each.step is None:
        return 1
    step = to_index(context, context.elaborate(each.step), "step", each.step.span)
    if not isinstance(step, Const):
        context.fail(
            "step-not-constant",
            f"the step `{context.text(each.step.span)}` is not a constant",
            each.step.span,
            fix=_constant_step(context, each.step),
        )
    if int(step.value) == 0:
        context.fail(
            "step-zero",
            "a step of 0 never ends",
            each.step.span,
            fix="use a positive step, or a negative one to count down",
        )
    if abs(int(step.value)) >= 1 << 31:
        context.limit(
            "index-too-large",
            f"the number {step.value} is too large for a step",
            each.step.span,
            fix="use steps below 2147483648 (2**31)",
        )
    return int(step.value)


def is_short(limits: Bounds) -> bool:
    """A constant range that may be unrolled."""
    match limits.lower, limits.upper:
        case Const(value=first), Const(value=last):
            return len(range(int(first), int(last), limits.step)) <= MAX_COPIES
        case _:
            return False


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


def declare_iterator(
    context: Context, each: syntax.Range, limits: Bounds | None = None
) -> str:
    """Declares the iterator of a range, and gives its core name."""
    core = context.names.declare(each.iterator)
    here: Expr = Iter(core, span=each.span)
    if limits is not None:
        if is_unknown(context, limits):
            context.unknown.add(core)
        else:
            context.ends[core] = limits.lower, limits.upper
        here = limits.value(here)
    iterator = Value(here, weak=True)
    context.define(each.iterator, ValueEntry(iterator, "iterator", each.span))
    return core
