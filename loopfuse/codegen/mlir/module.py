"""The module of a whole tree: one function a launch, and the math functions they call.

On the GPU each launch is a `gpu.func` kernel in one `gpu.module`; on the CPU a `func.func` that
takes `begin` and `end` besides and runs those iterations of the linearised THREAD loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from loopfuse.base.dtypes import DType
from loopfuse.base.machine import CPU, LANES, MULTIPROCESSOR, machine_of
from loopfuse.base.options import Target
from loopfuse.codegen.abi import (
    Chain,
    accessed_buffers,
    block_threads,
    check_key,
    check_table,
    cluster_blocks,
    constant_extent,
    entry_name,
    host_variables,
    launch_arguments,
    launch_buffers,
    not_lowered,
    python_name,
    split_chain,
    walk_nodes,
)
from loopfuse.codegen.build import (
    GLOBAL,
    I32,
    I64,
    INDEX,
    STORAGE,
    WORKGROUP,
    Builder,
    memref_type,
)
from loopfuse.codegen.ir import Block, Operation, Place, Scalar, Type, Value, module_of
from loopfuse.codegen.math.copies import call_long_functions
from loopfuse.codegen.math.functions import make_math_function, math_function_name
from loopfuse.codegen.mlir.emit import Emitter
from loopfuse.codegen.mlir.expr import emit_value
from loopfuse.codegen.mlir.gpu import is_exchange, start_exchanges
from loopfuse.codegen.mlir.hoist import hoist_divisions
from loopfuse.codegen.mlir.index import UNBOUNDED, linear
from loopfuse.codegen.mlir.nodes import divides, emit_body, emit_counted, note_variable
from loopfuse.codegen.mlir.packed import packed_buffers
from loopfuse.codegen.mlir.scans import draw_number
from loopfuse.codegen.mlir.together import Done, divided_exponentials
from loopfuse.codegen.select.block_order import ends_first, in_order
from loopfuse.codegen.select.value_ranges import Held, ranges_of
from loopfuse.codegen.shared_memory import asked_bytes
from loopfuse.lang import nodes
from loopfuse.tree.looptree import (
    ALIGNED,
    Global,
    Launch,
    LineBuffer,
    Loop,
    LoopTree,
    Register,
    Scan,
    Shared,
)
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.rewrite.numbers import as_numbers


def emit_module(
    tree: LoopTree,
    kernel: nodes.Kernel,
    target: Target,
    index_bits: int = 64,
    places: Mapping[str, Place] | None = None,
) -> Operation:
    """The MLIR module of `tree`, in upstream dialects. `places`: where statements stand.

    before: GRID b: BLOCK t: Guard(256*b + t < n): y[256*b + t] = exp(x[256*b + t])
    after:  gpu.func @k(...) { %b = gpu.block_id x ... scf.if ... func.call @lf_exp_f32 ... }
    """
    tree = as_numbers(tree)
    functions: dict[str, tuple[str, DType, int]] = {}
    entries: list[Operation] = []
    codes = {key: number for number, key in enumerate(check_table(tree), start=1)}
    narrowest = min((b.dtype.bytes for b in (*kernel.arrays, *tree.buffers)), default=1)
    held = cache(lambda: ranges_of(tree))
    machine = target.fitted(machine_of(target.name))
    for launch in tree.launches:
        entry = _Entry(tree, launch, kernel, target.is_gpu, index_bits, functions)
        entry.places, entry.codes, entry.narrowest = places or {}, codes, narrowest
        entry.held, entry.machine = held, machine
        entry.inverts = target.code == "ptx"
        if cluster_blocks(entry.chain) > machine.cluster:
            raise not_lowered(f"a cluster of blocks on {target.name}")
        entries += entry.emit()
    # `floor modulo` calls nothing and neither do the others: one round finds them all.
    operations = [make_math_function(*functions[name]) for name in sorted(functions)]
    if target.code == "ptx":
        call_long_functions(operations, entries)
    operations += entries
    if not target.is_gpu:
        return module_of(operations)
    named = {"sym_name": _module_name(kernel.name)}
    module = module_of([Operation("gpu.module", properties=named, blocks=(Block(ops=operations),))])
    most = max(asked_bytes(module).values(), default=0)
    if most > max(MULTIPROCESSOR.shared_of_block, machine.shared_of_block):
        raise not_lowered(f"a block with {most} bytes of shared memory")
    return module


def _module_name(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name) + "_module"


class _Entry:
    """Emits one launch."""

    def __init__(
        self,
        tree: LoopTree,
        launch: Launch,
        kernel: nodes.Kernel,
        is_gpu: bool,
        index_bits: int,
        functions: dict[str, tuple[str, DType, int]],
    ) -> None:
        self.tree, self.launch, self.kernel = tree, launch, kernel
        self.is_gpu, self.index_bits, self.functions = is_gpu, index_bits, functions
        self.name = entry_name(launch)
        self.chain = split_chain(launch)
        self.globals: dict[tuple[DType, int, int], Operation] = {}
        self.distinct = 0
        self.places: Mapping[str, Place] = {}
        self.codes: Mapping[tuple[str, int, int, int, bool], int] = {}
        self.narrowest = 1
        self.held: Callable[[], Held] = dict
        self.machine = CPU
        self.inverts = False

    def emit(self) -> list[Operation]:
        """The function, after the shared memory it uses."""
        buffers = launch_buffers(self.tree, self.launch, self.kernel)
        arguments = launch_arguments(self.tree, self.launch, self.kernel)
        counts, written = accessed_buffers(self.launch.body)
        space = GLOBAL if self.is_gpu else ""
        kinds: list[Type] = [memref_type(_storage(b.dtype), space=space) for b in buffers]
        values = [each for each in arguments if each["kind"] in ("value", "aligned")]
        kinds += [_storage(DType(each["dtype"])) for each in values]
        has_checks = any(each["kind"] == "error" for each in arguments)
        if has_checks:
            kinds.append(memref_type(I64, space=space))
        if not self.is_gpu:
            kinds += [I64, I64]
        block = Block(kinds)
        builder = Builder(block)
        emitter = Emitter(builder, self.index_bits, self.is_gpu, self.narrowest)
        emitter.counts, emitter.done = counts, Done()
        emitter.inverts = self.inverts
        if self.machine.converts_f16:
            emitter.converted |= {DType.F16}
        if self.is_gpu:
            registers = frozenset(each.name for each in self.tree.buffers if isinstance(each.home, Register))
            emitter.done.dividends = divided_exponentials(self.launch.body, registers)
        emitter.places, emitter.held = self.places, self.held
        emitter.nontemporal = dict(self.launch.nontemporal)
        emitter.locate(self.launch.body)
        emitter.request_function = self.request_function
        emitter.request_shared = lambda dtype, size: self.shared(builder, dtype, size, True)
        emitter.request_slots = lambda dtype, size: self.shared(builder, dtype, size, False)
        emitter.emit_opaque = lambda expr: emit_value(emitter, expr)
        for buffer, argument in zip(buffers, block.args):
            emitter.bind_argument(buffer, argument)
        if has_checks:
            emitter.error = block.args[len(buffers) + len(values)]
            emitter.check_code = lambda *access: self.codes[check_key(*access)]
        sizes = set(self.kernel.sizes)
        originals = {python_name(var): var for var in host_variables(self.tree, self.launch)}
        for value, argument in zip(values, block.args[len(buffers) :]):
            shown: str = value.get("name", ALIGNED.name)
            name = originals.get(shown, shown)
            dtype = DType(value["dtype"])
            emitter.bind_symbol(name, dtype, argument, name in sizes)
            if dtype is DType.I64:
                # A host loop's variable is an iterator of the tree.
                emitter.variables[name] = argument
        if self.is_gpu:
            emitter.fixed = frozenset(buffer.name for buffer in buffers if buffer.name not in written)
            emitter.packed = packed_buffers(self.launch.body, self.tree.buffers)
        for buffer in self.tree.buffers:
            if buffer.name not in counts or isinstance(buffer.home, Global):
                continue
            if isinstance(buffer.home, Shared):
                emitter.request_shared = lambda dtype, size: self.shared(builder, dtype, size, False)
            emitter.bind(buffer)
            emitter.request_shared = lambda dtype, size: self.shared(builder, dtype, size, True)
        if self.is_gpu:
            self.gpu_body(emitter)
            builder.block.add(Operation("gpu.return"))
        else:
            self.cpu_body(emitter, block.args[-2], block.args[-1])
            hoist_divisions(block)
            builder.block.add(Operation("func.return"))
        builder.close()
        words: list[tuple[str, ...]] = [
            ("llvm.noalias",) if buffer.name in written else ("llvm.noalias", "llvm.readonly")
            for buffer in buffers
        ]
        words += [()] * (len(kinds) - len(words))
        properties: dict[str, Any] = {"sym_name": self.name, "outputs": (), "arg_attrs": words}
        if not self.is_gpu:
            if any(isinstance(b.home, LineBuffer) and b.home.rows > 1 and b.name in counts for b in self.tree.buffers):
                properties["wide"] = True
            return [Operation("func.func", properties=properties, blocks=(block,))]
        properties["known_block_size"] = block_threads(self.chain)
        if self.chain.cluster:
            properties["nvvm.cluster_dim"] = cluster_blocks(self.chain)
        if self.launch.registers:
            most = self.launch.registers
            if self.index_bits == 64:  # addresses take two each
                warps = -(-block_threads(self.chain) // LANES)
                most = min(MULTIPROCESSOR.step_for(most + 1), max(most, MULTIPROCESSOR.registers_with(warps)))
            properties["nvvm.maxnreg"] = most
        function = Operation("gpu.func", properties=properties, blocks=(block,))
        return [*self.globals.values(), function]

    def request_function(self, function: str, dtype: DType, lanes: int) -> str:
        """Notes that a math function is called; its name."""
        name = math_function_name(function, dtype, lanes)
        self.functions[name] = (function, dtype, lanes)
        return name

    def shared(self, builder: Builder, dtype: DType, size: int, scratch: bool) -> Value:
        """A shared array. Scratch arrays of one type are one, guarded by the barriers around."""
        if not self.is_gpu:
            raise not_lowered("shared memory on the CPU")
        if not scratch:
            self.distinct += 1
        key = (dtype, size, 0 if scratch else self.distinct)
        kind = memref_type(_storage(dtype), size, WORKGROUP)
        found = self.globals.get(key)
        if found is None:
            name = f"{self.name}_shared{len(self.globals)}{'_scratch' if scratch else ''}"
            found = Operation("memref.global", properties={"sym_name": name, "type": kind})
            self.globals[key] = found
        name = found.properties["sym_name"]
        return builder.add(Operation("memref.get_global", (), (kind,), {"name": name}))

    # -------------------------------------------------------------------------- loop heads

    def variable(self, emitter: Emitter, loop: Loop, number: Value) -> None:
        """Sets the variable of a mapped loop from the number of its iteration."""
        builder = emitter.builder
        note_variable(emitter, loop)
        lower = linear(loop.lower, emitter.facts)
        kind, safe = emitter.width(lower)
        if emitter.facts.bounds[loop.var] == UNBOUNDED:
            kind, safe = I64, False
        value = emitter.fit(number, kind)
        if loop.step != 1:
            value = builder.binary("muli", value, builder.constant(loop.step, kind), safe)
        if lower.terms or lower.constant:
            value = builder.binary("addi", value, emitter.form(lower, kind, safe), safe)
        emitter.variables[loop.var] = value

    def extent(self, emitter: Emitter, loop: Loop) -> Value:
        """The number of iterations of a GRID or THREAD loop, at least 1 (it is a divisor), i64."""
        builder = emitter.builder
        count = linear(loop.upper, emitter.facts).plus(linear(loop.lower, emitter.facts), -1)
        if loop.step != 1:
            count = count.plus(linear(nodes.Const(loop.step - 1, DType.I64), emitter.facts))
        kind, safe = emitter.width(count)
        value = emitter.form(count, kind, safe)
        if loop.step != 1:
            value = builder.binary("floordivsi", value, builder.constant(loop.step, kind))
        return builder.binary("maxsi", value, builder.constant(1, kind))

    def decompose(self, emitter: Emitter, loops: Sequence[Loop], number: Value) -> None:
        """Sets the variables of a nest from the linear number of an iteration."""

        def extents(of: Sequence[Loop]) -> list[Value]:
            return [emitter.fit(self.extent(emitter, loop), number.type) for loop in of]  # pyright: ignore

        if self.launch.ends_first:
            places = ends_first(emitter.builder, number, extents(loops))
        else:
            places = in_order(emitter.builder, number, extents(loops[1:]))
        for loop, place in zip(loops, places, strict=True):
            self.variable(emitter, loop, place)

    def gpu_body(self, emitter: Emitter) -> None:
        """Block and thread numbers become the variables of the chain."""
        builder, chain = emitter.builder, self.chain
        emitter.grid = chain.grid
        words = [node.words for node in walk_nodes(chain.body) if isinstance(node, Scan) and node.words]
        if words:
            self.draw(emitter, words[0])
        elif chain.grid or chain.cluster:
            block = builder.add(Operation("gpu.block_id", (), (INDEX,)))
            number = builder.convert("index_cast", block, emitter.index_type)
            if chain.cluster:
                number = self.cluster_variables(emitter, chain, number)
            if chain.grid:
                self.decompose(emitter, chain.grid, number)
        emitter.threads = block_threads(chain)
        emitter.block_variables = tuple(
            (loop.var, constant_extent(loop)) for loop in chain.block
        )
        emitter.divides = divides(chain.body)
        emitter.lane = next((lp.var for lp in chain.block if lp.mapping is Where.LANE), "")
        thread = builder.add(Operation("gpu.thread_id", (), (INDEX,)))
        emitter.thread = number = builder.convert("index_cast", thread, I32)
        self.constant_variables(emitter, chain.block, number)
        if any(is_exchange(emitter, node) for node in walk_nodes(chain.body)):
            start_exchanges(emitter)
        emit_body(emitter, chain.body)

    def draw(self, emitter: Emitter, words: str) -> None:
        """Blocks' variables by a number that each draws as it starts."""
        builder, grid = emitter.builder, self.chain.grid
        thread = builder.add(Operation("gpu.thread_id", (), (INDEX,)))
        emitter.thread = builder.convert("index_cast", thread, I32)
        number = draw_number(emitter, words, [self.extent(emitter, loop) for loop in grid])
        self.decompose(emitter, grid, number)

    def cluster_variables(self, emitter: Emitter, chain: Chain, block: Value) -> Value:
        """Sets the variables of the CLUSTER loops; the number of the block's cluster."""
        builder = emitter.builder
        emitter.blocks = cluster_blocks(chain)
        emitter.cluster_variables = tuple(loop.var for loop in chain.cluster)
        count = builder.constant(emitter.blocks, block.type)
        emitter.rank = rank = emitter.fit(builder.binary("remui", block, count), I32)
        self.constant_variables(emitter, chain.cluster, rank)
        return builder.binary("divui", block, count)

    def constant_variables(self, emitter: Emitter, loops: Sequence[Loop], number: Value) -> None:
        """Sets the variables of CLUSTER loops, or of BLOCK, WARP and LANE loops."""
        builder = emitter.builder
        for loop in reversed(loops[1:]):
            extent = builder.constant(constant_extent(loop), I32)
            self.variable(emitter, loop, builder.binary("remui", number, extent))
            number = builder.binary("divui", number, extent)
        if loops:
            self.variable(emitter, loops[0], number)

    def cpu_body(self, emitter: Emitter, begin: Value, end: Value) -> None:
        """The iterations begin..end, row by row, so that the innermost loop counts by one."""
        builder, loops, body = emitter.builder, self.chain.grid, self.chain.body
        one = builder.constant(1, I64)
        if len(loops) <= 1:
            kind = emitter.index_type
            if loops:
                note_variable(emitter, loops[0])
                if emitter.facts.bounds[loops[0].var] == UNBOUNDED:
                    kind = I64

            start, stop = emitter.fit(begin, kind), emitter.fit(end, kind)
            if not loops:
                builder.loop(start, stop, builder.constant(1, kind), lambda _: emit_body(emitter, body))
                return
            emit_counted(emitter, loops[0], body, (start, stop), lambda number: self.variable(emitter, loops[0], number))
            return
        inner = loops[-1]
        extent = emitter.fit(self.extent(emitter, inner), I64)
        first = builder.binary("divui", begin, extent)
        round_up = builder.binary("subi", builder.binary("addi", end, extent), one)
        last = builder.binary("divui", round_up, extent)

        def row(number: Value) -> None:
            with emitter.scope():
                self.decompose(emitter, loops[:-1], number)
                start = builder.binary("muli", number, extent)
                zero = builder.constant(0, I64)
                low = builder.binary("maxsi", builder.binary("subi", begin, start), zero)
                high = builder.binary("minsi", builder.binary("subi", end, start), extent)
                note_variable(emitter, inner)
                wide = emitter.facts.bounds[inner.var] == UNBOUNDED
                kind = I64 if wide else emitter.index_type

                start, stop = emitter.fit(low, kind), emitter.fit(high, kind)
                emit_counted(emitter, inner, body, (start, stop), lambda number: self.variable(emitter, inner, number))

        # An empty range of iterations divides to an empty range of rows, or to one whose row is.
        builder.loop(first, last, one, row)


def _storage(dtype: DType) -> Scalar:
    kind = STORAGE.get(dtype)
    if kind is None:
        raise not_lowered(f"{dtype.value} values")
    return kind



