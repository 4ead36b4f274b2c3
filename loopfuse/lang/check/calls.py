"""Elaborates calls: math functions, min and max, casts, and `func`s, which are inlined."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import NoReturn

from loopfuse.base.diagnostics import Span
from loopfuse.base.dtypes import DType
from loopfuse.lang import idioms, ops
from loopfuse.lang.check.context import Context, Poisoned, parenthesise, place
from loopfuse.lang.check.meanings import expand
from loopfuse.lang.check.operators import (
    apply_binary,
    apply_call,
    combine_values,
    refuse_bool,
)
from loopfuse.lang.check.scope import ScalarEntry, Scope, ValueEntry
from loopfuse.lang.check.typing import Value, represent_constant
from loopfuse.lang.nodes import Cast, Const, Define, Fma
from loopfuse.lang.surface import syntax

EXTREMES = ("min", "max", "fmin", "fmax")
_EXPANDED = tuple(name for name in ops.FUNCTIONS if ops.BY_NAME[name].meaning)
MATH = tuple(name for name in ops.FUNCTIONS if ops.BY_NAME[name].arity == 1 and name not in _EXPANDED)
PAIRS = tuple(
    name
    for name in ops.FUNCTIONS
    if ops.BY_NAME[name].arity == 2 and name not in (*EXTREMES, "pow", *_EXPANDED)
)
_DTYPES = {dtype.value: dtype for dtype in DType}
BUILTINS = (*ops.FUNCTIONS, *_DTYPES)


def elaborate_call(context: Context, expr: syntax.Call) -> Value:
    """`f(x, ...)`. A `func` of the module hides a built-in function of that name."""
    if expr.function in context.module.functions:
        return inline(context, expr, context.module.functions[expr.function])
    match expr.function:
        case function if function in MATH:
            (value,) = arguments(context, expr, 1)
            return apply_call(context, function, value, expr.span)
        case function if function in EXTREMES:
            return extreme(context, expr)
        case function if function in PAIRS:
            left, right = arguments(context, expr, 2)
            return pair(context, function, left, right, expr.span)
        case function if function in _EXPANDED:
            return expanded(context, expr, ops.BY_NAME[function])
        case "pow":
            base, exponent = arguments(context, expr, 2)
            return apply_binary(context, "**", base, exponent, expr.span)
        case "fma":
            return fused(context, expr)
        case "mlir.product":
            # Only the MLIR door writes it: the product of a step that is an FMA.
            left, right = arguments(context, expr, 2)
            return apply_binary(context, "*", left, right, expr.span)
        case function if function in _DTYPES:
            (value,) = arguments(context, expr, 1)
            return cast(context, value, _DTYPES[function], expr)
        case "python.int" | "python.float" as function:
            # Only the Python door writes these: `int(x)` and `float(x)` give Python numbers.
            (value,) = arguments(context, expr, 1)
            number = cast(context, value, DType.I64 if function == "python.int" else DType.F64, expr)
            return Value(number.expr, weak=True)
        case _:
            unknown(context, expr)


def unknown(context: Context, expr: syntax.Call) -> NoReturn:
    """Complain of a function nobody knows."""
    entry = context.scope.find(expr.function)
    start = expr.span
    name_span = Span(start.line, start.column, start.line, start.column + len(expr.function))
    if expr.function in context.module.kernels:
        context.fail(
            "kernel-called",
            f"`{expr.function}` is a kernel; only a `func` can be called",
            name_span,
            fix="move what both need into a `func`",
        )
    if entry is not None:
        context.fail(
            "not-a-function",
            f"`{expr.function}` is not a function",
            name_span,
            fix=f"for an element write `{expr.function}[...]`, for a product `*`",
        )
    fix = _instead(context, expr)
    context.fail(
        "unknown-function",
        f"there is no function `{expr.function}`",
        expr.span if "write `" in fix else name_span,
        fix=fix or f"write a `func {expr.function}` of numbers above the kernel",
    )


def _instead(context: Context, expr: syntax.Call) -> str:
    """What says the same as a function nobody knows; "" where nothing does."""
    name, given = expr.function, [context.text(one.span) for one in expr.arguments]
    mine = idioms.misspelt(name, context.module.functions)
    if mine:
        return f"did you mean `{mine}`?"
    if name in _OVER_RANGES:
        what, array = _OVER_RANGES[name], given[0] if len(given) == 1 and given[0].isidentifier() else "x"
        return f"over a range write `{what.replace('x[', f'{array}[')}`"
    if name.lower() in _FOREIGN:
        return f"did you mean `{_FOREIGN[name.lower()]}`?"
    if idiom := idioms.find(name):
        return idioms.write(idiom, given, lambda word: {"int": "i64"}.get(word, word))
    if name.lower() in _CASTS:
        casts = [f"`{dtype}({', '.join(given)})`" for dtype in _CASTS[name.lower()]]
        return f"write {' or '.join(casts)}"
    if name in _SPOKEN:
        return _SPOKEN[name]
    if re.fullmatch(r"(i|u|f|bf|int|uint|float)\d+", name):
        return f"the casts are {', '.join(f'`{dtype}`' for dtype in _DTYPES)}"
    near = idioms.misspelt(name, BUILTINS)
    return f"did you mean `{near}`?" if near else ""


_FOREIGN = {
    **{dtype.numpy_name: dtype.value for dtype in DType if dtype.numpy_name != dtype.value},
    "double": "f64", "half": "f16",
    **{
        word: each.name
        for each in ops.OPERATIONS
        if each.function
        for word in (*each.near, *each.numpy, *each.math)
        if word != each.name
    },
}  # fmt: skip
_CASTS = {"float": ("f32", "f64"), "int": ("i32", "i64")}
_OVER_RANGES = {
    **{word: f"{word}(k in 0..N: x[k])" for word in ("sum", "prod")},
    "mean": "sum(k in 0..N: x[k]) / N",
    "norm": "sqrt(sum(k in 0..N: x[k] * x[k]))",
    "dot": "sum(k in 0..N: x[k] * y[k])",
    **{word: f"{word}(k in 0..N: x[k] != 0)" for word in ("any", "all")},
    **{word: f"{word}(k in 0..N: x[k])" for word in ("argmin", "argmax")},
}
_SPOKEN = {
    "range": "write `a..b`",
    "print": "write the number to an `out` array: a kernel prints nothing",
    "len": "use the size that the array is declared with, such as `N`",
}


def arguments(context: Context, expr: syntax.Call, count: int) -> list[Value]:
    """The arguments, elaborated; an error unless there are `count`."""
    if len(expr.arguments) != count:
        wrong_count(context, expr, str(count), _with(expr, count, [context.text(e.span) for e in expr.arguments]))
    return [context.elaborate(argument) for argument in expr.arguments]


def _with(expr: syntax.Call, count: int, given: list[str]) -> str:
    """What to write for a call with more or fewer arguments than `count`."""
    function = expr.function
    if function == "log" and len(given) == 2:
        known = {"2": "log2", "10": "log10"}.get(given[1].removesuffix(".0"))
        return f"write `{known}({given[0]})`" if known else f"write `log({given[0]}) / log({given[1]})`"
    if function == "hypot" and len(given) > 2:
        nested = given[0]
        for one in given[1:]:
            nested = f"hypot({nested}, {one})"
        return f"write `{nested}`"
    if function == "round" and len(given) == 2:
        return f"write `round({parenthesise(given[0])} * 10.0 ** {given[1]}) / 10.0 ** {given[1]}`"
    operands = "x, low, high" if function == "clip" else ", ".join("xyz"[:count])
    return f"it is `{function}({operands})`"


def wrong_count(context: Context, expr: syntax.Call, wanted: str, fix: str = "") -> NoReturn:
    """Complain of the number of arguments."""
    given = len(expr.arguments)
    context.fail(
        "argument-count",
        f"`{expr.function}` takes {wanted} argument{'s' * (wanted != '1')}, but {given} "
        f"{'is' if given == 1 else 'are'} given",
        expr.span,
        fix=fix,
    )


def extreme(context: Context, expr: syntax.Call) -> Value:
    """`min`, `max`, `fmin`, `fmax` of two or more, folded left to right."""
    if len(expr.arguments) < 2:
        wrong_count(
            context,
            expr,
            "two or more",
            f"over a range write `{expr.function}(k in 0..N: x[k])`"
            if expr.function in ("min", "max")
            else "",
        )
    values = [context.elaborate(argument) for argument in expr.arguments]
    for value in values:
        refuse_bool(context, value, f"`{expr.function}`")
    result = values[0]
    for value in values[1:]:
        result = combine_values(context, expr.function, result, value, expr.span)
    return result


def pair(context: Context, function: str, left: Value, right: Value, span: Span) -> Value:
    """A function of two numbers of one type: of integers in f64, but for `fmod`."""
    for value in (left, right):
        refuse_bool(context, value, f"`{function}`")
    if ops.BY_NAME[function].gives == "float" and not (
        left.dtype.is_float or right.dtype.is_float
    ):
        left, right = (
            Value(context.convert(value, DType.F64, value.expr.span), value.weak)
            for value in (left, right)
        )
    return combine_values(context, function, left, right, span)


def expanded(context: Context, expr: syntax.Call, row: ops.Operation) -> Value:
    """An operation that other operations take the place of. Tests of an integer are decided: it is finite."""
    values = arguments(context, expr, row.arity)
    if row.name in ("isnan", "isinf", "isfinite") and values[0].dtype.is_integer:
        return Value(Const(row.name == "isfinite", DType.BOOL, span=expr.span))
    return expand(context, row, values, expr.span)


def fused(context: Context, expr: syntax.Call) -> Value:
    """`fma(a, b, c)`: `a*b + c` rounded once, whatever `fp` says."""
    values = arguments(context, expr, 3)
    for value in values:
        refuse_bool(context, value, "`fma`")
    product = apply_binary(context, "*", values[0], values[1], expr.span)
    total = combine_values(context, "add", product, values[2], expr.span)
    if not total.dtype.is_float:
        context.fail(
            "fma-of-integers",
            "`fma` is for floats; these operands are integers",
            expr.span,
            fix="write `a*b + c`, which is exact for integers",
        )
    a, b, c = (context.convert(value, total.dtype, value.expr.span) for value in values)
    return Value(Fma(a, b, c, total.dtype, span=expr.span), total.weak)


def cast(context: Context, value: Value, dtype: DType, expr: syntax.Call) -> Value:
    """`f32(x)`: the explicit conversion, which makes a weak value typed."""
    source = value.expr
    if isinstance(source, Const):
        return Value(Const(represent_constant(source, dtype), dtype, span=expr.span))
    if source.dtype is dtype:
        return Value(place(source, expr.span))
    return Value(Cast(source, dtype, span=expr.span))


# ------------------------------------------------------------------------------------ func


def inline(context: Context, expr: syntax.Call, function: syntax.Func) -> Value:
    """A call of a `func`: its value with the arguments in place of the parameters.

    before:  func f(a: f32) -> f32: return a * a + 1.0       y = f(x - 1)
    after:   y = (x - 1) * (x - 1) + 1.0

    Arguments and result are converted to the annotated types. A `let` inside becomes a scalar
    before the statement, so that it ends FMA contraction.
    """
    if len(expr.arguments) != len(function.params):
        signature = ", ".join(f"{param.name}: {param.dtype.value}" for param in function.params)
        wrong_count(
            context, expr, str(len(function.params)), f"it is `{expr.function}({signature})`"
        )
    if expr.function in context.inlining:
        chain = " calls ".join(f"`{name}`" for name in (*context.inlining, expr.function))
        context.fail(
            "recursive-func",
            f"`{expr.function}` calls itself",
            expr.span,
            notes=(chain,),
            fix="write the repetition as a loop in the kernel",
        )
    if expr.function in context.module.broken:
        raise Poisoned
    values = [context.elaborate(argument) for argument in expr.arguments]
    scope = Scope(context.module.scope)
    for param, value, argument in zip(function.params, values, expr.arguments, strict=True):
        converted = context.assign(value, param.dtype, argument.span, param.name)
        passed = Value(converted, param.weak and value.weak)
        scope.entries[param.name] = ValueEntry(passed, "argument", param.span)
    with inside(context, function, scope):
        result = function_value(context, function)
    context.check_size(result.expr, expr.span)
    return result


@contextmanager
def inside(context: Context, function: syntax.Func, scope: Scope) -> Generator[None, None, None]:
    """While the body of `function` is elaborated with its parameters in `scope`."""
    outer, chain = context.scope, context.inlining
    context.scope, context.inlining = scope, (*chain, function.name)
    try:
        yield
    finally:
        context.scope, context.inlining = outer, chain


def function_value(context: Context, function: syntax.Func) -> Value:
    """The result of `function`; its `let`s are hoisted."""
    for let in function.lets:
        value = context.elaborate(let.value)
        dtype = let.dtype or value.dtype
        converted = context.assign(value, dtype, let.value.span, let.name)
        core = context.names.declare(let.name)
        weak = let.dtype is None and value.weak
        entry = ScalarEntry(core, dtype, weak, False, let.name_span)
        context.define(let.name, entry)
        final = context.finish(converted)
        context.hoists.append(Define(core, dtype, final, span=let.span))
    value = context.elaborate(function.value)
    converted = context.assign(value, function.result, function.value.span, function.name)
    return Value(converted, function.weak and value.weak)
