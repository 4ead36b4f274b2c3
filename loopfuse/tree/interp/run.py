"""Runs a LoopTree on NumPy arrays: the tree the device runs, with the device's bits.

The tree is written out as Python source once, then run: one function a launch, one call (or one
generator, where threads wait for each other) a thread. Storage that nothing has set holds NaN or
a pattern, an index outside its buffer and a loop bound that nothing has set are errors, and
parallel iterations may be run in several orders, so that a wrong tree shows.
"""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Mapping as Table
from typing import Any

import numpy as np

from loopfuse.base.diagnostics import Diagnostic, InternalError
from loopfuse.base.dtypes import DType
from loopfuse.base.machine import LANES
from loopfuse.lang import semantics
from loopfuse.lang.index import evaluate_index, is_checked
from loopfuse.lang.interp import Offence
from loopfuse.lang.linear import constant_value
from loopfuse.lang.nodes import Const, Expr, Load, Symbol
from loopfuse.lang.walk import loads
from loopfuse.tree.form.check import unrolled_ranges
from loopfuse.tree.interp.source import FOLD_BINARY, SourceWriter
from loopfuse.tree.interp.threads import Cluster, Order, Thread, Wait, ordering, run_clusters
from loopfuse.tree.looptree import (
    ALIGNED,
    LINEAR,
    Arrive,
    Await,
    Barrier,
    Buffer,
    Combine,
    Compute,
    Copy,
    DistributedShared,
    Fold,
    Global,
    Guard,
    HostLoop,
    HostNode,
    Lanes,
    Launch,
    LineBuffer,
    Loop,
    LoopTree,
    Mapping,
    Prefetch,
    Raise,
    Register,
    Rescale,
    Running,
    Scan,
    Shared,
    Ticket,
    TreeNode,
    Window,
    modulus_of,
    owns_lane,
    strip_of,
)
from loopfuse.tree.rewrite.collapse import as_one
from loopfuse.tree.rewrite.numbers import as_numbers
from loopfuse.tree.walk import node_expressions, resolve_resident, split_chain, walk_nodes

_INNER = (Mapping.BLOCK, Mapping.WARP, Mapping.LANE)


def run_tree(
    tree: LoopTree,
    arguments: Table[str, Any],
    sizes: Table[str, int],
    math: semantics.MathFunctions | None = None,
    *,
    order: str = "forward",
    aligned: bool = True,
    resident: bool | None = None,
    offences: list[Offence] | None = None,
) -> None:
    """Run `tree`; results are written into the arrays of `arguments`.

    `arguments` holds arrays and scalar parameters by name, `sizes` the sizes (and, if convenient,
    integer parameters); `math` replaces math functions (see `lang.semantics`). `order` is that of
    parallel iterations: forward, reverse or shuffled; `resident`: what RESIDENT is, in place of what the
    sizes say. InternalError where a thread waits in vain
    or an index leaves its buffer. A subscript that depends on data may leave it: each that does is
    appended to `offences`.
    """
    if tree.resident is not None:
        tree = resolve_resident(tree, tree.resident if resident is None else Const(resident, DType.BOOL))
    tree = as_numbers(as_one(tree))
    values: dict[str, Any] = {**arguments, **sizes, ALIGNED.name: aligned}
    with np.errstate(all="ignore"):
        storage = {
            buffer.name: _global_cells(buffer, values)
            for buffer in tree.buffers
            if isinstance(buffer.home, Global) and not buffer.turns
        }
        writer = _TreeWriter(tree, math or {})
        _run_host(tree.body, writer, storage, values, ordering(order))
    if offences is not None:
        offences += writer.offences
    written = {name for each in writer.written for name in tree.buffer(each).turns or (each,)}
    for name in written:
        buffer = tree.buffer(name)
        if buffer.argument:
            array = arguments[buffer.array]
            array[...] = np.array(storage[name], dtype=array.dtype).reshape(array.shape)


def poison(dtype: DType) -> Any:
    """What storage that nothing has set holds."""
    if dtype.is_float:
        return semantics.scalar_type(dtype)(np.nan)
    return True if dtype is DType.BOOL else semantics.wrapper(dtype)(0x5A5A5A5A5A5A5A5A)


def maps_in_order(dtype: DType) -> Any:
    """One linear map and then another, of (what it adds, its factor): as `tree.rewrite.maps` has it."""
    scalar = semantics.scalar_type(dtype)
    product, total = (semantics.binary(each, dtype, {}) for each in ("mul", "add"))

    def both(first: tuple[Any, Any], then: tuple[Any, Any]) -> tuple[Any, Any]:
        (value, factor), (added, by) = first, then
        if dtype.is_float and value == 0:
            return added, product(by, factor)
        is_lost = dtype.is_float and by == 0 and np.isinf(value)
        held = scalar(np.copysign(1.0, by)) if is_lost else by
        return total(product(held, value), added), product(by, factor)

    return both


def _global_cells(buffer: Buffer, values: Table[str, Any]) -> list[Any]:
    if buffer.argument:
        flat = np.ascontiguousarray(values[buffer.array]).ravel()
        return list(flat) if buffer.dtype.is_float else flat.tolist()
    count = 1
    for extent in buffer.extents:
        count *= max(0, evaluate_index(extent, values))
    return [_first(buffer)] * count


def _first(buffer: Buffer) -> Any:
    if not buffer.zeroed:
        return poison(buffer.dtype)
    return semantics.scalar_type(buffer.dtype)(0)


def _run_host(
    nodes: tuple[HostNode, ...],
    writer: _TreeWriter,
    storage: dict[str, list[Any]],
    values: dict[str, Any],
    order: Order,
) -> None:
    for node in nodes:
        if isinstance(node, HostLoop):
            bounds = evaluate_index(node.lower, values), evaluate_index(node.upper, values)
            for value in range(*bounds, node.step):
                turning = {name: storage[writer.buffers[name].turns[value]] for name in node.turns}
                inside = {**values, node.var: value}
                _run_host(node.body, writer, {**storage, **turning}, inside, order)
        else:
            writer.launch(node)(storage, values, order)


def _at(index: tuple[int, ...], extents: tuple[int, ...], name: str) -> int:
    offset = 0
    for i, n in zip(index, extents, strict=True):
        if not 0 <= i < n:
            where = ", ".join(map(str, index))
            raise InternalError(
                Diagnostic("tree-bounds", f"`{name}[{where}]` is outside its extents {extents}")
            )
        offset = offset * n + i
    return offset


def _in_row(index: tuple[int, ...], extents: tuple[int, ...], name: str) -> int:
    """As `_at`, where a subscript may be beyond its extent, but no element beyond the array."""
    offset, count = 0, 1
    for i, n in zip(index, extents, strict=True):
        offset, count = offset * n + i, count * n
    if not 0 <= offset < count:
        where = ", ".join(map(str, index))
        raise InternalError(Diagnostic("tree-bounds", f"`{name}[{where}]` is outside its extents {extents}"))
    return offset


def _known(bound: int, var: str) -> int:
    if bound == poison(DType.I64):  # a loop of so many iterations would never end
        raise InternalError(
            Diagnostic("tree-bounds", f"a bound of the loop over `{var}` has not been set")
        )
    return bound


def _checked_at(index: tuple[int, ...], extents: tuple[int, ...], note: Any) -> int | None:
    offset = 0
    for dimension, (i, n) in enumerate(zip(index, extents, strict=True)):
        if not 0 <= i < n:
            note(dimension, i)
            return None
        offset = offset * n + i
    return offset


def _read(cells: list[Any], offset: int | None, zero: Any) -> Any:
    return zero if offset is None else cells[offset]


def _write(cells: list[Any], offset: int | None, value: Any) -> None:
    if offset is not None:
        cells[offset] = value


class _TreeWriter:
    """Writes launches as Python functions; one for a run, launches in a host loop kept."""

    def __init__(self, tree: LoopTree, math_functions: semantics.MathFunctions) -> None:
        self.tree, self.ranges = tree, unrolled_ranges(tree)
        self.buffers = {buffer.name: buffer for buffer in tree.buffers}
        self.math_functions = math_functions
        self.written: set[str] = set()
        self.offences: list[Offence] = []
        self._launches: dict[str, Any] = {}

    def launch(self, launch: Launch) -> Any:
        """The function (storage, values, order) that runs `launch`."""
        if launch.name not in self._launches:
            self._launches[launch.name] = _LaunchWriter(self, launch).compile()
        return self._launches[launch.name]


class _LaunchWriter:
    def __init__(self, tree_writer: _TreeWriter, launch: Launch) -> None:
        self.tree, self.ranges = tree_writer.tree, tree_writer.ranges
        self.buffers = tree_writer.buffers
        self.written = tree_writer.written
        self.offences = tree_writer.offences
        self.launch = launch
        self.chain, self.body = split_chain(launch)
        self.writer = SourceWriter(tree_writer.math_functions, self.read)
        self.lines: list[str] = []
        self.nodes = itertools.count()
        self.chains: list[str] = []
        self.lane = next((loop.var for loop in self.chain if loop.mapping is Mapping.LANE), None)
        used = [*walk_nodes(self.body)]
        taken = {n.buffer for n in used if isinstance(n, Combine | Scan)}
        names = taken | {self.buffers[name].factors for name in taken} - {""} | {
            load.array for node in used for e in node_expressions(node) for load in loads(e)
        }
        self.used = [self.buffers[name] for name in sorted(names)]
        self.waits = any(
            isinstance(n, Combine | Scan | Barrier | Raise | Await | Ticket) for n in used
        ) or any(self.scope(buffer) not in ("thread", "global") for buffer in self.used)

    # ---------------------------------------------------------------- storage

    @staticmethod
    def scope(buffer: Buffer) -> str:
        """Who shares one copy of the buffer."""
        match buffer.home:
            case Register() | LineBuffer() | Window(columns=0):
                # A worker's iterations may start anywhere, so no iteration of a THREAD loop may
                # count on what the one before left in a line buffer: each gets its own.
                return "thread"
            case Lanes() | Window():
                return "warp"
            case Shared():
                return "block"
            case DistributedShared():
                return "cluster"
            case Global():
                return "global"

    @staticmethod
    def extents(buffer: Buffer) -> tuple[int, ...]:
        """The constant extents of a buffer that is not global, as stored."""
        extents = tuple(constant_value(extent) or 0 for extent in buffer.extents)
        if rows := modulus_of(buffer.home):
            return (rows, *extents[1:])
        return extents

    def name(self, buffer: Buffer) -> str:
        return f"b{list(self.buffers).index(buffer.name)}"

    def offset(self, load: Load) -> str:
        """Source of a place's offset in its buffer's list, bounds tested."""
        buffer = self.buffers[load.array]
        if not load.index:
            return "0"
        index = [self.writer.index(part) for part in load.index]
        if rows := modulus_of(buffer.home):
            index[0] = f"{index[0]} % {rows}"
        extents = self.held_extents(buffer)
        if self.launch.coalesced and isinstance(buffer.home, Global):
            return f"in_row(({', '.join(index)},), {extents}, {buffer.name!r})"
        return f"at(({', '.join(index)},), {extents}, {buffer.name!r})"

    def held_extents(self, buffer: Buffer) -> str:
        """Source of a buffer's extents, as stored."""
        return f"e{self.name(buffer)}" if isinstance(buffer.home, Global) else repr(self.extents(buffer))

    def read(self, load: Load) -> str:
        """Source of a Load's value."""
        cells = self.name(self.buffers[load.array])
        if any(is_checked(part) for part in load.index):
            zero = self.writer.bind(
                ("zero", load.dtype), lambda: semantics.scalar_type(load.dtype)(0)
            )
            return f"read({cells}, {self.checked_offset(load, writes=False)}, {zero})"
        return f"{cells}[{self.offset(load)}]"

    def checked_offset(self, load: Load, writes: bool) -> str:
        """As `offset`, of a place that depends on data: None where it is outside."""
        index = "".join(f"{self.writer.index(part)}, " for part in load.index)
        extents = self.held_extents(self.buffers[load.array])
        spans = tuple(part.span for part in load.index)  # of two equal loads, each has its own
        note = self.writer.bind(
            ("note", load, spans, writes), lambda: functools.partial(self.note, load, writes)
        )
        return f"checked_at(({index}), {extents}, {note})"

    def note(self, load: Load, writes: bool, dimension: int, index: int) -> None:
        """Keep an offender."""
        span, copies = load.index[dimension].span, self.buffers[load.array].copies
        self.offences.append(Offence(load.array, dimension - copies, index, span, writes))

    # ---------------------------------------------------------------- code

    def compile(self) -> Any:
        """The launch as a function of (storage, values, order)."""
        self.emit_nodes(self.body, 1)
        chain = [self.writer.variable(loop.var) for loop in self.chain]
        thread = self.lines
        self.lines = []
        for depth, loop in enumerate(self.chain):
            self.emit(depth + 1, f"for {chain[depth]} in {self.range(loop)}:")
        self.emit(len(chain) + 1, f"yield ({''.join(f'{var}, ' for var in chain)})")
        threads = self.lines
        globals_ = [b for b in self.used if self.scope(b) == "global"]
        extents = [self.writer.index(e) for b in globals_ for e in b.extents]  # names the symbols
        del extents
        self.lines = []
        self.emit(0, "def prepare(storage, values, order):")
        self.emit_symbols()
        for buffer in globals_:
            self.emit(1, f"{self.name(buffer)} = storage[{buffer.name!r}]")
            inside = "".join(f"{self.writer.index(e)}, " for e in buffer.extents)
            self.emit(1, f"e{self.name(buffer)} = ({inside})")
        for line in self.chains:
            self.emit(1, line)
        self.emit(1, "def chain():")
        self.lines += ["    " + line for line in threads]
        shared = [b for b in self.used if self.scope(b) in ("warp", "block", "cluster")]
        parameters = ", ".join([*chain, *(self.name(buffer) for buffer in shared)])
        self.emit(1, f"def thread({parameters}):")
        for buffer in self.used:
            if self.scope(buffer) == "thread":
                self.emit(2, f"{self.name(buffer)} = {self.fresh(buffer)}")
        if self.waits:
            self.emit(2, "if False: yield")
        self.emit(2, "pass")
        self.lines += ["    " + line for line in thread]
        self.emit(1, "return chain, thread")
        helpers = {
            "at": _at, "in_row": _in_row, "Wait": Wait, "checked_at": _checked_at, "read": _read, "write": _write,
            "known": _known, "defaultdict": defaultdict,
        }  # fmt: skip
        namespace = {**self.writer.namespace, **helpers}
        exec(compile("\n".join(self.lines), f"<launch {self.launch.name}>", "exec"), namespace)
        prepare = namespace["prepare"]
        if not self.waits:
            return functools.partial(_run_plain, prepare)
        makers = [(self.scope(b), self.stored(b)) for b in shared]
        together = any(isinstance(node, Await) or _is_over_blocks(node) for node in walk_nodes(self.body))
        return functools.partial(_run_waiting, prepare, self.chain, makers, together)

    def stored(self, buffer: Buffer) -> tuple[Any, int]:
        """The first value and the number of elements of a buffer that is not global."""
        count = 1
        for extent in self.extents(buffer):
            count *= extent
        return _first(buffer), count

    def fresh(self, buffer: Buffer) -> str:
        first, count = self.stored(buffer)
        return f"[{self.writer.bind(('first', buffer.name), lambda: first)}] * {count}"

    def emit(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def emit_symbols(self) -> None:
        for position, symbol in enumerate(list(self.writer.symbols.values())):
            kind = self.writer.bind(("type", symbol.dtype), lambda s=symbol: _scalar_reader(s))
            self.emit(1, f"s{position} = {kind}(values[{symbol.name!r}])")
        inside = {loop.var for loop in self.chain} | {
            node.var for node in walk_nodes(self.body) if isinstance(node, Loop)
        }
        for name, variable in self.writer.variables.items():
            if name not in inside:  # a host loop's
                self.emit(1, f"{variable} = values[{name!r}]")

    def range(self, loop: Loop) -> str:
        ends = [self.bound(expr, loop.var) for expr in (loop.lower, loop.upper)]
        return f"range({ends[0]}, {ends[1]}, {loop.step})"

    def bound(self, expr: Expr, var: str) -> str:
        """A bound; one that is loaded must have been set."""
        text = self.writer.index(expr)
        return f"known({text}, {var!r})" if loads(expr) else text

    def emit_nodes(self, nodes: tuple[TreeNode, ...], depth: int) -> None:
        for node in nodes:
            self.emit_node(node, depth)
        if not nodes:
            self.emit(depth, "pass")

    def emit_node(self, node: TreeNode, depth: int) -> None:
        write = self.writer
        match node:
            case Loop():
                steps = self.range(node)
                if node.mapping in (Mapping.VECTOR, Mapping.STRADDLED):  # at once on a device: in any order here
                    steps = f"order(list({steps}))"
                self.emit(depth, f"for {write.variable(node.var)} in {steps}:")
                self.emit_nodes(node.body, depth + 1)
            case Guard():
                self.emit(depth, f"if {write.value(node.condition)}:")
                self.emit_nodes(node.then, depth + 1)
                if node.otherwise:
                    self.emit(depth, "else:")
                    self.emit_nodes(node.otherwise, depth + 1)
            case Compute(value=value, predicate=None | Const(value=True)):
                self.emit_store(node.target, write.value(value), (value,), depth)
            case Compute(value=value, predicate=predicate) if any(
                is_checked(part) for part in node.target.index
            ):
                assert predicate is not None
                self.emit(depth, f"if {write.value(predicate)}:")
                self.emit_store(node.target, write.value(value), (value,), depth + 1)
            case Compute(value=value, predicate=predicate):
                assert predicate is not None
                old = write.value(node.target)
                text = f"{write.value(value)} if {write.value(predicate)} else {old}"
                self.emit_store(node.target, text, (value, predicate), depth)
            case Copy(value=value):
                self.emit_store(node.target, write.value(value), (value,), depth)
            case Prefetch() | Arrive():  # a late copy comes at once
                self.emit(depth, "pass")
            case Fold(op=op, value=value):
                operation = write.operation(FOLD_BINARY[op], value.dtype)
                text = f"{operation}({write.value(node.target)}, {write.value(value)})"
                self.emit_store(node.target, text, (value,), depth)
            case Combine() | Scan():
                self.emit_combine(node, depth)
            case Barrier(scope=scope):
                self.emit_wait(scope, "'barrier'", depth)
            case Raise() | Await():
                kind = "raise" if isinstance(node, Raise) else "await"
                if kind == "raise":
                    self.written.add(node.flag.array)
                cell = f"({self.name(self.buffers[node.flag.array])}, {self.offset(node.flag)})"
                detail = f"({cell}, {write.index(node.value)})"
                self.emit_wait("block", f"{kind!r}, {detail}", depth)
            case Ticket():
                self.written.add(node.counter.array)
                cell = f"({self.name(self.buffers[node.counter.array])}, {self.offset(node.counter)})"
                detail = f"({cell}, {write.index(node.count)})"
                self.emit_wait("block", f"'ticket', {detail}", depth, "last = ")
                self.emit(depth, "if last:")
                self.emit_nodes(node.body, depth + 1)
            case Running() | Rescale():
                raise AssertionError("running reductions are numbers here")

    def emit_wait(self, scope: str, rest: str, depth: int, target: str = "") -> None:
        self.emit(depth, f"{target}yield Wait({scope!r}, {next(self.nodes)}, {rest})")

    def emit_store(self, target: Load, value: str, exprs: tuple[Expr, ...], depth: int) -> None:
        self.written.add(target.array)
        cells = self.name(self.buffers[target.array])
        if any(is_checked(part) for part in target.index):
            self.emit(depth, f"value = {value}")
            place = self.checked_offset(target, writes=True)
            self.emit(depth, f"write({cells}, {place}, value)")
            return
        place = f"{cells}[{self.offset(target)}]"
        if not any(self.crosses_lanes(load) for expr in exprs for load in loads(expr)):
            self.emit(depth, f"{place} = {value}")
            return
        # A shuffle: the whole warp reads before any lane goes on to write.
        self.emit_wait("warp", "'shuffle'", depth)
        self.emit(depth, f"shuffled = {value}")
        self.emit_wait("warp", "'shuffle'", depth)
        self.emit(depth, f"{place} = shuffled")

    def crosses_lanes(self, load: Load) -> bool:
        """Is the Load a read of another lane's columns?"""
        buffer = self.buffers[load.array]
        if self.scope(buffer) != "warp" or self.lane is None:
            return False
        strip = strip_of(buffer.home)
        assert strip is not None
        return not owns_lane(strip, load, self.lane, self.ranges)

    def emit_combine(self, node: Combine | Scan, depth: int) -> None:
        buffer = self.buffers[node.buffer]
        dtype = buffer.dtype
        inner = [loop for loop in self.chain if loop.mapping in (Mapping.CLUSTER, *_INNER)]
        position, count = "0", 1
        for var in node.over:
            loop = next((loop for loop in inner if loop.var == var), None)
            if loop is None:
                continue  # over blocks
            size = constant_value(loop.upper) or 0
            position = f"({position}) * {size} + {self.writer.variable(var)}"
            count *= size
        rest = "".join(
            f"{self.writer.variable(loop.var)}, " for loop in inner if loop.var not in node.over
        )
        scalar = semantics.scalar_type(dtype)
        place = self.writer.index(node.index[0]) if isinstance(node, Scan) and node.index else "0"
        cell, undefined = f"{self.name(buffer)}[{place}]", self.writer.bind(("poison", dtype), lambda: poison(dtype))
        if node.op == LINEAR:
            operation = self.writer.bind(("maps", dtype), lambda: maps_in_order(dtype))
            neutral = self.writer.bind(("neutral", node.op, dtype), lambda: (scalar(0), scalar(1)))
            cell = f"{cell}, {self.name(self.buffers[buffer.factors])}[{place}]"
            undefined = f"{undefined}, {undefined}"
        else:
            operation = self.writer.operation(FOLD_BINARY[node.op], dtype)
            neutral = self.writer.bind(
                ("neutral", node.op, dtype), lambda: scalar(semantics.neutral(node.op, dtype))
            )
        if _is_over_blocks(node):
            parts = constant_value(buffer.extents[0]) if buffer.extents else 1
            part = f"{place}, {parts}"
            self.emit_chain(node, position, count, operation, neutral, cell, part, depth)
            return
        everywhere = isinstance(node, Scan) or node.everywhere
        detail = f"(({rest}), {position}, {count}, {operation}, {neutral}, ({cell}), {everywhere})"
        mappings = {loop.mapping for loop in inner if loop.var in node.over}
        scope = "warp" if mappings == {Mapping.LANE} else "cluster" if Mapping.CLUSTER in mappings else "block"
        kind = "scan" if isinstance(node, Scan) else "append" if node.op == LINEAR else "combine"
        self.emit_wait(scope, f"{kind!r}, {detail}", depth, "combined = ")
        self.emit(depth, f"{cell} = combined[0] if combined else ({undefined})")


    def emit_chain(self, node: Combine | Scan, position: str, count: int, operation: str, neutral: str, cell: str, part: str, depth: int) -> None:
        """A Scan over blocks, which find in a dict what those before them have made."""
        grid = [self.writer.variable(loop.var) for loop in self.chain if loop.mapping is Mapping.GRID]
        row = f"({''.join(f'{var}, ' for var in grid[:-1])})"
        number = next(self.nodes)
        self.chains.append(f"chain{number} = defaultdict(dict)")
        detail = f"({position}, {count}, {operation}, {neutral}, ({cell}), {grid[-1]}, chain{number}[{row}], {node.op == LINEAR}, {part})"
        self.emit_wait("block", f"'chain', {detail}", depth, "combined = ")
        self.emit(depth, f"{cell} = combined[0]")


def _is_over_blocks(node: TreeNode) -> bool:
    return isinstance(node, Scan) and bool(node.words)


def _scalar_reader(symbol: Symbol) -> Any:
    return semantics.scalar_type(symbol.dtype)


def _run_plain(
    prepare: Any, storage: dict[str, list[Any]], values: dict[str, Any], order: Order
) -> None:
    chain, thread = prepare(storage, values, order)
    for at in order(list(chain())):
        thread(*at)


def _run_waiting(
    prepare: Any,
    chain_loops: tuple[Loop, ...],
    makers: list[tuple[str, tuple[Any, int]]],
    together: bool,
    storage: dict[str, list[Any]],
    values: dict[str, Any],
    order: Order,
) -> None:
    chain, thread = prepare(storage, values, order)
    mappings = [loop.mapping for loop in chain_loops]
    # The chain goes from grid to lane, so each group of threads shares a prefix of the variables.
    outside = [Mapping.GRID, Mapping.THREAD]
    grid = sum(mapping in outside for mapping in mappings)
    block = grid + mappings.count(Mapping.CLUSTER)
    has_lanes = Mapping.LANE in mappings
    warp = len(mappings) - has_lanes
    clusters: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for at in chain():
        clusters.setdefault(at[:grid], []).append(at)

    def cluster(name: tuple[int, ...]) -> Cluster:
        copies: dict[Any, list[Any]] = {}
        threads: list[Thread] = []
        in_block: dict[Any, int] = {}
        for at in clusters[name]:
            here = at[:block]
            number = in_block.get(here, 0)
            in_block[here] = number + 1
            team = at[:warp] if has_lanes else (*here, number // LANES)
            shared: list[list[Any]] = []
            if makers:
                owners = {"warp": team, "block": here, "cluster": name}
                for position, (scope, (first, count)) in enumerate(makers):
                    owner = (position, owners[scope])
                    shared.append(copies.setdefault(owner, [first] * count))
            threads.append(Thread(thread(*at, *shared), team, here))
        return Cluster(threads, order)

    run_clusters((cluster(name) for name in order(list(clusters))), together)
