"""Runs a kernel of the core, one scalar operation at a time: the oracle every target must equal.

The core is printed once as a Python program whose operations come from `lang.semantics`, and run
with CPython. Slow (a few microseconds a point) and simple: program order, one element at a time,
every subscript checked. Names of the core are kept in one dict (`v["x.1"]`), so no name needs
mangling; arrays are NumPy arrays in another (`a["img"]`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from loopfuse.base.diagnostics import Span
from loopfuse.base.dtypes import DType
from loopfuse.lang import semantics
from loopfuse.lang.index import evaluate_index, is_checked
from loopfuse.lang.nodes import (
    ArrayParam,
    Assume,
    Binary,
    Block,
    Call,
    Cast,
    Compare,
    Const,
    Define,
    Expr,
    Fma,
    For,
    If,
    Iter,
    Kernel,
    Load,
    Range,
    Reduce,
    Select,
    Stmt,
    Store,
    Symbol,
    Temp,
    Unary,
)
from loopfuse.lang.semantics import MathFunctions
from loopfuse.lang.surface.depth import deep_recursion

Array = npt.NDArray[Any]


class OutOfBounds(IndexError):
    """A subscript without an edge mode left its array: the call should have been refused, or the
    subscript depends on data."""


@dataclass(frozen=True, slots=True)
class Offence:
    """A data-dependent subscript outside its array: the value, of which dimension, and where. `array`
    is the one that is accessed: after a `swap`, not the one that is written there."""

    array: str
    dimension: int
    index: int
    span: Span
    writes: bool


def interpret(
    kernel: Kernel,
    arguments: Mapping[str, Any],
    sizes: Mapping[str, int] | None = None,
    *,
    math: MathFunctions | None = None,
    offences: list[Offence] | None = None,
) -> dict[str, Array]:
    """Run `kernel` and give its `out` and `inout` arrays, by name, as new arrays.

    `arguments` holds an array for each `in` and `inout` array (of the parameter's dtype) and a
    number for each scalar; an `out` array that is missing starts as zeros. `sizes` may be left
    out where the arrays' shapes tell them. Inputs are not changed. `math` replaces the default
    math functions (see `semantics.MathFunctions`). Raises OutOfBounds, or ValueError for
    arguments that do not fit.

    A data-dependent subscript outside its array reads 0 or writes nothing. The first is raised in
    the end; with `offences`, all are appended there instead.
    """
    runner = compile_kernel(kernel, math, offences)
    return runner(arguments, sizes or {})


def compile_kernel(
    kernel: Kernel, math: MathFunctions | None = None, offences: list[Offence] | None = None
) -> Callable[[Mapping[str, Any], Mapping[str, int]], dict[str, Array]]:
    """`interpret` with the kernel given: for running one kernel many times."""
    with deep_recursion():
        printer = _Printer(math or {})
        printer.function("kernel", kernel.body)
        program = compile("\n".join(printer.functions), f"<{kernel.name}>", "exec")
    exec(program, printer.globals)
    entry = printer.globals["kernel"]

    def run(arguments: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Array]:
        values, arrays = _bind(kernel, arguments, sizes)
        printer.offences.clear()
        with np.errstate(all="ignore"), deep_recursion():
            entry(values, arrays)
        if offences is not None:
            offences.extend(printer.offences)
        elif printer.offences:
            bad = printer.offences[0]
            raise OutOfBounds(
                f"line {bad.span.line}: subscript {bad.index} of dimension {bad.dimension} is "
                f"outside `{bad.array}`"
            )
        return {p.name: arrays[p.name] for p in kernel.arrays if p.mode != "in"}

    return run


def evaluator(expr: Expr) -> Callable[[Mapping[str, Any]], semantics.Scalar]:
    """`expr`, which reads no arrays, as a function of the values of its names."""
    with deep_recursion():
        printer = _Printer({})
        text = printer.expr(expr)
        functions = [*printer.functions, f"def value(v, a={{}}):\n    return {text}"]
        program = compile("\n".join(functions), "<expression>", "exec")
    exec(program, printer.globals)
    return printer.globals["value"]


def _bind(
    kernel: Kernel, arguments: Mapping[str, Any], sizes: Mapping[str, int]
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Scalars and sizes by name, and arrays by name (writable ones copied)."""
    values: dict[str, Any] = {name: int(value) for name, value in sizes.items()}
    for scalar in kernel.scalars:
        if scalar.name not in arguments and scalar.name not in values:
            raise ValueError(f"`{kernel.name}` needs a value for `{scalar.name}`")
        given = arguments.get(scalar.name, values.get(scalar.name))
        values[scalar.name] = semantics.scalar_type(scalar.dtype)(given)
    for param in kernel.arrays:
        given = arguments.get(param.name)
        if given is None:
            continue
        for extent, actual in zip(param.extents, np.shape(given), strict=False):
            if isinstance(extent, Symbol):
                values.setdefault(extent.name, int(actual))
    missing = [name for name in kernel.sizes if name not in values]
    if missing:
        raise ValueError(f"`{kernel.name}` needs the size `{missing[0]}`")
    return values, {param.name: _bind_array(param, arguments, values) for param in kernel.arrays}


def _bind_array(
    param: ArrayParam, arguments: Mapping[str, Any], values: Mapping[str, int]
) -> Array:
    shape = tuple(evaluate_index(extent, values) for extent in param.extents)
    dtype = semantics.array_dtype(param.dtype)
    given = arguments.get(param.name)
    if given is None:
        if param.mode != "out":
            raise ValueError(f"the array `{param.name}` is missing")
        return np.zeros(shape, dtype)
    array = np.asarray(given)
    if array.dtype != dtype or array.shape != shape:
        raise ValueError(
            f"`{param.name}` is {array.dtype}{list(array.shape)}, not {dtype}{list(shape)}"
        )
    return array if param.mode == "in" else array.copy()


# --------------------------------------------------------------------------------- subscripts


def _inside(index: int, extent: int) -> int:
    if 0 <= index < extent:
        return index
    raise OutOfBounds(f"subscript {index} is outside 0..{extent}")


def _clamp(index: int, extent: int) -> int:
    return max(0, min(index, extent - 1))


def _wrap(index: int, extent: int) -> int:
    return index % extent


def _reflect(index: int, extent: int) -> int:
    """NumPy's `reflect`: 2 1 | 0 1 2 3 | 2 1; an extent of 1 has only its one element."""
    if extent == 1:
        return 0
    place = index % (2 * extent - 2)
    return min(place, 2 * extent - 2 - place)


def _symmetric(index: int, extent: int) -> int:
    """NumPy's `symmetric`: 1 0 | 0 1 2 3 | 3 2."""
    place = index % (2 * extent)
    return min(place, 2 * extent - 1 - place)


_MODES: dict[str, Callable[[int, int], int]] = {
    "": _inside,
    "clamp": _clamp,
    "wrap": _wrap,
    "reflect": _reflect,
    "symmetric": _symmetric,
}


def _reader(dtype: DType, mode: str) -> Callable[[Array, tuple[int, ...]], semantics.Scalar]:
    """Reads one element as a scalar of `dtype`; the edge mode holds for every dimension."""
    kind = semantics.scalar_type(dtype)
    if mode == "zero":

        def read_or_zero(array: Array, index: tuple[int, ...]) -> semantics.Scalar:
            if all(0 <= i < n for i, n in zip(index, array.shape, strict=True)):
                return kind(array[index])
            return kind(0)

        return read_or_zero
    fit = _MODES[mode]

    def read(array: Array, index: tuple[int, ...]) -> semantics.Scalar:
        return kind(array[tuple(map(fit, index, array.shape))])

    return read


def _write(array: Array, index: tuple[int, ...], value: semantics.Scalar) -> None:
    array[tuple(map(_inside, index, array.shape))] = value


# ----------------------------------------------------------------------------------- printing

# CPython refuses more than 20 nested loops and 100 nested parentheses or so: what is deeper
# becomes a function of its own.
_DEEPEST_BLOCK, _DEEPEST_EXPRESSION = 8, 25


@dataclass(slots=True)
class _Printer:
    """Prints statements as Python functions; `globals` holds the operations they call."""

    math: MathFunctions
    functions: list[str] = field(default_factory=list[str])
    globals: dict[str, Any] = field(default_factory=lambda: {"write": _write, "zeros": np.zeros})
    names: dict[object, str] = field(default_factory=dict[object, str])
    offences: list[Offence] = field(default_factory=list[Offence])

    def use(self, key: tuple[str, ...], make: Callable[[], Any]) -> str:
        """The global name of the operation `key`, made on first use."""
        if key not in self.names:
            name = "_".join(part for part in key if part).replace(".", "_")
            self.names[key] = name
            self.globals[name] = make()
        return self.names[key]

    def function(self, name: str, body: tuple[Stmt, ...]) -> None:
        """Print `body` as the function `name`."""
        lines = self.block(body, 1)
        self.functions.append("\n".join([f"def {name}(v, a):", *lines]))

    def block(self, body: tuple[Stmt, ...], depth: int) -> list[str]:
        pad = "    " * depth
        if depth > _DEEPEST_BLOCK:
            name = f"block{len(self.functions)}_{len(self.names)}"
            self.names[name] = name
            self.function(name, body)
            return [f"{pad}{name}(v, a)"]
        lines = [line for stmt in body for line in self.statement(stmt, depth)]
        return lines or [f"{pad}pass"]

    def statement(self, stmt: Stmt, depth: int) -> list[str]:
        pad = "    " * depth
        match stmt:
            case For(body=body):
                each = Range(stmt.iterator, stmt.lower, stmt.upper, stmt.step)
                return [f"{pad}{self.header(each)}", *self.block(body, depth + 1)]
            case If(condition=condition, then=then, otherwise=otherwise):
                lines = [f"{pad}if {self.expr(condition)}:", *self.block(then, depth + 1)]
                if otherwise:
                    lines += [f"{pad}else:", *self.block(otherwise, depth + 1)]
                return lines
            case Store(target=target, value=value):
                if not target.index:
                    return [f"{pad}v[{target.array!r}] = {self.expr(value)}"]
                place = f"{self.array(target)}, {self.index(target)}"
                if any(is_checked(part) for part in target.index):
                    # As compiled code: the value first, then the subscripts.
                    write = self.checker(target, writes=True)
                    return [
                        f"{pad}value = {self.expr(value)}",
                        f"{pad}{write}({place}, value, {self.array_name(target)})",
                    ]
                return [f"{pad}write({place}, {self.expr(value)})"]
            case Define(name=name, value=value):
                return [f"{pad}v[{name!r}] = {self.expr(value)}"]
            case Reduce():
                return self.reduce(stmt, depth)
            case Temp(name=name, dtype=dtype, extents=extents):
                shape = "".join(f"{self.expr(extent)}, " for extent in extents)
                zeros = self.use(("dtype", dtype.value), lambda: semantics.array_dtype(dtype))
                return [f"{pad}a[{name!r}] = zeros(({shape}), {zeros})"]
            case Assume():
                return []
            case Block(body=body):
                return [line for inner in body for line in self.statement(inner, depth)]
            case _:
                assert_never(stmt)

    def header(self, each: Range) -> str:
        bounds = f"{self.expr(each.lower)}, {self.expr(each.upper)}, {each.step}"
        return f"for v[{each.iterator!r}] in range({bounds}):"

    def reduce(self, stmt: Reduce, depth: int) -> list[str]:
        start = Const(semantics.neutral(stmt.op, stmt.dtype), stmt.dtype)
        body: tuple[Stmt, ...] = (*stmt.body, Store(Load(stmt.name, (), stmt.dtype), stmt.value))
        for each in reversed(stmt.ranges):
            body = (For(each.iterator, each.lower, each.upper, each.step, body),)
        return [f"{'    ' * depth}v[{stmt.name!r}] = {self.expr(start)}", *self.block(body, depth)]

    # --------------------------------------------------------------------------- expressions

    def checker(self, load: Load, writes: bool) -> str:
        """The global name of the read or write of an access that is checked when it runs."""
        name = f"checked{len(self.globals)}"
        zero = semantics.scalar_type(load.dtype)(0)

        def is_good(array: Array, index: tuple[int, ...], named: str) -> bool:
            for k, part in enumerate(load.index):
                if is_checked(part) and not 0 <= index[k] < array.shape[k]:
                    span = part.span
                    self.offences.append(Offence(named, k, int(index[k]), span, writes))
                    return False
            return True

        def read(array: Array, index: tuple[int, ...], named: str) -> semantics.Scalar:
            return plain(array, index) if is_good(array, index, named) else zero

        def write(array: Array, index: tuple[int, ...], value: semantics.Scalar, named: str) -> None:
            if is_good(array, index, named):
                _write(array, index, value)

        plain = _reader(load.dtype, "")
        self.globals[name] = write if writes else read
        return name

    def array(self, load: Load) -> str:
        return f"a[{self.array_name(load)}]"

    def array_name(self, load: Load) -> str:
        if load.swapped is None:
            return repr(load.array)
        parity = self.expr(load.swapped.parity)
        return f"({load.swapped.array!r} if {parity} else {load.array!r})"

    def index(self, load: Load) -> str:
        return f"({''.join(f'{self.expr(part)}, ' for part in load.index)})"

    def expr(self, expr: Expr) -> str:
        return self.measured(expr)[0]

    def measured(self, expr: Expr) -> tuple[str, int]:
        """The text of `expr` and how deep its parentheses nest; too deep a text moves out."""
        text, depth = self.text(expr)
        if depth > _DEEPEST_EXPRESSION:
            name = f"expr{len(self.functions)}_{len(self.names)}"
            self.names[name] = name
            self.functions.append(f"def {name}(v, a):\n    return {text}")
            return f"{name}(v, a)", 1
        return text, depth

    def apply(self, name: str, *operands: Expr) -> tuple[str, int]:
        parts = [self.measured(operand) for operand in operands]
        depth = 1 + max(depth for _, depth in parts)
        return f"{name}({', '.join(text for text, _ in parts)})", depth

    def text(self, expr: Expr) -> tuple[str, int]:
        match expr:
            case Const(value=value, dtype=dtype):
                if not dtype.is_float:
                    return f"({value!r})", 1
                key = ("const", dtype.value, str(len(self.names)))
                return self.use(key, lambda: semantics.scalar_type(dtype)(value)), 1
            case Iter(name=name) | Symbol(name=name):
                return f"v[{name!r}]", 1
            case Load(array=array, index=()):
                return f"v[{array!r}]", 1
            case Load(dtype=dtype, mode=mode):
                name = ""
                if any(is_checked(part) for part in expr.index):
                    read = self.checker(expr, writes=False)
                    name = f", {self.array_name(expr)}"
                else:
                    read = self.use(("read", dtype.value, mode), lambda: _reader(dtype, mode))
                parts = [self.measured(part) for part in expr.index]
                index = "".join(f"{text}, " for text, _ in parts)
                depth = 2 + max(depth for _, depth in parts)
                return f"{read}({self.array(expr)}, ({index}){name})", depth
            case Unary(op=op, operand=operand, dtype=dtype):
                name = self.use((op, dtype.value), lambda: semantics.unary(op, dtype))
                return self.apply(name, operand)
            case Binary(op=op, left=left, right=right, dtype=dtype):
                name = self.use((op, dtype.value), lambda: semantics.binary(op, dtype, self.math))
                return self.apply(name, left, right)
            case Compare(op=op, left=left, right=right):
                name = self.use(("is", op), lambda: semantics.COMPARE[op])
                return self.apply(name, left, right)
            case Select(condition=condition, then=then, otherwise=otherwise):
                parts = [self.measured(part) for part in (then, condition, otherwise)]
                texts = [text for text, _ in parts]
                depth = 1 + max(depth for _, depth in parts)
                return f"({texts[0]} if {texts[1]} else {texts[2]})", depth
            case Cast(operand=operand, dtype=dtype):
                source = operand.dtype
                key = ("cast", source.value, dtype.value)
                return self.apply(self.use(key, lambda: semantics.cast(source, dtype)), operand)
            case Call(function="inside", arguments=(subscript, _)):
                return self.measured(subscript)  # `checker` looks at it
            case Call(function=function, arguments=arguments, dtype=dtype):
                name = self.use(
                    ("call", function, dtype.value),
                    lambda: semantics.call(function, dtype, self.math),
                )
                return self.apply(name, *arguments)
            case Fma(a=a, b=b, c=c, dtype=dtype):
                name = self.use(("fma", dtype.value), lambda: semantics.fma(dtype))
                return self.apply(name, a, b, c)
            case _:
                assert_never(expr)
