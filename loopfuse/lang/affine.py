"""Integer index expressions: building, evaluating and printing them.

An index expression is a core `Expr` of dtype i64 over iterators and symbols with `+ - *`, `//`
and `%`, `min` and `max`: a bound, a subscript, an extent, a parity or a formula of a report.
`to_index` (in `lang.check.indices`) is what makes one from a checked expression. The range of a loop, as
isl finds it, may besides have a Select on such expressions.
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
)
from loopfuse.lang.semantics import COMPARE

LARGEST = 1 << 40
"""The largest number of an index expression: sums and multiples of a few, which are taken to be
exact, then fit 64 bits."""

# --------------------------------------------------------------------------------- building


def integer(value: int) -> Const:
    """The i64 constant `value`."""
    return Const(value, DType.I64)


def combine(op: str, left: Expr, right: Expr) -> Expr:
    """`left op right` as an i64, with constants folded and neutral operands dropped."""
    if isinstance(right, Const):
        if isinstance(left, Const):
            return integer(_apply(op, int(left.value), int(right.value)))
        value = right.value
        if op == "add" or op == "sub":
            if value == 0:
                return left
            if value < 0:
                return Binary("sub" if op == "add" else "add", left, integer(-int(value)), DType.I64)
        elif op == "mul" or op == "floordiv":
            if value == 1:
                return left
            if value == 0 and op == "mul":
                return integer(0)
        elif op == "mod" and value == 1:
            return integer(0)
    elif isinstance(left, Const):
        if op == "add" and left.value == 0:
            return right
        if op == "mul":
            if left.value == 1:
                return right
            if left.value == 0:
                return integer(0)
    return Binary(op, left, right, DType.I64, span=left.span)


def trip_count(lower: Expr, upper: Expr, step: int) -> Expr:
    """How many values `range(lower, upper, step)` has, as an index expression."""
    distance = combine("sub", upper, lower) if step > 0 else combine("sub", lower, upper)
    size = abs(step)
    rounded = combine("floordiv", combine("add", distance, integer(size - 1)), integer(size))
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


# -------------------------------------------------------------------------------- evaluating


def _apply(op: str, left: int, right: int) -> int:
    match op:
        case "add":
            return left + right
        case "sub":
            return left - right
        case "mul":
            return left * right
        case "floordiv":
            return left // right if right else 0
        case "mod":
            return left % right if right else 0
        case "min":
            return min(left, right)
        case "max":
            return max(left, right)
        case _:
            raise ValueError(f"`{op}` is not an operation of index expressions")


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
            return _apply(op, evaluate_index(left, values), evaluate_index(right, values))
        case Select(condition=condition, then=then, otherwise=otherwise):
            return evaluate_index(then if _holds(condition, values) else otherwise, values)
        case _:
            raise ValueError(f"{type(expr).__name__} is not part of index expressions")


COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
"""How a Compare's operation is written."""


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
            return COMPARE[op](evaluate_index(left, values), evaluate_index(right, values))
        case _:
            raise ValueError(f"{type(condition).__name__} is no condition on index expressions")


# ---------------------------------------------------------------------------------- printing

Polynomial = dict[tuple[str, ...], int]
"""Coefficients by monomial; a monomial is the sorted tuple of its factors' texts."""


def to_python(expr: Expr) -> str:
    """`expr` as a Python expression, in a normal form: `4*H*W`, `N - 2`, `(N + 1)//2`.

    Products and sums are multiplied out and like terms gathered; names lose the suffix that
    makes them unique (`i.1` prints `i`). What cannot be a formula raises ValueError.
    """
    return _print_polynomial(_polynomial(expr))


def _polynomial(expr: Expr) -> Polynomial:
    match expr:
        case Const(value=value):
            return {(): int(value)} if value else {}
        case Iter(name=name) | Symbol(name=name):
            return {(name.split(".")[0],): 1}
        case Cast(operand=operand):
            return _polynomial(operand)
        case Unary(op="neg", operand=operand):
            return _scale(_polynomial(operand), -1)
        case Call(function="abs", arguments=(operand,)):
            return {(f"abs({to_python(operand)})",): 1}
        case Binary(op="add", left=left, right=right):
            return _sum(_polynomial(left), _polynomial(right))
        case Binary(op="sub", left=left, right=right):
            return _sum(_polynomial(left), _scale(_polynomial(right), -1))
        case Binary(op="mul", left=left, right=right):
            return _product(_polynomial(left), _polynomial(right))
        case Binary(op="floordiv" | "mod" as op, left=left, right=right):
            return _division(op, _polynomial(left), _polynomial(right))
        case Binary(op="min" | "max" as op):
            texts = list(dict.fromkeys(to_python(part) for part in _operands(op, expr)))
            numbers = [int(text) for text in texts if text.lstrip("-").isdecimal()]
            if len(numbers) > 1:
                best = str(min(numbers) if op == "min" else max(numbers))
                texts = [t for t in texts if not t.lstrip("-").isdecimal()] + [best]
            if len(texts) == 1 and texts[0].lstrip("-").isdecimal():
                return {(): int(texts[0])}
            return {(texts[0] if len(texts) == 1 else f"{op}({', '.join(texts)})",): 1}
        case Select(condition=condition, then=then, otherwise=otherwise):
            arms = f"{to_python(then)} if {_print_condition(condition)} else {to_python(otherwise)}"
            return {(f"({arms})",): 1}
        case _:
            raise ValueError(f"{type(expr).__name__} is not part of index expressions")


def _print_condition(condition: Expr) -> str:
    match condition:
        case Const(value=value):
            return str(bool(value))
        case Binary(op="and" | "or" as op, left=left, right=right):
            return f"({_print_condition(left)} {op} {_print_condition(right)})"
        case Unary(op="not", operand=operand):
            return f"(not {_print_condition(operand)})"
        case Compare(op=op, left=left, right=right):
            return f"{to_python(left)} {COMPARISONS[op]} {to_python(right)}"
        case _:
            raise ValueError(f"{type(condition).__name__} is no condition on index expressions")


def _operands(op: str, expr: Expr) -> list[Expr]:
    if isinstance(expr, Binary) and expr.op == op:
        return _operands(op, expr.left) + _operands(op, expr.right)
    return [expr]


def _division(op: str, left: Polynomial, right: Polynomial) -> Polynomial:
    divisor = right.get((), 0) if set(right) <= {()} else None
    if divisor and set(left) <= {()}:
        value = left.get((), 0)
        return _scale({(): 1}, value // divisor if op == "floordiv" else value % divisor)
    if divisor and all(coefficient % divisor == 0 for coefficient in left.values()):
        return {m: c // divisor for m, c in left.items()} if op == "floordiv" else {}
    sign = "//" if op == "floordiv" else " % "
    return {(f"{_factor(left)}{sign}{_factor(right)}",): 1}


def _factor(terms: Polynomial) -> str:
    """The text of `terms` as an operand of `//` or `%`."""
    text = _print_polynomial(terms)
    plain = text.isidentifier() or text.isdecimal()
    return text if plain or (text.startswith(("min(", "max(")) and len(terms) == 1) else f"({text})"


def _sum(left: Polynomial, right: Polynomial) -> Polynomial:
    out = dict(left)
    for monomial, coefficient in right.items():
        out[monomial] = out.get(monomial, 0) + coefficient
    return {monomial: coefficient for monomial, coefficient in out.items() if coefficient}


def _scale(terms: Polynomial, factor: int) -> Polynomial:
    return {m: c * factor for m, c in terms.items()} if factor else {}


def _product(left: Polynomial, right: Polynomial) -> Polynomial:
    out: Polynomial = {}
    for first, a in left.items():
        for second, b in right.items():
            out = _sum(out, {tuple(sorted(first + second)): a * b})
    return out


def _print_polynomial(terms: Polynomial) -> str:
    if not terms:
        return "0"
    # Terms in order of appearance, but a positive one first and the constant last.
    order = sorted(terms, key=lambda monomial: monomial == ())
    if terms[order[0]] < 0:
        positive = next((monomial for monomial in order if terms[monomial] > 0), None)
        if positive is not None:
            order.remove(positive)
            order.insert(0, positive)
    text = ""
    for monomial in order:
        coefficient = terms[monomial]
        # `//` and `%` bind as `*`, and looser than a leading minus.
        bare = len(monomial) == 1 and (coefficient == 1 or (coefficient == -1 and text))
        factors = [f if bare or not (" % " in f or "//" in f) else f"({f})" for f in monomial]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        sign = ("-" if coefficient < 0 else "") if not text else " - " if coefficient < 0 else " + "
        text += sign + "*".join(factors)
    return text


# ---------------------------------------------------------------------------- linear forms


def keeps_value(operand: DType, dtype: DType) -> bool:
    """Does a conversion from one integer type to another never change the number? (A u64 that
    becomes an index is taken to be small enough.)"""
    if dtype is DType.I64:
        return True
    if operand.is_signed == dtype.is_signed:
        return operand.bits <= dtype.bits
    return operand.is_unsigned and operand.bits < dtype.bits


def linear(expr: Expr) -> dict[str, int] | None:
    """`expr` as coefficients by name ("" for the constant), or None if it is not linear.

    Sums and products are those of i64 alone, which index arithmetic is done in: those of
    narrower types wrap, and so may those of numbers that no index expression has.
    """
    found: dict[str, int] = {}
    if not _gather(expr, 1, found) or any(abs(coefficient) > LARGEST for coefficient in found.values()):
        return None
    return found


def _gather(expr: Expr, factor: int, found: dict[str, int]) -> bool:
    """Adds `factor` times the coefficients of `expr`; False where it is not linear."""
    match expr:
        case Iter(name=name):
            found[name] = found.get(name, 0) + factor
            return True
        case Const(value=value, dtype=dtype):
            if dtype is not DType.I64 and not dtype.is_integer:
                return False
            found[""] = found.get("", 0) + factor * int(value)
            return True
        case Binary(op=op, left=left, right=right, dtype=DType.I64):
            if op == "add":
                return _gather(left, factor, found) and _gather(right, factor, found)
            if op == "sub":
                return _gather(left, factor, found) and _gather(right, -factor, found)
            return op == "mul" and _gather_product(left, right, factor, found)
        case Symbol(name=name, dtype=dtype):
            if not dtype.is_integer:
                return False
            found[name] = found.get(name, 0) + factor
            return True
        case Unary(op="neg", operand=operand, dtype=DType.I64):
            return _gather(operand, -factor, found)
        case Cast(operand=operand, dtype=dtype) if is_plain_cast(operand.dtype, dtype):
            return _gather(operand, factor, found)
        case _:
            return False


def _gather_product(left: Expr, right: Expr, factor: int, found: dict[str, int]) -> bool:
    """The same of a product, one side of which must be a number."""
    first, second = linear(left), linear(right)
    if first is None or second is None:
        return False
    if not any(c for name, c in first.items() if name):
        first, second = second, first
    elif any(c for name, c in second.items() if name):
        return False
    factor *= second.get("", 0)
    for name, coefficient in first.items():
        found[name] = found.get(name, 0) + factor * coefficient
    return True


def is_plain_cast(operand: DType, dtype: DType) -> bool:
    """Does a conversion take an integer to an integer, and never change it?"""
    return dtype.is_integer and operand.is_integer and keeps_value(operand, dtype)
