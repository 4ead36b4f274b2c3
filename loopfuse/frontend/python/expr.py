"""Reads names, literals, attributes and comparisons of Python, and combines what was read: each with
CPython's meaning and its kind (what NumPy would give, or a Python number)."""

from __future__ import annotations

import ast
import difflib
import functools
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from loopfuse.base.diagnostics import Span
from loopfuse.base.dtypes import DType, from_numpy_name
from loopfuse.frontend.python import (
    refuse as pyfunc_refuse,
)
from loopfuse.frontend.python import vocabulary as words
from loopfuse.frontend.python.context import Reader, Typed
from loopfuse.frontend.python.source import MISSING
from loopfuse.frontend.python.types import (
    ANY,
    BOOL,
    PYTHON_BOOL,
    WEAK_INT,
    Form,
    Kind,
    arithmetic,
    common,
    either,
    is_cut,
    literal,
    unary,
)
from loopfuse.lang.surface import syntax

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.BitOr: "|", ast.BitXor: "^", ast.BitAnd: "&", ast.LShift: "<<",
    ast.RShift: ">>",
}  # fmt: skip
UNARY: dict[type[ast.unaryop], str] = {
    ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not",
}  # fmt: skip


def read_condition(reader: Reader, node: ast.expr) -> syntax.Expr:
    """`node` where Python asks whether it is true: a number is where it is not 0."""
    span = reader.python.span(node)
    match node:
        case ast.BoolOp(op=op, values=values):
            parts = [read_condition(reader, value) for value in values]
            result = parts[0]
            for part in parts[1:]:
                word = "and" if isinstance(op, ast.And) else "or"
                result = syntax.Binary(word, result, part, span=result.span.to(part.span))
            return result
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return syntax.Unary("not", read_condition(reader, operand), span=span)
        case _:
            expr, kind = reader.read(node)
            if kind is None or kind.dtype is DType.BOOL:
                return expr
            return syntax.Comparison((expr, syntax.Number(0, span=span)), ("!=",), span=span)


def _number_of(text: str) -> str:
    """What to write instead of a text."""
    try:
        float(text)
    except ValueError:
        return "use a number"
    return f"write the number: `{text.strip()}`"


def read_constant(reader: Reader, node: ast.expr, value: object) -> Typed:
    """A literal in the text."""
    if isinstance(value, (bool, int, float)):
        return number(value, reader, node)
    if isinstance(value, str):
        reader.python.refuse(
            "string-value", "a kernel computes with numbers, not text", node, _number_of(value)
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
    span = reader.python.span(node)
    return syntax.Number(value, span=span), replace(literal(value), place=span)


def read_name(reader: Reader, node: ast.Name) -> Typed:
    """A name in an expression: an iterator, local, size, parameter or something from outside."""
    name, span = node.id, reader.python.span(node)
    if name in reader.iterators:
        return syntax.Name(reader.iterators[name].iterator, span=span), WEAK_INT
    if name in reader.unrolled:
        expr, kind = reader.unrolled[name]
        return replace(expr, span=span), kind
    if id(node) in reader.webs.after_loop:
        _after_loop(reader, node)
    web = reader.webs.of_use.get(id(node))
    if web is not None:
        kind = web.kind
        if id(node) in reader.webs.at_start and web.start != kind:
            kind = either(web.start, kind)
        return syntax.Name(web.spoken or name, span=span), kind
    if name in reader.values:
        expr, kind = reader.values[name]
        return replace(expr, span=span), kind
    if name in reader.scalars:
        return syntax.Name(name, span=span), reader.scalars[name]
    if name in reader.arrays:
        whole_array(reader, node)
    if name in reader.loop_names:
        _after_loop(reader, node)
    if name in reader.locals or name in reader.created_names:
        unassigned(reader, node)
    return outer_value(reader, node, reader.python.find(name))


def _after_loop(reader: Reader, node: ast.Name) -> NoReturn:
    reader.python.refuse(
        "iterator-after-loop",
        f"`{node.id}` has no value here: its loop is over",
        node,
        f"use what it ends with, such as `n - 1`, or assign it inside the loop: `last = {node.id}`",
    )


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
        f"give it one before: `{node.id} = {_like(reader, node.id)}`",
        notes=("a loop may run no times, and a branch may not be taken",),
    )


def _like(reader: Reader, name: str) -> str:
    """A number of the kind that a local is set to, as far as the text shows it."""
    values = [
        node.value
        for node in ast.walk(reader.python.tree)
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
    ]
    match values[:1]:
        case [ast.Constant(value=bool())] | [ast.Compare()] | [ast.UnaryOp(op=ast.Not())]:
            return "False"
        case [ast.Constant(value=int())]:
            return "0"
        case [ast.Name(id=value)] if value in reader.loop_names:
            return "0"
        case _:
            return "0.0"


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
            f"subscript it: `{text}[0]`",
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
    if found is MISSING and isinstance(node.value, ast.Call):
        found = limit_of_a_type(reader, node.value, node.attr)
    if found is MISSING:
        computed = any(isinstance(part, (ast.Call, ast.Subscript)) for part in ast.walk(node))
        python.refuse(
            "undefined-name",
            f"`{python.text(node)}` is not known in a kernel" if computed else f"`{python.text(node)}` is not defined",
            node,
            "compute it before the call, and pass it" if computed else "check the spelling",
        )
    return outer_value(reader, node, found)


def limit_of_a_type(reader: Reader, node: ast.Call, attribute: str) -> Any:
    """`np.finfo(x.dtype).eps`, `np.iinfo(np.int32).max`; MISSING where it is nothing of these."""
    function = resolve(reader, node.func)
    if function not in (np.finfo, np.iinfo) or len(node.args) != 1 or node.keywords:
        return MISSING
    dtype = named_dtype(reader, node.args[0])
    if dtype is None or dtype in (DType.BF16, DType.BOOL) or dtype.is_float is not (function is np.finfo):
        return MISSING
    return getattr(function(dtype.numpy_name), attribute, MISSING)


def named_dtype(reader: Reader, node: ast.expr) -> DType | None:
    """The element type that an expression names: an array's `dtype`, a text, a type of NumPy's; else None."""
    match node:
        case ast.Attribute(attr="dtype", value=ast.Name(id=name)) if name in reader.arrays:
            return reader.arrays[name].dtype
        case ast.Constant(value=str(text)):
            return words.dtype_of(text)
        case _:
            found = resolve(reader, node)
            return None if found is MISSING else words.dtype_of(found)


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
    if op == "not":
        return read_condition(reader, node), PYTHON_BOOL
    inner, kind = reader.read(operand)
    result = syntax.Unary(op, inner, span=reader.python.span(node))
    if op == "~" and kind is not None and kind.dtype is DType.BOOL and kind.among:
        text = reader.python.text(operand)
        reader.python.refuse(
            "inverted-bool",
            f"`{text}` is a Python bool: `~` of it is -1 or -2, which are both true",
            node,
            f"write `not {text}`" if isinstance(operand, ast.Name) else f"write `not ({text})`",
        )
    if kind is not None and kind.value is not None and op in "+-" and kind.dtype is not DType.BOOL:
        return result, replace(kind, value=-kind.value if op == "-" else kind.value)
    if kind is None:
        return result, None
    made, good = unary(op, kind)
    if not good:
        refuse_mix(reader, (inner, kind))
    return result, made


def combine(reader: Reader, op: str, left: Typed, right: Typed, node: ast.AST) -> Typed:
    """`left op right`."""
    span = reader.python.span(node)
    if op in ("+", "-", "*"):
        left, right = counted(left, right), counted(right, left)
    kind, exact = arithmetic(op, left[1], right[1])
    if not exact:
        refuse_mix(reader, left if left[1] and (left[1].among or left[1].loose) else right)
    if op in "&|^" and all(one[1] is not None and one[1].dtype is DType.BOOL for one in (left, right)):
        python = {one[1] and one[1].among for one in (left, right)} == {PYTHON_BOOL.among}
        kind = PYTHON_BOOL if python else BOOL
    plain = common(left[1], right[1])
    if op == "/" and plain is not None and plain.dtype.is_integer:  # converted by the operation
        return syntax.Binary(op, left[0], right[0], span=span), kind
    return syntax.Binary(op, *in_one_type(kind, left, right), span=span), kind


def in_one_type(kind: Kind | None, left: Typed, right: Typed) -> tuple[syntax.Expr, syntax.Expr]:
    """Operands of what NumPy does in one type on all paths, in that: what may be an integer of Python's is
    kept in a wider one."""
    both = common(left[1], right[1])
    if both is None or kind is None or kind.weak or kind.among or both.dtype is kind.dtype:
        return left[0], right[0]
    one, other = (
        expr if typed is None or typed.weak or typed.dtype is kind.dtype else syntax.Call(kind.dtype.value, (expr,), span=expr.span)
        for expr, typed in (left, right)
    )
    return one, other


def counted(operand: Typed, other: Typed) -> Typed:
    """A bool beside a number counts as 0 or 1, of the number's type (a Python bool as a Python
    number)."""
    expr, kind = operand
    beside = other[1]
    if kind is None or beside is None or kind.dtype is not DType.BOOL or beside.dtype is DType.BOOL:
        return operand
    if kind.among or isinstance(expr, syntax.Number):
        numbers = (syntax.Number(1, span=expr.span), syntax.Number(0, span=expr.span))
        # Of what may be NumPy's bool, too, beside a Python number, NumPy makes its own.
        of_numpy = bool(kind.among) and kind.among != PYTHON_BOOL.among and beside.weak
        made = either(WEAK_INT, Kind(beside.dtype)) if of_numpy else WEAK_INT
        return syntax.Conditional(expr, *numbers, span=expr.span), made
    # Beside what may be a Python number, NumPy's bool makes it NumPy's.
    among = frozenset({(DType.BOOL, False)}) if beside.among else frozenset[Form]()
    return syntax.Call(beside.dtype.value, (expr,), span=expr.span), Kind(beside.dtype, among=among)


def one_of(reader: Reader, span: Span, *parts: Typed) -> tuple[tuple[syntax.Expr, ...], Kind | None]:
    """(values of which one is taken, in a type that holds each; its kind). `span`: of what takes it."""
    exprs, kinds = tuple(part[0] for part in parts), [part[1] for part in parts]
    kind = functools.reduce(either, kinds)
    plain = functools.reduce(common, kinds)
    if kind is None or plain is None or plain.weak or not plain.dtype.is_integer:
        return exprs, kind
    if is_cut(kind):
        refuse_mix(reader, (syntax.Number(0, span=span), kind))
    if kind.dtype is not plain.dtype:  # an integer of Python's, which NumPy's type may not hold
        exprs = tuple(syntax.Call(kind.dtype.value, (one,), span=one.span) for one in exprs)
    return exprs, kind


def refuse_mix(reader: Reader, mixed: Typed) -> NoReturn:
    """Refuse an operation whose type, or bits, depend on which value `mixed` has."""
    expr, kind = mixed
    span = expr.span
    text = reader.python.source.line(span.line)[span.column - 1 : span.end_column - 1]
    assert kind is not None
    typed = sorted(dtype.value for dtype, weak in kind.forms if not weak)
    python = sorted("int" if dtype.is_integer else "float" for dtype, weak in kind.forms if weak)
    names = [*(f"an {one}" if one[0] in "fi" else f"a {one}" for one in typed), *(f"a Python {one}" for one in python)]
    fix, marks = "convert each value that it may have to one type", ()
    if kind.place is not None and kind.place.line == kind.place.end_line:
        line = reader.python.source.line(kind.place.line)
        number = line[kind.place.column - 1 : kind.place.end_column - 1]
        fix = f"write `{_CASTS.get(typed[0], 'np.float32') if typed else 'np.float64'}({number})`"
        marks = ((kind.place, "the Python number"),) if kind.place != span else ()
    reader.python.refuse(
        "weak-mix",
        f"`{text}` is {' or '.join(names)}, and what is done with it depends on which",
        span,
        fix,
        labels=marks,
        notes=("arithmetic of two Python numbers is done in f64, or in integers without limit",),
    )


_CASTS = {dtype.value: f"np.{dtype.numpy_name}" for dtype in DType}


def widened(reader: Reader, value: Typed, dtype: DType) -> Typed:
    """`value` where it becomes a `dtype`; refused where a Python number in it would be seen whole."""
    kind = value[1]
    if kind is not None and kind.loose == ANY and dtype in (DType.F64, DType.F32) and dtype is not kind.dtype:
        refuse_mix(reader, value)
    return value


def whole_number(reader: Reader, node: ast.expr, what: str) -> syntax.Expr:
    """An expression that must be an integer: a subscript, bound or extent."""
    if isinstance(node, ast.Slice):
        pyfunc_refuse.expression(reader.python, node)
    expr, kind = reader.read(node)
    if kind is not None and kind.dtype.is_float:
        reader.python.refuse(
            "float-index",
            f"a {what} must be an integer, but `{reader.python.text(node)}` is a float",
            node,
            "use `//` instead of `/`"
            if any(isinstance(part, ast.Div) for part in ast.walk(node))
            else f"write `int({reader.python.text(node)})`",
        )
    return expr


__all__ = ["combine", "common", "resolve", "whole_number"]
