"""Conditions without branches, on the GPU: predicated stores to memory, selects in registers.

before:  br i1 %p, label %then, label %join      then: (index arithmetic) store float %x, ptr %a
after:   (index arithmetic) call void asm sideeffect "@$0 st.global.b32 [$1], $2;"(%p, %a, %x)

LLVM has no predicated store for NVPTX, and a branch costs more than it looks: what the value is
made of is sunk into it, and neither LLVM nor ptxas moves loads and arithmetic of later steps across
it. Without branches the whole body of a loop is one block to schedule.
"""

from __future__ import annotations

from loopfuse.codegen.build import element_type, lanes_of
from loopfuse.codegen.ir import Block, BlockArgument, Operation, Value
from loopfuse.codegen.llvm.memory import address_of, alignment_of
from loopfuse.codegen.llvm.types import bits_of
from loopfuse.codegen.llvm.writer import Writer

_PURE = {
    "arith.constant", "arith.addi", "arith.subi", "arith.muli", "arith.andi", "arith.ori",
    "arith.xori", "arith.cmpi", "arith.select", "arith.index_cast", "arith.extsi", "arith.extui",
    "arith.trunci", "arith.bitcast", "arith.maxsi", "arith.minsi", "arith.minui", "vector.broadcast",
    "vector.extract", "vector.from_elements",
}  # fmt: skip
"""What may run whether or not the condition holds."""
_ARITHMETIC = {
    "arith.addf", "arith.subf", "arith.mulf", "arith.negf", "arith.cmpf", "arith.maximumf",
    "arith.minimumf", "arith.maxnumf", "arith.minnumf", "arith.extf", "arith.truncf",
    "arith.sitofp", "arith.uitofp", "math.absi",
}  # fmt: skip
MOST = 200
"""The most operations that run for nothing where a condition does not hold."""
_CONSTRAINTS = {"i16": "h", "i32": "r"}


def is_register(buffer: Value) -> bool:
    """A buffer on the stack, which becomes registers."""
    return isinstance(buffer.owner, Operation) and buffer.owner.name == "memref.alloca"


def is_predicable(writer: Writer, block: Block) -> bool:
    """Does the block only calculate, and move values to registers or memory of the whole device?"""
    stores = 0
    for number, operation in enumerate(block.ops):
        if number > MOST:
            return False
        match operation.name:
            case "memref.store" | "vector.store":
                value, target, _ = operation.operands
                if is_register(target):
                    stores += 1
                    continue
                bits = _size_of(writer, value)
                if not isinstance(target, BlockArgument) or bits is None:
                    return False
                if alignment_of(writer, operation, value.type) * 8 < bits:
                    return False
                stores += 1
            case "memref.load" | "vector.load":
                if not is_register(operation.operands[0]):
                    return False
            case "scf.yield":
                pass
            case name:
                if name not in _PURE and name not in _ARITHMETIC and not _is_free(operation):
                    return False
    return stores > 0


def _is_free(operation: Operation) -> bool:
    """A call of an intrinsic that is one instruction, or a division by a constant, which cannot fault."""
    if operation.name == "arith.floordivsi":
        divisor = operation.operands[1].owner
        if not isinstance(divisor, Operation) or divisor.name != "arith.constant":
            return False
        return int(divisor.properties["value"]) > 0
    if operation.name != "llvm.call_intrinsic":
        return False
    return operation.properties["intrin"].startswith("llvm.fma")


def _size_of(writer: Writer, value: Value) -> int | None:
    """Bits of a value that one instruction can store; None for others."""
    total = bits_of(writer.kind(element_type(value.type))) * (lanes_of(value.type) or 1)
    return total if total in (8, 16, 32, 64, 128) else None


def store_where(writer: Writer, test: str, operation: Operation) -> None:
    """The store, where `test` holds."""
    value, target, index = operation.operands
    if is_register(target):
        place, pointer = address_of(writer, target, index)
        kind = writer.kind(value.type)
        align = alignment_of(writer, operation, value.type)
        old = writer.put(f"load {kind}, {pointer} {place}, align {align}")
        new = writer.put(f"select i1 {test}, {writer.typed(value)}, {kind} {old}")
        writer.lines.append(f"  store {kind} {new}, {pointer} {place}, align {align}")
        return
    place, pointer = address_of(writer, target, index)
    if "addrspace(1)" not in pointer:
        place = writer.put(f"addrspacecast {pointer} {place} to ptr addrspace(1)")
    kind, name = writer.kind(value.type), writer.names[value]
    size = _size_of(writer, value)
    assert size is not None
    if size <= 16:
        bits = name if kind == f"i{size}" else writer.put(f"bitcast {kind} {name} to i{size}")
        if size == 8:
            bits = writer.put(f"zext i8 {bits} to i16")
        words, width, wide = [bits], size, "i16"
    else:
        count = size // 32
        width, wide = 32, "i32"
        if count == 1:
            words = [name if kind == "i32" else writer.put(f"bitcast {kind} {name} to i32")]
        else:
            vector = writer.put(f"bitcast {kind} {name} to <{count} x i32>")
            words = [
                writer.put(f"extractelement <{count} x i32> {vector}, i64 {k}")
                for k in range(count)
            ]
    given = ", ".join(f"${2 + k}" for k in range(len(words)))
    suffix = "" if len(words) == 1 else f".v{len(words)}"
    given = given if len(words) == 1 else f"{{{given}}}"
    constraints = ",".join(["b", "l", *([_CONSTRAINTS[wide]] * len(words))])
    operands = ", ".join(f"{wide} {word}" for word in words)
    writer.lines.append(
        f'  call void asm sideeffect "@$0 st.global{suffix}.b{width} [$1], {given};", '
        f'"{constraints}"(i1 {test}, ptr addrspace(1) {place}, {operands})'
    )


