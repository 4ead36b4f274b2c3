"""Elements that a launch stores past the caches.

    before:  launch k: y[i] = 2 * x[i]
    after:   launch k, y past the caches where 4 * N > 16777216: y[i] = 2 * x[i]

A processor that stores reads the line first, to have the whole of it: of an array that no cache holds anyway, a third of
what a copy moves is for nothing. Where caches hold the array, the next loop finds it there.

Side condition: the launch reads nothing of the array. Such stores come to memory in no order, and have all come when the
launch has ended. (What it writes twice should find the first in a cache.) What is stored where is the same: the checker has nothing to erase.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from loopfuse.lang.index import FALSE
from loopfuse.lang.nodes import Expr, compare, integer
from loopfuse.lang.walk import loads
from loopfuse.tree.looptree import (
    Buffer,
    Compute,
    Copy,
    Fold,
    Global,
    HostLoop,
    HostNode,
    Launch,
    LoopTree,
)
from loopfuse.tree.walk import node_expressions, walk_nodes

PARTS = 2
"""Of so many parts of what caches hold, an array that takes more than one is larger: what the launch reads needs the rest. (A Xeon that says 300 MB
gains from 16 MB on, twice the speed at 128; an EPYC of 32 MB from 16.)"""


def past_caches(tree: LoopTree, cached: int, again: Collection[tuple[str, str, str]]) -> LoopTree:
    """The tree, in which arrays that are larger than caches of `cached` bytes are stored past them, by launches that read none of them, and
    write no element twice. `again`: (array, statement, statement) of which the second writes what the first wrote."""
    buffers = {buffer.name: buffer for buffer in tree.buffers}

    def host(node: HostNode) -> HostNode:
        if isinstance(node, HostLoop):
            return replace(node, body=tuple(host(inner) for inner in node.body))
        written, read = _accessed(node)
        runs = {inner.statement for inner in walk_nodes(node.body) if isinstance(inner, Compute)}
        twice = {buffers[name].array for name in written} & {array for array, *both in again if runs.issuperset(both)}
        once = [name for name in written if buffers[name].array not in twice and not _may_be(name, read, buffers)]
        found = {name: _is_larger(buffers[name], cached // PARTS) for name in once}
        return replace(node, nontemporal=tuple((name, test) for name, test in sorted(found.items()) if test != FALSE))

    return replace(tree, body=tuple(host(node) for node in tree.body))


def nontemporal_fault(tree: LoopTree) -> str:
    """What is wrong with what the tree's launches store past the caches; "" if nothing is."""
    buffers = {buffer.name: buffer for buffer in tree.buffers}
    for launch in tree.launches:
        written, read = _accessed(launch) if launch.nontemporal else (set[str](), set[str]())
        for name, _ in launch.nontemporal:
            if tree.device != "cpu" or name not in buffers or not isinstance(buffers[name].home, Global):
                return f"{name} is nothing that {launch.name} stores past caches: an array in a CPU's memory is"
            if name not in written or _may_be(name, read, buffers):
                return f"{launch.name} stores {name} past the caches, which it does not write, or reads"
    return ""


def _accessed(launch: Launch) -> tuple[set[str], set[str]]:
    """The buffers that a launch writes, and those that it reads."""
    written: set[str] = set()
    read: set[str] = set()
    for node in walk_nodes(launch.body):
        target = node.target if isinstance(node, Compute | Copy | Fold) else None
        if target is not None:
            written.add(target.array)
        if isinstance(node, Fold) or (isinstance(node, Compute) and node.atomic):
            read.add(node.target.array)
        for expr in node_expressions(node):
            read.update(load.array for load in loads(expr) if load is not target)
    return written, read


def _may_be(name: str, read: set[str], buffers: Mapping[str, Buffer]) -> bool:
    """Is the buffer, or may it stand for, one that is read?"""
    return name in read or not read.isdisjoint(buffers[name].turns)


def _is_larger(buffer: Buffer, cached: int) -> Expr:
    if not isinstance(buffer.home, Global):
        return FALSE
    size: Expr = integer(buffer.dtype.bytes)
    for extent in buffer.extents:
        size = size * extent
    return compare("gt", size, integer(cached))
