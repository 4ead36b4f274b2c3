"""Which nodes of a body have nothing to do with each other.

before:  for k: unrolled l: { s[l] += x[16*k + l];  q[l] += x[16*k + l] ** 2 }
after:   for k: unrolled l: s[l] += x[16*k + l];    for k: unrolled l: q[l] += x[16*k + l] ** 2

LLVM makes vectors of the lanes of one accumulator, but of those of several in one loop it mostly does not;
a chunk of what they read stays in a cache between the loops.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopfuse.lang.nodes import Expr
from loopfuse.lang.walk import loads
from loopfuse.tree.looptree import Compute, Guard, Loop, TreeNode


def independent_parts(nodes: Sequence[TreeNode]) -> tuple[tuple[int, ...], ...]:
    """The positions of the nodes in parts, in order: nodes of two parts may run in any order, as what
    one of them writes no other one touches. One part where a node is of a kind that is not known."""
    whole = (tuple(range(len(nodes))),)
    found: list[tuple[set[str], set[str], list[int]]] = []
    for number, node in enumerate(nodes):
        touched = _touched(node)
        if touched is None:
            return whole
        writes, reads = touched
        mine = [number]
        for part in [part for part in found if _meet(part[0], part[1], writes, reads)]:
            writes, reads, mine = writes | part[0], reads | part[1], part[2] + mine
            found.remove(part)
        found.append((writes, reads, mine))
    return tuple(sorted(tuple(sorted(part)) for _, _, part in found)) or whole


def are_independent(one: TreeNode, other: TreeNode) -> bool:
    """May the two nodes run in any order?"""
    first, second = _touched(one), _touched(other)
    return first is not None and second is not None and not _meet(*first, *second)


def _meet(writes: set[str], reads: set[str], others: set[str], read: set[str]) -> bool:
    return bool(writes & (others | read) or others & reads)


def _touched(node: TreeNode) -> tuple[set[str], set[str]] | None:
    """The buffers that a node writes, and those that it reads."""
    match node:
        case Compute(target=target, value=value, predicate=predicate):
            parts = [value, *target.index, *([] if predicate is None else [predicate])]
            return {target.array}, _read(parts)
        case Loop(lower=lower, upper=upper, body=body):
            return _joined(body, _read([lower, upper]))
        case Guard(condition=condition, then=then, otherwise=otherwise):
            return _joined((*then, *otherwise), _read([condition]))
        case _:
            return None


def _joined(nodes: Sequence[TreeNode], reads: set[str]) -> tuple[set[str], set[str]] | None:
    writes: set[str] = set()
    for node in nodes:
        touched = _touched(node)
        if touched is None:
            return None
        writes |= touched[0]
        reads |= touched[1]
    return writes, reads


def _read(parts: Sequence[Expr]) -> set[str]:
    return {load.array for part in parts for load in loads(part)}
