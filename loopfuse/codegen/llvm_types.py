"""MLIR's types and constants as LLVM's text."""

from __future__ import annotations

import struct

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    MemRefType,
    VectorType,
)
from xdsl.ir import Attribute

from loopfuse.codegen.mlir_build import (
    AddressSpace,
    AddressSpaceAttr,
    float_bits,
)


def space_of(kind: MemRefType) -> int:
    """The number of a memref's address space: 0 generic, 1 global, 3 shared."""
    space = kind.memory_space
    if not isinstance(space, AddressSpaceAttr):
        return 0
    return 1 if space.data == AddressSpace.Global else 3


def llvm_type(kind: Attribute, halves_as_bits: bool = False) -> str:
    """The LLVM type of an MLIR type."""
    match kind:
        case IntegerType():
            return f"i{kind.width.data}"
        case IndexType():
            return "i64"
        case Float16Type() | BFloat16Type() if halves_as_bits:
            return "i16"
        case Float16Type():
            return "half"
        case BFloat16Type():
            return "bfloat"
        case Float32Type():
            return "float"
        case Float64Type():
            return "double"
        case VectorType():
            return f"<{kind.get_shape()[0]} x {llvm_type(kind.element_type, halves_as_bits)}>"
        case MemRefType():
            space = space_of(kind)
            return f"ptr addrspace({space})" if space else "ptr"
        case _:
            raise AssertionError(f"no LLVM type for {kind}")


def bits_of(kind: str) -> int:
    """Bits of a number of this LLVM type."""
    return {"half": 16, "bfloat": 16, "float": 32, "double": 64}.get(kind) or int(kind[1:])


def scalar_text(value: int | float, element: Attribute, halves_as_bits: bool) -> str:
    """A number of type `element`."""
    if isinstance(value, float):
        if isinstance(element, Float16Type | BFloat16Type):
            if halves_as_bits:
                return str(float_bits(value, element))
            letter = "H" if isinstance(element, Float16Type) else "R"
            return f"0x{letter}{float_bits(value, element):04X}"
        if isinstance(element, Float32Type):
            # LLVM writes a float constant as the double of the same value; a NaN keeps its bits.
            value = struct.unpack(">f", struct.pack(">f", value))[0]
        return f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"
    if isinstance(element, IntegerType) and element.width.data == 1:
        return "true" if value else "false"
    return str(value)
