"""MLIR's types and constants as LLVM's text."""

from __future__ import annotations

import struct

from loopfuse.codegen.build import GLOBAL, float_bits
from loopfuse.codegen.ir import (
    BF16,
    F16,
    F32,
    I1,
    FloatType,
    IndexType,
    IntegerType,
    MemRefType,
    PointerType,
    Scalar,
    Type,
    VectorType,
)

_FLOATS = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}


def space_of(kind: MemRefType) -> int:
    """The number of a memref's address space: 0 generic, 1 global, 3 shared."""
    return 0 if not kind.space else 1 if kind.space == GLOBAL else 3


def llvm_type(kind: Type, halves_as_bits: bool = False) -> str:
    """The LLVM type of an MLIR type."""
    match kind:
        case IntegerType():
            return f"i{kind.bits}"
        case IndexType():
            return "i64"
        case FloatType(name=name, bits=bits):
            return "i16" if halves_as_bits and bits == 16 else _FLOATS[name]
        case VectorType():
            return f"<{kind.lanes} x {llvm_type(kind.element_type, halves_as_bits)}>"
        case MemRefType():
            space = space_of(kind)
            return f"ptr addrspace({space})" if space else "ptr"
        case PointerType():
            return f"ptr addrspace({kind.space})"
        case _:
            raise AssertionError(f"no LLVM type for {kind}")


def bits_of(kind: str) -> int:
    """Bits of a number of this LLVM type."""
    return {"half": 16, "bfloat": 16, "float": 32, "double": 64}.get(kind) or int(kind[1:])


def scalar_text(value: int | float, element: Scalar, halves_as_bits: bool) -> str:
    """A number of type `element`."""
    if isinstance(value, float):
        if element in (F16, BF16):
            if halves_as_bits:
                return str(float_bits(value, element))
            letter = "H" if element is F16 else "R"
            return f"0x{letter}{float_bits(value, element):04X}"
        if element is F32:
            # LLVM writes a float constant as the double of the same value; a NaN keeps its bits.
            value = struct.unpack(">f", struct.pack(">f", value))[0]
        return f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"
    if element is I1:
        return "true" if value else "false"
    return str(value)
