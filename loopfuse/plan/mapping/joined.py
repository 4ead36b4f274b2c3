"""Neighbouring loops of one body as one.

before:  s = 0;  for i in 0..M: t[i, j] = f(a[i, j]);  for p in 0..M: s += t[p, j]
after:   s = 0;  for i in 0..M: { t[i, j] = f(a[i, j]); s += t[i, j] }

Needs the same bounds and steps. Whatever one of the loops writes and the other touches is touched by both
at one place, which is another one in each iteration: then iteration k of the second may run right after
iteration k of the first. What stands between them goes ahead of both where it has nothing to do with the first, else
behind both. Loops that are joined keep the order of their own iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from loopfuse.lang.linear import linear
from loopfuse.lang.nodes import Expr, Iter
from loopfuse.lang.walk import loads, substitute
from loopfuse.tree.looptree import Compute, Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.rewrite.independent import are_independent
from loopfuse.tree.walk import map_expressions, node_expressions, walk_nodes


def join_neighbours(nodes: Sequence[TreeNode], wanted: Callable[[Loop], bool]) -> list[TreeNode]:
    """The nodes, with neighbouring loops among those `wanted` joined where they may be."""
    out: list[TreeNode] = []
    for node in nodes:
        parts = _partner(out, node) if isinstance(node, Loop) and wanted(node) else None
        if parts is None:
            out.append(node)
            continue
        before, first, ahead, behind = parts
        assert isinstance(node, Loop)
        whole = replace(first, body=(*first.body, *_renamed(node.body, node.var, first.var)))
        out = [*before, *ahead, whole, *behind]
    return out


def join_nests(nodes: Sequence[TreeNode]) -> tuple[TreeNode, ...]:
    """The nodes, with neighbouring loops joined wherever they may be, and those inside too."""
    return tuple(
        replace(node, body=join_nests(node.body)) if isinstance(node, Loop) else node
        for node in join_neighbours(nodes, lambda loop: loop.mapping is Where.SERIAL)
    )


Parts = tuple[list[TreeNode], Loop, list[TreeNode], list[TreeNode]]
"""What stands before the loop that another joins; that loop; what goes ahead of both, and what goes behind."""


def _partner(out: Sequence[TreeNode], node: Loop) -> Parts | None:
    """The loop that `node` joins, and what becomes of the nodes around it."""
    for at in range(len(out) - 1, -1, -1):
        first = out[at]
        if isinstance(first, Loop) and _may_join(first, node):
            parts = _apart(first, node, out[at + 1 :])
            return None if parts is None else (list(out[:at]), first, *parts)
    return None


def _apart(
    first: Loop, second: Loop, between: Sequence[TreeNode]
) -> tuple[list[TreeNode], list[TreeNode]] | None:
    """The nodes between two loops that go ahead of both, and those that go behind; None where one can do neither."""
    ahead: list[TreeNode] = []
    behind: list[TreeNode] = []
    for node in between:
        if are_independent(first, node) and all(are_independent(each, node) for each in behind):
            ahead.append(node)
        elif are_independent(second, node):
            behind.append(node)
        else:
            return None
    return ahead, behind


def _may_join(first: Loop, second: Loop) -> bool:
    """May iterations of both run in turns?"""
    same = (first.lower, first.upper, first.step, first.mapping)
    if same != (second.lower, second.upper, second.step, second.mapping):
        return False
    here, there = _places(first.body), _places(_renamed(second.body, second.var, first.var))
    for array in here.keys() & there.keys():
        places = here[array] | there[array]
        written = any(is_write for _, is_write in places)
        if not written:
            continue
        (index, *others) = {index for index, _ in places}
        if others or not any((linear(part) or {}).get(first.var) for part in index):
            return False
    return True


def _places(nodes: Sequence[TreeNode]) -> dict[str, set[tuple[tuple[Expr, ...], bool]]]:
    """Where each array is touched, and whether it is written there."""
    found: dict[str, set[tuple[tuple[Expr, ...], bool]]] = {}
    for node in walk_nodes(tuple(nodes)):
        target = node.target if isinstance(node, Compute) else None
        for expr in node_expressions(node):
            for load in loads(expr):
                found.setdefault(load.array, set()).add((load.index, load is target))
    return found


def _renamed(nodes: Sequence[TreeNode], old: str, new: str) -> tuple[TreeNode, ...]:
    """The nodes with another name for a variable."""

    return map_expressions(nodes, lambda expr: substitute(expr, {old: Iter(new)}))
