"""Which nodes of a body have nothing to do with each other.

before:  for k: unrolled l: { s[l] += x[16*k + l];  q[l] += x[16*k + l] ** 2 }
after:   for k: unrolled l: s[l] += x[16*k + l];    for k: unrolled l: q[l] += x[16*k + l] ** 2

LLVM makes vectors of the lanes of one accumulator, but of those of several in one loop it mostly does not;
a chunk of what they read stays in a cache between the loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, groupby, product

from loopfuse.lang.linear import linear
from loopfuse.lang.nodes import Expr
from loopfuse.lang.walk import loads
from loopfuse.tree.looptree import Compute, Guard, Loop, TreeNode
from loopfuse.tree.walk import node_expressions, walk_nodes


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


def consecutive_parts(nodes: Sequence[TreeNode], var: str, alike: Callable[[TreeNode], object]) -> tuple[tuple[int, ...], ...]:
    """The positions of the nodes in parts, in order, of neighbours that are `alike`: all iterations of `var` may run one part
    before any runs the next, as what two parts share is an element of an iteration alone. One part where that is not so.

    before: for k: { t[k] = a[k] where a[k] > 0;  s += t[k] }
    after:  for k: t[k] = a[k] where a[k] > 0;    for k: s += t[k]
    """
    whole = (tuple(range(len(nodes))),)
    parts = tuple(tuple(position for position, _ in group) for _, group in groupby(enumerate(nodes), lambda one: alike(one[1])))
    touched = [_touched(node) for node in nodes]
    if any(each is None for each in touched):
        return whole
    for first, second in combinations(parts, 2):
        for one, other in product(first, second):
            (writes, reads), (others, read) = touched[one] or (set(), set()), touched[other] or (set(), set())
            shared = writes & (others | read) or others & reads
            if not all(_is_of_iteration([nodes[one], nodes[other]], name, var) for name in shared):
                return whole
    return parts


def _is_of_iteration(nodes: Sequence[TreeNode], name: str, var: str) -> bool:
    """Do the nodes touch one element of the buffer in each iteration, and another one in each?"""
    found = {load.index for node in walk_nodes(tuple(nodes)) for expr in node_expressions(node) for load in loads(expr) if load.array == name}
    if len(found) != 1:
        return False
    return any((linear(part) or {}).get(var) and not loads(part) for part in found.pop())


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
