"""Prints a surface kernel as an ordinary Python function of loops over arrays, in the language of
the Python door (docs/python.md): the same program, statement by statement.

before:  kernel double(x: f32[N], out y: f32[N]):
             for i in 0..N:
                 y[i] = 2.0 * x.clamp[i + 1]
after:   def double(x: f32["N"], y: Out[f32["N"]]):
             N = x.shape[0]
             for i in range(0, N):
                 y[i] = 2.0 * x[clamp(i + 1, N)]

A reduction inside an expression becomes a loop before the statement, `.zero` a condition, an
argmin the comparison in a loop that it is defined by. What a Python function cannot say raises
`Inexpressible`. The text uses bare names for what the two readers of it must see differently
(python_names.py): CPython our bits of `exp`, the door NumPy's function.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import assert_never

from python_kinds import CASTS, EXTREMES, FLOAT, INT, PAIRS, TESTS, WHOLE, Kind, Kinds, join
from python_names import NAMES

from loopfuse.base.dtypes import DType
from loopfuse.lang.surface import syntax
from loopfuse.lang.surface.format_expr import format_expr


class Inexpressible(Exception):
    """The Python door has no words for this part of the program."""


def python_text(
    module: syntax.Module, name: str, constants: Mapping[str, int] = {}
) -> tuple[str, str]:
    """Kernel `name` of `module` as Python, constants and functions first; and the function's name.
    `constants` gives the values of its const parameters, which Python takes from outside."""
    printer = _Printer(module, constants)
    for item in module.items:
        match item:
            case syntax.Const():
                printer.const(item)
            case syntax.Func():
                printer.func(item)
            case syntax.Kernel():
                if item.name == name:
                    printer.kernel(item)
            case _:
                assert_never(item)
    return "".join(f"{line}\n" for line in printer.lines), printer.name


class _Printer:
    """The lines so far, and what the names in sight are."""

    def __init__(self, module: syntax.Module, constants: Mapping[str, int]) -> None:
        functions = {item.name: item for item in module.items if isinstance(item, syntax.Func)}
        self.functions = functions
        self.constants = constants
        self.kinds = Kinds({}, {name: Kind(f.result) for name, f in functions.items()})
        self.spoken: dict[str, str] = {}
        self.roles: dict[str, str] = {}
        self.arrays: dict[str, tuple[syntax.Expr, ...]] = {}
        self.tables: set[str] = set()
        self.lines: list[str] = []
        self.level = 0
        self.fresh = 0
        self.may_hoist = True
        self.name = ""

    # ------------------------------------------------------------------------------ names

    def put(self, text: str) -> None:
        self.lines.append("    " * self.level + text)

    @contextmanager
    def inner(self) -> Iterator[None]:
        """One level deeper, with names of its own."""
        names, spoken, arrays = dict(self.kinds.names), dict(self.spoken), dict(self.arrays)
        self.level += 1
        yield
        self.level -= 1
        self.kinds.names, self.spoken, self.arrays = names, spoken, arrays

    def declare(self, name: str, kind: Kind, role: str) -> str:
        """`name` as Python calls it: its own, unless Python, the vocabulary or something of
        another nature has that name (a function's locals are one scope)."""
        spoken = name
        while keyword.iskeyword(spoken) or spoken in NAMES or self.roles.get(spoken, role) != role:
            spoken += "_"
        self.roles[spoken] = role
        self.kinds.names[name] = kind
        self.spoken[name] = spoken
        return spoken

    def new(self, prefix: str) -> str:
        """A local that the program does not have."""
        self.fresh += 1
        spoken = f"{prefix}_{self.fresh}"
        self.roles[spoken] = "fresh"
        return spoken

    # -------------------------------------------------------------------------- top level

    def const(self, item: syntax.Const) -> None:
        """A global number or table."""
        if not isinstance(item.values, tuple):
            kind = Kind(item.dtype) if item.dtype else self.kinds.of(item.values)
            text = self.typed(item.values, kind)
            self.put(f"{self.declare(item.name, kind, 'const')} = {text}")
            return
        kinds: list[Kind] = []
        text = self.table(item.values, kinds)
        kind = kinds[0]
        for other in kinds:
            kind = join(kind, other)
        if item.dtype is not None:
            kind = Kind(item.dtype)
            text = f"np.array({text}, np.{item.dtype.numpy_name})"
        spoken = self.declare(item.name, kind, "const")
        self.tables.add(item.name)
        self.put(f"{spoken} = {text}")

    def table(self, value: object, kinds: list[Kind]) -> str:
        if isinstance(value, tuple):
            return "(" + "".join(f"{self.table(part, kinds)}, " for part in value) + ")"
        kinds.append(self.kinds.of(value))  # type: ignore[arg-type]
        return self.expr(value)  # type: ignore[arg-type]

    def func(self, item: syntax.Func) -> None:
        """A helper function of numbers."""
        self.put("")
        spoken = self.declare(item.name, Kind(item.result), "function")
        saved, roles = self.lines, dict(self.roles)
        self.lines, self.may_hoist = [], False
        with self.inner():
            names = [self.declare(p.name, Kind(p.dtype), "local") for p in item.params]
            for let in item.lets:
                self.let(let)
            self.put(f"return {self.typed(item.value, Kind(item.result))}")
        body, self.lines = self.lines, saved
        self.may_hoist, self.roles = True, roles
        self.put(f"def {spoken}({', '.join(names)}):")
        self.lines += body

    def kernel(self, item: syntax.Kernel) -> None:
        """The function, sizes named first."""
        sizes: dict[str, str] = {}
        scalars = {param.name for param in item.params if param.extents is None}
        params: list[str] = []
        for param in item.params:
            if param.is_const:
                spoken = self.declare(param.name, INT, "const")
                self.put(f"{spoken} = {self.constants[param.name]}")
                continue
            if param.extents is None:
                spoken = self.declare(param.name, Kind(param.dtype), "parameter")
                params.append(f"{spoken}: {param.dtype.value}")
                continue
            spoken = self.declare(param.name, Kind(param.dtype), "array")
            self.arrays[param.name] = param.extents
            dims: list[str] = []
            for position, extent in enumerate(param.extents):
                if isinstance(extent, syntax.Name) and extent.name not in scalars:
                    sizes.setdefault(extent.name, f"{spoken}.shape[{position}]")
                literal = isinstance(extent, syntax.Number)
                text = format_expr(extent)
                dims.append(text if literal else repr(text))
            array = f"{'boolean' if param.dtype is DType.BOOL else param.dtype.value}[{', '.join(dims)}]"
            params.append(
                f"{spoken}: Out[{array}]" if param.mode == "out" else f"{spoken}: {array}"
            )
        for param in item.params:
            for extent in param.extents or ():
                for size in sorted(
                    _names(extent) - sizes.keys() - scalars - self.kinds.names.keys()
                ):
                    raise Inexpressible(f"the size `{size}` stands alone in no extent")
        self.put("")
        self.name = self.declare(item.name, INT, "kernel")
        self.put(f"def {self.name}({', '.join(params)}):")
        with self.inner():
            for size, where in sizes.items():
                self.put(f"{self.declare(size, INT, 'size')} = {where}")
            self.block(item.body)
            if not item.body:
                self.put("pass")

    # -------------------------------------------------------------------------- statements

    def block(self, body: tuple[syntax.Stmt, ...]) -> None:
        for stmt in body:
            self.stmt(stmt)

    def stmt(self, stmt: syntax.Stmt) -> None:
        match stmt:
            case syntax.Assign():
                self.assign(stmt)
            case syntax.Let():
                self.let(stmt)
            case syntax.Temp():
                extents = "".join(f"{self.expr(extent)}, " for extent in stmt.extents)
                spoken = self.declare(stmt.name, Kind(stmt.dtype), f"array {stmt.dtype}")
                self.arrays[stmt.name] = stmt.extents
                self.put(f"{spoken} = empty(({extents}), {_type(stmt.dtype)})")
            case syntax.For():
                before = self.level
                with self.inner():
                    self.level = before
                    for each in stmt.ranges:
                        self.header(each, "prange" if stmt.parallel else "range")
                    self.block(stmt.body)
                    self.level = before + 1
            case syntax.If():
                self.put(f"if {self.expr(stmt.condition)}:")
                with self.inner():
                    self.block(stmt.then)
                if stmt.otherwise:
                    self.put("else:")
                    with self.inner():
                        self.block(stmt.otherwise)
            case syntax.Swap():
                left, right = self.spoken[stmt.left], self.spoken[stmt.right]
                self.put(f"{left}, {right} = {right}, {left}")
            case syntax.Assume():
                self.put(f"assert {self.expr(stmt.condition)}")
            case syntax.Block():
                self.put(f"with {stmt.kind}():")
                self.level += 1
                self.block(stmt.body)
                self.level -= 1
            case _:
                assert_never(stmt)

    def header(self, each: syntax.Range, word: str = "range") -> None:
        """`for i in range(...)`, and one level deeper."""
        bounds = [self.expr(each.lower), self.expr(each.upper)]
        if each.step is not None:
            bounds.append(self.expr(each.step))
        spoken = self.declare(each.iterator, INT, "iterator")
        self.put(f"for {spoken} in {word}({', '.join(bounds)}):")
        self.level += 1

    def let(self, stmt: syntax.Let) -> None:
        kind = Kind(stmt.dtype) if stmt.dtype else self.kinds.of(stmt.value)
        match stmt.value:
            case syntax.Reduction(op=op) if op not in ("argmin", "argmax") and not stmt.mutable:
                if kind == self.kinds.of(stmt.value):
                    spoken = self.declare(stmt.name, kind, f"local {kind}")
                    self.accumulate(stmt.value, spoken)
                    return
            case _:
                pass
        text = self.typed(stmt.value, kind)
        spoken = self.declare(stmt.name, kind, f"local {kind}")
        self.put(f"{spoken} = {text}")

    def assign(self, stmt: syntax.Assign) -> None:
        """To an element NumPy converts; to a local we write the conversion."""
        kind = self.kinds.of(stmt.target)
        target = self.expr(stmt.target)
        scalar = isinstance(stmt.target, syntax.Name)
        value = self.kinds.of(stmt.value)
        whole = join(kind, value) if stmt.op else value
        if stmt.op == "/" and not whole.dtype.is_float:
            whole = Kind(DType.F64)
        if stmt.op in ("min", "max"):
            text = self.extreme(stmt.op, (target, kind), (self.expr(stmt.value), value))
        elif stmt.op and whole == kind:
            self.put(f"{target} {stmt.op}= {self.expr(stmt.value)}")
            return
        elif stmt.op:
            text = f"{target} {stmt.op} ({self.expr(stmt.value)})"
        elif isinstance(stmt.target, syntax.Name):
            text = self.typed(stmt.value, kind)
            whole = kind
        else:
            text = self.expr(stmt.value)
        narrows = kind.dtype.is_integer and not whole.weak and whole.dtype.bits > kind.dtype.bits
        if whole != kind and (scalar or narrows):  # NumPy refuses what an element cannot hold
            text = _cast(text, whole, kind.dtype)
        self.put(f"{target} = {text}")

    # ------------------------------------------------------------------------- expressions

    def typed(self, expr: syntax.Expr, kind: Kind) -> str:
        """`expr`, converted where it is not of `kind` already."""
        own = self.kinds.of(expr)
        text = self.expr(expr)
        return text if own == kind or kind.weak else _cast(text, own, kind.dtype)

    def expr(self, expr: syntax.Expr) -> str:
        """`expr` as Python; the loops it needs first are put before. Operands in parentheses."""
        match expr:
            case syntax.Number(value=value):
                return _number(value)
            case syntax.Name(name=name):
                return self.spoken[name]
            case syntax.Subscript():
                return self.subscript(expr)
            case syntax.Unary(op="~", operand=operand) if (
                self.kinds.of(operand).dtype is DType.BOOL
            ):
                return f"(not {self.expr(operand)})"
            case syntax.Unary(op=op, operand=operand):
                return (
                    f"({op} {self.expr(operand)})" if op == "not" else f"({op}{self.expr(operand)})"
                )
            case syntax.Binary(op=op, left=left, right=right):
                return self.binary(op, left, right)
            case syntax.Comparison(operands=operands, ops=ops):
                others = [*operands[1:], operands[-2]]
                texts = [self.beside(one, other) for one, other in zip(operands, others)]
                chain = "".join(f" {op} {text}" for op, text in zip(ops, texts[1:]))
                return f"({texts[0]}{chain})"
            case syntax.Conditional():
                return self.conditional(expr)
            case syntax.Call():
                return self.call(expr)
            case syntax.Reduction():
                if expr.op in ("argmin", "argmax"):
                    return self.best(expr)
                spoken = self.new(expr.op)
                self.accumulate(expr, spoken)
                return spoken
            case _:
                assert_never(expr)

    def binary(self, op: str, left: syntax.Expr, right: syntax.Expr) -> str:
        if op in ("and", "or"):
            first = self.expr(left)
            lines = len(self.lines)
            second = self.expr(right)
            if len(self.lines) > lines:  # the loops of the second run only where it is asked
                found = self.new(op)
                hoisted = self.lines[lines:]
                del self.lines[lines:]
                self.put(f"{found} = {first}")
                self.put(f"if {found if op == 'and' else f'not {found}'}:")
                self.lines += [f"    {line}" for line in hoisted]
                self.put(f"    {found} = {second}")
                return found
            return f"({first} {op} {second})"
        first, second = self.beside(left, right), self.beside(right, left)
        if op == "**":
            return f"power({first}, {second})"
        if op == ">>" and not self.kinds.of(left).weak:
            bits = self.kinds.of(left).dtype.bits
            if not (isinstance(right, syntax.Number) and right.value < bits):
                return f"shift_right({first}, {second})"
        return f"({first} {op} {second})"

    def beside(self, expr: syntax.Expr, other: syntax.Expr) -> str:
        """`expr` as an operand: ml_dtypes makes bf16 and a Python float an f32."""
        text = self.expr(expr)
        halves = self.kinds.of(other) == Kind(DType.BF16) and self.kinds.of(expr) == FLOAT
        return f"bfloat16({text})" if halves else text

    def conditional(self, expr: syntax.Conditional) -> str:
        kind = self.kinds.of(expr)
        condition = self.expr(expr.condition)
        start = len(self.lines)
        then = self.typed(expr.then, kind)
        middle = len(self.lines)
        otherwise = self.typed(expr.otherwise, kind)
        if len(self.lines) == start:
            return f"({then} if {condition} else {otherwise})"
        first, second = self.lines[start:middle], self.lines[middle:]
        del self.lines[start:]
        found = self.new("chosen")
        for word, hoisted, value in ((f"if {condition}", first, then), ("else", second, otherwise)):
            self.put(f"{word}:")
            self.lines += [f"    {line}" for line in hoisted]
            self.put(f"    {found} = {value}")
        return found

    def subscript(self, expr: syntax.Subscript) -> str:
        spoken = self.spoken[expr.array]
        index = [self.expr(part) for part in expr.index]
        if expr.array in self.tables:
            return spoken + "".join(f"[{part}]" for part in index)
        extents = [self.expr(extent) for extent in self.arrays[expr.array]]
        match expr.mode:
            case "":
                return f"{spoken}[{', '.join(index)}]"
            case "zero":
                inside = " and ".join(f"0 <= {i} < {n}" for i, n in zip(index, extents))
                zero = f"{_type(self.kinds.of(expr).dtype)}(0)"
                return f"({spoken}[{', '.join(index)}] if {inside} else {zero})"
            case mode:
                folded = ", ".join(f"{mode}({i}, {n})" for i, n in zip(index, extents))
                return f"{spoken}[{folded}]"

    def call(self, expr: syntax.Call) -> str:
        function, arguments = expr.function, expr.arguments
        if function in self.functions:
            params = self.functions[function].params
            texts = [self.typed(a, Kind(p.dtype)) for a, p in zip(arguments, params)]
            return f"{self.spoken[function]}({', '.join(texts)})"
        if function in CASTS:
            return _cast(self.expr(arguments[0]), self.kinds.of(arguments[0]), CASTS[function])
        if function == "pow":
            return self.binary("**", *arguments)
        if function in EXTREMES:
            result = self.expr(arguments[0]), self.kinds.of(arguments[0])
            for argument in arguments[1:]:
                other = self.expr(argument), self.kinds.of(argument)
                result = self.extreme(function, result, other), join(result[1], other[1])
            return result[0]
        if function == "clip":
            value, low, high = arguments
            inner = syntax.Call("max", (value, low), span=expr.span)
            return self.expr(syntax.Call("min", (inner, high), span=expr.span))
        if function in PAIRS:
            parts: list[str] = []
            for argument in arguments:
                kind, text = self.kinds.of(argument), self.expr(argument)
                if kind.dtype.is_integer and function != "fmod":
                    text = _cast(text, kind, DType.F64)
                parts.append(text)
            return f"{function}({', '.join(parts)})"
        kind = self.kinds.of(arguments[0])
        text = self.expr(arguments[0])
        if function in (*TESTS, "sign"):
            return f"{function}({text})"
        if function == "abs":
            return f"abs({text})"
        if function in WHOLE and kind.dtype.is_integer:
            return text
        if kind.dtype.is_integer:
            text, kind = _cast(text, kind, DType.F64), Kind(DType.F64, kind.weak)
        spelled = f"{function}({text})" if function != "round" else f"rint({text})"
        return f"float({spelled})" if kind.weak else spelled

    def extreme(self, function: str, left: tuple[str, Kind], right: tuple[str, Kind]) -> str:
        """Python's own `max` where both are of one kind, else NumPy's, which converts."""
        if left[1] == right[1] and function in ("min", "max"):
            return f"{function}({left[0]}, {right[0]})"
        word = {"min": "minimum", "max": "maximum"}.get(function, function)
        text = f"{word}({left[0]}, {right[0]})"
        both = join(left[1], right[1])
        return f"{'int' if both == INT else 'float'}({text})" if both.weak else text

    # -------------------------------------------------------------------------- reductions

    def accumulate(self, expr: syntax.Reduction, spoken: str) -> None:
        """The loop that a reduction is, into the local `spoken`."""
        if not self.may_hoist:
            raise Inexpressible("a reduction inside a func")
        kind = self.kinds.reduction(expr)
        self.put(f"{spoken} = {_neutral(expr.op, kind)}")
        before = self.level
        with self.inner():
            self.level = before
            for each in expr.ranges:
                self.header(each)
            own = self.kinds.of(expr.body)
            value = self.expr(expr.body)
            match expr.op:
                case "sum" | "prod":
                    if own.dtype is DType.BOOL:
                        value = _cast(value, own, DType.I64)
                    self.put(f"{spoken} {'+' if expr.op == 'sum' else '*'}= {value}")
                case "any" | "all":
                    self.put(f"{spoken} = {spoken} {'or' if expr.op == 'any' else 'and'} {value}")
                case _:
                    self.put(f"{spoken} = {expr.op}({spoken}, {value})")
            self.level = before + 1

    def best(self, expr: syntax.Reduction) -> str:
        """The comparison in a loop that argmin and argmax are defined by."""
        if not self.may_hoist:
            raise Inexpressible("a reduction inside a func")
        (each,) = expr.ranges
        kind = self.kinds.element(expr)
        kind = Kind(DType.U8) if kind.dtype is DType.BOOL else Kind(kind.dtype)
        best, which = self.new("best"), self.new(expr.op)
        element, better = self.new("element"), self.new("better")
        self.put(f"{best} = {_neutral(expr.op[3:], kind)}")
        self.put(f"{which} = {_cast(self.expr(each.lower), self.kinds.of(each.lower), DType.I64)}")
        before = self.level
        with self.inner():
            self.level = before
            self.header(each)
            self.put(f"{element} = {self.typed(expr.body, kind)}")
            if kind.dtype.is_float:
                behind = ">=" if expr.op == "argmin" else "<="
                test = f"not {element} {behind} {best} and {best} == {best}"
            else:
                test = f"{element} {'<' if expr.op == 'argmin' else '>'} {best}"
            self.put(f"{better} = {test}")
            self.put(f"{best} = {element} if {better} else {best}")
            now = f"np.int64({self.spoken[each.iterator]})"
            self.put(f"{which} = {now} if {better} else {which}")
            self.level = before + 1
        return which


# --------------------------------------------------------------------------------- small things


def _number(value: bool | int | float) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        text = "math.nan" if math.isnan(value) else "math.inf"
        return f"(-{text})" if value < 0 else text
    return f"({value!r})" if not isinstance(value, bool) and value < 0 else repr(value)


def _type(dtype: DType) -> str:
    return (
        "np.bool_"
        if dtype is DType.BOOL
        else ("bfloat16" if dtype is DType.BF16 else f"np.{dtype.numpy_name}")
    )


def _cast(text: str, own: Kind, dtype: DType) -> str:
    """`text` of kind `own` as a typed `dtype`."""
    if dtype is DType.BOOL:
        return f"bool({text})"
    if own.dtype.is_float and not dtype.is_float:
        return f"to_{dtype.numpy_name}({text})"  # what is too large saturates
    literal = text.strip("()").lstrip("-").replace(".", "").isalnum()
    if own == INT and not dtype.is_float and dtype is not DType.I64 and not literal:
        text = f"np.int64({text})"  # NumPy lets its own integers wrap, and refuses Python's
    return f"{_type(dtype)}({text})"


def _neutral(op: str, kind: Kind) -> str:
    """What a reduction starts with."""
    if op in ("any", "all"):
        return repr(op == "all")
    if op in ("sum", "prod"):
        number = repr(int(op == "prod"))
        if kind == FLOAT:
            return f"{number}.0"
        return number if kind.weak else f"{_type(kind.dtype)}({number})"
    if kind.dtype.is_float:
        infinity = "math.inf" if op == "min" else "-math.inf"
        return infinity if kind.weak else f"{_type(kind.dtype)}({infinity})"
    low, high = 0, 2**kind.dtype.bits - 1
    if kind.dtype.is_signed:
        low, high = -(2 ** (kind.dtype.bits - 1)), 2 ** (kind.dtype.bits - 1) - 1
    number = repr(high if op == "min" else low)
    return number if kind.weak else f"{_type(kind.dtype)}({number})"


def _names(node: object) -> set[str]:
    """The names of numbers in a surface tree."""
    if isinstance(node, tuple):
        return {name for part in node for name in _names(part)}
    if isinstance(node, syntax.Name):
        return {node.name}
    if isinstance(node, syntax.Node):
        fields = [getattr(node, field) for field in node.__dataclass_fields__ if field != "span"]
        return {name for field in fields for name in _names(field)}
    return set()


__all__ = ["Inexpressible", "python_text"]
