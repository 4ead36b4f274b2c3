"""Rows on a CPU, each of which is one worker's, with its sums in lanes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter
from loopfuse.plan.mapping.space import (
    CPU_WRITE,
    Site,
    count_of,
    dim_extents,
    hint_of,
    in_chunks,
    nested,
    order_dims,
    value_at,
)
from loopfuse.plan.mapping.threads import chunk_of, stands_for
from loopfuse.plan.strategies.generic.generic import FEWEST
from loopfuse.plan.strategies.map_fit import parallel_over
from loopfuse.plan.strategies.rows.body import Body
from loopfuse.plan.strategies.rows.cpu import lane_nodes
from loopfuse.plan.strategies.rows.few import few_rows, rows_at_once
from loopfuse.plan.strategies.rows.teams import body_at
from loopfuse.plan.strategies.strategy import Fit
from loopfuse.plan.units.groups import Group
from loopfuse.tree.looptree import Buffer, Guard, HostNode, Launch, Loop, LoopTree, TreeNode
from loopfuse.tree.looptree import Mapping as Where


@dataclass(frozen=True, slots=True)
class LanesFit(Fit):
    """A worker has rows of its own."""

    group: Group
    body: Body
    memory: tuple[Buffer, ...]

    def bind(self, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
        names, extents = site.names, dim_extents(self.group, site.program)
        *outer, last = order_dims(self.group, write=CPU_WRITE)
        chain: list[tuple[str, Expr, Where]] = []
        point: dict[str, Expr] = {}
        for dim in outer:
            var = names.fresh(hint_of(self.group, dim))
            chain.append((var, count_of(extents[dim]), Where.THREAD))
            point[dim] = value_at(extents[dim], Iter(var))
        var, extent = names.fresh(hint_of(self.group, last)), extents[last]
        trial = replace(site, names=names.copy())
        count, rows = chunk_of(self.row(trial, {**point, last: Iter(var)})), self.at_once
        if rows > 1 and count <= rows and extent.step == 1:
            chunk = names.fresh(f"{var}b")
            chunks, low, high = in_chunks(extent, rows, chunk)
            few = self.few(site, lambda row: {**point, last: tidy(low + row)}, rows)
            one = self.few(site, lambda row: {**point, last: Iter(var)}, 1)
            nodes = (Guard(tidy(low + rows) <= extent.upper, few, (Loop(var, low, high, 1, Where.SERIAL, one),)),)
            chain.append((chunk, chunks, Where.THREAD))
        elif count < FEWEST:
            nodes = self.row(site, {**point, last: value_at(extent, Iter(var))})
            chain.append((var, count_of(extent), Where.THREAD))
        else:  # a worker takes several short ones at a time
            chunk = names.fresh(f"{var}b")
            chunks, low, high = in_chunks(extent, count, chunk)
            body = self.row(site, {**point, last: Iter(var)})
            nodes = (Loop(var, low, high, extent.step, Where.SERIAL, body),)
            chain.append((chunk, chunks, Where.THREAD))
        return (Launch(name, "rows", labels, nested(chain, nodes)),)

    def row(self, site: Site, point: Mapping[str, Expr]) -> tuple[TreeNode, ...]:
        """What a worker runs for the row at a point."""
        return lane_nodes(body_at(self.body, self.memory, site, point), site.names)

    @property
    def at_once(self) -> int:
        """How many rows go together."""
        return rows_at_once(self.body, stands_for(order_dims(self.group, write=CPU_WRITE)[-1]))

    def few(self, site: Site, point: Callable[[Expr], Mapping[str, Expr]], rows: int) -> tuple[TreeNode, ...]:
        """What a worker runs for so many rows, each at its point."""
        return few_rows(lambda row: body_at(self.body, self.memory, site, point(row)), rows, site.names)

    def reordered(self) -> frozenset[str]:
        return self.body.reordered

    def detail(self, launch: Launch, tree: LoopTree) -> str:
        """`rows, reduced in lanes, parallel over r`."""
        return f"rows, reduced in lanes, {parallel_over(self.group)}"
