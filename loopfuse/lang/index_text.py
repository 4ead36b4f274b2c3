"""Index expressions as Python text in a normal form: `4*H*W`, `N - 2`, `(N + 1)//2`."""

from __future__ import annotations

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

COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
"""How a Compare's operation is written."""

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
