"""Building MLIR operations with xDSL, tersely and fast.

`Builder` appends operations to a block. Operations are made with `create`, which skips xDSL's
argument processing (10 us an operation instead of 24). Integer and float constants are collected,
one of each, and put at the top of the function when it is closed. Operations that xDSL 0.74 lacks
are defined here with upstream's names; `mlir_print` prints everything in upstream's syntax.
"""

# xDSL's declarative classes are untyped where xDSL is not installed beside pyright.
# pyright: reportUntypedBaseClass=false, reportUntypedClassDecorator=false

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from xdsl.dialects import arith, func, gpu, llvm, math, memref, scf, vector
from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    MemRefType,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    UnknownLoc,
    VectorType,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import (
    Attribute,
    Block,
    Operation,
    ParametrizedAttribute,
    Region,
    SpacedOpaqueSyntaxAttribute,
    SSAValue,
    TypeAttribute,
)
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.utils.str_enum import StrEnum

from loopfuse.base.dtypes import DType
from loopfuse.base.rounding import narrow_bits

INDEX = IndexType()
I1, I8, I16, I32, I64 = (IntegerType(bits) for bits in (1, 8, 16, 32, 64))
F16, BF16, F32, F64 = Float16Type(), BFloat16Type(), Float32Type(), Float64Type()
FloatType = Float16Type | BFloat16Type | Float32Type | Float64Type
DYNAMIC = -9223372036854775808

STORAGE: dict[DType, Attribute] = {
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

VALUE: dict[DType, Attribute] = {**STORAGE, DType.BOOL: I1}
"""How each dtype is computed with."""


class AddressSpace(StrEnum):
    """Memory of a GPU."""

    Global = "global"
    Workgroup = "workgroup"


@irdl_attr_definition
class AddressSpaceAttr(EnumAttribute[AddressSpace], SpacedOpaqueSyntaxAttribute):
    """`#gpu.address_space<...>`."""

    name = "gpu.address_space"


@irdl_op_definition
class ShuffleOp(IRDLOperation):
    """`gpu.shuffle mode value, offset, width`."""

    name = "gpu.shuffle"
    value = operand_def()
    offset = operand_def(I32)
    width = operand_def(I32)
    mode = prop_def(StringAttr)
    shuffle_result = result_def()
    valid = result_def(I1)


@irdl_op_definition
class PrefetchOp(IRDLOperation):
    """`memref.prefetch memref[index], read, locality<2>, data`: into the second-level cache."""

    name = "memref.prefetch"
    source = operand_def(MemRefType)
    index = operand_def(IndexType)


WIDEST_COPY = 16
"""Bytes of the widest late copy."""


@irdl_attr_definition
class AsyncTokenType(ParametrizedAttribute, TypeAttribute):
    """`!nvgpu.device.async.token`."""

    name = "nvgpu.device.async.token"


@irdl_op_definition
class AsyncCopyOp(IRDLOperation):
    """`nvgpu.device_async_copy source[place], target[place], elements`."""

    name = "nvgpu.device_async_copy"
    source = operand_def(MemRefType)
    source_index = operand_def(IndexType)
    target = operand_def(MemRefType)
    target_index = operand_def(IndexType)
    elements = prop_def(IntegerAttr)
    token = result_def(AsyncTokenType)


def copied_bytes(operation: Operation) -> int:
    """How many bytes an `nvgpu.device_async_copy` moves."""
    element = operation.operands[0].type.element_type  # pyright: ignore
    return operation.properties["elements"].value.data * element.size  # pyright: ignore


@irdl_op_definition
class AsyncGroupOp(IRDLOperation):
    """`nvgpu.device_async_create_group`: of all copies since the last."""

    name = "nvgpu.device_async_create_group"
    token = result_def(AsyncTokenType)


@irdl_op_definition
class AsyncWaitOp(IRDLOperation):
    """`nvgpu.device_async_wait group {numGroups = N : i32}`."""

    name = "nvgpu.device_async_wait"
    group = operand_def(AsyncTokenType)
    pending = prop_def(IntegerAttr)


@irdl_op_definition
class FromElementsOp(IRDLOperation):
    """`vector.from_elements %a, %b, ... : vector<NxT>`."""

    name = "vector.from_elements"
    elements = var_operand_def()
    result = result_def(VectorType)


NSW = arith.IntegerOverflowAttr([arith.IntegerOverflowFlag.NSW])
GLOBAL = AddressSpaceAttr(AddressSpace.Global)
WORKGROUP = AddressSpaceAttr(AddressSpace.Workgroup)

BINARY: dict[str, type[Operation]] = {
    "addi": arith.AddiOp,
    "subi": arith.SubiOp,
    "muli": arith.MuliOp,
    "divui": arith.DivUIOp,
    "remui": arith.RemUIOp,
    "floordivsi": arith.FloorDivSIOp,
    "minsi": arith.MinSIOp,
    "maxsi": arith.MaxSIOp,
    "minui": arith.MinUIOp,
    "maxui": arith.MaxUIOp,
    "andi": arith.AndIOp,
    "ori": arith.OrIOp,
    "xori": arith.XOrIOp,
    "shli": arith.ShLIOp,
    "shrsi": arith.ShRSIOp,
    "shrui": arith.ShRUIOp,
    "addf": arith.AddfOp,
    "subf": arith.SubfOp,
    "mulf": arith.MulfOp,
    "divf": arith.DivfOp,
    "minimumf": arith.MinimumfOp,
    "maximumf": arith.MaximumfOp,
    "minnumf": arith.MinnumfOp,
    "maxnumf": arith.MaxnumfOp,
}
CONVERSIONS: dict[str, type[Operation]] = {
    "extsi": arith.ExtSIOp,
    "extui": arith.ExtUIOp,
    "trunci": arith.TruncIOp,
    "sitofp": arith.SIToFPOp,
    "uitofp": arith.UIToFPOp,
    "fptosi": arith.FPToSIOp,
    "extf": arith.ExtFOp,
    "truncf": arith.TruncFOp,
    "index_cast": arith.IndexCastOp,
    "bitcast": arith.BitcastOp,
}
UNARY: dict[str, type[Operation]] = {
    "negf": arith.NegfOp,
    "absf": math.AbsFOp,
    "absi": math.AbsIOp,
    "floor": math.FloorOp,
    "ceil": math.CeilOp,
    "roundeven": math.RoundEvenOp,
    "trunc": math.TruncOp,
    "sqrt": math.SqrtOp,
}
INTEGER_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
FLOAT_PREDICATES = (
    "false",
    *("oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)
_PREDICATE_ATTRIBUTES = tuple(IntegerAttr(value, I64) for value in range(16))
DIMENSION_X = gpu.DimensionAttr(gpu.DimensionEnum.X)


def vector_type(element: Attribute, lanes: int) -> VectorType:
    """`vector<lanes x element>`."""
    return VectorType(element, [lanes])


def memref_type(element: Attribute, size: int = DYNAMIC, space: Attribute | None = None) -> MemRefType:
    """`memref<size x element, space>`; dynamic by default."""
    return MemRefType(element, [size]) if space is None else MemRefType(element, [size], memory_space=space)


def element_type(kind: Attribute) -> Attribute:
    """The element type of a vector type; any other type itself."""
    return kind.element_type if isinstance(kind, VectorType) else kind


def lanes_of(kind: Attribute) -> int:
    """How many lanes a vector type has; 0 for a scalar."""
    return kind.get_shape()[0] if isinstance(kind, VectorType) else 0


def intrinsic_suffix(kind: Attribute) -> str:
    """How LLVM's intrinsics name a type: f32, v4i64."""
    lanes, element = lanes_of(kind), element_type(kind)
    match element:
        case Float32Type():
            name = "f32"
        case Float64Type():
            name = "f64"
        case IndexType():
            name = "i64"
        case IntegerType():
            name = f"i{element.width.data}"
        case _:
            raise AssertionError(f"no intrinsic takes {kind}")
    return f"v{lanes}{name}" if lanes else name


def like(kind: Attribute, element: Attribute) -> Attribute:
    """`element` in the shape (scalar or vector) of `kind`."""
    lanes = lanes_of(kind)
    return vector_type(element, lanes) if lanes else element


def _bits(kind: Attribute) -> int:
    """Bits of a scalar type."""
    match kind:
        case IntegerType():
            return kind.width.data
        case Float16Type() | BFloat16Type():
            return 16
        case Float32Type():
            return 32
        case _:
            return 64


def float_bits(value: float, kind: Attribute) -> int:
    """The IEEE bits of `value` in a float type."""
    if isinstance(kind, Float16Type | BFloat16Type):
        return narrow_bits(value, DType.F16 if isinstance(kind, Float16Type) else DType.BF16)
    code, word = (">f", ">I") if isinstance(kind, Float32Type) else (">d", ">Q")
    return struct.unpack(word, struct.pack(code, value))[0]


def never_wraps(operation: Operation) -> bool:
    """Whether an integer operation carries `nsw`. (xDSL gives every one a property that says no
    flags, so its being there means nothing.)"""
    return operation.properties.get("overflowFlags") == NSW


class Builder:
    """Appends operations to `block`; `into` goes inside a region for the length of a call."""

    def __init__(self, block: Block) -> None:
        self.entry = block
        self.block = block
        self.constants: dict[tuple[Attribute, str], Operation] = {}
        self.known: dict[tuple[int, str], tuple[Attribute, SSAValue]] = {}
        self.allocas: list[Operation] = []
        self.location: LocationAttr = UnknownLoc()

    def add(self, operation: Operation) -> SSAValue:
        """Appends `operation`, at the current place of the source; its first result."""
        operation.location = self.location
        self.block.add_op(operation)
        return operation.results[0]

    def into(self, block: Block, body: Callable[[], None]) -> Block:
        """Runs `body` with `block` as the place to append; gives the block back."""
        outside, self.block = self.block, block
        body()
        self.block = outside
        return block

    def close(self) -> None:
        """Puts the constants and allocas at the top of the entry block."""
        operations = [*self.constants.values(), *self.allocas]
        if self.entry.first_op is None:
            self.entry.add_ops(operations)
        else:
            self.entry.insert_ops_before(operations, self.entry.first_op)

    # -------------------------------------------------------------------------- constants

    def constant(self, value: int | float, kind: Attribute) -> SSAValue:
        """A constant of a scalar or vector type (a vector's lanes are all `value`)."""
        quick = (id(kind), repr(value))  # to hash a type takes longer than all else here
        seen = self.known.get(quick)
        if seen is not None:
            return seen[1]
        key = (kind, quick[1])
        found = self.constants.get(key)
        if found is None:
            element = element_type(kind)
            one = (
                FloatAttr(value, element)
                if isinstance(element, FloatType)
                else IntegerAttr(wrap(int(value), element), element)  # pyright: ignore
            )
            attribute = (
                DenseIntOrFPElementsAttr.from_list(kind, [one.value.data])
                if isinstance(kind, VectorType)
                else one
            )
            found = arith.ConstantOp.create(result_types=(kind,), properties={"value": attribute})
            self.constants[key] = found
        self.known[quick] = kind, found.results[0]
        return found.results[0]

    def iota(self, kind: VectorType) -> SSAValue:
        """The constant vector 0, 1, 2, ... of an integer vector type."""
        key = (kind, "iota")
        found = self.constants.get(key)
        if found is None:
            lanes = list(range(lanes_of(kind)))
            attribute = DenseIntOrFPElementsAttr.from_list(kind, lanes)  # pyright: ignore
            found = arith.ConstantOp.create(result_types=(kind,), properties={"value": attribute})
            self.constants[key] = found
        return found.results[0]

    # ------------------------------------------------------------------------- arithmetic

    def binary(self, name: str, left: SSAValue, right: SSAValue, nsw: bool = False) -> SSAValue:
        """`arith.<name> left, right`."""
        properties: dict[str, Attribute] = {"overflowFlags": NSW} if nsw else {}
        operation = BINARY[name].create(
            operands=(left, right), result_types=(left.type,), properties=properties
        )
        return self.add(operation)

    def unary(self, name: str, operand: SSAValue) -> SSAValue:
        """`arith.negf`, or `math.<name>`."""
        return self.add(UNARY[name].create(operands=(operand,), result_types=(operand.type,)))

    def convert(self, name: str, operand: SSAValue, kind: Attribute) -> SSAValue:
        """`arith.<name> operand : ... to kind`, `kind` in the operand's shape."""
        kind = like(operand.type, kind)
        return self.add(CONVERSIONS[name].create(operands=(operand,), result_types=(kind,)))

    def fma(self, a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue:
        """`math.fma`: a * b + c, rounded once."""
        return self.add(math.FmaOp.create(operands=(a, b, c), result_types=(a.type,)))

    def compare(self, predicate: str, left: SSAValue, right: SSAValue) -> SSAValue:
        """`arith.cmpi` or `arith.cmpf`, by the predicate's name (o.. and u.. float ones apart)."""
        is_float = isinstance(element_type(left.type), Float32Type | Float64Type)
        names = FLOAT_PREDICATES if is_float else INTEGER_PREDICATES
        operation = (arith.CmpfOp if is_float else arith.CmpiOp).create(
            operands=(left, right),
            result_types=(like(left.type, I1),),
            properties={"predicate": _PREDICATE_ATTRIBUTES[names.index(predicate)]},
        )
        return self.add(operation)

    def select(self, condition: SSAValue, then: SSAValue, otherwise: SSAValue) -> SSAValue:
        """`arith.select`; the condition may be scalar where the arms are vectors."""
        return self.add(
            arith.SelectOp.create(
                operands=(condition, then, otherwise), result_types=(then.type,)
            )
        )

    def intrinsic(self, name: str, operands: Sequence[SSAValue], kind: Attribute) -> SSAValue:
        """`llvm.call_intrinsic "name"(operands)`."""
        return self.add(llvm.CallIntrinsicOp(name, list(operands), [kind]))

    def call(self, name: str, operands: Sequence[SSAValue], kind: Attribute) -> SSAValue:
        """`func.call @name(operands)`."""
        return self.add(
            func.CallOp.create(
                operands=operands,
                result_types=(kind,),
                properties={"callee": SymbolRefAttr(name)},
            )
        )

    # ----------------------------------------------------------------------------- memory

    def alloca(self, element: Attribute, size: int) -> SSAValue:
        """`memref.alloca` of constant size at the top of the function."""
        operation = memref.AllocaOp.create(
            result_types=(memref_type(element, size),),
            properties={"operandSegmentSizes": _NO_SEGMENTS},
        )
        self.allocas.append(operation)
        return operation.results[0]

    def load(self, source: SSAValue, index: SSAValue) -> SSAValue:
        """`memref.load source[index]`."""
        element = source.type.element_type  # pyright: ignore
        return self.add(memref.LoadOp.create(operands=(source, index), result_types=(element,)))

    def store(self, value: SSAValue, target: SSAValue, index: SSAValue) -> None:
        """`memref.store value, target[index]`."""
        self.block.add_op(memref.StoreOp.create(operands=(value, target, index)))

    def prefetch(self, source: SSAValue, index: SSAValue) -> None:
        """`memref.prefetch source[index]`."""
        self.block.add_op(PrefetchOp.create(operands=(source, index)))

    def copy_late(
        self, source: SSAValue, here: SSAValue, target: SSAValue, there: SSAValue, elements: int
    ) -> None:
        """`nvgpu.device_async_copy source[here], target[there], elements`."""
        self.block.add_op(
            AsyncCopyOp.create(
                operands=(source, here, target, there),
                result_types=(AsyncTokenType(),),
                properties={"elements": IntegerAttr(elements, I32)},
            )
        )

    def arrive(self, pending: int) -> None:
        """`nvgpu.device_async_create_group`, and a wait for all groups but the last `pending`."""
        group = self.add(AsyncGroupOp.create(result_types=(AsyncTokenType(),)))
        self.block.add_op(
            AsyncWaitOp.create(
                operands=(group,), properties={"pending": IntegerAttr(pending, I32)}
            )
        )

    def vector_load(self, source: SSAValue, index: SSAValue, lanes: int, alignment: int) -> SSAValue:
        """`vector.load`, of `alignment` bytes where that is more than an element's (else 0)."""
        kind = vector_type(source.type.element_type, lanes)  # pyright: ignore
        return self.add(
            vector.LoadOp.create(
                operands=(source, index), result_types=(kind,), properties=_alignment(alignment)
            )
        )

    def vector_store(self, value: SSAValue, target: SSAValue, index: SSAValue, alignment: int) -> None:
        """`vector.store`, with `alignment` as in `vector_load`."""
        self.block.add_op(
            vector.StoreOp.create(
                operands=(value, target, index), properties=_alignment(alignment)
            )
        )

    def broadcast(self, value: SSAValue, lanes: int) -> SSAValue:
        """`vector.broadcast` of a scalar."""
        kind = vector_type(value.type, lanes)
        return self.add(vector.BroadcastOp.create(operands=(value,), result_types=(kind,)))

    def extract(self, value: SSAValue, lane: int) -> SSAValue:
        """`vector.extract value[lane]`."""
        return self.add(vector.ExtractOp(value, [lane], element_type(value.type)))

    def from_elements(self, values: Sequence[SSAValue]) -> SSAValue:
        """`vector.from_elements`."""
        kind = vector_type(values[0].type, len(values))
        return self.add(FromElementsOp.create(operands=values, result_types=(kind,)))

    def recast(self, value: SSAValue, element: Attribute) -> SSAValue:
        """`vector.bitcast`: the same bits as a vector of `element`."""
        before = value.type
        bits = lanes_of(before) * _bits(element_type(before))
        kind = vector_type(element, bits // _bits(element))
        return self.add(vector.BitcastOp.create(operands=(value,), result_types=(kind,)))

    def address(self, memref_: SSAValue) -> SSAValue:
        """`memref.extract_aligned_pointer_as_index`: where a buffer starts, in bytes."""
        return self.add(
            memref.ExtractAlignedPointerAsIndexOp.create(
                operands=(memref_,), result_types=(INDEX,)
            )
        )

    # ---------------------------------------------------------------------------- control

    def loop(
        self,
        lower: SSAValue,
        upper: SSAValue,
        step: SSAValue,
        body: Callable[[SSAValue], None],
    ) -> None:
        """`scf.for` without carried values; `body` gets the iterator."""
        block = Block(arg_types=[lower.type])

        def run() -> None:
            body(block.args[0])
            self.block.add_op(scf.YieldOp.create())

        self.into(block, run)
        self.block.add_op(
            scf.ForOp.create(operands=(lower, upper, step), regions=[Region(block)])
        )

    def carry(
        self,
        lower: SSAValue,
        upper: SSAValue,
        step: SSAValue,
        initial: Sequence[SSAValue],
        body: Callable[[SSAValue, Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> Sequence[SSAValue]:
        """`scf.for` with carried values; the values after the last iteration."""
        kinds = [value.type for value in initial]
        block = Block(arg_types=[lower.type, *kinds])

        def run() -> None:
            self.block.add_op(scf.YieldOp.create(operands=body(block.args[0], block.args[1:])))

        self.into(block, run)
        operation = scf.ForOp.create(
            operands=(lower, upper, step, *initial), result_types=kinds, regions=[Region(block)]
        )
        self.block.add_op(operation)
        return operation.results

    def branch(
        self,
        condition: SSAValue,
        then: Callable[[], SSAValue | None],
        otherwise: Callable[[], SSAValue | None] | None = None,
        kind: Attribute | None = None,
    ) -> SSAValue | None:
        """`scf.if`; with a `kind`, both arms give a value of it and so does the whole."""

        def arm(body: Callable[[], SSAValue | None]) -> Region:
            def run() -> None:
                value = body()
                self.block.add_op(scf.YieldOp.create(operands=() if value is None else (value,)))

            return Region(self.into(Block(), run))

        regions = [arm(then), Region() if otherwise is None else arm(otherwise)]
        operation = scf.IfOp.create(
            operands=(condition,), result_types=() if kind is None else (kind,), regions=regions
        )
        self.block.add_op(operation)
        return operation.results[0] if kind is not None else None


_NO_SEGMENTS = memref.AllocaOp.get(I32, 64, [1]).properties["operandSegmentSizes"]


def _alignment(alignment: int) -> dict[str, Attribute]:
    return {"alignment": IntegerAttr(alignment, I64)} if alignment else {}


def wrap(value: int, kind: Attribute) -> int:
    """`value` modulo the width of the integer type `kind`, as a signed number (i1: 0 or -1...1)."""
    if isinstance(kind, IndexType):
        return value
    bits = kind.width.data  # pyright: ignore
    if bits == 1:
        return value & 1
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def make_function(
    name: str,
    inputs: Sequence[Attribute],
    outputs: Sequence[Attribute],
    body: Callable[[Builder, Sequence[SSAValue]], Sequence[SSAValue]],
    private: bool = True,
    arguments: Sequence[dict[str, Attribute]] | None = None,
) -> func.FuncOp:
    """A `func.func` whose body `body` builds; it gives the values to return."""
    block = Block(arg_types=inputs)
    builder = Builder(block)
    results = body(builder, block.args)
    builder.block.add_op(func.ReturnOp.create(operands=results))
    builder.close()
    properties: dict[str, Attribute] = {
        "sym_name": StringAttr(name),
        "function_type": FunctionType.from_lists(inputs, outputs),
    }
    if private:
        properties["sym_visibility"] = StringAttr("private")
    if arguments is not None:
        properties["arg_attrs"] = ArrayAttr([DictionaryAttr(each) for each in arguments])
    return func.FuncOp.create(properties=properties, regions=[Region(block)])


UNIT = UnitAttr()
