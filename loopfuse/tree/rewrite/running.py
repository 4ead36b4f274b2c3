"""A reduction and the sums that depend on its result, in one pass.

    before:  m = -inf                                   after:  running
             for q: S1[q]: m = max(m, x[q])                       m = -inf;  s = 0;  seen = 0;  was = -inf
             combine max m over t, everywhere                     for q of each part of the pass:
             s = 0                                                  S1[q]: m = max(m, x[q])
             for q: S2[q]: s = s + exp(x[q] - m)                    rescale s to max m
             combine sum s over t                                   S2[q]: s = s + exp(x[q] - seen)
                                                                  combine max m over t, everywhere
                                                                  rescale s to m at last
                                                                  combine sum s over t

The sum holds what it would with the value that m had: each term has a factor `exp(.. - m)`, so that one product, by
`exp(was - m)`, makes it what it is with the value that m has now. (Of a least value all signs are turned.) As long as nothing but -inf has come,
`seen` is 0 in place of it: `exp(-inf - 0)` is 0 where `exp(-inf - -inf)` would be NaN, which the sum could not lose
again. At last it is NaN, as the program's is, where nothing else came at all: `exp(was - m)` is then.

Likewise a sum of squares of distances from a mean, `v = v + (x[q] - mean) ** 2`, where `mean = s / n` stands behind the first pass. Terms are of the mean of what
a thread has had (`seen`); from there to a value that lies d further is

    sum((x - seen - d) ** 2)  =  sum((x - seen) ** 2) + d * (count * d - 2 * sum(x - seen))

whatever d is. A thread's own mean is near its elements, so that nothing large cancels: after each part the sum of `x - seen` is nearly 0.

Side condition: `form.running`. The checker sees the two passes (`erase`), interpreters and code generation what `as_numbers` makes of a
Rescale and of the updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loopfuse.lang.nodes import Binary, Compare, Const, Expr, Load, Select
from loopfuse.lang.semantics import neutral
from loopfuse.lang.walk import loads, map_expr
from loopfuse.tree.looptree import (
    Combine,
    Compute,
    Copy,
    Fold,
    Guard,
    Loop,
    LoopTree,
    Rescale,
    Running,
    TreeNode,
)
from loopfuse.tree.rewrite.terms import distance, other_of
from loopfuse.tree.walk import bodies, map_expressions, map_nodes, walk_nodes, with_new_loops


def has_running(tree: LoopTree) -> bool:
    """Does the tree reduce in one pass what depends on another reduction?"""
    return any(isinstance(node, Running) for launch in tree.launches for node in walk_nodes(launch.body))


def rescale_of(node: Running) -> Rescale:
    """The first of its body, in text order: all are of the same registers."""
    return next(each for each in walk_nodes(node.body) if isinstance(each, Rescale))


def erase(tree: LoopTree) -> LoopTree:
    """The tree with the two passes one after the other."""
    if not has_running(tree):
        return tree
    return map_nodes(lambda node: _two_passes(node) if isinstance(node, Running) else (node,), tree)


def as_numbers(tree: LoopTree) -> LoopTree:
    """The tree in which each Rescale is what it computes."""
    if not has_running(tree):
        return tree
    return map_nodes(lambda node: _counted(node.body, rescale_of(node)) if isinstance(node, Running) else (node,), tree)


# ------------------------------------------------------------------------------- what it computes


def _counted(nodes: Sequence[TreeNode], one: Rescale) -> tuple[TreeNode, ...]:
    """The nodes with each Rescale as what it computes, and behind updates what it needs of them."""
    out: list[TreeNode] = []
    for node in nodes:
        match node:
            case Rescale():
                out += _to_mean(node) if node.op == "sum" else _to_extreme(node)
            case Loop(body=body):
                out.append(replace(node, body=_counted(body, one)))
            case Guard(then=then, otherwise=otherwise):
                out.append(replace(node, then=_counted(then, one), otherwise=_counted(otherwise, one)))
            case Compute(target=target, value=value) if one.op == "sum" and target in loads(value):
                count, _, linear = one.own
                out.append(node)
                if target == one.reference:
                    out.append(Copy(count, Binary("add", count, Const(1.0, count.dtype), count.dtype)))
                if target == one.sums[0] and (added := other_of(node, "add")) is not None:
                    away = distance(added, one.seen)
                    assert away is not None
                    out.append(Copy(linear, Binary("add", linear, Binary("sub", away, one.seen, linear.dtype), linear.dtype)))
            case _:
                assert not bodies(node)
                out.append(node)
    return tuple(out)


def _to_extreme(node: Rescale) -> tuple[TreeNode, ...]:
    now, (was,), dtype, factor = node.reference, node.own, node.reference.dtype, node.factor
    assert factor is not None
    if not node.last:
        factor = Select(Compare("eq", was, now), Const(1.0, dtype), factor, dtype)
    scaled = tuple(Copy(each, Binary("mul", each, factor, dtype)) for each in node.sums)
    if node.last:
        return scaled
    nothing = Const(neutral(node.op, dtype), dtype)
    seen = Select(Compare("eq", now, nothing), Const(0.0, dtype), now, dtype)
    return (*scaled, Copy(was, now), Copy(node.seen, seen))


def _to_mean(node: Rescale) -> tuple[TreeNode, ...]:
    count, before, linear = node.own
    dtype, seen = node.seen.dtype, node.seen
    to: Expr = node.result
    if not node.last:
        zero = Const(0.0, dtype)
        to = Select(Compare("eq", count, zero), zero, Binary("div", node.reference, count, dtype), dtype)
    # Each line reads what those behind it change.
    away = Binary("sub", to, seen, dtype)
    twice = Binary("mul", Const(2.0, dtype), linear, dtype)
    more = Binary("mul", away, Binary("sub", Binary("mul", before, away, dtype), twice, dtype), dtype)
    moved: tuple[TreeNode, ...] = tuple(Copy(each, Binary("add", each, more, dtype)) for each in node.sums)
    if node.last:
        return moved
    left = Binary("sub", linear, Binary("mul", before, away, dtype), dtype)
    return (*moved, Copy(linear, left), Copy(seen, to), Copy(before, count))


# ------------------------------------------------------------------------------- the two passes


def _two_passes(node: Running) -> tuple[TreeNode, ...]:
    one = rescale_of(node)
    sums = {load.array for load in one.sums}
    own = {one.seen.array, *(load.array for load in one.own)}
    first = _without(node.body, sums | own)
    behind = next(k for k, each in enumerate(node.body) if isinstance(each, Combine))
    passed = {each.target.array for each in walk_nodes(node.body[behind:]) if isinstance(each, Compute)}
    again = _without(node.body, {each.buffer for each in walk_nodes(node.body) if isinstance(each, Combine)} - sums | passed | own)

    def change(expr: Expr) -> Expr:
        return map_expr(lambda part: one.result if isinstance(part, Load) and part.array == one.seen.array else part, expr)

    return (*first, *with_new_loops(map_expressions(again, change), lambda var: f"{var}.again"))


def _without(nodes: Sequence[TreeNode], names: set[str]) -> tuple[TreeNode, ...]:
    """The nodes but those that write these registers, and what is left empty."""
    out: list[TreeNode] = []
    for node in nodes:
        match node:
            case Compute(target=target) | Copy(target=target) | Fold(target=target):
                out += [] if target.array in names else [node]
            case Combine(buffer=buffer):
                out += [] if buffer in names else [node]
            case Rescale():
                pass
            case Loop(body=body):
                inside = _without(body, names)
                out += [replace(node, body=inside)] if inside or not body else []
            case Guard(then=then, otherwise=otherwise):
                ways = _without(then, names), _without(otherwise, names)
                out += [replace(node, then=ways[0], otherwise=ways[1])] if any(ways) else []
            case _:
                out.append(node)
    return tuple(out)


def algebra(node: Rescale, name: str) -> str:
    """`max then sum(exp): one pass by the factor exp(m_old - m_new)`, of a value of that name."""
    if node.op == "sum":
        return f"sum then sum of squares: one pass about each thread's mean, brought to {name}"
    ends = ("old", "new") if node.op == "max" else ("new", "old")
    return f"{node.op} then sum(exp): one pass by the factor exp({name}_{ends[0]} - {name}_{ends[1]})"
