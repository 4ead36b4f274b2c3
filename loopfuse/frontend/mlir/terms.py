"""Surface expressions with a type: what an MLIR value is in the language of loops.

MLIR's integers have no sign; the language's have. A `Term` says which type its expression has, and
`coerced` gives the same bits under another sign where an operation asks for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSet,
    AffineSymExpr,
)

from loopfuse.base.diagnostics import NOWHERE, Span
from loopfuse.base.dtypes import DType
from loopfuse.lang.surface import syntax
from loopfuse.lang.surface.syntax import (
    Binary,
    Call,
    Comparison,
    Conditional,
    Expr,
    Name,
    Number,
    Unary,
)

UNSIGNED = {DType.I8: DType.U8, DType.I16: DType.U16, DType.I32: DType.U32, DType.I64: DType.U64}
SIGNED = {after: before for before, after in UNSIGNED.items()}

LARGEST = 2_000
"""Nodes an expression may have before its parts become `let`s."""


@dataclass(frozen=True, slots=True)
class Term:
    """`expr` of type `dtype`. `is_index`: an MLIR `index` (an i64 that takes part in subscripts).
    `reads`: the arrays and scalars it loads. `size`: how many nodes it has. `origin`: where it
    is an integer's conversion, that integer: its sign alone says how it is extended."""

    expr: Expr
    dtype: DType
    is_index: bool = False
    reads: frozenset[str] = field(default_factory=frozenset[str])
    size: int = 1
    origin: Term | None = None

    @property
    def constant(self) -> int | float | bool | None:
        """The number it is, if it is one."""
        return number_of(self.expr)


def number_of(expr: Expr) -> int | float | bool | None:
    """The value of a literal, a negated one, or one under a cast to its own type."""
    match expr:
        case Number(value=value):
            return value
        case Unary(op="-", operand=Number(value=value)):
            return -value
        case Call(function=name, arguments=(inner,)) if name in DType._value2member_map_:
            return number_of(inner)
        case _:
            return None


def number(value: int | float | bool, dtype: DType, span: Span = NOWHERE) -> Expr:
    """A literal of `dtype`; i64, f64 and bool need no cast."""
    if dtype is DType.BOOL:
        return Number(bool(value), "true" if value else "false", span=span)
    negative = math.copysign(1.0, value) < 0 if isinstance(value, float) else value < 0
    size = abs(value)
    text = repr(size)
    if isinstance(size, float) and not any(sign in text for sign in ".n"):
        text = text.replace("e", ".0e") if "e" in text else text + ".0"
    plain: Expr = Number(size, text, span=span)
    if negative and size == size:
        plain = Unary("-", plain, span=span)
    return plain if dtype in (DType.I64, DType.F64) else Call(dtype.value, (plain,), span=span)


def join(*terms: Term) -> tuple[frozenset[str], int]:
    """What terms read together, and their size."""
    reads: frozenset[str] = frozenset()
    for term in terms:
        reads |= term.reads
    return reads, sum(term.size for term in terms) + 1


def coerced(term: Term, dtype: DType) -> Term:
    """The same bits as `dtype`, which has the same width."""
    if term.dtype is dtype or (term.is_index and dtype is DType.I64):
        return term
    known = term.constant
    if known is not None and not isinstance(known, float):
        bits = dtype.bits
        value = int(known) & ((1 << bits) - 1)
        if dtype.is_signed and value >= 1 << (bits - 1):
            value -= 1 << bits
        return Term(number(value, dtype, term.expr.span), dtype)
    source = term.origin or term
    reads, size = join(source)
    if source.dtype is dtype:
        return source
    return Term(
        Call(dtype.value, (source.expr,), span=term.expr.span), dtype, False, reads, size, source
    )


# ------------------------------------------------------------------------ affine expressions


@dataclass(frozen=True, slots=True)
class Linear:
    """`sum(coefficient * atom) + constant`, atoms in the order they came."""

    terms: tuple[tuple[Expr, int], ...] = ()
    constant: int = 0


def add(left: Linear, right: Linear, factor: int = 1) -> Linear:
    """`left + factor * right`."""
    found = dict(left.terms)
    for atom, coefficient in right.terms:
        found[atom] = found.get(atom, 0) + factor * coefficient
    kept = tuple((atom, value) for atom, value in found.items() if value)
    return Linear(kept, left.constant + factor * right.constant)


def linear_of(expr: Expr) -> Linear:
    """A surface index expression as a sum; what is not one is an atom."""
    match expr:
        case Number(value=int(value)):
            return Linear((), int(value))
        case Unary(op="-", operand=operand):
            return add(Linear(), linear_of(operand), -1)
        case Binary(op="+" | "-" as op, left=left, right=right):
            return add(linear_of(left), linear_of(right), 1 if op == "+" else -1)
        case Binary(op="*", left=left, right=right):
            a, b = linear_of(left), linear_of(right)
            if not a.terms or not b.terms:
                known, other = (a, b) if not a.terms else (b, a)
                return add(Linear(), other, known.constant)
            return Linear(((expr, 1),))
        case _:
            return Linear(((expr, 1),))


def expression_of(sum_: Linear, span: Span = NOWHERE) -> Expr:
    """`2*i - j + 3`: positive terms first."""
    out: Expr | None = None
    ordered = [t for t in sum_.terms if t[1] > 0] + [t for t in sum_.terms if t[1] < 0]
    if sum_.constant > 0 and not any(value > 0 for _, value in sum_.terms):
        out = Number(sum_.constant, str(sum_.constant), span=span)
    for atom, value in ordered:
        size = abs(value)
        part = atom if size == 1 else Binary("*", Number(size, str(size)), atom, span=span)
        if out is None:
            out = part if value > 0 else Unary("-", part, span=span)
        else:
            out = Binary("+" if value > 0 else "-", out, part, span=span)
    if out is None:
        return number(sum_.constant, DType.I64, span)
    if sum_.constant and not (isinstance(out, Number) or _starts_with(out, sum_)):
        size = abs(sum_.constant)
        sign = "+" if sum_.constant > 0 else "-"
        out = Binary(sign, out, Number(size, str(size)), span=span)
    return out


def _starts_with(out: Expr, sum_: Linear) -> bool:
    while isinstance(out, Binary) and out.op in "+-":
        out = out.left
    return isinstance(out, Number) and out.value == sum_.constant


def affine_expression(expr: AffineExpr, operands: list[Expr], dims: int, span: Span) -> Expr:
    """An MLIR affine expression over the values of its dimensions and symbols."""
    return expression_of(_linear(expr, operands, dims, span), span)


def _linear(expr: AffineExpr, operands: list[Expr], dims: int, span: Span) -> Linear:
    match expr:
        case AffineConstantExpr():
            return Linear((), expr.value)
        case AffineDimExpr():
            return linear_of(operands[expr.position])
        case AffineSymExpr():
            return linear_of(operands[dims + expr.position])
        case AffineBinaryOpExpr():
            left = _linear(expr.lhs, operands, dims, span)
            right = _linear(expr.rhs, operands, dims, span)
            match expr.kind:
                case AffineBinaryOpKind.Add:
                    return add(left, right)
                case AffineBinaryOpKind.Mul:
                    if right.terms and left.terms:
                        return Linear(
                            (
                                (
                                    Binary(
                                        "*", expression_of(left), expression_of(right), span=span
                                    ),
                                    1,
                                ),
                            )
                        )
                    known, other = (right, left) if not right.terms else (left, right)
                    return add(Linear(), other, known.constant)
                case (
                    AffineBinaryOpKind.Mod
                    | AffineBinaryOpKind.FloorDiv
                    | AffineBinaryOpKind.CeilDiv
                ):
                    return _divided(expr.kind, left, right, span)
        case _:
            pass
    raise ValueError(f"not an affine expression: {expr}")


def _divided(kind: AffineBinaryOpKind, left: Linear, right: Linear, span: Span) -> Linear:
    """`//` and `%` floor; a ceiling is `-(-a // b)`, or `(a + b - 1) // b` by a constant."""
    if not right.terms and right.constant > 0:
        if right.constant == 1:
            return Linear() if kind is AffineBinaryOpKind.Mod else left
        if kind is AffineBinaryOpKind.CeilDiv:
            left = add(left, Linear((), right.constant - 1))
        if not left.terms:
            value = left.constant
            known = (
                value % right.constant
                if kind is AffineBinaryOpKind.Mod
                else value // right.constant
            )
            return Linear((), known)
    elif kind is AffineBinaryOpKind.CeilDiv:
        left = add(left, add(right, Linear((), -1)))
    op = "%" if kind is AffineBinaryOpKind.Mod else "//"
    return Linear(((Binary(op, expression_of(left), expression_of(right), span=span), 1),))


def map_results(mapping: AffineMap, operands: list[Expr], span: Span) -> list[Expr]:
    """Each result of `mapping` over its operands."""
    return [affine_expression(each, operands, mapping.num_dims, span) for each in mapping.results]


def set_condition(condition: AffineSet, operands: list[Expr], span: Span) -> Expr:
    """`a < b and c <= d and e == f`."""
    out: Expr | None = None
    for constraint in condition.constraints:
        gap = add(
            _linear(constraint.lhs, operands, condition.num_dims, span),
            _linear(constraint.rhs, operands, condition.num_dims, span),
            -1,
        )
        op = {
            AffineConstraintKind.eq: "==",
            AffineConstraintKind.ge: ">=",
            AffineConstraintKind.le: "<=",
        }[constraint.kind]
        part = _comparison(gap, op, span)
        out = part if out is None else Binary("and", out, part, span=span)
    return out if out is not None else Number(True, "true", span=span)


def _comparison(gap: Linear, op: str, span: Span) -> Expr:
    """`gap op 0` with negative terms on the other side: `i < n`, not `n - i - 1 >= 0`."""
    if op == "<=":
        gap, op = add(Linear(), gap, -1), ">="
    left = Linear(tuple((atom, value) for atom, value in gap.terms if value > 0))
    right = Linear(tuple((atom, -value) for atom, value in gap.terms if value < 0))
    constant = gap.constant
    if op == ">=" and constant < 0:
        op, constant = ">", constant + 1  # l - r + c >= 0 is l + (c + 1) > r
    if constant > 0:
        left = add(left, Linear((), constant))
    else:
        right = add(right, Linear((), -constant))
    a, b = expression_of(left, span), expression_of(right, span)
    if not left.terms:  # a constant stands on the right
        op, a, b = {">=": "<=", ">": "<", "==": "=="}[op], b, a
    return Comparison((a, b), (op,), span=span)


def conditional(condition: Term, then: Term, otherwise: Term, span: Span) -> Term:
    """`then if condition else otherwise`; a known condition chooses."""
    known = condition.constant
    if known is not None:
        return then if known else otherwise
    reads, size = join(condition, then, otherwise)
    other = coerced(otherwise, then.dtype)
    expr = Conditional(condition.expr, then.expr, other.expr, span=span)
    return Term(expr, then.dtype, then.is_index and otherwise.is_index, reads, size)


__all__ = [
    "LARGEST", "Linear", "SIGNED", "Term", "UNSIGNED", "Name", "add", "affine_expression",
    "coerced", "conditional", "expression_of", "join", "linear_of", "map_results", "number",
    "number_of", "set_condition", "syntax",
]  # fmt: skip
