"""Strategy `rows`: loops over rows of memory, each of which is read by several passes, or reduced.

On a GPU one thread a row would read places far apart from its neighbours', and wait for each. A row is a
warp's, or a block's where it is long, or a cluster's where no block could hold it; which, its length says when
the kernel is called, so that there are several launches of which one runs. On a CPU a row is one worker's, and stays in its cache from pass to pass; a
reduction along it runs in lanes, where one sum after the other would wait for each addition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from loopfuse.base.machine import LANES, MULTIPROCESSOR
from loopfuse.lang.index import ceil_div
from loopfuse.lang.linear import constant_value, linear
from loopfuse.lang.nodes import Expr, Iter, Load, integer
from loopfuse.lang.walk import iterators, walk_expr
from loopfuse.plan.mapping.body import Names
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
from loopfuse.plan.strategies.generic.generic import FEWEST, plan_map
from loopfuse.plan.strategies.map_fit import parallel_over
from loopfuse.plan.strategies.rows.body import COLUMN, Body, read_body
from loopfuse.plan.strategies.rows.cpu import has_lanes, lane_nodes
from loopfuse.plan.strategies.rows.gpu import STAGED, Team, held_loads, team_nodes
from loopfuse.plan.strategies.rows.likely import SHORT, has_passes, is_likely
from loopfuse.plan.strategies.strategy import Fit, Strategy
from loopfuse.plan.strategies.versions import by_length
from loopfuse.plan.units.groups import Group, Legality
from loopfuse.plan.units.rules import Rules
from loopfuse.poly.model import PolyProgram
from loopfuse.tree.looptree import (
    Buffer,
    Global,
    Guard,
    HostNode,
    Launch,
    Loop,
    LoopTree,
    TreeNode,
)
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import node_expressions, split_chain, walk_nodes

WARPS = 4
"""Warps of a block in which each has a row."""
PARTS = ((8, 16), (16, 32))
"""Threads of a warp that have a short row together, and how many elements each holds at most."""
PARTS_THREADS = 256
"""Threads of a block of such teams."""
FEW_THREADS, MORE_THREADS, THREADS = 128, 256, 512
"""Threads of a block that has a row, and of those that have longer ones."""
CLUSTERS = (2, 4, 8)
"""Blocks of THREADS that have a longer row together, where the machine lets them wait for each other."""
CLUSTERED = 4
"""Bytes of the elements for which they do: with smaller ones a thread's instructions, not memory, take the time, and
what the last chunk of a row lacks costs more than to read it again."""
HELD = 32
"""Elements that a thread holds of each array that is read again."""
REGISTERS = 96
"""The most registers for that."""


Writer = Callable[[Site, str, tuple[str, ...], int, int], Launch]
"""A launch of that name and those labels, for rows of at least and at most so many places (0: any number)."""


@dataclass(frozen=True, slots=True)
class Rows(Strategy):
    """The strategy."""

    name: str = "rows"

    def team(self, group: Group, program: PolyProgram, device: str) -> int:
        return LANES if device == "gpu" and is_likely(group, program) else 1

    def easier(self, fits: Sequence[Fit], rules: Rules) -> Iterator[tuple[Rules, str]]:
        if any(isinstance(fit, RowsFit | LanesFit) for fit in fits):
            yield replace(rules, teams=False), "a row is one thread's"

    def fit(self, group: Group, site: Site, is_rest: bool) -> Fit | None:
        if not site.teams or group.legality is not Legality.INDEPENDENT:
            return None
        if not group.dims or group.scope is None or not has_passes(group):
            return None
        nodes, names = symbolic_body(group, site)
        body = _body_of(group, site, nodes, names)
        if body is None or not _is_worth_it(body, frozenset(map(stands_for, group.dims))):
            return None
        memory = tuple(each for each in names.buffers.values() if isinstance(each.home, Global))
        if site.device == "gpu":
            return RowsFit(group, body, memory)
        return LanesFit(group, body, memory) if has_lanes(body) else None


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
    return read_body(nodes, site.program, names, group.scope.reassociate, private)


def _is_worth_it(body: Body, rows: frozenset[str]) -> bool:
    """Do neighbouring places of a row lie side by side, and does each row have places of its own? (Where
    rows share them, as the operands of a product do, a thread that has several rows reads less.)"""
    own = False
    for one in body.passes:
        for node in walk_nodes(one.nodes):
            for expr in node_expressions(node):
                for load in (each for each in walk_expr(expr) if isinstance(each, Load)):
                    names = [iterators(part) for part in load.index]
                    if not any(COLUMN in each for each in names):
                        continue
                    terms = linear(load.index[-1])
                    if terms is None or abs(terms.get(COLUMN, 0)) != 1:
                        return False
                    if any(COLUMN in each for each in names[:-1]):
                        return False
                    own = own or rows <= set().union(*names)
    length = constant_value(body.length)
    return own and (length is None or length > SHORT)


def _loads_held(body: Body) -> list[Load]:
    """The elements of a place that a thread holds: what is read again, and what passes make for others."""
    return [*(load for wanted in held_loads(body).values() for load in wanted), *body.made]


@dataclass(frozen=True, slots=True)
class RowsFit(Fit):
    """What is done with each row, and the buffers in memory that it names."""

    group: Group
    body: Body
    memory: tuple[Buffer, ...]
    team: ClassVar[int] = LANES

    @property
    def length(self) -> Expr:
        """Places of a row."""
        return self.body.length

    @property
    def held(self) -> int:
        """How many elements a thread holds of each array that is read again."""
        room = sum(max(1, load.dtype.bytes // 4) for load in _loads_held(self.body))
        held = HELD
        while room * held > REGISTERS and held > STAGED:
            held //= 2
        return held

    @property
    def registers(self) -> int:
        """The most registers of a thread that leave room for two blocks of THREADS, where what is held leaves
        that; 0: any number."""
        room = sum(max(1, load.dtype.bytes // 4) for load in _loads_held(self.body))
        return MULTIPROCESSOR.registers_with(2 * THREADS // LANES) if room * self.held <= HELD else 0

    def bind(self, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
        length = constant_value(self.length)
        versions = self._versions(site)
        if length is not None:
            most, _, write = next((one for one in versions if length <= one[0]), versions[-1])
            return (write(site, name, labels, length, most if length <= most else 0),)
        def thread(least: int, most: int) -> tuple[HostNode, ...]:
            return (plan_map(self.group, site, f"{name}_thread", labels),)

        def team(suffix: str, write: Writer) -> Callable[[int, int], tuple[HostNode, ...]]:
            return lambda least, most: (write(site, f"{name}_{suffix}", labels, least, most),)

        teams = [(most, team(suffix, write)) for most, suffix, write in versions]
        return by_length(site.names, self.length, [(SHORT, thread), *teams], "rows of {} places")

    def _versions(self, site: Site) -> tuple[tuple[int, str, Writer], ...]:
        """The teams that may have a row, smallest first: of how many places at most, what the launch is
        called, and what writes it. The last takes rows of any length. (A row that is read once needs no cluster; one of
        which a block holds two thirds is the block's, which reads it again.)"""
        parts = [
            (threads * min(self.held, most), f"part_{threads}", partial(self._parts, threads, min(self.held, most)))
            for threads, most in PARTS
        ]
        wide = [load.dtype.bytes >= CLUSTERED for load in _loads_held(self.body)]
        sizes = [blocks for blocks in CLUSTERS if blocks <= site.machine.cluster] if wide and all(wide) else []
        clusters = [
            (blocks * THREADS * self.held, f"cluster_{blocks}", partial(self._blocks, THREADS, blocks, self.held))
            for blocks in sizes
        ]
        # Beside what clusters hold there are no registers for rows that are read again.
        longer = [(0, "long", partial(self._blocks, THREADS, sizes[-1], 0))] if sizes else []
        return (
            *parts,
            (LANES * self.held, "warp", self._warps),
            (FEW_THREADS * self.held, "block", partial(self._blocks, FEW_THREADS, 1, self.held)),
            (MORE_THREADS * self.held, "middle", partial(self._blocks, MORE_THREADS, 1, self.held)),
            (THREADS * self.held * (3 if sizes else 2) // 2, "large", partial(self._blocks, THREADS, 1, self.held)),
            *clusters,
            *longer,
        )

    def _parts(
        self, threads: int, held: int, site: Site, name: str, labels: tuple[str, ...], least: int, most: int
    ) -> Launch:
        """So many threads of a warp a row: several rows a warp. Threads of other rows wait for each other too,
        so that those without a row come along."""
        chain, point, inside = self._grid_of_teams(site, PARTS_THREADS // threads, Where.BLOCK)
        thread = site.names.fresh("t")
        chain.append((thread, integer(threads), Where.BLOCK))
        team = Team(((thread, threads),), held, least, most, inside)
        return self._launch(name, labels, chain, self._nodes(site, point, team))

    def _warps(self, site: Site, name: str, labels: tuple[str, ...], least: int, most: int) -> Launch:
        """A warp a row."""
        chain, point, inside = self._grid_of_teams(site, WARPS, Where.WARP)
        lane = site.names.fresh("lane")
        chain.append((lane, integer(LANES), Where.LANE))
        team = Team(((lane, LANES),), self.held, least, most)
        return self._launch(name, labels, chain, (Guard(inside, self._nodes(site, point, team)),))

    def _blocks(
        self, threads: int, blocks: int, held: int, site: Site, name: str, labels: tuple[str, ...], least: int, most: int
    ) -> Launch:
        """A block of so many threads a row, or a cluster of so many of these."""
        chain, point = self._grid(site, order_dims(self.group))
        loops = [(site.names.fresh("rank"), blocks)] if blocks > 1 else []
        chain += [(var, integer(count), Where.CLUSTER) for var, count in loops]
        thread = site.names.fresh("t")
        chain.append((thread, integer(threads), Where.BLOCK))
        team = Team((*loops, (thread, threads)), held, least, most)
        return self._launch(name, labels, chain, self._nodes(site, point, team))

    def _launch(
        self, name: str, labels: tuple[str, ...], chain: Sequence[tuple[str, Expr, Where]], nodes: tuple[TreeNode, ...]
    ) -> Launch:
        return Launch(name, "rows", labels, nested(chain, nodes), registers=self.registers)

    def _grid_of_teams(
        self, site: Site, teams: int, mapping: Where
    ) -> tuple[list[tuple[str, Expr, Where]], dict[str, Expr], Expr]:
        """Loops over blocks and the so many teams of each, the point of the group that they make, and whether
        there is one."""
        extents, dims = dim_extents(self.group, site.program), order_dims(self.group)
        chain, point = self._grid(site, dims[:-1])
        last, extent = dims[-1], extents[dims[-1]]
        block, team = (site.names.fresh(f"{hint_of(self.group, last)}{part}") for part in "bw")
        point[last] = value_at(extent, Iter(block) * teams + Iter(team))
        chain += [
            (block, ceil_div(count_of(extent), teams), Where.GRID),
            (team, integer(teams), mapping),
        ]
        return chain, point, point[last] < extent.upper

    def _grid(
        self, site: Site, dims: Sequence[str]
    ) -> tuple[list[tuple[str, Expr, Where]], dict[str, Expr]]:
        """A loop over blocks for each of the dimensions, and the point of the group that they make."""
        extents = dim_extents(self.group, site.program)
        chain: list[tuple[str, Expr, Where]] = []
        point: dict[str, Expr] = {}
        for dim in dims:
            var = site.names.fresh(hint_of(self.group, dim))
            chain.append((var, count_of(extents[dim]), Where.GRID))
            point[dim] = value_at(extents[dim], Iter(var))
        return chain, point

    def _nodes(self, site: Site, point: Mapping[str, Expr], team: Team) -> tuple[TreeNode, ...]:
        return team_nodes(_at(self.body, self.memory, site, point), team, site)

    def reordered(self) -> frozenset[str]:
        return self.body.reordered

    def detail(self, launch: Launch, tree: LoopTree) -> str:
        """`rows, a warp a row, x held in registers, parallel over r`."""
        if launch.strategy != "rows":
            return f"rows, a thread a row, {parallel_over(self.group)}"
        chain, _ = split_chain(launch)
        inner = [loop.mapping for loop in chain if loop.mapping is not Where.GRID]
        first, threads = (constant_value(loop.upper) for loop in (chain[-len(inner)], chain[-1]))
        who = "block" if len(inner) == 1 else "warp" if inner[-1] is Where.LANE else f"{threads} threads"
        who = f"cluster of {first} blocks" if inner[0] is Where.CLUSTER else who
        again = dict.fromkeys(load.array for load in _loads_held(self.body))
        held = f"{', '.join(again)} held in registers, " if again else ""
        team = who if who[0].isdigit() else f"a {who}"
        return f"rows, {team} a row, {held}{parallel_over(self.group)}"


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
        return lane_nodes(_at(self.body, self.memory, site, point), site.names)

    def reordered(self) -> frozenset[str]:
        return self.body.reordered

    def detail(self, launch: Launch, tree: LoopTree) -> str:
        """`rows, reduced in lanes, parallel over r`."""
        return f"rows, reduced in lanes, {parallel_over(self.group)}"


def _at(body: Body, memory: Sequence[Buffer], site: Site, point: Mapping[str, Expr]) -> Body:
    """What is done with the row at a point, the buffers that it names declared."""
    site.names.declare(memory)
    return body.at({stands_for(dim): value for dim, value in point.items()})
