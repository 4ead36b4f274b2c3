"""The module that is compiled, as light records: MLIR's upstream operations, without a framework.

An operation is a name (`arith.addf`), operands, results, properties and blocks; `mlir_build` makes
them, `mlir_print` prints them in upstream's syntax, `llvm_walk` writes LLVM IR from them. Records of
xDSL, which checks and indexes each, took a quarter of the time of a compile; `mlir-opt` checks what is
printed in the tests. Types are made once each and compared by identity.

Properties are Python values: `value` of a constant is a number (of every lane, in a vector) or a tuple
of a vector's lanes; `predicate`, `intrin`, `callee`, `mode`, `kind` and names are words; `nsw` and
`private` are there or not; `alignment`, `elements`, `pending` and `lane` are integers; `map`, `set`, `lower` and
`upper` are AffineMaps. `hint` is what the printed text calls the result (or a loop's iterator), `notes` are attributes
for other tools.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

DYNAMIC = -1
"""The size of a memref that the type does not say."""


@dataclass(frozen=True, slots=True, eq=False)
class IntegerType:
    """`i<bits>`."""

    bits: int


@dataclass(frozen=True, slots=True, eq=False)
class IndexType:
    """`index`."""


@dataclass(frozen=True, slots=True, eq=False)
class FloatType:
    """`f16 bf16 f32 f64`."""

    name: str
    bits: int


Scalar = IntegerType | IndexType | FloatType


@dataclass(frozen=True, slots=True, eq=False)
class VectorType:
    """`vector<lanes x element>`; made by `vector_type`."""

    element_type: Scalar
    lanes: int


@dataclass(frozen=True, slots=True, eq=False)
class MemRefType:
    """`memref<size x ... x element, #gpu.address_space<space>>`; made by `memref_type`, for arrays of any
    rank by `array_type`, and by `view_type` for a part of an array (`is_view`: it begins anywhere)."""

    element_type: Scalar
    shape: tuple[int, ...]
    space: str
    is_view: bool = False

    @property
    def size(self) -> int:
        """The size of the one dimension that memory has in what is compiled."""
        return self.shape[0]


@dataclass(frozen=True, slots=True, eq=False)
class TokenType:
    """`!nvgpu.device.async.token`."""


@dataclass(frozen=True, slots=True, eq=False)
class PointerType:
    """`!llvm.ptr<space>`."""

    space: int


Type = Scalar | VectorType | MemRefType | TokenType | PointerType

INDEX = IndexType()
I1, I8, I16, I32, I64 = (IntegerType(bits) for bits in (1, 8, 16, 32, 64))
F16, BF16, F32, F64 = FloatType("f16", 16), FloatType("bf16", 16), FloatType("f32", 32), FloatType("f64", 64)
TOKEN = TokenType()
GLOBAL_POINTER, SHARED_POINTER, CLUSTER_POINTER = PointerType(1), PointerType(3), PointerType(7)
"""To memory of the device, to shared memory of the block, and of any block of its cluster."""


@cache
def vector_type(element: Scalar, lanes: int) -> VectorType:
    """`vector<lanes x element>`."""
    return VectorType(element, lanes)


@cache
def memref_type(element: Scalar, size: int = DYNAMIC, space: str = "") -> MemRefType:
    """`memref<size x element, space>`, of `global` or `workgroup` memory; dynamic by default."""
    return MemRefType(element, (size,), space)


@cache
def array_type(element: Scalar, shape: tuple[int, ...]) -> MemRefType:
    """`memref<shape x element>`."""
    return MemRefType(element, shape, "")


@cache
def view_type(element: Scalar) -> MemRefType:
    """`memref<? x element, strided<[1], offset: ?>>`."""
    return MemRefType(element, (DYNAMIC,), "", True)


def bytes_of(kind: Scalar) -> int:
    """Bytes that an element of this type takes in memory."""
    return 8 if isinstance(kind, IndexType) else max(1, kind.bits // 8)


class Value:
    """What an operation computes, or (`BlockArgument`) what a block is given."""

    __slots__ = ("owner", "type")

    def __init__(self, kind: Any, owner: Operation | Block) -> None:
        self.type: Any = kind
        self.owner = owner


class BlockArgument(Value):
    """An argument of a function, the iterator of a loop, or a value that it carries."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the source an operation comes from."""

    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class AffineMap:
    """`(d0, ...)[s0, ...] -> (results)`, or the constraints of an integer set. An operation of `affine` has a
    value for each of the dimensions and then of the symbols among its operands."""

    dims: int
    symbols: int
    results: tuple[str, ...]


_NONE: Mapping[str, Any] = {}


class Operation:
    """One operation; `parent` is the block that it stands in."""

    __slots__ = ("blocks", "name", "operands", "parent", "place", "properties", "results")

    def __init__(
        self,
        name: str,
        operands: Sequence[Value] = (),
        kinds: Sequence[Type] = (),
        properties: Mapping[str, Any] = _NONE,
        blocks: Sequence[Block] = (),
    ) -> None:
        self.name = name
        self.operands = operands
        self.results = [Value(kind, self) for kind in kinds]
        self.properties = properties
        self.blocks = blocks
        self.place: Place | None = None
        self.parent: Block | None = None
        for block in blocks:
            block.parent = self

    def parent_op(self) -> Operation | None:
        """The operation whose block this one stands in."""
        return None if self.parent is None else self.parent.parent

    def walk(self) -> Iterator[Operation]:
        """This operation and all inside it, in text order."""
        yield self
        for block in self.blocks:
            for each in block.ops:
                yield from each.walk()


class Block:
    """A list of operations, and the values that it is given."""

    __slots__ = ("args", "ops", "parent")

    def __init__(self, kinds: Sequence[Type] = (), ops: Sequence[Operation] = ()) -> None:
        self.args = [BlockArgument(kind, self) for kind in kinds]
        self.ops: list[Operation] = list(ops)
        self.parent: Operation | None = None
        for operation in self.ops:
            operation.parent = self

    def add(self, operation: Operation) -> None:
        """Appends an operation."""
        operation.parent = self
        self.ops.append(operation)

    def insert(self, position: int, operations: Sequence[Operation]) -> None:
        """Puts operations, which stand nowhere, before the one at `position`."""
        self.ops[position:position] = operations
        for operation in operations:
            operation.parent = self

    def remove(self, operation: Operation) -> None:
        """Takes an operation out."""
        self.ops.remove(operation)
        operation.parent = None


def module_of(operations: Sequence[Operation]) -> Operation:
    """`module { operations }`."""
    return Operation("builtin.module", blocks=(Block(ops=operations),))
