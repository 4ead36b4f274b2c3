"""Affine expressions, bounds and conditions of the core as maps and sets of MLIR's `affine`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from loopfuse.base.dtypes import DType
from loopfuse.codegen.ir import AffineMap, Value
from loopfuse.lang import nodes

FAILED = ""
"""What `affine_text` gives for an expression that is not affine."""

Applied = tuple[AffineMap, tuple[Value, ...]]
"""A map, and the values of its dimensions and then of its symbols."""

_PLACES = re.compile(r"\b([ds])(\d+)\b")


def applied(results: Sequence[str], dims: Sequence[Value], symbols: Sequence[Value]) -> Applied:
    """The map with these results, in which the values are called d0, s0 and so on by their places, of those alone
    that occur."""
    found = {(kind, int(number)) for text in results for kind, number in _PLACES.findall(text)}
    kept = {kind: sorted(number for each, number in found if each == kind) for kind in "ds"}
    names = {f"{kind}{number}": f"{kind}{new}" for kind in "ds" for new, number in enumerate(kept[kind])}
    texts = tuple(_PLACES.sub(lambda each: names[each[0]], text) for text in results)
    values = (*(dims[number] for number in kept["d"]), *(symbols[number] for number in kept["s"]))
    return AffineMap(len(kept["d"]), len(kept["s"]), texts), values


def affine_text(expr: nodes.Expr, names: Mapping[str, str]) -> str:
    """`expr` as an affine expression over `names`, or FAILED."""
    match expr:
        case nodes.Const(value=value):
            return str(int(value))
        case nodes.Iter(name=name) | nodes.Symbol(name=name):
            return names.get(name, FAILED)
        case nodes.Unary(op="neg", operand=operand):
            inner = affine_text(operand, names)
            return f"(-1 * {inner})" if inner else FAILED
        case nodes.Binary(op="add" | "sub" as op, left=left, right=right):
            a, b = affine_text(left, names), affine_text(right, names)
            return f"({a} {'+' if op == 'add' else '-'} {b})" if a and b else FAILED
        case nodes.Binary(op="mul", left=left, right=right):
            if not isinstance(left, nodes.Const) and not isinstance(right, nodes.Const):
                return FAILED
            a, b = affine_text(left, names), affine_text(right, names)
            return f"({a} * {b})" if a and b else FAILED
        case nodes.Binary(op="floordiv" | "mod" as op, left=left, right=nodes.Const(value=value)):
            a = affine_text(left, names)
            return f"({a} {op} {int(value)})" if a and int(value) > 0 else FAILED
        case _:
            return FAILED


def parts_of(expr: nodes.Expr, op: str) -> tuple[nodes.Expr, ...]:
    """The operands of nested `min` or `max`: what a bound is the least or greatest of."""
    match expr:
        case nodes.Binary(op=word, left=left, right=right) if word == op:
            return (*parts_of(left, op), *parts_of(right, op))
        case _:
            return (expr,)


def constraints_of(condition: nodes.Expr, names: Mapping[str, str]) -> tuple[str, ...] | None:
    """The constraints of an integer set that say a conjunction of affine comparisons; None for others."""
    match condition:
        case nodes.Binary(op="and", left=left, right=right, dtype=DType.BOOL):
            one, other = constraints_of(left, names), constraints_of(right, names)
            return None if one is None or other is None else (*one, *other)
        case nodes.Compare(op=op, left=left, right=right) if left.dtype is DType.I64 and op != "ne":
            a, b = affine_text(left, names), affine_text(right, names)
            if not a or not b:
                return None
            return (
                {
                    "lt": f"{b} - {a} - 1 >= 0",
                    "le": f"{b} - {a} >= 0",
                    "gt": f"{a} - {b} - 1 >= 0",
                    "ge": f"{a} - {b} >= 0",
                    "eq": f"{a} - {b} == 0",
                }[op],
            )
        case _:
            return None


def bare(text: str) -> str:
    """Without the outermost parentheses."""
    if not text.startswith("("):
        return text
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return text[1:-1] if place == len(text) - 1 else text
    return text
