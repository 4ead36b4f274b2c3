"""Do the iterations of a VECTOR loop run all at once, node by node, without meeting each other?

The order that `proof/events.py` takes is the sequential one, an iteration after the other. Vector
code runs a node for all iterations before the next node. That is the same where no two iterations
touch one cell, one of them writing. Registers written at a place that the loop's variable does not
name are private to an iteration (code generation gives each lane its own): there, each read must
come after a write of the same iteration.
"""

from __future__ import annotations

from typing import Any

from loopfuse.lang.linear import coefficients
from loopfuse.lang.nodes import Iter
from loopfuse.lang.walk import iterators
from loopfuse.poly import isl
from loopfuse.proof.accesses import Accesses, Read, Write
from loopfuse.proof.events import READ, WRITE, Leaf, Vector, compare_times
from loopfuse.tree.looptree import Global, Shared


def find_carried(accesses: Accesses) -> tuple[str, Any] | None:
    """What is wrong with a VECTOR loop, and a relation that shows it; None if nothing is."""
    leaves = (*accesses.events.leaves, *accesses.events.headers)
    vectors = dict.fromkeys(vector for leaf in leaves for vector in leaf.vectors)
    for vector in vectors:
        inside = {leaf.name for leaf in leaves if vector in leaf.vectors}
        for name, every in accesses.writes.items():
            writes = [write for write in every if write.leaf.name in inside]
            if not writes:
                continue
            reads = [r for r in accesses.reads.get(name, []) if r.leaf.name in inside]
            home = accesses.events.buffers[name].home
            apart = all(vector.var in _mentioned(write) for write in writes)
            if apart or isinstance(home, Global | Shared):
                found = _meeting(vector, [*writes, *reads])
                what = f"two iterations of the vector loop over {vector.var} touch {name}"
            else:
                found = _unwritten(accesses, vector, writes, reads)
                what = f"an iteration of the vector loop over {vector.var} finds another's {name}"
            if found is not None:
                return what, found
    return None


def _mentioned(access: Read | Write) -> set[str]:
    return {name for part in access.load.index for name in iterators(part)}


def _outer(leaf: Leaf, vector: Vector) -> list[Iter]:
    return [Iter(name) for name in leaf.names[: leaf.names.index(vector.var)]]


def _meeting(vector: Vector, touching: list[Read | Write]) -> Any | None:
    """{ iteration -> another } where they touch one cell, one of them writing."""
    if _plainly_apart(vector, touching):
        return None
    written: Any = None
    everyone: list[tuple[bool, Any]] = []
    for access in touching:
        leaf = access.leaf
        cell = access.cell.set_tuple_name(isl.IN, leaf.name)
        place = leaf.relation(_outer(leaf, vector), "outer").range_product(cell)
        touched = place.reverse().apply_range(leaf.relation([Iter(vector.var)], vector.var))
        everyone.append((isinstance(access, Write), touched))
        if isinstance(access, Write):
            written = touched if written is None else written.union(touched)
    both = written
    for is_write, touched in everyone:
        if not is_write:
            both = both.union(touched.intersect_domain(written.domain()))
    if both.is_single_valued():
        return None
    pairs = both.reverse().apply_range(both)
    return pairs.subtract(pairs.domain().identity())


def _plainly_apart(vector: Vector, touching: list[Read | Write]) -> bool:
    """Is one subscript the same everywhere, and another number in each iteration?"""
    first = touching[0].load.index
    for position, part in enumerate(first):
        _, named, linear = coefficients(part)
        if not linear or not named.get(vector.var):
            continue
        if all(
            access.load.index[position] == part
            and not _inner(access.leaf, vector) & set(iterators(part))
            for access in touching
        ):
            return True
    return False


def _inner(leaf: Leaf, vector: Vector) -> set[str]:
    """The variables of the loops inside the vector loop."""
    return set(leaf.names[leaf.names.index(vector.var) + 1 :])


def _unwritten(
    accesses: Accesses, vector: Vector, writes: list[Write], reads: list[Read]
) -> Any | None:
    """{ read -> cell } that no write of the same iteration comes before."""
    events = accesses.events
    for read in reads:
        if any(_follows(write, read) for write in writes):
            continue
        rest = read.cell
        for write in writes:
            times = events.time_of(write.leaf, WRITE), events.time_of(read.leaf, READ)
            order = compare_times(*times)
            if order is False:
                continue
            ends = [
                access.leaf.relation([*_outer(access.leaf, vector), Iter(vector.var)], "here")
                .range_product(access.cell.set_tuple_name(isl.IN, access.leaf.name))
                for access in (read, write)
            ]  # fmt: skip
            pairs = ends[0].apply_range(ends[1].reverse())
            if order is None:
                later = events.when(read.leaf, READ).lex_gt_map(events.when(write.leaf, WRITE))
                pairs = pairs.intersect(later)
            rest = rest.subtract_domain(pairs.domain().set_tuple_name(read.name))
        if not rest.is_empty():
            return rest
    return None


def _follows(write: Write, read: Read) -> bool:
    """Does the read follow the write in one list of nodes, at the same place?"""
    same = write.leaf.points is read.leaf.points and write.load == read.load
    return same and write.leaf.number < read.leaf.number
