"""Building the operations of a module, tersely.

`Builder` appends operations to a block. Integer and float constants are collected, one of each, and put
at the top of the function when it is closed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from loopfuse.base.dtypes import DType
from loopfuse.base.rounding import narrow_bits, round_to_narrow
from loopfuse.codegen.ir import (
    BF16,
    CLUSTER_POINTER,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    INDEX,
    SHARED_POINTER,
    TOKEN,
    Block,
    FloatType,
    IndexType,
    IntegerType,
    Operation,
    Place,
    Scalar,
    Type,
    Value,
    VectorType,
    bytes_of,
    memref_type,
    vector_type,
    view_type,
)

STORAGE: dict[DType, Scalar] = {
    DType.BOOL: I8,
    DType.I8: I8,
    DType.U8: I8,
    DType.I16: I16,
    DType.U16: I16,
    DType.I32: I32,
    DType.U32: I32,
    DType.I64: I64,
    DType.U64: I64,
    DType.F16: F16,
    DType.BF16: BF16,
    DType.F32: F32,
    DType.F64: F64,
}
"""How each dtype lies in memory; a bool is an i8 that is 0 or 1."""

VALUE: dict[DType, Scalar] = {**STORAGE, DType.BOOL: I1}
"""How each dtype is computed with."""

Scope = tuple[int, tuple[int, ...]]
"""The scope of an access, and those of accesses that never meet it while the loop around runs."""

GLOBAL, WORKGROUP = "global", "workgroup"
"""Memory of a GPU."""

WIDEST_COPY = 16
"""Bytes of the widest late copy."""


def copied_bytes(operation: Operation) -> int:
    """How many bytes an `nvgpu.device_async_copy` moves."""
    return operation.properties["elements"] * bytes_of(operation.operands[0].type.element_type)


UNARY = {
    "negf": "arith.negf",
    **{name: f"math.{name}" for name in ("absf", "absi", "floor", "ceil", "roundeven", "trunc", "sqrt")},
}


def element_type(kind: Any) -> Scalar:
    """The element type of a vector type; any other type itself."""
    return kind.element_type if isinstance(kind, VectorType) else kind


def lanes_of(kind: Any) -> int:
    """How many lanes a vector type has; 0 for a scalar."""
    return kind.lanes if isinstance(kind, VectorType) else 0


def intrinsic_suffix(kind: Any) -> str:
    """How LLVM's intrinsics name a type: f32, v4i64."""
    lanes, element = lanes_of(kind), element_type(kind)
    match element:
        case FloatType(name=name):
            assert element.bits > 16 or lanes_of(kind) == 2, f"no intrinsic takes {name}"
        case IndexType():
            name = "i64"
        case IntegerType(bits=bits):
            name = f"i{bits}"
    return f"v{lanes}{name}" if lanes else name


def like(kind: Any, element: Scalar) -> Scalar | VectorType:
    """`element` in the shape (scalar or vector) of `kind`."""
    lanes = lanes_of(kind)
    return vector_type(element, lanes) if lanes else element


def bits_of(kind: Scalar) -> int:
    """Bits of a scalar type."""
    return 64 if isinstance(kind, IndexType) else kind.bits


def float_bits(value: float, kind: Scalar) -> int:
    """The IEEE bits of `value` in a float type."""
    if kind in (F16, BF16):
        return narrow_bits(value, DType.F16 if kind is F16 else DType.BF16)
    code, word = (">f", ">I") if kind is F32 else (">d", ">Q")
    return struct.unpack(word, struct.pack(code, value))[0]


def _rounded(value: float, kind: FloatType) -> float:
    """`value` as a number of the type has it."""
    if kind is F32:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    return value if kind is F64 else round_to_narrow(value, DType.F16 if kind is F16 else DType.BF16)


def never_wraps(operation: Operation) -> bool:
    """Whether an integer operation carries `nsw`."""
    return "nsw" in operation.properties


def lane_values(constant: Operation) -> Sequence[int | float]:
    """The lanes of an `arith.constant`; one for a scalar."""
    value = constant.properties["value"]
    return value if isinstance(value, tuple) else (value,) * (lanes_of(constant.results[0].type) or 1)


_NSW = {"nsw": True}
_PREDICATES: dict[str, Mapping[str, str]] = {
    name: {"predicate": name}
    for name in (
        *("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge", "false", "true"),
        *("oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "une", "uno"),
    )
}


class Builder:
    """Appends operations to `block`; `into` goes inside a region for the length of a call."""

    def __init__(self, block: Block) -> None:
        self.entry = block
        self.block = block
        self.constants: dict[tuple[Type, str], Operation] = {}
        self.allocas: list[Operation] = []
        self.place: Place | None = None

    def add(self, operation: Operation) -> Value:
        """Appends `operation`, at the current place of the source; its first result."""
        operation.place = self.place
        self.block.add(operation)
        return operation.results[0]

    def into(self, block: Block, body: Callable[[], None]) -> Block:
        """Runs `body` with `block` as the place to append; gives the block back."""
        outside, self.block = self.block, block
        body()
        self.block = outside
        return block

    def close(self) -> None:
        """Puts the constants and allocas at the top of the entry block."""
        self.entry.insert(0, [*self.constants.values(), *self.allocas])

    # -------------------------------------------------------------------------- constants

    def constant(self, value: int | float, kind: Any) -> Value:
        """A constant of a scalar or vector type (a vector's lanes are all `value`)."""
        key = (kind, repr(value))
        found = self.constants.get(key)
        if found is None:
            element = element_type(kind)
            if isinstance(element, FloatType):
                number: int | float = _rounded(float(value), element)
            else:
                number = wrap(int(value), element)
            found = self.constants[key] = Operation("arith.constant", (), (kind,), {"value": number})
        return found.results[0]

    def iota(self, kind: VectorType) -> Value:
        """The constant vector 0, 1, 2, ... of an integer vector type."""
        key = (kind, "iota")
        found = self.constants.get(key)
        if found is None:
            lanes = {"value": tuple(range(kind.lanes))}
            found = self.constants[key] = Operation("arith.constant", (), (kind,), lanes)
        return found.results[0]

    # ------------------------------------------------------------------------- arithmetic

    def binary(self, name: str, left: Value, right: Value, nsw: bool = False) -> Value:
        """`arith.<name> left, right`."""
        return self.add(Operation(f"arith.{name}", (left, right), (left.type,), _NSW if nsw else {}))

    def unary(self, name: str, operand: Value) -> Value:
        """`arith.negf`, or `math.<name>`."""
        return self.add(Operation(UNARY[name], (operand,), (operand.type,)))

    def word(self, name: str, operands: Sequence[Value]) -> Value:
        """Any operation by its whole name whose result has the type of its first operand."""
        return self.add(Operation(name, operands, (operands[0].type,)))

    def convert(self, name: str, operand: Value, kind: Any) -> Value:
        """`arith.<name> operand : ... to kind`, `kind` in the operand's shape."""
        return self.add(Operation(f"arith.{name}", (operand,), (like(operand.type, kind),)))

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """`math.fma`: a * b + c, rounded once."""
        return self.add(Operation("math.fma", (a, b, c), (a.type,)))

    def compare(self, predicate: str, left: Value, right: Value) -> Value:
        """`arith.cmpi` or `arith.cmpf`, by the predicate's name (o.. and u.. float ones apart)."""
        name = "arith.cmpf" if isinstance(element_type(left.type), FloatType) else "arith.cmpi"
        return self.add(Operation(name, (left, right), (like(left.type, I1),), _PREDICATES[predicate]))

    def select(self, condition: Value, then: Value, otherwise: Value) -> Value:
        """`arith.select`; the condition may be scalar where the arms are vectors."""
        return self.add(Operation("arith.select", (condition, then, otherwise), (then.type,)))

    def intrinsic(self, name: str, operands: Sequence[Value], kind: Any) -> Value:
        """`llvm.call_intrinsic "name"(operands)`."""
        return self.add(Operation("llvm.call_intrinsic", operands, (kind,), {"intrin": name}))

    def call(self, name: str, operands: Sequence[Value], kind: Any) -> Value:
        """`func.call @name(operands)`."""
        return self.add(Operation("func.call", operands, (kind,), {"callee": name}))

    # ----------------------------------------------------------------------------- memory

    def alloca(self, element: Scalar, size: int) -> Value:
        """`memref.alloca` of constant size at the top of the function."""
        operation = Operation("memref.alloca", (), (memref_type(element, size),))
        self.allocas.append(operation)
        return operation.results[0]

    def load(self, source: Value, index: Value, scope: Scope | None = None) -> Value:
        """`memref.load source[index]`."""
        return self.add(Operation("memref.load", (source, index), (source.type.element_type,), _scoped(scope)))

    def store(
        self, value: Value, target: Value, index: Value, scope: Scope | None = None, nontemporal: bool = False
    ) -> None:
        """`memref.store value, target[index]`; `nontemporal`: it need not stay in caches."""
        properties = {**_scoped(scope), "nontemporal": True} if nontemporal else _scoped(scope)
        self.block.add(Operation("memref.store", (value, target, index), (), properties))

    def view(self, memref_: Value, place: Value, count: Value, alignment: int) -> Value:
        """`memref.subview memref_[place] [count] [1]`, which begins at a multiple of so many bytes
        (`memref.assume_alignment`)."""
        kind = view_type(memref_.type.element_type)
        view = self.add(Operation("memref.subview", (memref_, place, count), (kind,)))
        return self.add(Operation("memref.assume_alignment", (view,), (kind,), {"alignment": alignment}))

    def prefetch(self, source: Value, index: Value) -> None:
        """`memref.prefetch source[index]`."""
        self.block.add(Operation("memref.prefetch", (source, index)))

    def copy_late(
        self, source: Value, here: Value, target: Value, there: Value, elements: int
    ) -> None:
        """`nvgpu.device_async_copy source[here], target[there], elements`."""
        operands, properties = (source, here, target, there), {"elements": elements}
        self.block.add(Operation("nvgpu.device_async_copy", operands, (TOKEN,), properties))

    def arrive(self, pending: int) -> None:
        """`nvgpu.device_async_create_group`, and a wait for all groups but the last `pending`."""
        group = self.add(Operation("nvgpu.device_async_create_group", (), (TOKEN,)))
        self.block.add(Operation("nvgpu.device_async_wait", (group,), (), {"pending": pending}))

    def vector_load(
        self, source: Value, index: Value, lanes: int, alignment: int, scope: Scope | None = None
    ) -> Value:
        """`vector.load`, of `alignment` bytes where that is more than an element's (else 0)."""
        kind = vector_type(source.type.element_type, lanes)
        properties = {**_alignment(alignment), **_scoped(scope)}
        return self.add(Operation("vector.load", (source, index), (kind,), properties))

    def vector_store(
        self, value: Value, target: Value, index: Value, alignment: int, scope: Scope | None = None
    ) -> None:
        """`vector.store`, with `alignment` as in `vector_load`."""
        properties = {**_alignment(alignment), **_scoped(scope)}
        self.block.add(Operation("vector.store", (value, target, index), (), properties))

    def broadcast(self, value: Value, lanes: int) -> Value:
        """`vector.broadcast` of a scalar."""
        return self.add(Operation("vector.broadcast", (value,), (vector_type(value.type, lanes),)))

    def extract(self, value: Value, lane: int) -> Value:
        """`vector.extract value[lane]`."""
        return self.add(Operation("vector.extract", (value,), (element_type(value.type),), {"lane": lane}))

    def from_elements(self, values: Sequence[Value]) -> Value:
        """`vector.from_elements`."""
        kind = vector_type(values[0].type, len(values))
        return self.add(Operation("vector.from_elements", values, (kind,)))

    def recast(self, value: Value, element: Scalar) -> Value:
        """`vector.bitcast`: the same bits as a vector of `element`."""
        before = value.type
        bits = lanes_of(before) * bits_of(element_type(before))
        kind = vector_type(element, bits // bits_of(element))
        return self.add(Operation("vector.bitcast", (value,), (kind,)))

    def address(self, memref_: Value) -> Value:
        """`memref.extract_aligned_pointer_as_index`: where a buffer starts, in bytes."""
        return self.add(Operation("memref.extract_aligned_pointer_as_index", (memref_,), (INDEX,)))

    def place_in_block(self, memref_: Value, offset: Value, rank: Value) -> Value:
        """Where what lies `offset` bytes behind the start of a buffer in shared memory lies in that of the block
        of the cluster that has this rank."""
        start = self.convert("index_cast", self.address(memref_), I64)
        place = self.binary("addi", start, offset)
        own = self.add(Operation("llvm.inttoptr", (place,), (SHARED_POINTER,)))
        words = {"intrin": "llvm.nvvm.mapa.shared.cluster"}
        return self.add(Operation("llvm.call_intrinsic", (own, rank), (CLUSTER_POINTER,), words))

    # ---------------------------------------------------------------------------- control

    def loop(
        self,
        lower: Value,
        upper: Value,
        step: Value,
        body: Callable[[Value], None],
        scopes: Sequence[int] = (),
        by_two: bool = False,
    ) -> None:
        """`scf.for` without carried values; `body` gets the iterator. `scopes`: those that accesses inside are of. `by_two`:
        LLVM makes two vectors of it at a time, no more."""
        block = Block((lower.type,))

        def run() -> None:
            body(block.args[0])
            self.block.add(Operation("scf.yield"))

        self.into(block, run)
        properties: dict[str, Any] = {"scopes": tuple(scopes)} if scopes else {}
        if by_two:
            properties["by two"] = True
        self.block.add(Operation("scf.for", (lower, upper, step), properties=properties, blocks=(block,)))

    def carry(
        self,
        lower: Value,
        upper: Value,
        step: Value,
        initial: Sequence[Value],
        body: Callable[[Value, Sequence[Value]], Sequence[Value]],
    ) -> Sequence[Value]:
        """`scf.for` with carried values; the values after the last iteration."""
        kinds = [value.type for value in initial]
        block = Block((lower.type, *kinds))

        def run() -> None:
            self.block.add(Operation("scf.yield", body(block.args[0], block.args[1:])))

        self.into(block, run)
        operation = Operation("scf.for", (lower, upper, step, *initial), kinds, blocks=(block,))
        self.block.add(operation)
        return operation.results

    def branch(
        self,
        condition: Value,
        then: Callable[[], Value | None],
        otherwise: Callable[[], Value | None] | None = None,
        kind: Type | None = None,
    ) -> Value | None:
        """`scf.if`; with a `kind`, both arms give a value of it and so does the whole."""

        def arm(body: Callable[[], Value | None]) -> Block:
            def run() -> None:
                value = body()
                self.block.add(Operation("scf.yield", () if value is None else (value,)))

            return self.into(Block(), run)

        arms = (arm(then),) if otherwise is None else (arm(then), arm(otherwise))
        operation = Operation("scf.if", (condition,), () if kind is None else (kind,), blocks=arms)
        self.block.add(operation)
        return operation.results[0] if kind is not None else None


def _scoped(scope: Scope | None) -> dict[str, Scope]:
    return {} if scope is None else {"scope": scope}


def _alignment(alignment: int) -> dict[str, int]:
    return {"alignment": alignment} if alignment else {}


def wrap(value: int, kind: IntegerType | IndexType) -> int:
    """`value` modulo the width of the integer type `kind`, as a signed number (i1: 0 or -1...1)."""
    if isinstance(kind, IndexType):
        return value
    bits = kind.bits
    if bits == 1:
        return value & 1
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def make_function(
    name: str,
    inputs: Sequence[Type],
    outputs: Sequence[Type],
    body: Callable[[Builder, Sequence[Value]], Sequence[Value]],
) -> Operation:
    """A private `func.func` whose body `body` builds; it gives the values to return."""
    block = Block(inputs)
    builder = Builder(block)
    results = body(builder, block.args)
    builder.block.add(Operation("func.return", results))
    builder.close()
    properties = {"sym_name": name, "outputs": outputs, "private": True}
    return Operation("func.func", properties=properties, blocks=(block,))
