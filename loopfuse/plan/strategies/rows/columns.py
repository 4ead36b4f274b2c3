"""A team for each 32 neighbours in memory, each of which reduces a column: `for c: s[c] = sum(r: x[r, c])`.

Neighbouring threads have neighbouring columns, so that a row of them is a line of memory; other threads of the
block, and other blocks of a cluster, have other places of the same columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from loopfuse.base.machine import LANES, MULTIPROCESSOR
from loopfuse.lang.linear import constant_value
from loopfuse.lang.nodes import integer
from loopfuse.plan.mapping.space import Site, count_of, dim_extents, order_dims
from loopfuse.plan.strategies.rows import sizes
from loopfuse.plan.strategies.rows.blocks import Step
from loopfuse.plan.strategies.rows.gpu import Team, Threads
from loopfuse.plan.strategies.rows.shares import SHARES, TOGETHER, share_launches, step_in_shares
from loopfuse.plan.strategies.rows.teams import TeamsFit
from loopfuse.plan.strategies.versions import Version, Write, by_length
from loopfuse.tree.looptree import HostNode, Launch, Loop, LoopTree
from loopfuse.tree.looptree import Mapping as Where


@dataclass(frozen=True, slots=True)
class ColumnsFit(TeamsFit):
    """Each 32 columns have their team."""

    team: ClassVar[int] = 1
    word: ClassVar[str] = "column"

    def bind(self, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
        def team(suffix: str, threads: int, blocks: int, held: int, columns: int) -> Write:
            write = partial(self._blocks, threads, blocks, held, columns)
            return self.written(site, f"{name}_{suffix}", labels, write)

        block = team("block", sizes.MANY, 1, 0, sizes.COLUMNS)
        narrow = team("narrow", sizes.MANY, sizes.SHARING, 0, sizes.COLUMNS) if site.machine.cluster >= sizes.SHARING else block
        if (step := step_in_shares(self.body, self.group, site.program)) is not None:
            narrow = partial(self._shares, site, name, labels, step)
        long = block if narrow is block else self._by_columns(site, block, narrow)
        if self.body.has_nests:
            few = team("few", sizes.FEW, 1, 0, sizes.COLUMNS)
            return by_length(site.names, self.body.outer_length, [(sizes.FEW, few), (0, long)], "columns of {} times some places")
        held = self.held
        versions = [
            (sizes.SHORT, self.by_thread(site, name, labels)),
            (sizes.FEW * held, team("few", sizes.FEW, 1, held, sizes.COLUMNS)),
        ]
        if self.loads_held:
            for blocks in (1, *self.cluster_sizes(site)):
                suffix = f"cluster_{blocks}" if blocks > 1 else "held"
                most = blocks * sizes.MANY * held
                versions.append((most, team(suffix, sizes.MANY, blocks, held, sizes.HELD_COLUMNS)))
        return by_length(site.names, self.body.length, [*versions, (0, long)], "columns of {} places")

    def long_columns(self, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
        """The launch for many long columns."""
        return (self._blocks(sizes.MANY, 1, 0, sizes.COLUMNS, site, f"{name}_block", labels, 0, 0),)

    def _shares(self, site: Site, name: str, labels: tuple[str, ...], step: Step, least: int, most: int) -> tuple[HostNode, ...]:
        """Blocks that have shares of a column's places, and what puts these together."""
        return share_launches(self, step, site, name, labels)

    @property
    def registers(self) -> int:
        """Where a column is read once, those that leave room for two blocks of MANY, if what a thread asks for leaves that."""
        asked = {load: max(1, load.dtype.bytes // 4) for one in self.body.passes for load in self.body.asked(one)}
        few = MULTIPROCESSOR.registers_with(2 * sizes.MANY * sizes.COLUMNS // LANES)
        is_few = not self.loads_held and not self.body.has_nests and 0 < sizes.STAGED * sum(asked.values()) <= few // 4
        return few if is_few else self.registers_of_held

    def _by_columns(self, site: Site, block: Write, narrow: Write) -> Write:
        """The launches for columns of any length, by how many there are."""
        count = count_of(dim_extents(self.group, site.program)[order_dims(self.group)[-1]])

        def long(least: int, most: int) -> tuple[HostNode, ...]:
            ways: list[Version] = [
                (sizes.NARROW, lambda *_: narrow(least, most)), (0, lambda *_: block(least, most))
            ]  # fmt: skip
            return by_length(site.names, count, ways, "{} of them")

        return long

    def _blocks(
        self,
        threads: int,
        blocks: int,
        held: int,
        columns: int,
        site: Site,
        name: str,
        labels: tuple[str, ...],
        least: int,
        most: int,
    ) -> Launch:
        """So many threads of a block, or of each of so many blocks of a cluster, for a column."""
        dims = order_dims(self.group)
        rank, thread = (site.names.fresh("rank"), blocks), (site.names.fresh("t"), threads)
        inside = [(rank[0], integer(blocks), Where.CLUSTER)] if blocks > 1 else []
        inside.append((thread[0], integer(threads), Where.BLOCK))
        chain, point, there = self.grid_of_teams(site, dims, columns, inside)
        all_threads = Threads(tuple(each for each in (rank, thread) if each[1] > 1))
        team = Team(all_threads, held, least, most if held else 0, there)
        if self.body.has_nests:
            team = replace(team, inner=Threads(()), outer=all_threads, least=0)
        return self.launch(name, labels, chain, self.nodes(site, point, team))

    def detail(self, launch: Launch, tree: LoopTree) -> str:
        """`rows, a block for a share of 32 columns, parallel over c`."""
        said = TeamsFit.detail(self, launch, tree)
        if launch.name.endswith(SHARES):
            return said.replace("a block for", "a block for a share of")
        return said.replace("a block for", "shares put together, a block for") if launch.name.endswith(TOGETHER) else said

    def who(self, inside: Sequence[Loop]) -> str:
        """`a block for 32 columns`."""
        blocks = constant_value(inside[0].upper) if inside[0].mapping is Where.CLUSTER else 1
        who = f"cluster of {blocks} blocks" if blocks != 1 else "block"
        return f"a {who} for {constant_value(inside[-1].upper)} columns"
