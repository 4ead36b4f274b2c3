"""Conditions that hold in all of a part of a tree are not tested in it.

    before:  u in 0..8: if k * 256 + u * 32 + lane < C: S
    after:   if (k + 1) * 256 <= C: u in 0..8: S
             else: u in 0..8: if k * 256 + u * 32 + lane < C: S

Side condition: that what is dropped holds wherever the condition does (`lang.linear.implies`), for every value
of the loops around. The checker erases the rewrite (`erase`): where the first way is the second one without
tests that the condition implies, it looks at the second alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loopfuse.lang.linear import constant_value, implies
from loopfuse.lang.nodes import Expr, Iter
from loopfuse.lang.walk import substitute
from loopfuse.tree.looptree import Guard, HostLoop, HostNode, Loop, LoopTree, Ticket, TreeNode
from loopfuse.tree.walk import map_expressions

Ranges = Mapping[str, tuple[int, int]]
"""First and last value of loop variables whose bounds are constants."""


def without_implied(nodes: Sequence[TreeNode], condition: Expr, ranges: Ranges) -> tuple[TreeNode, ...]:
    """`nodes` without the tests that `condition` implies."""
    out: list[TreeNode] = []
    for node in nodes:
        match node:
            case Guard(condition=test, then=then) if implies(condition, test, ranges):
                out += without_implied(then, condition, ranges)
            case Guard(then=then, otherwise=otherwise):
                one, other = (without_implied(way, condition, ranges) for way in (then, otherwise))
                out.append(replace(node, then=one, otherwise=other))
            case Loop(body=body):
                out.append(replace(node, body=without_implied(body, condition, inside(node, ranges))))
            case _:
                out.append(node)
    return tuple(out)


def inside(loop: Loop, ranges: Ranges) -> Ranges:
    """The ranges inside a loop."""
    lower, upper = constant_value(loop.lower), constant_value(loop.upper)
    if lower is None or upper is None or upper <= lower:
        return {name: ends for name, ends in ranges.items() if name != loop.var}
    return {**ranges, loop.var: (lower, upper - 1)}


def erase(tree: LoopTree) -> LoopTree:
    """The tree with specialised parts as they were."""

    def host(node: HostNode) -> HostNode:
        if isinstance(node, HostLoop):
            return replace(node, body=tuple(map(host, node.body)))
        return replace(node, body=_erased(node.body, {}))

    found = tuple(map(host, tree.body))
    return tree if found == tree.body else replace(tree, body=found)


def _erased(nodes: Sequence[TreeNode], ranges: Ranges) -> tuple[TreeNode, ...]:
    out: list[TreeNode] = []
    for node in nodes:
        match node:
            case Guard(condition=condition, then=then, otherwise=otherwise):
                if then and otherwise and is_specialised(condition, then, otherwise, ranges):
                    out += _erased(otherwise, ranges)
                else:
                    ways = _erased(then, ranges), _erased(otherwise, ranges)
                    out.append(replace(node, then=ways[0], otherwise=ways[1]))
            case Loop(body=body):
                out.append(replace(node, body=_erased(body, inside(node, ranges))))
            case Ticket(body=body):
                out.append(replace(node, body=_erased(body, ranges)))
            case _:
                out.append(node)
    return tuple(out)


def is_specialised(
    condition: Expr, then: Sequence[TreeNode], otherwise: Sequence[TreeNode], ranges: Ranges
) -> bool:
    """Is `then` what `otherwise` is without the tests that `condition` implies, up to names of loops?"""
    return _same(then, without_implied(otherwise, condition, ranges), {})


def _same(ones: Sequence[TreeNode], others: Sequence[TreeNode], names: Mapping[str, Expr]) -> bool:
    """`names`: what loop variables of `ones` are called in `others`."""
    return len(ones) == len(others) and all(
        _same_node(one, other, names) for one, other in zip(ones, others, strict=True)
    )


def _same_node(one: TreeNode, other: TreeNode, names: Mapping[str, Expr]) -> bool:
    def named(expr: Expr) -> Expr:
        return substitute(expr, names)

    match one, other:
        case Loop(), Loop():
            ends = (named(one.lower), named(one.upper), one.step, one.mapping)
            return ends == (other.lower, other.upper, other.step, other.mapping) and _same(
                one.body, other.body, {**names, one.var: Iter(other.var)}
            )
        case Guard(), Guard():
            return (
                named(one.condition) == other.condition
                and _same(one.then, other.then, names)
                and _same(one.otherwise, other.otherwise, names)
            )
        case (Loop() | Guard() | Ticket(), _) | (_, Loop() | Guard() | Ticket()):
            return False
        case _:
            try:
                return map_expressions((one,), named) == (other,)
            except TypeError:  # what has no values to move
                return one == other

