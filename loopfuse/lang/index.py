"""Index expressions: what bounds, subscripts, extents, parities and formulas of reports are made of.

An index expression is a core `Expr` of dtype i64 over iterators and symbols with `+ - *`, `//` and `%`,
`min` and `max`. It is built by Python's operators (`nodes.Operand`) and what stands here; `to_index` (in
`lang.check.indices`) makes one from a checked expression. The range of a loop, as isl finds it, may besides
have a Select on such expressions. What two of them have in common is asked of their linear forms
(`lang.linear`); how they are printed stands in `lang.index_text`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

from loopfuse.base.dtypes import DType
from loopfuse.lang.nodes import (
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Iter,
    Select,
    Symbol,
    Unary,
    apply_index,
    combine,
    compare,
    integer,
)

TRUE = Const(True, DType.BOOL)
FALSE = Const(False, DType.BOOL)

# --------------------------------------------------------------------------------- building


def trip_count(lower: Expr, upper: Expr, step: int) -> Expr:
    """How many values `range(lower, upper, step)` has, as an index expression."""
    distance = upper - lower if step > 0 else lower - upper
    size = abs(step)
    rounded = (distance + (size - 1)) // size
    return combine("max", integer(0), rounded)


def checked(subscript: Expr, extent: Expr) -> Call:
    """`subscript` as one that is checked against `extent` when it runs."""
    return Call("inside", (subscript, extent), DType.I64, span=subscript.span)


def is_checked(subscript: Expr) -> TypeGuard[Call]:
    """Is the subscript checked when it runs?"""
    return isinstance(subscript, Call) and subscript.function == "inside"


def is_affine(expr: Expr) -> bool:
    """Is `expr` an index expression: iterators, symbols and constants under index operations?"""
    match expr:
        case Const() | Iter() | Symbol():
            return expr.dtype.is_integer
        case Cast(operand=operand) | Unary(op="neg", operand=operand):
            return expr.dtype.is_integer and is_affine(operand)
        case Call(function="abs", arguments=(operand,)):
            return is_affine(operand)
        case Binary(op="add" | "sub" | "min" | "max", left=left, right=right):
            return is_affine(left) and is_affine(right)
        case Binary(op="mul", left=left, right=right):
            constant = isinstance(left, Const) or isinstance(right, Const)
            return constant and is_affine(left) and is_affine(right)
        case Binary(op="floordiv" | "mod", left=left, right=right):
            return is_affine(left) and is_affine(right)
        case _:
            return False


def is_comparison(condition: Expr) -> bool:
    """Does the condition compare index expressions alone, no data and no flags?"""
    match condition:
        case Const():
            return True
        case Unary(op="not" | "invert", operand=operand):
            return is_comparison(operand)
        case Binary(op="and" | "or" | "xor", left=left, right=right):
            return is_comparison(left) and is_comparison(right)
        case Compare(left=left, right=right) if left.dtype is DType.BOOL:
            return is_comparison(left) and is_comparison(right)
        case Compare(left=left, right=right):
            return is_affine(left) and is_affine(right)
        case _:
            return False


def conjoin(*conditions: Expr) -> Expr:
    """The conjunction of conditions; true ones are dropped."""
    out: Expr = TRUE
    for condition in conditions:
        if condition == TRUE:
            continue
        out = condition if out == TRUE else Binary("and", out, condition, DType.BOOL)
    return out


def negate(condition: Expr) -> Expr:
    """`not condition`."""
    return Unary("not", condition, DType.BOOL)


def in_range(value: Expr, lower: Expr, upper: Expr) -> list[Expr]:
    """lower <= value < upper."""
    return [value >= lower, value < upper]


def ceil_div(value: Expr, divisor: int) -> Expr:
    """`ceil(value / divisor)`."""
    return (value + (divisor - 1)) // divisor


def least(values: list[Expr]) -> Expr:
    """The smallest of `values`, duplicates dropped."""
    return _fold("min", values)


def greatest(values: list[Expr]) -> Expr:
    """The largest of `values`, duplicates dropped."""
    return _fold("max", values)


def _fold(op: str, values: list[Expr]) -> Expr:
    unique: list[Expr] = []
    for value in values:
        if value not in unique:
            unique.append(value)
    out = unique[0]
    for value in unique[1:]:
        out = combine(op, out, value)
    return out


# -------------------------------------------------------------------------------- evaluating


def evaluate_index(expr: Expr, values: Mapping[str, int]) -> int:
    """The value of an index expression; `values` gives its iterators and symbols by name.

    Exact Python integers (no wrap). KeyError for a missing name, ValueError for an expression
    that is no index expression.
    """
    match expr:
        case Const(value=value):
            return int(value)
        case Iter(name=name) | Symbol(name=name):
            return int(values[name])
        case Cast(operand=operand):
            return evaluate_index(operand, values)
        case Unary(op="neg", operand=operand):
            return -evaluate_index(operand, values)
        case Call(function="abs", arguments=(operand,)):
            return abs(evaluate_index(operand, values))
        case Binary(op=op, left=left, right=right):
            return apply_index(op, evaluate_index(left, values), evaluate_index(right, values))
        case Select(condition=condition, then=then, otherwise=otherwise):
            return evaluate_index(then if _holds(condition, values) else otherwise, values)
        case _:
            raise ValueError(f"{type(expr).__name__} is not part of index expressions")


def _holds(condition: Expr, values: Mapping[str, int]) -> bool:
    match condition:
        case Const(value=value):
            return bool(value)
        case Binary(op="and", left=left, right=right):
            return _holds(left, values) and _holds(right, values)
        case Binary(op="or", left=left, right=right):
            return _holds(left, values) or _holds(right, values)
        case Unary(op="not", operand=operand):
            return not _holds(operand, values)
        case Compare(op=op, left=left, right=right):
            return compare(op, evaluate_index(left, values), evaluate_index(right, values)) == TRUE
        case _:
            raise ValueError(f"{type(condition).__name__} is no condition on index expressions")
