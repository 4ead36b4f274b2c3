"""Walking and rewriting the core: children, maps, loads, substitution.

Every pass over `lang.nodes` uses these, so that no pass lists the node kinds again. All functions
are pure; an unchanged subtree is returned as the very same object.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from operator import is_
from typing import Any, assert_never

from loopfuse.base.dtypes import DType
from loopfuse.lang.index import is_checked
from loopfuse.lang.nodes import (
    Assume,
    Binary,
    Block,
    Call,
    Cast,
    Compare,
    Const,
    Define,
    Expr,
    Fma,
    For,
    If,
    Iter,
    Load,
    Range,
    Reduce,
    Select,
    Stmt,
    Store,
    Swapped,
    Symbol,
    Temp,
    Unary,
)

# ------------------------------------------------------------------------------- expressions


_CHILDREN: Mapping[type, Callable[[Any], tuple[Expr, ...]]] = {
    Const: lambda expr: (),
    Iter: lambda expr: (),
    Symbol: lambda expr: (),
    Load: lambda expr: expr.index if expr.swapped is None else (*expr.index, expr.swapped.parity),
    Unary: lambda expr: (expr.operand,),
    Binary: lambda expr: (expr.left, expr.right),
    Compare: lambda expr: (expr.left, expr.right),
    Select: lambda expr: (expr.condition, expr.then, expr.otherwise),
    Cast: lambda expr: (expr.operand,),
    Call: lambda expr: expr.arguments,
    Fma: lambda expr: (expr.a, expr.b, expr.c),
}
"""By class: a `match` asks one class after the other, and this is asked more often than anything else."""


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct operands of `expr`, left to right; a Load's are its index, then its parity."""
    return _CHILDREN[type(expr)](expr)


def with_children(expr: Expr, new: tuple[Expr, ...]) -> Expr:
    """`expr` with its `children` replaced by `new`, which has the same length."""
    if all(map(is_, children(expr), new)):
        return expr
    match expr:
        case Binary(op=op, dtype=dtype, span=span):
            return Binary(op, new[0], new[1], dtype, span=span)
        case Load(array=array, dtype=dtype, mode=mode, swapped=swapped, span=span):
            if swapped is None:
                return Load(array, new, dtype, mode, span=span)
            return Load(array, new[:-1], dtype, mode, Swapped(swapped.array, new[-1]), span=span)
        case Compare(op=op, span=span):
            return Compare(op, new[0], new[1], span=span)
        case Fma(dtype=dtype, span=span):
            return Fma(new[0], new[1], new[2], dtype, span=span)
        case Unary(op=op, dtype=dtype, span=span):
            return Unary(op, new[0], dtype, span=span)
        case Cast(dtype=dtype, span=span):
            return Cast(new[0], dtype, span=span)
        case Select(dtype=dtype, eager=eager, span=span):
            return Select(new[0], new[1], new[2], dtype, eager, span=span)
        case Call(function=function, dtype=dtype, span=span):
            return Call(function, new, dtype, span=span)
        case Const() | Iter() | Symbol():
            return expr
        case _:
            assert_never(expr)


def walk_expr(expr: Expr) -> Iterator[Expr]:
    """`expr` and everything inside it, a parent before its children, left to right."""
    stack = [expr]
    while stack:
        top = stack.pop()
        yield top
        below = children(top)
        if below:
            stack.extend(reversed(below))


def map_expr(function: Callable[[Expr], Expr], expr: Expr) -> Expr:
    """`expr` with `function` applied to every node, bottom-up (children are mapped first)."""
    below = children(expr)
    if below:
        expr = with_children(expr, tuple(map_expr(function, child) for child in below))
    return function(expr)


def conjuncts(condition: Expr) -> tuple[Expr, ...]:
    """The conditions that `and` joins."""
    match condition:
        case Binary(op="and", left=left, right=right, dtype=DType.BOOL):
            return (*conjuncts(left), *conjuncts(right))
        case _:
            return (condition,)


def loads(expr: Expr) -> tuple[Load, ...]:
    """Every Load in `expr` in evaluation order: operands left to right, and a subscript's own
    loads before the access they subscript. A load written twice is listed twice."""
    found: list[Load] = []

    def visit(node: Expr) -> None:
        for child in children(node):
            visit(child)
        if isinstance(node, Load):
            found.append(node)

    visit(expr)
    return tuple(found)


def iterators(expr: Expr) -> frozenset[str]:
    """The names of the iterators that occur in `expr`."""
    found: set[str] = set()
    stack = [expr]
    while stack:
        top = stack.pop()
        if isinstance(top, Iter):
            found.add(top.name)
        else:
            stack.extend(children(top))
    return frozenset(found)


def subscript_iterators(load: Load) -> frozenset[str]:
    """The names of the iterators that say which element it is."""
    return frozenset(name for part in load.index for name in iterators(part))


def sure_loads(expr: Expr, running: Collection[Load] = ()) -> Iterator[Load]:
    """The loads that `expr` does whatever the data are, in evaluation order. `running`: results so far of `any` and
    `all`, which read on where they are known."""
    match expr:
        case Select(condition=condition):
            asked = (condition,)
        case Binary(op="and" | "or", left=left, right=right):
            asked = (right if left in running else left,)
        case _:
            asked = children(expr)
    for child in asked:
        yield from sure_loads(child, running)
    if isinstance(expr, Load):
        yield expr


def moved_to(expr: Expr, places: Mapping[Load, Load]) -> Expr:
    """`expr` with what is read in one of the places read where that lies now."""
    return map_expr(lambda each: places.get(each, each) if isinstance(each, Load) else each, expr)


def symbols(expr: Expr) -> frozenset[str]:
    """The names of the sizes and scalar parameters that occur in `expr`."""
    return frozenset(node.name for node in walk_expr(expr) if isinstance(node, Symbol))


def is_alike(one: Expr, other: Expr) -> bool:
    """Are they written alike, to the sign of a zero? (For Python, and so for `==`, 0.0 is -0.0.)"""
    return one == other and all(
        repr(a.value) == repr(b.value)
        for a, b in zip(walk_expr(one), walk_expr(other), strict=True)
        if isinstance(a, Const) and isinstance(b, Const)
    )


def has_checks(*exprs: Expr) -> bool:
    """Is something in the expressions checked when it runs, as a subscript from data is?"""
    return any(is_checked(part) for expr in exprs for part in walk_expr(expr))


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """`expr` with each `Iter` whose name is in `values` replaced by that expression."""
    if not values:
        return expr

    def replace_iterator(node: Expr) -> Expr:
        return values.get(node.name, node) if isinstance(node, Iter) else node

    return map_expr(replace_iterator, expr)


# -------------------------------------------------------------------------------- statements


def bodies(stmt: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """The statement lists directly inside `stmt`, in text order."""
    match stmt:
        case For(body=body) | Reduce(body=body) | Block(body=body):
            return (body,)
        case If(then=then, otherwise=otherwise):
            return (then, otherwise)
        case Store() | Define() | Temp() | Assume():
            return ()
        case _:
            assert_never(stmt)


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions that `stmt` itself holds (not those of statements inside it), in the order
    they are evaluated; a Store's target comes last, as a Load."""
    match stmt:
        case For(lower=lower, upper=upper):
            return (lower, upper)
        case If(condition=condition) | Assume(condition=condition):
            return (condition,)
        case Store(target=target, value=value):
            return (value, target)
        case Define(value=value):
            return (value,)
        case Reduce(ranges=ranges, value=value):
            bounds = [bound for each in ranges for bound in (each.lower, each.upper)]
            return (*bounds, value)
        case Temp(extents=extents):
            return extents
        case Block():
            return ()
        case _:
            assert_never(stmt)


def walk_stmts(stmts: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement of `stmts` and inside them, in text order, a parent before its body."""
    for stmt in stmts:
        yield stmt
        for body in bodies(stmt):
            yield from walk_stmts(body)


def map_stmt_expressions(function: Callable[[Expr], Expr], stmt: Stmt) -> Stmt:
    """`stmt` with `function` applied to each whole expression in it and in its bodies.

    A Store's target is passed as a Load, and `function` must give a Load back.
    """

    def below(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(map_stmt_expressions(function, inner) for inner in body)

    match stmt:
        case For():
            return replace(
                stmt, lower=function(stmt.lower), upper=function(stmt.upper), body=below(stmt.body)
            )
        case If():
            return replace(
                stmt,
                condition=function(stmt.condition),
                then=below(stmt.then),
                otherwise=below(stmt.otherwise),
            )
        case Store():
            target = function(stmt.target)
            if not isinstance(target, Load):
                raise TypeError("the target of a Store must stay a Load")
            return replace(stmt, target=target, value=function(stmt.value))
        case Define():
            return replace(stmt, value=function(stmt.value))
        case Reduce():
            ranges = tuple(
                Range(
                    each.iterator,
                    function(each.lower),
                    function(each.upper),
                    each.step,
                    span=each.span,
                )
                for each in stmt.ranges
            )
            return replace(stmt, ranges=ranges, body=below(stmt.body), value=function(stmt.value))
        case Temp():
            return replace(stmt, extents=tuple(function(extent) for extent in stmt.extents))
        case Assume():
            return replace(stmt, condition=function(stmt.condition))
        case Block():
            return replace(stmt, body=below(stmt.body))
        case _:
            assert_never(stmt)


def map_stmts(
    function: Callable[[Stmt], tuple[Stmt, ...]], stmts: tuple[Stmt, ...]
) -> tuple[Stmt, ...]:
    """`stmts` with each statement, innermost first, replaced by what `function` gives for it
    (an empty tuple removes it)."""
    out: list[Stmt] = []
    for stmt in stmts:
        match stmt:
            case For() | Reduce() | Block():
                mapped: Stmt = replace(stmt, body=map_stmts(function, stmt.body))
            case If():
                mapped = replace(
                    stmt,
                    then=map_stmts(function, stmt.then),
                    otherwise=map_stmts(function, stmt.otherwise),
                )
            case _:
                mapped = stmt
        out.extend(function(mapped))
    return tuple(out)
