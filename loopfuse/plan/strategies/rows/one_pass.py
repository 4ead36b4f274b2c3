"""Rows and columns of an array in one pass, on a CPU: a worker goes along a few rows, and adds them, which are in its cache, to a copy of
the results of columns.

before:  for r: s[r] = sum(c: x[r, c] * v[c])
         for c: for r: t[c] += x[r, c] * s[r]
after:   for each share of the rows: for c: part[share, c] = 0
                                     for each few of its rows: for r in few: s[r] = sum(c: x[r, c] * v[c])
                                                               for c: for r in few: part[share, c] += x[r, c] * s[r]
         for c: for each share: t[c] += part[share, c]

How many rows have a copy is one number for all machines and sizes, and with it the order of a sum; copies take a small part of what
rows take.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import ClassVar

from loopfuse.lang.linear import constant_value, tidy
from loopfuse.lang.nodes import Expr, Iter, integer
from loopfuse.plan.mapping.interior import split_inner
from loopfuse.plan.mapping.lanes import statements_in_lanes, with_lanes
from loopfuse.plan.mapping.space import Site, dim_extents, hint_of, order_dims
from loopfuse.plan.mapping.threads import thread_body
from loopfuse.plan.strategies.map_fit import MapFit, parallel_over
from loopfuse.plan.strategies.rows.blocks import TURN, BlocksFit, find_steps
from loopfuse.plan.strategies.rows.crossing import find_crossing
from loopfuse.plan.strategies.rows.lanes import LanesFit
from loopfuse.plan.strategies.strategy import Fit
from loopfuse.plan.strategies.versions import by_length
from loopfuse.plan.units.groups import Crossing, Group
from loopfuse.poly.model import PolyProgram
from loopfuse.tree.looptree import HostNode, Launch, Loop, LoopTree, TreeNode
from loopfuse.tree.looptree import Mapping as Where

SHARE = 64
"""Rows that have a copy of the results of columns."""
FEW = 1024
"""Rows up to which the loops stay apart: shares of them are too few for many workers."""


def crosses(first: Group, second: Group, program: PolyProgram) -> Crossing | None:
    """Two neighbouring groups as one pass; None where they are none, or have few rows."""
    found = find_crossing(first, second, program, SHARE)
    if found is None:
        return None
    rows = dim_extents(found.along, program)[found.dim]
    count = constant_value(tidy(rows.upper - rows.lower))
    return None if count is not None and count <= FEW else found


@dataclass(frozen=True, slots=True)
class OnePassFit(Fit):
    """Both groups, and how each is run by itself. `free`: the statements along rows whose updates run in lanes in the pass."""

    crossing: Crossing
    first: Fit
    second: Fit
    columns: BlocksFit
    free: frozenset[str]
    launches: ClassVar[int] = 2

    @property
    def along(self) -> Fit:
        """That of the group along rows."""
        return self.first if self.second is self.columns else self.second

    def bind(self, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
        def apart(least: int, most: int) -> tuple[HostNode, ...]:
            rows = self.along.bind(site, f"{name}_along", self._labels(True))
            columns = self.columns.few(site, f"{name}_across", self._labels(False))
            return (*rows, *columns) if self.along is self.first else (*columns, *rows)

        def one(least: int, most: int) -> tuple[HostNode, ...]:
            return self._one(site, name, labels)

        return by_length(site.names, self.columns.body.length, [(FEW, apart), (0, one)], "{} rows")

    def _labels(self, is_along: bool) -> tuple[str, ...]:
        group = self.crossing.along if is_along else self.crossing.across
        return tuple(dict.fromkeys(unit.label for unit in group.units))

    def _one(self, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
        """The two launches."""
        steps = find_steps(self.columns.body)
        assert steps is not None
        site.names.declare(self.columns.memory)
        writer = self.columns.writer(site, steps[0], SHARE)
        writer.begin()
        block = site.names.fresh("rb")
        first, last = writer.rows_of(Iter(block))

        own = _own_rows(self.along, self.crossing.along, self.crossing.dim)
        together = 1 if own is None else gcd(own.at_once, TURN)

        def rows(place: Expr, count: int) -> tuple[TreeNode, ...]:
            if own is not None and together > 1:
                return own.few(site, lambda m: {self.crossing.dim: tidy(place + m)}, count)
            return row_nodes(self.along, self.crossing.along, self.crossing.dim, place, site)

        turn, of_turn, rest = (site.names.fresh(var) for var in ("k", "r", "r"))
        turns = tidy(last - first) // TURN
        low, high = writer.extent.lower, writer.extent.upper
        start = tidy(first + Iter(turn) * TURN)
        few = rows(start if together == TURN else tidy(start + Iter(of_turn) * together), together)
        if together < TURN:
            few = (Loop(of_turn, integer(0), integer(TURN // together), 1, Where.SERIAL, few),)
        alone = (*rows(Iter(rest), 1), writer.one(Iter(block), Iter(rest), low, high))
        nodes = (
            *writer.cleared(Iter(block), low, high),
            Loop(turn, integer(0), turns, 1, Where.SERIAL, (*few, writer.turn(Iter(block), start, low, high))),
            Loop(rest, tidy(first + turns * TURN), last, 1, Where.SERIAL, alone),
        )
        body = (Loop(block, integer(0), writer.blocks, 1, Where.THREAD, nodes),)
        summed = writer.together()
        return (
            Launch(f"{name}_pass", "rows", labels, body),
            Launch(f"{name}_sums", "rows", self._labels(False), summed),
        )

    def reordered(self) -> frozenset[str]:
        return self.first.reordered() | self.second.reordered() | self.free

    def detail(self, launch: Launch, tree: LoopTree) -> str:
        """`rows, one pass, each 64 rows with a copy of y, parallel over i`."""
        if launch.name.endswith("_pass"):
            results, found = ", ".join(self.crossing.results), self.crossing
            return f"rows, one pass, each {SHARE} rows with a copy of {results}, parallel over {hint_of(found.along, found.dim)}"
        if launch.name.endswith("_sums"):
            return f"rows, copies added up, {parallel_over(self.crossing.across)}"
        return (self.along if launch.name.endswith("_along") else self.columns).detail(launch, tree)


def cross(first: Fit, second: Fit, found: Crossing, site: Site) -> Fit | None:
    """The fit of both in one pass; None where rows are no worker's own, or columns not added up in blocks of rows."""
    columns, along = (second, first) if _runs(second, found.across) else (first, second)
    if not isinstance(columns, BlocksFit) or not _runs(columns, found.across) or not isinstance(along, LanesFit | MapFit):
        return None
    if len(find_steps(columns.body) or ()) != 1:
        return None
    trial = replace(site, names=site.names.copy())
    nodes = _row(along, found.along, found.dim, Iter(trial.names.fresh("r")), trial)
    free = statements_in_lanes(nodes, found.along, site.program, trial.names.buffers)
    return OnePassFit(found, first, second, columns, free)


def _runs(fit: Fit, group: Group) -> bool:
    return isinstance(fit, BlocksFit) and fit.group.ids == group.ids


def _own_rows(fit: Fit, group: Group, dim: str) -> LanesFit | None:
    """The fit, where a row of the dimension is one worker's, its sums in lanes; None elsewhere."""
    return fit if isinstance(fit, LanesFit) and group.dims == (dim,) else None


def row_nodes(fit: Fit, group: Group, dim: str, place: Expr, site: Site) -> tuple[TreeNode, ...]:
    """What is done along the row at a place."""
    nodes = _row(fit, group, dim, place, site)
    if _own_rows(fit, group, dim) is not None:
        return nodes
    return split_inner(with_lanes(nodes, group, site.program, site.names), site.names.fresh)


def _row(fit: Fit, group: Group, dim: str, place: Expr, site: Site) -> tuple[TreeNode, ...]:
    """The same, where it has none of its own its sums not in lanes yet."""
    if (own := _own_rows(fit, group, dim)) is not None:
        return own.row(site, {dim: place})
    extents = dim_extents(group, site.program)
    names = {other: site.names.fresh(hint_of(group, other)) for other in order_dims(group) if other != dim}
    point: dict[str, Expr] = {dim: place, **{other: Iter(var) for other, var in names.items()}}
    nodes = thread_body(group, site, extents, point)
    for other, var in reversed(names.items()):
        nodes = (Loop(var, extents[other].lower, extents[other].upper, extents[other].step, Where.SERIAL, nodes),)
    return nodes
