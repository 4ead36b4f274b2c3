"""Along the rows of a share, the next row's elements are under way while a row is worked on.

    before:  for r in rows: u: x[u] = a[r, u];  ... x[u] ...
    after:   if there is a row: u: next[u] = a[first, u]
             for r in rows: u: x[u] = next[u];  if another follows: u: next[u] = a[r + 1, u];  ... x[u] ...

A block that is alone on its multiprocessor would wait for each row's elements, and memory for the block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter, Load
from loopfuse.lang.walk import iterators, loads, substitute
from loopfuse.plan.mapping.body import Names
from loopfuse.tree.looptree import Copy, Global, Guard, Loop, Register, TreeNode
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import map_expressions, walk_nodes, with_new_loops


def a_row_ahead(loop: Loop, names: Names) -> tuple[TreeNode, ...]:
    """The loop over rows, and what stands before it."""
    written = {target.array for node in walk_nodes(loop.body) if isinstance(target := getattr(node, "target", None), Load)}

    def is_asked(node: Copy) -> bool:
        """Does it fill registers, which nothing else fills, with elements of the row that the launch only reads?"""
        value = node.value
        if not isinstance(value, Load) or not isinstance(names.buffers[value.array].home, Global):
            return False
        is_own = isinstance(names.buffers[node.target.array].home, Register) and not any(loads(part) for part in value.index)
        moves = any(loop.var in iterators(part) for part in value.index)
        return is_own and moves and value.array not in written

    at_top = {id(node) for node in _straight(loop.body)}
    filled: dict[str, list[bool]] = {}
    for node in walk_nodes(loop.body):
        if isinstance(target := getattr(node, "target", None), Load):
            filled.setdefault(target.array, []).append(isinstance(node, Copy) and id(node) in at_top and is_asked(node))
    rows = {name for name, all_asked in filled.items() if all(all_asked)}

    def parts(nodes: Sequence[TreeNode], asked: bool) -> tuple[TreeNode, ...]:
        """Of the nodes those that ask for elements of the row, or the others."""
        out: list[TreeNode] = []
        for node in nodes:
            match node:
                case Copy(target=target):
                    out += [node] if (target.array in rows) == asked else []
                case Loop(mapping=Where.UNROLLED | Where.VECTOR, body=body) if (inside := parts(body, asked)):
                    out.append(replace(node, body=inside))
                case Loop(mapping=Where.UNROLLED | Where.VECTOR):
                    pass
                case Guard(then=then, otherwise=otherwise) if (ways := (parts(then, asked), parts(otherwise, asked))) != ((), ()):
                    out.append(replace(node, then=ways[0], otherwise=ways[1]))
                case Guard():
                    pass
                case _:
                    out += [] if asked else [node]
        return tuple(out)

    asks, rest = parts(loop.body, True), parts(loop.body, False)
    if not asks:
        return (loop,)
    ahead: dict[str, str] = {}
    for name in sorted(rows):
        buffer = names.buffers[name]
        ahead[name] = names.fresh(f"{buffer.array}_ahead")
        names.add(replace(buffer, name=ahead[name]))

    def asked_for(row: Expr) -> tuple[TreeNode, ...]:
        def change(expr: Expr) -> Expr:
            if isinstance(expr, Load) and expr.array in ahead:
                return replace(expr, array=ahead[expr.array])
            return tidy(substitute(expr, {loop.var: row}))

        return with_new_loops(map_expressions(asks, change), names.fresh)

    def taken(nodes: Sequence[TreeNode]) -> tuple[TreeNode, ...]:
        """The asking nodes, of what lies in the other registers."""

        def one(node: TreeNode) -> TreeNode:
            match node:
                case Copy(target=target):
                    return replace(node, value=replace(target, array=ahead[target.array]))
                case Loop(body=body):
                    return replace(node, body=tuple(map(one, body)))
                case Guard(then=then, otherwise=otherwise):
                    return replace(node, then=tuple(map(one, then)), otherwise=tuple(map(one, otherwise)))
                case _:
                    return node

        return tuple(map(one, nodes))

    following = Iter(loop.var) + 1
    body = (*taken(asks), Guard(following < loop.upper, asked_for(following)), *rest)
    return (Guard(loop.lower < loop.upper, asked_for(loop.lower)), replace(loop, body=body))


def _straight(nodes: Sequence[TreeNode]) -> Iterator[TreeNode]:
    """The nodes that are run at most once each, loops written out."""
    for node in nodes:
        match node:
            case Loop(mapping=Where.UNROLLED | Where.VECTOR, body=body):
                yield from _straight(body)
            case Guard(then=then, otherwise=otherwise):
                yield from _straight((*then, *otherwise))
            case _:
                yield node
