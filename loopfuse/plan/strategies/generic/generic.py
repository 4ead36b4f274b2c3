"""Strategy `generic`: compiles every group. Independent iterations go to the grid (or to CPU
workers), everything else runs in order inside a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from loopfuse.lang.index import FALSE, TRUE, ceil_div, conjoin
from loopfuse.lang.nodes import Expr, Iter, combine, integer
from loopfuse.plan.mapping.interior import (
    copied,
    divisions_apart,
    guards_outside,
    over_own_places,
    split_inner,
    split_interior,
    without_guards,
)
from loopfuse.plan.mapping.lanes import statements_in_lanes, with_lanes
from loopfuse.plan.mapping.space import (
    CPU_WRITE,
    Extent,
    Site,
    count_of,
    dim_extents,
    hint_of,
    in_chunks,
    nested,
    order_dims,
    value_at,
)
from loopfuse.plan.mapping.strips import LONG_STRIP, STRIP, find_strips, plan_strips
from loopfuse.plan.mapping.threads import chunk_of, stands_for, strip_of, symbolic_body, thread_body
from loopfuse.plan.mapping.transposed import COLUMNS, ROWS, eight_together, share_sets
from loopfuse.plan.units.groups import Group, Legality
from loopfuse.tree.looptree import Guard, Launch, Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.rewrite.prefetch import Scope, goes_across, with_loads_ahead, written_in

BLOCK = 256
"""Threads of a one-dimensional block."""

TILE = (32, 8)
"""Threads along the fastest and the next dimension of a two-dimensional block."""

RECURRENCE_BLOCK = 64
RECURRENCE_TILE = (32, 2)
"""The same where each thread goes along a loop and stores as it goes: there are few threads, and all multiprocessors
should have some."""

FEWEST = 8
"""So few iterations are no loop of their own."""


def plan_map(group: Group, site: Site, name: str, labels: tuple[str, ...]) -> Launch:
    """A map group: its dimensions over threads, its members in order inside each."""
    extents = dim_extents(group, site.program)
    if site.device == "gpu":
        body = _gpu_loops(group, site, order_dims(group), extents)
    else:
        kept = frozenset(name for name, store in site.stores.items() if store.home != "global")
        body = _cpu_loops(group, site, order_dims(group, kept, CPU_WRITE), extents)
    return Launch(name, "generic", labels, body)


def _gpu_loops(
    group: Group, site: Site, dims: tuple[str, ...], extents: Mapping[str, Extent]
) -> tuple[TreeNode, ...]:
    names = site.names
    goes_along = _goes_along(group, site)
    if len(dims) == 1:
        tiles = [RECURRENCE_BLOCK if goes_along else BLOCK]
    else:
        tiles = list(RECURRENCE_TILE if goes_along else TILE)
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
            number = Iter(block) * size + Iter(thread)
            point[dim] = value_at(extent, number)
            guards.append(point[dim] < extent.upper)
        else:
            var = names.fresh(hint)
            chain.append((var, count, Where.GRID))
            point[dim] = value_at(extent, Iter(var))
    body = thread_body(group, site, extents, point)
    if goes_along:
        teams = {var: tiled[dim] for dim, (var, _, _) in zip([d for d in dims if d in tiled], threads, strict=True)}
        body = with_loads_ahead(body, Scope(names.buffers, names.fresh, written_in(body), teams, site.machine))
    return nested(chain + threads, (Guard(conjoin(*guards), body),))


def _goes_along(group: Group, site: Site) -> bool:
    """Does a thread store as it goes along a loop of its own?"""
    host = {loop.iterator for loop in group.scope.host} if group.scope else set[str]()
    for placed in group.members:
        elsewhere = host | {c.iterator for c in placed.coordinates}
        for statement in placed.unit.statements:
            own = [loop.iterator for loop in statement.loops if loop.iterator not in elsewhere]
            if site.stores[statement.target.array].home == "global" and own and goes_across(own[-1], statement.target):
                return True
    return False


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
        count = strip_of(tried, var, STRIP) if len(dims) == 1 else LONG_STRIP
    else:
        count = chunk_of(tried) if len(dims) == 1 else 0
    if 0 < count < FEWEST:
        body = thread_body(group, site, extents, {last: value_at(extent, Iter(var))})
        body = _in_lanes(guards_outside(body), group, site)
        body = split_inner(body, names.fresh)
        return (Loop(var, integer(0), count_of(extent), 1, Where.THREAD, body),)
    where = share_sets(tried, var, outer[-1][0], trial.names.buffers) if outer and not in_strips and extent.step == 1 else FALSE
    if where != FALSE:
        return _in_blocks_of_rows(group, site, extents, point, last, outer, var, where)
    if count:
        chunk = names.fresh(f"{var}b")
        chunks, lower, upper = in_chunks(extent, count, chunk)
        outer.append((chunk, chunks))
    before = set(names.buffers)
    body = thread_body(group, site, extents, {**point, last: Iter(var)})
    nodes: tuple[TreeNode, ...]
    shape = find_strips(body, var) if in_strips else None
    if shape is not None:
        nodes = _in_lanes(tuple(plan_strips(shape, var, (lower, upper), count, names, before)), group, site)
    else:
        body = _in_lanes(guards_outside(body), group, site)
        loop = Loop(var, lower, upper, extent.step, Where.SERIAL, body)
        around = [name for name, _ in outer]
        nodes = over_own_places(loop, lambda each: _in_parts(each, around, names.fresh))
    for name, count in reversed(outer):
        nodes = (Loop(name, integer(0), count, 1, Where.THREAD, nodes),)
    return nodes


def _in_blocks_of_rows(
    group: Group, site: Site, extents: Mapping[str, Extent], point: Mapping[str, Expr], last: str, outer: Sequence[tuple[str, Expr]], var: str, where: Expr
) -> tuple[TreeNode, ...]:
    """The same where each thread takes a block of rows: several columns at a time, where the rows that they cross `share_sets`."""
    names = site.names
    (row, count), block, chunk = outer[-1], names.fresh(f"{outer[-1][0]}b"), names.fresh(f"{var}b")
    chunks, lower, upper = in_chunks(extents[last], COLUMNS, chunk)
    rows = Iter(block) * ROWS, combine("min", count, Iter(block) * ROWS + ROWS)
    body = _in_lanes(guards_outside(thread_body(group, site, extents, {**point, last: Iter(var)})), group, site)
    loop = Loop(var, lower, upper, 1, Where.SERIAL, body)
    nodes: tuple[TreeNode, ...] = (eight_together(row, rows, loop, names.fresh),)
    if where != TRUE:
        around = [name for name, _ in outer]
        parts = over_own_places(loop, lambda each: _in_parts(each, around, names.fresh))
        one_by_one = copied(Loop(row, *rows, 1, Where.SERIAL, parts), *rows, parts, names.fresh)
        nodes = (Guard(where, nodes, (one_by_one,)),)
    for name, number in reversed([*outer[:-1], (block, ceil_div(count, ROWS)), (chunk, chunks)]):
        nodes = (Loop(name, integer(0), number, 1, Where.THREAD, nodes),)
    return nodes


def _in_parts(loop: Loop, around: Sequence[str], fresh: Callable[[str], str]) -> tuple[TreeNode, ...]:
    """A loop as its edges and its interior."""
    return tuple(
        node
        for part in split_interior(loop, fresh)
        for node in (_usual_ways(part, around, fresh) if isinstance(part, Loop) and part.var == loop.var else (part,))
    )


def _usual_ways(loop: Loop, around: Sequence[str], fresh: Callable[[str], str]) -> tuple[TreeNode, ...]:
    """The interior of a loop, where guards have their usual answers."""
    ways = without_guards(loop, around, fresh)
    return divisions_apart(ways, fresh) if isinstance(ways, Loop) else (ways,)


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
        if site.teams:  # (running values are put in registers first)
            body = split_inner(_in_lanes(body, group, site), site.names.fresh)
        nodes = (Loop(var, integer(0), integer(1), 1, Where.THREAD, body),)
    return Launch(name, "generic", labels, nodes)


def _in_lanes(body: tuple[TreeNode, ...], group: Group, site: Site) -> tuple[TreeNode, ...]:
    return with_lanes(body, group, site.program, site.names) if site.teams else body


def find_reordered(group: Group, site: Site) -> frozenset[str]:
    """The statements whose updates run in lanes."""
    sums = any(statement.reduction for placed in group.members for statement in placed.unit.statements)
    if site.device == "gpu" or not site.teams or not sums:
        return frozenset()
    nodes, names = symbolic_body(group, site)
    if group.legality is Legality.INDEPENDENT and group.dims:
        kept = frozenset(name for name, store in site.stores.items() if store.home != "global")
        last = order_dims(group, kept, CPU_WRITE)[-1]
        extents = dim_extents(group, site.program)
        if extents[last].step == 1 and find_strips(nodes, stands_for(last)) is not None:
            trial = replace(site, names=names, teams=False)
            nodes = _cpu_loops(group, trial, order_dims(group, kept, CPU_WRITE), extents)
    return statements_in_lanes(nodes, group, site.program, names.buffers)


