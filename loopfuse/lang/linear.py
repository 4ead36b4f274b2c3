"""Index expressions as linear forms: what is compared, taken apart, and put into a normal form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from loopfuse.base.dtypes import DType
from loopfuse.lang.nodes import (
    Binary,
    Cast,
    Compare,
    Const,
    Expr,
    Iter,
    Load,
    Symbol,
    Unary,
    integer,
)
from loopfuse.lang.walk import children, conjuncts, iterators, with_children

LARGEST = 1 << 40
"""The largest number of an index expression: sums and multiples of a few, which are taken to be
exact, then fit 64 bits."""

Linear = tuple[int, tuple[tuple[Expr, int], ...]]
"""A constant, and a coefficient for each atom, atoms in a fixed order. An atom is an Iter, a
Symbol, or a `//`, `%`, `min`, `max` or the like whose operands are themselves normalised."""


def linear_form(expr: Expr) -> Linear:
    """`expr` (an integer) as a linear form; equal forms mean equal values.

    Integers are unbounded here, as index arithmetic is proved never to wrap.
    """
    terms: dict[Expr, int] = {}
    constant = _gather(expr, 1, terms)
    kept = [term for term in terms.items() if term[1]]
    if len(kept) > 1:
        kept.sort(key=_place)
    return constant, tuple(kept)


def _place(term: tuple[Expr, int]) -> tuple[str, str]:
    """The order of atoms: of classes, then of what tells their members apart."""
    atom = term[0]
    return type(atom).__name__, atom.name if isinstance(atom, Iter | Symbol) else repr(atom)


def same_index(left: Expr, right: Expr) -> bool:
    """Are the two index expressions equal for all values of their iterators and symbols?
    (False only means: not seen to be.)"""
    return left == right or linear_form(left) == linear_form(right)


def constant_value(expr: Expr) -> int | None:
    """The value of an index expression without atoms, else None."""
    if isinstance(expr, Iter | Symbol):
        return None
    if isinstance(expr, Const) and not isinstance(expr.value, float):
        return int(expr.value)
    constant, terms = linear_form(expr)
    return None if terms else constant


def ends_of(bound: Expr, op: str) -> list[Expr]:
    """The values of which a loop's bound is the least (`op` is min) or the greatest (max)."""
    match tidy(bound):
        case Binary(op=found, left=left, right=right) if found == op:
            return [*ends_of(left, op), *ends_of(right, op)]
        case Binary(op="add", left=left, right=Const() as more):
            return [tidy(each + more) for each in (ends_of(left, op) if isinstance(left, Binary) and left.op == op else [left])]
        case other:
            return [other]


def most_between(lower: Expr, upper: Expr) -> int | None:
    """The most iterations from `lower` to before `upper`, whatever the sizes; None where that is not seen."""
    pairs = ((first, last) for first in ends_of(lower, "max") for last in ends_of(upper, "min"))
    known = [count for first, last in pairs if (count := constant_value(last - first)) is not None]
    return max(min(known), 0) if known else None


def lies_within(
    inner: tuple[Expr, Expr], outer: tuple[Expr, Expr], room: tuple[int, int] = (0, 0)
) -> bool:
    """Is the range `inner` (exclusive end) seen to lie in `outer`, whatever the sizes, with so many
    numbers before it and behind?"""
    pairs = ((inner[0], outer[0]), (outer[1], inner[1]))
    ahead = [constant_value(Binary("sub", large, small, DType.I64)) for large, small in pairs]
    return all(n is not None and n >= wanted for n, wanted in zip(ahead, room, strict=True))


def linear(expr: Expr) -> dict[str, int] | None:
    """`expr` as coefficients by name ("" for the constant), or None if it is not linear in iterators and
    symbols, with numbers up to LARGEST."""
    found = _named(expr)
    return None if found is None else found[0]


def _named(expr: Expr) -> tuple[dict[str, int], set[str]] | None:
    """`linear`, and which of the names are iterators'."""
    terms: dict[Expr, int] = {}
    found = {"": _gather(expr, 1, terms)}
    names: set[str] = set()
    for atom, coefficient in terms.items():
        if isinstance(atom, Iter):
            names.add(atom.name)
        elif not isinstance(atom, Symbol) or not atom.dtype.is_integer:
            return None
        found[atom.name] = found.get(atom.name, 0) + coefficient
    return None if any(abs(each) > LARGEST for each in found.values()) else (found, names)


def are_neighbours(index: tuple[Expr, ...], var: str) -> bool:
    """Are the elements at neighbouring values of a variable neighbours in memory, or one and the same?"""
    if not any(var in iterators(part) for part in index):
        return True
    terms = linear(index[-1])
    return terms is not None and abs(terms.get(var, 0)) == 1 and not any(var in iterators(part) for part in index[:-1])


def from_linear(terms: Mapping[str, int], symbols: frozenset[str]) -> Expr:
    """Coefficients by name ("" for the constant) as an expression, positive terms first."""
    out: Expr | None = None
    for name, factor in sorted(terms.items(), key=lambda term: (term[1] < 0, term[0])):
        if not name or not factor:
            continue
        leaf: Expr = Symbol(name, DType.I64) if name in symbols else Iter(name)
        times = abs(factor)
        term = leaf if times == 1 else Binary("mul", leaf, integer(times), DType.I64)
        if factor > 0:
            out = term if out is None else Binary("add", out, term, DType.I64)
        else:
            out = Binary("sub", integer(0) if out is None else out, term, DType.I64)
    constant = terms.get("", 0)
    return integer(constant) if out is None else out + constant if constant else out


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


def tidy(expr: Expr) -> Expr:
    """Linear index subexpressions in a normal form, so that equal instances look equal. (Data is no part
    of them, even where it is multiplied by 0: what is read stays.)"""
    if isinstance(expr, Const | Iter | Symbol):
        return expr
    if isinstance(expr, Load):
        return Load(
            expr.array,
            tuple(tidy(each) for each in expr.index),
            expr.dtype,
            expr.mode,
            expr.swapped,
            span=expr.span,
        )
    if isinstance(expr, Binary) and expr.dtype is DType.I64 and expr.op in ("add", "sub", "mul"):
        found = _named(expr)
        if found is not None:
            terms, names = found
            return from_linear(terms, frozenset(terms) - names - {""})
    below = children(expr)
    return with_children(expr, tuple(tidy(child) for child in below)) if below else expr


def coefficients(expr: Expr) -> tuple[int, dict[str, int], bool]:
    """The constant, the coefficient of each Iter and Symbol by name, and whether that is all."""
    constant, terms = linear_form(expr)
    named = {atom.name: c for atom, c in terms if isinstance(atom, Iter | Symbol)}
    return constant, named, len(named) == len(terms)


def interval(expr: Expr, ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int] | None:
    """Numbers that an index expression is never less than, and never more than, for iterators in
    `ranges` (first and last value); None where it has others."""
    constant, terms = linear_form(expr)
    return _ends(constant, terms, ranges)


def _ends(
    constant: int, terms: Iterable[tuple[Expr, int]], ranges: Mapping[str, tuple[int, int]]
) -> tuple[int, int] | None:
    """`interval` of a constant and so many times each atom."""
    low = high = constant
    for atom, coefficient in terms:
        match atom:
            case Iter(name=name) if name in ranges:
                ends = ranges[name]
            case Binary(op="mod", right=Const(value=int(size))) if size > 0:
                ends = (0, size - 1)
            case _:
                return None
        low += min(coefficient * end for end in ends)
        high += max(coefficient * end for end in ends)
    return low, high


def implies(condition: Expr, other: Expr, ranges: Mapping[str, tuple[int, int]]) -> bool:
    """Is `other` seen to hold wherever `condition` does, for iterators in `ranges` (first and last value)?
    Both compare integers, or join such comparisons by `and`."""
    known: list[Linear] | None = None
    for part in conjuncts(other):
        distance = _distance(part)
        if distance is None:
            return False
        wanted = linear_form(distance)
        if _is_never_negative(wanted, (0, ()), ranges):
            continue
        if known is None:
            known = [linear_form(each) for one in conjuncts(condition) if (each := _distance(one)) is not None]
        if not any(_is_never_negative(wanted, each, ranges) for each in known):
            return False
    return True


def _is_never_negative(one: Linear, less: Linear, ranges: Mapping[str, tuple[int, int]]) -> bool:
    """Is the one form less the other seen to be 0 or more, for iterators in `ranges`?"""
    terms = dict(one[1])
    for atom, coefficient in less[1]:
        terms[atom] = terms.get(atom, 0) - coefficient
    ends = _ends(one[0] - less[0], [term for term in terms.items() if term[1]], ranges)
    return ends is not None and ends[0] >= 0


def _distance(comparison: Expr) -> Expr | None:
    """What is at least 0 just where the comparison holds; None where it is no inequality of integers."""
    match comparison:
        case Compare(op="le", left=less, right=more) | Compare(op="ge", left=more, right=less):
            extra = 0
        case Compare(op="lt", left=less, right=more) | Compare(op="gt", left=more, right=less):
            extra = 1
        case _:
            return None
    if not (less.dtype.is_integer and more.dtype.is_integer):
        return None
    return Binary("sub", Binary("sub", more, less, DType.I64), Const(extra, DType.I64), DType.I64)


def _gather(expr: Expr, factor: int, terms: dict[Expr, int]) -> int:
    """Adds `factor` times the coefficients of the atoms of `expr` to `terms`; that times its constant.

    Sums and products are those of i64 alone, which index arithmetic is done in: those of narrower types wrap,
    and so may those of numbers that no index expression has.
    """
    if isinstance(expr, Iter | Symbol):
        terms[expr] = terms.get(expr, 0) + factor
        return 0
    if isinstance(expr, Binary) and expr.dtype is DType.I64:
        op, left, right = expr.op, expr.left, expr.right
        if op == "add":
            return _gather(left, factor, terms) + _gather(right, factor, terms)
        if op == "sub":
            return _gather(left, factor, terms) + _gather(right, -factor, terms)
        if op == "mul":
            for one, other in ((left, right), (right, left)):
                number = constant_value(one)
                if number is not None:
                    if not isinstance(one, Const):
                        _gather(one, 0, terms)  # what adds up to nothing is read all the same
                    return _gather(other, factor * number, terms)
    elif isinstance(expr, Const):
        if not isinstance(expr.value, float):
            return factor * int(expr.value)
    elif isinstance(expr, Unary):
        if expr.op == "neg" and expr.dtype is DType.I64:
            return _gather(expr.operand, -factor, terms)
    elif isinstance(expr, Cast) and is_plain_cast(expr.operand.dtype, expr.dtype):
        return _gather(expr.operand, factor, terms)
    atom = _normalised(expr)
    terms[atom] = terms.get(atom, 0) + factor
    return 0


def _normalised(expr: Expr) -> Expr:
    """`expr` with each integer operand rebuilt from its linear form."""
    below = children(expr)
    if not below:
        return expr
    return with_children(expr, tuple(_normalised_operand(child) for child in below))


def _normalised_operand(expr: Expr) -> Expr:
    """Sums of narrow integers wrap: a linear form would forget at which number."""
    if expr.dtype is DType.I64:
        return _rebuilt(expr)
    return _normalised(expr) if expr.dtype.is_integer else expr


def _rebuilt(expr: Expr) -> Expr:
    constant, terms = linear_form(expr)
    out: Expr = integer(constant)
    for atom, coefficient in terms:
        out = out + coefficient * atom
    return out


def keeps_value(operand: DType, dtype: DType) -> bool:
    """Does a conversion from one integer type to another never change the number? (A u64 that
    becomes an index is taken to be small enough.)"""
    if dtype is DType.I64:
        return True
    if operand.is_signed == dtype.is_signed:
        return operand.bits <= dtype.bits
    return operand.is_unsigned and operand.bits < dtype.bits


def is_plain_cast(operand: DType, dtype: DType) -> bool:
    """Does a conversion take an integer to an integer, and never change it?"""
    return dtype.is_integer and operand.is_integer and keeps_value(operand, dtype)
