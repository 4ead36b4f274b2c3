"""STRADDLED loops: what the tree's rules and the checker ask of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import InternalError, Source
from loopfuse.base.options import Options, Target
from loopfuse.lang.index import TRUE
from loopfuse.lang.nodes import Binary, Const, Expr, Load, combine, integer
from loopfuse.lang.walk import map_expr
from loopfuse.proof.check import verify
from loopfuse.tree.form.check import check_tree
from loopfuse.tree.form.straddled import straddled_copy
from loopfuse.tree.looptree import (
    STREAMED,
    Copy,
    Guard,
    Launch,
    Loop,
    LoopTree,
    Mapping,
    TreeNode,
)
from loopfuse.tree.walk import walk_nodes

BLUR = """
kernel f(a: f32[H, W], out c: f32[H, W]):
    temp b: f32[H, W]
    for y in 0..H, x in 1..W-1:
        b[y, x] = a[y, x-1] + a[y, x] + a[y, x+1]
    for y in 1..H-1, x in 1..W-1:
        c[y, x] = b[y-1, x] + b[y, x] + b[y+1, x]
"""
DOWN = """
kernel f(a: f32[H, W], out c: f32[H, W]):
    for y in 1..H-1, x in 0..W:
        c[y, x] = a[y-1, x] + a[y, x] + a[y+1, x]
"""


@cache
def planned(text: str = BLUR) -> pipeline.Planned:
    program = pipeline.read_program(Source("t.lf", text.lstrip()))
    return pipeline.plan_kernel(program, "f", Options(target=Target("sm_90")))


def is_settle(node: TreeNode) -> bool:
    copy = straddled_copy(node) if isinstance(node, Loop) else None
    return copy is not None and copy.target == copy.value


def edited(tree: LoopTree, edit: Callable[[TreeNode], tuple[TreeNode, ...]]) -> LoopTree:
    """The tree with `edit` made of every node, innermost first."""

    def body(nodes: tuple[TreeNode, ...]) -> tuple[TreeNode, ...]:
        out: list[TreeNode] = []
        for node in nodes:
            match node:
                case Loop():
                    node = replace(node, body=body(node.body))
                case Guard():
                    node = replace(node, then=body(node.then), otherwise=body(node.otherwise))
                case _:
                    pass
            out += edit(node)
        return tuple(out)

    launches = [
        replace(each, body=body(each.body)) if isinstance(each, Launch) else each
        for each in tree.body
    ]
    changed = replace(tree, body=tuple(launches))
    assert changed.body != tree.body
    return changed


def straddled(tree: LoopTree) -> list[Loop]:
    return [
        node
        for node in walk_nodes(tree.launches[0].body)
        if isinstance(node, Loop) and node.mapping is Mapping.STRADDLED
    ]


def test_rows_are_loaded_settled_and_stored() -> None:
    loops = straddled(planned().tree)
    assert len(loops) == 3 and sum(map(is_settle, loops)) == 1
    assert planned().verdict.answer == "proved"


def test_strips_at_the_edge_have_a_way_of_their_own() -> None:
    """Without a halo the first strip starts at column 0, where nothing lies before."""
    found = planned(DOWN)
    assert found.verdict.answer == "proved" and len(straddled(found.tree)) == 3


def fails(tree: LoopTree, rule: str) -> None:
    with pytest.raises(InternalError, match=rule):
        check_tree(tree)


def test_rows_must_settle() -> None:
    gone = edited(planned().tree, lambda node: () if is_settle(node) else (node,))
    fails(gone, "come to their places once")


@pytest.mark.parametrize("by", [-1, 1])
def test_rows_settle_in_time(by: int) -> None:
    def shift(expr: Expr) -> Expr:
        if not isinstance(expr, Load):
            return expr
        row, *columns = expr.index
        return replace(expr, index=(combine("add", row, integer(by)), *columns))

    def one(node: TreeNode) -> tuple[TreeNode, ...]:
        if not isinstance(node, Loop) or not is_settle(node):
            return (node,)
        copy = node.body[0]
        assert isinstance(copy, Copy)
        moved = map_expr(shift, copy.target)
        assert isinstance(moved, Load)
        return (replace(node, body=(Copy(moved, moved),)),)

    changed = edited(planned().tree, one)
    if by < 0:
        fails(changed, "do not come to their places in time")
    else:
        check_tree(changed)  # earlier than it need be: it waits for memory


def test_rows_settle_before_they_are_handed_on() -> None:
    def last(node: TreeNode) -> tuple[TreeNode, ...]:
        if not isinstance(node, Loop) or node.mapping not in STREAMED:
            return (node,)
        late = [each for each in node.body if is_settle(each)]
        return (replace(node, body=(*(n for n in node.body if n not in late), *late)),)

    fails(edited(planned().tree, last), "touched before it is in its place")


def test_a_warp_moves_together() -> None:
    """The condition on lanes stands inside: outside, some lanes would not hand their columns on."""

    def one(node: TreeNode) -> tuple[TreeNode, ...]:
        if not isinstance(node, Loop) or node.mapping is not Mapping.STRADDLED:
            return (node,)
        guard = node.body[0]
        if not isinstance(guard, Guard):
            return (node,)
        return (replace(guard, then=(replace(node, body=guard.then),)),)

    fails(edited(planned().tree, one), "not every thread of the warp comes here")


def test_only_copies() -> None:
    def one(node: TreeNode) -> tuple[TreeNode, ...]:
        if not isinstance(node, Loop) or not is_settle(node):
            return (node,)
        return (replace(node, body=(*node.body, *node.body)),)

    fails(edited(planned().tree, one), "come to their places once")

    def zero(node: TreeNode) -> tuple[TreeNode, ...]:
        if not isinstance(node, Loop) or not is_settle(node):
            return (node,)
        copy = node.body[0]
        assert isinstance(copy, Copy)
        return (replace(node, body=(Copy(copy.target, Const(0.0, copy.target.dtype)),)),)

    fails(edited(planned().tree, zero), "come to their places once")


@pytest.mark.parametrize(("text", "number"), [(DOWN, 0), (DOWN, 1), (BLUR, 1)])
def test_vectors_beyond_the_array_are_refused(text: str, number: int) -> None:
    """Without the room that the tile's guard asks for, the checker does not say `proved`."""
    found = planned(text)

    def one(node: TreeNode) -> tuple[TreeNode, ...]:
        if not isinstance(node, Guard) or not isinstance(node.condition, Binary):
            return (node,)
        inside = [n for n in walk_nodes(node.then) if isinstance(n, Loop)]
        if not any(n.mapping is Mapping.STRADDLED for n in inside):
            return (node,)
        parts: list[Expr] = []

        def split(expr: Expr) -> None:
            if isinstance(expr, Binary) and expr.op == "and":
                split(expr.left)
                split(expr.right)
            else:
                parts.append(expr)

        split(node.condition)
        parts.remove(parts[-2] if number == 0 else parts[-1])  # room before; room behind
        kept = parts or [TRUE]
        out = kept[0]
        for part in kept[1:]:
            out = Binary("and", out, part, out.dtype)
        return (replace(node, condition=out),)

    tree = edited(found.tree, one)
    assert verify(found.program, found.dependences, tree).answer != "proved"
