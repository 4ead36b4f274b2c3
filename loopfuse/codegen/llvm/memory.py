"""Operations on memory and of the device, as LLVM instructions: loads, atomics, shuffles."""

from __future__ import annotations

from loopfuse.base.machine import ACCESS
from loopfuse.codegen.build import element_type
from loopfuse.codegen.ir import MemRefType, Operation, Type, Value
from loopfuse.codegen.llvm.types import bits_of, space_of
from loopfuse.codegen.llvm.writer import Writer
from loopfuse.codegen.shared_memory import DYNAMIC, SHARED_ALIGN, elements_of, place


def allocate(writer: Writer, operation: Operation) -> None:
    """A buffer on the stack."""
    kind: MemRefType = operation.results[0].type
    element = writer.kind(kind.element_type)
    is_long = elements_of(kind) * bits_of(element) >= 8 * writer.device.align
    text = f"alloca [{kind.size} x {element}], align {writer.device.align if is_long else ACCESS}"
    space = writer.device.stack if writer.in_kernel else 0
    if space:
        text = f"addrspacecast ptr addrspace({space}) {writer.put(f'{text}, addrspace({space})')} to ptr"
    writer.define(operation, text)


def place_buffers(writer: Writer) -> None:
    """The shared memory of the next function (`shared_memory`)."""
    placed = place(writer.buffers)
    for name, kind in writer.buffers.items():
        space = f"addrspace({space_of(kind)})"
        if placed.asked:
            array = f"@{DYNAMIC} = external {space} global [0 x i8], align {SHARED_ALIGN}"
            if array not in writer.globals:
                writer.globals.append(array)
            start = placed.starts[name]
            writer.placed[name] = f"getelementptr (i8, ptr {space} @{DYNAMIC}, i64 {start})"
        else:
            element = writer.kind(kind.element_type)
            array = f"global [{elements_of(kind)} x {element}] undef, align {SHARED_ALIGN}"
            writer.globals.append(f"@{name} = internal {space} {array}")
    writer.buffers.clear()


def get_global(writer: Writer, operation: Operation) -> None:
    """A buffer of the module."""
    name = operation.properties["name"]
    writer.names[operation.results[0]] = writer.placed.get(name, f"@{name}")


def address(writer: Writer, operation: Operation) -> None:
    """Where a buffer starts, in bytes."""
    source = operation.operands[0]
    writer.define(operation, f"ptrtoint {writer.typed(source)} to i64")


def pointer(writer: Writer, operation: Operation) -> None:
    """A pointer to such a place."""
    writer.define(
        operation, f"inttoptr {writer.typed(operation.operands[0])} to {writer.kind(operation.results[0].type)}"
    )


def store_to(writer: Writer, operation: Operation) -> None:
    """A store of one element to where a pointer says; one that is relaxed is there at once, for the whole device."""
    value, target = operation.operands
    align = max(1, bits_of(writer.kind(value.type)) // 8)
    how, order = _relaxed(writer, operation)
    writer.lines.append(f"  store {how}{writer.typed(value)}, {writer.typed(target)}{order}, align {align}")


def load_from(writer: Writer, operation: Operation) -> None:
    """A load of one element from where a pointer says; one that is relaxed finds what others of the device have stored so."""
    kind = writer.kind(operation.results[0].type)
    how, order = _relaxed(writer, operation)
    align = max(1, bits_of(kind) // 8)
    writer.define(operation, f"load {how}{kind}, {writer.typed(operation.operands[0])}{order}, align {align}")


def _relaxed(writer: Writer, operation: Operation) -> tuple[str, str]:
    """What stands before the type of such an access, and behind its place."""
    if not operation.properties.get("relaxed"):
        return "", ""
    return "atomic ", f' syncscope("{writer.device.scope}") monotonic'


def address_of(writer: Writer, source: Value, index: Value) -> tuple[str, str]:
    """A pointer to `source[index]`, and its type."""
    kind: MemRefType = source.type
    pointer = writer.kind(kind)
    if writer.names[index] == "0":
        return writer.names[source], pointer
    element = writer.kind(kind.element_type)
    place = writer.put(
        f"getelementptr inbounds {element}, {pointer} {writer.names[source]}, "
        f"i64 {writer.names[index]}"
    )
    return place, pointer


def alignment_of(writer: Writer, operation: Operation, kind: Type) -> int:
    """The alignment that the operation gives, else its element's."""
    given = operation.properties.get("alignment")
    if given is not None:
        return given
    return max(1, bits_of(writer.kind(element_type(kind))) // 8)


def load(writer: Writer, operation: Operation) -> None:
    """A load of one element, or of a vector of them."""
    source, index = operation.operands
    place, pointer = address_of(writer, source, index)
    kind = operation.results[0].type
    writer.define(
        operation,
        f"load {writer.kind(kind)}, {pointer} {place}, align {alignment_of(writer, operation, kind)}"
        f"{writer.scoped(operation.properties.get('scope'))}",
    )


def prefetch(writer: Writer, operation: Operation) -> None:
    """A request that brings a cache line of global memory to the second-level cache of a GPU."""
    source, index = operation.operands
    place, pointer = address_of(writer, source, index)
    if writer.in_kernel and writer.device.is_nvidia:
        # LLVM 22 cannot select `llvm.nvvm.prefetch.global.L2` of an argument that is only read.
        text = '"prefetch.global.L2 [$0];", "l"'
        writer.lines.append(f"  call void asm sideeffect {text}({pointer} {place})")


def store(writer: Writer, operation: Operation) -> None:
    """A store of one element, or of a vector of them."""
    value, target, index = operation.operands
    place, pointer = address_of(writer, target, index)
    align = alignment_of(writer, operation, value.type)
    scope = writer.scoped(operation.properties.get("scope"))
    how = writer.nontemporal() if operation.properties.get("nontemporal") else ""
    writer.lines.append(f"  store {writer.typed(value)}, {pointer} {place}, align {align}{scope}{how}")


def view(writer: Writer, operation: Operation) -> None:
    """A part of a buffer."""
    source, place, _ = operation.operands
    element = writer.kind(source.type.element_type)
    writer.define(operation, f"getelementptr {element}, {writer.typed(source)}, i64 {writer.names[place]}")


def aligned(writer: Writer, operation: Operation) -> None:
    """The same part, of which LLVM knows where it may begin."""
    source = operation.operands[0]
    writer.declared["llvm.assume"] = "void @llvm.assume(i1)"
    bundle = f'[ "align"({writer.typed(source)}, i64 {operation.properties["alignment"]}) ]'
    writer.lines.append(f"  call void @llvm.assume(i1 true) {bundle}")
    writer.names[operation.results[0]] = writer.names[source]


_ATOMICS = {"assign": "xchg", "addi": "add", "mins": "min", "maxs": "max", "minu": "umin", "maxu": "umax"}


def atomic(writer: Writer, operation: Operation) -> None:
    """An atomic update, ordered for the whole device; one that is relaxed orders nothing else, in its block or device."""
    value, target, index = operation.operands
    place, pointer = address_of(writer, target, index)
    word = _ATOMICS[operation.properties["kind"]]
    relaxed = operation.properties.get("relaxed")
    if relaxed:
        within = writer.device.scope if relaxed == "device" else writer.device.block_scope
        text = f"atomicrmw {word} {pointer} {place}, {writer.typed(value)} syncscope(\"{within}\") monotonic"
        writer.define(operation, text)
        return
    # NVPTX drops the ordering of an atomicrmw (seen: a relaxed `atom`), so fences stand around.
    scope = f'syncscope("{writer.device.scope}") acq_rel'
    fence = f"  fence {scope}"
    writer.lines.append(fence)
    writer.define(
        operation,
        f"atomicrmw {word} {pointer} {place}, {writer.typed(value)} {scope}",
    )
    writer.lines.append(fence)


def shuffle(writer: Writer, operation: Operation) -> None:
    """A move of 32 bits between the threads of a group of 32; 64-bit values go in two halves."""
    value, offset, _ = operation.operands
    mode = operation.properties["mode"]
    kind = writer.kind(value.type)
    if writer.device.is_nvidia:
        name = f"llvm.nvvm.shfl.sync.{mode}.i32"
        # The last lane whose value may be asked for; upwards, the first.
        before, after = [("i32", "-1")], [("i32", writer.names[offset]), ("i32", "0" if mode == "up" else "31")]
    else:
        name = "llvm.amdgcn.ds.bpermute"
        before, after = [("i32", _source_lane(writer, mode, writer.names[offset]))], []

    def one(part: str) -> str:
        return writer.put(writer.intrinsic(name, "i32", [*before, ("i32", part), *after]))

    if kind in ("float", "i32"):
        part = writer.put(f"bitcast {kind} {writer.names[value]} to i32")
        writer.define(operation, f"bitcast i32 {one(part)} to {kind}")
        return
    pair = writer.put(f"bitcast {kind} {writer.names[value]} to <2 x i32>")
    low = one(writer.put(f"extractelement <2 x i32> {pair}, i64 0"))
    high = one(writer.put(f"extractelement <2 x i32> {pair}, i64 1"))
    first = writer.put(f"insertelement <2 x i32> poison, i32 {low}, i64 0")
    both = writer.put(f"insertelement <2 x i32> {first}, i32 {high}, i64 1")
    writer.define(operation, f"bitcast <2 x i32> {both} to {kind}")


def _source_lane(writer: Writer, mode: str, offset: str) -> str:
    """Four times the lane of a wave of 64 that a thread takes the value of: the one that `mode` says of its group
    of 32, or its own where that lies outside."""
    put = writer.put
    low = put(writer.intrinsic("llvm.amdgcn.mbcnt.lo", "i32", [("i32", "-1"), ("i32", "0")]))
    lane = put(writer.intrinsic("llvm.amdgcn.mbcnt.hi", "i32", [("i32", "-1"), ("i32", low)]))
    match mode:
        case "xor":
            source = put(f"xor i32 {lane}, {offset}")
        case "idx":
            source = put(f"or i32 {put(f'and i32 {lane}, -32')}, {offset}")
        case _:
            moved = put(f"{'add' if mode == 'down' else 'sub'} i32 {lane}, {offset}")
            apart = put(f"and i32 {put(f'xor i32 {lane}, {moved}')}, -32")
            source = put(f"select i1 {put(f'icmp eq i32 {apart}, 0')}, i32 {moved}, i32 {lane}")
    return put(f"shl i32 {source}, 2")


def number_of_block_or_thread(writer: Writer, operation: Operation) -> None:
    """The number of a block or thread."""
    device = writer.device
    name = device.block_id if operation.name == "gpu.block_id" else device.thread_id
    narrow = writer.put(writer.intrinsic(name, "i32", []))
    writer.define(operation, f"zext i32 {narrow} to i64")


def barrier(writer: Writer, operation: Operation) -> None:
    """All threads of a block meet."""
    device = writer.device
    call = "  " + writer.intrinsic(device.barrier, "void", [*device.barrier_operands])
    if device.is_nvidia:
        writer.lines.append(call)
        return
    fence = '  fence syncscope("workgroup")'
    writer.lines += [f"{fence} release", call, f"{fence} acquire"]
