"""What the launches of a scan have in common, on a CPU and on a GPU: where partial results lie, a launch's own
registers and outer loops, and what is done with one element.

    partial[p] = what part p adds                   for all parts at once
    start[p]   = what stands before part p          one part after the other
    from start[p] on, all of part p again           for all parts at once
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Const, Expr, Iter, Load, combine, compare, integer
from loopfuse.lang.semantics import neutral
from loopfuse.lang.walk import moved_to, substitute
from loopfuse.plan.mapping.body import Names
from loopfuse.plan.mapping.space import Site, count_of, dim_extents, hint_of, order_dims, value_at
from loopfuse.plan.mapping.threads import stands_for
from loopfuse.plan.strategies.scan.body import PLACE, Accumulator, Body
from loopfuse.plan.units.groups import Group
from loopfuse.tree.looptree import (
    Barrier,
    Buffer,
    Compute,
    Copy,
    Fold,
    Global,
    Guard,
    Loop,
    Register,
    TreeNode,
)
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import map_expressions, walk_nodes


@dataclass(frozen=True, slots=True)
class Between:
    """By accumulator (its statement): the buffers of what each part adds, of what stands before it, and of what
    each round of parts adds."""

    partial: Mapping[str, str]
    start: Mapping[str, str]
    total: Mapping[str, str]


def declare_between(
    body: Body, site: Site, outer: tuple[Expr, ...], parts: Expr, rounds: Expr | None = None
) -> Between:
    """Room for partial results: at `outer` points, of so many parts and rounds (None: there are none)."""

    def buffers(kind: str, count: Expr) -> dict[str, str]:
        return declare_results(kind, body.accumulators, site, (*outer, positive(count)), maps=kind != "start")

    totals = {} if rounds is None else buffers("total", rounds)
    return Between(buffers("partial", parts), buffers("start", parts), totals)


def declare_results(
    kind: str, accumulators: Sequence[Accumulator], site: Site, extents: tuple[Expr, ...], maps: bool
) -> dict[str, str]:
    """Room in memory for a value of each accumulator, or for what its parts add (`maps`: of a linear recurrence a map); by its
    statement."""
    found: dict[str, str] = {}
    for a in accumulators:
        found[a.statement] = name = site.names.fresh(f"{a.name}_{kind}")
        buffer = Buffer(name, "", a.place.dtype, extents, Global())
        if maps and a.is_linear:
            add_maps(site.names, buffer)
        else:
            site.names.add(buffer)
    return found


def add_maps(names: Names, buffer: Buffer) -> None:
    """The buffer as one of linear maps, and that of their factors."""
    factors = names.add(replace(buffer, name=names.fresh(f"{buffer.name}_factor")))
    names.add(replace(buffer, factors=factors.name))


def cell(load: Load, *index: Expr) -> Load:
    """An element of a buffer."""
    return Load(load.array, index, load.dtype)


def cleared(a: Accumulator, target: Load) -> Copy:
    """The neutral element."""
    return Copy(target, neutral_of(a))


def neutral_of(a: Accumulator) -> Const:
    """What changes nothing."""
    return Const(neutral(a.op, a.place.dtype), a.place.dtype)


def at_place(nodes: Sequence[TreeNode], place: Expr, cells: Mapping[Load, Load]) -> tuple[TreeNode, ...]:
    """The nodes of an iteration, at a value of the loop's variable, with what lies in `cells` found there."""
    return map_expressions(nodes, lambda expr: moved_to(tidy(substitute(expr, {PLACE: place})), cells))


def set_before(body: Body, cells: Mapping[Load, Load]) -> tuple[TreeNode, ...]:
    """What stands before the loop, but for what the accumulators start from, and what goes to memory."""
    memory = {buffer.name for buffer in body.memory}
    others = {a.place.array for a in body.accumulators} | memory

    def kept(nodes: Sequence[TreeNode]) -> list[TreeNode]:
        out: list[TreeNode] = []
        for node in nodes:
            if isinstance(node, Guard):
                node = replace(node, then=tuple(kept(node.then)), otherwise=tuple(kept(node.otherwise)))
                out += [node] if node.then or node.otherwise else []
            elif not (isinstance(node, Compute | Copy) and node.target.array in others):
                out.append(node)
        return out

    return map_expressions(kept(body.before), lambda expr: moved_to(expr, cells))


def writes_memory(nodes: Sequence[TreeNode], body: Body) -> bool:
    """Does anything of it go to memory?"""
    memory = {buffer.name for buffer in body.memory}
    return any(isinstance(each, Compute) and each.target.array in memory for each in walk_nodes(tuple(nodes)))


def started(body: Body, cells: Mapping[Load, Load], carry: Mapping[Load, Load], thread: str = "") -> tuple[TreeNode, ...]:
    """What the running values start from, in registers, and all else that stands before the loop: what goes to memory by
    the first of the block's threads (loop `thread`), for all."""
    out: list[TreeNode] = []
    for node in map_expressions(body.before, lambda expr: moved_to(expr, {**cells, **carry})):
        if writes_memory((node,), body) and thread:
            out += [Guard(compare("eq", Iter(thread), integer(0)), (node,)), Barrier("block")]
        else:
            out.append(node)
    return (*out, *(Copy(carry[a.place], a.place) for a in body.accumulators if body.is_memory(a)))


def finished(body: Body, cells: Mapping[Load, Load], carry: Mapping[Load, Load]) -> tuple[TreeNode, ...]:
    """What the loop leaves: totals to memory, and what stands after it."""
    stored = [Copy(a.place, carry[a.place]) for a in body.accumulators if body.is_memory(a)]
    return (*stored, *after(body, cells, carry))


def after(body: Body, cells: Mapping[Load, Load], carry: Mapping[Load, Load]) -> tuple[TreeNode, ...]:
    """What stands after the loop."""
    return map_expressions(body.after, lambda expr: moved_to(expr, {**cells, **carry}))


def folded(a: Accumulator, target: Load, value: Load) -> Fold:
    """`target` with a partial result added."""
    return Fold(a.op, target, value)


def positive(count: Expr) -> Expr:
    """No fewer than none."""
    return combine("max", count, integer(0))


class LaunchWriter:
    """Writes launches whose outer loops, over the points of the group, are mapped as `outermost`."""

    outermost: ClassVar[Where]

    def __init__(self, group: Group, body: Body, site: Site, between: Between) -> None:
        self.group, self.whole, self.site, self.between = group, body, site, between
        self.names = site.names

    def begin(self) -> tuple[list[Loop], Body, dict[Load, Load]]:
        """Of a launch: loops over the points of the group, what is done there, and registers of its own for those of
        the body but accumulators (nothing is to be proved between launches then)."""
        loops, point = points(self.group, self.site)
        chain = [Loop(var, integer(0), count, 1, self.outermost, ()) for var, count in loops]
        self.outer = tuple(Iter(var) for var, _ in loops)
        own = {each: self.names.register(each.array, each) for each in self.whole.registers}
        return chain, self.whole.at(point), own

    def registers(self, body: Body, what: str, count: int = 0) -> dict[Load, Load]:
        """A register, or several, of each accumulator, for a running value."""
        return {a.place: self.register_of(a, what, count) for a in body.accumulators}

    def partial_results(self, body: Body, what: str, count: int = 0) -> dict[Load, Load]:
        """A register, or several, of each accumulator, for what a part adds."""
        return {a.place: self._register(a, what, count, maps=a.is_linear) for a in body.accumulators}

    def register_of(self, a: Accumulator, what: str, count: int = 0) -> Load:
        """The same of one."""
        return self._register(a, what, count, maps=False)

    def _register(self, a: Accumulator, what: str, count: int, maps: bool) -> Load:
        wanted = f"{a.name}_{what}"
        if not a.is_linear:
            return self.names.register(wanted, a.place, count)
        name = self.names.fresh(wanted)
        buffer = Buffer(name, "", a.place.dtype, (integer(count),) if count else (), Register())
        if maps:
            add_maps(self.names, buffer)
        else:
            self.names.add(buffer)
        return Load(name, (), a.place.dtype)

    def of(self, kind: Mapping[str, str], a: Accumulator, number: Expr) -> Load:
        """What is kept of a part, a chunk or a round of that number."""
        return Load(kind[a.statement], (*self.outer, number), a.place.dtype)

    def one(self) -> Loop:
        """One worker, or one block."""
        return Loop(self.names.fresh("one"), integer(0), integer(1), 1, self.outermost, ())


def inside_loops(chain: Sequence[Loop], nodes: tuple[TreeNode, ...]) -> tuple[TreeNode, ...]:
    """The nodes inside the loops, outermost first."""
    for loop in reversed(chain):
        nodes = (replace(loop, body=nodes),)
    return nodes


def points(group: Group, site: Site) -> tuple[list[tuple[str, Expr]], dict[str, Expr]]:
    """A loop variable for each dimension of the group and how many values it has, slowest first, and the
    point that they make."""
    extents = dim_extents(group, site.program)
    loops: list[tuple[str, Expr]] = []
    point: dict[str, Expr] = {}
    for dim in order_dims(group) if group.dims else ():
        var = site.names.fresh(hint_of(group, dim))
        loops.append((var, count_of(extents[dim])))
        point[stands_for(dim)] = value_at(extents[dim], Iter(var))
    return loops, point
