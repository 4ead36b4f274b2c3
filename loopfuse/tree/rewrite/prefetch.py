"""Loads of a serial loop run ahead of what needs them, in shared memory or in registers.

    before:  serial t in 0..T: h[] = fma(a[t], h[], b[]);  y[t] = h[]
    after:   serial q in 0..T // 16 + 7:
               arrive, but for the last 6
               if q < T // 16: u in 0..16: late ring[q, u] = a[q * 16 + u]
               if q >= 7:
                 u in 0..16: now[u] = ring[q + 1, u]
                 u in 0..16: h[] = fma(now[u], h[], b[]);  y[(q - 7) * 16 + u] = h[]
             u in 0..15: if T // 16 * 16 + u < T: last[u] = a[T // 16 * 16 + u]
             u in 0..15: if T // 16 * 16 + u < T: h[] = fma(last[u], h[], b[]);  y[T // 16 * 16 + u] = h[]

Of a ring of 8 parts 7 are always under way; a thread's part of it is its own. What does not depend on others is done together
for the 16 iterations of a part. What an iteration reads of the one before it, `y[t - 1]`, stays in a register: behind a wait no
compiler knows that memory still holds it. Where elements have 2 bytes, a GPU has no late copies, or a thread computes too much
to be written out 16 times, and where rows do not begin with lines of memory, a chunk is under way in registers while the one before it is computed:

    before:  serial t in 0..T: h[] = fma(a[t], h[], b[]);  y[t] = h[]
    after:   serial q in 0..T // 32:
               if q == 0: u in 0..32: ahead[u] = a[u]
               u in 0..32: now[u] = ahead[u]
               if q + 1 < T // 32: u in 0..32: ahead[u] = a[(q + 1) * 32 + u]
               u in 0..32: h[] = fma(now[u], h[], b[]);  y[q * 32 + u] = h[]
             serial t in T // 32 * 32..T: h[] = fma(a[t], h[], b[]);  y[t] = h[]

Side condition: the launch writes nothing that runs ahead, and each iteration loads it whatever happens, at a place
that no data names. The checker sees the copies as it sees every other. What all threads of a warp load from one place
stays where it is: a cache has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from loopfuse.base.dtypes import DType
from loopfuse.base.machine import LANES, MULTIPROCESSOR, Machine
from loopfuse.lang.index import FALSE, TRUE, conjoin, negate
from loopfuse.lang.linear import constant_value, linear_form, tidy
from loopfuse.lang.nodes import (
    Compare,
    Const,
    Expr,
    Iter,
    Load,
    Select,
    Symbol,
    combine,
    compare,
    integer,
)
from loopfuse.lang.walk import (
    children,
    conjuncts,
    iterators,
    loads,
    map_expr,
    substitute,
    sure_loads,
)
from loopfuse.tree.looptree import (
    LATE_BYTES,
    Arrive,
    Buffer,
    Compute,
    Copy,
    Global,
    Guard,
    Loop,
    Register,
    Shared,
    TreeNode,
)
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import bodies, map_expressions, walk_nodes, with_new_loops

AHEAD = 64
"""Registers of 4 bytes for what is under way and for arrays of a thread's own, at most."""
LONGEST, SHORTEST = 32, 4
"""Iterations whose loads run ahead together."""
PART, PARTS = 16, 8
"""Iterations whose loads come together, and how many parts a ring has, at most."""
FEWEST_PARTS = 4
RING = 64 * 1024
"""Bytes of a block's rings, at most."""
MOST_WRITTEN = 512
"""Computations that they are written out as, at most."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a tree's names are: its buffers by name (those made here are added), new names, the buffers that the
    launch writes, and the loops that tell the threads of a block apart, neighbours the last, with how many iterations they have."""

    buffers: dict[str, Buffer]
    fresh: Callable[[str], str]
    written: frozenset[str]
    threads: Mapping[str, int]
    machine: Machine

    @property
    def thread(self) -> str:
        """The loop that tells neighbouring threads apart."""
        return list(self.threads)[-1]

    def register(self, load: Load, count: int, suffix: str = "ahead") -> str:
        """So many registers for what `load` loads."""
        name = self.fresh(f"{load.array}_{suffix}")
        self.buffers[name] = Buffer(name, self.buffers[load.array].array, load.dtype, (integer(count),), Register())
        return name

    def ring(self, load: Load, parts: int) -> str:
        """So many parts of PART elements for each thread of the block, in shared memory."""
        name = self.fresh(f"{load.array}_ring")
        extents = tuple(map(integer, (parts, PART, *self.threads.values())))
        self.buffers[name] = Buffer(name, self.buffers[load.array].array, load.dtype, extents, Shared(parts))
        return name

    def parts_of(self, wanted: Sequence[Load]) -> int:
        """How many parts a ring for these loads has; a power of two, 0 if too few fit beside what there is."""
        rings = [b for b in self.buffers.values() if isinstance(b.home, Shared)]
        held = sum(b.dtype.bytes * prod(constant_value(extent) or 1 for extent in b.extents) for b in rings)
        part = PART * sum(load.dtype.bytes for load in wanted) * prod(self.threads.values())
        most = min(RING, max(MULTIPROCESSOR.shared_declared, self.machine.shared_of_block))
        fitting = max(most - held, 0) // part
        parts = min(PARTS, 1 << fitting.bit_length() >> 1)
        return parts if parts >= FEWEST_PARTS else 0


def written_in(nodes: Sequence[TreeNode]) -> frozenset[str]:
    """The buffers that computations and copies write."""
    return frozenset(node.target.array for node in walk_nodes(tuple(nodes)) if isinstance(node, Compute | Copy))


def with_loads_ahead(nodes: Sequence[TreeNode], scope: Scope, is_inside: bool = False) -> tuple[TreeNode, ...]:
    """The nodes with loads ahead in those of their serial loops that store as they go; `is_inside`: of a loop's body."""
    out: list[TreeNode] = []
    for node in nodes:
        match node:
            case Loop(mapping=Where.SERIAL) if stores_as_it_goes(node, scope.buffers):
                out += ahead(node, scope, is_inside)
            case Loop(body=body):
                out.append(replace(node, body=with_loads_ahead(body, scope, is_inside=True)))
            case Guard(then=then, otherwise=otherwise):
                ways = with_loads_ahead(then, scope, is_inside), with_loads_ahead(otherwise, scope, is_inside)
                out.append(replace(node, then=ways[0], otherwise=ways[1]))
            case _:
                out.append(node)
    return tuple(out)


def stores_as_it_goes(loop: Loop, buffers: Mapping[str, Buffer]) -> bool:
    """Does each iteration store to memory, at a place of its own, whose neighbours are not the loop's?"""
    targets = [node.target for node in loop.body if isinstance(node, Compute)]
    return any(isinstance(buffers[t.array].home, Global) and goes_across(loop.var, t) for t in targets)


def goes_across(var: str, load: Load) -> bool:
    """Does the place move with the variable, but not to a neighbour in memory?"""
    *leading, last = [iterators(part) for part in load.index] or [frozenset[str]()]
    return any(var in names for names in leading) and var not in last


def ahead(loop: Loop, scope: Scope, is_inside: bool) -> tuple[TreeNode, ...]:
    """The loop with its loads ahead; as it is where there are none, or too many."""
    wanted = list(dict.fromkeys(_streamed(loop, scope)))
    if loop.step != 1 or not wanted or loads(loop.lower) or loads(loop.upper):
        return (loop,)
    if any(isinstance(node, Loop) and node.mapping is not Where.UNROLLED for node in walk_nodes(loop.body)):
        return (loop,)  # that takes longer than its loads
    whole = FALSE if is_inside else _whole_lines(wanted, scope)
    parts, carried = _parts(loop, wanted, scope), _carried(loop, scope)
    if not parts or carried is None or whole == FALSE:
        return _in_registers(loop, wanted, scope)
    late = _in_ring(*_with_carried(loop, carried, scope), wanted, parts, scope)
    return late if whole == TRUE else (Guard(whole, late, _in_registers(loop, wanted, scope)),)


def _whole_lines(wanted: Sequence[Load], scope: Scope) -> Expr:
    """Do the threads of a warp load whole lines of memory? That all rows begin where a line does. (Late copies of parts of lines
    are slower than loads.)"""
    whole: list[Expr] = []
    for load in wanted:
        last, extent = linear_form(load.index[-1]), scope.buffers[load.array].extents[-1]
        if last[0] % LANES:
            return FALSE
        whole.append(compare("eq", tidy(extent % LANES), integer(0)))
    return conjoin(*dict.fromkeys(map(_decided, whole)))


def _in_registers(loop: Loop, wanted: Sequence[Load], scope: Scope) -> tuple[TreeNode, ...]:
    """The loop in chunks whose loads are under way in registers; as it is where there are too many, or too few iterations."""
    registers = sum(_words(load.dtype) for load in wanted)
    free = AHEAD - _in_arrays(loop.body, scope)
    most = min(LONGEST, free // registers, MOST_WRITTEN // _computations(loop.body))
    count = 1 << max(most, 0).bit_length() >> 1
    trips = tidy(loop.upper - loop.lower)
    if count < SHORTEST or (isinstance(trips, Const) and trips.value < 2 * count):
        return (loop,)
    # `1..T` of no places at all has fewer than none.
    some = trips if isinstance(trips, Const | Symbol) else combine("max", integer(0), trips)
    chunk, chunks = scope.fresh(f"{loop.var}q"), tidy(some // count)

    def at(number: Expr, u: Expr) -> dict[str, Expr]:
        return {loop.var: tidy(loop.lower + number * count + u)}

    def written_out(body: Callable[[Expr], tuple[TreeNode, ...]]) -> Loop:
        return _written_out(count, scope, body)

    under_way = {load: scope.register(load, count) for load in wanted}
    come = {load: scope.register(load, count) for load in wanted}

    def asked(number: Expr) -> Loop:
        return written_out(
            lambda u: tuple(
                Copy(_cell(under_way, load, u), _moved(load, at(number, u))) for load in wanted
            )
        )

    def computed(u: Expr) -> tuple[TreeNode, ...]:
        return _computed(loop, come, u, at(Iter(chunk), u)[loop.var], scope)

    body = (
        Guard(compare("eq", Iter(chunk), integer(0)), (asked(integer(0)),)),
        written_out(lambda u: tuple(Copy(_cell(come, load, u), _cell(under_way, load, u)) for load in wanted)),
        Guard(Iter(chunk) + 1 < chunks, (asked(Iter(chunk) + 1),)),
        written_out(computed),
    )
    rest = tidy(loop.lower + chunks * count)
    return (
        Loop(chunk, integer(0), chunks, 1, Where.SERIAL, body),
        replace(loop, lower=rest),
    )


def _parts(loop: Loop, wanted: Sequence[Load], scope: Scope) -> int:
    """The parts of a ring for the loads; 0 where they do not come late. (Along a loop around it the ring would begin again.)"""
    trips = constant_value(tidy(loop.upper - loop.lower))
    if not scope.machine.copies_late or any(load.dtype.bytes not in LATE_BYTES for load in wanted):
        return 0
    if PART * _computations(loop.body) > MOST_WRITTEN or (trips is not None and trips < 2 * PART):
        return 0
    return scope.parts_of(wanted)


def _carried(loop: Loop, scope: Scope) -> dict[Load, Expr] | None:
    """What each iteration reads of what the one before it wrote, and under which condition on no data; None if it reads
    what the launch writes otherwise."""
    written = {node.target for node in loop.body if isinstance(node, Compute) and node.predicate is None}
    before = {_moved(target, {loop.var: Iter(loop.var) - 1}) for target in written if loop.var in iterators(target)}
    arrays = [node.target.array for node in walk_nodes(loop.body) if isinstance(node, Compute)]
    found: dict[Load, Expr] = {}
    for node in walk_nodes(loop.body):
        if not isinstance(node, Compute):
            continue
        for load, condition in _asked(node.value):
            if load.array not in scope.written or not isinstance(scope.buffers[load.array].home, Global):
                continue
            moved = _moved(load, {})
            is_alone = arrays.count(load.array) == 1 and found.get(moved, condition) == condition
            if moved not in before or not is_alone or loads(condition):
                return None
            found[moved] = condition
    return found


def _asked(expr: Expr, condition: Expr = TRUE) -> Iterator[tuple[Load, Expr]]:
    """The loads of an expression, and under which condition it does them."""
    match expr:
        case Select(condition=asked, then=then, otherwise=otherwise):
            yield from _asked(asked, condition)
            yield from _asked(then, conjoin(condition, asked))
            yield from _asked(otherwise, conjoin(condition, negate(asked)))
        case _:
            for child in children(expr):
                yield from _asked(child, condition)
            if isinstance(expr, Load):
                yield expr, condition


def _with_carried(loop: Loop, carried: Mapping[Load, Expr], scope: Scope) -> tuple[tuple[TreeNode, ...], Loop]:
    """What stands before the loop, and the loop, if such loads stay in registers."""
    first: list[TreeNode] = []
    places: dict[Load, Load] = {}
    start = {loop.var: loop.lower}
    for load, condition in carried.items():
        name = scope.fresh(f"{load.array}_before")
        scope.buffers[name] = Buffer(name, scope.buffers[load.array].array, load.dtype, (), Register())
        places[load] = Load(name, (), load.dtype, span=load.span)
        needed = conjoin(*map(_decided, conjuncts(tidy(substitute(condition, start)))))
        if needed != FALSE:
            first.append(Guard(conjoin(loop.lower < loop.upper, needed), (Copy(places[load], _moved(load, start)),)))
    after = {_moved(load, {loop.var: Iter(loop.var) + 1}): place for load, place in places.items()}

    def held(expr: Expr) -> Expr:
        return places.get(_moved(expr, {}), expr) if isinstance(expr, Load) else expr

    body: list[TreeNode] = []
    for node in loop.body:
        body += map_expressions((node,), lambda expr: map_expr(held, expr))
        if isinstance(node, Compute) and (place := after.get(_moved(node.target, {}))) is not None:
            body.append(Copy(place, node.target))
    return tuple(first), replace(loop, body=tuple(body))


def _decided(condition: Expr) -> Expr:
    """The same, or what it is known to be."""
    if isinstance(condition, Compare) and condition.left.dtype is DType.I64:
        return compare(condition.op, condition.left, condition.right)
    return condition


def _in_ring(
    first: tuple[TreeNode, ...], loop: Loop, wanted: Sequence[Load], parts: int, scope: Scope
) -> tuple[TreeNode, ...]:
    """The loop in parts that come late, and its last iterations; `first`: what stands before it."""
    trips = tidy(loop.upper - loop.lower)
    some = trips if isinstance(trips, Const | Symbol) else combine("max", integer(0), trips)
    chunks, step = tidy(some // PART), scope.fresh(f"{loop.var}q")
    rings = {load: scope.ring(load, parts) for load in wanted}
    now = {load: scope.register(load, PART, "now") for load in wanted}
    threads = tuple(map(Iter, scope.threads))
    behind = Iter(step) - (parts - 1)

    def value(part: Expr, u: Expr) -> Expr:
        return tidy(loop.lower + part * PART + u)

    def place(load: Load, part: Expr, u: Expr) -> Load:
        return Load(rings[load], (part, u, *threads), load.dtype, span=load.span)

    def taken(u: Expr) -> tuple[TreeNode, ...]:
        # (Modulo the ring's parts that is the part so many steps behind.)
        return tuple(Copy(_cell(now, load, u), place(load, Iter(step) + 1, u)) for load in wanted)

    def asked(u: Expr) -> tuple[TreeNode, ...]:
        values = {loop.var: value(Iter(step), u)}
        return tuple(Copy(place(load, Iter(step), u), _moved(load, values), late=True) for load in wanted)

    def computed(u: Expr) -> tuple[TreeNode, ...]:
        return _computed(loop, now, u, value(behind, u), scope)

    body = (
        Arrive(parts - 2),
        Guard(Iter(step) < chunks, (_written_out(PART, scope, asked),)),
        Guard(
            compare("ge", Iter(step), integer(parts - 1)),
            (_written_out(PART, scope, taken), _written_out(PART, scope, computed)),
        ),
    )
    rest = replace(loop, lower=tidy(loop.lower + chunks * PART))
    return (
        *first,
        Loop(step, integer(0), tidy(chunks + (parts - 1)), 1, Where.SERIAL, body),
        *_last(rest, wanted, PART - 1, scope),
    )


def _last(loop: Loop, wanted: Sequence[Load], most: int, scope: Scope) -> tuple[TreeNode, ...]:
    """The loop, which has at most so many iterations: all loads first."""
    cells = {load: scope.register(load, most, "last") for load in wanted}

    def each(body: Callable[[Expr, Expr], tuple[TreeNode, ...]]) -> Loop:
        def inside(u: Expr) -> tuple[TreeNode, ...]:
            value = tidy(loop.lower + u)
            return (Guard(value < loop.upper, body(u, value)),)

        return _written_out(most, scope, inside)

    def asked(u: Expr, value: Expr) -> tuple[TreeNode, ...]:
        return tuple(Copy(_cell(cells, load, u), _moved(load, {loop.var: value})) for load in wanted)

    return each(asked), each(lambda u, value: _computed(loop, cells, u, value, scope))


def _written_out(count: int, scope: Scope, body: Callable[[Expr], tuple[TreeNode, ...]]) -> Loop:
    var = scope.fresh("u")
    return Loop(var, integer(0), integer(count), 1, Where.UNROLLED, body(Iter(var)))


def _cell(cells: Mapping[Load, str], load: Load, u: Expr) -> Load:
    return Load(cells[load], (u,), load.dtype, span=load.span)


def _computed(loop: Loop, cells: Mapping[Load, str], u: Expr, value: Expr, scope: Scope) -> tuple[TreeNode, ...]:
    """The loop's body where its variable has that value, with what was loaded."""

    def change(expr: Expr) -> Expr:
        held = map_expr(lambda e: _cell(cells, e, u) if isinstance(e, Load) and e in cells else e, expr)
        return tidy(substitute(held, {loop.var: value}))

    return map_expressions(with_new_loops(loop.body, scope.fresh), change)


def _moved(load: Load, values: dict[str, Expr]) -> Load:
    moved = tidy(substitute(load, values))
    assert isinstance(moved, Load)
    return moved


def _streamed(loop: Loop, scope: Scope) -> Iterator[Load]:
    """Loads from memory that each iteration of the loop does, whatever its data are, each at a place of its own,
    and neighbouring threads at neighbouring places."""
    inside = {node.var for node in walk_nodes(loop.body) if isinstance(node, Loop)}
    for load in _loaded(loop.body):
        names = {name for part in load.index for name in iterators(part)}
        if not goes_across(loop.var, load) or scope.thread not in iterators(load.index[-1]):
            continue
        if names & inside or load.array in scope.written:
            continue
        if isinstance(scope.buffers[load.array].home, Global) and not any(loads(part) for part in load.index):
            yield load


def _loaded(nodes: Sequence[TreeNode]) -> Iterator[Load]:
    """The loads of values that the nodes compute whatever the data are."""
    for node in nodes:
        match node:
            case Compute(value=value, predicate=None):
                yield from sure_loads(value)
            case Loop(body=body) if constant_value(node.upper - node.lower):
                yield from _loaded(body)
            case _:
                pass


def _words(dtype: DType) -> int:
    """Registers of 4 bytes for a value."""
    return max(dtype.bytes // 4, 1)


def _in_arrays(nodes: Sequence[TreeNode], scope: Scope) -> int:
    """Registers of the thread's own arrays that the nodes write."""
    own = [buffer for name in written_in(nodes) if isinstance((buffer := scope.buffers[name]).home, Register) and buffer.extents]
    return sum(_words(buffer.dtype) * prod(constant_value(extent) or 1 for extent in buffer.extents) for buffer in own)


def _computations(nodes: Sequence[TreeNode]) -> int:
    """How many computations the nodes are, written out."""
    found = 0
    for node in nodes:
        trips = constant_value(node.upper - node.lower) if isinstance(node, Loop) and node.mapping is Where.UNROLLED else 1
        found += isinstance(node, Compute) + (trips or 1) * sum(map(_computations, bodies(node)))
    return found
