"""Turns what the grammar recognised into the records of `lang.surface.syntax`, one method per rule.

Lark calls a rule's method when its LALR parser reduces the rule, bottom-up, from one loop: no
parse tree is built and nothing here recurses, so the length of an expression is no danger.

Every node carries its span; that of a parenthesised expression includes the parentheses.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from lark import Token

from loopfuse.base.diagnostics import Diagnostic, Span, UserError
from loopfuse.base.dtypes import DType
from loopfuse.frontend.lf.layout import token_span
from loopfuse.lang.surface import syntax

EDGE_MODES = ("clamp", "wrap", "reflect", "symmetric", "zero")
REDUCTIONS = ("sum", "prod", "min", "max", "any", "all", "argmin", "argmax")
_DTYPES = {dtype.value: dtype for dtype in DType}

# What other languages call our types.
_FOREIGN_DTYPES = {
    "float": "f32", "double": "f64", "half": "f16", "int": "i32", "long": "i64", "short": "i16",
    "char": "i8", "byte": "u8", "boolean": "bool", "float16": "f16", "float32": "f32",
    "float64": "f64", "bfloat16": "bf16", "int8": "i8", "int16": "i16", "int32": "i32",
    "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "uint": "u32", "size_t": "i64", "index": "i64", "isize": "i64", "usize": "u64",
}  # fmt: skip

Children = list[Any]


class BuildSyntax:
    """The methods Lark calls; `Token`s and finished nodes come in as `children`."""

    # ------------------------------------------------------------------------- top level

    def start(self, children: Children) -> tuple[syntax.Func | syntax.Const | syntax.Kernel, ...]:
        """The items of the file."""
        return tuple(children)

    def kernel(self, children: Children) -> syntax.Kernel:
        """KERNEL NAME params suite"""
        word, name, params, body = children
        return syntax.Kernel(
            _declared(name),
            params,
            body,
            name_span=token_span(name),
            span=_span(word, body[-1]),
        )

    def func(self, children: Children) -> syntax.Func:
        """FUNC NAME params NAME func_body"""
        word, name, params, result, (lets, value) = children
        return syntax.Func(
            _declared(name), params, _dtype(result), lets, value, span=_span(word, value)
        )

    def func_body(self, children: Children) -> tuple[tuple[syntax.Let, ...], syntax.Expr]:
        """let* return_line"""
        return tuple(children[:-1]), children[-1]

    def return_line(self, children: Children) -> syntax.Expr:
        """RETURN expr"""
        return children[1]

    def const(self, children: Children) -> syntax.Const:
        """CONST NAME [NAME [extents]] const_value"""
        word, name, dtype, extents, value = children
        if isinstance(value, _Table):
            values: syntax.Expr | tuple[object, ...] = value.values
            end = value.span
        else:
            values, end = value, value.span
        return syntax.Const(
            _declared(name),
            None if dtype is None else _dtype(dtype),
            None if extents is None else extents.items,
            values,
            span=token_span(word).to(end),
        )

    def const_table(self, children: Children) -> _Table:
        """LSQB const_value... RSQB"""
        values = tuple(
            child.values if isinstance(child, _Table) else child
            for child in children[1:-1]
            if child is not None
        )
        return _Table(values, _span(children[0], children[-1]))

    def params(self, children: Children) -> tuple[syntax.Param, ...]:
        """param..."""
        return tuple(child for child in children if child is not None)

    def param(self, children: Children) -> syntax.Param:
        """[mode] NAME [CONST] NAME [extents]"""
        mode, name, is_const, dtype, extents = children
        end = token_span(dtype) if extents is None else extents.span
        return syntax.Param(
            _declared(name),
            _dtype(dtype),
            None if extents is None else extents.items,
            "in" if mode is None else str(mode),
            is_const is not None,
            span=token_span(name if mode is None else mode).to(end),
        )

    def mode(self, children: Children) -> Token:
        """IN | OUT | INOUT"""
        return children[0]

    def extents(self, children: Children) -> _Extents:
        """LSQB exprs RSQB"""
        first, items, last = children
        return _Extents(items, _span(first, last))

    # ------------------------------------------------------------------------ statements

    def suite(self, children: Children) -> tuple[syntax.Stmt, ...]:
        """stmt..."""
        return tuple(children)

    def for_loop(self, children: Children) -> syntax.For:
        """[PARALLEL] FOR ranges suite"""
        parallel, word, ranges, body = children
        first = word if parallel is None else parallel
        return syntax.For(ranges, body, parallel is not None, span=_span(first, body[-1]))

    def if_statement(self, children: Children) -> syntax.If:
        """IF expr suite elif_part... [ELSE suite]"""
        word, condition, then, *parts, _, otherwise = children
        body: tuple[syntax.Stmt, ...] = () if otherwise is None else otherwise
        for elif_word, elif_condition, elif_then in reversed(parts):
            end = body[-1] if body else elif_then[-1]
            body = (syntax.If(elif_condition, elif_then, body, span=_span(elif_word, end)),)
        return syntax.If(condition, then, body, span=_span(word, body[-1] if body else then[-1]))

    def elif_part(self, children: Children) -> tuple[Token, syntax.Expr, tuple[syntax.Stmt, ...]]:
        """ELIF expr suite"""
        return children[0], children[1], children[2]

    def block(self, children: Children) -> syntax.Block:
        """(FUSE | NOFUSE) suite"""
        word, body = children
        return syntax.Block(str(word), body, span=_span(word, body[-1]))

    def assign(self, children: Children) -> syntax.Assign:
        """target (ASSIGN | AUGMENTED) expr"""
        target, operator, value = children
        return syntax.Assign(
            target, str(operator).removesuffix("="), value, span=_span(target, value)
        )

    def let(self, children: Children) -> syntax.Let:
        """(LET | VAR) NAME [NAME] expr"""
        word, name, dtype, value = children
        return syntax.Let(
            _declared(name),
            None if dtype is None else _dtype(dtype),
            value,
            word.type == "VAR",
            name_span=token_span(name),
            span=_span(word, value),
        )

    def temp(self, children: Children) -> syntax.Temp:
        """TEMP NAME NAME extents"""
        word, name, dtype, extents = children
        return syntax.Temp(
            _declared(name), _dtype(dtype), extents.items, span=token_span(word).to(extents.span)
        )

    def swap(self, children: Children) -> syntax.Swap:
        """SWAP NAME NAME"""
        word, left, right = children
        return syntax.Swap(str(left), str(right), span=_span(word, right))

    def assume(self, children: Children) -> syntax.Assume:
        """ASSUME expr"""
        word, condition = children
        return syntax.Assume(condition, span=_span(word, condition))

    def ranges(self, children: Children) -> tuple[syntax.Range, ...]:
        """range..."""
        return tuple(children)

    def range(self, children: Children) -> syntax.Range:
        """NAME IN expr expr [STEP expr]"""
        name, _, lower, upper, _, step = children
        end = upper if step is None else step
        return syntax.Range(_declared(name), lower, upper, step, span=_span(name, end))

    # ----------------------------------------------------------------------- expressions

    def conditional(self, children: Children) -> syntax.Conditional:
        """expr IF expr ELSE expr"""
        then, _, condition, _, otherwise = children
        return syntax.Conditional(condition, then, otherwise, span=_span(then, otherwise))

    def binary(self, children: Children) -> syntax.Binary:
        """expr OPERATOR expr"""
        left, operator, right = children
        return syntax.Binary(str(operator), left, right, span=_span(left, right))

    def unary(self, children: Children) -> syntax.Unary:
        """OPERATOR expr"""
        operator, operand = children
        return syntax.Unary(str(operator), operand, span=_span(operator, operand))

    def chain(self, children: Children) -> syntax.Comparison:
        """expr (COMPARE expr)..."""
        operators = tuple(str(operator) for operator in children[1::2])
        span = _span(children[0], children[-1])
        return syntax.Comparison(tuple(children[::2]), operators, span=span)

    def parenthesised(self, children: Children) -> syntax.Expr:
        """LPAR expr RPAR"""
        first, inner, last = children
        return cast(syntax.Expr, replace(inner, span=_span(first, last)))

    def name(self, children: Children) -> syntax.Name:
        """NAME"""
        (name,) = children
        if str(name) in ("True", "False"):
            raise UserError(
                Diagnostic(
                    "python-bool",
                    f"`{name}` is Python's spelling",
                    token_span(name),
                    fix=f"write `{name.lower()}`",
                )
            )
        return syntax.Name(str(name), span=token_span(name))

    def number(self, children: Children) -> syntax.Number:
        """One literal."""
        (token,) = children
        return syntax.Number(_value(token), str(token), span=token_span(token))

    def subscript(self, children: Children) -> syntax.Subscript:
        """NAME [NAME] exprs RSQB"""
        array, mode, index, last = children
        if mode is not None and str(mode) not in EDGE_MODES:
            raise UserError(_unknown_mode(mode))
        return syntax.Subscript(
            str(array),
            index,
            "" if mode is None else str(mode),
            array_span=token_span(array),
            span=_span(array, last),
        )

    def call(self, children: Children) -> syntax.Call:
        """NAME [exprs] RPAR"""
        function, arguments, last = children
        return syntax.Call(str(function), arguments or (), span=_span(function, last))

    def reduction(self, children: Children) -> syntax.Reduction:
        """NAME ranges expr RPAR"""
        operator, ranges, body, last = children
        if str(operator) not in REDUCTIONS:
            raise UserError(_unknown_reduction(operator))
        return syntax.Reduction(str(operator), ranges, body, span=_span(operator, last))

    def exprs(self, children: Children) -> tuple[syntax.Expr, ...]:
        """expr..."""
        return tuple(child for child in children if child is not None)


class _Table:
    """A bracketed list of constants, and its place."""

    __slots__ = ("span", "values")

    def __init__(self, values: tuple[object, ...], span: Span) -> None:
        self.values = values
        self.span = span


class _Extents:
    """`[N, M]`, and its place."""

    __slots__ = ("items", "span")

    def __init__(self, items: tuple[syntax.Expr, ...], span: Span) -> None:
        self.items = items
        self.span = span


def _span(first: Token | syntax.Node, last: Token | syntax.Node) -> Span:
    """From the start of `first` to the end of `last`."""
    start = token_span(first) if isinstance(first, Token) else first.span
    end = token_span(last) if isinstance(last, Token) else last.span
    return start.to(end)


def _value(token: Token) -> bool | int | float:
    """The value of a literal."""
    text = str(token)
    match token.type:
        case "INTEGER":
            if len(text) > 1000:
                raise UserError(_number_out_of_range(token, "integer", "i64 or u64"))
            return int(text.replace("_", ""), 16 if text[:2] in ("0x", "0X") else 10)
        case "FLOAT":
            value = float(text)
            if math.isinf(value):
                raise UserError(_number_out_of_range(token, "number", "f64"))
            return value
        case "TRUE" | "FALSE":
            return token.type == "TRUE"
        case _:
            return {"INF": math.inf, "NAN": math.nan, "PI": math.pi}[token.type]


def _declared(token: Token) -> str:
    """The name that `token` declares; a dtype's name is refused."""
    if token in _DTYPES:
        raise UserError(
            Diagnostic(
                "keyword-as-name",
                f"`{token}` is the name of a type",
                token_span(token),
                fix=f"call it something else, such as `{token}_value`",
            )
        )
    return str(token)


def _dtype(token: Token) -> DType:
    """The dtype that `token` names."""
    if token in _DTYPES:
        return _DTYPES[token]
    guess = _FOREIGN_DTYPES.get(token.lower()) or _closest(token, tuple(_DTYPES))
    raise UserError(
        Diagnostic(
            "unknown-dtype",
            f"`{token}` is not a type",
            token_span(token),
            notes=(f"the types are {' '.join(_DTYPES)}",),
            fix=f"did you mean `{guess}`?" if guess else "",
        )
    )


def _unknown_mode(mode: Token) -> Diagnostic:
    foreign = {
        "edge": "clamp", "nearest": "clamp", "replicate": "clamp", "periodic": "wrap",
        "circular": "wrap", "mirror": "reflect", "constant": "zero", "pad": "zero",
    }  # fmt: skip
    guess = foreign.get(mode.lower()) or _closest(mode, EDGE_MODES)
    return Diagnostic(
        "unknown-edge-mode",
        f"`.{mode}` is not an edge mode",
        token_span(mode),
        notes=("the edge modes are " + " ".join(f".{name}" for name in EDGE_MODES),),
        fix=f"did you mean `.{guess}`?" if guess else "",
    )


def _unknown_reduction(operator: Token) -> Diagnostic:
    foreign = {"mean": "sum", "product": "prod", "add": "sum", "mul": "prod", "average": "sum"}
    guess = foreign.get(operator.lower()) or _closest(operator, REDUCTIONS)
    return Diagnostic(
        "unknown-reduction",
        f"`{operator}` is not a reduction",
        token_span(operator),
        notes=(f"the reductions are {' '.join(REDUCTIONS)}",),
        fix=f"did you mean `{guess}`?" if guess else "",
    )


def _number_out_of_range(token: Token, what: str, dtype: str) -> Diagnostic:
    return Diagnostic(
        "number-out-of-range",
        f"this {what} is too large for {dtype}",
        token_span(token),
        fix="write `inf` if infinity is meant" if what == "number" else "",
    )


def _closest(word: str, words: Sequence[str]) -> str:
    """The one of `words` most like `word`; empty where none is."""
    found = difflib.get_close_matches(word.lower(), words, 1, 0.5)
    return found[0] if found else ""
