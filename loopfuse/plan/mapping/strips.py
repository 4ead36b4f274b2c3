"""Columns in strips: what each iteration of a CPU loop runs in order, for a strip of neighbours at a time.

before:  for i in strip: { s = 0; for p: s += a[p, i]; b[i] = s }
after:   for i in strip: s[i] = 0;  for p: for i in strip: s[i] += a[p, i];  for i in strip: b[i] = s[i]

The iterations of a loop over threads have no order, so all of a strip may take one step before any takes
the next. Loops that go down columns of memory come outside, those along rows inside, where LLVM makes
vectors of them. Each iteration's own steps keep their order: no reduction changes its bits. What an
iteration holds in a register from one step to the next is an element of a line, in a cache.

Loops whose bounds follow the iteration or data stay inside, and so do short ones, which are written out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from loopfuse.lang.linear import constant_value, linear, tidy
from loopfuse.lang.nodes import Expr, Iter, Load, integer
from loopfuse.lang.walk import iterators, loads, map_expr, substitute
from loopfuse.plan.mapping.body import Names
from loopfuse.plan.mapping.interior import over_own_places, split_interior
from loopfuse.plan.mapping.joined import join_neighbours
from loopfuse.tree.looptree import Buffer, Compute, Guard, LineBuffer, Loop, Register, TreeNode
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import map_expressions, node_expressions, walk_nodes

STRIP = 128
"""Neighbours that take their steps together: so many elements of a row are read at a time. Threads have
nothing else to share."""
LONG_STRIP = 1024
"""The same where they have other dimensions too."""

SHORT = 16
"""A loop of at most so many iterations, known when it is compiled, is written out."""

APART = 4.0
"""What an access costs whose neighbours lie apart in memory; a write counts twice."""

AGAIN = 1.0
"""The same where the loop around touches the same elements again, in a cache."""

IN_TURN = 1.0
"""What it costs that each iteration writes where the one before did: LLVM makes no vectors of a sum of
floats, nor of what is overwritten."""

INSIDE = 8.0
"""How often the body of a loop counts."""


@dataclass(frozen=True, slots=True)
class Strip:
    """The nodes that one loop over a strip runs; `again`: there is a loop around it."""

    nodes: tuple[TreeNode, ...]
    again: bool


@dataclass(frozen=True, slots=True)
class Outside:
    """A loop, or a guard, that has strips inside."""

    node: Loop | Guard
    parts: tuple[tuple[Shape, ...], ...]


Shape = Strip | Outside


def find_strips(body: Sequence[TreeNode], var: str) -> tuple[Shape, ...] | None:
    """How `body`, iteration `var` of a loop over threads, runs by strips; None where no loop gains by
    it, or something in it is of a kind that is not known here."""
    nodes = [*walk_nodes(tuple(body))]
    known = all(
        isinstance(node, Compute | Guard) or (isinstance(node, Loop) and node.mapping is Where.SERIAL)
        for node in nodes
    )
    if not known or not any(_comes_outside(node, var) for node in nodes if isinstance(node, Loop)):
        return None
    shape = _arranged(body, var, again=False)
    return shape if any(isinstance(part, Outside) for part in shape) else None


def plan_strips(
    shape: Sequence[Shape],
    var: str,
    ends: tuple[Expr, Expr],
    most: int,
    names: Names,
    before: set[str],
) -> tuple[TreeNode, ...]:
    """The nodes for `var` from `ends[0]` to before `ends[1]`, at most `most` iterations. `before`: the
    buffers that there were before the body was made."""
    lines: dict[str, str] = {}
    for name in _in_lines(_strips(shape), names):
        old = names.buffers[name]
        lines[name] = names.fresh(f"{name}_line")
        extents = (integer(1), integer(most))
        names.add(Buffer(lines[name], old.array, old.dtype, extents, LineBuffer(1)))
        if name not in before:
            del names.buffers[name]
    used = False

    def built(parts: Sequence[Shape]) -> tuple[TreeNode, ...]:
        nonlocal used
        out: list[TreeNode] = []
        for part in parts:
            match part:
                case Strip(nodes=nodes):
                    inner = names.fresh(var) if used else var
                    used = True
                    number = tidy(Iter(inner) - ends[0])

                    def moved(expr: Expr, inner: str = inner, number: Expr = number) -> Expr:
                        def one(node: Expr) -> Expr:
                            if not (isinstance(node, Load) and node.array in lines):
                                return node
                            line = lines[node.array]
                            return Load(line, (integer(0), number), node.dtype, span=node.span)

                        return map_expr(one, substitute(expr, {var: Iter(inner)}))

                    loop = Loop(inner, *ends, 1, Where.SERIAL, map_expressions(nodes, moved))
                    out += over_own_places(loop, lambda each: split_interior(each, names.fresh))
                case Outside(node=Loop() as node, parts=(inside,)):
                    out.append(replace(node, body=built(inside)))
                case Outside(node=Guard() as node, parts=(then, otherwise)):
                    out.append(replace(node, then=built(then), otherwise=built(otherwise)))
                case _:
                    raise AssertionError(part)
        return tuple(out)

    return built(shape)


# ------------------------------------------------------------------------------------ shape


def _arranged(nodes: Sequence[TreeNode], var: str, again: bool) -> tuple[Shape, ...]:
    out: list[TreeNode] = []
    for node in nodes:
        if isinstance(node, Guard) and _is_opened(node, var) and var in iterators(node.condition):
            out += _pushed(node)  # what depends on the iteration goes inside
        else:
            out.append(node)
    return _in_shapes(join_neighbours(out, lambda loop: _comes_outside(loop, var)), var, again)


def _in_shapes(nodes: Sequence[TreeNode], var: str, again: bool) -> tuple[Shape, ...]:
    out: list[Shape] = []
    pending: list[TreeNode] = []

    def close() -> None:
        if pending:
            out.append(Strip(tuple(pending), again))
            pending.clear()

    for node in nodes:
        if isinstance(node, Loop) and _comes_outside(node, var):
            close()
            out.append(Outside(node, (_arranged(node.body, var, again=True),)))
        elif isinstance(node, Guard) and _is_opened(node, var):
            close()
            parts = _arranged(node.then, var, again), _arranged(node.otherwise, var, again)
            out.append(Outside(node, parts))
        else:
            pending.append(node)
    close()
    return tuple(out)


def _pushed(node: Guard) -> tuple[TreeNode, ...]:
    """The guard around the nodes inside, and in the loops among them."""
    out: list[TreeNode] = []
    for each in node.then:
        last = out[-1] if out else None
        if isinstance(each, Loop):
            out.append(replace(each, body=_pushed(Guard(node.condition, each.body))))
        elif isinstance(last, Guard):
            out[-1] = Guard(node.condition, (*last.then, each))
        else:
            out.append(Guard(node.condition, (each,)))
    return tuple(out)


def _is_opened(node: Guard, var: str) -> bool:
    """Does a loop come out of the guard? Its condition stays true or false whatever runs inside."""
    if loads(node.condition) or (node.otherwise and var in iterators(node.condition)):
        return False
    inside = walk_nodes((*node.then, *node.otherwise))
    return any(isinstance(each, Loop) and _comes_outside(each, var) for each in inside)


# --------------------------------------------------------------------------------- decision


def _comes_outside(loop: Loop, var: str) -> bool:
    """Is the loop better around loops over a strip than inside them?"""
    return _may_come_outside(loop, var) and _outside(loop, var) < _inside(loop, var)


def _may_come_outside(loop: Loop, var: str) -> bool:
    ends = loop.lower, loop.upper
    if any(var in iterators(end) or loads(end) for end in ends):
        return False
    return not _is_short(loop)


def _is_short(loop: Loop) -> bool:
    return is_short_loop(loop.lower, loop.upper, loop.step)


def is_short_loop(lower: Expr, upper: Expr, step: int) -> bool:
    """Has a loop so few iterations, whatever the sizes, that it is written out?"""
    count = constant_value(upper - lower)
    return count is not None and abs(count) <= SHORT * abs(step)


def _inside(loop: Loop, around: str) -> float:
    """The price of the loop inside the iterations of `around`."""
    return INSIDE * sum(_price(each, loop.var, around) for each in loop.body)


def _outside(loop: Loop, var: str) -> float:
    """The same around loops over a strip, where those inside it stand as is best for them."""

    def one(node: TreeNode) -> float:
        match node:
            case Loop() if _may_come_outside(node, var):
                return min(_inside(node, var), _outside(node, var))
            case Guard(then=then, otherwise=otherwise):
                return sum(one(each) for each in (*then, *otherwise))
            case _:
                return _price(node, var, loop.var, in_turn=False)

    return INSIDE * sum(one(each) for each in loop.body)


def _price(node: TreeNode, inner: str, around: str, in_turn: bool = True) -> float:
    """What the accesses of a node cost in the loops `inner` and, outside it, `around`. `in_turn`: the
    iterations of `inner` have an order."""
    match node:
        case Loop() if _is_short(node):
            return INSIDE * sum(_price(each, inner, around, in_turn) for each in node.body)
        case Loop():
            return _inside(node, inner)
        case Guard(then=then, otherwise=otherwise):
            return sum(_price(each, inner, around, in_turn) for each in (*then, *otherwise))
        case Compute(target=target, value=value):
            price = sum(access_price(load, inner, around) for load in loads(value))
            price += 2 * access_price(target, inner, around)
            fixed = all(inner not in iterators(part) for part in target.index)
            is_update = any(load.array == target.array for load in loads(value))
            waits = in_turn and fixed and (target.dtype.is_float if is_update else bool(target.index))
            return price + (IN_TURN if waits else 0.0)
        case _:
            return 0.0


def access_price(load: Load, inner: str, around: str) -> float:
    """What one access costs: nothing where neighbours in `inner` are neighbours in memory."""
    if not _is_apart(load, inner):
        return 0.0
    return APART if any(around in iterators(part) for part in load.index) else AGAIN


def _is_apart(load: Load, inner: str) -> bool:
    """Do the elements that neighbouring iterations of `inner` touch lie apart?"""
    if not load.index:
        return False
    if any(inner in iterators(part) for part in load.index[:-1]):
        return True
    last = load.index[-1]
    terms = linear(last)
    if terms is None:  # a clamped edge is an edge; what data says lies anywhere
        return inner in iterators(last) and bool(loads(last))
    return abs(terms.get(inner, 0)) > 1


# -------------------------------------------------------------------------------- registers


def _strips(shape: Sequence[Shape]) -> list[Strip]:
    found: list[Strip] = []
    for part in shape:
        found += [part] if isinstance(part, Strip) else [s for p in part.parts for s in _strips(p)]
    return found


def _in_lines(strips: Sequence[Strip], names: Names) -> list[str]:
    """The registers whose values one loop over a strip, or one run of it, leaves for another."""
    users: dict[str, list[Strip]] = {}
    for strip in strips:
        touched = [name for node in walk_nodes(strip.nodes) for name in _touched(node)]
        for name in dict.fromkeys(touched):
            if isinstance(names.buffers[name].home, Register):
                users.setdefault(name, []).append(strip)
    return [
        name
        for name, found in users.items()
        if len(found) > 1 or (found[0].again and not _is_made_first(name, found[0].nodes))
    ]


def _touched(node: TreeNode) -> list[str]:
    return [load.array for expr in node_expressions(node) for load in loads(expr)]


def _is_made_first(name: str, nodes: Sequence[TreeNode]) -> bool:
    """Does every iteration set the register before it reads it?"""
    for node in nodes:
        if any(name in _touched(each) for each in walk_nodes((node,))):
            return (
                isinstance(node, Compute)
                and node.target.array == name
                and node.predicate is None
                and all(load.array != name for load in loads(node.value))
            )
    return True
