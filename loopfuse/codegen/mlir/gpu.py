"""What the threads of a block, or of a cluster of blocks, do together: combine, wait, take tickets, raise flags. (Scans
are `mlir_scans`.)"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from loopfuse.base.dtypes import DType
from loopfuse.base.machine import LANES
from loopfuse.codegen.abi import broken, not_lowered, walk_nodes
from loopfuse.codegen.build import I32, I64, INDEX, STORAGE
from loopfuse.codegen.ir import Block, Operation, Value, bytes_of
from loopfuse.codegen.mlir.emit import Emitter
from loopfuse.codegen.mlir.expr import emit_binary
from loopfuse.codegen.mlir.index import linear
from loopfuse.codegen.mlir.shuffle import shuffled
from loopfuse.lang import nodes
from loopfuse.tree.looptree import LINEAR, Barrier, Combine, Guard, Shared, TreeNode

Parts = tuple[Value, ...]
"""What a thread holds: one number; of a linear map `x -> f * x + v` two, v and f."""


def neutral(op: str, dtype: DType) -> float | int:
    """The value that `op` (add mul min max and or) leaves every other value as it is with, or
    turns only -0.0 into 0.0."""
    match op:
        case "add":
            return 0.0 if dtype.is_float else 0
        case "mul":
            return 1.0 if dtype.is_float else 1
        case "and":
            return 1 if dtype is DType.BOOL else -1
        case "or":
            return 0
        case "min" | "max":
            if dtype.is_float:
                return float("inf") if op == "min" else float("-inf")
            low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
            high = (1 << (dtype.bits - dtype.is_signed)) - 1
            return high if op == "min" else low
        case _:
            raise broken(f"no reduction `{op}`")


def neutrals(emitter: Emitter, op: str, like: Parts, dtype: DType) -> Parts:
    ops = ("add", "mul") if op == LINEAR else (op,)
    return tuple(
        emitter.builder.constant(neutral(each, dtype), part.type) for each, part in zip(ops, like, strict=True)
    )


def both(emitter: Emitter, op: str, first: Parts, then: Parts, dtype: DType) -> Parts:
    """One and the other; of linear maps, one after the other."""
    if op != LINEAR:
        return (emit_binary(emitter, op, first[0], then[0], dtype),)
    (value, factor), (added, by) = first, then
    builder, held = emitter.builder, by
    if dtype.is_float:
        zero, one = (builder.constant(number, value.type) for number in (0.0, 1.0))
        apart = builder.binary("subf", value, value)
        is_lost = builder.binary("andi", builder.compare("oeq", by, zero), builder.compare("uno", apart, apart))
        held = builder.select(is_lost, emit_binary(emitter, "copysign", one, by, dtype), by)
    made = emit_binary(emitter, "add", emit_binary(emitter, "mul", held, value, dtype), added, dtype)
    if dtype.is_float:
        made = builder.select(builder.compare("oeq", value, builder.constant(0.0, value.type)), added, made)
    return made, emit_binary(emitter, "mul", by, factor, dtype)


def shuffled_parts(emitter: Emitter, how: str, parts: Parts, lane: Value, dtype: DType) -> Parts:
    return tuple(shuffled(emitter, how, part, lane, dtype) for part in parts)


def select_parts(emitter: Emitter, condition: Value, then: Parts, otherwise: Parts) -> Parts:
    return tuple(emitter.builder.select(condition, *each) for each in zip(then, otherwise, strict=True))


def emit_barrier(emitter: Emitter, scope: str) -> None:
    """`gpu.barrier`; nothing on the CPU, where a worker is alone."""
    if not emitter.gpu:
        return
    match scope:
        case "block":
            emitter.builder.block.add(Operation("gpu.barrier"))
        case "warp":
            mask = emitter.builder.constant(-1, I32)
            words = {"intrin": "llvm.nvvm.bar.warp.sync"}
            emitter.builder.block.add(Operation("llvm.call_intrinsic", (mask,), properties=words))
        case "cluster" if emitter.blocks > 1:
            _in_cluster(emitter, "arrive")
            _in_cluster(emitter, "wait")
        case "cluster":
            emit_barrier(emitter, "block")
        case _:
            raise not_lowered(f"a barrier of a {scope}")


def reduce_group(
    emitter: Emitter, op: str, value: Parts, dtype: DType, place: Value, count: int
) -> Parts:
    """The tree over a group of 32 of Combine's docstring; `place` is the thread's number, and
    threads from `count` on count as neutral. Only the first thread's result has meaning. Of an
    equal part of a warp the first steps meet neutral elements alone, and the others none."""
    builder = emitter.builder
    is_part = LANES % count == 0
    for distance in (1, 2, 4, 8, 16) if op == LINEAR else (16, 8, 4, 2, 1):
        if is_part and distance >= count:
            continue
        offset = builder.constant(distance, I32)
        other = shuffled_parts(emitter, "down", value, offset, dtype)
        if count % LANES and not is_part:
            inside = builder.compare(
                "slt", builder.binary("addi", place, offset), builder.constant(count, I32)
            )
            other = select_parts(emitter, inside, other, neutrals(emitter, op, value, dtype))
        value = both(emitter, op, value, other, dtype)
    return value


def team_of(emitter: Emitter, what: str, over: tuple[str, ...]) -> tuple[int, Value]:
    """How many threads do something together, over the loops `over`, and the thread's number among them."""
    chain = emitter.block_variables
    if tuple(each[0] for each in chain[len(chain) - len(over) :]) != over:
        raise not_lowered(f"a {what} over {', '.join(over)}, which are not the innermost loops")
    count = 1
    for _, extent in chain[len(chain) - len(over) :]:
        count *= extent
    whole = count == emitter.threads
    if not whole and count % LANES and LANES % count:
        raise not_lowered(f"a {what} of {count} out of {emitter.threads} threads")
    builder, thread = emitter.builder, emitter.thread
    assert thread is not None
    return count, thread if whole else builder.binary("remui", thread, builder.constant(count, I32))


def emit_combine(
    emitter: Emitter, op: str, name: str, over: tuple[str, ...], everywhere: bool = False
) -> None:
    """Combine, in the order its docstring gives; on the CPU there is nobody to combine with."""
    if not emitter.gpu or not over:
        return
    columns = _columns_beside(emitter, over)
    if columns > 1:
        _combine_columns(emitter, op, name, over, columns)
        return
    of_cluster = over == (*emitter.cluster_variables, *(each[0] for each in emitter.block_variables))
    count, place = team_of(emitter, "Combine", over[len(emitter.cluster_variables) :] if of_cluster else over)
    builder = emitter.builder
    thread = emitter.thread
    assert thread is not None

    def combined(value: Parts, dtype: DType) -> Parts:
        value = reduce_group(emitter, op, value, dtype, place, count)
        if of_cluster and emitter.blocks > 1:
            value = (_across_cluster(emitter, op, value[0], dtype),)
        elif count > LANES:
            value = across_groups(emitter, op, value, dtype, place, count)
        elif op == "add" and dtype.is_float:
            # The second stage adds neutral elements only, which turn -0.0 into 0.0.
            value = (builder.binary("addf", value[0], builder.constant(0.0, value[0].type)),)
        if everywhere:  # every warp has the result in its first lane, or each part of one in its own first
            first = builder.constant(0, I32)
            if count < LANES:
                lane = builder.binary("andi", thread, builder.constant(LANES - 1, I32))
                first = builder.binary("subi", lane, place)
            value = shuffled_parts(emitter, "idx", value, first, dtype)
        return value

    change_register(emitter, name, combined)


def _columns_beside(emitter: Emitter, over: tuple[str, ...]) -> int:
    """How many neighbours each do what the outer threads of a block do together over the loops `over`; 1 where these are
    not outer loops."""
    chain = emitter.block_variables
    own = [each for each in chain if each[0] in over]
    return prod(count for _, count in chain[len(own) :]) if own == [*chain[: len(own)]] else 1


def _combine_columns(emitter: Emitter, op: str, name: str, over: tuple[str, ...], columns: int) -> None:
    """Combine where neighbouring threads each have a column, and those `columns` apart share one: through shared memory
    each column comes to neighbours, who do what Combine's docstring says, and their result goes to all of it."""
    builder, thread = emitter.builder, emitter.thread
    assert thread is not None
    count = emitter.threads // columns
    of_cluster = emitter.blocks > 1 and over[0] in emitter.cluster_variables
    if LANES % count or (of_cluster and count < LANES):
        raise not_lowered(f"a Combine of {count} threads of a column")

    def at(row: Value, column: Value) -> Value:
        # One more than columns apart, so that a column's elements are in different banks.
        return builder.binary("addi", builder.binary("muli", row, builder.constant(columns + 1, I32)), column)

    def split(by: int) -> tuple[Value, Value]:
        size = builder.constant(by, I32)
        return builder.binary("divui", thread, size), builder.binary("remui", thread, size)

    def store(shared: Value, place: Value, value: Value, dtype: DType) -> None:
        builder.store(as_stored(emitter, value, dtype), shared, builder.convert("index_cast", place, INDEX))

    def combined(parts: Parts, dtype: DType) -> Parts:
        (value,) = parts
        scratch = emitter.request_shared(dtype, (count + 1) * (columns + 1))
        (row, own), (column, turn) = split(columns), split(count)
        results = builder.constant(count, I32)
        emit_barrier(emitter, "block")
        store(scratch, at(row, own), value, dtype)
        emit_barrier(emitter, "block")
        value = _from_slot(emitter, op, scratch, at(turn, column), LANES, turn, dtype)
        (value,) = reduce_group(emitter, op, (value,), dtype, turn, count)
        if op == "add" and dtype.is_float:
            # The second stage adds neutral elements too, which turn -0.0 into 0.0.
            value = builder.binary("addf", value, builder.constant(0.0, value.type))
        if of_cluster:
            return (_columns_across_cluster(emitter, op, value, dtype, column, own, columns),)
        is_first = builder.compare("eq", turn, builder.constant(0, I32))
        builder.branch(is_first, lambda: store(scratch, at(results, column), value, dtype))
        emit_barrier(emitter, "block")
        return (_from_slot(emitter, op, scratch, at(results, own), LANES, turn, dtype),)

    change_register(emitter, name, combined)


def _columns_across_cluster(
    emitter: Emitter, op: str, value: Value, dtype: DType, column: Value, own: Value, columns: int
) -> Value:
    """The second stage in a cluster: what the first lane of each warp has, of a `column`, goes to the shared memory of
    every block, where each thread reads what all blocks have of its `own`."""
    builder, thread, rank = emitter.builder, emitter.thread, emitter.rank
    assert thread is not None and rank is not None
    slots = emitter.request_slots(dtype, emitter.blocks * columns)
    lane = builder.binary("andi", thread, builder.constant(LANES - 1, I32))

    def place_of(block: Value, column: Value) -> Value:
        return builder.binary("addi", builder.binary("muli", block, builder.constant(columns, I32)), column)

    _to_cluster(emitter, slots, place_of(rank, column), value, dtype, lane)
    found = [
        _from_slot(emitter, op, slots, place_of(builder.constant(block, I32), own), LANES, lane, dtype)
        for block in range(emitter.blocks)
    ]
    while len(found) > 1:
        half = len(found) // 2
        found = [
            emit_binary(emitter, op, one, other, dtype)
            for one, other in zip(found[:half], found[half:], strict=True)
        ]
    return found[0]


def change_register(emitter: Emitter, name: str, change: Callable[[Parts, DType], Parts]) -> None:
    """Each element of a register buffer changed."""
    for number in range(emitter.storage[name].memref.type.size):
        change_registers(emitter, name, lambda values, dtype: [change(values[0], dtype)], (number,))


def change_registers(
    emitter: Emitter, name: str, change: Callable[[Sequence[Parts], DType], Sequence[Parts]], numbers: Sequence[int] = ()
) -> None:
    """Elements of a register buffer changed together: those of these `numbers`, or all."""
    builder, storage = emitter.builder, emitter.storage[name]
    dtype, factors = storage.buffer.dtype, storage.buffer.factors
    memrefs = [storage.memref, *([emitter.storage[factors].memref] if factors else [])]
    places = [builder.constant(number, INDEX) for number in numbers or range(storage.memref.type.size)]
    values: list[Parts] = []
    for place in places:
        loaded = [builder.load(each, place) for each in memrefs]
        values.append(tuple(from_stored(emitter, each, dtype) for each in loaded))
    for place, parts in zip(places, change(values, dtype), strict=True):
        for value, memref in zip(parts, memrefs, strict=True):
            builder.store(as_stored(emitter, value, dtype), memref, place)


def as_stored(emitter: Emitter, value: Value, dtype: DType) -> Value:
    """The value as memory has it."""
    return emitter.builder.convert("extui", value, STORAGE[dtype]) if dtype is DType.BOOL else value


def from_stored(emitter: Emitter, stored: Value, dtype: DType) -> Value:
    """The value that lies in memory so."""
    builder = emitter.builder
    return builder.compare("ne", stored, builder.constant(0, stored.type)) if dtype is DType.BOOL else stored


def groups_values(
    emitter: Emitter, op: str, value: Parts, dtype: DType, place: Value, count: int, source_lane: int,
    is_open: bool = False,
) -> tuple[Parts, Value, Value]:
    """What lane `source_lane` of each of the team's warps has, through shared memory: each lane has a warp's, or
    the neutral element (anything, where it `is_open`); and the team's first warp, and the lane."""
    builder = emitter.builder
    groups = -(-count // LANES)
    thread = emitter.thread
    assert thread is not None
    shared = emitter.request_shared(dtype, LANES * len(value))
    emit_barrier(emitter, "block")
    five, low = builder.constant(5, I32), builder.constant(31, I32)
    lane = builder.binary("andi", thread, low)
    warp = builder.binary("shrui", thread, five)

    def at(slot: Value, number: int) -> Value:
        return builder.binary("addi", slot, builder.constant(number * LANES, I32)) if number else slot

    def write() -> None:
        for number, part in enumerate(value):
            stored = as_stored(emitter, part, dtype)
            builder.store(stored, shared, builder.convert("index_cast", at(warp, number), INDEX))

    builder.branch(builder.compare("eq", lane, builder.constant(source_lane, I32)), write)
    emit_barrier(emitter, "block")
    first = builder.binary(
        "subi", warp, builder.binary("shrui", place, five)
    )  # the first warp of these `count` threads
    source = builder.binary("addi", first, builder.binary("minui", lane, builder.constant(groups - 1, I32)))
    ops, slots = ("add", "mul") if op == LINEAR else (op,), LANES if is_open else groups
    found = (_from_slot(emitter, each, shared, at(source, n), slots, lane, dtype) for n, each in enumerate(ops))
    return tuple(found), first, lane


def _from_slot(
    emitter: Emitter, op: str, slots: Value, source: Value, count: int, lane: Value, dtype: DType
) -> Value:
    """What lies in a lane's slot `source`, of the first `count` lanes; the others have the neutral element."""
    builder = emitter.builder
    value = from_stored(emitter, builder.load(slots, builder.convert("index_cast", source, INDEX)), dtype)
    if count < LANES:
        inside = builder.compare("ult", lane, builder.constant(count, I32))
        value = builder.select(inside, value, builder.constant(neutral(op, dtype), value.type))
    return value


def across_groups(
    emitter: Emitter, op: str, value: Parts, dtype: DType, place: Value, count: int
) -> Parts:
    """The second stage: each warp's result through shared memory, then the same tree."""
    groups = count // LANES
    is_part = count % LANES == 0 and LANES % groups == 0 and op != LINEAR
    other, _, lane = groups_values(emitter, op, value, dtype, place, count, 0, is_part)
    if not is_part:
        return reduce_group(emitter, op, other, dtype, lane, LANES)
    if groups < LANES and op == "add" and dtype.is_float:  # so much of the steps that meet neutral elements alone
        other = (emitter.builder.binary("addf", other[0], emitter.builder.constant(0.0, other[0].type)),)
    return reduce_group(emitter, op, other, dtype, lane, groups)


# ------------------------------------------------------------------------------ in a cluster


def _in_cluster(emitter: Emitter, word: str) -> None:
    """`arrive`: what this thread has written is there for those of the cluster that `wait` until all have come."""
    words = {"intrin": f"llvm.nvvm.barrier.cluster.{word}.aligned"}
    emitter.builder.block.add(Operation("llvm.call_intrinsic", properties=words))


def is_exchange(emitter: Emitter, node: TreeNode) -> bool:
    """Do the blocks of a cluster wait for each other in a node?"""
    if isinstance(node, Barrier):
        return node.scope == "cluster" and emitter.blocks > 1
    return isinstance(node, Combine) and emitter.blocks > 1 and not {*emitter.cluster_variables}.isdisjoint(node.over)


def start_exchanges(emitter: Emitter) -> None:
    """The others may know that this block has started."""
    _in_cluster(emitter, "arrive")
    emitter.is_starting = True


def await_start(emitter: Emitter, node: TreeNode) -> None:
    """The other blocks of the cluster have started before the first node that writes to them. (A guard both of
    whose ways do leaves it to them.)"""
    ways = (node.then, node.otherwise) if isinstance(node, Guard) else ((node,),)
    needs = [any(is_exchange(emitter, each) for each in walk_nodes(way)) for way in ways]
    if any(needs) and not (isinstance(node, Guard) and all(needs)):
        _in_cluster(emitter, "wait")
        emitter.is_starting = False


def _across_cluster(emitter: Emitter, op: str, value: Value, dtype: DType) -> Value:
    """The second stage in a cluster: each warp's result goes to the shared memory of every block, where each warp
    reads all of them, in one order. Slots are this Combine's own: nothing waits until they have been read, but
    where a loop comes back to them. No block ends before what others write to it has come."""
    builder = emitter.builder
    thread, rank = emitter.thread, emitter.rank
    assert thread is not None and rank is not None
    groups = emitter.blocks * emitter.threads // LANES
    slots = emitter.request_slots(dtype, groups)
    # What says where in the row a thread is stays known; lane and group are read off it again.
    place = builder.binary("addi", builder.binary("muli", rank, builder.constant(emitter.threads, I32)), thread)
    lane = builder.binary("andi", place, builder.constant(LANES - 1, I32))
    group = builder.binary("shrui", place, builder.constant(5, I32))
    _to_cluster(emitter, slots, group, value, dtype, lane)
    total: Value | None = None
    for first in range(0, groups, LANES):
        here = min(LANES, groups - first)
        source = builder.binary("minui", lane, builder.constant(here - 1, I32)) if here < LANES else lane
        source = builder.binary("addi", source, builder.constant(first, I32))
        other = _from_slot(emitter, op, slots, source, here, lane, dtype)
        total = other if total is None else emit_binary(emitter, op, total, other, dtype)
    assert total is not None
    return reduce_group(emitter, op, (total,), dtype, lane, LANES)[0]


def _to_cluster(emitter: Emitter, slots: Value, slot: Value, value: Value, dtype: DType, lane: Value) -> None:
    """What the first lane of a warp has, into a slot of every block of the cluster; behind it all have come."""
    builder = emitter.builder
    result = shuffled(emitter, "idx", value, builder.constant(0, I32), dtype)
    if emitter.loops:
        emit_barrier(emitter, "cluster")

    def write() -> None:
        stored = as_stored(emitter, result, dtype)
        offset = builder.binary("muli", slot, builder.constant(bytes_of(STORAGE[dtype]), I32))
        place = builder.place_in_block(slots, builder.convert("extui", offset, I64), lane)
        builder.block.add(Operation("llvm.store", (stored, place)))

    builder.branch(builder.compare("ult", lane, builder.constant(emitter.blocks, I32)), write)
    emit_barrier(emitter, "cluster")


# ------------------------------------------------------------------------------ between blocks


def emit_atomic(emitter: Emitter, op: str, target: nodes.Load, value: Value) -> None:
    """`target = op(target, value)` in one step. What it orders is itself alone: barriers and launches order the rest."""
    storage, place = emitter.place(target.array, target.index)
    emitter.forget_loads()
    kind = "addi" if op == "add" else f"{op}{'s' if target.dtype.is_signed else 'u'}"
    scope = "block" if isinstance(storage.buffer.home, Shared) else "device"
    operands = (value, storage.memref, emitter.index(place))
    emitter.builder.block.add(
        Operation("memref.atomic_rmw", operands, (value.type,), {"kind": kind, "relaxed": scope})
    )


def atomic(emitter: Emitter, kind: str, value: Value, flag: nodes.Load) -> Value:
    """`memref.atomic_rmw` (acquire and release, device scope); the value before."""
    storage, place = emitter.place(flag.array, flag.index)
    return emitter.builder.add(
        Operation(
            "memref.atomic_rmw", (value, storage.memref, emitter.index(place)), (value.type,), {"kind": kind}
        )
    )


def by_first_thread(emitter: Emitter, body: Callable[[], None]) -> None:
    builder = emitter.builder
    thread = emitter.thread
    if thread is None:
        raise not_lowered("flags and tickets on the CPU")

    def inside() -> None:
        with emitter.scope():
            body()

    builder.branch(builder.compare("eq", thread, builder.constant(0, I32)), inside)


def number_of(emitter: Emitter, value: nodes.Expr) -> Value:
    form = linear(value, emitter.facts)
    return emitter.fit(emitter.form(form, *emitter.width(form)), I32)


def repeat(emitter: Emitter, test: Callable[[], None]) -> None:
    """`scf.while` of what says, in its `scf.condition`, whether it is to be done again."""
    builder = emitter.builder
    before = builder.into(Block(), test)
    after = builder.into(Block(), lambda: builder.block.add(Operation("scf.yield")))
    builder.block.add(Operation("scf.while", blocks=(before, after)))


def emit_raise(emitter: Emitter, flag: nodes.Load, value: nodes.Expr) -> None:
    """All of the block's writes, then the flag."""
    emit_barrier(emitter, "block")
    by_first_thread(
        emitter, lambda: [atomic(emitter, "assign", number_of(emitter, value), flag)].clear()
    )


def emit_await(emitter: Emitter, flag: nodes.Load, value: nodes.Expr) -> None:
    """One thread polls; the barrier lets the others go on."""
    builder = emitter.builder

    def poll() -> None:
        least = number_of(emitter, value)
        zero = builder.constant(0, I32)

        def test() -> None:
            with emitter.scope():
                now = atomic(emitter, "addi", zero, flag)
                again = builder.compare("slt", now, least)
                builder.block.add(Operation("scf.condition", (again,)))

        repeat(emitter, test)

    by_first_thread(emitter, poll)
    emit_barrier(emitter, "block")


def emit_ticket(
    emitter: Emitter, counter: nodes.Load, count: nodes.Expr, body: Callable[[], None]
) -> None:
    """The first thread draws a number for the block; the block that draws the last one goes on."""
    builder = emitter.builder
    shared = emitter.request_shared(DType.I32, 1)
    zero = builder.constant(0, INDEX)
    emit_barrier(emitter, "block")

    def draw() -> None:
        number = atomic(emitter, "addi", builder.constant(1, I32), counter)
        builder.store(number, shared, zero)

    by_first_thread(emitter, draw)
    emit_barrier(emitter, "block")
    drawn = builder.load(shared, zero)
    last = builder.binary("subi", number_of(emitter, count), builder.constant(1, I32))

    def finish() -> None:
        with emitter.scope():
            body()
            storage, place = emitter.place(counter.array, counter.index)
            reset = builder.constant(0, I32)

            def clear() -> None:
                builder.store(reset, storage.memref, emitter.index(place))

            by_first_thread(emitter, clear)

    builder.branch(builder.compare("eq", drawn, last), finish)
