"""Elaborates statements, one function for each kind; what goes wrong in one does not stop the
others."""

from __future__ import annotations

from typing import assert_never

from loopfuse.base.diagnostics import Label, LoopfuseError, Span
from loopfuse.lang.check import ranges, reductions
from loopfuse.lang.check.assignments import assign
from loopfuse.lang.check.context import Context, Poisoned
from loopfuse.lang.check.expressions import (
    condition,
    index_literal,
)
from loopfuse.lang.check.extents import check_extents
from loopfuse.lang.check.indices import affine_value
from loopfuse.lang.check.scope import (
    ArrayEntry,
    PoisonEntry,
    ScalarEntry,
    ValueEntry,
    describe,
)
from loopfuse.lang.check.swap import pair_of
from loopfuse.lang.check.swap_counts import any_swap, count_swaps, too_deep
from loopfuse.lang.check.typing import Value
from loopfuse.lang.check.unroll import unrolled_iterators
from loopfuse.lang.index_text import to_python
from loopfuse.lang.labels import CONTINUES
from loopfuse.lang.nodes import (
    Assume,
    Block,
    Const,
    Define,
    For,
    If,
    Load,
    Stmt,
    Temp,
    integer,
)
from loopfuse.lang.surface import syntax
from loopfuse.lang.walk import iterators, loads, symbols


def elaborate_block(context: Context, stmts: tuple[syntax.Stmt, ...]) -> list[Stmt]:
    """The core of a list of statements; errors are collected."""
    out: list[Stmt] = []
    for stmt in stmts:
        if context.is_full:
            break  # the limit is told; unrolling might go on for ever
        outer, context.hoists = context.hoists, []
        try:
            core = statement(context, stmt)
            out += [*context.hoists, *core]
        except LoopfuseError as error:
            context.report.add(error)
            poison(context, stmt)
        except Poisoned:
            poison(context, stmt)
        finally:
            context.hoists = outer
    return out


def poison(context: Context, stmt: syntax.Stmt) -> None:
    """The name a wrong statement would have declared: its uses say nothing more."""
    if isinstance(stmt, syntax.Let | syntax.Temp) and context.scope.find(stmt.name) is None:
        context.scope.entries[stmt.name] = PoisonEntry(stmt.span)


def statement(context: Context, stmt: syntax.Stmt) -> list[Stmt]:
    """The core of one statement, without its hoists."""
    context.count_statement(stmt.span)
    match stmt:
        case syntax.Assign():
            return [assign(context, stmt)]
        case syntax.Let():
            return let(context, stmt)
        case syntax.Temp():
            return [temp(context, stmt)]
        case syntax.For():
            return for_loop(context, stmt)
        case syntax.If():
            return if_else(context, stmt)
        case syntax.Swap():
            swap(context, stmt)
            return []
        case syntax.Assume():
            return [assume(context, stmt)]
        case syntax.Block(kind=kind, body=body):
            return [Block(kind, tuple(elaborate_block(context, body)), span=stmt.span)]
        case _:
            assert_never(stmt)


# ----------------------------------------------------------------------------- declarations


def let(context: Context, stmt: syntax.Let) -> list[Stmt]:
    """`let` and `var`. A `let` that is one reduction is that Reduce; a `let` whose value is
    affine can stand in subscripts and bounds."""
    context.target = stmt.name
    if stmt.dtype is None and stmt.mutable:
        context.fail(
            "var-needs-type",
            f"the variable `{stmt.name}` needs a type",
            stmt.name_span,
            fix=f"write `var {stmt.name}: f32 = {context.text(stmt.value.span, '...')}`",
        )
    core = context.names.declare(stmt.name)
    if isinstance(stmt.value, syntax.Reduction) and not stmt.mutable:
        value = reductions.elaborate_reduction(context, stmt.value, core)
        reduced = isinstance(value.expr, Load) and value.expr.array == core
        if reduced and stmt.dtype in (None, value.dtype):
            weak = value.weak and stmt.dtype is None
            entry = ScalarEntry(core, value.dtype, weak, False, stmt.name_span)
            declare_scalar(context, stmt, entry)
            return []
        if reduced:
            # The annotation converts: the accumulator keeps the name, the `let` gets another.
            core = context.names.declare(stmt.name)
    else:
        value = context.elaborate(stmt.value)
    dtype = stmt.dtype or value.dtype
    expr = context.assign(value, dtype, stmt.value.span, stmt.name)
    weak = stmt.weak or (stmt.dtype is None and value.weak)
    entry = ScalarEntry(core, dtype, weak, stmt.mutable, stmt.name_span)
    declare_scalar(context, stmt, entry)
    if not stmt.mutable:
        index = affine_value(context, Value(expr))
        if index is not None:
            context.affine[core] = index
    return [Define(core, dtype, context.finish(expr), stmt.mutable, span=stmt.span)]


def declare_scalar(context: Context, stmt: syntax.Let, entry: ScalarEntry) -> None:
    """Declare what a `let` or `var` defines, and watch whether it is used."""
    context.define(stmt.name, entry)
    context.declared.append((entry.core, stmt.name, stmt.name_span))


def temp(context: Context, stmt: syntax.Temp) -> Stmt:
    """`temp t: f32[N]`."""
    dtype = stmt.dtype
    extents = check_extents(context, stmt.name, stmt.extents)
    core = context.names.declare(stmt.name)
    context.define(stmt.name, ArrayEntry(core, dtype, extents, "temp", context.depth, stmt.span))
    context.declared.append((core, stmt.name, stmt.span))
    return Temp(core, dtype, extents, span=stmt.span)


# ------------------------------------------------------------------------------ control flow


def for_loop(context: Context, stmt: syntax.For) -> list[Stmt]:
    """A header of one or more ranges: nested Fors, or copies where a table needs them."""
    unrolled = unrolled_iterators(context, stmt)
    needed = unrolled_iterators(context, stmt, only_open=True) if unrolled else unrolled

    def nest(k: int, label: str) -> list[Stmt]:
        if k == len(stmt.ranges):
            with context.inner():
                return elaborate_block(context, stmt.body)
        each = stmt.ranges[k]
        outer, context.hoists = context.hoists, []
        try:
            limits = ranges.run_time_bounds(context, each)
            out: list[Stmt] = context.hoists
        finally:
            context.hoists = outer
        context.depth += 1
        try:
            if each.iterator in (unrolled if ranges.is_short(limits) else needed):
                for number in ranges.constant_values(context, each, limits):
                    if context.is_full:
                        break
                    with context.inner():
                        value = Value(index_literal(number, each.span), weak=True)
                        context.define(each.iterator, ValueEntry(value, "iterator", each.span))
                        out += nest(k + 1, "")
                return out
            with context.inner():
                iterator = ranges.declare_iterator(context, each, limits)
                counts = count_swaps(context, stmt, k)
                if counts and not limits.is_known:
                    too_deep(context, each.span)
                passes = limits.passes(iterator) if counts else integer(0)
                with context.swaps.loop(counts, passes, limits.trips):
                    body = nest(k + 1, CONTINUES)
            header = For(
                iterator,
                limits.lower,
                limits.upper,
                limits.step,
                tuple(body),
                label,
                stmt.parallel,
                span=each.span,
            )
            return [*out, header]
        finally:
            context.depth -= 1

    try:
        return nest(0, "")
    except (LoopfuseError, Poisoned) as error:
        # A wrong header: the body is still worth checking, with its iterators unknown.
        if isinstance(error, LoopfuseError):
            context.report.add(error)
        with context.inner():
            for each in stmt.ranges:
                context.scope.entries[each.iterator] = PoisonEntry(each.span)
            elaborate_block(context, stmt.body)
        raise Poisoned from None


def if_else(context: Context, stmt: syntax.If) -> list[Stmt]:
    """`if`; a condition that is constant (in an unrolled loop) leaves only its branch."""
    context.target = "if"
    choice = condition(context, stmt.condition, "the condition of `if`")
    if isinstance(choice, Const):
        with context.inner():
            return elaborate_block(context, stmt.then if choice.value else stmt.otherwise)
    if any_swap(stmt.then) or any_swap(stmt.otherwise):
        too_deep(context, stmt.condition.span)
    with context.inner():
        then = elaborate_block(context, stmt.then)
    with context.inner():
        otherwise = elaborate_block(context, stmt.otherwise)
    return [If(choice, tuple(then), tuple(otherwise), span=stmt.condition.span)]


def assume(context: Context, stmt: syntax.Assume) -> Stmt:
    """`assume condition`, on sizes, parameters and iterators."""
    promise = condition(context, stmt.condition, "an assumption")
    if loads(promise) or context.hoists:
        context.fail(
            "assume-data",
            "an assumption cannot speak of array elements",
            stmt.condition.span,
            fix="assume something of sizes, parameters and iterators",
        )
    context.related.add(symbols(promise) | iterators(promise))
    return Assume(promise, span=stmt.span)


def swap(context: Context, stmt: syntax.Swap) -> None:
    """`swap a, b`: changes what the names refer to from here on."""
    entries: list[ArrayEntry] = []
    for name in (stmt.left, stmt.right):
        entry = context.find(name, stmt.span)
        if not isinstance(entry, ArrayEntry):
            context.fail(
                "swap-mismatch",
                f"`{name}` is {describe(entry)}; only arrays can be swapped",
                stmt.span,
                labels=[Label(entry.span, "declared here")],
                fix="swap two arrays; numbers are exchanged by way of a `let`",
            )
        entries.append(entry)
    left, right = entries
    _check_swap(context, stmt, left, right, stmt.span)
    if not context.swaps.join(left.core, right.core):
        context.limit(
            "swap-rotation",
            f"`{stmt.left}` or `{stmt.right}` is also swapped with another array",
            stmt.span,
            fix="swap in pairs only, or copy one array",
        )
    context.used |= {left.core, right.core}
    context.swaps.add(pair_of(left.core, right.core), integer(1))


def _check_swap(
    context: Context, stmt: syntax.Swap, left: ArrayEntry, right: ArrayEntry, span: Span
) -> None:
    """Arrays that are swapped must be alike, writable, different, and live equally long."""
    why = ""
    if left.core == right.core:
        why = "they are the same array"
    elif left.dtype is not right.dtype:
        why = f"one is {left.dtype.value} and the other {right.dtype.value}"
    elif len(left.extents) != len(right.extents) or any(
        to_python(a) != to_python(b)
        for a, b in zip(left.extents, right.extents, strict=True)
    ):
        why = "their extents differ"
    elif "in" in (left.mode, right.mode):
        name = stmt.left if left.mode == "in" else stmt.right
        why = f"`{name}` is an `in` array"
    elif (left.mode == "temp") != (right.mode == "temp"):
        why = "one is a parameter and the other a temporary"
    elif left.depth != right.depth:
        why = "they are declared in different loops"
    if why:
        context.fail(
            "swap-mismatch",
            f"`{stmt.left}` and `{stmt.right}` cannot be swapped: {why}",
            span,
            labels=[Label(left.span, stmt.left), Label(right.span, stmt.right)],
            fix="swap two temporaries, or two writable parameters, of one type and shape",
        )
