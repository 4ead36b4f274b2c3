"""The end of a row, where a loop tests each element: written out by how many there are.

    before:  unrolled for u in 0..4: if u * 32 + x < W: S(u)
    after:   if 2 * 32 + x < W: { S(0); S(1); S(2); if 3 * 32 + x < W: S(3) }
             elif 32 + x < W: { S(0); S(1) }
             elif x < W: S(0)

The elements that there are come before those that there are not. So without tests between them, all
their loads are under way together: where rows are short, most of the time goes there (batch-norm of
113 columns on an H100: 0.86 of a copy became 1.01).

Needs: one guard without an `else`, whose condition is `u * c + x < y` with c > 0; loads. Not where lanes
have elements of their own (windows), which test them all at once.
"""

from __future__ import annotations

from loopfuse.codegen.abi import walk_nodes
from loopfuse.codegen.mlir.emit import Emitter
from loopfuse.codegen.mlir.index import linear, mentions
from loopfuse.lang.nodes import Compare, Expr, integer
from loopfuse.lang.walk import loads, substitute
from loopfuse.tree.looptree import Compute, Copy, Global, Guard, Loop, Mapping, TreeNode

MOST = 16
"""Iterations, at most."""
LENGTHS = 4
"""By how many lengths of the end."""


def by_length(emitter: Emitter, loop: Loop) -> TreeNode | None:
    """What the loop is written out as; None where it stays as it is."""
    lower, upper = linear(loop.lower, emitter.facts), linear(loop.upper, emitter.facts)
    count = upper.constant
    if lower.terms or lower.constant or upper.terms or loop.step != 1 or not 2 <= count <= MOST:
        return None
    if not emitter.gpu or emitter.lane or emitter.vector:
        return None
    if len(loop.body) != 1 or not isinstance(loop.body[0], Guard):
        return None
    guard = loop.body[0]
    if guard.otherwise or not _rises(emitter, guard.condition, loop.var):
        return None
    if not loads_memory(emitter, guard.then):
        return None

    def part(first: int, end: int, body: tuple[TreeNode, ...]) -> Loop:
        return Loop(loop.var, integer(first), integer(end), 1, Mapping.UNROLLED, body)

    def holds(number: int) -> Expr:
        return substitute(guard.condition, {loop.var: integer(number)})

    apart = -(-count // LENGTHS)
    out: TreeNode = (
        part(0, apart, (guard,)) if apart > 1 else Guard(holds(0), (part(0, 1, guard.then),))
    )
    for whole in range(apart, count, apart):
        nodes: tuple[TreeNode, ...] = (part(0, whole, guard.then),)
        end = min(whole + apart, count)
        if apart > 1:
            nodes += (part(whole, end, (guard,)),)
        elif end == count:  # else the next is not there: that was asked before
            nodes += (Guard(holds(whole), (part(whole, end, guard.then),)),)
        out = Guard(holds(whole - 1), nodes, (out,))
    return out


def _rises(emitter: Emitter, condition: Expr, var: str) -> bool:
    """Does the condition, once it is false, stay false?"""
    if not isinstance(condition, Compare) or condition.op != "lt":
        return False
    left, right = (linear(each, emitter.facts) for each in (condition.left, condition.right))
    if any(True for _ in loads(condition)) or mentions(right, var):
        return False
    return left.coefficient(var) > 0 and not mentions(left.without(var), var)


def loads_memory(emitter: Emitter, body: tuple[TreeNode, ...]) -> bool:
    """Does anything in the body load from memory of the device?"""
    return any(
        isinstance(emitter.storage[load.array].buffer.home, Global)
        for node in walk_nodes(body)
        if isinstance(node, Compute | Copy)
        for load in loads(node.value)
    )
