"""Operations that compute a value, as LLVM instructions: arithmetic, choices, vectors and calls."""

from __future__ import annotations

from loopfuse.codegen.build import (
    bits_of,
    element_type,
    intrinsic_suffix,
    lane_values,
    lanes_of,
    never_wraps,
)
from loopfuse.codegen.ir import Operation
from loopfuse.codegen.llvm.types import llvm_type, scalar_text
from loopfuse.codegen.llvm.writer import Writer

_SIMPLE = {
    f"arith.{mlir}": llvm
    for mlir, llvm in {
        "addi": "add",
        "subi": "sub",
        "muli": "mul",
        "divui": "udiv",
        "remui": "urem",
        "andi": "and",
        "ori": "or",
        "xori": "xor",
        "shli": "shl",
        "shrsi": "ashr",
        "shrui": "lshr",
        "addf": "fadd",
        "subf": "fsub",
        "mulf": "fmul",
        "divf": "fdiv",
    }.items()
}


_INTRINSICS = {
    "arith.minsi": "llvm.smin",
    "arith.maxsi": "llvm.smax",
    "arith.minui": "llvm.umin",
    "arith.maxui": "llvm.umax",
    "arith.minimumf": "llvm.minimum",
    "arith.maximumf": "llvm.maximum",
    "arith.minnumf": "llvm.minnum",
    "arith.maxnumf": "llvm.maxnum",
    "math.fma": "llvm.fma",
    "math.absf": "llvm.fabs",
    "math.copysign": "llvm.copysign",
    "math.floor": "llvm.floor",
    "math.ceil": "llvm.ceil",
    "math.roundeven": "llvm.roundeven",
    "math.trunc": "llvm.trunc",
    "math.sqrt": "llvm.sqrt",
}


_CONVERSIONS = {
    "arith.extsi": "sext",
    "arith.extui": "zext",
    "arith.trunci": "trunc",
    "arith.sitofp": "sitofp",
    "arith.uitofp": "uitofp",
    "arith.fptosi": "fptosi",
    "arith.extf": "fpext",
    "arith.truncf": "fptrunc",
    "arith.bitcast": "bitcast",
}


def put_plain(writer: Writer, operation: Operation) -> bool:
    """Whether the operation is one instruction, intrinsic or conversion, which is then written."""
    name = operation.name
    simple = _SIMPLE.get(name)
    if simple is not None:
        left, right = operation.operands
        flags = " nsw" if never_wraps(operation) else ""
        writer.define(operation, f"{simple}{flags} {writer.typed(left)}, {writer.names[right]}")
        return True
    intrinsic = _INTRINSICS.get(name)
    if intrinsic is not None:
        kind = operation.results[0].type
        arguments = [(writer.kind(each.type), writer.names[each]) for each in operation.operands]
        called = f"{intrinsic}.{intrinsic_suffix(kind)}"
        writer.define(operation, writer.intrinsic(called, writer.kind(kind), arguments))
        return True
    conversion = _CONVERSIONS.get(name)
    if conversion is not None:
        source, kind = operation.operands[0], operation.results[0].type
        if writer.halves_as_bits and conversion in ("fpext", "fptrunc"):
            _convert_bits(writer, operation, conversion)
        else:
            writer.define(operation, f"{conversion} {writer.typed(source)} to {writer.kind(kind)}")
        return True
    return False


def _convert_bits(writer: Writer, operation: Operation, conversion: str) -> None:
    """A conversion of floats where f16 and bf16 are i16 everywhere else."""
    source, result = operation.operands[0], operation.results[0]
    value, before, after = writer.names[source], llvm_type(source.type), llvm_type(result.type)
    if writer.kind(source.type) != before:
        value = writer.put(f"bitcast {writer.typed(source)} to {before}")
    if writer.kind(result.type) == after:
        writer.define(operation, f"{conversion} {before} {value} to {after}")
        return
    rounded = writer.put(f"{conversion} {before} {value} to {after}")
    writer.define(operation, f"bitcast {after} {rounded} to {writer.kind(result.type)}")


def constant(writer: Writer, operation: Operation) -> None:
    """A constant has no instruction: its text stands where it is used."""
    kind = operation.results[0].type
    if lanes_of(kind):
        element = element_type(kind)
        name = writer.kind(element)
        lanes = ", ".join(
            f"{name} {scalar_text(each, element, writer.halves_as_bits)}"
            for each in lane_values(operation)
        )
        text = f"<{lanes}>"
    else:
        text = scalar_text(operation.properties["value"], kind, writer.halves_as_bits)
    writer.names[operation.results[0]] = text


def compare(writer: Writer, operation: Operation) -> None:
    """`icmp` or `fcmp`."""
    is_float = operation.name == "arith.cmpf"
    predicate = operation.properties["predicate"]
    left, right = operation.operands
    writer.define(
        operation,
        f"{'fcmp' if is_float else 'icmp'} {predicate} {writer.typed(left)}, {writer.names[right]}",
    )


def select(writer: Writer, operation: Operation) -> None:
    """`select`, by one bit or lane by lane."""
    operands = ", ".join(writer.typed(each) for each in operation.operands)
    writer.define(operation, f"select {operands}")


def negate(writer: Writer, operation: Operation) -> None:
    """`fneg`."""
    writer.define(operation, f"fneg {writer.typed(operation.operands[0])}")


def absolute(writer: Writer, operation: Operation) -> None:
    """The absolute value of an integer; that of the least one is itself."""
    source = operation.operands[0]
    kind = writer.kind(source.type)
    name = f"llvm.abs.{intrinsic_suffix(source.type)}"
    writer.declared[name] = f"{kind} @{name}({kind}, i1)"
    writer.define(operation, f"call {kind} @{name}({writer.typed(source)}, i1 false)")


def floor_divide(writer: Writer, operation: Operation) -> None:
    """q = x / y truncated, less one where the remainder is not 0 and its sign is not y's. By a positive number: of ~x where x is
    negative, and ~ of what that gives, so that nothing signed is divided."""
    left, right = operation.operands
    kind = writer.kind(left.type)
    x, y = writer.names[left], writer.names[right]
    zero = "zeroinitializer" if lanes_of(left.type) else "0"
    if y.isdecimal() and int(y) & (int(y) - 1) == 0 and int(y) > 0:
        shift = int(y).bit_length() - 1
        writer.define(operation, f"ashr {kind} {x}, {shift}")
        return
    if y.isdecimal() and int(y) > 0:
        bits = bits_of(element_type(left.type))
        sign = writer.put(f"ashr {kind} {x}, {bits - 1}")
        either = writer.put(f"xor {kind} {x}, {sign}")
        positive = writer.put(f"and {kind} {either}, {(1 << bits - 1) - 1}")
        quotient = writer.put(f"udiv {kind} {positive}, {y}")
        writer.define(operation, f"xor {kind} {quotient}, {sign}")
        return
    quotient = writer.put(f"sdiv {kind} {x}, {y}")
    product = writer.put(f"mul {kind} {quotient}, {y}")
    remainder = writer.put(f"sub {kind} {x}, {product}")
    inexact = writer.put(f"icmp ne {kind} {remainder}, {zero}")
    signs = writer.put(f"xor {kind} {remainder}, {y}")
    apart = writer.put(f"icmp slt {kind} {signs}, {zero}")
    bit = "i1" if not lanes_of(left.type) else f"<{lanes_of(left.type)} x i1>"
    adjust = writer.put(f"and {bit} {inexact}, {apart}")
    wide = writer.put(f"sext {bit} {adjust} to {kind}")
    writer.define(operation, f"add {kind} {quotient}, {wide}")


def index_cast(writer: Writer, operation: Operation) -> None:
    """An integer of another width, as a signed one."""
    source, kind = operation.operands[0], writer.kind(operation.results[0].type)
    before = writer.kind(source.type)
    bits = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
    if before == kind:
        writer.names[operation.results[0]] = writer.names[source]
        return
    word = "sext" if bits[kind] > bits[before] else "trunc"
    name = writer.names[source]
    if name.lstrip("-").isdecimal():
        writer.names[operation.results[0]] = name
        return
    writer.define(operation, f"{word} {before} {name} to {kind}")


def call_intrinsic(writer: Writer, operation: Operation) -> None:
    """An intrinsic that the module names itself."""
    name = operation.properties["intrin"]
    arguments = [(writer.kind(each.type), writer.names[each]) for each in operation.operands]
    if not operation.results:
        writer.lines.append("  " + writer.intrinsic(name, "void", arguments))
        return
    kind = writer.kind(operation.results[0].type)
    writer.define(operation, writer.intrinsic(name, kind, arguments))


def broadcast(writer: Writer, operation: Operation) -> None:
    """One value in every lane."""
    source = operation.operands[0]
    kind = writer.kind(operation.results[0].type)
    one = writer.put(f"insertelement {kind} poison, {writer.typed(source)}, i64 0")
    lanes = lanes_of(operation.results[0].type)
    writer.define(
        operation, f"shufflevector {kind} {one}, {kind} poison, <{lanes} x i32> zeroinitializer"
    )


def extract(writer: Writer, operation: Operation) -> None:
    """One lane."""
    lane = operation.properties["lane"]
    writer.define(operation, f"extractelement {writer.typed(operation.operands[0])}, i64 {lane}")


def from_elements(writer: Writer, operation: Operation) -> None:
    """A vector of values."""
    kind = writer.kind(operation.results[0].type)
    whole = "poison"
    for lane, value in enumerate(operation.operands):
        whole = writer.put(f"insertelement {kind} {whole}, {writer.typed(value)}, i64 {lane}")
    writer.names[operation.results[0]] = whole


def recast(writer: Writer, operation: Operation) -> None:
    """The bits of a vector as other elements."""
    kind = writer.kind(operation.results[0].type)
    writer.define(operation, f"bitcast {writer.typed(operation.operands[0])} to {kind}")
