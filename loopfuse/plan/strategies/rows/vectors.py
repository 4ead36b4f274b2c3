"""Whether a thread may have neighbouring elements of a row, which it moves as one vector.

At copy speed an H200 has 33 issue slots for four bytes: an f32 that is read and written takes few of them for its two
moves, and a bf16, for which there are 16, too many. So where elements are narrow, a thread has 16 bytes of neighbours,
and whole rows of them (`C % 8 == 0`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from loopfuse.base.machine import ACCESS
from loopfuse.lang.nodes import Const, Iter, Load, Symbol, integer
from loopfuse.lang.walk import loads, subscript_iterators
from loopfuse.plan.strategies.rows import sizes
from loopfuse.plan.strategies.rows.body import COLUMN, Body, Pass
from loopfuse.tree.looptree import Buffer, Compute
from loopfuse.tree.walk import node_expressions


def vector_of(body: Body, memory: Mapping[str, Buffer], sums: Collection[Load] = ()) -> int:
    """How many neighbours a thread has; 0: its elements lie apart. `memory`: the buffers there; `sums`: elements that stay in
    registers from row to row."""
    if not isinstance(body.length, Symbol | Const) or not all(_is_plain(body, one, sums) for one in body.passes):
        return 0
    along = [load for one in body.passes for load in _along(one) if load not in sums]
    moved = [load for load in along if load.array not in {each.array for each in body.made}]
    if not moved or not all(_is_row(body, memory, load) for load in along):
        return 0
    narrowest = min(load.dtype.bytes for load in moved)
    return min(ACCESS // narrowest, sizes.STAGED) if narrowest < sizes.CLUSTERED else 0


def _is_plain(body: Body, one: Pass, sums: Collection[Load]) -> bool:
    """Is it the whole row, of whose places each does the same, from what nothing writes or what passes make?"""
    if one.outer or one.lower != integer(0) or one.upper != body.length:
        return False
    own = {each.array for each in body.made}
    asked = set(body.asked(one))
    for node in one.nodes:
        if not isinstance(node, Compute) or node.predicate is not None:
            return False
        if any(COLUMN in subscript_iterators(load) for load in loads(node.value) if load.array not in own and load not in asked and load not in sums):
            return False
    return True


def _along(one: Pass) -> Iterator[Load]:
    """What a pass accesses by its place."""
    for node in one.nodes:
        for expr in node_expressions(node):
            yield from (load for load in loads(expr) if COLUMN in subscript_iterators(load))


def _is_row(body: Body, memory: Mapping[str, Buffer], load: Load) -> bool:
    """Do its neighbours along the row lie side by side, and does each row start at a whole vector if its length is one?"""
    buffer = memory.get(load.array)
    if buffer is None or buffer.strides is not None or load.index[-1] != Iter(COLUMN):
        return False
    if any(COLUMN in subscript_iterators(Load(load.array, (each,), load.dtype)) for each in load.index[:-1]):
        return False
    return len(buffer.extents) == 1 or buffer.extents[-1] == body.length
