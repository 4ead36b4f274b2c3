"""Groups whose points a team of threads of a GPU runs together: what all kinds of teams have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from loopfuse.base.machine import ACCESS, LANES, MULTIPROCESSOR
from loopfuse.lang.index import ceil_div
from loopfuse.lang.linear import constant_value
from loopfuse.lang.nodes import Expr, Iter, Load, integer
from loopfuse.plan.mapping.space import Site, count_of, dim_extents, hint_of, nested, value_at
from loopfuse.plan.mapping.threads import stands_for
from loopfuse.plan.strategies.generic.generic import plan_map
from loopfuse.plan.strategies.map_fit import parallel_over
from loopfuse.plan.strategies.rows import sizes
from loopfuse.plan.strategies.rows.body import Body
from loopfuse.plan.strategies.rows.gpu import Team, held_loads, team_nodes
from loopfuse.plan.strategies.strategy import Fit
from loopfuse.plan.strategies.versions import Write
from loopfuse.plan.units.groups import Group
from loopfuse.tree.looptree import Buffer, Launch, Loop, LoopTree, TreeNode
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import split_chain

Writer = Callable[[Site, str, tuple[str, ...], int, int], Launch]
"""A launch of that name and those labels, for rows of at least and at most so many places (0: any number)."""


@dataclass(frozen=True, slots=True)
class TeamsFit(Fit):
    """What is done with each row, and the buffers in memory that it names."""

    group: Group
    body: Body
    memory: tuple[Buffer, ...]
    team: ClassVar[int] = LANES
    word: ClassVar[str] = "row"
    """What one team has."""

    @property
    def loads_held(self) -> list[Load]:
        """The elements of a place that a thread holds: what is read again, and what passes make for others."""
        return [*(load for wanted in held_loads(self.body).values() for load in wanted), *self.body.made]

    @property
    def room(self) -> int:
        """Registers of 32 bits that they take, of one place."""
        return sum(max(1, load.dtype.bytes // 4) for load in self.loads_held)

    @property
    def held(self) -> int:
        """How many elements a thread holds of each array that is read again."""
        held = sizes.HELD
        while self.room * held > sizes.REGISTERS and held > sizes.STAGED:
            held //= 2
        return held

    @property
    def registers(self) -> int:
        """The most registers of a thread; 0: any number."""
        return self.registers_of_held

    @property
    def registers_of_held(self) -> int:
        """Those that leave room for two blocks of THREADS, where what is held leaves that; 0: any number."""
        return MULTIPROCESSOR.registers_with(2 * sizes.THREADS // LANES) if self.room * self.held <= sizes.HELD else 0

    def cluster_sizes(self, site: Site) -> list[int]:
        """Of how many blocks clusters hold what no block does."""
        wide = [load.dtype.bytes >= sizes.CLUSTERED for load in self.loads_held]
        return [blocks for blocks in sizes.CLUSTERS if blocks <= site.machine.cluster] if wide and all(wide) else []

    def kept(self, site: Site) -> int:
        """How many places of a row of narrow elements a block keeps in shared memory, if passes make nothing for others."""
        width = sum(load.dtype.bytes for load in self.loads_held)
        if not width or self.body.made:
            return 0
        room = site.machine.shared_of_block // sizes.KEEPING - sizes.BESIDE
        return max(0, room) // width // ACCESS * ACCESS

    def by_thread(self, site: Site, name: str, labels: tuple[str, ...]) -> Write:
        """A thread a point, however many places it has."""
        return lambda least, most: (plan_map(self.group, site, f"{name}_thread", labels),)

    def written(self, site: Site, name: str, labels: tuple[str, ...], write: Writer) -> Write:
        """The launch that `write` makes, by how many places there are."""
        return lambda least, most: (write(site, name, labels, least, most),)

    def launch(
        self, name: str, labels: tuple[str, ...], chain: Sequence[tuple[str, Expr, Where]], nodes: tuple[TreeNode, ...]
    ) -> Launch:
        """The nodes inside loops over blocks and threads."""
        return Launch(name, "rows", labels, nested(chain, nodes), registers=self.registers)

    def crowded(self, launch: Launch) -> Launch:
        """The launch with few enough registers for two blocks of THREADS, if what is held leaves as many."""
        few = MULTIPROCESSOR.registers_with(2 * sizes.THREADS // LANES)
        return replace(launch, registers=few) if self.room * self.held <= few else launch

    def grid_of_teams(
        self, site: Site, dims: Sequence[str], teams: int, inside: Sequence[tuple[str, Expr, Where]] = (), mapping: Where = Where.BLOCK
    ) -> tuple[list[tuple[str, Expr, Where]], dict[str, Expr], Expr]:
        """Loops over blocks, those `inside` them, and the so many neighbours along the last dimension of each, the point
        of the group that they make, and whether there is one."""
        extents = dim_extents(self.group, site.program)
        chain, point = self.grid(site, dims[:-1])
        last, extent = dims[-1], extents[dims[-1]]
        block, team = (site.names.fresh(f"{hint_of(self.group, last)}{part}") for part in "bw")
        point[last] = value_at(extent, Iter(block) * teams + Iter(team))
        chain += [
            (block, ceil_div(count_of(extent), teams), Where.GRID),
            *inside,
            (team, integer(teams), mapping),
        ]
        return chain, point, point[last] < extent.upper

    def grid(self, site: Site, dims: Sequence[str]) -> tuple[list[tuple[str, Expr, Where]], dict[str, Expr]]:
        """A loop over blocks for each of the dimensions, and the point of the group that they make."""
        extents = dim_extents(self.group, site.program)
        chain: list[tuple[str, Expr, Where]] = []
        point: dict[str, Expr] = {}
        for dim in dims:
            var = site.names.fresh(hint_of(self.group, dim))
            chain.append((var, count_of(extents[dim]), Where.GRID))
            point[dim] = value_at(extents[dim], Iter(var))
        return chain, point

    def nodes(self, site: Site, point: Mapping[str, Expr], team: Team) -> tuple[TreeNode, ...]:
        """What a thread of the team runs at the point."""
        return team_nodes(body_at(self.body, self.memory, site, point), team, site)

    def reordered(self) -> frozenset[str]:
        return self.body.reordered

    def detail(self, launch: Launch, tree: LoopTree) -> str:
        """`rows, a warp a row, x held in registers, parallel over r`."""
        if launch.strategy != "rows":
            return f"rows, a thread a {self.word}, {parallel_over(self.group)}"
        again = dict.fromkeys(load.array for load in self.loads_held)
        held = f"{', '.join(again)} held in registers, " if again else ""
        chain, _ = split_chain(launch)
        who = self.who([loop for loop in chain if loop.mapping is not Where.GRID])
        return f"rows, {who}, {held}{parallel_over(self.group)}"

    def who(self, inside: Sequence[Loop]) -> str:
        """Who has a row, in words, by the loops inside the grid."""
        (first, last), count = (inside[0], inside[-1]), constant_value(inside[0].upper)
        if first.mapping is Where.CLUSTER:
            return f"a cluster of {count} blocks a {self.word}"
        return f"a {'warp' if last.mapping is Where.LANE else 'block'} a {self.word}"


def body_at(body: Body, memory: Sequence[Buffer], site: Site, point: Mapping[str, Expr]) -> Body:
    """What is done with the row at a point, the buffers that it names declared."""
    site.names.declare(memory)
    return body.at({stands_for(dim): value for dim, value in point.items()})
