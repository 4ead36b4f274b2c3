"""Strategy `generic`: compiles every group. Independent iterations go to the grid (or to CPU
workers), everything else runs in order inside a thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from loopfuse.lang.affine import combine, integer, linear
from loopfuse.lang.index_algebra import ceil_div, compare, conjoin, greatest, in_range, least
from loopfuse.lang.nodes import Expr, Iter
from loopfuse.lang.walk import iterators, substitute
from loopfuse.plan.mapping.body import BodyBuilder, Names
from loopfuse.plan.mapping.interior import split_inner, split_interior, without_guards
from loopfuse.plan.mapping.strips import LONG_STRIP, STRIP, find_strips, plan_strips
from loopfuse.plan.units.align import Placed, place_map
from loopfuse.plan.units.groups import Group
from loopfuse.plan.units.recompute import tidy
from loopfuse.plan.units.storage import Store
from loopfuse.poly.isl import value_expr
from loopfuse.poly.isl_relations import hull_along
from loopfuse.poly.model import PolyProgram
from loopfuse.tree.looptree import Guard, Launch, Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.price import usual_price

BLOCK = 256
"""Threads of a one-dimensional block."""

TILE = (32, 8)
"""Threads along the fastest and the next dimension of a two-dimensional block."""

CHUNK = 4096
"""Iterations of a one-dimensional loop that a CPU worker takes at a time, at most."""

CHUNK_PRICE = 8 * CHUNK
"""What they cost, at most where there are several (`tree_price`): rows of a softmax go one by one."""

CPU_WRITE = 2
"""A line of memory that is written goes there and back: a column that is written costs twice one that is
read."""

FEWEST = 8
"""So few iterations are no loop of their own."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where a strategy works: the program, the homes, the names, the device. `collapses`: the sizes
    that the tree is going to run as one (`poly.collapse`)."""

    program: PolyProgram
    stores: Mapping[str, Store]
    names: Names
    device: str
    extents: Mapping[str, tuple[Expr, Expr]]
    collapses: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Extent:
    """A group dimension's range: lower, upper (exclusive) and step."""

    lower: Expr
    upper: Expr
    step: int


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
            uppers.append(combine("add", value_expr(high, program.symbols), integer(1)))
            steps.append((1, lowers[-1]))
        else:
            lowers.append(tidy(combine("sub", loop.lower, c.offset)))
            uppers.append(tidy(combine("sub", loop.upper, c.offset)))
            steps.append((loop.step, lowers[-1]))
    same = len(set(steps)) == 1
    values = group.scope.values() if group.scope else {}
    lower, upper = substitute(least(lowers), values), substitute(greatest(uppers), values)
    return Extent(lower, upper, steps[0][0] if same else 1)


def known_of(placed: Placed, extents: Mapping[str, Extent]) -> list[Expr]:
    """What holds of a unit's iterators inside the group's loops."""
    out: list[Expr] = []
    for c in placed.coordinates:
        extent = extents[c.dim]
        # dim = sign * (iterator - offset)
        away = combine("sub", Iter(c.iterator), c.offset)
        dim = away if c.sign > 0 else combine("sub", integer(0), away)
        out += in_range(dim, extent.lower, extent.upper)
        if extent.step != 1:
            rest = combine("mod", combine("sub", dim, extent.lower), integer(extent.step))
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


def plan_map(group: Group, site: Site, name: str, labels: tuple[str, ...]) -> Launch:
    """A map group: its dimensions over threads, its members in order inside each."""
    extents = dim_extents(group, site.program)
    if site.device == "gpu":
        body = _gpu_loops(group, site, order_dims(group), extents)
    else:
        kept = frozenset(name for name, store in site.stores.items() if store.home != "global")
        body = _cpu_loops(group, site, order_dims(group, kept, CPU_WRITE), extents)
    return Launch(name, "generic", labels, body)


def thread_body(
    group: Group, site: Site, extents: Mapping[str, Extent], point: Mapping[str, Expr]
) -> tuple[TreeNode, ...]:
    """The members of `group`, in order, at one point."""
    builder = BodyBuilder(site.program, group, dict(site.stores), site.names, dict(site.extents))
    out: list[TreeNode] = []
    for placed in group.members:
        out += builder.unit(placed, known_of(placed, extents), point)
    return tuple(out)


def count_of(extent: Extent) -> Expr:
    """How many iterations: ceil((upper - lower) / step), possibly negative."""
    distance = tidy(combine("sub", extent.upper, extent.lower))
    return ceil_div(distance, extent.step)


def value_at(extent: Extent, number: Expr) -> Expr:
    """The value of iteration `number`."""
    return tidy(combine("add", extent.lower, combine("mul", number, integer(extent.step))))


def _gpu_loops(
    group: Group, site: Site, dims: tuple[str, ...], extents: Mapping[str, Extent]
) -> tuple[TreeNode, ...]:
    names = site.names
    tiles = [BLOCK] if len(dims) == 1 else list(TILE)
    tiled = dict(zip(reversed(dims), tiles))
    chain: list[tuple[str, Expr, Where]] = []
    threads: list[tuple[str, Expr, Where]] = []
    point: dict[str, Expr] = {}
    guards: list[Expr] = []
    for dim in dims:
        extent = extents[dim]
        count = count_of(extent)
        hint = hint_of(group, dim)
        if dim in tiled:
            block, thread = names.fresh(f"{hint}b"), names.fresh(f"{hint}t")
            size = tiled[dim]
            chain.append((block, ceil_div(count, size), Where.GRID))
            threads.append((thread, integer(size), Where.BLOCK))
            number = combine("add", combine("mul", Iter(block), integer(size)), Iter(thread))
            point[dim] = value_at(extent, number)
            guards.append(compare("lt", point[dim], extent.upper))
        else:
            var = names.fresh(hint)
            chain.append((var, count, Where.GRID))
            point[dim] = value_at(extent, Iter(var))
    body = thread_body(group, site, extents, point)
    nodes: tuple[TreeNode, ...] = (Guard(conjoin(*guards), body),)
    for var, upper, where in reversed(chain + threads):
        nodes = (Loop(var, integer(0), upper, 1, where, nodes),)
    return nodes


def _cpu_loops(
    group: Group, site: Site, dims: tuple[str, ...], extents: Mapping[str, Extent]
) -> tuple[TreeNode, ...]:
    names = site.names
    outer: list[tuple[str, Expr]] = []
    point: dict[str, Expr] = {}
    for dim in dims[:-1]:
        var = names.fresh(hint_of(group, dim))
        outer.append((var, count_of(extents[dim])))
        point[dim] = value_at(extents[dim], Iter(var))
    last, extent = dims[-1], extents[dims[-1]]
    var = names.fresh(hint_of(group, last))
    lower, upper = extent.lower, extent.upper
    trial = replace(site, names=names.copy())
    tried = thread_body(group, trial, extents, {**point, last: Iter(var)})
    in_strips = extent.step == 1 and find_strips(tried, var) is not None
    if in_strips:
        count = STRIP if len(dims) == 1 else LONG_STRIP
    else:
        count = chunk_of(tried) if len(dims) == 1 else 0
    if 0 < count < FEWEST:
        body = thread_body(group, site, extents, {last: value_at(extent, Iter(var))})
        body = split_inner(body, names.fresh)
        return (Loop(var, integer(0), count_of(extent), 1, Where.THREAD, body),)
    if count:
        chunk = names.fresh(f"{var}b")
        step = count * extent.step
        outer.append((chunk, ceil_div(tidy(combine("sub", upper, lower)), step)))
        lower = tidy(combine("add", lower, combine("mul", Iter(chunk), integer(step))))
        upper = combine("min", upper, tidy(combine("add", lower, integer(step))))
    before = set(names.buffers)
    body = thread_body(group, site, extents, {**point, last: Iter(var)})
    nodes: tuple[TreeNode, ...]
    shape = find_strips(body, var) if in_strips else None
    if shape is not None:
        nodes = plan_strips(shape, var, (lower, upper), count, names, before)
    else:
        loop = Loop(var, lower, upper, extent.step, Where.SERIAL, body)
        around = [name for name, _ in outer]
        nodes = tuple(
            without_guards(part, around, names.fresh)
            if isinstance(part, Loop) and part.var == var
            else part
            for part in split_interior(loop, names.fresh)
        )
    for name, count in reversed(outer):
        nodes = (Loop(name, integer(0), count, 1, Where.THREAD, nodes),)
    return nodes


def chunk_of(body: tuple[TreeNode, ...]) -> int:
    """How many iterations of `body` a CPU worker takes at a time: a power of two."""
    fitting = max(1, CHUNK_PRICE // usual_price(body))
    return min(CHUNK, 1 << (fitting.bit_length() - 1))


def plan_serial(group: Group, site: Site, name: str, labels: tuple[str, ...]) -> Launch:
    """A group without a parallel loop: one thread runs it in order."""
    body = thread_body(group, site, {}, {})
    var = site.names.fresh("one")
    nodes: tuple[TreeNode, ...]
    if site.device == "gpu":
        lane = site.names.fresh("lane")
        nodes = (Loop(lane, integer(0), integer(1), 1, Where.BLOCK, body),)
        nodes = (Loop(var, integer(0), integer(1), 1, Where.GRID, nodes),)
    else:
        nodes = (Loop(var, integer(0), integer(1), 1, Where.THREAD, body),)
    return Launch(name, "generic", labels, nodes)


def hint_of(group: Group, dim: str) -> str:
    """A readable variable name for a dimension: its first member's iterator."""
    for placed in group.members:
        for c in placed.coordinates:
            if c.dim == dim:
                return c.iterator.split(".")[0]
    return dim
