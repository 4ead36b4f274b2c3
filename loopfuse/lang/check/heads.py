"""Elaborates what stands before the statements: constants, functions on their own, parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from loopfuse.base.diagnostics import Label, LoopfuseError, Span
from loopfuse.base.dtypes import DType
from loopfuse.lang.check.calls import function_value, inside
from loopfuse.lang.check.context import Context, Poisoned, Report
from loopfuse.lang.check.elaborate import elaborate
from loopfuse.lang.check.extents import check_extents
from loopfuse.lang.check.folding import fold_constant
from loopfuse.lang.check.indices import to_index
from loopfuse.lang.check.scope import (
    ArrayEntry,
    Globals,
    PoisonEntry,
    Scope,
    TableEntry,
    ValueEntry,
)
from loopfuse.lang.check.typing import Value
from loopfuse.lang.check.unroll import names_in, walk
from loopfuse.lang.nodes import ArrayParam, Const, Expr, ScalarParam, Symbol
from loopfuse.lang.surface import syntax

# -------------------------------------------------------------------------------- constants


def declare_constant(context: Context, const: syntax.Const) -> None:
    """Declare a `const`: a number, or a table of them."""
    if const.extents is None and not isinstance(const.values, tuple):
        value = _constant(context, const.values, const)
        context.define(const.name, ValueEntry(value, "constant", const.span))
        return
    values: list[Value] = []
    shape = _table(context, const, const.values, values)
    if const.extents is not None:
        wanted = tuple(_extent(context, part) for part in const.extents)
        if wanted != shape:
            context.fail(
                "table-shape",
                f"`{const.name}` is declared {_brackets(wanted)}, but its values are "
                f"{_brackets(shape)}",
                const.span,
                fix=f"declare it `{_brackets(shape)}`",
            )
    if len({value.dtype for value in values}) > 1:
        # A table without a type that mixes 1 and 0.5 holds floats.
        values = [Value(context.convert(v, DType.F64, const.span), v.weak) for v in values]
    context.define(const.name, TableEntry(shape, tuple(values), const.span))


def _brackets(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(str(extent) for extent in shape) + "]"


def _extent(context: Context, expr: syntax.Expr) -> int:
    value = to_index(context, context.elaborate(expr), "extent", expr.span)
    if not isinstance(value, Const):
        _not_constant(context, expr)
        return 0
    return int(value.value)


def _table(
    context: Context, const: syntax.Const, values: object, out: list[Value]
) -> tuple[int, ...]:
    """Appends the elements of nested tuples to `out`; gives the table's shape."""
    if not isinstance(values, tuple):
        assert isinstance(values, syntax.Node)
        out.append(_constant(context, values, const))  # pyright: ignore[reportArgumentType]
        return ()
    shapes = [_table(context, const, part, out) for part in values]
    if len(set(shapes)) > 1:
        context.fail(
            "table-shape",
            f"the rows of `{const.name}` differ in length",
            const.span,
            fix="give every row the same number of values",
        )
    return (len(shapes), *(shapes[0] if shapes else ()))


def _constant(context: Context, expr: syntax.Expr, const: syntax.Const) -> Value:
    value = context.elaborate(expr)
    folded = fold_constant(value.expr)
    if folded is None or context.hoists:
        _not_constant(context, expr)
        raise Poisoned
    value = Value(folded, value.weak)
    if const.dtype is None:
        return value
    return Value(context.assign(value, const.dtype, expr.span, const.name))


def _not_constant(context: Context, expr: syntax.Expr) -> None:
    context.fail(
        "not-constant",
        f"`{context.text(expr.span)}` is not a constant",
        expr.span,
        fix="use numbers, earlier constants and arithmetic",
    )


# -------------------------------------------------------------------------------- functions


def check_function(context: Context, function: syntax.Func) -> None:
    """Elaborate a `func` on its own, so that its errors are told once and even if nobody calls
    it."""
    scope = Scope(context.module.scope)
    for param in function.params:
        if param.extents is not None:
            context.limit(
                "func-array-parameter",
                f"the parameter `{param.name}` of a `func` cannot be an array yet",
                param.span,
                fix="pass the elements it needs, as numbers",
            )
        if param.mode != "in":
            _scalar_mode(context, param)
        value = Value(Symbol(param.name, param.dtype, span=param.span), param.weak)
        with _scope(context, scope):
            context.define(param.name, ValueEntry(value, "argument", param.span))
    with inside(context, function, scope):
        function_value(context, function)


class _scope:
    """Makes `scope` the context's for a block."""

    def __init__(self, context: Context, scope: Scope) -> None:
        self.context, self.scope, self.outer = context, scope, context.scope

    def __enter__(self) -> None:
        self.context.scope = self.scope

    def __exit__(self, *_: object) -> None:
        self.context.scope = self.outer


def _scalar_mode(context: Context, param: syntax.Param) -> None:
    context.fail(
        "scalar-mode",
        f"`{param.name}` is a number, which cannot be `{param.mode}`",
        param.span,
        fix=f"make it an array: `{param.mode} {param.name}: {param.dtype.value}[1]`",
    )


# -------------------------------------------------------------------------------- parameters


MAX_PARAMETERS = 1000
"""The most parameters of a kernel. (A GPU launch takes 4 kB of arguments, some 500 of them.)"""


def declare_parameters(
    context: Context, kernel: syntax.Kernel, constants: Mapping[str, int]
) -> tuple[tuple[ArrayParam | ScalarParam, ...], tuple[str, ...]]:
    """Declare a kernel's parameters and sizes; gives the core's parameters and size names."""
    if len(kernel.params) > MAX_PARAMETERS:
        context.limit(
            "kernel-too-large",
            f"this kernel has more than {MAX_PARAMETERS} parameters",
            kernel.params[MAX_PARAMETERS].span,
            fix="gather arrays of one shape in one array of higher rank",
        )
    named = {param.name for param in kernel.params}
    in_extents = list(dict.fromkeys(
        name
        for param in kernel.params
        for part in param.extents or ()
        for name in sorted(names_in(part), key=lambda n, p=part: _position(n, p))
    ))  # fmt: skip
    sizes: list[str] = []
    for name in in_extents:
        if name not in named and context.module.scope.find(name) is None:
            sizes.append(name)
            span = next(p.span for p in kernel.params if p.extents and _mentions(p, name))
            symbol = Value(Symbol(name, DType.I64, span=span), weak=True)
            context.scope.entries[name] = ValueEntry(symbol, "size", span)
            context.names.taken.add(name)
    # Scalars first: an extent may name one that comes later.
    for param in kernel.params:
        if param.extents is None:
            _guarded(context, param, lambda p: _declare_scalar(context, p, in_extents, constants))
    out: list[ArrayParam | ScalarParam] = []
    for param in kernel.params:
        if param.extents is None:
            out.append(ScalarParam(param.name, param.dtype, param.is_const, span=param.span))
        else:
            declared = _guarded(context, param, lambda p: _declare_array(context, p))
            if isinstance(declared, ArrayParam):
                out.append(declared)
    if len(out) == len(kernel.params):
        _check_determined(context, kernel, tuple(sizes), out)
    return tuple(out), tuple(sizes)


def _position(name: str, expr: syntax.Expr) -> tuple[int, int]:
    spans = [n.span for n in walk(expr) if isinstance(n, syntax.Name) and n.name == name]
    return (spans[0].line, spans[0].column)


def _mentions(param: syntax.Param, name: str) -> bool:
    return any(name in names_in(part) for part in param.extents or ())


def _guarded(
    context: Context,
    param: syntax.Param,
    declare: Callable[[syntax.Param], ArrayParam | None],
) -> ArrayParam | None:
    """Declare one parameter; if it is wrong, its name is poisoned and the others go on."""
    try:
        return declare(param)
    except LoopfuseError as error:
        context.report.add(error)
    except Poisoned:
        pass
    context.scope.entries.setdefault(param.name, PoisonEntry(param.span))
    return None


def _declare_scalar(
    context: Context, param: syntax.Param, in_extents: list[str], constants: Mapping[str, int]
) -> None:
    if param.mode != "in":
        _scalar_mode(context, param)
    expr: Expr = Symbol(param.name, param.dtype, span=param.span)
    if param.is_const and param.name in constants:
        raw = Value(Const(constants[param.name], DType.I64, span=param.span), weak=True)
        expr = context.convert(raw, param.dtype, param.span)
    # A parameter that is an array's extent is a size, and sizes are weak.
    weak = param.weak or (param.name in in_extents and param.dtype is DType.I64)
    context.define(param.name, ValueEntry(Value(expr, weak), "parameter", param.span))
    context.names.taken.add(param.name)


def _declare_array(context: Context, param: syntax.Param) -> ArrayParam:
    assert param.extents is not None
    if param.is_const:
        context.fail(
            "const-array",
            f"`{param.name}` is an array, and only numbers can be `const` parameters",
            param.span,
            fix="write the table as a `const` of the file, or drop `const`",
        )
    extents = check_extents(context, param.name, param.extents)
    context.names.taken.add(param.name)
    entry = ArrayEntry(param.name, param.dtype, extents, param.mode, 0, param.span)
    context.define(param.name, entry)
    context.declared.append((param.name, param.name, param.span))
    return ArrayParam(param.name, param.dtype, extents, param.mode, span=param.span)


def _check_determined(
    context: Context,
    kernel: syntax.Kernel,
    sizes: tuple[str, ...],
    params: list[ArrayParam | ScalarParam],
) -> None:
    """Each size stands alone in some extent, so that the arguments' shapes tell it."""
    alone = {
        extent.name
        for param in params
        if isinstance(param, ArrayParam)
        for extent in param.extents
        if isinstance(extent, Symbol)
    }
    for name in sizes:
        if name not in alone:
            param = next(p for p in kernel.params if _mentions(p, name))
            try:
                context.fail(
                    "size-not-determined",
                    f"the size `{name}` stands alone in no extent",
                    param.span,
                    label="used here",
                    fix=f"give it by name: add the parameter `{name}: i64`",
                )
            except LoopfuseError as error:
                context.report.add(error)


def new_globals(module: syntax.Module, report: Report) -> Globals:
    """Declare a module's functions and constants; what is wrong is reported."""
    functions = {item.name: item for item in module.items if isinstance(item, syntax.Func)}
    kernels = frozenset(kernel.name for kernel in module.kernels)
    shared = Globals(Scope(), functions, kernels, set())
    context = Context(report, shared, elaborate, scope=shared.scope)
    seen: dict[str, syntax.Node] = {}
    for item in module.items:
        try:
            # Two constants of one name are told where the second is declared, below.
            both = isinstance(item, syntax.Const) and isinstance(seen.get(item.name), syntax.Const)
            if item.name in seen and not both:
                context.fail(
                    "duplicate-name",
                    f"there are two definitions of `{item.name}`",
                    _first_line(item),
                    labels=[Label(_first_line(seen[item.name]), "the first one")],
                    fix=f"rename one, such as `{item.name}2`",
                )
            seen.setdefault(item.name, item)
            if isinstance(item, syntax.Const):
                declare_constant(context, item)
        except (LoopfuseError, Poisoned) as error:
            if isinstance(error, LoopfuseError):
                report.add(error)
            if isinstance(item, syntax.Const):
                shared.scope.entries.setdefault(item.name, PoisonEntry(item.span))
    return shared


def _first_line(item: syntax.Node) -> Span:
    if isinstance(item, syntax.Kernel) and item.name_span.line:
        return item.name_span
    return item.span
