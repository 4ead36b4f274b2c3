"""Strategy `rows`: loops over rows of memory, each of which is read by several passes, or reduced.

On a GPU one thread a row would read places far apart from its neighbours', and wait for each. A row is a
warp's, or a block's where it is long, or a cluster's where no block could hold it; which, its length says when
the kernel is called, so that there are several launches of which one runs (`along`). So do points that reduce several
dimensions (`nests`), and columns, whose neighbours are neighbours in memory (`columns`); rows and columns of one array go in one pass (`both`). On a CPU a row is one worker's, and stays in its cache from pass to pass; a
reduction along it runs in lanes, where one sum after the other would wait for each addition; columns are added up in blocks of rows (`blocks`);
rows and columns of one array go in one pass (`one_pass`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from loopfuse.base.machine import LANES
from loopfuse.plan.mapping.joined import join_nests
from loopfuse.plan.mapping.space import Site, dim_extents, order_dims
from loopfuse.plan.mapping.threads import stands_for, symbolic_body
from loopfuse.plan.strategies.rows.along import RowsFit
from loopfuse.plan.strategies.rows.blocks import BlocksFit, find_steps
from loopfuse.plan.strategies.rows.body import Body, body_of
from loopfuse.plan.strategies.rows.both import BothFit, cross_blocks, crosses_blocks
from loopfuse.plan.strategies.rows.columns import ColumnsFit
from loopfuse.plan.strategies.rows.cpu import has_lanes
from loopfuse.plan.strategies.rows.lanes import LanesFit
from loopfuse.plan.strategies.rows.likely import has_passes, is_likely
from loopfuse.plan.strategies.rows.nests import NestsFit
from loopfuse.plan.strategies.rows.one_pass import OnePassFit, cross, crosses
from loopfuse.plan.strategies.rows.teams import TeamsFit
from loopfuse.plan.strategies.rows.way import Way, way_of
from loopfuse.plan.strategies.strategy import Fit, Strategy
from loopfuse.plan.units.groups import Crossing, Group, Legality
from loopfuse.plan.units.rules import Rules
from loopfuse.poly.model import PolyProgram
from loopfuse.tree.looptree import Buffer, Global


@dataclass(frozen=True, slots=True)
class Rows(Strategy):
    """The strategy."""

    name: str = "rows"

    def team(self, group: Group, program: PolyProgram, device: str) -> int:
        return LANES if device == "gpu" and is_likely(group, program) else 1

    def easier(self, fits: Sequence[Fit], rules: Rules) -> Iterator[tuple[Rules, str]]:
        if any(isinstance(fit, OnePassFit | BothFit) for fit in fits):
            rules = replace(rules, crossings=False)
            yield rules, "rows and columns are gone along apart"
        if any(isinstance(fit, TeamsFit | LanesFit | BlocksFit | OnePassFit | BothFit) for fit in fits):
            yield replace(rules, teams=False), "a row is one thread's"

    def crosses(self, first: Group, second: Group, program: PolyProgram, device: str) -> Crossing | None:
        return crosses(first, second, program) if device == "cpu" else crosses_blocks(first, second, program)

    def cross(self, first: Fit, second: Fit, found: Crossing, site: Site) -> Fit | None:
        return cross(first, second, found, site) if site.device == "cpu" else cross_blocks(first, second, found, site)

    def fit(self, group: Group, site: Site, is_rest: bool) -> Fit | None:
        if not site.teams or group.legality is not Legality.INDEPENDENT:
            return None
        if not group.dims or group.scope is None or not has_passes(group):
            return None
        nodes, names = symbolic_body(group, site)
        # (On a CPU, where a row is in a cache anyway, loops of one thing each make better vectors.)
        body = body_of(group.ids, group.scope, site, join_nests(nodes) if site.device == "gpu" else nodes, names)
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
                joined = body_of(group.ids, group.scope, site, join_nests(nodes), names)
                return _blocks(group, site, joined or body, memory)


def _blocks(group: Group, site: Site, body: Body, memory: tuple[Buffer, ...]) -> Fit | None:
    """Columns in blocks of rows, where there is one loop over them, by ones."""
    plain = len(group.dims) == 1 and dim_extents(group, site.program)[group.dims[0]].step == 1
    around = group.scope.host if group.scope else ()
    if not plain or around or not any(one.updates for one in body.passes) or find_steps(body) is None:
        return None
    return BlocksFit(group, body, memory)


ROWS = Rows()
