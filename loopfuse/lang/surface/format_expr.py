"""Expressions as text, with as few parentheses as precedence allows.

Nothing here recurses: an expression is cut into pieces of text and smaller expressions, on a
stack of our own, so a chain of a thousand operators is no danger.
"""

from __future__ import annotations

import math
from typing import assert_never

from loopfuse.lang.surface import syntax

# Precedence: the level of a grammar rule in grammar/loopfuse.lark, loosest first.
_CONDITIONAL, _OR, _AND, _NOT, _COMPARISON = range(5)
_UNARY, _POWER, _ATOM = 11, 12, 13
_BINARY = {
    "or": _OR, "and": _AND, "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8,
    "+": 9, "-": 9, "*": 10, "/": 10, "//": 10, "%": 10, "**": _POWER,
}  # fmt: skip

_Piece = str | tuple[syntax.Expr, int, bool]
"""Text, or an expression with the loosest level that needs no parentheses there, and whether its
operators are written tight (`x-2`, as in subscripts and bounds)."""


def format_expr(expr: syntax.Expr, tight: bool = False) -> str:
    """`expr` as text; `tight` leaves out the spaces around arithmetic operators."""
    out: list[str] = []
    work: list[_Piece] = [(expr, _CONDITIONAL, tight)]
    while work:
        piece = work.pop()
        if isinstance(piece, str):
            out.append(piece)
            continue
        node, level, tight = piece
        parts = _pieces(node, tight)
        if _level(node) < level:
            parts = ["(", *parts, ")"]
        work += reversed(parts)
    return "".join(out)


def format_range(item: syntax.Range) -> str:
    """`i in a..b step k`."""
    text = f"{item.iterator} in {format_expr(item.lower, True)}..{format_expr(item.upper, True)}"
    return text if item.step is None else f"{text} step {format_expr(item.step, True)}"


def format_number(number: syntax.Number) -> str:
    """A literal as it was written, or a spelling of its value where it was never written."""
    if number.text:
        return number.text
    match number.value:
        case bool():
            return "true" if number.value else "false"
        case float() if math.isnan(number.value):
            return "nan"
        case float() if number.value == math.pi:
            return "pi"
        case _:
            return repr(number.value)


def _level(expr: syntax.Expr) -> int:
    """The precedence of `expr`'s outermost operator."""
    match expr:
        case syntax.Conditional():
            return _CONDITIONAL
        case syntax.Binary():
            return _BINARY[expr.op]
        case syntax.Unary():
            return _NOT if expr.op == "not" else _UNARY
        case syntax.Comparison():
            return _COMPARISON
        case syntax.Number():
            # A negative value comes only from a tree that was not read from text.
            return _UNARY if format_number(expr).startswith("-") else _ATOM
        case syntax.Name() | syntax.Subscript() | syntax.Call() | syntax.Reduction():
            return _ATOM
        case _:
            assert_never(expr)


def _pieces(expr: syntax.Expr, tight: bool) -> list[_Piece]:
    """`expr` cut one level down."""
    match expr:
        case syntax.Number():
            return [format_number(expr)]
        case syntax.Name():
            return [expr.name]
        case syntax.Subscript():
            mode = f".{expr.mode}" if expr.mode else ""
            return [expr.array, mode, "[", *_listed(expr.index, True), "]"]
        case syntax.Call():
            return [expr.function, "(", *_listed(expr.arguments, tight), ")"]
        case syntax.Unary():
            word = "not " if expr.op == "not" else expr.op
            return [word, (expr.operand, _NOT if expr.op == "not" else _UNARY, tight)]
        case syntax.Binary():
            level = _BINARY[expr.op]
            left, right = (_ATOM, _UNARY) if level == _POWER else (level, level + 1)
            # `x - -1` stays spaced: `x--1` reads like another language's decrement.
            spaced = not tight or level < 5 or isinstance(expr.right, syntax.Unary)
            operator = f" {expr.op} " if spaced else expr.op
            return [(expr.left, left, tight), operator, (expr.right, right, tight)]
        case syntax.Comparison():
            parts: list[_Piece] = [(expr.operands[0], _COMPARISON + 1, tight)]
            for operator, operand in zip(expr.ops, expr.operands[1:]):
                parts += [f" {operator} ", (operand, _COMPARISON + 1, tight)]
            return parts
        case syntax.Conditional():
            return [
                (expr.then, _OR, tight),
                " if ",
                (expr.condition, _OR, tight),
                " else ",
                (expr.otherwise, _CONDITIONAL, tight),
            ]
        case syntax.Reduction():
            parts = [expr.op, "("]
            for item in expr.ranges:
                parts += [", "] if len(parts) > 2 else []
                parts += [f"{item.iterator} in ", (item.lower, _CONDITIONAL, True), ".."]
                parts += [(item.upper, _CONDITIONAL, True)]
                if item.step is not None:
                    parts += [" step ", (item.step, _CONDITIONAL, True)]
            return [*parts, ": ", (expr.body, _CONDITIONAL, tight), ")"]
        case _:
            assert_never(expr)


def _listed(items: tuple[syntax.Expr, ...], tight: bool) -> list[_Piece]:
    """The expressions with commas between."""
    parts: list[_Piece] = []
    for item in items:
        parts += [", ", (item, _CONDITIONAL, tight)]
    return parts[1:]
