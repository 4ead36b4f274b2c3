"""Point-wise loops on the CPU: all dimensions that lie one after the other run as one row.

Where rows are short (`img[y, x, c]` with three colours) a loop over each has no room for vectors, and a
loop over one of two rows none for threads. As on the GPU, a short last dimension runs as one with the
one before it (`pointwise_columns`), and dimensions whose product no tree can hold as the tree is
collapsed (`poly.collapse`). A worker takes a chunk of the row:

before:  THREAD y: 0..H, THREAD x: 0..W, c: 0..3, out[y, x, c]
after:   THREAD y: 0..H, THREAD b: 0..ceil(W / n), e: 0..3*min(n, W - b*n), out[y, b*n + e // 3, e % 3]

Where the program does not do the same with dimensions as one (another launch reads neighbours, say), loops of this launch may
(`tree.rewrite.coalesce`): those of neighbours at whole distances along the last dimension too, as of `z[x, c]` from `y[x - 1, c]`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import gcd

from loopfuse.base.machine import LINE
from loopfuse.lang.index import ceil_div
from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter, Symbol, combine, integer
from loopfuse.lang.walk import iterators
from loopfuse.plan.mapping.space import Site, count_of, dim_extents, hint_of, value_at
from loopfuse.plan.mapping.threads import chunk_of, thread_body
from loopfuse.plan.strategies.map_fit import Plan
from loopfuse.plan.strategies.pointwise.columns import Columns, find_columns
from loopfuse.plan.strategies.pointwise.pointwise import arrays_along, has_pointwise_form
from loopfuse.plan.units.groups import Group
from loopfuse.tree.looptree import Launch, Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.rewrite.coalesce import find_coalesced

WIDTH = 4
"""Elements of a vector as `find_columns` counts them: up to sixteen of them are short."""


def runs_in_rows(group: Group, site: Site) -> bool:
    """Is every access the point itself, or what does not move along the last dimension?"""
    return site.device == "cpu" and has_pointwise_form(group, site)


def fit_rows(group: Group, site: Site) -> tuple[Plan, tuple[str, ...]] | None:
    """How a group that `runs_in_rows` is run, and the iterators of dimensions that run as one by themselves; None where none
    run as one."""
    columns = find_columns(group, site, dim_extents(group, site.program), WIDTH)
    if columns.inner and (_is_repeated(group, columns) or _has_gaps(group, site, columns)):
        return None
    joined = 0
    if not columns.ones:
        columns = replace(columns, rows=_as_in_memory(columns, group))
        joined = _count_joined(columns, group, site)
    if not columns.inner and not columns.ones and not joined:
        return None
    dims = (*columns.rows[len(columns.rows) - joined :], columns.dim) if joined else ()
    return partial(_plan_rows, columns, joined), tuple(hint_of(group, dim) for dim in dims)


def _as_in_memory(columns: Columns, group: Group) -> tuple[str, ...]:
    """The dimensions in front of the columns in the order of the subscripts of the first element that is written."""
    placed = next(placed for placed in group.members if placed.coordinates)
    index = placed.unit.statements[-1].target.index
    dim_of = {c.iterator: c.dim for c in placed.coordinates}
    places = {dim_of[name]: k for k, part in enumerate(index) for name in iterators(part) if name in dim_of}
    return tuple(sorted(columns.rows, key=lambda dim: places.get(dim, -1)))


def _count_joined(columns: Columns, group: Group, site: Site) -> int:
    """How many of the dimensions in front of the columns run as one with them, by themselves."""
    longest = len(columns.rows) if isinstance(columns.count, Symbol) else 0
    for count in range(longest, 0, -1):
        trial = replace(site, names=site.names.copy())
        launch = _plan_rows(columns, count, group, trial, "", ())
        if not isinstance(find_coalesced(launch, trial.names.buffers), str):
            return count
    return 0


def _plan_rows(
    columns: Columns, joined: int, group: Group, site: Site, name: str, labels: tuple[str, ...]
) -> Launch:
    """The launch; the loops over `joined` of the dimensions in front of the columns run as one with these."""
    extents = dim_extents(group, site.program)
    names = site.names
    outer: list[tuple[str, Expr]] = []
    point: dict[str, Expr] = {}
    for dim in columns.rows:
        var = names.fresh(hint_of(group, dim))
        outer.append((var, count_of(extents[dim])))
        point[dim] = value_at(extents[dim], Iter(var))
    var = names.fresh(hint_of(group, columns.dim))
    trial = replace(site, names=names.copy())
    one = thread_body(group, trial, extents, {**point, **columns.point(integer(0), Iter(var))})
    size = _whole_lines(max(1, chunk_of(one) // columns.elements), columns, group, site)
    chunk = names.fresh(f"{var}b")
    outer.append((chunk, ceil_div(columns.count, size)))
    base = Iter(chunk) * size
    lower: Expr = integer(0)
    upper = combine("min", integer(size), tidy(columns.count - base))
    if columns.inner:
        upper = upper * columns.elements
        at = columns.point(base, Iter(var))
    else:
        lower, upper = base, combine("min", columns.count, tidy(base + size))
        at = {columns.dim: Iter(var)}
    body = thread_body(group, site, extents, {**point, **at})
    nodes: tuple[TreeNode, ...] = (Loop(var, lower, upper, 1, Where.SERIAL, body),)
    for each, count in reversed(outer):
        nodes = (Loop(each, integer(0), count, 1, Where.THREAD, nodes),)
    if not joined:
        return Launch(name, "pointwise", labels, nodes)
    loops = tuple(each for each, _ in outer[:-1])
    assert isinstance(columns.count, Symbol)
    ones = (*loops[len(loops) - joined :], columns.count.name)
    return Launch(name, "pointwise", labels, nodes, coalesced=ones)


def _whole_lines(count: int, columns: Columns, group: Group, site: Site) -> int:
    """At least so many columns, of which the elements of each array fill whole lines: 21 of three colours would be 7 vectors of 8
    elements and 7 of them one by one. (Where so many fill no line, `count`: each is long work.)"""
    bytes_ = [site.program.arrays[name].dtype.bytes for name in arrays_along(group, site)]
    whole = LINE // min(bytes_, default=LINE)
    whole //= gcd(whole, columns.elements)
    return count if count < whole else -(-count // whole) * whole


def _has_gaps(group: Group, site: Site, columns: Columns) -> bool:
    """Is an array a view whose columns may lie apart?"""
    needed, names = 1 + len(columns.inner), site.names
    return any(
        name in names.strided and names.rows.get(name, 0) < needed
        for name in arrays_along(group, site)
    )


def _is_repeated(group: Group, columns: Columns) -> bool:
    """Is anything read that is the same in each column (`bias[c]`)? Along one row its elements come
    again and again, which makes no vectors."""
    for placed in group.members:
        if not placed.coordinates:
            continue
        mine = {placed.coordinate(dim).iterator for dim in columns.inner}
        own = placed.coordinate(columns.dim).iterator
        for s in placed.unit.statements:
            for access in s.reads:
                used = {name for part in access.load.index for name in iterators(part)}
                if used & mine and own not in used:
                    return True
    return False
