"""Reads Python expressions: each becomes the surface expression with CPython's meaning, and its
kind (what NumPy would give, or a Python number)."""

from __future__ import annotations

import ast
import difflib
import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from loopfuse.base.dtypes import DType, from_numpy_name
from loopfuse.frontend import pyfunc_calls, pyfunc_refuse, pyfunc_subscripts
from loopfuse.frontend.pyfunc_context import Reader, Typed
from loopfuse.frontend.pyfunc_source import MISSING
from loopfuse.frontend.pyfunc_types import (
    BOOL,
    WEAK_INT,
    Kind,
    arithmetic,
    common,
    either,
    literal,
)
from loopfuse.lang import syntax

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.BitOr: "|", ast.BitXor: "^", ast.BitAnd: "&", ast.LShift: "<<",
    ast.RShift: ">>",
}  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
UNARY: dict[type[ast.unaryop], str] = {
    ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not",
}  # fmt: skip


def read_expression(reader: Reader, node: ast.expr) -> Typed:
    """`node` as a surface expression, with its kind."""
    span = reader.python.span(node)
    match node:
        case ast.Constant(value=value):
            return read_constant(reader, node, value)
        case ast.Name():
            return read_name(reader, node)
        case ast.Attribute():
            return read_attribute(reader, node)
        case ast.Subscript():
            return pyfunc_subscripts.read_subscript(reader, node)
        case ast.UnaryOp(op=op, operand=operand):
            return read_unary(reader, node, UNARY[type(op)], operand)
        case ast.BinOp(left=left, op=op, right=right):
            if isinstance(op, ast.MatMult):
                reader.python.refuse(
                    "matrix-product",
                    "`@` multiplies whole matrices",
                    node,
                    "write the loops: `c[i, j] += a[i, k] * b[k, j]`",
                )
            return combine(
                reader, BINARY[type(op)], read_expression(reader, left),
                read_expression(reader, right), node,
            )  # fmt: skip
        case ast.BoolOp(op=op, values=values):
            word = "and" if isinstance(op, ast.And) else "or"
            parts = [read_expression(reader, value)[0] for value in values]
            result = parts[0]
            for part in parts[1:]:
                result = syntax.Binary(word, result, part, span=result.span.to(part.span))
            return result, BOOL
        case ast.Compare():
            return read_comparison(reader, node)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            condition, _ = read_expression(reader, test)
            then, first = read_expression(reader, body)
            otherwise, second = read_expression(reader, orelse)
            return syntax.Conditional(condition, then, otherwise, span=span), either(first, second)
        case ast.Call():
            return pyfunc_calls.read_call(reader, node)
        case _:
            pyfunc_refuse.expression(reader.python, node)


def read_constant(reader: Reader, node: ast.expr, value: object) -> Typed:
    """A literal in the text."""
    if isinstance(value, (bool, int, float)):
        return number(value, reader, node)
    if isinstance(value, str):
        reader.python.refuse(
            "string-value", "a kernel computes with numbers, not text", node, "remove it"
        )
    if isinstance(value, complex):
        reader.python.refuse(
            "complex-value",
            "complex numbers are not supported",
            node,
            "hold the real and the imaginary part in two arrays",
        )
    reader.python.refuse(
        "unknown-literal", f"`{value!r}` is not a number", node, "use a number, or `math.nan`"
    )


def number(value: bool | int | float, reader: Reader, node: ast.AST) -> Typed:
    """A Python number as a literal."""
    return syntax.Number(value, span=reader.python.span(node)), literal(value)


def read_name(reader: Reader, node: ast.Name) -> Typed:
    """A name in an expression: an iterator, local, size, parameter or something from outside."""
    name, span = node.id, reader.python.span(node)
    if name in reader.iterators:
        return syntax.Name(name, span=span), WEAK_INT
    web = reader.webs.of_use.get(id(node))
    if web is not None:
        return syntax.Name(web.spoken or name, span=span), web.kind
    if name in reader.values:
        expr, kind = reader.values[name]
        return replace(expr, span=span), kind
    if name in reader.scalars:
        return syntax.Name(name, span=span), reader.scalars[name]
    if name in reader.arrays:
        whole_array(reader, node)
    if name in reader.loop_names:
        reader.python.refuse(
            "iterator-after-loop",
            f"`{name}` has no value here: its loop is over",
            node,
            f"use what it ends with, such as `n - 1`, or assign it inside the loop: `last = {name}`",
        )
    if name in reader.locals or name in reader.created_names:
        unassigned(reader, node)
    return outer_value(reader, node, reader.python.find(name))


def whole_array(reader: Reader, node: ast.Name) -> Any:
    """Refuse an array without subscripts."""
    rank = len(reader.arrays[node.id].extents)
    index = ", ".join("ijklmnpq"[k % 8] for k in range(rank))
    reader.python.refuse(
        "whole-array",
        f"`{node.id}` is a whole array here; expressions on whole arrays are not compiled yet",
        node,
        f"loop over it, and use `{node.id}[{index}]`",
    )


def unassigned(reader: Reader, node: ast.Name) -> Any:
    """Refuse a local that may have no value here."""
    if node.id in reader.created_names:
        reader.python.refuse(
            "maybe-unassigned",
            f"`{node.id}` may have no value here",
            node,
            f"create it before: `{node.id} = np.empty(n, np.float32)`",
        )
    reader.python.refuse(
        "maybe-unassigned",
        f"`{node.id}` may have no value here",
        node,
        f"give it one before: `{node.id} = 0.0`",
        notes=("a loop may run no times, and a branch may not be taken",),
    )


def outer_value(reader: Reader, node: ast.expr, value: Any) -> Typed:
    """Something from the enclosing scope, as a constant."""
    text = reader.python.text(node)
    if value is MISSING:
        visible = [*reader.locals, *reader.arrays, *reader.scalars, *reader.values]
        close = difflib.get_close_matches(text, visible, 1, 0.6)
        fix = f"did you mean `{close[0]}`?" if close else "assign it before, or pass it"
        reader.python.refuse("undefined-name", f"`{text}` is not defined", node, fix)
    if isinstance(value, (bool, int, float)) and not isinstance(value, np.generic):
        return number(value, reader, node)
    if isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0:
        dtype = from_numpy_name(value.dtype.name)
        if dtype is not None:
            plain = value.item() if dtype is not DType.BF16 else float(value)
            inner, _ = number(plain, reader, node)
            span = reader.python.span(node)
            return syntax.Call(dtype.value, (inner,), span=span), Kind(dtype)
    if isinstance(value, (tuple, list, np.ndarray)):
        reader.python.refuse(
            "whole-table",
            f"`{text}` is a table from outside; its elements are used one at a time",
            node,
            f"subscript it: `{text}[k]`",
        )
    reader.python.refuse(
        "unsupported-global",
        f"`{text}` is a {type(value).__name__}, which a kernel cannot hold",
        node,
        "use numbers, tuples of numbers and functions from outside; pass arrays as arguments",
    )


def read_attribute(reader: Reader, node: ast.Attribute) -> Typed:
    """`math.pi`, `x.ndim`, `x.size`; anything else of an array is refused."""
    python = reader.python
    if isinstance(node.value, ast.Name) and node.value.id in reader.arrays:
        array = reader.arrays[node.value.id]
        if node.attr == "ndim":
            return number(len(array.extents), reader, node)
        if node.attr == "size":
            result: syntax.Expr = syntax.Number(1)
            for position, extent in enumerate(array.extents):
                result = extent if position == 0 else syntax.Binary("*", result, extent)
            return replace(result, span=python.span(node)), WEAK_INT
        if node.attr == "shape":
            python.refuse(
                "shape-alone",
                f"`{python.text(node)}` is a tuple",
                node,
                f"take a part: `{python.text(node)}[0]`"
                if len(array.extents) == 1
                else f"take a part, `{python.text(node)}[0]`, or name the parts: "
                f"`{', '.join('HWDC'[k % 4] for k in range(len(array.extents)))} = {python.text(node)}`",
            )
        python.refuse(
            "unknown-attribute",
            f"`.{node.attr}` of an array is not supported",
            node,
            "arrays have `.shape`, `.ndim`, `.size` and `.dtype` in a kernel",
        )
    found = resolve(reader, node)
    if found is MISSING:
        python.refuse(
            "undefined-name",
            f"`{python.text(node)}` is not defined",
            node,
            "check the spelling",
        )
    return outer_value(reader, node, found)


def resolve(reader: Reader, node: ast.expr) -> Any:
    """The object that a dotted name of the enclosing scope refers to, or MISSING."""
    if isinstance(node, ast.Name):
        local = any(
            node.id in names
            for names in (reader.locals, reader.arrays, reader.scalars, reader.created_names)
        )
        return MISSING if local else reader.python.find(node.id)
    if isinstance(node, ast.Attribute):
        base = resolve(reader, node.value)
        return MISSING if base is MISSING else getattr(base, node.attr, MISSING)
    return MISSING


def read_unary(reader: Reader, node: ast.expr, op: str, operand: ast.expr) -> Typed:
    """`-x`, `+x`, `~x`, `not x`."""
    inner, kind = read_expression(reader, operand)
    result = syntax.Unary(op, inner, span=reader.python.span(node))
    if op == "not":
        return result, BOOL
    if kind is not None and kind.value is not None and op in "+-" and kind.dtype is not DType.BOOL:
        return result, replace(kind, value=-kind.value if op == "-" else kind.value)
    return result, kind.plain if kind else None


def combine(reader: Reader, op: str, left: Typed, right: Typed, node: ast.AST) -> Typed:
    """`left op right`."""
    span = reader.python.span(node)
    kind, exact = arithmetic(op, left[1], right[1])
    if not exact:
        loose = left if left[1] and left[1].loose else right
        name = reader.python.source.line(loose[0].span.line)[
            loose[0].span.column - 1 : loose[0].span.end_column - 1
        ]
        reader.python.refuse(
            "weak-mix",
            f"`{name}` is an f32 or a Python number, and rounds differently in each case",
            loose[0].span,
            f"where `{name}` is set to a Python number, write `np.float32(...)` around that"
            if name.isidentifier()
            else "make the Python number in it an f32: `np.float32(0.1)` instead of `0.1`",
            notes=("arithmetic of two Python numbers is done in f64",),
        )
    return syntax.Binary(op, left[0], right[0], span=span), kind


def read_comparison(reader: Reader, node: ast.Compare) -> Typed:
    """A chain of comparisons."""
    for op, right in zip(node.ops, node.comparators):
        if isinstance(op, (ast.Is, ast.IsNot)):
            reader.python.refuse(
                "identity-test",
                "`is` compares objects, and a kernel has only numbers",
                node,
                "compare with `==`",
            )
        if isinstance(op, (ast.In, ast.NotIn)):
            reader.python.refuse(
                "membership-test",
                f"`in {reader.python.text(right)}` searches a container",
                node,
                "compare: `0 <= i < n`, or `k == 1 or k == 2`",
            )
    parts = [read_expression(reader, part) for part in (node.left, *node.comparators)]
    for first, second in itertools.pairwise(parts):
        combine(reader, "-", first, second, node)  # comparing rounds as subtracting does
    ops = tuple(COMPARISONS[type(op)] for op in node.ops)
    operands = tuple(part[0] for part in parts)
    return syntax.Comparison(operands, ops, span=reader.python.span(node)), BOOL


def whole_number(reader: Reader, node: ast.expr, what: str) -> syntax.Expr:
    """An expression that must be an integer: a subscript, bound or extent."""
    if isinstance(node, ast.Slice):
        pyfunc_refuse.expression(reader.python, node)
    expr, kind = read_expression(reader, node)
    if kind is not None and kind.dtype.is_float:
        reader.python.refuse(
            "float-index",
            f"a {what} must be an integer, but `{reader.python.text(node)}` is a float",
            node,
            "use `//` instead of `/`",
        )
    return expr


__all__ = ["combine", "common", "read_expression", "resolve", "whole_number"]
