"""Reads comparisons of Python: chains, memberships refused by name, and whole numbers compared as what
they are, whatever type holds them."""

from __future__ import annotations

import ast
import functools
import itertools

from loopfuse.base.diagnostics import Span
from loopfuse.base.dtypes import DType
from loopfuse.frontend.python import expr as pyfunc_expr
from loopfuse.frontend.python.context import Reader, Typed
from loopfuse.frontend.python.types import (
    BOOL,
    OPERATIONS,
    PYTHON_BOOL,
    Kind,
    common,
    compares_alike,
    either,
    holds,
    in_range,
)
from loopfuse.lang.surface import syntax

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


def read_comparison(reader: Reader, node: ast.Compare) -> Typed:
    """A chain of comparisons."""
    for op, right in zip(node.ops, node.comparators):
        if isinstance(op, (ast.Is, ast.IsNot)):
            reader.python.refuse(
                "identity-test",
                "`is` compares objects, and a kernel has only numbers",
                node,
                "compare with `==`",
            )
        if isinstance(op, (ast.In, ast.NotIn)):
            reader.python.refuse(
                "membership-test",
                f"`in {reader.python.text(right)}` searches a container",
                node,
                _without_in(reader, node.left, right, isinstance(op, ast.In)),
            )
    parts = [reader.read(part) for part in (node.left, *node.comparators)]
    ops = tuple(COMPARISONS[type(op)] for op in node.ops)
    span = reader.python.span(node)
    pairs = list(itertools.pairwise(parts))
    each = [_exactly(reader, op, *pair, node) for op, pair in zip(ops, pairs)]
    # A chain gives the first comparison that does not hold, or the last: Python's bool or NumPy's.
    kind = functools.reduce(either, (PYTHON_BOOL if all(map(_is_python, pair)) else BOOL for pair in pairs))
    if any(each):
        said = [
            one or syntax.Comparison((left[0], right[0]), (op,), span=span)
            for one, op, (left, right) in zip(each, ops, pairs)
        ]
        return functools.reduce(lambda one, other: syntax.Binary("and", one, other, span=span), said), kind
    return syntax.Comparison(tuple(part[0] for part in parts), ops, span=span), kind


def _is_python(part: Typed) -> bool:
    kind = part[1]
    return kind is not None and (kind.weak or kind.among == PYTHON_BOOL.among)


def compare(reader: Reader, op: str, left: Typed, right: Typed, node: ast.AST) -> syntax.Expr:
    """`left op right`."""
    span = reader.python.span(node)
    exact = _exactly(reader, op, left, right, node)
    return exact or syntax.Comparison((left[0], right[0]), (op,), span=span)


def _exactly(reader: Reader, op: str, left: Typed, right: Typed, node: ast.AST) -> syntax.Expr | None:
    """What compares as NumPy does where the comparison in the operands' common type would not: whole
    numbers compare as what they are, and of others the common type must see what CPython's does, or the
    comparison is refused. None where the plain comparison does."""
    one, other = left[1], right[1]
    both = common(one, other)
    if one is None or other is None or not (one.dtype.is_integer and other.dtype.is_integer):
        if (both is None or not both.dtype.is_integer) and not compares_alike(op, one, other):
            pyfunc_expr.combine(reader, "-", left, right, node)  # comparing rounds as subtracting does
        return None
    assert both is not None
    span = reader.python.span(node)
    known = _decided(op, one, other)
    if known is not None:
        return syntax.Number(known, span=span)
    if DType.U64 in (one.dtype, other.dtype) and (one.dtype.is_signed or other.dtype.is_signed):  # no type holds both
        number = one if one.dtype.is_signed else other
        if number.weak and holds(DType.U64, number):
            return None
        return _beside_u64(op, left[0], right[0], one.dtype.is_signed, span)
    if holds(both.dtype, one) and holds(both.dtype, other):
        return None
    exprs = tuple(syntax.Call("i64", (expr,), span=span) for expr, _ in (left, right))
    return syntax.Comparison(exprs, (op,), span=span)


def _beside_u64(op: str, left: syntax.Expr, right: syntax.Expr, is_left: bool, span: Span) -> syntax.Expr:
    """The comparison of a u64 with a signed number (the left one, if `is_left`): below 0, or as a u64."""
    number = left if is_left else right
    below = syntax.Comparison(
        (syntax.Call("i64", (number,), span=span), syntax.Number(0, span=span)), ("<",), span=span
    )
    as_u64 = syntax.Call("u64", (number,), span=span)
    plain = syntax.Comparison((as_u64, right) if is_left else (left, as_u64), (op,), span=span)
    if OPERATIONS[op](-1, 0) if is_left else OPERATIONS[op](0, -1):
        return syntax.Binary("or", below, plain, span=span)
    return syntax.Binary("and", syntax.Unary("not", below, span=span), plain, span=span)


def _decided(op: str, left: Kind, right: Kind) -> bool | None:
    """What an integer of NumPy's compares to beside a Python number outside its type: NumPy compares them
    exactly. None where it depends on the integer."""
    for typed, number in ((left, right), (right, left)):
        known, dtype = number.known, typed.dtype
        if not known or number.dtype is not DType.I64 or not number.weak or typed.weak or typed.among:
            continue
        outside = not any(in_range(dtype, one) for one in known)
        found = {OPERATIONS[op](*((0, one) if typed is left else (one, 0))) for one in known}
        if outside and len(found) == 1:
            return found.pop()
    return None


def _without_in(reader: Reader, left: ast.expr, right: ast.expr, inside: bool) -> str:
    """What says the same as `left in right`."""
    text = reader.python.text
    match right:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts) if parts:
            tests = [f"{text(left)} {'==' if inside else '!='} {text(part)}" for part in parts]
            return f"compare: `{(' or ' if inside else ' and ').join(tests)}`"
        case ast.Call(func=ast.Name(id="range"), args=[end]) if inside:
            return f"compare: `0 <= {text(left)} < {text(end)}`"
        case ast.Call(func=ast.Name(id="range"), args=[first, end]) if inside:
            return f"compare: `{text(first)} <= {text(left)} < {text(end)}`"
        case _:
            return "compare with each element in a loop"


__all__ = ["COMPARISONS", "compare", "read_comparison"]
