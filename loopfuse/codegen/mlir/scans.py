"""Scans: what stands before each thread of a block, or of all blocks along a loop of the grid.

In the grid blocks hand on what they have, in words of 64 bits of which 32 say in which run of the launch they were written: so a value
and whether it is there come by one load, and no order between two accesses is asked for.

    number = words[0]++                         who is waited for has started
    total = what the block makes                in threads' order
    words[number] = total
    thread t: wait for words[t of its CHAIN]    those before the block
    first thread: wait for the CHAIN before     the last block of a CHAIN hands it on
"""

from __future__ import annotations

from collections.abc import Sequence

from loopfuse.base.dtypes import DType
from loopfuse.base.machine import LANES
from loopfuse.codegen.abi import not_lowered
from loopfuse.codegen.build import I16, I32, I64, INDEX, STORAGE, VALUE
from loopfuse.codegen.ir import GLOBAL_POINTER, Operation, Value
from loopfuse.codegen.mlir.emit import Emitter
from loopfuse.codegen.mlir.gpu import (
    Parts,
    across_groups,
    as_stored,
    both,
    by_first_thread,
    change_register,
    change_registers,
    emit_barrier,
    from_stored,
    groups_values,
    neutrals,
    number_of,
    reduce_group,
    repeat,
    select_parts,
    shuffled_parts,
    team_of,
)
from loopfuse.tree import chains
from loopfuse.tree.chains import parts_of, row_of
from loopfuse.tree.looptree import LINEAR

WORD = 8
"""Bytes."""


def emit_scan(emitter: Emitter, op: str, name: str, over: tuple[str, ...]) -> None:
    """Scan within a block, in the order its docstring gives."""
    if not emitter.gpu:
        raise not_lowered("a Scan on the CPU")
    count, place = team_of(emitter, "Scan", over)
    builder, thread = emitter.builder, emitter.thread
    assert thread is not None
    lane = builder.binary("andi", thread, builder.constant(LANES - 1, I32))

    def scanned(value: Parts, dtype: DType) -> Parts:
        whole = _scan_group(emitter, op, value, dtype, lane)
        own = _lane_before(emitter, op, whole, dtype, lane)
        if count == LANES:
            return both(emitter, op, neutrals(emitter, op, own, dtype), own, dtype)
        groups, first, _ = groups_values(emitter, op, whole, dtype, place, count, LANES - 1)
        above = _lane_before(emitter, op, _scan_group(emitter, op, groups, dtype, lane), dtype, lane)
        warp = builder.binary("shrui", thread, builder.constant(5, I32))
        others = shuffled_parts(emitter, "idx", above, builder.binary("subi", warp, first), dtype)
        return both(emitter, op, others, own, dtype)

    change_register(emitter, name, scanned)


def emit_grid_scan(emitter: Emitter, op: str, name: str, words: str) -> None:
    """Scan over blocks, of all elements of the buffer; the same."""
    builder, thread = emitter.builder, emitter.thread
    assert thread is not None
    lane = builder.binary("andi", thread, builder.constant(LANES - 1, I32))
    warp = builder.binary("shrui", thread, builder.constant(5, I32))
    last = builder.constant(emitter.threads // LANES - 1, I32)

    def scanned(values: Sequence[Parts], dtype: DType) -> list[Parts]:
        whole = [_scan_group(emitter, op, each, dtype, lane) for each in values]
        groups = _last_of_warps(emitter, op, whole, dtype, lane, warp)
        through = [_scan_group(emitter, op, each, dtype, lane, emitter.threads // LANES) for each in groups]
        totals = [shuffled_parts(emitter, "idx", each, last, dtype) for each in through]
        made = [totals[0]]  # by all parts up to each
        for each in totals[1:]:
            made.append(both(emitter, op, made[-1], each, dtype))
        inside: list[Parts] = []
        for k, each in enumerate(whole):
            own = _lane_before(emitter, op, each, dtype, lane)
            above = _lane_before(emitter, op, through[k], dtype, lane)
            own = both(emitter, op, shuffled_parts(emitter, "idx", above, warp, dtype), own, dtype)
            inside.append(both(emitter, op, made[k - 1], own, dtype) if k else own)
        before = _before_block(emitter, op, made[-1], dtype, words)
        return [both(emitter, op, before, each, dtype) for each in inside]

    change_registers(emitter, name, scanned)


def _lane_before(emitter: Emitter, op: str, value: Parts, dtype: DType, lane: Value) -> Parts:
    """What the lane before has; the first has the neutral element."""
    other = shuffled_parts(emitter, "up", value, emitter.builder.constant(1, I32), dtype)
    is_first = emitter.builder.compare("eq", lane, emitter.builder.constant(0, I32))
    return select_parts(emitter, is_first, neutrals(emitter, op, other, dtype), other)


def _last_of_warps(
    emitter: Emitter, op: str, values: Sequence[Parts], dtype: DType, lane: Value, warp: Value
) -> list[Parts]:
    """Of each value what the last lane of each of the block's warps has, through shared memory: a lane has a warp's."""
    builder, width = emitter.builder, len(values[0])
    warps = emitter.threads // LANES
    scratch = emitter.request_shared(dtype, LANES * len(values) * width)

    def place(number: int, of: Value) -> Value:
        return builder.convert("index_cast", builder.binary("addi", of, builder.constant(number * LANES, I32)), INDEX)

    def write() -> None:
        for number, part in enumerate(part for value in values for part in value):
            builder.store(as_stored(emitter, part, dtype), scratch, place(number, warp))

    emit_barrier(emitter, "block")
    builder.branch(builder.compare("eq", lane, builder.constant(LANES - 1, I32)), write)
    emit_barrier(emitter, "block")
    source = builder.binary("minui", lane, builder.constant(warps - 1, I32))
    inside = builder.compare("ult", lane, builder.constant(warps, I32))
    out: list[Parts] = []
    for number in range(len(values)):
        parts = tuple(from_stored(emitter, builder.load(scratch, place(number * width + k, source)), dtype) for k in range(width))
        out.append(select_parts(emitter, inside, parts, neutrals(emitter, op, parts, dtype)))
    return out


def _scan_group(emitter: Emitter, op: str, value: Parts, dtype: DType, lane: Value, count: int = LANES) -> Parts:
    """The steps over a group of 32 of Scan's docstring: what a lane and those before it make. Only of the first `count` lanes is it
    asked, whom the others' come too late for."""
    builder = emitter.builder
    for distance in (1, 2, 4, 8, 16):
        if distance >= count:
            break
        offset = builder.constant(distance, I32)
        other = shuffled_parts(emitter, "up", value, offset, dtype)
        together = both(emitter, op, other, value, dtype)
        value = select_parts(emitter, builder.compare("uge", lane, offset), together, value)
    return value


# ------------------------------------------------------------------------------ between blocks


def draw_number(emitter: Emitter, words: str, extents: Sequence[Value]) -> Value:
    """The block's number, in the order in which blocks start, of a grid of that many along its loops; where a block is all of
    its row, its number as it is."""
    builder = emitter.builder
    drawn = emitter.request_shared(DType.I64, 2)
    first, second = (builder.constant(number, INDEX) for number in (0, 1))
    zero, one = (builder.constant(number, I64) for number in (0, 1))

    def ticket() -> None:
        count = one
        for each in extents:
            count = builder.binary("muli", count, emitter.fit(each, I64))
        operands = (one, emitter.storage[words].memref, first)
        ticket = builder.add(Operation("memref.atomic_rmw", operands, (I64,), {"kind": "addi", "relaxed": "device"}))
        run = builder.binary("divui", ticket, count)
        builder.store(builder.binary("subi", ticket, builder.binary("muli", run, count)), drawn, first)
        builder.store(builder.binary("addi", run, one), drawn, second)

    def as_it_is() -> None:
        block = builder.add(Operation("gpu.block_id", (), (INDEX,)))
        builder.store(builder.convert("index_cast", block, I64), drawn, first)
        builder.store(zero, drawn, second)

    def draw() -> None:
        builder.branch(builder.compare("sgt", emitter.fit(extents[-1], I64), one), ticket, as_it_is)

    by_first_thread(emitter, draw)
    emit_barrier(emitter, "block")
    emitter.run = builder.load(drawn, second)
    emitter.drawn = emitter.fit(builder.load(drawn, first), emitter.index_type)
    return emitter.drawn


def _before_block(emitter: Emitter, op: str, total: Parts, dtype: DType, words: str) -> Parts:
    """What all blocks before this one make, which makes `total`."""
    builder, thread = emitter.builder, emitter.thread
    assert thread is not None
    row = _Row(emitter, op, dtype, words)
    number = emitter.fit(emitter.variables[row.loop.var], I32)
    size = builder.constant(chains.CHAIN, I32)
    chain = builder.binary("divui", number, size)
    place = builder.binary("subi", number, builder.binary("muli", chain, size))
    before = number_of(emitter, row.loop.upper - 1)
    others_follow = builder.compare("slt", number, before)
    scratch = emitter.request_shared(dtype, LANES * len(total))

    def publish() -> None:
        builder.branch(others_follow, lambda: row.write(number, total))

    by_first_thread(emitter, publish)
    first = builder.binary("subi", number, place)
    looks = builder.compare("ult", thread, place)
    found = row.read_where(looks, builder.binary("addi", first, thread))
    found = reduce_group(emitter, op, found, dtype, thread, emitter.threads)
    found = across_groups(emitter, op, found, dtype, thread, emitter.threads)
    emit_barrier(emitter, "block")

    def pass_on() -> None:
        has_chain = builder.compare("ne", chain, builder.constant(0, I32))
        one = builder.constant(1, I32)
        start = row.read_where(has_chain, builder.binary("subi", builder.binary("addi", before, chain), one))
        is_last = builder.compare("eq", place, builder.constant(chains.CHAIN - 1, I32))
        ends = builder.binary("andi", is_last, others_follow)
        # (What the last hands on comes first: the blocks of the next wait for it.)
        own = both(emitter, op, found, total, dtype)
        slot = builder.binary("addi", before, chain)
        builder.branch(ends, lambda: row.write(slot, both(emitter, op, start, own, dtype)))
        for part, each in enumerate(both(emitter, op, start, found, dtype)):
            builder.store(as_stored(emitter, each, dtype), scratch, builder.constant(part * LANES, INDEX))

    by_first_thread(emitter, pass_on)
    emit_barrier(emitter, "block")
    places = (builder.constant(part * LANES, INDEX) for part in range(len(total)))
    return tuple(from_stored(emitter, builder.load(scratch, each), dtype) for each in places)


class _Row:
    """The words of the blocks along the last loop of the grid, at this block's places of the others."""

    def __init__(self, emitter: Emitter, op: str, dtype: DType, words: str) -> None:
        self.emitter, self.op, self.dtype = emitter, op, dtype
        self.loop, builder = emitter.grid[-1], emitter.builder
        assert emitter.drawn is not None
        before = emitter.fit(emitter.variables[self.loop.var], emitter.index_type)
        row = builder.binary("subi", emitter.drawn, before)  # the number of its first block
        if len(emitter.grid) > 1:
            row = builder.binary("divui", row, emitter.fit(number_of(emitter, self.loop.upper), emitter.index_type))
        else:
            row = builder.constant(0, emitter.index_type)
        size = emitter.fit(number_of(emitter, row_of(op, dtype, self.loop.upper)), emitter.index_type)
        place = builder.binary("addi", builder.binary("muli", row, size), builder.constant(1, emitter.index_type))
        start = builder.convert("index_cast", builder.address(emitter.storage[words].memref), I64)
        self.start = builder.binary("addi", start, self._bytes(emitter.fit(place, I64)))

    def _bytes(self, words: Value) -> Value:
        return self.emitter.builder.binary("muli", words, self.emitter.builder.constant(WORD, I64))

    def _pointers(self, slot: Value) -> list[Value]:
        """To the words of a slot (I32)."""
        builder, parts = self.emitter.builder, parts_of(self.op, self.dtype)
        words = builder.binary("muli", builder.convert("extui", slot, I64), builder.constant(parts, I64))
        first = builder.binary("addi", self.start, self._bytes(words))
        places = [first, *(builder.binary("addi", first, builder.constant(WORD * k, I64)) for k in range(1, parts))]
        return [builder.add(Operation("llvm.inttoptr", (each,), (GLOBAL_POINTER,))) for each in places]

    def write(self, slot: Value, value: Parts) -> None:
        """Hand a value on."""
        builder = self.emitter.builder
        assert self.emitter.run is not None
        mark = builder.binary("shli", self.emitter.run, builder.constant(32, I64))
        bits = [half for part in value for half in _halves(self.emitter, part, self.dtype)]
        for half, pointer in zip(bits, self._pointers(slot), strict=True):
            word = builder.binary("ori", mark, builder.convert("extui", half, I64))
            builder.block.add(Operation("llvm.store", (word, pointer), (), {"relaxed": True}))

    def read_where(self, condition: Value, slot: Value) -> Parts:
        """What lies there once it has been handed on; elsewhere the neutral element."""
        emitter, builder = self.emitter, self.emitter.builder
        assert emitter.run is not None
        run = builder.convert("trunci", emitter.run, I32)
        words = [builder.alloca(I64, 1) for _ in range(parts_of(self.op, self.dtype))]
        zero = builder.constant(0, INDEX)
        for each in words:
            builder.store(builder.constant(0, I64), each, zero)

        def wait() -> None:
            pointers = self._pointers(slot)

            def ask() -> None:
                again: Value | None = None
                for each, pointer in zip(words, pointers, strict=True):
                    word = builder.add(Operation("llvm.load", (pointer,), (I64,), {"relaxed": True}))
                    builder.store(word, each, zero)
                    mark = builder.convert("trunci", builder.binary("shrui", word, builder.constant(32, I64)), I32)
                    is_other = builder.compare("ne", mark, run)
                    again = is_other if again is None else builder.binary("ori", again, is_other)
                builder.block.add(Operation("scf.condition", (again,) if again is not None else ()))

            repeat(emitter, ask)

        def inside() -> None:
            with emitter.scope():
                wait()

        builder.branch(condition, inside)
        halves = [builder.convert("trunci", builder.load(each, zero), I32) for each in words]
        size = len(halves) // (2 if self.op == LINEAR else 1)
        found = tuple(_joined(emitter, halves[k : k + size], self.dtype) for k in range(0, len(halves), size))
        return select_parts(emitter, condition, found, neutrals(emitter, self.op, found, self.dtype))


def _halves(emitter: Emitter, value: Value, dtype: DType) -> list[Value]:
    """The bits of a value, 32 at a time, the low ones first."""
    builder = emitter.builder
    if dtype.is_float:
        value = builder.convert("bitcast", value, {16: I16, 32: I32, 64: I64}[dtype.bits])
    if dtype.bits < 32:
        return [builder.convert("extui", value, I32)]
    if dtype.bits == 32:
        return [value]
    high = builder.binary("shrui", value, builder.constant(32, I64))
    return [builder.convert("trunci", each, I32) for each in (value, high)]


def _joined(emitter: Emitter, halves: Sequence[Value], dtype: DType) -> Value:
    """The value of those bits."""
    builder = emitter.builder
    bits = halves[0]
    if dtype is DType.BOOL:
        return builder.compare("ne", bits, builder.constant(0, I32))
    if dtype.bits < 32:
        bits = builder.convert("trunci", bits, I16 if dtype.is_float else STORAGE[dtype])
    if dtype.bits == 64:
        high = builder.binary("shli", builder.convert("extui", halves[1], I64), builder.constant(32, I64))
        bits = builder.binary("ori", high, builder.convert("extui", bits, I64))
    return builder.convert("bitcast", bits, VALUE[dtype]) if dtype.is_float else bits
