"""Elements of constant tables: by constants, or chosen among a few while the program runs."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import NoReturn

from loopfuse.base.dtypes import DType
from loopfuse.lang.check.context import Context, parenthesise, place
from loopfuse.lang.check.indices import affine_value, check_rank, data_index, to_index
from loopfuse.lang.check.scope import TableEntry
from loopfuse.lang.check.typing import Value
from loopfuse.lang.nodes import Binary, Cast, Compare, Const, Expr, Select, integer
from loopfuse.lang.semantics import integer_limits
from loopfuse.lang.surface import syntax

LARGEST_CHOICE = 32
"""The most elements among which a subscript that is not constant chooses: each costs a comparison
and a selection in every iteration."""


def element(context: Context, expr: syntax.Subscript, entry: TableEntry) -> Value:
    """A constant table's element. Subscripts are constants once loops are unrolled; others choose
    among the elements, where they show that they stay inside."""
    if expr.mode:
        context.fail(
            "table-mode",
            f"a constant table takes no edge mode `.{expr.mode}`",
            expr.span,
            fix=f"write `{expr.array}[...]`, with subscripts inside the table",
        )
    check_rank(context, expr, len(entry.shape))
    offset: Expr = Const(0, DType.I64, span=expr.span)
    for part, extent in zip(expr.index, entry.shape, strict=True):
        given = context.elaborate(part)
        position = affine_value(context, given) if given.dtype.is_integer else to_index(
            context, given, "subscript", part.span
        )
        if position is None:
            position = data_index(context, given, "subscript", part.span)
        if not isinstance(position, Const) and context.alone:
            return entry.values[0]  # a caller's argument may be constant: any element will do here
        low, high = limits_of(position)
        if isinstance(position, Const) and not 0 <= low < extent:
            context.fail(
                "table-range",
                f"subscript {low} is outside the table `{expr.array}`",
                part.span,
                label=f"this dimension has {extent} elements",
                fix=f"keep it in 0..{extent}",
            )
        if not (low >= 0 and high < extent) or len(entry.values) > LARGEST_CHOICE:
            _refuse_choice(context, expr, part, extent, len(entry.values))
        offset = offset * extent + position
    chosen = _choice(offset, entry.values, 0)
    return Value(place(chosen.expr, expr.span), chosen.weak)


def _refuse_choice(
    context: Context, expr: syntax.Subscript, part: syntax.Expr, extent: int, count: int
) -> NoReturn:
    text = context.text(part.span)
    small = count <= LARGEST_CHOICE
    context.limit(
        "table-subscript",
        f"`{text}` is not constant, and `{expr.array}` is a table",
        part.span,
        notes=("a loop of constant bounds whose iterator subscripts a table is unrolled",),
        fix=f"write `{expr.array}[{parenthesise(text)} % {extent}]`, which stays inside, or pass the "
        "table as an array"
        if small and len(expr.index) == 1
        else "loop over constants, or pass the table as an array",
    )


def _choice(offset: Expr, values: tuple[Value, ...], first: int) -> Value:
    """One of `values` by `offset - first`: halves, until one is left.

    before: w[i % 3]        after: w[0] if i % 3 < 1 else (w[1] if i % 3 < 2 else w[2])
    """
    if isinstance(offset, Const):
        return values[int(offset.value) - first]
    if len(values) == 1:
        return values[0]
    half = len(values) // 2
    low, high = _choice(offset, values[:half], first), _choice(offset, values[half:], first + half)
    if low.expr == high.expr:
        return low
    below = Compare("lt", offset, integer(first + half))
    dtype = values[0].dtype
    return Value(Select(below, low.expr, high.expr, dtype), all(one.weak for one in values))


def limits_of(position: Expr) -> tuple[int, int]:
    """The least and the greatest value that an integer expression shows it can have."""
    least, greatest = integer_limits(position.dtype)
    low, high = _limits_shown(position)
    return (low, high) if least <= low and high <= greatest else (least, greatest)  # it may wrap


def _limits_shown(position: Expr) -> tuple[int, int]:
    match position:
        case Const(value=value):
            return int(value), int(value)
        case Cast(operand=operand) if operand.dtype.is_integer:
            return limits_of(operand)
        case Binary(op="mod", left=left, right=Const(value=modulus)) if modulus > 0:
            low, high = limits_of(left)
            return (low, high) if low >= 0 and high < modulus else (0, int(modulus) - 1)
        case Binary(op="floordiv", left=left, right=Const(value=divisor)) if divisor > 0:
            low, high = limits_of(left)
            return low // int(divisor), high // int(divisor)
        case Binary(op="add" | "sub" | "mul" | "min" | "max" as op, left=left, right=right):
            found = [_COMPUTED[op](a, b) for a in limits_of(left) for b in limits_of(right)]
            return min(found), max(found)
        case _:
            return integer_limits(position.dtype)


_COMPUTED: dict[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "min": min, "max": max,
}  # fmt: skip
