"""Reads calls: math functions, casts, `min` and `max`, and helper functions."""

from __future__ import annotations

import ast
import math
from contextlib import suppress
from types import FunctionType
from typing import Any

import numpy as np

from loopfuse.base.dtypes import DType
from loopfuse.frontend.python import (
    expr as pyfunc_expr,
)
from loopfuse.frontend.python import (
    helpers as pyfunc_helpers,
)
from loopfuse.frontend.python import (
    numpy as pyfunc_numpy,
)
from loopfuse.frontend.python import (
    operators as pyfunc_operators,
)
from loopfuse.frontend.python import (
    refuse as pyfunc_refuse,
)
from loopfuse.frontend.python import (
    unknown as pyfunc_unknown,
)
from loopfuse.frontend.python import vocabulary as words
from loopfuse.frontend.python.context import Reader, Typed
from loopfuse.frontend.python.source import MISSING, callee
from loopfuse.frontend.python.subscripts import parts_of
from loopfuse.frontend.python.types import (
    BOOL,
    PYTHON_BOOL,
    WEAK_FLOAT,
    WEAK_INT,
    Kind,
    unary,
)
from loopfuse.lang.surface import syntax


def read_call(reader: Reader, node: ast.Call) -> Typed:
    """A call inside an expression."""
    python = reader.python
    if pyfunc_unknown.is_array_method(reader, node):
        return _element_method(reader, node) or pyfunc_unknown.refuse_method(reader, node)
    cast = _cast_to_dtype_of(reader, node)
    if cast is not None:
        (argument,) = _arguments(reader, node, 1)
        return syntax.Call(cast.value, (argument[0],), span=python.span(node)), Kind(cast)
    function = pyfunc_expr.resolve(reader, node.func)
    text = python.text(node.func)
    if function is MISSING:
        if isinstance(node.func, ast.Name) and (
            node.func.id in reader.locals or node.func.id in reader.scalars
        ):
            python.refuse(
                "call-of-value", f"`{text}` is a number, not a function", node, "for a product write `*`"
            )
        pyfunc_unknown.refuse_name(reader, node)
    span = python.span(node)
    known = _known_function(reader, node, function, span)
    if known is not None:
        return known
    if (dtype := _cast(function)) is not None:
        return _read_cast(reader, node, function, dtype)
    if hasattr(function, "__loopfuse_kernel__"):
        python.refuse(
            "kernel-in-kernel",
            f"`{text}` is a kernel; a kernel can call only plain functions of numbers",
            node.func,
            "move what both need into a function without the decorator",
        )
    plain = callee(function)
    if isinstance(plain, FunctionType) and not pyfunc_unknown.is_foreign(plain):
        return pyfunc_helpers.call_helper(reader, node, plain)
    return pyfunc_unknown.refuse_function(reader, node, function)


def _known_function(
    reader: Reader, node: ast.Call, function: Any, span: Any
) -> Typed | None:
    lookup = words.lookup
    if name := lookup(words.NUMPY_FUNCTIONS, function):
        (argument,) = _arguments(reader, node, 1)
        return pyfunc_numpy.call(reader, node, function, name, argument)
    if meaning := lookup(words.NUMPY_OPERATORS, function):
        parts = _arguments(reader, node, 1 + ("y" in meaning))
        if len(parts) == 1:
            return pyfunc_operators.of_one(reader, node, function, meaning, parts[0])
        return pyfunc_operators.of_two(reader, node, function, meaning, parts)
    if function in words.MATH_ANGLES:
        return pyfunc_operators.python_angle(reader, node, function, _arguments(reader, node, 1)[0])
    if function is math.log and len(node.args) == 2:
        return _log_of_base(reader, node)
    if name := lookup(words.MATH_FUNCTIONS, function):
        ((argument, kind),) = _arguments(reader, node, 1)
        pyfunc_expr.widened(reader, (argument, kind), DType.F64)
        wide = syntax.Call("python.float", (argument,), span=span)
        called = syntax.Call(name, (wide,), span=span)
        return syntax.Call("python.float", (called,), span=span), WEAK_FLOAT
    if name := lookup(words.NUMPY_PAIRS, function):
        return pyfunc_numpy.pair(reader, node, function, name, _arguments(reader, node, 2))
    if name := lookup(words.MATH_PAIRS, function):
        wide = (
            syntax.Call("python.float", (part,), span=span)
            for part, _ in _arguments(reader, node, 2)
        )
        called = syntax.Call(name, tuple(wide), span=span)
        return syntax.Call("python.float", (called,), span=span), WEAK_FLOAT
    if name := lookup(words.TESTS, function):
        ((argument, _),) = _arguments(reader, node, 1)
        return syntax.Call(name, (argument,), span=span), BOOL
    if function is words.CLIP:
        return _clip(reader, node)
    if words.MATH_FMA is not None and function is words.MATH_FMA:
        parts = tuple(
            syntax.Call("python.float", (part,), span=span)
            for part, _ in _arguments(reader, node, 3)
        )
        called = syntax.Call("fma", parts, span=span)
        return syntax.Call("python.float", (called,), span=span), WEAK_FLOAT
    if name := lookup(words.WHOLE_FUNCTIONS, function):
        ((argument, kind),) = _arguments(reader, node, 1)
        called = syntax.Call(name, (argument,), span=span)
        return syntax.Call("python.int", (called,), span=span), WEAK_INT
    if name := lookup(words.NUMPY_EXTREMES, function):
        parts = _arguments(reader, node, 2)
        return pyfunc_numpy.extreme(reader, node, name, parts, numpy=True)
    if name := lookup(words.PYTHON_EXTREMES, function):
        if len(node.args) < 2 or node.keywords:
            reader.python.refuse(
                "python-reduction",
                f"`{name}` here runs over a whole array",
                node,
                f"write the loop: {pyfunc_refuse.loop_of(name, node, pyfunc_unknown.ranks(reader))}",
            )
        parts = [reader.read(part) for part in node.args]
        return pyfunc_numpy.extreme(reader, node, name, parts, numpy=False)
    match function:
        case _ if function is abs:
            ((argument, kind),) = _arguments(reader, node, 1)
            made, good = unary("abs", kind) if kind else (None, True)
            if not good:
                pyfunc_expr.refuse_mix(reader, (argument, kind))
            return syntax.Call("abs", (argument,), span=span), made
        case _ if function is len:
            return _length(reader, node)
        case _ if function in words.POWERS and len(node.args) == 2:
            left, right = _arguments(reader, node, 2)
            result = pyfunc_expr.combine(reader, "**", left, right, node)
            if function is words.POWERS[0]:
                return pyfunc_operators.typed(reader, node, result)
            if function is words.POWERS[2]:
                wide = [syntax.Call("python.float", (part[0],)) for part in (left, right)]
                result = (syntax.Binary("**", wide[0], wide[1], span=span), WEAK_FLOAT)
            return result
        case _ if lookup(words.EDGES, function) in ("clamp", "wrap"):
            (index, _), (extent, _) = _arguments(reader, node, 2)
            if lookup(words.EDGES, function) == "wrap":
                return syntax.Binary("%", index, extent, span=span), WEAK_INT
            low = syntax.Call("max", (index, syntax.Number(0)), span=span)
            last = syntax.Binary("-", extent, syntax.Number(1), span=span)
            return syntax.Call("min", (low, last), span=span), WEAK_INT
        case _ if lookup(words.EDGES, function):
            reader.python.refuse(
                "edge-mixed",
                f"`{reader.python.text(node)}` folds a subscript, and stands only in one",
                node,
                "write it inside the brackets: `x[loopfuse.reflect(i - 1, n)]`",
            )
        case _:
            return None


def _log_of_base(reader: Reader, node: ast.Call) -> Typed:
    """`math.log(x, b)`: `math.log(x) / math.log(b)`, which is what CPython computes."""
    span = reader.python.span(node)
    logs: list[syntax.Expr] = []
    for part in _arguments(reader, node, 2):
        pyfunc_expr.widened(reader, part, DType.F64)
        wide = syntax.Call("python.float", (part[0],), span=span)
        logs.append(syntax.Call("python.float", (syntax.Call("log", (wide,), span=span),), span=span))
    return syntax.Binary("/", logs[0], logs[1], span=span), WEAK_FLOAT


def _clip(reader: Reader, node: ast.Call) -> Typed:
    """`np.clip(x, low, high)`: `np.minimum(np.maximum(x, low), high)`; an end may be None."""
    python = reader.python
    names = {"a_min": 1, "min": 1, "a_max": 2, "max": 2}
    parts: list[ast.expr | None] = [*node.args[:3], *[None] * (3 - len(node.args))]
    for keyword in node.keywords:
        place = names.get(keyword.arg or "", 0)
        if not place or parts[place] is not None:
            python.refuse(
                "call-keywords",
                f"`{python.text(node.func)}` takes no such keyword in a kernel",
                node,
                "write `np.clip(x, low, high)`",
            )
        parts[place] = keyword.value
    value, *ends = parts
    given = [
        None if end is None or (isinstance(end, ast.Constant) and end.value is None) else end
        for end in ends
    ]
    if value is None or len(node.args) > 3 or not any(given):
        python.refuse(
            "call-arguments",
            f"`{python.text(node.func)}` takes a number and its two bounds",
            node,
            "write `np.clip(x, low, high)`",
        )
    result = reader.read(value)
    for end, name in zip(given, ("max", "min")):
        if end is not None:
            other = reader.read(end)
            result = pyfunc_numpy.extreme(reader, node, name, [result, other], numpy=True)
    return result


def _length(reader: Reader, node: ast.Call) -> Typed:
    if len(node.args) == 1 and isinstance(node.args[0], ast.Name):
        array = reader.arrays.get(node.args[0].id)
        if array is not None:
            extent = array.extents[0]
            kind = WEAK_INT
            return extent, kind
    found = pyfunc_expr.resolve(reader, node.args[0]) if node.args else MISSING
    if isinstance(found, (tuple, list)) or (isinstance(found, np.ndarray) and found.ndim):
        return pyfunc_expr.number(len(found), reader, node)
    reader.python.refuse(
        "length-of-value",
        "`len` is for arrays and tables",
        node,
        "write `len(x)` of an array argument, or `x.shape[0]`",
    )


def _arguments(reader: Reader, node: ast.Call, count: int) -> list[Typed]:
    python = reader.python
    if len(node.args) != count or node.keywords:
        if node.keywords:
            python.refuse(
                "call-keywords",
                f"`{python.text(node.func)}` takes no keywords in a kernel",
                node,
                "pass the numbers in order",
            )
        text = python.text(node.func)
        python.refuse(
            "call-arguments",
            f"`{text}` takes {count} number{'s' * (count != 1)} here, not {len(node.args)}",
            node,
            _right_number(text, [python.text(part) for part in node.args], count),
        )
    return [reader.read(part) for part in node.args]


def _right_number(function: str, given: list[str], count: int) -> str:
    """What to write for a call with more or fewer arguments than `count`."""
    word = function.rpartition(".")[2]
    if word in ("round", "around") and len(given) == 2 and given[1] != "0":
        return f"write `np.rint({given[0]} * 10.0 ** {given[1]}) / 10.0 ** {given[1]}`"
    if word in ("hypot", "maximum", "minimum", "fmax", "fmin") and len(given) > count:
        nested = given[0]
        for one in given[1:]:
            nested = f"{function}({nested}, {one})"
        return f"write `{nested}`"
    if word == "hypot" and len(given) == 1:
        return f"write `abs({given[0]})`"
    return "pass the numbers it needs"


# -------------------------------------------------------------------------------------- casts


def _cast(function: Any) -> DType | None:
    if isinstance(function, type) or str(type(function).__name__) == "dtype":
        return words.dtype_of(function)
    return None


def _read_cast(reader: Reader, node: ast.Call, function: Any, dtype: DType) -> Typed:
    match node.args:
        case [ast.Constant(value=str(text))] if function is float:  # float("-inf")
            with suppress(ValueError):
                return pyfunc_expr.number(float(text), reader, node)
        case _:
            pass
    ((argument, kind),) = _arguments(reader, node, 1)
    span = reader.python.span(node)
    if function is float or dtype in (DType.F64, DType.F32):
        pyfunc_expr.widened(reader, (argument, kind), DType.F64 if function is float else dtype)
    if function is int:
        return syntax.Call("python.int", (argument,), span=span), WEAK_INT
    if function is float:
        return syntax.Call("python.float", (argument,), span=span), WEAK_FLOAT
    if function is bool:
        return syntax.Call("bool", (argument,), span=span), PYTHON_BOOL
    return syntax.Call(dtype.value, (argument,), span=span), Kind(dtype)


def _cast_to_dtype_of(reader: Reader, node: ast.Call) -> DType | None:
    """`x.dtype.type(e)`: a cast to the type of an array's elements."""
    match node.func:
        case ast.Attribute(
            attr="type", value=ast.Attribute(attr="dtype", value=ast.Name(id=name))
        ) if name in reader.arrays:
            return reader.arrays[name].dtype
        case _:
            return None


# ------------------------------------------------------------------------------------ methods


def _element_method(reader: Reader, node: ast.Call) -> Typed | None:
    """`x[i].astype(np.int32)` and `x[i].item()` of an element."""
    match node:
        case ast.Call(func=ast.Attribute(attr="astype", value=ast.Subscript() as value), args=[to], keywords=[]):
            dtype = pyfunc_expr.named_dtype(reader, to)
        case ast.Call(func=ast.Attribute(attr="item", value=ast.Subscript() as value), args=[], keywords=[]):
            dtype = None
        case _:
            return None
    base, parts = parts_of(value)
    rank = len(reader.arrays[base.id].extents) if isinstance(base, ast.Name) else 0
    if len(parts) != rank or any(isinstance(part, ast.Slice) for part in parts):
        return None
    span = reader.python.span(node)
    argument, kind = reader.read(value)
    assert kind is not None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "item":
        if kind.dtype is DType.BOOL:
            return argument, PYTHON_BOOL
        word, weak = ("python.float", WEAK_FLOAT) if kind.dtype.is_float else ("python.int", WEAK_INT)
        return syntax.Call(word, (argument,), span=span), weak
    return None if dtype is None else (syntax.Call(dtype.value, (argument,), span=span), Kind(dtype))
