"""A collapsed tree, as it is run: several dimensions as one (`poly.collapse` says when that is so).

before:  GRID y: 0..H, GRID b: 0..ceil(W / 256), ... a[y, 256*b + t]     with a: f32[H, W]
after:   GRID b: 0..ceil(H*W / 256), ...            a[0, 256*b + t]     with a: f32[1, H*W]

The checker proves the tree before, for all sizes; the one after does what that one does at sizes
(1, H*W). Nobody else may look at a tree after: products of sizes are beyond isl.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from loopfuse.base.dtypes import DType
from loopfuse.lang.index import TRUE
from loopfuse.lang.nodes import Binary, Compare, Const, Expr, Symbol, combine, compare, integer
from loopfuse.lang.walk import map_expr, substitute
from loopfuse.tree.looptree import (
    Compute,
    Guard,
    HostLoop,
    HostNode,
    Launch,
    Loop,
    LoopTree,
    Mapping,
    TreeNode,
)
from loopfuse.tree.rewrite.coalesce import coalesce
from loopfuse.tree.walk import as_load, walk_nodes


def as_one(tree: LoopTree) -> LoopTree:
    """The tree with its collapsed dimensions, and the coalesced loops of its launches, as one; the tree itself where it
    has none."""
    if any(launch.coalesced for launch in tree.launches):
        tree = _coalesced(tree)
    if not tree.collapsed:
        return tree
    change = _Change(tree.collapsed)
    buffers = tuple(
        replace(buffer, extents=tuple(map(change.expr, buffer.extents))) for buffer in tree.buffers
    )
    return replace(tree, buffers=buffers, body=change.host(tree.body, {}), collapsed=())


def _coalesced(tree: LoopTree) -> LoopTree:
    def host(node: HostNode) -> HostNode:
        return coalesce(node) if isinstance(node, Launch) else replace(node, body=tuple(map(host, node.body)))

    return replace(tree, body=tuple(map(host, tree.body)))


def collapse_fault(tree: LoopTree) -> str:
    """What is wrong with a collapsed tree's form; "" if nothing is."""
    names = [name for sizes in tree.collapsed for name in dict.fromkeys(sizes)]
    if not names:
        return ""
    if len(set(names)) < len(names) or any(len(sizes) < 2 for sizes in tree.collapsed):
        return "what runs as one are two sizes or more, none of them in another run"
    if any(sizes[-1] in sizes[:-1] for sizes in tree.collapsed):
        return "the size that becomes the product is none of the others"
    if any(buffer.strides is not None for buffer in tree.buffers):
        return "dimensions that run as one lie one after the other"
    for launch in tree.launches:
        if any(not isinstance(node, Loop | Guard | Compute) for node in walk_nodes(launch.body)):
            return "what runs as one are loops, guards and computations"
    return ""


class _Change:
    def __init__(self, collapsed: tuple[tuple[str, ...], ...]) -> None:
        self.values: dict[str, Expr] = {}
        for *ones, last in collapsed:
            self.values |= dict.fromkeys(ones, integer(1))
            sizes = [Symbol(name, DType.I64) for name in (*ones, last)]
            self.values[last] = reduce(lambda a, b: a * b, sizes)

    def expr(self, expr: Expr) -> Expr:
        """With the sizes of the other call, and what is constant then."""

        def one(node: Expr) -> Expr:
            match node:
                case Symbol(name=name):
                    return self.values.get(name, node)
                case Binary(op=op, left=left, right=right, dtype=DType.I64):
                    return combine(op, left, right) if op in _INDEX else node
                case Compare(op=op, left=Const() as left, right=Const() as right):
                    return compare(op, left, right) if left.dtype is DType.I64 else node
                case Binary(op="and" | "or" as op, left=left, right=right, dtype=DType.BOOL):
                    found = _either(op, left, right)
                    return node if found is None else found
                case _:
                    return node

        return map_expr(one, expr)

    def host(self, body: tuple[HostNode, ...], known: dict[str, Expr]) -> tuple[HostNode, ...]:
        """The nodes of the host."""
        out: list[HostNode] = []
        for node in body:
            match node:
                case HostLoop(lower=lower, upper=upper):
                    inside = self.host(node.body, known)
                    lower, upper = self.expr(lower), self.expr(upper)
                    out.append(replace(node, lower=lower, upper=upper, body=inside))
                case Launch():
                    out.append(replace(node, body=self.nodes(node.body, known)))
        return tuple(out)

    def nodes(self, body: tuple[TreeNode, ...], known: dict[str, Expr]) -> tuple[TreeNode, ...]:
        """The nodes of a launch; `known`: the values of loops that run once."""
        return tuple(new for node in body for new in self.node(node, known))

    def node(self, node: TreeNode, known: dict[str, Expr]) -> tuple[TreeNode, ...]:
        """One node; a loop over blocks (or a CPU's workers) that runs once is its body."""

        def now(expr: Expr) -> Expr:
            return self.expr(substitute(expr, known))

        match node:
            case Loop(var=var, mapping=mapping):
                lower, upper = now(node.lower), now(node.upper)
                if mapping in (Mapping.GRID, Mapping.THREAD) and lower == integer(0) and upper == integer(1):
                    return self.nodes(node.body, {**known, var: integer(0)})
                inside = self.nodes(node.body, known)
                return (replace(node, lower=lower, upper=upper, body=inside),)
            case Guard(condition=condition):
                condition = now(condition)
                then, otherwise = self.nodes(node.then, known), self.nodes(node.otherwise, known)
                if condition == TRUE:
                    return then
                return (replace(node, condition=condition, then=then, otherwise=otherwise),)
            case Compute(target=target, value=value, predicate=predicate):
                changed = replace(
                    node,
                    iteration=tuple(map(now, node.iteration)),
                    target=as_load(now(target)),
                    value=now(value),
                    predicate=None if predicate is None else now(predicate),
                )
                return (changed,)
            case _:
                raise AssertionError(f"a collapsed tree has no {type(node).__name__}")


_INDEX = ("add", "sub", "mul", "floordiv", "mod", "min", "max")


def _either(op: str, left: Expr, right: Expr) -> Expr | None:
    """`left and right` (or `or`), where one of them is a constant."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Const):
            return other if bool(one.value) is (op == "and") else one
    return None
