"""Core expressions of a LoopTree as Python source, for the interpreter to `exec`.

Every operation is `lang.semantics`', so a value here is the oracle's to the bit: `np.float32`,
`np.float64`, `int` or `bool`. Index arithmetic is plain Python integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

from loopfuse.base.dtypes import DType
from loopfuse.lang import semantics
from loopfuse.lang.index_text import COMPARISONS
from loopfuse.lang.nodes import (
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Fma,
    Iter,
    Load,
    Select,
    Symbol,
    Unary,
)

_INLINE = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
FOLD_BINARY = {
    "sum": "add", "prod": "mul", "min": "min", "max": "max", "and": "and", "or": "or", "xor": "xor",
}  # fmt: skip


class SourceWriter:
    """Turns expressions into source; what the source refers to collects in `namespace`."""

    def __init__(
        self, math_functions: semantics.MathFunctions, read: Callable[[Load], str]
    ) -> None:
        self.math_functions = math_functions
        self.read = read
        self.namespace: dict[str, Any] = {}
        self._names: dict[Any, str] = {}
        self.variables: dict[str, str] = {}
        self.symbols: dict[str, Symbol] = {}

    def bind(self, key: Any, make: Callable[[], Any]) -> str:
        """The name in the namespace of the object that `key` stands for, made on first use."""
        if key not in self._names:
            name = f"k{len(self._names)}"
            self._names[key] = name
            self.namespace[name] = make()
        return self._names[key]

    def variable(self, name: str) -> str:
        """The Python name of a loop variable."""
        return self.variables.setdefault(name, f"v{len(self.variables)}")

    def symbol(self, symbol: Symbol) -> str:
        """The Python name of a size or scalar parameter."""
        if symbol.name not in self.symbols:
            self.symbols[symbol.name] = symbol
        return f"s{list(self.symbols).index(symbol.name)}"

    def index(self, expr: Expr) -> str:
        """Source of an integer index expression, in unbounded integers."""
        match expr:
            case Const(value=value):
                return repr(int(value))
            case Iter(name=name):
                return self.variable(name)
            case Symbol():
                return self.symbol(expr)
            case Unary(op="neg", operand=operand):
                return f"(-{self.index(operand)})"
            case Cast(operand=operand) if operand.dtype.is_integer:
                return self.index(operand)
            case Binary(op="add" | "sub" | "mul" as op, left=left, right=right):
                return f"({self.index(left)} {_INLINE[op]} {self.index(right)})"
            case Binary(op="floordiv" | "mod" as op, left=left, right=Const(value=by)) if by:
                return f"({self.index(left)} {'//' if op == 'floordiv' else '%'} {by})"
            case Binary(op="min" | "max" as op, left=left, right=right):
                return f"{op}({self.index(left)}, {self.index(right)})"
            case Select(condition=condition, then=then, otherwise=otherwise):
                chosen = self.value(condition)
                return f"({self.index(then)} if {chosen} else {self.index(otherwise)})"
            case _:
                return self.value(expr)

    def value(self, expr: Expr) -> str:
        """Source of an expression's value."""
        match expr:
            case Const(value=value, dtype=dtype):
                if dtype.is_float:
                    key = ("const", repr(value), dtype)
                    return self.bind(key, lambda: semantics.scalar_type(dtype)(value))
                return repr(value)
            case Iter(name=name):
                return self.variable(name)
            case Symbol():
                return self.symbol(expr)
            case Load():
                return self.read(expr)
            case Unary(op=op, operand=operand, dtype=dtype):
                return self._call(("unary", op, dtype), lambda: semantics.unary(op, dtype), operand)
            case Binary(op=op, left=left, right=right, dtype=dtype):
                if dtype.is_float and op in _INLINE:
                    return f"({self.value(left)} {_INLINE[op]} {self.value(right)})"
                name = self.operation(op, dtype)
                return f"{name}({self.value(left)}, {self.value(right)})"
            case Compare(op=op, left=left, right=right):
                return f"({self.value(left)} {COMPARISONS[op]} {self.value(right)})"
            case Select(condition=condition, then=then, otherwise=otherwise):
                chosen = self.value(condition)
                return f"({self.value(then)} if {chosen} else {self.value(otherwise)})"
            case Cast(operand=operand, dtype=dtype):
                source = operand.dtype
                return self._call(
                    ("cast", source, dtype), lambda: semantics.cast(source, dtype), operand
                )
            case Call(function="inside", arguments=(subscript, _)):
                return self.index(subscript)  # tested where the access is
            case Call(function=function, arguments=arguments, dtype=dtype):
                return self._call(
                    ("call", function, dtype),
                    lambda: semantics.call(function, dtype, self.math_functions),
                    *arguments,
                )
            case Fma(a=a, b=b, c=c, dtype=dtype):
                return self._call(("fma", dtype), lambda: semantics.fma(dtype), a, b, c)
            case _:
                assert_never(expr)

    def operation(self, op: str, dtype: DType) -> str:
        """The name of the callable of a Binary `op`."""
        return self.bind(
            ("binary", op, dtype), lambda: semantics.binary(op, dtype, self.math_functions)
        )

    def _call(self, key: Any, make: Callable[[], Any], *operands: Expr) -> str:
        return f"{self.bind(key, make)}({', '.join(self.value(operand) for operand in operands)})"
