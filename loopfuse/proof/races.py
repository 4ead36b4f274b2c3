"""Do two threads touch one cell, one of them writing, with nothing between them?

For each level of parallel loops (blocks of the grid, of a cluster, threads of a block, lanes of a
warp): the accesses of one launch that share everything outside this level, and the last barrier
of this level's scope before them, happen in no given order. Such a cell must belong to one thread,
but where all who touch it update it atomically, by one operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopfuse.lang.nodes import Expr, Iter
from loopfuse.poly import isl
from loopfuse.proof.accesses import Accesses, Read, Write, union
from loopfuse.proof.events import BLOCK, CLUSTER, GRID, LANE, READ, SYNC, WRITE, Leaf
from loopfuse.proof.flags import unordered_blocks
from loopfuse.proof.planes import is_apart_in_steps
from loopfuse.tree.looptree import (
    Await,
    Barrier,
    Compute,
    Fold,
    Raise,
    Window,
    owns_lane,
    strip_of,
)
from loopfuse.tree.walk import atomic_update

_SCOPES = {
    GRID: (),
    CLUSTER: ("cluster",),
    BLOCK: ("cluster", "block"),
    LANE: ("cluster", "block", "warp"),
}
"""The barriers that order iterations of each level."""


def find_race(accesses: Accesses, buffer: str) -> Any | None:
    """A relation that shows a conflict over `buffer` ({ cell -> several threads }), or None."""
    shared = accesses.events.shared_by(accesses.events.buffers[buffer])
    if shared == LANE:
        return None
    every: list[Read | Write] = [*accesses.writes[buffer], *accesses.reads.get(buffer, [])]
    # A launch, and what its last block does afterwards, come one after the other.
    for phase in sorted({(access.leaf.launch, access.leaf.in_ticket) for access in every}):
        here = [a for a in every if (a.leaf.launch, a.leaf.in_ticket) == phase]
        if not any(isinstance(access, Write) for access in here):
            continue
        leaf = here[0].leaf
        syncs = [
            other
            for other in accesses.events.leaves
            if (other.launch, other.in_ticket) == phase
            and (isinstance(other.node, Barrier | Raise | Await) or other.crosses_lanes)
        ]
        inside = [level for level in (GRID, CLUSTER, BLOCK, LANE) if level > shared]
        if buffer in accesses.events.late:  # perhaps after any barrier
            found = _conflict(accesses, here, inside, [])
            if found is not None:
                return found
            continue
        if inside == [LANE] and _in_own_columns(accesses, here):
            continue
        if BLOCK in inside and GRID not in inside and is_apart_in_steps(accesses, here):
            continue
        flagged = any(isinstance(other.node, Raise | Await) for other in syncs)
        waits = any(isinstance(other.node, Barrier) for other in syncs)
        if not flagged and (not waits or (shared < 0 and _has_windows(accesses))):
            # Only shuffles: if no order at all is needed, one question is enough for all levels.
            # So too where barriers are there for windows, and this is memory.
            threads = leaf.level_vars(inside)
            if threads and not phase[1] and _conflict(accesses, here, inside, []) is None:
                continue
        is_block = waits and not flagged and shared >= 0 and len(inside) > 1
        if is_block and _conflict(accesses, here, inside, syncs) is None:
            continue  # what orders blocks' or clusters' threads is enough for their lanes too
        # Without barriers there is no order at any level: one question for all.
        groups = [[level] for level in inside] if syncs else [inside]
        for levels in groups:
            threads = leaf.level_vars(levels)
            if not threads or (phase[1] and levels == [GRID]):
                continue
            if levels == [GRID] and any(isinstance(o.node, Raise | Await) for o in syncs):
                found = unordered_blocks(accesses, here)
            else:
                found = _conflict(accesses, here, levels, syncs)
            if found is not None:
                return found
    return None


def _has_windows(accesses: Accesses) -> bool:
    return any(isinstance(b.home, Window) for b in accesses.events.tree.buffers)


def _in_own_columns(accesses: Accesses, here: list[Read | Write]) -> bool:
    """Does each lane touch its own columns of what lanes share, but for the reads of shuffles?
    Those wait for the other lanes before they read, and after they have read."""
    events = accesses.events
    buffer = events.buffers[here[0].load.array]
    strip = strip_of(buffer.home)
    if strip is None:
        return False
    for access in here:
        if isinstance(access, Read) and access.leaf.crosses_lanes:
            continue
        lane = next(iter(access.leaf.level_vars((LANE,))), "")
        if not owns_lane(strip, access.load, lane, events.ranges):
            return False
    return True


def _conflict(
    accesses: Accesses, here: list[Read | Write], levels: list[int], syncs: list[Leaf]
) -> Any | None:
    threads = here[0].leaf.level_vars(levels)
    ranges = accesses.events.ranges_around(here[0].leaf)
    if all(_owned(here, var) or _is_one(ranges.get(var)) for var in threads):
        return None
    scopes = _SCOPES[levels[0]]
    barriers = [
        leaf
        for leaf in syncs
        if (isinstance(leaf.node, Barrier) and leaf.node.scope in scopes)
        or (isinstance(leaf.node, Raise | Await) and "block" in scopes)
        or (leaf.crosses_lanes and "warp" in scopes)
    ]
    by_epoch: dict[str, list[tuple[bool, Any]]] = {}
    atomic: dict[str, dict[str, list[Any]]] = {}  # the same of atomic updates, by operation
    for access in here:
        operation = _atomic(access)
        for epoch, relation in _touches(accesses, access, levels, barriers):
            # The pieces of all are compared pair by pair, and bounds split one shape into many.
            relation = isl.simplified(relation)
            if operation:
                atomic.setdefault(epoch, {}).setdefault(operation, []).append(relation)
            else:
                by_epoch.setdefault(epoch, []).append((isinstance(access, Write), relation))
    for epoch, updates in atomic.items():
        others = [union(_distinct(each), None) for each in updates.values()]
        if epoch in by_epoch:
            others.append(union(_distinct([relation for _, relation in by_epoch[epoch]]), None))
        found = _meeting(others)
        if found is not None:
            return found
    for touched in by_epoch.values():
        writes = _distinct([relation for is_write, relation in touched if is_write])
        if not writes:
            continue
        written = union(writes, None)
        where = isl.simplified(written).domain()
        reads = _distinct([relation for is_write, relation in touched if not is_write], writes)
        everyone = union([written, *(relation.intersect_domain(where) for relation in reads)], None)
        if not everyone.is_single_valued():
            pairs = everyone.reverse().apply_range(everyone)
            return pairs.subtract(pairs.domain().identity())
    return None


def _atomic(access: Read | Write) -> str:
    """The operation of an atomic update, of which the access is a part: that of its place; "" elsewhere."""
    match access.leaf.node:
        case Compute(atomic=True) as node if access.load == node.target:
            return atomic_update(node)[0]
        case Fold(op=op, target=target, atomic=True) if access.load == target:
            return op
        case _:
            return ""


def _meeting(kinds: Sequence[Any]) -> Any | None:
    """{ thread -> another } of { cell -> thread } maps: two of different kinds touch one cell; None if none do."""
    for number, one in enumerate(kinds):
        for other in kinds[number + 1 :]:
            pairs = one.reverse().apply_range(other)
            apart = pairs.subtract(pairs.domain().identity())
            if not apart.is_empty():
                return apart
    return None


def _distinct(relations: list[Any], known: Sequence[Any] = ()) -> list[Any]:
    """Those that are not plainly another, nor one of `known`."""
    kept: list[Any] = []
    for relation in relations:
        if not any(relation.plain_is_equal(other) for other in (*known, *kept)):
            kept.append(relation)
    return kept


def _is_one(ends: tuple[int, int] | None) -> bool:
    """Has a loop one iteration, always?"""
    return ends is not None and ends[0] == ends[1]


def _owned(here: list[Read | Write], var: str) -> bool:
    """Do all accesses have `var` itself as the same subscript? Then its iterations are apart."""
    first = here[0].load.index
    wanted: Expr = Iter(var)
    return any(
        all(access.load.index[position] == wanted for access in here)
        for position in range(len(first))
    )


def _touches(
    accesses: Accesses, access: Read | Write, levels: list[int], barriers: list[Leaf]
) -> list[tuple[str, Any]]:
    """(epoch, { [[what is common, cell] -> last barrier] -> thread }), one for each barrier that
    may come last before the access."""
    leaf = access.leaf
    outer = [*leaf.host, *leaf.level_vars(range(levels[0]))]
    cell = access.cell.set_tuple_name(isl.IN, leaf.name)
    thread = leaf.relation([Iter(var) for var in leaf.level_vars(levels)], "thread")
    common = leaf.relation([Iter(var) for var in outer], "common").range_product(cell)
    if not barriers:
        return [("", common.reverse().apply_range(thread))]

    def meeting(barrier: Leaf) -> Any:
        """{ barrier -> its instance, the same for all threads that meet there }."""
        apart = barrier.level_vars(range(levels[0], LANE + 1))
        kept = [Iter(name) for name in barrier.names if name not in apart]
        return barrier.relation(kept, barrier.name)

    def after(last: Any) -> Any:
        return common.range_product(last).reverse().apply_range(thread)

    if leaf in barriers:  # a shuffle: it waits before its reads, and again after them
        epoch = f"{leaf.name} reads" if isinstance(access, Read) else leaf.name
        return [(epoch, after(meeting(leaf)))]
    # The last barrier of this thread: all of them touch one cell of the thread's own.
    events = accesses.events
    own = [Iter(var) for var in (*leaf.host, *(loop.var for loop in leaf.chain))]
    moment = WRITE if isinstance(access, Write) else READ
    sources = [(each, each.relation(own, "here"), SYNC) for each in barriers]
    here = leaf.relation(own, "here")
    when, time = events.when(leaf, moment), events.time_of(leaf, moment)
    out: list[tuple[str, Any]] = []
    rest = leaf.points.set_tuple_name(leaf.name)
    for barrier, pairs in events.last_before(here, when, time, sources):
        out.append((barrier.name, after(pairs.reverse().apply_range(meeting(barrier)))))
        rest = rest.subtract(pairs.range())
    if not rest.is_empty():
        out.append(("", common.intersect_domain(rest).reverse().apply_range(thread)))
    return out
