"""The manifest's expressions: Python arithmetic over sizes, checked once and compiled once.

A manifest may come from a cache file, so its text is never handed to `eval` unread: only
`+ - * // %`, comparisons, `and or not`, `min`, `max`, `abs`, conditional expressions, names and
integer literals pass.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from loopfuse.base.diagnostics import Diagnostic, InternalError

_FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs}
_ALLOWED = (
    ast.Expression, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod,
    ast.UnaryOp, ast.USub, ast.UAdd, ast.Not, ast.BoolOp, ast.And, ast.Or,
    ast.Compare, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq,
    ast.IfExp, ast.Name, ast.Load, ast.Call, ast.Constant,
)  # fmt: skip


def _floor_divide(left: int, right: int) -> int:
    """`//` as the language has it: x // 0 is 0."""
    return left // right if right else 0


def _floor_remainder(left: int, right: int) -> int:
    """`%` as the language has it: x % 0 is 0."""
    return left % right if right else 0


class _Total(ast.NodeTransformer):
    """before: `a // b`, `a % b`
    after: `a // b` where b is a non-zero literal, else `_div(a, b)`, `_mod(a, b)`"""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, (ast.FloorDiv, ast.Mod)):
            if isinstance(node.right, ast.Constant) and node.right.value != 0:
                return node
            name = "_div" if isinstance(node.op, ast.FloorDiv) else "_mod"
            call = ast.Call(ast.Name(name, ast.Load()), [node.left, node.right], [])
            return ast.copy_location(call, node)
        return node


def parsed(text: str) -> ast.Expression:
    """The formula as Python reads it, of nothing but what a formula may have; InternalError[bad-manifest]."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError) as error:
        raise InternalError(
            Diagnostic("bad-manifest", f"the manifest holds `{text}`, which is no formula")
        ) from error
    for node in ast.walk(tree):
        good = isinstance(node, _ALLOWED)
        if isinstance(node, ast.Constant):
            good = isinstance(node.value, int)
        elif isinstance(node, ast.Call):
            good = (
                isinstance(node.func, ast.Name)
                and node.func.id in _FUNCTIONS
                and not node.keywords
            )
        if not good:
            raise InternalError(
                Diagnostic(
                    "bad-manifest",
                    f"the manifest holds `{text}`, and `{type(node).__name__}` is not allowed there",
                )
            )
    return tree


@lru_cache(maxsize=4096)
def _compile(text: str) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """The formula as a function of the names it reads, and those names in order."""
    tree = parsed(text)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called}
    order = tuple(sorted(names))
    arguments = ast.arguments([], [ast.arg(name) for name in order], None, [], [], None, [])
    function = ast.Expression(ast.Lambda(arguments, _Total().visit(tree).body))
    code = compile(ast.fix_missing_locations(function), "<formula>", "eval")
    helpers = {"__builtins__": {}, "_div": _floor_divide, "_mod": _floor_remainder}
    return eval(code, {**helpers, **_FUNCTIONS}), order


def names_in(text: str) -> frozenset[str]:
    """The names the formula `text` reads."""
    return frozenset(_compile(text)[1])


def evaluate(text: str, values: Mapping[str, Any]) -> Any:
    """The value of the formula `text` at `values` (an int, or a bool for a condition).

    InternalError[bad-manifest] when the text is not a formula or a name has no value.
    """
    function, names = _compile(text)
    try:
        return function(*[values[name] for name in names])
    except KeyError as error:
        raise InternalError(
            Diagnostic("bad-manifest", f"`{text}` reads `{error.args[0]}`, which has no value")
        ) from None
