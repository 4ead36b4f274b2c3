"""Strategy `pointwise`, GPU: every access is the point itself (or does not move along the
contiguous dimension), so a thread takes 16 consecutive bytes of every array at a time.

The wide path needs 16-byte aligned arrays whose rows are whole vectors; it is chosen once per
call, and the other path covers the same block with neighbouring threads on neighbouring elements.
"""

from __future__ import annotations

from collections.abc import Mapping

from loopfuse.lang.affine import combine, integer
from loopfuse.lang.nodes import Const, Expr, Iter
from loopfuse.lang.walk import iterators
from loopfuse.plan.body import guard_of, host_conditions
from loopfuse.plan.expressions import TRUE, ceil_div, compare, conjoin
from loopfuse.plan.forest import carries_nothing
from loopfuse.plan.generic import (
    BLOCK,
    TILE,
    Extent,
    Site,
    count_of,
    dim_extents,
    hint_of,
    known_of,
    order_dims,
    thread_body,
    value_at,
)
from loopfuse.plan.groups import Group
from loopfuse.plan.looptree import ALIGNED, Guard, Launch, Loop, TreeNode
from loopfuse.plan.looptree import Mapping as Where
from loopfuse.plan.recompute import Resolver, TooMany, tidy
from loopfuse.poly.isl import linear
from loopfuse.poly.model import Statement

VECTOR_BYTES = 16


def fits_pointwise(group: Group, site: Site) -> bool:
    """Every statement is at full depth over unshifted dimensions starting at zero, and every
    access either is contiguous along the last dimension or ignores it."""
    if site.device != "gpu" or group.kind != "map" or group.scope is None:
        return False
    last = order_dims(group)[-1]
    extents = dim_extents(group, site.program)
    for placed in group.members:
        if not carries_nothing(placed.unit, group.scope):
            return False
        c = placed.coordinate(last)
        if c.sign != 1 or c.parameters or c.constant:
            return False
        loop = next(loop for loop in placed.unit.common if loop.iterator == c.iterator)
        if loop.lower != integer(0) or loop.step != 1 or iterators(loop.upper):
            return False
        known = known_of(placed, extents) + host_conditions(group)
        for s in placed.unit.statements:
            if not _is_plain(s, c.iterator) or c.iterator in iterators(guard_of(s, known, site.program)):
                return False
    if not _recomputes_in_place(group, site, last):
        return False
    if any(name in site.names.strided for name in _arrays(group, site)):
        return False  # a view's neighbours may lie apart
    return vector_width(group, site) > 1


def _recomputes_in_place(group: Group, site: Site, last: str) -> bool:
    """Every recomputed value is of the point's own column, or of none."""
    resolver = Resolver(site.program, group)
    for placed in group.members:
        at = {c.iterator: c.value() for c in placed.coordinates}
        for s in placed.unit.statements:
            point: dict[str, Expr] = {name: at.get(name, Iter(name)) for name in s.iterators}
            try:
                values = resolver.closure(s, point)
            except TooMany:
                return False
            for value in values:
                producer = resolver.statements[value.statement]
                if value.needed != TRUE:
                    return False
                for iterator, where in zip(producer.iterators, value.iteration):
                    if last not in iterators(where):
                        continue
                    if where != Iter(last) or not _is_plain(producer, iterator):
                        return False
    return True


def _is_plain(statement: Statement, iterator: str) -> bool:
    """Along `iterator`, every access of the statement is contiguous, unshifted, or constant."""
    if statement.predicate is not None or len(statement.write.parts) != 1:
        return False
    for access in (*statement.reads, statement.write):
        if len(access.parts) != 1:
            return False
        index = access.load.index
        if not index:
            continue
        if any(iterator in iterators(each) for each in index[:-1]):
            return False
        terms = linear(index[-1])
        if terms is None:
            if iterator in iterators(index[-1]):
                return False
        elif terms.get(iterator, 0) not in (0, 1) or (terms.get(iterator) == 1 and any(c for n, c in terms.items() if n != iterator)):
            return False
    return True


def _arrays(group: Group, site: Site) -> list[str]:
    """Arrays of the group that live in memory and move along the last dimension."""
    last = order_dims(group)[-1]
    found: list[str] = []
    for placed in group.members:
        iterator = placed.coordinate(last).iterator
        for s in placed.unit.statements:
            for access in (*s.reads, s.write):
                index = access.load.index
                home = site.stores[access.array].home
                if index and iterator in iterators(index[-1]) and home == "global":
                    found.append(access.array)
    return list(dict.fromkeys(found))


def vector_width(group: Group, site: Site) -> int:
    """Elements a thread takes: 16 bytes of the widest array."""
    arrays = _arrays(group, site)
    widest = max((site.program.arrays[name].dtype.bytes for name in arrays), default=16)
    return max(1, VECTOR_BYTES // widest)


def plan_pointwise(group: Group, site: Site, name: str, labels: tuple[str, ...]) -> Launch:
    """The launch of a group that `fits_pointwise`."""
    names, width = site.names, vector_width(group, site)
    extents = dim_extents(group, site.program)
    dims = order_dims(group)
    last = dims[-1]
    rows = dims[:-1]
    columns = BLOCK if not rows else TILE[0]
    point: dict[str, Expr] = {}
    guards: list[Expr] = []
    grid: list[tuple[str, Expr]] = []
    block: list[tuple[str, Expr]] = []
    for dim in rows:
        extent = extents[dim]
        count = count_of(extent)
        var = names.fresh(hint_of(group, dim))
        number: Expr = Iter(var)
        if dim == rows[-1]:
            thread = names.fresh(f"{var}t")
            grid.append((var, ceil_div(count, TILE[1])))
            block.append((thread, integer(TILE[1])))
            number = combine("add", combine("mul", number, integer(TILE[1])), Iter(thread))
        else:
            grid.append((var, count))
        point[dim] = value_at(extent, number)
        if dim == rows[-1]:
            guards.append(compare("lt", point[dim], extent.upper))
    x = hint_of(group, last)
    xb, xt = names.fresh(f"{x}b"), names.fresh(f"{x}t")
    upper = extents[last].upper
    grid.append((xb, ceil_div(upper, columns * width)))
    block.append((xt, integer(columns)))
    base = combine("mul", Iter(xb), integer(columns * width))
    body = (
        Guard(
            _wide_condition(group, site, width, upper),
            _wide(group, site, extents, point, guards, last, base, xt, width),
            _narrow(group, site, extents, point, guards, last, base, xt, width, columns),
        ),
    )
    nodes: tuple[TreeNode, ...] = body
    for var, count in reversed(block):
        nodes = (Loop(var, integer(0), count, 1, Where.BLOCK, nodes),)
    for var, count in reversed(grid):
        nodes = (Loop(var, integer(0), count, 1, Where.GRID, nodes),)
    return Launch(name, "pointwise", labels, nodes)


def _wide_condition(group: Group, site: Site, width: int, upper: Expr) -> Expr:
    """Aligned arrays, and every row a whole number of vectors."""
    conditions: list[Expr] = [ALIGNED]
    lengths = [upper]
    for name in _arrays(group, site):
        extents = site.program.arrays[name].extents
        if len(extents) + len(site.stores[name].leading) > 1:
            lengths.append(extents[-1])
    for length in dict.fromkeys(lengths):
        rest = combine("mod", length, integer(width))
        if not isinstance(length, Const) or int(length.value) % width:
            conditions.append(compare("eq", rest, integer(0)))
    return conjoin(*conditions)


def _wide(
    group: Group,
    site: Site,
    extents: Mapping[str, Extent],
    point: Mapping[str, Expr],
    guards: list[Expr],
    last: str,
    base: Expr,
    xt: str,
    width: int,
) -> tuple[TreeNode, ...]:
    start = tidy(combine("add", base, combine("mul", Iter(xt), integer(width))))
    lane = site.names.fresh("v")
    inside = {**point, last: tidy(combine("add", start, Iter(lane)))}
    body = thread_body(group, site, extents, inside)
    vector = Loop(lane, integer(0), integer(width), 1, Where.VECTOR, body)
    return (Guard(conjoin(*guards, compare("lt", start, extents[last].upper)), (vector,)),)


def _narrow(
    group: Group,
    site: Site,
    extents: Mapping[str, Extent],
    point: Mapping[str, Expr],
    guards: list[Expr],
    last: str,
    base: Expr,
    xt: str,
    width: int,
    columns: int,
) -> tuple[TreeNode, ...]:
    part = site.names.fresh("u")
    offset = combine("add", combine("mul", Iter(part), integer(columns)), Iter(xt))
    inside = {**point, last: tidy(combine("add", base, offset))}
    body = thread_body(group, site, extents, inside)
    guarded = Guard(compare("lt", inside[last], extents[last].upper), body)
    loop = Loop(part, integer(0), integer(width), 1, Where.SERIAL, (guarded,))
    return (Guard(conjoin(*guards), (loop,)),) if guards else (loop,)
