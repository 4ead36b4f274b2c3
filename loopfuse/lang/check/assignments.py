"""Elaborates assignments: what may be written, the conversion, and which ones accumulate."""

from __future__ import annotations

from dataclasses import replace

from loopfuse.base.diagnostics import Label
from loopfuse.lang.check.context import Context, Poisoned
from loopfuse.lang.check.expressions import access
from loopfuse.lang.check.fma import negate
from loopfuse.lang.check.operators import apply_binary, combine_values, refuse_bool
from loopfuse.lang.check.scope import (
    ArrayEntry,
    PoisonEntry,
    ScalarEntry,
    TableEntry,
    ValueEntry,
    describe,
)
from loopfuse.lang.check.typing import Value
from loopfuse.lang.nodes import Binary, Const, Expr, Fma, Load, Stmt, Store
from loopfuse.lang.surface import syntax
from loopfuse.lang.walk import loads


def assign(context: Context, stmt: syntax.Assign) -> Stmt:
    """`target op= value` as a Store."""
    target = stmt.target
    name = target.name if isinstance(target, syntax.Name) else target.array
    context.target = name
    cell = assigned(context, target)
    context.written.add(cell.array)
    if cell.swapped is not None:
        context.written.add(cell.swapped.array)
    value = context.elaborate(stmt.value)
    if not stmt.op:
        expr = context.finish(context.assign(value, cell.dtype, stmt.value.span, name))
        update = _as_update(cell, expr)
        if reduction := accumulates(cell, update):
            return Store(cell, update, reduction, span=stmt.span)
        return Store(cell, expr, span=stmt.span)
    context.used.add(cell.array)
    before = Value(cell)
    if stmt.op in ("min", "max"):
        for operand in (before, value):
            refuse_bool(context, operand, f"`{stmt.op}=`")
        result = combine_values(context, stmt.op, before, value, stmt.span)
    else:
        result = apply_binary(context, stmt.op, before, value, stmt.span)
    expr = context.finish(context.assign(result, cell.dtype, stmt.value.span, name))
    expr = _as_update(cell, expr)
    return Store(cell, expr, accumulates(cell, expr), span=stmt.span)


def _as_update(cell: Load, expr: Expr) -> Expr:
    """`expr`, which `cell` becomes, in the one form that updates have, of the same bits.

    before: cell - e        max(e, cell)
    after:  cell + -e       max(cell, e)
    """
    match expr:
        case Binary(op="sub", left=left, right=right) if left == cell:
            return replace(expr, op="add", right=_opposite(right))
        case Binary(op="min" | "max", left=left, right=right) if right == cell and left != cell:
            return replace(expr, left=right, right=left)
        case _:
            return expr


def _opposite(expr: Expr) -> Expr:
    opposite = negate(expr)
    if isinstance(opposite, Const):
        return opposite
    if isinstance(expr, Const):
        return Const(-expr.value, expr.dtype, span=expr.span)
    return opposite


_REDUCTIONS = {
    "add": "sum",
    "mul": "prod",
    "min": "min",
    "max": "max",
    "and": "and",
    "or": "or",
    "xor": "xor",
}


def accumulates(cell: Load, expr: Expr) -> str:
    """The reduction that `cell = expr` is a step of by its form, `op(cell, e)` where `e` does not name the cell; else
    "". (Whether `e` reads it by another name is for the dependences to say.)"""
    match expr:
        case Binary(op=op, left=left, right=right) if op in _REDUCTIONS and left == cell:
            rest, name = [right], _REDUCTIONS[op]
        case Fma(a=a, b=b, c=c) if c == cell:
            rest, name = [a, b], "sum"
        case _:
            return ""
    swapped = {cell.array, cell.swapped.array} if cell.swapped else set[str]()
    for load in (load for part in rest for load in loads(part)):
        if load == cell or load.array in swapped or (load.swapped is not None and load.swapped.array == cell.array):
            return ""
    return name


def assigned(context: Context, target: syntax.Name | syntax.Subscript) -> Load:
    """The place an assignment writes, if it may."""
    if isinstance(target, syntax.Name):
        entry, name, span = context.find(target.name, target.span), target.name, target.span
    else:
        entry, name = context.find(target.array, target.array_span), target.array
        span = target.array_span
    declared = [Label(entry.span, "declared here")]
    match entry:
        case ScalarEntry(core=core, dtype=dtype, mutable=True) if isinstance(target, syntax.Name):
            return Load(core, (), dtype, span=target.span)
        case ScalarEntry(mutable=False) if isinstance(target, syntax.Name):
            context.fail(
                "assign-to-let",
                f"`{name}` is a `let`, which keeps its value",
                span,
                labels=declared,
                fix=f"declare it as a variable: `var {name}: {entry.dtype.value} = ...`",
            )
        case ArrayEntry(mode="in"):
            context.fail(
                "assign-to-in",
                f"`{name}` is an `in` array, which the kernel only reads",
                span,
                labels=declared,
                fix=f"declare it `inout {name}`, or write to another array",
            )
        case ArrayEntry() if isinstance(target, syntax.Subscript):
            if target.mode:
                context.fail(
                    "mode-on-target",
                    f"an edge mode is for reading; `{name}.{target.mode}[...]` is written",
                    target.span,
                    fix=f"write `{name}[...]`",
                )
            return access(context, target, entry)
        case ArrayEntry(extents=extents):
            ones = all(isinstance(extent, Const) and extent.value == 1 for extent in extents)
            index = ", ".join("0" if ones else "ijklmnpq"[k % 8] for k in range(len(extents)))
            context.fail(
                "array-without-subscript",
                f"`{name}` is an array: its elements are assigned one at a time",
                span,
                labels=declared,
                fix=f"assign its element: `{name}[{index}]`"
                if ones
                else f"loop over it, and assign `{name}[{index}]`",
            )
        case TableEntry():
            context.fail(
                "assign-to-constant",
                f"`{name}` is a constant table",
                span,
                fix="declare a `temp` of another name, and fill that",
            )
        case ValueEntry(what=what) if isinstance(target, syntax.Name):
            context.fail(
                "assign-to-constant" if what == "constant" else f"assign-to-{what}",
                f"`{name}` is {describe(entry)}, which cannot be assigned",
                span,
                labels=declared,
                fix=f"declare another and use that: `let {context.free_name(name)} = ...`",
            )
        case PoisonEntry():
            raise Poisoned
        case _:
            context.fail(
                "not-an-array",
                f"`{name}` is {describe(entry)}, which has no elements",
                span,
                labels=declared,
                fix=f"write `{name}` alone",
            )
