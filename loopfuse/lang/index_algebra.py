"""Small algebra on core index expressions that planning needs."""

from __future__ import annotations

from collections.abc import Mapping

from loopfuse.base.dtypes import DType
from loopfuse.lang.affine import combine, integer, linear
from loopfuse.lang.nodes import Binary, Compare, Const, Expr, Iter, Symbol, Unary
from loopfuse.lang.semantics import COMPARE
from loopfuse.lang.walk import iterators

TRUE = Const(True, DType.BOOL)


def from_linear(terms: Mapping[str, int], symbols: frozenset[str]) -> Expr:
    """Coefficients by name ("" for the constant) as an expression, positive terms first."""
    out: Expr = integer(0)
    for name, factor in sorted(terms.items(), key=lambda term: (term[1] < 0, term[0])):
        if not name or not factor:
            continue
        leaf: Expr = Symbol(name, DType.I64) if name in symbols else Iter(name)
        term = combine("mul", leaf, integer(abs(factor)))
        out = combine("add" if factor > 0 else "sub", out, term)
    return combine("add", out, integer(terms.get("", 0)))


def split_iterator(expr: Expr) -> tuple[str | None, Expr] | None:
    """`expr` as one iterator plus an iterator-free offset; (None, expr) without iterator; None
    for anything else."""
    used = iterators(expr)
    if not used:
        return None, expr
    terms = linear(expr)
    if terms is None or len(used) != 1:
        return None
    (name,) = used
    if terms.get(name) != 1:
        return None
    symbols = frozenset(terms) - {name, ""}
    return name, from_linear({n: c for n, c in terms.items() if n != name}, symbols)


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


def compare(op: str, left: Expr, right: Expr) -> Expr:
    """`left op right` on index expressions, constants folded."""
    if isinstance(left, Const) and isinstance(right, Const):
        return Const(COMPARE[op](int(left.value), int(right.value)), DType.BOOL)
    return Compare(op, left, right)


def in_range(value: Expr, lower: Expr, upper: Expr) -> list[Expr]:
    """lower <= value < upper."""
    return [compare("ge", value, lower), compare("lt", value, upper)]


def ceil_div(value: Expr, divisor: int) -> Expr:
    """`ceil(value / divisor)`."""
    return combine("floordiv", combine("add", value, integer(divisor - 1)), integer(divisor))


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
