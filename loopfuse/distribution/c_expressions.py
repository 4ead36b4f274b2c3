"""The manifest's formulas as C expressions of type int64_t.

Python's `//` and `%` round to minus infinity and C's to zero, so they become calls of the helpers
in `HELPERS`, which are total as the language has it: x // 0 and x % 0 are 0.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from loopfuse.base.diagnostics import Diagnostic, InternalError

HELPERS = {
    "lf_floor_divide": """\
static int64_t lf_floor_divide(int64_t a, int64_t b)
{
    if (b == 0)
        return 0;
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
""",
    "lf_floor_modulo": """\
static int64_t lf_floor_modulo(int64_t a, int64_t b)
{
    if (b == 0)
        return 0;
    return a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
}
""",
    "lf_min": "static int64_t lf_min(int64_t a, int64_t b) { return a < b ? a : b; }\n",
    "lf_max": "static int64_t lf_max(int64_t a, int64_t b) { return a > b ? a : b; }\n",
    "lf_abs": "static int64_t lf_abs(int64_t a) { return a < 0 ? -a : a; }\n",
}
"""The C functions that expressions call, by name; a launcher defines those it uses."""

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_ROUNDED: dict[type[ast.operator], str] = {
    ast.FloorDiv: "lf_floor_divide", ast.Mod: "lf_floor_modulo",
}  # fmt: skip


def to_c(text: str, names: Mapping[str, str]) -> str:
    """The formula `text` as C; `names` gives the C expression for each of its names.

    before: (H + 15) // 16 if H > W else max(0, H)
    after:  (H > W ? lf_floor_divide(H + 15, 16) : lf_max(0, H))

    InternalError[bad-manifest] for anything that is no formula.
    """
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        raise _bad(text) from None
    return _Translation(text, names).expression(tree, 0)


def _bad(text: str) -> InternalError:
    return InternalError(
        Diagnostic("bad-manifest", f"the manifest holds `{text}`, which is no formula")
    )


# How tightly an expression binds: what stands inside one that binds tighter is put in brackets.
_OR, _AND, _COMPARE, _SUM, _PRODUCT, _UNARY = 1, 2, 3, 4, 5, 6


class _Translation:
    def __init__(self, text: str, names: Mapping[str, str]) -> None:
        self.text = text
        self.names = names

    def expression(self, node: ast.expr, level: int) -> str:
        match node:
            case ast.Constant(value=int(value)):
                return self.literal(int(value))
            case ast.Name(id=name) if name in self.names:
                return self.names[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _SIGNS:
                mine = _PRODUCT if isinstance(op, ast.Mult) else _SUM
                sign = _SIGNS[type(op)]
                inner = f"{self.expression(left, mine)} {sign} {self.expression(right, mine + 1)}"
                return self.bracketed(inner, mine, level)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ROUNDED:
                return self.call(_ROUNDED[type(op)], left, right)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.bracketed(f"-{self.expression(operand, _UNARY + 1)}", _UNARY, level)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.expression(operand, level)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.bracketed(f"!{self.expression(operand, _UNARY + 1)}", _UNARY, level)
            case ast.BoolOp(op=op, values=values):
                mine, sign = (_AND, "&&") if isinstance(op, ast.And) else (_OR, "||")
                # Brackets around an `&&` in an `||` too: compilers warn without them.
                inner = f" {sign} ".join(self.expression(value, _COMPARE) for value in values)
                return self.bracketed(inner, mine, level)
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                return self.comparison([left, *comparators], ops, level)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                then, other = self.expression(body, _OR), self.expression(orelse, _OR)
                return f"({self.expression(test, _OR)} ? {then} : {other})"
            case ast.Call(func=ast.Name(id="min" | "max" as name), args=[first, *rest]) if rest:
                text = self.expression(first, 0)
                for each in rest:
                    text = f"lf_{name}({text}, {self.expression(each, 0)})"
                return text
            case ast.Call(func=ast.Name(id="abs"), args=[operand]):
                return self.call("lf_abs", operand)
            case _:
                raise _bad(self.text)

    def literal(self, value: int) -> str:
        if value >= 1 << 63:
            raise _bad(self.text)
        return str(value) if value < 1 << 31 else f"INT64_C({value})"

    def call(self, name: str, *operands: ast.expr) -> str:
        return f"{name}({', '.join(self.expression(each, 0) for each in operands)})"

    def comparison(self, values: list[ast.expr], ops: list[ast.cmpop], level: int) -> str:
        pairs: list[str] = []
        for left, op, right in zip(values, ops, values[1:]):
            sign = _COMPARISONS.get(type(op))
            if sign is None:
                raise _bad(self.text)
            pairs.append(f"{self.expression(left, _SUM)} {sign} {self.expression(right, _SUM)}")
        if len(pairs) == 1:
            return self.bracketed(pairs[0], _COMPARE, level + 1)
        return self.bracketed(" && ".join(pairs), _AND, level)

    def bracketed(self, inner: str, mine: int, level: int) -> str:
        return f"({inner})" if mine < level else inner


def used_helpers(text: str) -> list[str]:
    """The definitions of the helpers that C text `text` calls, in a fixed order."""
    return [definition for name, definition in HELPERS.items() if f"{name}(" in text]
