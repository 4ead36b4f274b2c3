"""Where a strategy works (`Site`), and the iteration space of a group: the range of each dimension, their
order, what holds of a unit's iterators inside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loopfuse.base.machine import CPU, Machine
from loopfuse.base.options import Tuning
from loopfuse.lang.index import ceil_div, greatest, in_range, least
from loopfuse.lang.linear import linear, tidy
from loopfuse.lang.nodes import Expr, Iter, combine, compare, integer
from loopfuse.lang.walk import iterators, substitute
from loopfuse.plan.mapping.body import Names, loop_conditions
from loopfuse.plan.units.align import Placed, place_map
from loopfuse.plan.units.groups import Group
from loopfuse.plan.units.storage import Store
from loopfuse.poly.isl import Reader, universe, value_expr
from loopfuse.poly.isl_relations import hull_along
from loopfuse.poly.model import PolyProgram, Statement
from loopfuse.tree.looptree import Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where

DEFAULT = Tuning()
CPU_WRITE = 2
"""A line of memory that is written goes there and back: a column that is written costs twice one that is
read."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where a strategy works: the program, the homes, the names, the device. `collapses`: the sizes
    that the tree is going to run as one (`poly.collapse`). `machine`: what is planned for. `teams`: several threads
    may run one point of a group together, or one thread its sums in lanes. `tiles`: products may run in tiles of registers. `tuning`: what is asked for
    (0, None: the strategy chooses)."""

    program: PolyProgram
    stores: Mapping[str, Store]
    names: Names
    device: str
    extents: Mapping[str, tuple[Expr, Expr]]
    collapses: tuple[tuple[str, ...], ...] = ()
    machine: Machine = CPU
    teams: bool = True
    tiles: bool = True
    tuning: Tuning = DEFAULT


@dataclass(frozen=True, slots=True)
class Extent:
    """A group dimension's range: lower, upper (exclusive) and step."""

    lower: Expr
    upper: Expr
    step: int


def in_chunks(extent: Extent, count: int, chunk: str) -> tuple[Expr, Expr, Expr]:
    """A range in pieces of `count` iterations: how many there are, and the first iteration of the piece that the
    variable `chunk` numbers, and the one behind its last."""
    step = count * extent.step
    low = tidy(extent.lower + Iter(chunk) * step)
    high = combine("min", extent.upper, tidy(low + step))
    return ceil_div(tidy(extent.upper - extent.lower), step), low, high


def dim_extents(group: Group, program: PolyProgram) -> dict[str, Extent]:
    """The range of every group dimension: the hull of its members'."""
    return {dim: _extent(group, dim, k, program) for k, dim in enumerate(group.dims)}


def _extent(group: Group, dim: str, k: int, program: PolyProgram) -> Extent:
    lowers: list[Expr] = []
    uppers: list[Expr] = []
    steps: list[tuple[int, Expr]] = []
    for placed in group.members:
        if not placed.coordinates:
            continue
        c = placed.coordinate(dim)
        loop = next(loop for loop in placed.unit.common if loop.iterator == c.iterator)
        host = {h.iterator for h in group.scope.host} if group.scope else set[str]()
        free = (iterators(loop.lower) | iterators(loop.upper)) - host
        if free or loop.step < 0 or c.sign < 0:
            images = [
                s.domain.apply(place_map(s, placed, group.dims))
                for s in placed.unit.statements
                if c.iterator in s.iterators
            ]
            low, high = hull_along(images, k)
            lowers.append(value_expr(low, program.symbols))
            uppers.append(value_expr(high, program.symbols) + 1)
            steps.append((1, lowers[-1]))
        else:
            lowers.append(tidy(loop.lower - c.offset))
            uppers.append(tidy(loop.upper - c.offset))
            steps.append((loop.step, lowers[-1]))
    same = len(set(steps)) == 1
    values = group.scope.values() if group.scope else {}
    lower, upper = substitute(least(lowers), values), substitute(greatest(uppers), values)
    return Extent(lower, upper, steps[0][0] if same else 1)


def nested(chain: Sequence[tuple[str, Expr, Where]], nodes: tuple[TreeNode, ...]) -> tuple[TreeNode, ...]:
    """`nodes` inside loops from 0 to a count: (variable, count, who runs it), outermost first."""
    for var, count, where in reversed(chain):
        nodes = (Loop(var, integer(0), count, 1, where, nodes),)
    return nodes


def known_of(group: Group, placed: Placed, extents: Mapping[str, Extent]) -> list[Expr]:
    """What holds of a unit's iterators inside the group's loops.

    before:  host for i in 0..N: thread for j in N - i..N         (i of the tree: the program's N - i, which counts down)
    after:   j >= i                                               (i of the program)
    """
    numbers = group.scope.numbers() if group.scope else {}
    out: list[Expr] = []
    for c in placed.coordinates:
        extent = extents[c.dim]
        if numbers:
            lower, upper = (tidy(substitute(end, numbers)) for end in (extent.lower, extent.upper))
            extent = Extent(lower, upper, extent.step)
        # dim = sign * (iterator - offset)
        away = Iter(c.iterator) - c.offset
        dim = away if c.sign > 0 else 0 - away
        out += in_range(dim, extent.lower, extent.upper)
        if extent.step != 1:
            rest = (dim - extent.lower) % extent.step
            out.append(compare("eq", rest, integer(0)))
    return out


def order_dims(
    group: Group, kept: frozenset[str] = frozenset(), write: int = 1
) -> tuple[str, ...]:
    """The dimensions, slowest first: the last is the one along which memory is contiguous in
    most accesses, so that neighbouring threads touch neighbouring elements. Arrays that are `kept` in
    registers do not count, a write counts `write` times; and, where that is not once (on a CPU), nothing
    counts that stays where it is in a loop inside."""
    score = dict.fromkeys(group.dims, 0)
    host = {loop.iterator for loop in group.scope.host} if group.scope else set[str]()
    for placed in group.members:
        by_iterator = {c.iterator: c.dim for c in placed.coordinates}
        for statement in placed.unit.statements:
            own = set(statement.iterators) - by_iterator.keys() - host if write > 1 else set[str]()
            for access in (*statement.reads, statement.write):
                if not access.load.index or access.array in kept:
                    continue
                used = {name for part in access.load.index for name in iterators(part)}
                if own and not own & used:
                    continue
                terms = linear(access.load.index[-1])
                names = iterators(access.load.index[-1]) if terms is None else set(terms)
                for iterator in names:
                    if iterator in by_iterator:
                        score[by_iterator[iterator]] += write if access is statement.write else 1
    best = max(group.dims, key=lambda dim: (score[dim], group.dims.index(dim)))
    return (*(dim for dim in group.dims if dim != best), best)


def loop_iterations(statement: Statement, program: PolyProgram, names: frozenset[str] | None = None) -> Any:
    """{ statement[iterators] } wherever its loops run (those of these names alone, where they are given): also where
    its guards do not hold, as these stand inside the tree's loops."""
    space = statement.domain.get_space()
    reader, where = Reader(space), universe(space).intersect_params(program.context)
    for loop in statement.loops:
        if names is not None and loop.iterator not in names:
            continue
        for test in loop_conditions(loop.iterator, loop.lower, loop.upper, loop.step):
            holds = reader.condition(test)
            if holds is None:
                return statement.domain
            where = where.intersect(holds)
    return where


def count_of(extent: Extent) -> Expr:
    """How many iterations: ceil((upper - lower) / step), possibly negative."""
    distance = tidy(extent.upper - extent.lower)
    return ceil_div(distance, extent.step)


def value_at(extent: Extent, number: Expr) -> Expr:
    """The value of iteration `number`."""
    return tidy(extent.lower + number * extent.step)


def hint_of(group: Group, dim: str) -> str:
    """A readable variable name for a dimension: its first member's iterator."""
    for placed in group.members:
        for c in placed.coordinates:
            if c.dim == dim:
                return c.iterator.split(".")[0]
    return dim
