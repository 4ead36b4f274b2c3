"""LLVM IR from the structured module, by one walk.

`scf` becomes blocks and phis, a memref becomes a pointer, `index` becomes i64, and every other
operation one instruction or intrinsic call (a floor division a few). No fast-math flag is ever
printed. Arguments never overlap (the caller's promise), so each pointer is `noalias`; those the
function only reads are `readonly` too, from which NVPTX makes `ld.global.nc`.

The text is written directly: it is what llvmlite parses anyway, and a function of the module alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from loopfuse.codegen.ir import Block, Operation
from loopfuse.codegen.llvm.device import HOST, Device
from loopfuse.codegen.llvm.late import copy_late, end_group, wait_for_groups
from loopfuse.codegen.llvm.memory import (
    address,
    aligned,
    allocate,
    atomic,
    barrier,
    get_global,
    load,
    load_from,
    number_of_block_or_thread,
    place_buffers,
    pointer,
    prefetch,
    shuffle,
    store,
    store_to,
    view,
)
from loopfuse.codegen.llvm.predicated import is_predicable, store_where
from loopfuse.codegen.llvm.values import (
    absolute,
    broadcast,
    call_intrinsic,
    compare,
    constant,
    extract,
    floor_divide,
    from_elements,
    index_cast,
    negate,
    put_plain,
    recast,
    select,
)
from loopfuse.codegen.llvm.writer import NONTEMPORAL, Writer


def emit_llvm(module: Operation, device: Device = HOST, halves_as_bits: bool = False) -> str:
    """The LLVM IR text of `module`. A triple and data layout are written where the device has them.

    `halves_as_bits`: f16 and bf16 are i16, which suits modules that only move and bitcast them. On
    CPUs that convert f32 to bf16, LLVM broadcasts a bf16 by way of an f32 and back, and that
    instruction flushes subnormals.
    """
    writer = Writer(halves_as_bits, device)
    for operation in module.blocks[0].ops:
        _top(writer, operation)
    head: list[str] = []
    if device.layout:
        head.append(f'target datalayout = "{device.layout}"')
    if device.triple:
        head.append(f'target triple = "{device.triple}"')
    head += writer.globals
    head += [f"declare {writer.declared[name]}" for name in sorted(writer.declared)]
    head += writer.lines
    words = "".join(f" {word}" for word in ("nounwind", *device.words))
    head.append(f"attributes #0 = {{{words} }}")
    head.append("attributes #1 = { alwaysinline nounwind }")
    if writer.has_apart:
        head.append("attributes #2 = { noinline nounwind memory(none) }")
    if writer.has_wide:
        # Left to itself, LLVM takes half of what AVX-512 has. Lines begin where whole vectors do.
        head.append(f'attributes #3 = {{{words} "prefer-vector-width"="512" }}')
    if writer.is_rare:
        head.append('!999999 = !{!"branch_weights", i32 1, i32 2000}')
    if writer.is_nontemporal:
        head.append(f"{NONTEMPORAL} = distinct !{{}}")
    head += writer.scope_text()
    head += writer.loop_text()
    head += writer.debug.text()
    return "\n".join(head) + "\n"


def _top(writer: Writer, operation: Operation) -> None:
    """What stands in a module: functions and buffers of shared memory."""
    match operation.name:
        case "gpu.module":
            for inner in operation.blocks[0].ops:
                _top(writer, inner)
        case "memref.global":
            writer.buffers[operation.properties["sym_name"]] = operation.properties["type"]
        case "func.func" | "gpu.func":
            place_buffers(writer)
            _function(writer, operation)
        case name:
            raise AssertionError(f"{name} at the top of a module")


def _function(writer: Writer, operation: Operation) -> None:
    """A function or kernel."""
    block = operation.blocks[0]
    writer.names, writer.scopes, writer.count = {}, {}, 0
    writer.in_kernel = operation.name == "gpu.func"
    attributes = operation.properties.get("arg_attrs")
    arguments: list[str] = []
    for number, argument in enumerate(block.args):
        words = attributes[number] if attributes else ()
        extra = "".join(f" {word.removeprefix('llvm.')}" for word in words)
        writer.names[argument] = f"%a{number}"
        arguments.append(f"{writer.kind(argument.type)}{extra} %a{number}")
    outputs = operation.properties["outputs"]
    result = writer.kind(outputs[0]) if outputs else "void"
    name = operation.properties["sym_name"]
    if operation.name == "gpu.func":
        properties = operation.properties
        size, blocks = properties["known_block_size"], properties.get("nvvm.cluster_dim", 1)
        head = f"define {writer.device.convention} void @{name}"
        tail = writer.device.attributes(size, properties.get("nvvm.maxnreg"), blocks)
    else:
        private = "private" in operation.properties
        head = f"define {'internal ' if private else ''}{result} @{name}"
        is_apart = "apart" in operation.properties
        writer.has_apart |= is_apart
        is_wide = "wide" in operation.properties
        writer.has_wide |= is_wide
        tail = " #2" if is_apart else " #1" if private else " #3" if is_wide else " #0"
    first = next((at for each in block.ops if (at := each.place) is not None), None)
    if first is not None:
        tail += f" !dbg !{writer.debug.start(name, first)}"
        writer.place = f", !dbg !{writer.debug.at(first)}"
    writer.lines.append(f"{head}({', '.join(arguments)}){tail} {{")
    writer.start("entry")
    _block(writer, block)
    writer.lines += writer.apart
    writer.apart.clear()
    writer.lines.append("}")
    writer.place = ""


def _block(writer: Writer, block: Block) -> None:
    """The lines of a block, each with its source place where places are wanted."""
    if not writer.place:
        _operations(writer, block.ops)
        return
    # An operation without a place of its own (a store, a branch) stands where the last did.
    for operation in block.ops:
        location = operation.place
        if location is not None:
            writer.place = f", !dbg !{writer.debug.at(location)}"
        place, start = writer.place, len(writer.lines)
        _operations(writer, (operation,))
        for number in range(start, len(writer.lines)):
            line = writer.lines[number]
            if line.startswith("  ") and ", !dbg !" not in line:
                writer.lines[number] = line + place


def _operations(writer: Writer, operations: Iterable[Operation]) -> None:
    """The lines of operations, one after the other."""
    for operation in operations:
        if not put_plain(writer, operation):
            _SPECIAL[operation.name](writer, operation)


def _call(writer: Writer, operation: Operation) -> None:
    """A call of a function of the module."""
    kind = writer.kind(operation.results[0].type)
    name = operation.properties["callee"]
    operands = ", ".join(writer.typed(each) for each in operation.operands)
    writer.define(operation, f"call {kind} @{name}({operands})")


def _leave(writer: Writer, operation: Operation) -> None:
    """The end of a function."""
    operands = operation.operands
    writer.lines.append(f"  ret {writer.typed(operands[0])}" if operands else "  ret void")


def _for(writer: Writer, operation: Operation) -> None:
    """`scf.for`: a loop whose carried values are phis."""
    lower, upper, step, *initial = operation.operands
    block = operation.blocks[0]
    head, body, done = writer.fresh_labels("head", "body", "done")
    before = writer.label
    writer.declare_scopes(operation.properties.get("scopes", ()))
    kind = writer.kind(lower.type)
    writer.lines.append(f"  br label %{head}")
    writer.start(head)
    iterator = writer.fresh()
    writer.names[block.args[0]] = iterator
    place = len(writer.lines)
    carried = [writer.fresh() for _ in initial]
    # The phis need the values at the end of the body: their lines are filled in below.
    writer.lines += [""] * (1 + len(initial))
    for argument, name in zip(block.args[1:], carried, strict=True):
        writer.names[argument] = name
    test = writer.put(f"icmp slt {kind} {iterator}, {writer.names[upper]}")
    writer.lines.append(f"  br i1 {test}, label %{body}, label %{done}")
    writer.start(body)
    _block(writer, block)
    last = block.ops[-1]
    after = writer.put(f"add nsw {kind} {iterator}, {writer.names[step]}")
    how = writer.by_two() if operation.properties.get("by two") else ""
    writer.lines.append(f"  br label %{head}{how}")
    start = writer.names[lower]
    writer.lines[place] = (
        f"  {iterator} = phi {kind} [ {start}, %{before} ], [ {after}, %{writer.label} ]"
    )
    for number, (value, name) in enumerate(zip(initial, carried, strict=True)):
        follow = writer.names[last.operands[number]]
        writer.lines[place + 1 + number] = (
            f"  {name} = phi {writer.kind(value.type)} [ {writer.names[value]}, %{before} ], "
            f"[ {follow}, %{writer.label} ]"
        )
    writer.start(done)
    for result, name in zip(operation.results, carried, strict=True):
        writer.names[result] = name


def _while(writer: Writer, operation: Operation) -> None:
    """`scf.while` without carried values."""
    head, body, done = writer.fresh_labels("wait", "again", "met")
    before, after = operation.blocks
    writer.lines.append(f"  br label %{head}")
    writer.start(head)
    _block(writer, before)
    last = before.ops[-1]
    writer.lines.append(f"  br i1 {writer.names[last.operands[0]]}, label %{body}, label %{done}")
    writer.start(body)
    _block(writer, after)
    writer.lines.append(f"  br label %{head}")
    writer.start(done)


def _if(writer: Writer, operation: Operation) -> None:
    """`scf.if`: its values are phis."""
    then, otherwise, done = writer.fresh_labels("then", "else", "join")
    regions = operation.blocks
    plain = writer.in_kernel and writer.device.is_nvidia and regions and not operation.results
    if plain and all(is_predicable(writer, region) for region in regions):
        _store_where(writer, operation, regions)
        return
    other = otherwise if len(regions) == 2 else done
    test = writer.names[operation.operands[0]]
    is_rare = bool(operation.properties.get("rare"))
    writer.lines.append(f"  br i1 {test}, label %{then}, label %{other}{writer.rarely() if is_rare else ''}")
    arms: list[tuple[list[str], str]] = []
    for label, block in zip((then, otherwise), regions):
        first = len(writer.lines)
        writer.start(label)
        _block(writer, block)
        values = [writer.names[each] for each in block.ops[-1].operands] if block.ops else []
        arms.append((values, writer.label))
        writer.lines.append(f"  br label %{done}")
        if is_rare and label == then:
            writer.apart += writer.lines[first:]
            del writer.lines[first:]
    writer.start(done)
    for number, result in enumerate(operation.results):
        pairs = ", ".join(f"[ {values[number]}, %{label} ]" for values, label in arms)
        writer.names[result] = writer.put(f"phi {writer.kind(result.type)} {pairs}")


def _store_where(writer: Writer, operation: Operation, regions: Sequence[Block]) -> None:
    """`scf.if` around what may run in any case, but for its stores."""
    test = writer.names[operation.operands[0]]
    for number, block in enumerate(regions):
        if number:
            test = writer.put(f"xor i1 {test}, true")
        for inner in block.ops:
            if inner.name in ("memref.store", "vector.store"):
                store_where(writer, test, inner)
            else:
                _operations(writer, (inner,))


def _nothing(writer: Writer, operation: Operation) -> None:
    """Terminators that the operation around them reads."""


_SPECIAL: dict[str, Callable[[Writer, Operation], None]] = {
    "arith.constant": constant,
    "arith.cmpi": compare,
    "arith.cmpf": compare,
    "arith.select": select,
    "arith.negf": negate,
    "math.absi": absolute,
    "arith.floordivsi": floor_divide,
    "arith.index_cast": index_cast,
    "llvm.call_intrinsic": call_intrinsic,
    "func.call": _call,
    "memref.alloca": allocate,
    "memref.get_global": get_global,
    "memref.load": load,
    "vector.load": load,
    "memref.prefetch": prefetch,
    "nvgpu.device_async_copy": copy_late,
    "nvgpu.device_async_create_group": end_group,
    "nvgpu.device_async_wait": wait_for_groups,
    "memref.store": store,
    "memref.subview": view,
    "memref.assume_alignment": aligned,
    "vector.store": store,
    "memref.atomic_rmw": atomic,
    "vector.broadcast": broadcast,
    "vector.extract": extract,
    "vector.from_elements": from_elements,
    "vector.bitcast": recast,
    "memref.extract_aligned_pointer_as_index": address,
    "llvm.inttoptr": pointer,
    "llvm.store": store_to,
    "llvm.load": load_from,
    "gpu.shuffle": shuffle,
    "gpu.block_id": number_of_block_or_thread,
    "gpu.thread_id": number_of_block_or_thread,
    "gpu.barrier": barrier,
    "func.return": _leave,
    "gpu.return": _leave,
    "scf.yield": _nothing,
    "scf.condition": _nothing,
    "scf.for": _for,
    "scf.while": _while,
    "scf.if": _if,
}
