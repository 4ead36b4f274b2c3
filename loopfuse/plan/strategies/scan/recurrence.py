"""Linear recurrences through an array, with the value of the iteration before in a register.

    before:  for t in 1..T: y[t] = a[t] * y[t - 1] + b[t]
    after:   run = y[0]
             for t in 1..T: y[t] = a[t] * run + b[t];  run = a[t] * run + b[t]

(What stands there twice is computed once.) So what is read of `y` elsewhere is the value of an iteration as ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from loopfuse.lang.linear import constant_value, tidy
from loopfuse.lang.nodes import Binary, Compare, Const, Expr, Load, Select
from loopfuse.lang.semantics import neutral
from loopfuse.lang.walk import children, loads, moved_to, substitute
from loopfuse.plan.mapping.body import Names
from loopfuse.tree.looptree import LINEAR, Buffer, Compute, Copy, Guard, Loop, Register, TreeNode


def in_registers(nodes: Sequence[TreeNode], recurrences: Set[str], names: Names) -> tuple[tuple[TreeNode, ...], dict[str, Load]]:
    """The nodes of a thread with what the recurrences (statements) have so far in registers, and those; it is set
    before their loop. Those whose update stands under a condition of its own are left."""
    found: dict[str, Load] = {}

    def each(nodes: Sequence[TreeNode]) -> tuple[TreeNode, ...]:
        out: list[TreeNode] = []
        for node in nodes:
            match node:
                case Loop(body=body):
                    before, inside = loop(node, body)
                    out += [*before, replace(node, body=inside)]
                case Guard(then=then, otherwise=otherwise):
                    out.append(replace(node, then=each(then), otherwise=each(otherwise)))
                case _:
                    out.append(node)
        return tuple(out)

    def loop(around: Loop, body: Sequence[TreeNode]) -> tuple[list[TreeNode], tuple[TreeNode, ...]]:
        before: list[TreeNode] = []
        out: list[TreeNode] = []
        for node in body:
            if not (isinstance(node, Compute) and node.statement in recurrences):
                out += each((node,))
                continue
            own = next(load for load in loads(node.value) if load.array == node.target.array)
            run = _register(node.target, names)
            found[node.statement] = run
            before += _started(node.value, own, run, around)
            value = moved_to(node.value, {own: run})
            out += [replace(node, value=value), replace(node, target=run, value=value)]
        return before, tuple(out)

    return each(nodes), found


def _register(target: Load, names: Names) -> Load:
    name = names.fresh(f"{target.array}_run")
    names.add(Buffer(name, "", target.dtype, (), Register()))
    return Load(name, (), target.dtype)


def _started(value: Expr, own: Load, run: Load, loop: Loop) -> list[TreeNode]:
    """Sets the register to what the first iteration finds, if there is one that asks."""
    first = {loop.var: loop.lower}
    nothing = Copy(run, Const(neutral(LINEAR, own.dtype), own.dtype))
    if not _asks(value, own, first):
        return [nothing]
    there = Load(own.array, tuple(tidy(substitute(part, first)) for part in own.index), own.dtype)
    return [nothing, Guard(loop.lower < loop.upper, (Copy(run, there),))]


def _asks(value: Expr, own: Load, first: Mapping[str, Expr]) -> bool:
    """Does the first iteration need it?"""
    if value == own:
        return True
    if isinstance(value, Select):
        holds = _decided(value.condition, first)
        if holds is not None:
            return _asks(value.then if holds else value.otherwise, own, first)
    return any(_asks(part, own, first) for part in children(value))


def _decided(condition: Expr, first: Mapping[str, Expr]) -> bool | None:
    """Does the condition hold in the first iteration (None: it is not seen)?"""
    match condition:
        case Binary(op="and" | "or" as op, left=left, right=right):
            found = {_decided(left, first), _decided(right, first)}
            certain = op == "or"
            return certain if certain in found else None if None in found else not certain
        case Compare(op=op, left=left, right=right) if left.dtype.is_integer and not (loads(left) or loads(right)):
            apart = constant_value(tidy(substitute(left, first) - substitute(right, first)))
            if apart is None:
                return None
            signs = {"lt": apart < 0, "le": apart <= 0, "gt": apart > 0, "ge": apart >= 0, "eq": apart == 0, "ne": apart != 0}
            return signs[op]
        case _:
            return None
