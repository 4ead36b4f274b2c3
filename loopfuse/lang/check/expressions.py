"""Elaborates names, elements, comparisons and conditionals."""

from __future__ import annotations

from loopfuse.base.diagnostics import Label, LoopfuseError, Span
from loopfuse.base.dtypes import DType
from loopfuse.lang.check import tables
from loopfuse.lang.check.context import Context, Poisoned, place
from loopfuse.lang.check.indices import check_rank, to_subscript
from loopfuse.lang.check.operators import (
    compare,
    conjunction,
    describe_types,
    need_bool,
)
from loopfuse.lang.check.scope import ArrayEntry, ScalarEntry, TableEntry, ValueEntry, describe
from loopfuse.lang.check.typing import Value
from loopfuse.lang.nodes import Const, Define, Expr, If, Load, Select, Stmt, Store
from loopfuse.lang.semantics import integer_limits, represent
from loopfuse.lang.surface import syntax


def condition(context: Context, expr: syntax.Expr, what: str) -> Expr:
    """`expr` as a condition: a core expression of dtype bool."""
    return need_bool(context, context.elaborate(expr), what)


def number(context: Context, expr: syntax.Number) -> Value:
    """A literal: bool, or a weak i64 or f64."""
    value = expr.value
    if isinstance(value, bool):
        return Value(Const(value, DType.BOOL, span=expr.span))
    if isinstance(value, int):
        dtype = DType.I64
        if value > integer_limits(DType.I64)[1]:
            dtype = DType.U64
        if value > integer_limits(DType.U64)[1]:
            context.fail(
                "literal-range",
                f"{value} does not fit u64",
                expr.span,
                fix=f"write it as a float: `{float(value)!r}`" if value < 10**300 else "",
            )
        return Value(Const(value, dtype, span=expr.span), weak=True)
    return Value(Const(represent(value, DType.F64), DType.F64, span=expr.span), weak=True)


def index_literal(value: int, span: Span) -> Expr:
    """The weak constant an unrolled iterator stands for."""
    return Const(value, DType.I64, span=span)


def name(context: Context, expr: syntax.Name) -> Value:
    """A scalar, size, iterator or constant."""
    entry = context.find(expr.name, expr.span)
    match entry:
        case ScalarEntry(core=core, dtype=dtype, weak=weak):
            context.used.add(core)
            return Value(Load(core, (), dtype, span=expr.span), weak)
        case ValueEntry(value=value, what=what):
            if what == "argument":
                return value
            return Value(place(value.expr, expr.span), value.weak)
        case ArrayEntry(extents=extents):
            index = ", ".join("ijklmnpq"[k % 8] for k in range(len(extents)))
            context.fail(
                "array-without-subscript",
                f"`{expr.name}` is an array: its elements are used one at a time",
                expr.span,
                labels=[Label(entry.span, "declared here")],
                fix=f"subscript it: `{expr.name}[{index}]`",
            )
        case TableEntry():
            context.fail(
                "array-without-subscript",
                f"`{expr.name}` is a constant table: its elements are used one at a time",
                expr.span,
                fix=f"subscript it: `{expr.name}[k]`",
            )
        case _:
            raise Poisoned


def subscript(context: Context, expr: syntax.Subscript) -> Value:
    """An element of an array, or of a constant table."""
    entry = context.find(expr.array, expr.array_span)
    match entry:
        case TableEntry():
            return tables.element(context, expr, entry)
        case ArrayEntry():
            context.used.add(entry.core)
            return Value(access(context, expr, entry))
        case _:
            context.fail(
                "not-an-array",
                f"`{expr.array}` is {describe(entry)}, which has no elements",
                expr.array_span,
                labels=[Label(entry.span, "declared here")],
                fix=f"write `{expr.array}` alone",
            )


def access(context: Context, expr: syntax.Subscript, entry: ArrayEntry) -> Load:
    """`array[index]` as a Load: rank checked, swaps taken into account."""
    check_rank(context, expr, len(entry.extents))
    index = tuple(
        to_subscript(
            context, context.elaborate(part), part.span, expr.array, None if expr.mode else extent
        )
        for part, extent in zip(expr.index, entry.extents, strict=True)
    )
    array, swapped = context.swaps.redirect(entry.core)
    return Load(array, index, entry.dtype, expr.mode, swapped, span=expr.span)


def comparison(context: Context, expr: syntax.Comparison) -> Value:
    """`a < b <= c` as `a < b and b <= c`; each operand is elaborated once."""
    values = [context.elaborate(operand) for operand in expr.operands]
    result: Expr | None = None
    for k, op in enumerate(expr.ops):
        span = expr.operands[k].span.to(expr.operands[k + 1].span)
        part = compare(context, op, values[k], values[k + 1], span).expr
        result = part if result is None else conjunction("and", result, part, expr.span)
    assert result is not None
    context.check_size(result, expr.span)
    return Value(result)


def conditional(context: Context, expr: syntax.Conditional) -> Value:
    """`then if condition else otherwise` as a Select of the two arms' common dtype."""
    choice = condition(context, expr.condition, "the condition of `if`")
    if isinstance(choice, Const):
        return _chosen(context, expr, bool(choice.value))
    then, then_first = _arm(context, expr.then)
    otherwise, otherwise_first = _arm(context, expr.otherwise)
    if (then.dtype is DType.BOOL) != (otherwise.dtype is DType.BOOL):
        _refuse_arms(context, expr, then, otherwise)
    dtype = context.join(then, otherwise, expr.span)
    weak = then.weak and otherwise.weak
    first = _guard(context, choice, True, then, then_first, dtype)
    second = _guard(context, choice, False, otherwise, otherwise_first, dtype)
    return Value(Select(choice, first, second, dtype, span=expr.span), weak)


def _refuse_arms(
    context: Context, expr: syntax.Conditional, then: Value, otherwise: Value
) -> None:
    context.fail(
        "type-mismatch",
        f"the two results of `if` are {describe_types(then, otherwise)}",
        expr.span,
        labels=[
            Label(expr.then.span, f"this is {then.dtype.value}"),
            Label(expr.otherwise.span, f"this is {otherwise.dtype.value}"),
        ],
        fix="make both bools or both numbers",
    )


def _chosen(context: Context, expr: syntax.Conditional, truth: bool) -> Value:
    """A conditional decided while compiling: the dead arm gives no more than its type, and need
    not even be right (an unrolled loop's guard keeps a table's subscript in range)."""
    live, dead = (expr.then, expr.otherwise) if truth else (expr.otherwise, expr.then)
    value = context.elaborate(live)
    try:
        other, _ = _arm(context, dead)
    except (LoopfuseError, Poisoned):
        return value
    if (value.dtype is DType.BOOL) != (other.dtype is DType.BOOL):
        _refuse_arms(context, expr, *((value, other) if truth else (other, value)))
    dtype = context.join(value, other, expr.span)
    return Value(context.convert(value, dtype, live.span), value.weak and other.weak)


def _arm(context: Context, expr: syntax.Expr) -> tuple[Value, list[Stmt]]:
    """One arm, and the statements it needs first (they may run only where it is chosen)."""
    outer, context.hoists = context.hoists, []
    try:
        value = context.elaborate(expr)
        return value, context.hoists
    finally:
        context.hoists = outer


def _guard(
    context: Context, choice: Expr, truth: bool, value: Value, first: list[Stmt], dtype: DType
) -> Expr:
    """The arm as an expression. Where it needs statements first, they run under an If that sets
    a variable, so that nothing is read in vain."""
    expr = context.convert(value, dtype, value.expr.span)
    if not first:
        return expr
    core = context.names.declare(f"{context.target}.if")
    cell = Load(core, (), dtype, span=expr.span)
    zero = Const(represent(0, dtype), dtype, span=expr.span)
    body = (*first, Store(cell, context.finish(expr), span=expr.span))
    context.hoists.append(Define(core, dtype, zero, mutable=True, span=expr.span))
    then, otherwise = (body, ()) if truth else ((), body)
    context.hoists.append(If(choice, then, otherwise, span=expr.span))
    return cell
