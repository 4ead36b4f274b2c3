"""Rows and columns of an array in one pass, on a GPU: a block goes along a few rows, and its threads, each of which has the same
places of every row, add what they hold of them to results of their columns.

before:  for r: { s[r] = sum(c: x[r, c] * v[c]); for c: y[r, c] = x[r, c] * s[r] }
         for c: t[c] = sum(r: x[r, c] * s[r])
after:   for each share of the rows: threads t: { sums[k] = 0
                                                  for r in share: { row r as ever;  sums[k] += x[r, k * T + t] * s[r] }
                                                  part[share, k * T + t] = sums[k] }
         for each 32 columns: threads t: t[c] = the sum of part[k * T + t, c], added up over t

How many rows have a copy is one number for all machines and sizes, and with it the order of a sum. Rows that are
longer than a block holds, and few rows, stay apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from loopfuse.lang.index import ceil_div
from loopfuse.lang.linear import constant_value, tidy
from loopfuse.lang.nodes import Expr, Iter, Load, combine, integer
from loopfuse.lang.walk import moved_to, substitute
from loopfuse.plan.mapping.body import Names
from loopfuse.plan.mapping.joined import join_nests
from loopfuse.plan.mapping.space import Site, count_of, dim_extents, hint_of, order_dims
from loopfuse.plan.mapping.threads import stands_for, symbolic_body
from loopfuse.plan.strategies.rows import sizes
from loopfuse.plan.strategies.rows.along import RowsFit
from loopfuse.plan.strategies.rows.blocks import Step
from loopfuse.plan.strategies.rows.body import COLUMN, Body, body_of
from loopfuse.plan.strategies.rows.columns import ColumnsFit
from loopfuse.plan.strategies.rows.crossing import find_crossing
from loopfuse.plan.strategies.rows.gpu import Team, Threads, share_nodes
from loopfuse.plan.strategies.rows.shares import (
    TOGETHER,
    Parts,
    parts_of,
    share_launches,
    step_in_shares,
    together,
)
from loopfuse.plan.strategies.rows.teams import body_at
from loopfuse.plan.strategies.rows.vectors import vector_of
from loopfuse.plan.strategies.strategy import Fit
from loopfuse.plan.strategies.versions import Version, Write, by_length
from loopfuse.plan.units.groups import Crossing, Group
from loopfuse.poly.model import PolyProgram
from loopfuse.tree.looptree import (
    Compute,
    Global,
    HostNode,
    Launch,
    Loop,
    LoopTree,
    TreeNode,
)
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import map_expressions

SHARE = "@share"
"""Stands for the number of a share in the body of a row."""
PASS = "_pass"
"""How the names of the launches of rows end."""


def crosses_blocks(first: Group, second: Group, program: PolyProgram) -> Crossing | None:
    """Two neighbouring groups as one pass by blocks; None where they are none, or have few rows."""
    found = find_crossing(first, second, program, sizes.ROWS_OF_SHARE)
    if found is None or found.along.dims != (found.dim,):
        return None
    rows = constant_value(count_of(dim_extents(found.along, program)[found.dim]))
    return None if rows is not None and rows <= sizes.FEW_ROWS else found


@dataclass(frozen=True, slots=True)
class BothFit(Fit):
    """Both groups, how each is run by itself, and what is done with a row where both go along: `rows` is the fit of that, `parts` what shares
    leave of the results of columns."""

    crossing: Crossing
    first: Fit
    second: Fit
    columns: ColumnsFit
    step: Step
    rows: RowsFit
    parts: Parts
    launches: ClassVar[int] = 2

    def bind(self, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
        site.names.declare((*self.rows.memory, *self.parts.buffers))
        shapes = [shape for shape in sizes.SHARING_ROWS if shape[0] == 1 or shape[0] <= site.machine.cluster]
        teams = [(shape, prod(shape) * sizes.HELD_OF_SHARE) for shape in shapes]
        widest = teams[-1][1]

        def apart(least: int, most: int) -> tuple[HostNode, ...]:
            along, across = f"{name}_few_along", f"{name}_few_across"
            return self._in_turn(self.along.bind(site, along, self._labels(True)), self.columns.bind(site, across, self._labels(False)))

        def short(least: int, most: int) -> tuple[HostNode, ...]:
            along = self.along.shortest(site, f"{name}_short_along", self._labels(True), most or sizes.LEAST_SHARED)
            return self._in_turn(along, share_launches(self.columns, self.step, site, f"{name}_short_across", self._labels(False)))

        def longer(least: int, most: int) -> tuple[HostNode, ...]:
            along = self.along.longest(site, f"{name}_along", self._labels(True), widest + 1)
            return self._in_turn(along, self.columns.long_columns(site, f"{name}_across", self._labels(False)))

        def both(shape: tuple[int, int]) -> Write:
            return lambda least, most: self._both(site, f"{name}_{prod(shape)}", labels, shape, least, most)

        def many(least: int, most: int) -> tuple[HostNode, ...]:
            versions: list[Version] = [(sizes.LEAST_SHARED, short), *((most, both(shape)) for shape, most in teams), (0, longer)]
            return by_length(site.names, self.rows.body.length, versions, "rows of {} places")

        return by_length(site.names, self._rows(site), [(sizes.FEW_ROWS, apart), (0, many)], "{} rows")

    @property
    def along(self) -> RowsFit:
        """The fit of the group along rows."""
        return self.first if isinstance(self.first, RowsFit) else as_rows(self.second)

    def _in_turn(self, along: tuple[HostNode, ...], across: tuple[HostNode, ...]) -> tuple[HostNode, ...]:
        return (*along, *across) if self.along is self.first else (*across, *along)

    def _rows(self, site: Site) -> Expr:
        return count_of(dim_extents(self.crossing.along, site.program)[self.crossing.dim])

    def _labels(self, is_along: bool) -> tuple[str, ...]:
        group = self.crossing.along if is_along else self.crossing.across
        return tuple(dict.fromkeys(unit.label for unit in group.units))

    def _both(self, site: Site, name: str, labels: tuple[str, ...], shape: tuple[int, int], least: int, most: int) -> tuple[HostNode, ...]:
        """The two launches for rows of so many places, of which each is a block's of so many threads, or a cluster's of so many blocks."""
        shares = ceil_div(self._rows(site), sizes.ROWS_OF_SHARE)
        dim, extent = self.crossing.dim, dim_extents(self.crossing.along, site.program)[self.crossing.dim]
        share, row, thread = (site.names.fresh(var) for var in ("share", hint_of(self.crossing.along, dim), "t"))
        first = tidy(extent.lower + Iter(share) * sizes.ROWS_OF_SHARE)
        end = combine("min", extent.upper, tidy(first + sizes.ROWS_OF_SHARE))
        body = body_at(self.rows.body, self.rows.memory, site, {dim: Iter(row)})
        body = body.at({SHARE: Iter(share)})
        parts = tuple(_moved(part, {SHARE: Iter(share)}) for part in _at_columns(self.columns, self.parts))
        (blocks, threads), held = shape, sizes.HELD_OF_SHARE
        rank = [(site.names.fresh("rank"), blocks)] if blocks > 1 else []
        team = Team(Threads((*rank, (thread, threads))), held, least, most, staged=held, vector=self.vector)

        def along(nodes: tuple[TreeNode, ...]) -> tuple[TreeNode, ...]:
            return (Loop(row, first, end, 1, Where.SERIAL, nodes),)

        chain = [(share, shares, Where.GRID), *((var, integer(count), Where.CLUSTER) for var, count in rank)]
        chain.append((thread, integer(threads), Where.BLOCK))
        launch = self.rows.launch(f"{name}{PASS}", labels, chain, share_nodes(body, team, site, dict(zip(parts, self.ops)), row, along))
        return launch, together(self.columns, self.step, self.parts, shares, site, name, self._labels(False))

    @property
    def vector(self) -> int:
        """Neighbouring elements of a thread."""
        return vector_of(self.rows.body, {buffer.name: buffer for buffer in self.rows.memory}, _at_columns(self.columns, self.parts))

    @property
    def ops(self) -> tuple[str, ...]:
        """How each result is added up."""
        return tuple(update.op for update in self.step.one.updates)

    def reordered(self) -> frozenset[str]:
        return self.first.reordered() | self.second.reordered()

    def detail(self, launch: Launch, tree: LoopTree) -> str:
        """`rows, one pass, a block for 64 rows with a copy of y, x held in registers, parallel over r`."""
        results = ", ".join(self.crossing.results)
        if launch.name.endswith(PASS):
            who, rest = self.rows.detail(launch, tree).removeprefix("rows, ").split(" a row, ", 1)
            return f"rows, one pass, {who} for {sizes.ROWS_OF_SHARE} rows with a copy of {results}, {rest}"
        if "_across" in launch.name or launch.name.endswith(TOGETHER):
            return self.columns.detail(launch, tree)
        return self.along.detail(launch, tree)


def as_rows(fit: Fit) -> RowsFit:
    """The fit, which is of rows."""
    assert isinstance(fit, RowsFit)
    return fit


def cross_blocks(first: Fit, second: Fit, found: Crossing, site: Site) -> Fit | None:
    """The fit of both in one pass; None where rows are no teams' own, or columns not added up in shares."""
    along, columns = (first, second) if isinstance(first, RowsFit) else (second, first)
    if not isinstance(along, RowsFit) or not isinstance(columns, ColumnsFit):
        return None
    if along.group.ids != found.along.ids or columns.group.ids != found.across.ids:
        return None
    step = step_in_shares(columns.body, columns.group, site.program)
    if step is None or not all(isinstance(node, Compute) for node in step.one.nodes):
        return None
    nodes, names = symbolic_body(found.along, site)
    shares = ceil_div(count_of(dim_extents(found.along, site.program)[found.dim]), sizes.ROWS_OF_SHARE)
    parts = parts_of(columns, step, names, site.program, shares, Iter(SHARE))
    names.declare((*columns.memory, *parts.buffers))
    body = _body(found, columns, step, parts, (*join_nests(nodes), _across(found, columns, step, parts, site, names)), site, names)
    if body is None or body.has_nests:
        return None
    made = {buffer.name for buffer in parts.buffers}
    memory = tuple(each for each in names.buffers.values() if isinstance(each.home, Global) and each.name not in made)
    return BothFit(found, first, second, columns, step, RowsFit(found.along, body, memory), parts)


def _body(
    found: Crossing, columns: ColumnsFit, step: Step, parts: Parts, nodes: tuple[TreeNode, ...], site: Site, names: Names
) -> Body | None:
    """What is done with a row; None where it has another form, or lengths, or more than one range."""
    body = body_of(found.along.ids | found.across.ids, found.along.scope, site, nodes, names)
    if body is None or len({one.range for one in body.passes}) != 1:
        return None
    results = set(_at_columns(columns, parts))
    touching = [one for one in body.passes if results & {node.target for node in one.nodes if isinstance(node, Compute)}]
    return body if len(touching) == 1 else None


def _at_columns(columns: ColumnsFit, parts: Parts) -> list[Load]:
    """The partial results of a share at the place of a row that stands for their column."""
    (dim,) = order_dims(columns.group)
    return [_moved(part, {stands_for(dim): Iter(COLUMN)}) for part in parts.places.values()]


def _moved(load: Load, at: dict[str, Expr]) -> Load:
    return replace(load, index=tuple(tidy(substitute(part, at)) for part in load.index))


def _across(found: Crossing, columns: ColumnsFit, step: Step, parts: Parts, site: Site, names: Names) -> Loop:
    """What a row adds to the results of columns, as a loop over the row."""
    (dim,) = order_dims(columns.group)
    extent, var = dim_extents(columns.group, site.program)[dim], names.fresh(hint_of(columns.group, dim))
    own = {
        Load(each.name, (), each.dtype): names.register(each.array, Load(each.array, (), each.dtype)) for each in columns.body.registers
    }
    at: dict[str, Expr] = {COLUMN: Iter(stands_for(found.dim)), stands_for(dim): Iter(var)}

    def change(expr: Expr) -> Expr:
        return tidy(substitute(moved_to(expr, {**own, **parts.places}), at))

    return Loop(var, extent.lower, extent.upper, 1, Where.SERIAL, map_expressions(step.one.nodes, change))
