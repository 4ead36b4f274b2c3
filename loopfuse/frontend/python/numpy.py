"""NumPy's functions of numbers: which type they give is asked of the NumPy that is installed, since
the function undecorated gives that.

before:  np.sqrt(k[i])      (k: u8)          after:  sqrt(f16(k[i])), an f16
         np.arctan2(h[i], 2)  (h: i16)               atan2(f32(h[i]), 2), an f32
"""

from __future__ import annotations

import ast
import itertools
import warnings
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from loopfuse.base import annotations
from loopfuse.base.diagnostics import Span
from loopfuse.base.dtypes import DType, from_numpy_name
from loopfuse.frontend.python import expr as pyfunc_expr
from loopfuse.frontend.python.context import Reader, Typed
from loopfuse.frontend.python.types import (
    ANY,
    UNIT,
    WEAK_FLOAT,
    ZERO,
    Form,
    Kind,
    arithmetic,
    common,
    either,
    of_function,
)
from loopfuse.lang import ops
from loopfuse.lang.surface import syntax

OURS = (annotations.erf, annotations.rsqrt)
"""Functions that NumPy lacks: they give the type of what they are given, of integers a Python float."""


def call(reader: Reader, node: ast.Call, function: Any, name: str, argument: Typed) -> Typed:
    """A function of one number. A Python number becomes an f64 (or i64) first."""
    span = reader.python.span(node)
    kind = argument[1]
    expr, made = operand(reader, function, argument, span, name)
    called = syntax.Call(name, (expr,), span=span)
    if function in OURS and kind is not None and (kind.weak or kind.dtype.is_integer):
        return syntax.Call("python.float", (called,), span=span), WEAK_FLOAT
    return called, made


def operand(reader: Reader, function: Any, argument: Typed, span: Span, name: str = "") -> Typed:
    """The operand of a function of one number, in the type of what that gives."""
    expr, kind = argument
    if kind is None:
        return expr, None
    if kind.dtype is DType.BOOL:
        return expr, kind.plain  # refused, with the cast, by `check`
    given = frozenset(_given(function, (form,)) for form in kind.forms)
    made, good = of_function(kind, given)
    same = name and ops.BY_NAME[name].gives == "same"
    if same or (name == "sqrt" and kind.loose in (ZERO, UNIT)):
        made, good = replace(made, loose=kind.loose), good or bool(kind.loose)
    if not good:
        pyfunc_expr.refuse_mix(reader, argument)
    if kind.weak or kind.dtype is not made.dtype:
        expr = syntax.Call(made.dtype.value, (expr,), span=span)
    return expr, made


def pair(
    reader: Reader, node: ast.Call, function: Any, name: str, parts: list[Typed]
) -> Typed:
    """A function of two numbers."""
    span = reader.python.span(node)
    left, right = parts
    exprs = (left[0], right[0])
    if left[1] is None or right[1] is None:
        return syntax.Call(name, exprs, span=span), None
    kinds = (left[1], right[1])
    both = common(*kinds)
    assert both is not None
    if DType.BOOL in (left[1].dtype, right[1].dtype):
        return syntax.Call(name, exprs, span=span), both
    forms = itertools.product(left[1].forms, right[1].forms)
    made, good = of_function(both, frozenset(_given(function, one) for one in forms))
    loose = [one for one in kinds if one.loose]
    if not good and loose and made.dtype is both.dtype:
        made, good = replace(made, loose=ANY, place=loose[0].place), arithmetic("+", *kinds)[1]
    if not good:
        pyfunc_expr.refuse_mix(reader, left if left[1].among or left[1].loose else right)
    if made.dtype is not both.dtype or both.weak:
        exprs = tuple(syntax.Call(made.dtype.value, (one,), span=span) for one in exprs)
    return syntax.Call(name, exprs, span=span), made


@cache
def _given(function: Any, forms: tuple[Form, ...]) -> DType:
    """The type that NumPy's function gives for numbers of these types."""
    if function in OURS:
        return forms[0][0] if forms[0][0].is_float else DType.F64
    floats = [dtype for dtype, _ in forms if dtype.is_float]
    numbers: list[Any] = []
    for dtype, weak in forms:
        if dtype is DType.BF16:
            return DType.BF16 if floats == [DType.BF16] * len(floats) else DType.F32
        plain = 1.0 if dtype.is_float else 1
        numbers.append(plain if weak else np.dtype(dtype.numpy_name).type(plain))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = from_numpy_name(np.asarray(function(*numbers)).dtype.name)
    return found or DType.F64


def extreme(
    reader: Reader, node: ast.Call, name: str, parts: list[Typed], *, numpy: bool
) -> Typed:
    """`max(a, b)` gives one of its operands, a Python number perhaps; `np.maximum` converts."""
    span = reader.python.span(node)
    result, kind = parts[0]
    for part, other in parts[1:]:
        if kind is not None and other is not None and kind.dtype is other.dtype is DType.BOOL:
            # The same bits as Python's, which gives its first operand where they are equal.
            result, kind = syntax.Binary("and" if name == "min" else "or", result, part, span=span), either(kind, other)
            continue
        if numpy and kind and other and (_depends(kind) or _depends(other)):
            made = _greater(reader, node, (result, kind), (part, other))
            both, kind = pyfunc_expr.in_one_type(made, (result, kind), (part, other)), made
        elif numpy:
            both, kind = (result, part), common(kind, other)
        else:
            both, kind = pyfunc_expr.one_of(reader, span, (result, kind), (part, other))
        result = syntax.Call(name, both, span=span)
    if numpy and kind is not None:
        if kind.weak:
            result = syntax.Call(kind.dtype.value, (result,), span=span)
        kind = Kind(kind.dtype, loose=kind.loose, among=kind.among if kind.loose else frozenset(), place=kind.place)
    return result, kind


def _greater(reader: Reader, node: ast.AST, left: Typed, right: Typed) -> Kind | None:
    """The kind of what `np.maximum` makes of two of which one depends on the path. It is one of them: a Python
    number is seen whole where both are (NumPy makes an f64 of them)."""
    kinds = (left[1], right[1])
    assert kinds[0] is not None and kinds[1] is not None
    one = either(*kinds)
    given = {_given(np.maximum, forms) for forms in itertools.product(kinds[0].forms, kinds[1].forms)}
    if one is not None and one.loose and given == {one.dtype, DType.F64}:
        return replace(one, among=frozenset((dtype, False) for dtype in given), constants=None)
    made = pyfunc_expr.combine(reader, "+", left, right, node)[1]
    return made and Kind(made.dtype)


def _depends(kind: Kind | None) -> bool:
    """Its type in CPython depends on the path."""
    return kind is not None and bool(kind.loose or kind.among)
