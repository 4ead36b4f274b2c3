"""Rows on a CPU, each of which is one worker's, with its sums in lanes.

A temporary whose elements one pass over a row makes for others over the same row has no row of its own for each of them: a few rows that a worker
takes one after the other share one, which stays in its cache.

before:  for r: { for c: e[r, c] = f(x[r, c]);  s = sum(c: e[r, c]);  for c: y[r, c] = e[r, c] / s }
after:   for rb: for r in rb * 4..rb * 4 + 4: { for c: e_row[rb, c] = f(x[r, c]);  ... }
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter, Load
from loopfuse.lang.walk import iterators, map_expr
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
from loopfuse.plan.strategies.rows.body import COLUMN, Body
from loopfuse.plan.strategies.rows.cpu import lane_nodes
from loopfuse.plan.strategies.rows.few import few_rows, rows_at_once
from loopfuse.plan.strategies.rows.teams import body_at
from loopfuse.plan.strategies.strategy import Fit
from loopfuse.plan.units.groups import Group
from loopfuse.plan.units.storage import Store
from loopfuse.tree.looptree import Buffer, Guard, HostNode, Launch, Loop, LoopTree, TreeNode
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import map_expressions

SHARE = 4
"""Rows that share one of a temporary: of fewer chunks fewer workers have one, of shorter ones more memory is written."""


@dataclass(frozen=True)  # no slots: what its temporaries share is found once
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
        elif count < FEWEST and not self.shared_rows:
            nodes = self.row(site, {**point, last: value_at(extent, Iter(var))})
            chain.append((var, count_of(extent), Where.THREAD))
        else:  # a worker takes several at a time: short ones, or such as share temporaries
            chunk = names.fresh(f"{var}b")
            chunks, low, high = in_chunks(extent, max(count, SHARE) if self.shared_rows else count, chunk)
            body = self.sharing(site, {**point, last: Iter(var)}, chunk, chunks)
            nodes = (Loop(var, low, high, extent.step, Where.SERIAL, body),)
            chain.append((chunk, chunks, Where.THREAD))
        return (Launch(name, "rows", labels, nested(chain, nodes)),)

    def row(self, site: Site, point: Mapping[str, Expr]) -> tuple[TreeNode, ...]:
        """What a worker runs for the row at a point."""
        return lane_nodes(body_at(self.body, self.memory, site, point), site.names)

    @cached_property
    def shared_rows(self) -> dict[str, int]:
        """The temporaries of which a few rows share one, and the dimension that says which row."""
        row = stands_for(order_dims(self.group, write=CPU_WRITE)[-1])
        found: dict[str, int] = {}
        for load in self.body.made:
            places = [position for position, part in enumerate(load.index) if row in iterators(part)]
            if len(places) == 1 and COLUMN not in iterators(load.index[places[0]]):
                found[load.array] = places[0]
        return found

    def sharing(self, site: Site, point: Mapping[str, Expr], chunk: str, chunks: Expr) -> tuple[TreeNode, ...]:
        """What a worker runs for the row at a point, its temporaries' rows those of a chunk."""
        kept = tuple(each for each in self.memory if each.name not in self.shared_rows)
        nodes = lane_nodes(body_at(self.body, kept, site, point), site.names)
        rows: dict[str, str] = {}
        for buffer in self.memory:
            if buffer.name in self.shared_rows:
                position = self.shared_rows[buffer.name]
                rows[buffer.name] = site.names.fresh(f"{buffer.name}_row")
                extents = (*buffer.extents[:position], chunks, *buffer.extents[position + 1 :])
                site.names.add(replace(buffer, name=rows[buffer.name], extents=extents))

        def moved(expr: Expr) -> Expr:
            if not isinstance(expr, Load) or expr.array not in rows:
                return expr
            position = self.shared_rows[expr.array]
            return replace(expr, array=rows[expr.array], index=(*expr.index[:position], Iter(chunk), *expr.index[position + 1 :]))

        return map_expressions(nodes, lambda expr: map_expr(moved, expr))

    def holds(self, array: str) -> bool:
        return array in self.shared_rows

    def home(self, array: str, stores: Mapping[str, Store]) -> str:
        return "line(1)" if array in self.shared_rows else ""

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
