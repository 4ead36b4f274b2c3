"""isl's quasi-affine expressions and parameter sets as core expressions and as Python text.

isl's AST generator knows how to write them with `//`, `%`, `min` and `max`; this walks its trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import islpy

from loopfuse.base.diagnostics import Diagnostic, InternalError
from loopfuse.base.dtypes import DType
from loopfuse.lang.nodes import Binary, Compare, Const, Expr, Iter, Select, Symbol, Unary

PARAM: Any = islpy.dim_type.param
IN: Any = islpy.dim_type.in_

_PYTHON = {
    "add": ("+", 5), "sub": ("-", 5), "mul": ("*", 6), "div": ("//", 6), "fdiv_q": ("//", 6),
    "pdiv_q": ("//", 6), "pdiv_r": ("%", 6), "zdiv_r": ("%", 6), "eq": ("==", 4), "le": ("<=", 4),
    "lt": ("<", 4), "ge": (">=", 4), "gt": (">", 4), "and_": ("and", 2), "and_then": ("and", 2),
    "or_": ("or", 1), "or_else": ("or", 1),
}  # fmt: skip

_CORE = {
    "add": "add", "sub": "sub", "mul": "mul", "div": "floordiv", "fdiv_q": "floordiv",
    "pdiv_q": "floordiv", "pdiv_r": "mod", "zdiv_r": "mod", "min": "min", "max": "max",
    "and_": "and", "and_then": "and", "or_": "or", "or_else": "or",
}  # fmt: skip


def _operation(ast: Any) -> tuple[str, list[Any]]:
    kind = islpy.ast_expr_op_type(ast.get_op_type()).name
    return kind, [ast.get_op_arg(k) for k in range(ast.get_op_n_arg())]


def _ast_kind(ast: Any) -> str:
    return islpy.ast_expr_type(ast.get_type()).name


def _python(ast: Any, above: int = 0) -> str:
    match _ast_kind(ast):
        case "id":
            return ast.get_id().get_name()
        case "int":
            return str(ast.get_val().to_python())
        case _:
            kind, arguments = _operation(ast)
    if kind in ("min", "max"):
        return f"{kind}({', '.join(_python(each) for each in arguments)})"
    if kind == "minus":
        return f"-{_python(arguments[0], 7)}"
    if kind in ("cond", "select"):
        test, then, otherwise = (_python(each, 1) for each in arguments)
        return f"({then} if {test} else {otherwise})"
    sign, level = _PYTHON[kind]
    right_level = level if kind in ("add", "and_", "or_", "and_then", "or_else") else level + 1
    tight = sign in ("*", "//")
    glue = sign if tight else f" {sign} "
    text = _python(arguments[0], level if level != 4 else 5) + glue
    text += glue.join(_python(each, right_level) for each in arguments[1:])
    return f"({text})" if level < above else text


def ast_expr(ast: Any, symbols: frozenset[str]) -> Expr:
    match _ast_kind(ast):
        case "id":
            name = ast.get_id().get_name()
            return Symbol(name, DType.I64) if name in symbols else Iter(name)
        case "int":
            return Const(ast.get_val().to_python(), DType.I64)
        case _:
            kind, arguments = _operation(ast)
    parts = [ast_expr(each, symbols) for each in arguments]
    if kind == "minus":
        return Unary("neg", parts[0], DType.I64)
    if kind in ("cond", "select"):
        return Select(parts[0], parts[1], parts[2], DType.I64)
    if kind in ("eq", "le", "lt", "ge", "gt"):
        return Compare(kind, parts[0], parts[1])
    op = _CORE.get(kind)
    if op is None:
        raise InternalError(Diagnostic("isl-expression", f"isl gave an operation `{kind}`"))
    dtype = DType.BOOL if op in ("and", "or") else DType.I64
    out = parts[0]
    for part in parts[1:]:
        out = Binary(op, out, part, dtype)
    return out


def ast_build(thing: Any) -> Any:
    space = islpy.Space.params_alloc(thing.get_ctx(), 0)
    return islpy.AstBuild.from_context(islpy.Set.universe(space))


def params_text(params: Any) -> str:
    """A set of parameter values as a Python expression: `W >= 4 or H <= 0`.

    before: `[H, W] -> { : W >= 4 or H <= 0 }`
    """
    if params.is_empty():
        return "False"
    return _python(ast_build(params).expr_from_set(params))


def params_expr(params: Any, symbols: Sequence[str]) -> Expr:
    """A set of parameter values as a core bool expression."""
    if params.is_empty():
        return Const(False, DType.BOOL)
    if params.plain_is_universe():
        return Const(True, DType.BOOL)
    return ast_expr(ast_build(params).expr_from_set(params), frozenset(symbols))


def _over_named_dims(value: Any) -> Any:
    """`value` with its domain's dimensions turned into parameters of the same names."""
    count = value.dim(IN)
    if not count:
        return value
    names = [value.get_dim_name(IN, k) for k in range(count)]
    at = value.dim(PARAM)
    value = value.move_dims(PARAM, at, IN, 0, count)
    for offset, name in enumerate(names):
        value = value.set_dim_name(PARAM, at + offset, name)
    return value


def value_text(value: Any) -> str:
    """A pw_aff as a Python expression in its parameters and dimensions."""
    return _python(ast_build(value).expr_from_pw_aff(_over_named_dims(value)))


def value_expr(value: Any, symbols: Sequence[str]) -> Expr:
    """A pw_aff as a core index expression; names outside `symbols` are iterators."""
    return ast_expr(ast_build(value).expr_from_pw_aff(_over_named_dims(value)), frozenset(symbols))
