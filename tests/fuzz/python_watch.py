"""Whether a run of a Python function does what docs/python.md says CPython may do otherwise: integers
that leave their type, `max` and `min` of NaN or of zeros of both signs, floats that no integer holds."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}  # fmt: skip
WATCHED = ("min", "max", "int", "abs", "round")
LIMIT = 1 << 63


class Deviation(Exception):
    """What CPython may do otherwise."""


def deviation(plain: Callable[..., Any], text: str, arguments: dict[str, Any]) -> str:
    """What the function `plain` does, whose module is `text`, that loopfuse need not do; or ""."""
    tree = ast.fix_missing_locations(_Watch().visit(ast.parse(text)))
    scope: dict[str, Any] = {**plain.__globals__, "_operate": _operate, "_call": _call, "_negate": _negate}
    names = {one: plain.__globals__[one] for one in ("np", "math")}
    exec(compile(tree, "<watched>", "exec"), scope)  # defaults of helpers are made here
    scope |= names
    with np.errstate(all="ignore"):
        try:
            scope[plain.__name__](**arguments)
        except Deviation as found:
            return str(found)
    return ""


class _Watch(ast.NodeTransformer):
    """Operations and calls become calls of what watches them."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return _called("_operate", type(node.op), node.left, node.right) or node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.USub):
            return node
        return ast.Call(ast.Name("_negate", ast.Load()), [node.operand], [])

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        text = ast.unparse(node.target)
        read = ast.parse(text, mode="eval").body
        made = _called("_operate", type(node.op), read, node.value)
        return ast.Assign([node.target], made) if made else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        return ast.Call(ast.Name("_call", ast.Load()), [node.func, *node.args], node.keywords)


def _called(name: str, op: type[ast.operator], *parts: ast.expr) -> ast.Call | None:
    if op not in OPERATORS:
        return None
    return ast.Call(ast.Name(name, ast.Load()), [ast.Constant(op.__name__), *parts], [])


def _operate(name: str, left: Any, right: Any) -> Any:
    op = OPERATORS[getattr(ast, name)]
    found = op(left, right)
    if isinstance(found, (int, np.integer)) and not isinstance(found, bool):
        _whole(op(int(left), int(right)), found)
    return found


def _negate(value: Any) -> Any:
    found = -value
    if isinstance(found, (int, np.integer)):
        _whole(-int(value), found)
    return found


def _whole(meant: int, found: Any) -> None:
    if meant != int(found) or not -LIMIT <= meant < LIMIT:
        raise Deviation("an integer leaves its type")


def _call(function: Any, *given: Any, **named: Any) -> Any:
    name = getattr(function, "__name__", "")
    if name in ("min", "max", "minimum", "maximum", "fmin", "fmax", "clip"):
        floats = [float(v) for v in given]
        if any(math.isnan(v) for v in floats):
            raise Deviation("an extreme of NaN")
        if len({math.copysign(1.0, v) for v in floats if v == 0.0}) > 1:
            raise Deviation("an extreme of both zeros")
    found = function(*given, **named)
    if isinstance(found, np.integer) and len(given) == 1 and _is_cut(int(found), given[0]):
        raise Deviation("a cast to an integer that does not hold it")
    if name in ("int", "floor", "ceil", "round") and isinstance(found, int) and not -LIMIT <= found < LIMIT:
        raise Deviation("a cast to an integer that does not hold it")
    return found


def _is_cut(found: int, given: Any) -> bool:
    """`found` is not the integer that `given` has before its point."""
    return not math.isfinite(given) or found != int(given)


__all__ = ["Deviation", "deviation"]
