"""Prints a module of ours in upstream MLIR's syntax, as `mlir-opt` accepts it.

It knows exactly the operations that `codegen` emits. Names are numbers in text
order, or what an operation hints at, so the text is a function of the module alone.
"""

from __future__ import annotations

import math as pymath
import re
from collections.abc import Callable, Iterable, Sequence

from loopfuse.codegen.build import element_type, float_bits, lane_values, lanes_of, never_wraps
from loopfuse.codegen.ir import (
    DYNAMIC,
    I1,
    AffineMap,
    Block,
    FloatType,
    IndexType,
    IntegerType,
    MemRefType,
    Operation,
    PointerType,
    Scalar,
    Type,
    Value,
    VectorType,
    bytes_of,
)


def print_module(module: Operation) -> str:
    """The text of `module`, ending in a newline."""
    return "\n".join(_Printer().module(module)) + "\n"


def print_type(kind: Type) -> str:
    """A type as upstream prints it."""
    match kind:
        case IntegerType():
            return f"i{kind.bits}"
        case IndexType():
            return "index"
        case FloatType(name=name):
            return name
        case VectorType():
            return f"vector<{kind.lanes}x{print_type(kind.element_type)}>"
        case MemRefType():
            sizes = "".join("?x" if size == DYNAMIC else f"{size}x" for size in kind.shape)
            where = f", #gpu.address_space<{kind.space}>" if kind.space else ""
            where = ", strided<[1], offset: ?>" if kind.is_view else where
            return f"memref<{sizes}{print_type(kind.element_type)}{where}>"
        case PointerType():
            return f"!llvm.ptr<{kind.space}>"
        case _:
            raise AssertionError(f"no type {kind}")


def print_float(value: float, kind: Scalar) -> str:
    """A float literal that MLIR reads back to the same bits."""
    if not pymath.isfinite(value):
        assert isinstance(kind, FloatType)
        digits = kind.bits // 4
        return f"0x{float_bits(value, kind):0{digits}X}"
    text = repr(value)
    if "." not in text:
        mantissa, _, exponent = text.partition("e")
        text = f"{mantissa}.0e{exponent}"
    return text


class _Printer:
    def __init__(self) -> None:
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        """Hinted names in this region and those around it."""
        self.lines: list[str] = []
        self.indent = ""

    def module(self, module: Operation) -> list[str]:
        self.line("module {")
        self.region(module.blocks[0])
        self.line("}")
        return self.lines

    def line(self, text: str) -> None:
        self.lines.append(self.indent + text)

    def region(self, block: Block) -> None:
        outside, taken = self.indent, set(self.taken)
        self.indent += "  "
        for operation in block.ops:
            self.operation(operation)
        self.indent, self.taken = outside, taken

    def name(self, value: Value) -> str:
        return self.names[value]

    def define(self, value: Value, hint: str | None = None) -> str:
        name = self.names[value] = f"%{len(self.names)}" if hint is None else self.hinted(hint)
        return name

    def hinted(self, hint: str) -> str:
        """A name like the hint that nothing else has here; names of digits are those of other values."""
        base = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in hint)
        base = f"%v{base}" if base[:1].isdigit() else f"%{base}"
        found, number = base, 2
        while found in self.taken:
            found, number = f"{base}_{number}", number + 1
        self.taken.add(found)
        return found

    def list(self, values: Iterable[Value]) -> str:
        return ", ".join(self.names[value] for value in values)

    def operation(self, operation: Operation) -> None:
        name = operation.name
        special = _SPECIAL.get(name)
        if special is not None:
            special(self, operation)
            return
        kind = print_type(operation.results[0].type)
        operands = operation.operands
        if name in _CONVERSIONS:
            text = f"{name} {self.list(operands)} : {print_type(operands[0].type)} to {kind}"
        else:
            flags = " overflow<nsw>" if never_wraps(operation) else ""
            allowed = operation.properties.get("fastmath")
            flags += f" fastmath<{allowed}>" if allowed else ""
            text = f"{name} {self.list(operands)}{flags} : {kind}"
        self.line(f"{self.define(operation.results[0], operation.properties.get('hint'))} = {text}")

    # ------------------------------------------------------------------------- operations

    def gpu_module(self, operation: Operation) -> None:
        self.line(f"gpu.module @{operation.properties['sym_name']} {{")
        self.region(operation.blocks[0])
        self.line("}")

    def function(self, operation: Operation) -> None:
        properties = operation.properties
        block = operation.blocks[0]
        self.names.clear()
        self.taken.clear()
        arguments: list[str] = []
        attributes, hints = properties.get("arg_attrs"), properties.get("hints")
        for number, argument in enumerate(block.args):
            extra = print_notes(attributes[number]) if attributes else ""
            name = self.define(argument, hints[number] if hints else None)
            arguments.append(f"{name}: {print_type(argument.type)}{extra}")
        outputs = [print_type(kind) for kind in properties["outputs"]]
        head = ", ".join(arguments)
        name = properties["sym_name"]
        if operation.name == "gpu.func":
            most = properties.get("nvvm.maxnreg")
            limit = "" if most is None else f", nvvm.maxnreg = {most} : i32"
            blocks = properties.get("nvvm.cluster_dim")
            limit += "" if blocks is None else f", nvvm.cluster_dim = array<i32: {blocks}, 1, 1>"
            size = f"array<i32: {properties['known_block_size']}, 1, 1>"
            words = f" attributes {{known_block_size = {size}{limit}}}"
            self.line(f"gpu.func @{name}({head}) kernel{words} {{")
        else:
            private = "private " if "private" in properties else ""
            arrow = f" -> {outputs[0]}" if outputs else ""
            self.line(f"func.func {private}@{name}({head}){arrow} {{")
        self.region(block)
        self.line("}")

    def constant(self, operation: Operation) -> None:
        kind = operation.results[0].type
        element = element_type(kind)

        def one(each: int | float) -> str:
            if isinstance(each, float):
                return print_float(each, element)
            if element is I1:
                return "true" if each else "false"
            return str(each)

        name = self.define(operation.results[0])
        values = lane_values(operation)
        if not lanes_of(kind):
            text = one(values[0])
            typed = "" if text in ("true", "false") else f" : {print_type(kind)}"
            self.line(f"{name} = arith.constant {text}{typed}")
            return
        same = all(repr(each) == repr(values[0]) for each in values)
        text = one(values[0]) if same else f"[{', '.join(one(each) for each in values)}]"
        self.line(f"{name} = arith.constant dense<{text}> : {print_type(kind)}")

    def compare(self, operation: Operation) -> None:
        predicate = operation.properties["predicate"]
        kind = print_type(operation.operands[0].type)
        operands = self.list(operation.operands)
        name = self.define(operation.results[0])
        self.line(f"{name} = {operation.name} {predicate}, {operands} : {kind}")

    def select(self, operation: Operation) -> None:
        condition = print_type(operation.operands[0].type)
        kind = print_type(operation.results[0].type)
        typed = kind if condition == "i1" else f"{condition}, {kind}"
        operands = self.list(operation.operands)
        self.line(f"{self.define(operation.results[0])} = arith.select {operands} : {typed}")

    def intrinsic(self, operation: Operation) -> None:
        operands = operation.operands
        kinds = ", ".join(print_type(each.type) for each in operands)
        name = operation.properties["intrin"]
        text = f'llvm.call_intrinsic "{name}"({self.list(operands)})'
        if operation.results:
            kind = print_type(operation.results[0].type)
            self.line(f"{self.define(operation.results[0])} = {text} : ({kinds}) -> {kind}")
        else:
            self.line(f"{text} : ({kinds}) -> ()")

    def call(self, operation: Operation) -> None:
        operands = operation.operands
        kinds = ", ".join(print_type(each.type) for each in operands)
        name = operation.properties["callee"]
        kind = print_type(operation.results[0].type)
        text = f"func.call @{name}({self.list(operands)}) : ({kinds}) -> {kind}"
        self.line(f"{self.define(operation.results[0])} = {text}")

    def allocate(self, operation: Operation) -> None:
        properties, kind = operation.properties, print_type(operation.results[0].type)
        text = f"{operation.name}({self.list(operation.operands)}){print_notes(properties.get('notes', ()))}"
        self.line(f"{self.define(operation.results[0], properties.get('hint'))} = {text} : {kind}")

    def assert_(self, operation: Operation) -> None:
        self.line(f'cf.assert {self.list(operation.operands)}, "{operation.properties["message"]}"')

    def load(self, operation: Operation) -> None:
        source, *index = operation.operands
        typed = print_type(source.type)
        text = f"{operation.name} {self.name(source)}[{self.list(index)}]"
        if operation.name == "vector.load":
            text += self.alignment(operation)
            typed += f", {print_type(operation.results[0].type)}"
        self.line(f"{self.define(operation.results[0])} = {text} : {typed}")

    def prefetch(self, operation: Operation) -> None:
        source, index = operation.operands
        place = f"{self.name(source)}[{self.name(index)}]"
        self.line(f"memref.prefetch {place}, read, locality<2>, data : {print_type(source.type)}")

    def copy_late(self, operation: Operation) -> None:
        source, here, target, there = operation.operands
        elements = operation.properties["elements"]
        places = f"{self.name(source)}[{self.name(here)}], {self.name(target)}[{self.name(there)}]"
        types = f"{print_type(source.type)} to {print_type(target.type)}"
        self.line(
            f"{self.define(operation.results[0])} = {operation.name} {places}, {elements}"
            f" : {types}"
        )

    def group(self, operation: Operation) -> None:
        self.line(f"{self.define(operation.results[0])} = {operation.name}")

    def wait(self, operation: Operation) -> None:
        pending = operation.properties["pending"]
        group = self.name(operation.operands[0])
        self.line(f"{operation.name} {group} {{numGroups = {pending} : i32}}")

    def store(self, operation: Operation) -> None:
        value, target, *index = operation.operands
        typed = print_type(target.type)
        text = f"{operation.name} {self.name(value)}, {self.name(target)}[{self.list(index)}]"
        if operation.name == "vector.store":
            text += self.alignment(operation)
            typed += f", {print_type(value.type)}"
        elif operation.properties.get("nontemporal"):
            text += " {nontemporal = true}"
        self.line(f"{text} : {typed}")

    def view(self, operation: Operation) -> None:
        source, place, count = operation.operands
        result = operation.results[0]
        text = f"{operation.name} {self.name(source)}[{self.name(place)}] [{self.name(count)}] [1]"
        self.line(f"{self.define(result)} = {text} : {print_type(source.type)} to {print_type(result.type)}")

    def aligned(self, operation: Operation) -> None:
        source, result = operation.operands[0], operation.results[0]
        text = f"{operation.name} {self.name(source)}, {operation.properties['alignment']}"
        self.line(f"{self.define(result)} = {text} : {print_type(source.type)}")

    def alignment(self, operation: Operation) -> str:
        alignment = operation.properties.get("alignment")
        return f" {{alignment = {alignment} : i64}}" if alignment else ""

    def global_(self, operation: Operation) -> None:
        properties = operation.properties
        name = properties["sym_name"]
        kind = print_type(properties["type"])
        self.line(f'memref.global "private" @{name} : {kind} = uninitialized')

    def get_global(self, operation: Operation) -> None:
        kind = print_type(operation.results[0].type)
        name = operation.properties["name"]
        self.line(f"{self.define(operation.results[0])} = memref.get_global @{name} : {kind}")

    def address(self, operation: Operation) -> None:
        source = operation.operands[0]
        text = f"{operation.name} {self.name(source)} : {print_type(source.type)} -> index"
        self.line(f"{self.define(operation.results[0])} = {text}")

    def pointer(self, operation: Operation) -> None:
        source, result = operation.operands[0], operation.results[0]
        text = f"{operation.name} {self.name(source)} : {print_type(source.type)} to {print_type(result.type)}"
        self.line(f"{self.define(result)} = {text}")

    def store_to(self, operation: Operation) -> None:
        value, target = operation.operands
        types = f"{print_type(value.type)}, {print_type(target.type)}"
        self.line(f"{operation.name} {self.name(value)}, {self.name(target)}{_relaxed(operation, value)} : {types}")

    def load_from(self, operation: Operation) -> None:
        source, result = operation.operands[0], operation.results[0]
        text = f"{operation.name} {self.name(source)}{_relaxed(operation, result)} : {print_type(source.type)} -> {print_type(result.type)}"
        self.line(f"{self.define(result)} = {text}")

    def atomic(self, operation: Operation) -> None:
        value, target, index = operation.operands
        kind = operation.properties["kind"]
        typed = f"({print_type(value.type)}, {print_type(target.type)})"
        result = print_type(operation.results[0].type)
        self.line(
            f"{self.define(operation.results[0])} = memref.atomic_rmw {kind} {self.name(value)}, "
            f"{self.name(target)}[{self.name(index)}] : {typed} -> {result}"
        )

    def broadcast(self, operation: Operation) -> None:
        source = operation.operands[0]
        typed = f"{print_type(source.type)} to {print_type(operation.results[0].type)}"
        text = f"vector.broadcast {self.name(source)} : {typed}"
        self.line(f"{self.define(operation.results[0])} = {text}")

    def extract(self, operation: Operation) -> None:
        source = operation.operands[0]
        lane = operation.properties["lane"]
        typed = f"{print_type(operation.results[0].type)} from {print_type(source.type)}"
        text = f"vector.extract {self.name(source)}[{lane}] : {typed}"
        self.line(f"{self.define(operation.results[0])} = {text}")

    def shuffle(self, operation: Operation) -> None:
        mode = operation.properties["mode"]
        kind = print_type(operation.operands[0].type)
        text = f"gpu.shuffle {mode} {self.list(operation.operands)} : {kind}"
        result, valid = operation.results
        self.line(f"{self.define(result)}, {self.define(valid)} = {text}")

    def number(self, operation: Operation) -> None:
        self.line(f"{self.define(operation.results[0])} = {operation.name} x")

    def plain(self, operation: Operation) -> None:
        self.line(operation.name)

    def leave(self, operation: Operation) -> None:
        operands = operation.operands
        if not operands:
            if operation.name != "scf.yield":
                self.line("return" if operation.name == "func.return" else operation.name)
            return
        kinds = ", ".join(print_type(each.type) for each in operands)
        name = "return" if operation.name == "func.return" else operation.name
        self.line(f"{name} {self.list(operands)} : {kinds}")

    def for_(self, operation: Operation) -> None:
        lower, upper, step, *initial = operation.operands
        block = operation.blocks[0]
        head = f"{self.name(lower)} to {self.name(upper)} step {self.name(step)}"
        carried = ""
        if initial:
            starts = [self.name(value) for value in initial]
            names = [self.define(argument) for argument in block.args[1:]]
            pairs = ", ".join(f"{name} = {start}" for name, start in zip(names, starts))
            kinds = ", ".join(print_type(value.type) for value in initial)
            carried = f" iter_args({pairs}) -> ({kinds})"
        taken = set(self.taken)
        iterator = self.define(block.args[0], operation.properties.get("hint"))
        results = self.defined(operation)
        kind = print_type(lower.type)
        typed = "" if kind == "index" else f" : {kind}"
        self.line(f"{results}scf.for {iterator} = {head}{carried} {typed} {{")
        self.region(block)
        self.taken = taken
        self.line("}" + print_notes(operation.properties.get("notes", ())))

    def defined(self, operation: Operation) -> str:
        """The names of an operation's results, and a `=`; nothing where it has none."""
        results = operation.results
        if not results:
            return ""
        base = self.define(results[0])
        if len(results) == 1:
            return f"{base} = "
        for number, result in enumerate(results):
            self.names[result] = f"{base}#{number}"
        return f"{base}:{len(results)} = "

    def while_(self, operation: Operation) -> None:
        before, after = operation.blocks
        kinds = ", ".join(print_type(each.type) for each in operation.operands)
        self.line(f"scf.while : ({kinds}) -> () {{")
        self.region(before)
        self.line("} do {")
        self.region(after)
        self.indent += "  "
        self.line("scf.yield")
        self.indent = self.indent[:-2]
        self.line("}")

    def condition(self, operation: Operation) -> None:
        self.line(f"scf.condition({self.name(operation.operands[0])})")

    def if_(self, operation: Operation) -> None:
        condition = self.name(operation.operands[0])
        then, *otherwise = operation.blocks
        head = f"scf.if {condition}"
        if operation.results:
            kinds = ", ".join(print_type(each.type) for each in operation.results)
            head = f"{self.defined(operation)}{head} -> ({kinds})"
        self.line(head + " {")
        self.region(then)
        for block in otherwise:
            self.line("} else {")
            self.region(block)
        self.line("}")


    # ------------------------------------------------------------------------------ affine

    def applied(self, kind: str, what: AffineMap, operands: Sequence[Value]) -> str:
        """`affine_map<...>(dims)[symbols]`, or an `affine_set`."""
        dims, symbols = _names_of(what)
        between = " : " if kind == "affine_set" else " -> "
        head, values = f"({', '.join(dims)})", f"({self.list(operands[: what.dims])})"
        if symbols:
            head += f"[{', '.join(symbols)}]"
            values += f"[{self.list(operands[what.dims :])}]"
        return f"{kind}<{head}{between}({', '.join(what.results)})>{values}"

    def bound(self, what: AffineMap, operands: Sequence[Value], word: str) -> str:
        """A bound of `affine.for`: a number, or a map, of several results under `min` or `max`."""
        if len(what.results) == 1 and what.results[0].removeprefix("-").isdecimal():
            return what.results[0]
        applied = self.applied("affine_map", what, operands)
        return applied if len(what.results) == 1 else f"{word} {applied}"

    def affine_for(self, operation: Operation) -> None:
        properties, (block,) = operation.properties, operation.blocks
        lower, upper = properties["lower"], properties["upper"]
        first = lower.dims + lower.symbols
        low = self.bound(lower, operation.operands[:first], "max")
        high = self.bound(upper, operation.operands[first:], "min")
        step = "" if properties["step"] == 1 else f" step {properties['step']}"
        taken = set(self.taken)
        self.line(f"affine.for {self.define(block.args[0], properties['hint'])} = {low} to {high}{step} {{")
        self.region(block)
        self.taken = taken
        self.line("}" + print_notes(properties["notes"]))

    def affine_if(self, operation: Operation) -> None:
        then, *otherwise = operation.blocks
        self.line(f"affine.if {self.applied('affine_set', operation.properties['set'], operation.operands)} {{")
        self.region(then)
        for block in otherwise:
            self.line("} else {")
            self.region(block)
        self.line("}")

    def affine_apply(self, operation: Operation) -> None:
        text = self.applied("affine_map", operation.properties["map"], operation.operands)
        self.line(f"{self.define(operation.results[0], operation.properties.get('hint'))} = affine.apply {text}")

    def affine_place(self, what: AffineMap, memref: Value, operands: Sequence[Value]) -> str:
        """`memref[subscripts] : type`, the subscripts with the operands' names in them."""
        dims, symbols = _names_of(what)
        names = dict(zip((*dims, *symbols), map(self.name, operands), strict=True))
        index = ", ".join(_PLACES.sub(lambda found: names[found[0]], one) for one in what.results)
        return f"{self.name(memref)}[{index}] : {print_type(memref.type)}"

    def affine_load(self, operation: Operation) -> None:
        memref, *operands = operation.operands
        place = self.affine_place(operation.properties["map"], memref, operands)
        self.line(f"{self.define(operation.results[0])} = affine.load {place}")

    def affine_store(self, operation: Operation) -> None:
        value, memref, *operands = operation.operands
        place = self.affine_place(operation.properties["map"], memref, operands)
        self.line(f"affine.store {self.name(value)}, {place}")


def print_notes(notes: Sequence[str]) -> str:
    """Attributes in braces; nothing where there are none."""
    return f" {{{', '.join(notes)}}}" if notes else ""


_PLACES = re.compile(r"\b[ds]\d+\b")


def _names_of(what: AffineMap) -> tuple[list[str], list[str]]:
    """What the map's results call its dimensions and symbols."""
    return [f"d{n}" for n in range(what.dims)], [f"s{n}" for n in range(what.symbols)]


def _relaxed(operation: Operation, value: Value) -> str:
    """How an access that is atomic for the whole device is written."""
    if not operation.properties.get("relaxed"):
        return ""
    return f' atomic syncscope("device") monotonic {{alignment = {bytes_of(value.type)} : i64}}'


_CONVERSIONS = frozenset(
    f"arith.{name}"
    for name in (
        *("extsi", "extui", "trunci", "sitofp", "uitofp", "fptosi", "extf", "truncf"),
        *("index_cast", "bitcast"),
    )
) | {"vector.bitcast"}

_SPECIAL: dict[str, Callable[[_Printer, Operation], None]] = {
    "gpu.module": _Printer.gpu_module,
    "gpu.func": _Printer.function,
    "func.func": _Printer.function,
    "arith.constant": _Printer.constant,
    "arith.cmpi": _Printer.compare,
    "arith.cmpf": _Printer.compare,
    "arith.select": _Printer.select,
    "llvm.call_intrinsic": _Printer.intrinsic,
    "func.call": _Printer.call,
    "memref.alloca": _Printer.allocate,
    "memref.alloc": _Printer.allocate,
    "cf.assert": _Printer.assert_,
    "affine.for": _Printer.affine_for,
    "affine.if": _Printer.affine_if,
    "affine.apply": _Printer.affine_apply,
    "affine.load": _Printer.affine_load,
    "affine.store": _Printer.affine_store,
    "memref.load": _Printer.load,
    "vector.load": _Printer.load,
    "memref.prefetch": _Printer.prefetch,
    "nvgpu.device_async_copy": _Printer.copy_late,
    "nvgpu.device_async_create_group": _Printer.group,
    "nvgpu.device_async_wait": _Printer.wait,
    "memref.store": _Printer.store,
    "vector.store": _Printer.store,
    "memref.subview": _Printer.view,
    "memref.assume_alignment": _Printer.aligned,
    "memref.global": _Printer.global_,
    "memref.get_global": _Printer.get_global,
    "memref.atomic_rmw": _Printer.atomic,
    "memref.extract_aligned_pointer_as_index": _Printer.address,
    "llvm.inttoptr": _Printer.pointer,
    "llvm.store": _Printer.store_to,
    "llvm.load": _Printer.load_from,
    "vector.broadcast": _Printer.broadcast,
    "vector.extract": _Printer.extract,
    "vector.from_elements": lambda printer, operation: printer.line(
        f"{printer.define(operation.results[0])} = vector.from_elements "
        f"{printer.list(operation.operands)} : {print_type(operation.results[0].type)}"
    ),
    "gpu.shuffle": _Printer.shuffle,
    "gpu.block_id": _Printer.number,
    "gpu.thread_id": _Printer.number,
    "gpu.barrier": _Printer.plain,
    "scf.yield": _Printer.leave,
    "func.return": _Printer.leave,
    "gpu.return": _Printer.leave,
    "scf.for": _Printer.for_,
    "scf.while": _Printer.while_,
    "scf.condition": _Printer.condition,
    "scf.if": _Printer.if_,
}
