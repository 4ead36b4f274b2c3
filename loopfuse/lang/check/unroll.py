"""Finds the loops that must be unrolled: those whose iterator subscripts a constant table.

before:  for k in 0..9: f[y, x] += w[k] * g[y + cy[k], x]     (w, cy: const tables)
after:   nine statements, with the tables' elements as constants

The iterator may reach the subscript through arithmetic, a `let` or a `func`'s parameter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from loopfuse.lang.check.context import Context
from loopfuse.lang.check.scope import TableEntry, ValueEntry
from loopfuse.lang.nodes import Const
from loopfuse.lang.surface import syntax

MAX_COPIES = 1024
"""The largest number of passes a loop is unrolled into."""


def children(expr: syntax.Expr) -> tuple[syntax.Expr, ...]:
    """The direct operands of a surface expression; a Reduction's bounds come before its body."""
    match expr:
        case syntax.Number() | syntax.Name():
            return ()
        case syntax.Subscript(index=index):
            return index
        case syntax.Unary(operand=operand):
            return (operand,)
        case syntax.Binary(left=left, right=right):
            return (left, right)
        case syntax.Comparison(operands=operands):
            return operands
        case syntax.Conditional(condition=condition, then=then, otherwise=otherwise):
            return (condition, then, otherwise)
        case syntax.Call(arguments=arguments):
            return arguments
        case syntax.Reduction(ranges=ranges, body=body):
            return (*(bound for each in ranges for bound in (each.lower, each.upper)), body)
        case _:
            assert_never(expr)


def walk(expr: syntax.Expr) -> Iterator[syntax.Expr]:
    """`expr` and everything in it."""
    stack = [expr]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(children(top))


def names_in(expr: syntax.Expr) -> set[str]:
    """The names that occur in `expr`."""
    return {node.name for node in walk(expr) if isinstance(node, syntax.Name)}


def statement_expressions(
    stmts: tuple[syntax.Stmt, ...],
) -> Iterator[tuple[str, syntax.Expr]]:
    """Every expression of the statements, each with the `let` it defines (or "")."""
    for stmt in stmts:
        match stmt:
            case syntax.Assign(target=target, value=value):
                yield "", target
                yield "", value
            case syntax.Let(name=name, value=value):
                yield name, value
            case syntax.Temp(extents=extents):
                yield from (("", extent) for extent in extents)
            case syntax.For(ranges=ranges, body=body):
                for each in ranges:
                    yield "", each.lower
                    yield "", each.upper
                yield from statement_expressions(body)
            case syntax.If(condition=condition, then=then, otherwise=otherwise):
                yield "", condition
                yield from statement_expressions(then)
                yield from statement_expressions(otherwise)
            case syntax.Assume(condition=condition):
                yield "", condition
            case syntax.Block(body=body):
                yield from statement_expressions(body)
            case syntax.Swap():
                pass
            case _:
                assert_never(stmt)


def table_names(
    context: Context,
    expressions: list[tuple[str, syntax.Expr]],
    called: tuple[str, ...] = (),
    *,
    only_open: bool = False,
) -> set[str]:
    """The names on which some subscript of a constant table depends in `expressions`, which are
    (the `let` defined, or "", and the expression) in text order; `only_open`: but for subscripts
    that are remainders by constants or made of such, which need not be constant themselves."""
    found: set[str] = set()
    for _, expr in expressions:
        for node in walk(expr):
            match node:
                case syntax.Subscript(array=array, index=index) if _is_table(context, array):
                    kept = [part for part in index if not (only_open and _is_closed(part))]
                    found |= {name for part in kept for name in names_in(part)}
                case syntax.Call(function=function, arguments=arguments):
                    for position in _table_parameters(context, function, called, only_open):
                        if position < len(arguments):
                            found |= names_in(arguments[position])
                case _:
                    pass
    # A `let` that is needed needs what it was made of.
    for name, expr in reversed(expressions):
        if name in found and not (only_open and _is_closed(expr)):
            found |= names_in(expr)
    return found


def _is_table(context: Context, name: str) -> bool:
    return isinstance(context.module.scope.entries.get(name), TableEntry)


def _table_parameters(
    context: Context, name: str, called: tuple[str, ...], only_open: bool
) -> list[int]:
    """The positions of the parameters of a `func` that reach a table's subscript."""
    function = context.module.functions.get(name)
    if function is None or name in called:
        return []
    body: list[tuple[str, syntax.Expr]] = [(let.name, let.value) for let in function.lets]
    body.append(("", function.value))
    needed = table_names(context, body, (*called, name), only_open=only_open)
    return [k for k, param in enumerate(function.params) if param.name in needed]


def has_tables(context: Context) -> bool:
    """Whether the module has any constant table at all."""
    return any(isinstance(entry, TableEntry) for entry in context.module.scope.entries.values())


def _is_closed(expr: syntax.Expr) -> bool:
    """Stays between two constants, by how it is written: a remainder, or made of such."""
    match expr:
        case syntax.Number():
            return True
        case syntax.Binary(op="%", right=syntax.Number()):
            return True
        case syntax.Binary(op="+" | "-" | "*" | "//", left=left, right=right):
            return _is_closed(left) and _is_closed(right)
        case syntax.Call(function="min" | "max", arguments=arguments):
            return all(_is_closed(argument) for argument in arguments)
        case _:
            return False


def unrolled_iterators(
    context: Context, stmt: syntax.For, *, only_open: bool = False
) -> set[str]:
    """Which iterators of this header are unrolled where their bounds are constant; `only_open`:
    which must be."""
    if not has_tables(context):
        return set()
    found = list(statement_expressions(stmt.body))
    return {each.iterator for each in stmt.ranges} & table_names(context, found, only_open=only_open)


def unrolled_ranges(context: Context, expr: syntax.Reduction) -> set[str]:
    """Which iterators of this reduction need unrolling."""
    if not has_tables(context):
        return set()
    body = [("", expr.body)]
    found, needed = table_names(context, body), table_names(context, body, only_open=True)
    return {
        each.iterator
        for each in expr.ranges
        if each.iterator in (found if _is_constant(context, each) else needed)
    }


def _is_constant(context: Context, each: syntax.Range) -> bool:
    names = names_in(each.lower) | names_in(each.upper)
    entries = [context.scope.find(name) for name in names]
    return all(
        isinstance(entry, ValueEntry) and isinstance(entry.value.expr, Const) for entry in entries
    )
