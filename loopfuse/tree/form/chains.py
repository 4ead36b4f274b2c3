"""Where a Scan over the blocks of a launch may stand, and what they hand on results through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopfuse.base.dtypes import DType
from loopfuse.lang.linear import constant_value, tidy
from loopfuse.lang.nodes import Iter
from loopfuse.lang.walk import iterators, loads
from loopfuse.tree.chains import words_of
from loopfuse.tree.looptree import (
    Buffer,
    Global,
    HostLoop,
    HostNode,
    Launch,
    Loop,
    LoopTree,
    Mapping,
    Scan,
    TreeNode,
)
from loopfuse.tree.printer import print_node
from loopfuse.tree.walk import node_expressions, split_chain, walk_nodes


def chains_fault(tree: LoopTree) -> str:
    """What is wrong with the tree's Scans over blocks; "" if nothing is."""
    for launch, outside in _launches(tree.body, ()):
        scans = _over_blocks(launch)
        if scans and launch.ends_first:
            return f"in launch `{launch.name}` blocks wait for others, and start in their order"
        for scan in scans:
            fault = _fault(scan, launch, outside, tree)
            if fault:
                return f"in `{print_node(scan)}` of launch `{launch.name}`: {fault}"
    return ""


def _launches(nodes: Sequence[HostNode], outside: tuple[str, ...]) -> Iterator[tuple[Launch, tuple[str, ...]]]:
    """The launches, with the variables of the loops of the host around each."""
    for node in nodes:
        if isinstance(node, HostLoop):
            yield from _launches(node.body, (*outside, node.var))
        else:
            yield node, outside


def _over_blocks(launch: Launch) -> list[Scan]:
    return [node for node in walk_nodes(launch.body) if isinstance(node, Scan) and node.words]


def _fault(scan: Scan, launch: Launch, outside: Sequence[str], tree: LoopTree) -> str:
    chain, body = split_chain(launch)
    *rows, last = [loop for loop in chain if loop.mapping is Mapping.GRID]
    buffers = {buffer.name: buffer for buffer in tree.buffers}
    if not any(_stands_alone(node, scan, buffers[scan.buffer]) for node in body):
        return "each block comes to it once: it stands in no loop but one over all parts of its buffer, and under no condition"
    if last.var != scan.over[0] or any(constant_value(loop.lower) != 0 or loop.step != 1 for loop in (*rows, last)):
        return "it is over the last grid loop, which counts blocks"
    if any(not iterators(loop.upper).isdisjoint(outside) for loop in (*rows, last)):
        return "a launch has as many blocks whenever it runs"
    words = buffers.get(scan.words)
    size = words_of(scan.op, buffers[scan.buffer].dtype, [loop.upper for loop in rows], last.upper)
    if words is None or not _is_room(words) or tuple(map(tidy, words.extents)) != (size,):
        return f"`{scan.words}` is not zeroed memory of the size that it needs"
    if scan.words in _others(scan, tree):
        return f"`{scan.words}` is used for something else too"
    return ""


def _stands_alone(node: TreeNode, scan: Scan, buffer: Buffer) -> bool:
    """Is the node the Scan, or a loop over the elements of what it scans?"""
    if node is scan:
        return not scan.index
    if not isinstance(node, Loop) or node.mapping is not Mapping.UNROLLED or len(node.body) != 1 or node.body[0] is not scan:
        return False
    is_all = constant_value(node.lower) == 0 and node.step == 1 and (node.upper,) == buffer.extents
    return is_all and scan.index == (Iter(node.var),) and scan.over[1:2] == (node.var,)


def _is_room(buffer: Buffer) -> bool:
    is_own = not (buffer.argument or buffer.strides or buffer.turns)
    return is_own and isinstance(buffer.home, Global) and buffer.zeroed and buffer.dtype is DType.I64


def _others(scan: Scan, tree: LoopTree) -> set[str]:
    """What the nodes of the tree but one name."""
    found: set[str] = set()
    for launch in tree.launches:
        for node in walk_nodes(launch.body):
            found |= {load.array for expr in node_expressions(node) for load in loads(expr)}
            if isinstance(node, Scan) and node is not scan:
                found |= {node.buffer, node.words}
    return found
