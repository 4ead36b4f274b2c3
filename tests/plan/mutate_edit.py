"""Changing one place of a LoopTree by name: nodes are found by how they are printed.

`at` is text that the first line of a node, as `print_tree` shows it, must contain; `nth` says
which of several (in text order). A change that finds no place is an error, so that a row of the
mutation table cannot quietly stop changing anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from loopfuse.lang.nodes import Expr, Iter, Load, Symbol
from loopfuse.lang.walk import map_expr, walk_expr
from loopfuse.tree.looptree import (
    Await,
    Combine,
    Compute,
    Copy,
    Fold,
    Guard,
    HostLoop,
    HostNode,
    Launch,
    Loop,
    LoopTree,
    Mapping,
    Raise,
    Running,
    Ticket,
    TreeNode,
)
from loopfuse.tree.printer import print_expr, print_node
from loopfuse.tree.walk import node_expressions, walk_nodes
from tests.plan.treekit import Kit

Nodes = tuple[TreeNode, ...]
Edit = Callable[[LoopTree], LoopTree]


# ------------------------------------------------------------------------------------ nodes


def map_bodies(tree: LoopTree, function: Callable[[Nodes], Nodes]) -> LoopTree:
    """The tree with `function` applied to every list of nodes, innermost first."""

    def nodes(body: Nodes) -> Nodes:
        return function(tuple(node(each) for each in body))

    def node(each: TreeNode) -> TreeNode:
        match each:
            case Loop() | Ticket() | Running():
                return replace(each, body=nodes(each.body))
            case Guard():
                return replace(each, then=nodes(each.then), otherwise=nodes(each.otherwise))
            case _:
                return each

    def host(body: tuple[HostNode, ...]) -> tuple[HostNode, ...]:
        return tuple(
            replace(each, body=host(each.body))
            if isinstance(each, HostLoop)
            else replace(each, body=nodes(each.body))
            for each in body
        )

    return replace(tree, body=host(tree.body))


def put(at: str, make: Callable[[Any], Nodes], nth: int = 0) -> Edit:
    """The `nth` node whose first line contains `at`, replaced by what `make` makes of it."""

    def edit(tree: LoopTree) -> LoopTree:
        changed = _put(tree, at, nth, make)
        assert changed != tree, f"nothing changes at {at!r}, number {nth}"
        return changed

    return edit


def _put(tree: LoopTree, at: str, nth: int, make: Callable[[Any], Nodes]) -> LoopTree:
    left = nth

    def nodes(body: Nodes) -> Nodes:
        nonlocal left
        out: list[TreeNode] = []
        for node in body:
            if at in print_node(node):
                left -= 1
                if left == -1:
                    out += make(node)
                    continue
            match node:
                case Loop() | Ticket() | Running():
                    out.append(replace(node, body=nodes(node.body)))
                case Guard():
                    out.append(replace(node, then=nodes(node.then), otherwise=nodes(node.otherwise)))
                case _:
                    out.append(node)
        return tuple(out)

    def host(body: tuple[HostNode, ...]) -> tuple[HostNode, ...]:
        return tuple(
            replace(each, body=host(each.body))
            if isinstance(each, HostLoop)
            else replace(each, body=nodes(each.body))
            for each in body
        )

    return replace(tree, body=host(tree.body))


def drop(at: str, nth: int = 0) -> Edit:
    """The node is gone."""
    return put(at, lambda node: (), nth)


def double(at: str, nth: int = 0) -> Edit:
    """The node runs twice."""
    return put(at, lambda node: (node, node), nth)


def unguard(at: str, nth: int = 0) -> Edit:
    """A guard's body runs always."""
    return put(at, lambda node: node.then, nth)


def remap(at: str, mapping: Mapping, nth: int = 0) -> Edit:
    """A loop's iterations are run by others."""
    return put(at, lambda node: (replace(node, mapping=mapping),), nth)


def before(at: str, other: str) -> Edit:
    """The node at `at` stands right before the one at `other` instead (in the same list)."""

    def edit(tree: LoopTree) -> LoopTree:
        def body(nodes: Nodes) -> Nodes:
            texts = [print_node(node) for node in nodes]
            here = next((k for k, text in enumerate(texts) if at in text), None)
            there = next((k for k, text in enumerate(texts) if other in text), None)
            if here is None or there is None:
                return nodes
            rest = [node for k, node in enumerate(nodes) if k != here]
            rest.insert(there - (there > here), nodes[here])
            return tuple(rest)

        changed = map_bodies(tree, body)
        assert changed != tree, f"nothing to put {at!r} before {other!r}"
        return changed

    return edit


# ------------------------------------------------------------------------------------ expressions


def rewrite(at: str, old: str, new: str, nth: int = 0) -> Edit:
    """In the node at `at`, the expressions printed `old` become `new`."""

    def edit(tree: LoopTree) -> LoopTree:
        return put(at, lambda node: (_rewritten(tree, node, old, new),), nth)(tree)

    return edit


def everywhere(old: str, new: str) -> Edit:
    """In all nodes, the expressions printed `old` become `new`."""

    def edit(tree: LoopTree) -> LoopTree:
        def body(nodes: Nodes) -> Nodes:
            return tuple(_rewritten(tree, node, old, new) for node in nodes)

        changed = map_bodies(tree, body)
        assert changed != tree, f"no {old!r} in the tree"
        return changed

    return edit


def _rewritten(tree: LoopTree, node: TreeNode, old: str, new: str) -> TreeNode:
    wanted = _reader(tree).ex(new)

    def one(expr: Expr) -> Expr:
        return _named(wanted, tree) if print_expr(expr) == old else expr

    def go(expr: Expr) -> Expr:
        return map_expr(one, expr)

    def load(expr: Load) -> Load:
        found = go(expr)
        assert isinstance(found, Load)
        return found

    match node:
        case Loop():
            return replace(node, lower=go(node.lower), upper=go(node.upper))
        case Guard():
            return replace(node, condition=go(node.condition))
        case Compute():
            return replace(
                node,
                iteration=tuple(go(part) for part in node.iteration),
                target=load(node.target),
                value=go(node.value),
                predicate=None if node.predicate is None else go(node.predicate),
            )
        case Copy():
            return Copy(load(node.target), go(node.value))
        case Fold():
            return replace(node, target=load(node.target), value=load(node.value))
        case Raise():
            return Raise(load(node.flag), go(node.value))
        case Await():
            return Await(load(node.flag), go(node.value))
        case Ticket():
            return replace(node, counter=load(node.counter), count=go(node.count))
        case Combine():
            return node
        case _:
            return node


def _reader(tree: LoopTree) -> Kit:
    return Kit(**{buffer.name: buffer.dtype for buffer in tree.buffers})


def _named(expr: Expr, tree: LoopTree) -> Expr:
    """What the Kit read as a loop's variable is an integer parameter where the tree says so."""
    symbols = {
        each.name: each
        for launch in tree.launches
        for node in walk_nodes(launch.body)
        for whole in node_expressions(node)
        for each in walk_expr(whole)
        if isinstance(each, Symbol)
    }

    def one(each: Expr) -> Expr:
        return symbols[each.name] if isinstance(each, Iter) and each.name in symbols else each

    return map_expr(one, expr)


def bounds(var: str, lower: str | None = None, upper: str | None = None, nth: int = 0) -> Edit:
    """The loop over `var` (in a launch, or the host's) runs from `lower` to `upper`."""

    def moved(tree: LoopTree, loop: Any) -> Any:
        read = _reader(tree).ex
        low = loop.lower if lower is None else _named(read(lower), tree)
        high = loop.upper if upper is None else _replaced_names(read(upper), loop.upper)
        return replace(loop, lower=low, upper=high)

    def host(tree: LoopTree, body: tuple[HostNode, ...]) -> tuple[HostNode, ...]:
        return tuple(
            (moved(tree, each) if each.var == var else replace(each, body=host(tree, each.body)))
            if isinstance(each, HostLoop)
            else each
            for each in body
        )

    def edit(tree: LoopTree) -> LoopTree:
        changed = replace(tree, body=host(tree, tree.body))
        if changed != tree:
            return changed
        return put(f"for {var} in ", lambda node: (moved(tree, node),), nth)(tree)

    return edit


def _replaced_names(expr: Expr, old: Expr) -> Expr:
    """Names that the old bound had keep their kind: an integer parameter is a Symbol."""
    symbols = {each.name: each for each in walk_expr(old) if isinstance(each, Symbol)}

    def one(each: Expr) -> Expr:
        return symbols[each.name] if isinstance(each, Iter) and each.name in symbols else each

    return map_expr(one, expr)


# ------------------------------------------------------------------------------------ storage, host


def home(name: str, extents: str | None = None, **changes: Any) -> Edit:
    """Buffer `name` is declared otherwise."""

    def edit(tree: LoopTree) -> LoopTree:
        if extents is not None:
            parts = tuple(_reader(tree).ex(part) for part in extents.split(",") if part)
            changes["extents"] = parts
        buffers = tuple(replace(b, **changes) if b.name == name else b for b in tree.buffers)
        assert buffers != tree.buffers, f"buffer {name} does not change"
        return replace(tree, buffers=buffers)

    return edit


def launches(change: Callable[[list[Launch | HostLoop]], list[Any]]) -> Edit:
    """The innermost list that holds launches, changed."""

    def host(body: tuple[HostNode, ...]) -> tuple[HostNode, ...]:
        if any(isinstance(each, Launch) for each in body):
            return tuple(change(list(body)))
        return tuple(
            replace(each, body=host(each.body)) if isinstance(each, HostLoop) else each
            for each in body
        )

    def edit(tree: LoopTree) -> LoopTree:
        changed = replace(tree, body=host(tree.body))
        assert changed != tree, "the launches stay as they are"
        return changed

    return edit


def all_of(*edits: Edit) -> Edit:
    """One change made of several edits."""

    def edit(tree: LoopTree) -> LoopTree:
        for each in edits:
            tree = each(tree)
        return tree

    return edit
