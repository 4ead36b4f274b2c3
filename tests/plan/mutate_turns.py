"""Rows of the mutation table on launches that run twice with their arrays exchanged (`tree.rewrite.turns`):
who has a name when, which half stores what, which steps a half makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from loopfuse.lang.nodes import Compare, Expr, Iter, combine, integer
from loopfuse.lang.walk import iterators, map_expr
from loopfuse.tree.looptree import Compute, Guard, HostLoop, HostNode, LoopTree, TreeNode
from loopfuse.tree.walk import map_nodes
from tests.plan.mutate_edit import Edit
from tests.plan.mutate_table import Row, planned
from tests.plan.mutate_windows import STEPS, from_other, reading

JACOBI = """
kernel f(inout a: f32[H, W], inout b: f32[H, W], n: i64):
    for t in 0..n:
        for y in 1..H-1, x in 1..W-1:
            b[y, x] = 0.2 * (a[y, x] + a[y, x-1] - a[y, x+1] + a[y+1, x] + a[y-1, x])
        for y in 1..H-1, x in 1..W-1:
            a[y, x] = 0.2 * (b[y, x] - b[y, x-1] + b[y, x+1] + b[y+1, x] + b[y-1, x])
"""

BASES = [
    planned("turning", "sm_90", {"H": 6, "W": 9, "n": 4}, {"H": 12, "W": 63, "n": 5},
            text=JACOBI, tuning=replace(STEPS, steps=2), merged=True),
]  # fmt: skip


def buffers(change: Callable[[tuple[str, ...]], tuple[str, ...]], name: str) -> Edit:
    """Other turns for the buffer whose name starts so."""

    def edit(tree: LoopTree) -> LoopTree:
        return replace(
            tree,
            buffers=tuple(
                replace(b, turns=change(b.turns)) if b.turns and b.name.startswith(name) else b
                for b in tree.buffers
            ),
        )

    return edit


def host(change: Callable[[HostLoop], HostNode]) -> Edit:
    """The loops that something turns with, changed."""

    def one(node: HostNode) -> HostNode:
        if not isinstance(node, HostLoop):
            return node
        node = replace(node, body=tuple(map(one, node.body)))
        return change(node) if node.turns else node

    return lambda tree: replace(tree, body=tuple(map(one, tree.body)))


def halves(tree: LoopTree) -> set[str]:
    """The variables of the loops that something turns with."""
    found: set[str] = set()

    def note(loop: HostLoop) -> HostLoop:
        found.add(loop.var)
        return loop

    host(note)(tree)
    return found


def guards(change: Callable[[Guard], tuple[TreeNode, ...]]) -> Edit:
    """What runs in one half alone, changed."""

    def edit(tree: LoopTree) -> LoopTree:
        names = halves(tree)

        def one(node: TreeNode) -> tuple[TreeNode, ...]:
            is_half = isinstance(node, Guard) and iterators(node.condition) <= names
            return change(node) if is_half and iterators(node.condition) else (node,)  # pyright: ignore

        return map_nodes(one, tree)

    return edit


def iterations(change: Callable[[Expr], Expr]) -> Edit:
    """The variable of the half in what instances claim, changed."""

    def edit(tree: LoopTree) -> LoopTree:
        names = halves(tree)

        def moved(expr: Expr) -> Expr:
            return map_expr(lambda e: change(e) if isinstance(e, Iter) and e.name in names else e, expr)

        def one(node: TreeNode) -> tuple[TreeNode, ...]:
            if not isinstance(node, Compute):
                return (node,)
            return (replace(node, iteration=tuple(map(moved, node.iteration))),)

        return map_nodes(one, tree)

    return edit


def number(guard: Guard, value: int) -> tuple[TreeNode, ...]:
    assert isinstance(guard.condition, Compare)
    return (replace(guard, condition=replace(guard.condition, right=integer(value))),)


CLAIM = "it is wrong in what it claims only: the time does not occur in the value"

ROWS = [
    Row("read and written exchanged", "turning windows", "what is read and what is written change places",
        buffers(lambda turns: turns[::-1], "a__")),
    Row("always the array", "turning windows", "the array is read in both halves",
        buffers(lambda turns: (turns[0], turns[0]), "a__from")),
    Row("always the copy", "turning windows", "the copy is read in both halves",
        buffers(lambda turns: (turns[1], turns[1]), "a__from")),
    Row("into the array in both", "turning windows", "the array is written in both halves",
        buffers(lambda turns: (turns[1], turns[1]), "a__to")),
    Row("into the copy in both", "turning windows", "the copy is written in both halves",
        buffers(lambda turns: (turns[0], turns[0]), "a__to")),
    Row("one half alone", "turning windows", "the second half does not run",
        host(lambda loop: replace(loop, upper=integer(1)))),
    Row("three halves", "turning windows", "the loop runs a third time",
        host(lambda loop: replace(loop, upper=integer(3)))),
    Row("nothing turns", "turning windows", "the loop names nothing that turns",
        host(lambda loop: replace(loop, turns=()))),
    Row("borders from the copy", "turning windows", "what no step writes is read from the copy",
        from_other(r"copy a_window\w*\[.*= a\[", "a", "a__copy")),
    Row("steps from the array", "turning windows", "what steps write is read from the array in both halves",
        from_other(r"copy a_window\w*\[.*= a__from\[", "a__from", "a")),
    Row("stored where it is read", "turning windows", "results go where the other tiles still read",
        from_other(r"copy a__to\[", "a__to", "a__from")),
    Row("a row off", "turning windows", "what turns is read a row further down",
        reading(r"copy a_window\w*\[.*= a__from\[", r"^a__from", 0, 1)),
    Row("last of b in the first half", "turning windows", "the array besides is stored behind the first half",
        guards(lambda guard: number(guard, 0))),
    Row("b never stored", "turning windows", "the array besides is stored in no half",
        guards(lambda guard: number(guard, 2))),
    Row("halves of no length", "turning windows", "both halves claim to be the same steps",
        iterations(lambda half: integer(0)), harmless=CLAIM),
    Row("halves too far apart", "turning windows", "the second half claims to be later steps",
        iterations(lambda half: combine("mul", half, integer(2))), harmless=CLAIM),
    Row("halves in the other order", "turning windows", "the first half claims to be the second",
        iterations(lambda half: combine("sub", integer(1), half)), harmless=CLAIM),
]  # fmt: skip
