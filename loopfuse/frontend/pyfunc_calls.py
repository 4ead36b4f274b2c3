"""Reads calls: math functions, casts, `min` and `max`, and helper functions."""

from __future__ import annotations

import ast
from types import FunctionType
from typing import Any

from loopfuse.base.dtypes import DType
from loopfuse.frontend import pyfunc_expr, pyfunc_helpers, pyfunc_refuse
from loopfuse.frontend import pyfunc_vocabulary as words
from loopfuse.frontend.pyfunc_context import Reader, Typed
from loopfuse.frontend.pyfunc_source import MISSING, unwrap
from loopfuse.frontend.pyfunc_types import (
    BOOL,
    WEAK_FLOAT,
    WEAK_INT,
    Kind,
    either,
)
from loopfuse.lang import syntax


def read_call(reader: Reader, node: ast.Call) -> Typed:
    """A call inside an expression."""
    python = reader.python
    if _is_array_method(reader, node):
        return _refuse_method(reader, node)
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
        if isinstance(node.func, ast.Attribute):
            python.refuse(
                "unknown-call",
                f"`{text}` is not a function that a kernel can call",
                node.func,
                "use `math` and `np` functions of numbers, or a function of your own",
            )
        python.refuse("undefined-name", f"`{text}` is not defined", node.func, "check the spelling")
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
    plain = unwrap(function)
    if isinstance(plain, FunctionType) and not _is_foreign(plain):
        return pyfunc_helpers.call_helper(reader, node, plain)
    return _refuse_function(reader, node, function)


def _known_function(
    reader: Reader, node: ast.Call, function: Any, span: Any
) -> Typed | None:
    lookup = words.lookup
    if name := lookup(words.NUMPY_FUNCTIONS, function):
        ((argument, kind),) = _arguments(reader, node, 1)
        return _numpy_call(name, argument, kind, span)
    if name := lookup(words.MATH_FUNCTIONS, function):
        ((argument, kind),) = _arguments(reader, node, 1)
        wide = syntax.Call("python.float", (argument,), span=span)
        called = syntax.Call(name, (wide,), span=span)
        return syntax.Call("python.float", (called,), span=span), WEAK_FLOAT
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
        return _extreme(reader, node, name, parts, numpy=True)
    if name := lookup(words.PYTHON_EXTREMES, function):
        if len(node.args) < 2 or node.keywords:
            reader.python.refuse(
                "python-reduction",
                f"`{name}` here runs over a whole array",
                node,
                f"write the loop: {pyfunc_refuse.WHOLE_ARRAY[name]}",
            )
        parts = [pyfunc_expr.read_expression(reader, part) for part in node.args]
        return _extreme(reader, node, name, parts, numpy=False)
    match function:
        case _ if function is abs:
            ((argument, kind),) = _arguments(reader, node, 1)
            return syntax.Call("abs", (argument,), span=span), kind.plain if kind else None
        case _ if function is len:
            return _length(reader, node)
        case _ if function in words.POWERS and len(node.args) == 2:
            left, right = _arguments(reader, node, 2)
            result = pyfunc_expr.combine(reader, "**", left, right, node)
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


def _numpy_call(name: str, argument: syntax.Expr, kind: Kind | None, span: Any) -> Typed:
    """NumPy turns a Python number into an array element's type first: its functions give f64 (or
    i64) for one, not a Python number."""
    if kind is None:
        return syntax.Call(name, (argument,), span=span), None
    dtype = kind.dtype
    if dtype.is_integer and name not in ("abs", "floor", "ceil", "round", "trunc"):
        dtype = DType.F64
    if kind.weak:
        argument = syntax.Call(dtype.value, (argument,), span=span)
    return syntax.Call(name, (argument,), span=span), Kind(dtype, loose=kind.loose)


def _extreme(
    reader: Reader, node: ast.Call, name: str, parts: list[Typed], *, numpy: bool
) -> Typed:
    """`max(a, b)` gives one of its operands, a Python number perhaps; `np.maximum` converts."""
    span = reader.python.span(node)
    result, kind = parts[0]
    for part, other in parts[1:]:
        result = syntax.Call(name, (result, part), span=span)
        kind = either(kind, other)
    if numpy and kind is not None:
        if kind.weak:
            result = syntax.Call(kind.dtype.value, (result,), span=span)
        kind = Kind(kind.dtype)
    return result, kind


def _length(reader: Reader, node: ast.Call) -> Typed:
    if len(node.args) == 1 and isinstance(node.args[0], ast.Name):
        array = reader.arrays.get(node.args[0].id)
        if array is not None:
            extent = array.extents[0]
            kind = WEAK_INT
            return extent, kind
    found = pyfunc_expr.resolve(reader, node.args[0]) if node.args else MISSING
    if isinstance(found, (tuple, list)):
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
        python.refuse(
            "call-arguments",
            f"`{python.text(node.func)}` takes {count} number{'s' * (count != 1)} here, not "
            f"{len(node.args)}",
            node,
            "pass the numbers it needs",
        )
    return [pyfunc_expr.read_expression(reader, part) for part in node.args]


# -------------------------------------------------------------------------------------- casts


def _cast(function: Any) -> DType | None:
    if isinstance(function, type) or str(type(function).__name__) == "dtype":
        return words.dtype_of(function)
    return None


def _read_cast(reader: Reader, node: ast.Call, function: Any, dtype: DType) -> Typed:
    ((argument, _kind),) = _arguments(reader, node, 1)
    span = reader.python.span(node)
    if function is int:
        return syntax.Call("python.int", (argument,), span=span), WEAK_INT
    if function is float:
        return syntax.Call("python.float", (argument,), span=span), WEAK_FLOAT
    if function is bool:
        return syntax.Call("bool", (argument,), span=span), BOOL
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


# ----------------------------------------------------------------------------------- refusals


def _is_array_method(reader: Reader, node: ast.Call) -> bool:
    function = node.func
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, (ast.Name, ast.Subscript))
        and (
            (isinstance(function.value, ast.Name) and function.value.id in reader.arrays)
            or (isinstance(function.value, ast.Subscript) and _base(function.value) in reader.arrays)
        )
    )


def _base(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _refuse_method(reader: Reader, node: ast.Call) -> Typed:
    assert isinstance(node.func, ast.Attribute)
    fixes = {
        "copy": "`np.empty_like(x)`, and a loop that assigns its elements",
        "astype": "a cast of each element: `np.float32(x[i])`",
        "fill": "a loop that assigns its elements",
        "item": "the element itself: `x[0]`",
        **pyfunc_refuse.WHOLE_ARRAY,
    }
    fix = fixes.get(node.func.attr, "a loop over its elements")
    reader.python.refuse(
        "array-method",
        f"`{reader.python.text(node.func)}` works on a whole array",
        node,
        f"write {fix}",
    )


def _is_foreign(function: FunctionType) -> bool:
    """Part of NumPy or the standard library: its source is no kernel code."""
    module = (function.__module__ or "").split(".")[0]
    return module in ("numpy", "math", "builtins", "scipy", "torch", "cupy", "functools", "loopfuse")


def _refuse_function(reader: Reader, node: ast.Call, function: Any) -> Typed:
    python, text = reader.python, reader.python.text(node.func)
    if fix := words.lookup(words.PYTHON_REDUCTIONS, function):
        python.refuse(
            "python-reduction", f"`{text}` runs over many values", node, f"write the loop: {fix}"
        )
    if words.lookup(words.CREATIONS, function):
        python.refuse(
            "array-in-expression",
            f"`{text}` creates an array, which must have a name",
            node,
            f"assign it on a line of its own: `t = {python.text(node)}`",
        )
    if fix := words.lookup(words.LOOPS, function):
        python.refuse(
            "loop-over-elements", f"`{text}` is not a number", node, f"write {fix}"
        )
    name = getattr(function, "__name__", "")
    if name in pyfunc_refuse.WHOLE_ARRAY:
        python.refuse(
            "whole-array-function",
            f"`{text}` works on whole arrays, which is not compiled yet",
            node,
            f"write {pyfunc_refuse.WHOLE_ARRAY[name]}",
        )
    if isinstance(function, type):
        python.refuse(
            "unknown-call",
            f"a kernel cannot make a `{text}`",
            node.func,
            "use arrays and numbers",
        )
    python.refuse(
        "unknown-call",
        f"`{text}` is not a function that a kernel can call",
        node.func,
        "use `math` and `np` functions of numbers, or a function of your own",
    )
