"""LLVM IR from the structured module, by one walk.

`scf` becomes blocks and phis, a memref becomes a pointer, `index` becomes i64, and every other
operation one instruction or intrinsic call (a floor division a few). No fast-math flag is ever
printed. Arguments never overlap (the caller's promise), so each pointer is `noalias`; those the
function only reads are `readonly` too, from which NVPTX makes `ld.global.nc`.

The text is written directly: it is what llvmlite parses anyway, and a function of the module alone.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable

from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    MemRefType,
    ModuleOp,
    VectorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from loopfuse.codegen.debug_info import DebugInfo, place_of
from loopfuse.codegen.mlir_build import (
    FLOAT_PREDICATES,
    INTEGER_PREDICATES,
    AddressSpace,
    AddressSpaceAttr,
    element_type,
    float_bits,
    lanes_of,
    never_wraps,
)
from loopfuse.codegen.mlir_print import dense_values


def emit_llvm(
    module: ModuleOp, triple: str = "", layout: str = "", halves_as_bits: bool = False
) -> str:
    """The LLVM IR text of `module`. A triple and data layout are written where given.

    `halves_as_bits`: f16 and bf16 are i16, which suits modules that only move and bitcast them. On
    CPUs that convert f32 to bf16, LLVM broadcasts a bf16 by way of an f32 and back, and that
    instruction flushes subnormals.
    """
    walk = _Walk(halves_as_bits)
    for operation in module.body.block.ops:
        walk.top(operation)
    head: list[str] = []
    if layout:
        head.append(f'target datalayout = "{layout}"')
    if triple:
        head.append(f'target triple = "{triple}"')
    head += walk.globals
    head += [f"declare {walk.declared[name]}" for name in sorted(walk.declared)]
    head += walk.lines
    head.append("attributes #0 = { nounwind }")
    head.append("attributes #1 = { alwaysinline nounwind }")
    head += walk.debug.text()
    return "\n".join(head) + "\n"


def _space(kind: MemRefType) -> int:
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
            space = _space(kind)
            return f"ptr addrspace({space})" if space else "ptr"
        case _:
            raise AssertionError(f"no LLVM type for {kind}")


def _suffix(kind: Attribute) -> str:
    """How intrinsics name a type: f32, v4f32."""
    lanes, element = lanes_of(kind), element_type(kind)
    match element:
        case Float32Type():
            name = "f32"
        case Float64Type():
            name = "f64"
        case IntegerType():
            name = f"i{element.width.data}"
        case _:
            name = "i64"
    return f"v{lanes}{name}" if lanes else name


def _scalar(value: int | float, element: Attribute, halves_as_bits: bool) -> str:
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


class _Walk:
    def __init__(self, halves_as_bits: bool) -> None:
        self.halves_as_bits = halves_as_bits
        self.lines: list[str] = []
        self.globals: list[str] = []
        self.declared: dict[str, str] = {}
        self.names: dict[SSAValue, str] = {}
        self.kinds: dict[Attribute, str] = {}
        self.count = 0
        self.label = ""
        self.debug = DebugInfo()
        self.place = ""

    # ---------------------------------------------------------------------------- helpers

    def kind(self, attribute: Attribute) -> str:
        found = self.kinds.get(attribute)
        if found is None:
            found = self.kinds[attribute] = llvm_type(attribute, self.halves_as_bits)
        return found

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def put(self, text: str) -> str:
        """A new instruction; the name of its value."""
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def typed(self, value: SSAValue) -> str:
        return f"{self.kind(value.type)} {self.names[value]}"

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.label = label

    def fresh_labels(self, *names: str) -> list[str]:
        self.count += 1
        return [f"{name}{self.count}" for name in names]

    def intrinsic(self, name: str, kind: str, arguments: list[tuple[str, str]]) -> str:
        """The text of a call, with its declaration noted."""
        self.declared[name] = f"{kind} @{name}({', '.join(each[0] for each in arguments)})"
        return f"call {kind} @{name}({', '.join(' '.join(each) for each in arguments)})"

    # ---------------------------------------------------------------------------- top level

    def top(self, operation: Operation) -> None:
        match operation.name:
            case "gpu.module":
                for inner in operation.regions[0].block.ops:
                    self.top(inner)
            case "memref.global":
                kind: MemRefType = operation.properties["type"]  # pyright: ignore
                name = operation.properties["sym_name"].data  # pyright: ignore
                element = self.kind(kind.element_type)
                self.globals.append(
                    f"@{name} = internal addrspace({_space(kind)}) global "
                    f"[{kind.get_shape()[0]} x {element}] undef, align 16"
                )
            case "func.func" | "gpu.func":
                self.function(operation)
            case name:
                raise AssertionError(f"{name} at the top of a module")

    def function(self, operation: Operation) -> None:
        block = operation.regions[0].block
        self.names, self.count = {}, 0
        attributes = operation.properties.get("arg_attrs")
        arguments: list[str] = []
        for number, argument in enumerate(block.args):
            words = list(attributes.data[number].data) if attributes else []  # pyright: ignore
            extra = "".join(f" {word.removeprefix('llvm.')}" for word in words)
            self.names[argument] = f"%a{number}"
            arguments.append(f"{self.kind(argument.type)}{extra} %a{number}")
        outputs = operation.properties["function_type"].outputs.data  # pyright: ignore
        result = self.kind(outputs[0]) if outputs else "void"
        if operation.name == "gpu.func":
            name = operation.attributes["sym_name"].data  # pyright: ignore
            size = operation.attributes["known_block_size"].get_values()[0]  # pyright: ignore
            head = f"define ptx_kernel void @{name}"
            tail = f' nounwind "nvvm.reqntid"="{size},1,1"'
        else:
            name = operation.properties["sym_name"].data  # pyright: ignore
            private = "sym_visibility" in operation.properties
            head = f"define {'internal ' if private else ''}{result} @{name}"
            tail = " #1" if private else " #0"
        first = next((at for each in block.ops if (at := place_of(each)) is not None), None)
        if first is not None:
            tail += f" !dbg !{self.debug.start(name, first)}"
            self.place = f", !dbg !{self.debug.at(first)}"
        self.lines.append(f"{head}({', '.join(arguments)}){tail} {{")
        self.start("entry")
        self.block(block)
        self.lines.append("}")
        self.place = ""

    def block(self, block: Block) -> None:
        if not self.place:
            self.operations(block.ops)
            return
        # An operation without a place of its own (a store, a branch) stands where the last did.
        for operation in block.ops:
            location = place_of(operation)
            if location is not None:
                self.place = f", !dbg !{self.debug.at(location)}"
            place, start = self.place, len(self.lines)
            self.operations((operation,))
            for number in range(start, len(self.lines)):
                line = self.lines[number]
                if line.startswith("  ") and ", !dbg !" not in line:
                    self.lines[number] = line + place

    def operations(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            name = operation.name
            simple = _SIMPLE.get(name)
            if simple is not None:
                left, right = operation.operands
                flags = " nsw" if never_wraps(operation) else ""
                self.names[operation.results[0]] = self.put(
                    f"{simple}{flags} {self.typed(left)}, {self.names[right]}"
                )
                continue
            intrinsic = _INTRINSICS.get(name)
            if intrinsic is not None:
                kind = operation.results[0].type
                text = self.intrinsic(
                    f"{intrinsic}.{_suffix(kind)}",
                    self.kind(kind),
                    [(self.kind(each.type), self.names[each]) for each in operation.operands],
                )
                self.names[operation.results[0]] = self.put(text)
                continue
            conversion = _CONVERSIONS.get(name)
            if conversion is not None:
                source, kind = operation.operands[0], operation.results[0].type
                self.names[operation.results[0]] = self.put(
                    f"{conversion} {self.typed(source)} to {self.kind(kind)}"
                )
                continue
            _SPECIAL[name](self, operation)

    # ------------------------------------------------------------------------- operations

    def constant(self, operation: Operation) -> None:
        value = operation.properties["value"]
        kind = operation.results[0].type
        if isinstance(value, DenseIntOrFPElementsAttr):
            element = element_type(kind)
            name = self.kind(element)
            lanes = ", ".join(
                f"{name} {_scalar(each, element, self.halves_as_bits)}"
                for each in dense_values(value)
            )
            text = f"<{lanes}>"
        else:
            text = _scalar(value.value.data, kind, self.halves_as_bits)  # pyright: ignore
        self.names[operation.results[0]] = text

    def compare(self, operation: Operation) -> None:
        is_float = operation.name == "arith.cmpf"
        number = operation.properties["predicate"].value.data  # pyright: ignore
        predicate = (FLOAT_PREDICATES if is_float else INTEGER_PREDICATES)[number]
        left, right = operation.operands
        self.names[operation.results[0]] = self.put(
            f"{'fcmp' if is_float else 'icmp'} {predicate} {self.typed(left)}, {self.names[right]}"
        )

    def select(self, operation: Operation) -> None:
        operands = ", ".join(self.typed(each) for each in operation.operands)
        self.names[operation.results[0]] = self.put(f"select {operands}")

    def negate(self, operation: Operation) -> None:
        self.names[operation.results[0]] = self.put(f"fneg {self.typed(operation.operands[0])}")

    def absolute(self, operation: Operation) -> None:
        source = operation.operands[0]
        kind = self.kind(source.type)
        name = f"llvm.abs.{_suffix(source.type)}"
        self.declared[name] = f"{kind} @{name}({kind}, i1)"
        self.names[operation.results[0]] = self.put(
            f"call {kind} @{name}({self.typed(source)}, i1 false)"
        )

    def floor_divide(self, operation: Operation) -> None:
        """q = x / y truncated, less one where the remainder is not 0 and its sign is not y's."""
        left, right = operation.operands
        kind = self.kind(left.type)
        x, y = self.names[left], self.names[right]
        zero = "zeroinitializer" if lanes_of(left.type) else "0"
        if y.isdecimal() and int(y) & (int(y) - 1) == 0 and int(y) > 0:
            shift = int(y).bit_length() - 1
            self.names[operation.results[0]] = self.put(f"ashr {kind} {x}, {shift}")
            return
        quotient = self.put(f"sdiv {kind} {x}, {y}")
        product = self.put(f"mul {kind} {quotient}, {y}")
        remainder = self.put(f"sub {kind} {x}, {product}")
        inexact = self.put(f"icmp ne {kind} {remainder}, {zero}")
        signs = self.put(f"xor {kind} {remainder}, {y}")
        apart = self.put(f"icmp slt {kind} {signs}, {zero}")
        bit = "i1" if not lanes_of(left.type) else f"<{lanes_of(left.type)} x i1>"
        adjust = self.put(f"and {bit} {inexact}, {apart}")
        wide = self.put(f"sext {bit} {adjust} to {kind}")
        self.names[operation.results[0]] = self.put(f"add {kind} {quotient}, {wide}")

    def index_cast(self, operation: Operation) -> None:
        source, kind = operation.operands[0], self.kind(operation.results[0].type)
        before = self.kind(source.type)
        bits = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
        if before == kind:
            self.names[operation.results[0]] = self.names[source]
            return
        word = "sext" if bits[kind] > bits[before] else "trunc"
        name = self.names[source]
        if name.lstrip("-").isdecimal():
            self.names[operation.results[0]] = name
            return
        self.names[operation.results[0]] = self.put(f"{word} {before} {name} to {kind}")

    def call_intrinsic(self, operation: Operation) -> None:
        name = operation.properties["intrin"].data  # pyright: ignore
        arguments = [(self.kind(each.type), self.names[each]) for each in operation.operands]
        if not operation.results:
            self.lines.append("  " + self.intrinsic(name, "void", arguments))
            return
        kind = self.kind(operation.results[0].type)
        self.names[operation.results[0]] = self.put(self.intrinsic(name, kind, arguments))

    def call(self, operation: Operation) -> None:
        kind = self.kind(operation.results[0].type)
        name = operation.properties["callee"].string_value()  # pyright: ignore
        operands = ", ".join(self.typed(each) for each in operation.operands)
        self.names[operation.results[0]] = self.put(f"call {kind} @{name}({operands})")

    def allocate(self, operation: Operation) -> None:
        kind: MemRefType = operation.results[0].type  # pyright: ignore
        element = self.kind(kind.element_type)
        self.names[operation.results[0]] = self.put(
            f"alloca [{kind.get_shape()[0]} x {element}], align 16"
        )

    def get_global(self, operation: Operation) -> None:
        self.names[operation.results[0]] = (
            f"@{operation.properties['name'].string_value()}"  # pyright: ignore
        )

    def address(self, source: SSAValue, index: SSAValue) -> tuple[str, str]:
        """A pointer to `source[index]`, and its type."""
        kind: MemRefType = source.type  # pyright: ignore
        pointer = self.kind(kind)
        if self.names[index] == "0":
            return self.names[source], pointer
        element = self.kind(kind.element_type)
        place = self.put(
            f"getelementptr inbounds {element}, {pointer} {self.names[source]}, "
            f"i64 {self.names[index]}"
        )
        return place, pointer

    def alignment(self, operation: Operation, kind: Attribute) -> int:
        given = operation.properties.get("alignment")
        if given is not None:
            return given.value.data  # pyright: ignore
        element = element_type(kind)
        bits = {"half": 16, "bfloat": 16, "float": 32, "double": 64}.get(self.kind(element)) or int(self.kind(element)[1:])
        return max(1, bits // 8)

    def load(self, operation: Operation) -> None:
        source, index = operation.operands
        place, pointer = self.address(source, index)
        kind = operation.results[0].type
        self.names[operation.results[0]] = self.put(
            f"load {self.kind(kind)}, {pointer} {place}, align {self.alignment(operation, kind)}"
        )

    def store(self, operation: Operation) -> None:
        value, target, index = operation.operands
        place, pointer = self.address(target, index)
        align = self.alignment(operation, value.type)
        self.lines.append(f"  store {self.typed(value)}, {pointer} {place}, align {align}")

    def atomic(self, operation: Operation) -> None:
        value, target, index = operation.operands
        place, pointer = self.address(target, index)
        # NVPTX drops the ordering of an atomicrmw (seen: a relaxed `atom`), so fences stand around.
        fence = '  fence syncscope("device") acq_rel'
        self.lines.append(fence)
        word = {3: "xchg", 1: "add"}[operation.properties["kind"].value.data]  # pyright: ignore
        self.names[operation.results[0]] = self.put(
            f'atomicrmw {word} {pointer} {place}, {self.typed(value)} syncscope("device") acq_rel'
        )
        self.lines.append(fence)

    def broadcast(self, operation: Operation) -> None:
        source = operation.operands[0]
        kind = self.kind(operation.results[0].type)
        one = self.put(f"insertelement {kind} poison, {self.typed(source)}, i64 0")
        lanes = lanes_of(operation.results[0].type)
        self.names[operation.results[0]] = self.put(
            f"shufflevector {kind} {one}, {kind} poison, <{lanes} x i32> zeroinitializer"
        )

    def extract(self, operation: Operation) -> None:
        lane = operation.properties["static_position"].get_values()[0]  # pyright: ignore
        self.names[operation.results[0]] = self.put(
            f"extractelement {self.typed(operation.operands[0])}, i64 {lane}"
        )

    def from_elements(self, operation: Operation) -> None:
        kind = self.kind(operation.results[0].type)
        whole = "poison"
        for lane, value in enumerate(operation.operands):
            whole = self.put(f"insertelement {kind} {whole}, {self.typed(value)}, i64 {lane}")
        self.names[operation.results[0]] = whole

    def shuffle(self, operation: Operation) -> None:
        """A 32-bit `shfl.sync` with the whole warp's mask; 64-bit values go in two halves."""
        value, offset, _ = operation.operands
        mode = operation.properties["mode"].data  # pyright: ignore
        name = f"llvm.nvvm.shfl.sync.{mode}.i32"
        kind = self.kind(value.type)

        def one(part: str) -> str:
            return self.put(
                self.intrinsic(
                    name,
                    "i32",
                    [
                        ("i32", "-1"),
                        ("i32", part),
                        ("i32", self.names[offset]),
                        ("i32", "31"),
                    ],
                )
            )

        if kind in ("float", "i32"):
            part = self.put(f"bitcast {kind} {self.names[value]} to i32")
            self.names[operation.results[0]] = self.put(f"bitcast i32 {one(part)} to {kind}")
            return
        pair = self.put(f"bitcast {kind} {self.names[value]} to <2 x i32>")
        low = one(self.put(f"extractelement <2 x i32> {pair}, i64 0"))
        high = one(self.put(f"extractelement <2 x i32> {pair}, i64 1"))
        first = self.put(f"insertelement <2 x i32> poison, i32 {low}, i64 0")
        both = self.put(f"insertelement <2 x i32> {first}, i32 {high}, i64 1")
        self.names[operation.results[0]] = self.put(f"bitcast <2 x i32> {both} to {kind}")

    def number(self, operation: Operation) -> None:
        register = {"gpu.block_id": "ctaid", "gpu.thread_id": "tid"}[operation.name]
        name = f"llvm.nvvm.read.ptx.sreg.{register}.x"
        narrow = self.put(self.intrinsic(name, "i32", []))
        self.names[operation.results[0]] = self.put(f"zext i32 {narrow} to i64")

    def barrier(self, operation: Operation) -> None:
        name = "llvm.nvvm.barrier.cta.sync.aligned.all"
        self.lines.append("  " + self.intrinsic(name, "void", [("i32", "0")]))

    def leave(self, operation: Operation) -> None:
        operands = operation.operands
        self.lines.append(f"  ret {self.typed(operands[0])}" if operands else "  ret void")

    # ---------------------------------------------------------------------------- control

    def for_(self, operation: Operation) -> None:
        lower, upper, step, *initial = operation.operands
        block = operation.regions[0].block
        head, body, done = self.fresh_labels("head", "body", "done")
        before = self.label
        kind = self.kind(lower.type)
        self.lines.append(f"  br label %{head}")
        self.start(head)
        iterator = self.fresh()
        self.names[block.args[0]] = iterator
        place = len(self.lines)
        carried = [self.fresh() for _ in initial]
        # The phis need the values at the end of the body: their lines are filled in below.
        self.lines += [""] * (1 + len(initial))
        for argument, name in zip(block.args[1:], carried, strict=True):
            self.names[argument] = name
        test = self.put(f"icmp slt {kind} {iterator}, {self.names[upper]}")
        self.lines.append(f"  br i1 {test}, label %{body}, label %{done}")
        self.start(body)
        self.block(block)
        last = block.last_op
        assert last is not None
        after = self.put(f"add nsw {kind} {iterator}, {self.names[step]}")
        self.lines.append(f"  br label %{head}")
        start = self.names[lower]
        self.lines[place] = (
            f"  {iterator} = phi {kind} [ {start}, %{before} ], [ {after}, %{self.label} ]"
        )
        for number, (value, name) in enumerate(zip(initial, carried, strict=True)):
            follow = self.names[last.operands[number]]
            self.lines[place + 1 + number] = (
                f"  {name} = phi {self.kind(value.type)} [ {self.names[value]}, %{before} ], "
                f"[ {follow}, %{self.label} ]"
            )
        self.start(done)
        for result, name in zip(operation.results, carried, strict=True):
            self.names[result] = name

    def while_(self, operation: Operation) -> None:
        """`scf.while` without carried values."""
        head, body, done = self.fresh_labels("wait", "again", "met")
        before, after = (region.block for region in operation.regions)
        self.lines.append(f"  br label %{head}")
        self.start(head)
        self.block(before)
        last = before.last_op
        assert last is not None
        self.lines.append(
            f"  br i1 {self.names[last.operands[0]]}, label %{body}, label %{done}"
        )
        self.start(body)
        self.block(after)
        self.lines.append(f"  br label %{head}")
        self.start(done)

    def if_(self, operation: Operation) -> None:
        then, otherwise, done = self.fresh_labels("then", "else", "join")
        regions = [region.block for region in operation.regions if region.blocks]
        other = otherwise if len(regions) == 2 else done
        test = self.names[operation.operands[0]]
        self.lines.append(f"  br i1 {test}, label %{then}, label %{other}")
        arms: list[tuple[str, str]] = []
        for label, block in zip((then, otherwise), regions):
            self.start(label)
            self.block(block)
            last = block.last_op
            value = self.names[last.operands[0]] if last is not None and last.operands else ""
            arms.append((value, self.label))
            self.lines.append(f"  br label %{done}")
        self.start(done)
        if operation.results:
            pairs = ", ".join(f"[ {value}, %{label} ]" for value, label in arms)
            kind = self.kind(operation.results[0].type)
            self.names[operation.results[0]] = self.put(f"phi {kind} {pairs}")

    def nothing(self, operation: Operation) -> None:
        """Terminators that the operation around them reads."""


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
_SPECIAL: dict[str, Callable[[_Walk, Operation], None]] = {
    "arith.constant": _Walk.constant,
    "arith.cmpi": _Walk.compare,
    "arith.cmpf": _Walk.compare,
    "arith.select": _Walk.select,
    "arith.negf": _Walk.negate,
    "math.absi": _Walk.absolute,
    "arith.floordivsi": _Walk.floor_divide,
    "arith.index_cast": _Walk.index_cast,
    "llvm.call_intrinsic": _Walk.call_intrinsic,
    "func.call": _Walk.call,
    "memref.alloca": _Walk.allocate,
    "memref.get_global": _Walk.get_global,
    "memref.load": _Walk.load,
    "vector.load": _Walk.load,
    "memref.store": _Walk.store,
    "vector.store": _Walk.store,
    "memref.atomic_rmw": _Walk.atomic,
    "vector.broadcast": _Walk.broadcast,
    "vector.extract": _Walk.extract,
    "vector.from_elements": _Walk.from_elements,
    "gpu.shuffle": _Walk.shuffle,
    "gpu.block_id": _Walk.number,
    "gpu.thread_id": _Walk.number,
    "gpu.barrier": _Walk.barrier,
    "func.return": _Walk.leave,
    "gpu.return": _Walk.leave,
    "scf.yield": _Walk.nothing,
    "scf.condition": _Walk.nothing,
    "scf.for": _Walk.for_,
    "scf.while": _Walk.while_,
    "scf.if": _Walk.if_,
}
