"""The core's expressions as upstream's operations, for `affine`: what is compiled says some of them otherwise
(functions of our own, half floats, tests of subscripts), and nothing is compiled from this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from loopfuse.base.dtypes import DType
from loopfuse.codegen.abi import not_lowered
from loopfuse.codegen.build import I64, INDEX, Builder
from loopfuse.codegen.ir import DYNAMIC, AffineMap, MemRefType, Operation, Value, array_type
from loopfuse.codegen.mlir import scalar
from loopfuse.codegen.mlir.scalar import value_type
from loopfuse.codegen.mlir.sign import sign
from loopfuse.codegen.upstream import formulas
from loopfuse.codegen.upstream.maps import (
    FAILED,
    Applied,
    affine_text,
    applied,
    bare,
    constraints_of,
    parts_of,
)
from loopfuse.lang import nodes
from loopfuse.lang.ops import APPROXIMATE

_FLOAT = {
    "fmin": "arith.minnumf",
    "fmax": "arith.maxnumf",
    "pow": "math.powf",
    "atan2": "math.atan2",
    "copysign": "math.copysign",
    "fmod": "arith.remf",
}
_FORMULAS = {"floordiv": formulas.float_floordiv, "mod": formulas.float_mod, "hypot": formulas.hypot}


@dataclass(frozen=True, slots=True)
class Array:
    """A memref and the extents that it has in the program."""

    memref: Value
    extents: tuple[nodes.Expr, ...]


def memref_of(dtype: DType, extents: tuple[nodes.Expr, ...]) -> MemRefType:
    """`memref<?x4xf32>`: constant extents are static."""
    shape = (int(each.value) if isinstance(each, nodes.Const) else DYNAMIC for each in extents)
    return array_type(value_type(dtype), tuple(shape))


class Values:
    """Names in scope, and the values of expressions. Iterators of `affine.for` are dimensions of maps, and sizes
    their symbols; the variables of other loops are neither."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.iterators: dict[str, Value] = {}
        self.others: dict[str, Value] = {}
        self.symbols: dict[str, Value] = {}
        self.scalars: dict[str, Value] = {}
        self.arrays: dict[str, Array] = {}

    # -------------------------------------------------------------------------- affine maps

    def names(self) -> dict[str, str]:
        """What maps call iterators and symbols."""
        dims = {name: f"d{n}" for n, name in enumerate(self.iterators)}
        return {**{name: f"s{n}" for n, name in enumerate(self.symbols)}, **dims}

    def applied(self, results: Sequence[str]) -> Applied:
        """The map with these results, of those iterators and symbols that occur in them."""
        return applied(results, tuple(self.iterators.values()), tuple(self.symbols.values()))

    def bound(self, expr: nodes.Expr, op: str) -> Applied | None:
        """A bound of `affine.for`: a map, of several results under `op`; None where it is not affine."""
        texts = [affine_text(part, self.names()) for part in parts_of(expr, op)]
        return None if FAILED in texts else self.applied([bare(text) for text in texts])

    def integer_set(self, condition: nodes.Expr) -> Applied | None:
        """The set of a conjunction of affine comparisons."""
        constraints = constraints_of(condition, self.names())
        return None if constraints is None else self.applied(constraints)

    # ------------------------------------------------------------------------------- index

    def constant_index(self, value: int) -> Value:
        """An index constant."""
        return self.builder.constant(value, INDEX)

    def index(self, expr: nodes.Expr) -> Value:
        """`expr` as an `index` value."""
        known = {**self.symbols, **self.iterators, **self.others}
        match expr:
            case nodes.Const(value=value):
                return self.constant_index(int(value))
            case nodes.Iter(name=name) | nodes.Symbol(name=name) if name in known:
                return known[name]
            case nodes.Binary(op=op, left=left, right=right) if op in (
                *("add", "sub", "mul", "min", "max", "floordiv", "mod"),
            ):
                a, b = self.index(left), self.index(right)
                return formulas.index_operation(self.builder, op, a, b)
            case nodes.Unary(op="neg", operand=operand):
                return self.builder.binary("subi", self.constant_index(0), self.index(operand))
            case _:
                return self.builder.convert("index_cast", self.value(expr), INDEX)

    # ------------------------------------------------------------------------------ memory

    def place(self, access: nodes.Load) -> tuple[Value, tuple[Value, ...], AffineMap | None]:
        """The memref, the subscripts' values, and the map that these are operands of (None: they are the
        subscripts)."""
        array = self.arrays[access.array]
        memref = array.memref
        if access.swapped is not None:
            other = self.arrays[access.swapped.array].memref
            parity = self.index(access.swapped.parity)
            odd = self.builder.compare("eq", parity, self.constant_index(1))
            memref = self.builder.select(odd, other, memref)
        if not access.mode:
            texts = [affine_text(each, self.names()) for each in access.index]
            if FAILED not in texts:
                where, operands = self.applied([bare(text) for text in texts])
                return memref, operands, where
        indices = [self.index(each) for each in access.index]
        if access.mode:
            sizes = [self.index(extent) for extent in array.extents]
            indices = [formulas.edge(self.builder, access.mode, i, n) for i, n in zip(indices, sizes, strict=True)]
        return memref, tuple(indices), None

    def load(self, access: nodes.Load) -> Value:
        """The value of an element; `.zero` outside the array is 0."""
        if access.array in self.scalars and access.array not in self.arrays:
            return self.scalars[access.array]
        if access.mode == "zero":
            return self.load_or_zero(access)
        memref, index, where = self.place(access)
        kind = (memref.type.element_type,)
        if where is None:
            return self.builder.add(Operation("memref.load", (memref, *index), kind))
        return self.builder.add(Operation("affine.load", (memref, *index), kind, {"map": where}))

    def load_or_zero(self, access: nodes.Load) -> Value:
        """`scf.if` around the load."""
        inside: Value | None = None
        for each, extent in zip(access.index, self.arrays[access.array].extents, strict=True):
            # As unsigned numbers, negative ones are too large as well.
            fits = self.builder.compare("ult", self.index(each), self.index(extent))
            inside = fits if inside is None else self.builder.binary("andi", inside, fits)
        assert inside is not None
        zero = nodes.Const(0.0 if access.dtype.is_float else 0, access.dtype)
        return self.choose(
            inside, nodes.Load(access.array, access.index, access.dtype, "", access.swapped), zero
        )

    def choose(self, condition: Value, then: nodes.Expr, otherwise: nodes.Expr) -> Value:
        """`scf.if` with a result; only one arm is computed."""
        found = self.builder.branch(
            condition, lambda: self.value(then), lambda: self.value(otherwise), value_type(then.dtype)
        )
        assert found is not None
        return found

    def store(self, target: nodes.Load, value: Value) -> None:
        """`target = value`."""
        memref, index, where = self.place(target)
        if where is None:
            self.put(Operation("memref.store", (value, memref, *index)))
        else:
            self.put(Operation("affine.store", (value, memref, *index), (), {"map": where}))

    def put(self, operation: Operation) -> None:
        """An operation without a result."""
        self.builder.block.add(operation)

    # ------------------------------------------------------------------------------ values

    def value(self, expr: nodes.Expr) -> Value:
        """The value of `expr`."""
        kind, builder = value_type(expr.dtype), self.builder
        match expr:
            case nodes.Const(value=value, dtype=dtype):
                return builder.constant(float(value) if dtype.is_float else int(value), kind)
            case nodes.Iter():
                return builder.convert("index_cast", self.index(expr), I64)
            case nodes.Symbol(name=name):
                if name in self.scalars:
                    return self.scalars[name]
                return builder.convert("index_cast", self.symbols[name], I64)
            case nodes.Load():
                return self.load(expr)
            case nodes.Unary(op=op, operand=operand, dtype=dtype):
                return scalar.unary(builder, op, self.value(operand), dtype)
            case nodes.Binary(op=op, left=left, right=right, dtype=dtype):
                return self.binary(op, self.value(left), self.value(right), dtype)
            case nodes.Compare(op=op, left=left, right=right):
                a, b = self.value(left), self.value(right)
                return builder.compare(scalar.predicate(op, left.dtype), a, b)
            case nodes.Select(condition=condition, then=then, otherwise=otherwise):
                return self.choose(self.value(condition), then, otherwise)
            case nodes.Cast(operand=operand, dtype=dtype):
                return scalar.cast(builder, self.value(operand), operand.dtype, dtype)
            case nodes.Call(function="inside", arguments=(subscript, _)):
                return self.value(subscript)  # as written: the checks come with the compiled module
            case nodes.Call(function="sign", arguments=(operand,), dtype=dtype):
                return sign(builder, self.value(operand), dtype)
            case nodes.Call(function=function, arguments=arguments, dtype=dtype):
                operands = tuple(self.value(each) for each in arguments)
                if function in APPROXIMATE:
                    return formulas.approximate(builder, function, *operands)
                found = scalar.direct(builder, function, operands[0], dtype)
                return builder.word(f"math.{function}", operands) if found is None else found
            case nodes.Fma(a=a, b=b, c=c):
                return builder.fma(*(self.value(each) for each in (a, b, c)))
            case _:
                assert_never(expr)

    def binary(self, op: str, a: Value, b: Value, dtype: DType) -> Value:
        """One binary operation; divisions by 0 give 0."""
        builder, signed = self.builder, dtype.is_signed
        found = scalar.binary(builder, op, a, b, dtype)
        if found is not None:
            return found
        if dtype.is_float:
            if op in _FORMULAS:
                return _FORMULAS[op](builder, a, b)
            return builder.word(_FLOAT[op], (a, b))
        if op in ("shl", "shr"):
            return formulas.shift(builder, op, a, b, signed)
        if op in ("floordiv", "mod", "fmod"):
            return formulas.integer_division(builder, op, a, b, signed)
        raise not_lowered(f"{op} of {dtype.value}")
