"""A team for each 32 neighbours in memory, each of which reduces a column: `for c: s[c] = sum(r: x[r, c])`.

Neighbouring threads have neighbouring columns, so that a row of them is a line of memory; other threads of the
block, and other blocks of a cluster, have other places of the same columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from loopfuse.lang.linear import constant_value
from loopfuse.lang.nodes import integer
from loopfuse.plan.mapping.space import Site, order_dims
from loopfuse.plan.strategies.rows import sizes
from loopfuse.plan.strategies.rows.gpu import Team, Threads
from loopfuse.plan.strategies.rows.teams import TeamsFit, Writer
from loopfuse.plan.strategies.versions import by_length
from loopfuse.tree.looptree import HostNode, Launch, Loop
from loopfuse.tree.looptree import Mapping as Where


@dataclass(frozen=True, slots=True)
class ColumnsFit(TeamsFit):
    """Each 32 columns have their team."""

    team: ClassVar[int] = 1
    word: ClassVar[str] = "column"

    def bind(self, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
        teams = [
            (most, self.written(site, f"{name}_{suffix}", labels, write)) for most, suffix, write in self._versions(site)
        ]
        has_nests = any(one.outer for one in self.body.passes)
        length = self.body.outer_length if has_nests else self.body.length
        first = [] if has_nests else [(sizes.SHORT, self.by_thread(site, name, labels))]
        return by_length(site.names, length, [*first, *teams], "columns of {} places")

    def _versions(self, site: Site) -> tuple[tuple[int, str, Writer], ...]:
        """The teams that may have a column, shortest first."""
        if any(one.outer for one in self.body.passes):
            return ((sizes.FEW, "few", partial(self._blocks, sizes.FEW, 1, 0)), (0, "block", partial(self._blocks, sizes.MANY, 1, 0)))
        held = self.held
        few = (sizes.FEW * held, "few", partial(self._blocks, sizes.FEW, 1, held))
        if not self.loads_held:
            blocks = sizes.SHARING
            if site.machine.cluster < blocks:
                return (few, (0, "block", partial(self._blocks, sizes.MANY, 1, 0)))
            block = (sizes.SHARED_PLACES, "block", partial(self._blocks, sizes.MANY, 1, 0))
            return (few, block, (0, f"cluster_{blocks}", partial(self._blocks, sizes.MANY, blocks, 0)))
        blocks_of = self.cluster_sizes(site)
        clusters = [
            (blocks * sizes.MANY * held, f"cluster_{blocks}", partial(self._blocks, sizes.MANY, blocks, held))
            for blocks in blocks_of
        ]
        last = max([1, *blocks_of])
        return (
            few,
            (sizes.MANY * held, "block", partial(self._blocks, sizes.MANY, 1, held)),
            *clusters,
            (0, "long", partial(self._blocks, sizes.MANY, last, 0)),
        )

    def _blocks(
        self, threads: int, blocks: int, held: int, site: Site, name: str, labels: tuple[str, ...], least: int, most: int
    ) -> Launch:
        """So many threads of a block, or of each of so many blocks of a cluster, for a column."""
        dims = order_dims(self.group)
        rank, thread = (site.names.fresh("rank"), blocks), (site.names.fresh("t"), threads)
        inside = [(rank[0], integer(blocks), Where.CLUSTER)] if blocks > 1 else []
        inside.append((thread[0], integer(threads), Where.BLOCK))
        chain, point, there = self.grid_of_teams(site, dims, sizes.COLUMNS, inside)
        all_threads = Threads(tuple(each for each in (rank, thread) if each[1] > 1))
        team = Team(all_threads, held, least, most if held else 0, there)
        if any(one.outer for one in self.body.passes):
            team = replace(team, inner=Threads(()), outer=all_threads, least=0)
        return self.launch(name, labels, chain, self.nodes(site, point, team))

    def who(self, inside: Sequence[Loop]) -> str:
        """`a block for 32 columns`."""
        blocks = constant_value(inside[0].upper) if inside[0].mapping is Where.CLUSTER else 1
        return f"a {f'cluster of {blocks} blocks' if blocks != 1 else 'block'} for {sizes.COLUMNS} columns"
