"""Strategy `rows`: loops over rows of memory, each of which is read by several passes, or reduced.

On a GPU one thread a row would read places far apart from its neighbours', and wait for each. A row is a
warp's, or a block's where it is long, or a cluster's where no block could hold it; which, its length says when
the kernel is called, so that there are several launches of which one runs (`along`). So do points that reduce several
dimensions (`nests`), and columns, whose neighbours are neighbours in memory (`columns`). On a CPU a row is one worker's, and stays in its cache from pass to pass; a
reduction along it runs in lanes, where one sum after the other would wait for each addition; columns are added up in blocks of rows (`blocks`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from loopfuse.base.machine import LANES
from loopfuse.lang.nodes import Expr, Iter
from loopfuse.plan.mapping.body import Names
from loopfuse.plan.mapping.joined import join_nests
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
from loopfuse.plan.mapping.threads import chunk_of, stands_for, symbolic_body
from loopfuse.plan.strategies.generic.generic import FEWEST
from loopfuse.plan.strategies.map_fit import parallel_over
from loopfuse.plan.strategies.rows.along import RowsFit
from loopfuse.plan.strategies.rows.blocks import BlocksFit, find_steps
from loopfuse.plan.strategies.rows.body import Body, read_body
from loopfuse.plan.strategies.rows.columns import ColumnsFit
from loopfuse.plan.strategies.rows.cpu import has_lanes, lane_nodes
from loopfuse.plan.strategies.rows.likely import has_passes, is_likely
from loopfuse.plan.strategies.rows.nests import NestsFit
from loopfuse.plan.strategies.rows.teams import TeamsFit, body_at
from loopfuse.plan.strategies.rows.way import Way, way_of
from loopfuse.plan.strategies.strategy import Fit, Strategy
from loopfuse.plan.units.groups import Group, Legality
from loopfuse.plan.units.rules import Rules
from loopfuse.poly.model import PolyProgram
from loopfuse.tree.looptree import Buffer, Global, HostNode, Launch, Loop, LoopTree, TreeNode
from loopfuse.tree.looptree import Mapping as Where


@dataclass(frozen=True, slots=True)
class Rows(Strategy):
    """The strategy."""

    name: str = "rows"

    def team(self, group: Group, program: PolyProgram, device: str) -> int:
        return LANES if device == "gpu" and is_likely(group, program) else 1

    def easier(self, fits: Sequence[Fit], rules: Rules) -> Iterator[tuple[Rules, str]]:
        if any(isinstance(fit, TeamsFit | LanesFit | BlocksFit) for fit in fits):
            yield replace(rules, teams=False), "a row is one thread's"

    def fit(self, group: Group, site: Site, is_rest: bool) -> Fit | None:
        if not site.teams or group.legality is not Legality.INDEPENDENT:
            return None
        if not group.dims or group.scope is None or not has_passes(group):
            return None
        nodes, names = symbolic_body(group, site)
        # (On a CPU, where a row is in a cache anyway, loops of one thing each make better vectors.)
        body = _body_of(group, site, join_nests(nodes) if site.device == "gpu" else nodes, names)
        if body is None:
            return None
        memory = tuple(each for each in names.buffers.values() if isinstance(each.home, Global))
        way = way_of(body, tuple(map(stands_for, order_dims(group))))
        match way, site.device:
            case None, _:
                return None
            case Way.COLUMNS, "gpu":
                return ColumnsFit(group, body, memory)
            case Way.NESTS, "gpu":
                return NestsFit(group, body, memory)
            case Way.ROWS, "gpu":
                return RowsFit(group, body, memory)
            case (Way.ROWS | Way.NESTS), _:
                return LanesFit(group, body, memory) if has_lanes(body) else None
            case Way.COLUMNS, _:  # (which lie in memory once they are gone along)
                joined = _body_of(group, site, join_nests(nodes), names)
                return _blocks(group, site, joined or body, memory)


def _blocks(group: Group, site: Site, body: Body, memory: tuple[Buffer, ...]) -> Fit | None:
    """Columns in blocks of rows, where there is one loop over them, by ones."""
    plain = len(group.dims) == 1 and dim_extents(group, site.program)[group.dims[0]].step == 1
    around = group.scope.host if group.scope else ()
    if not plain or around or not any(one.updates for one in body.passes) or find_steps(body) is None:
        return None
    return BlocksFit(group, body, memory)


ROWS = Rows()


def _body_of(group: Group, site: Site, nodes: Sequence[TreeNode], names: Names) -> Body | None:
    """What is done with a row of the group; None where the loops have another form."""
    assert group.scope is not None
    outside = {
        name
        for s in site.program.statements
        if s.id not in group.ids
        for access in (*s.reads, s.write)
        for name, _ in access.parts
    }
    private = frozenset(a.name for a in site.program.arrays.values() if a.kind == "temp") - outside
    return read_body(nodes, site.program, names, group.scope.reassociate, private, alone=site.device == "cpu")


@dataclass(frozen=True, slots=True)
class LanesFit(Fit):
    """The same on a CPU, where a worker has rows of its own."""

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
        count = chunk_of(self._nodes(trial, {**point, last: Iter(var)}))
        if count < FEWEST:
            nodes = self._nodes(site, {**point, last: value_at(extent, Iter(var))})
            chain.append((var, count_of(extent), Where.THREAD))
        else:  # a worker takes several short ones at a time
            chunk = names.fresh(f"{var}b")
            chunks, low, high = in_chunks(extent, count, chunk)
            body = self._nodes(site, {**point, last: Iter(var)})
            nodes = (Loop(var, low, high, extent.step, Where.SERIAL, body),)
            chain.append((chunk, chunks, Where.THREAD))
        return (Launch(name, "rows", labels, nested(chain, nodes)),)

    def _nodes(self, site: Site, point: Mapping[str, Expr]) -> tuple[TreeNode, ...]:
        return lane_nodes(body_at(self.body, self.memory, site, point), site.names)

    def reordered(self) -> frozenset[str]:
        return self.body.reordered

    def detail(self, launch: Launch, tree: LoopTree) -> str:
        """`rows, reduced in lanes, parallel over r`."""
        return f"rows, reduced in lanes, {parallel_over(self.group)}"
