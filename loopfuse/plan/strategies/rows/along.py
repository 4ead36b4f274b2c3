"""A team for each row of memory: a few threads, a warp, a block or a cluster of blocks, by how long rows are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from loopfuse.base.machine import LANES, MULTIPROCESSOR
from loopfuse.lang.linear import constant_value
from loopfuse.lang.nodes import Expr, Load, combine, integer
from loopfuse.lang.price import OPERATION, expression_price
from loopfuse.lang.walk import loads, subscript_iterators, walk_expr
from loopfuse.plan.mapping.space import Site, order_dims
from loopfuse.plan.strategies.rows import sizes
from loopfuse.plan.strategies.rows.body import COLUMN, Pass
from loopfuse.plan.strategies.rows.gpu import Team, Threads
from loopfuse.plan.strategies.rows.running import is_read_once
from loopfuse.plan.strategies.rows.teams import TeamsFit, Writer
from loopfuse.plan.strategies.rows.vectors import vector_of
from loopfuse.plan.strategies.versions import Version, by_length
from loopfuse.tree.looptree import Compute, Guard, HostLoop, HostNode, Launch, Loop
from loopfuse.tree.looptree import Mapping as Where

Way = tuple[int, str, Writer]
"""Of how many places at most, what the launch is called, and what writes it."""


@dataclass(frozen=True, slots=True)
class RowsFit(TeamsFit):
    """Each row has its team."""

    def bind(self, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
        is_known = constant_value(self.body.length) is not None

        def written(teams: Sequence[Way]) -> list[Version]:
            return [(most, self.written(site, name if is_known else f"{name}_{suffix}", labels, write)) for most, suffix, write in teams]

        teams = self._versions(site)
        versions = written(teams)
        if self.vector and self.has_few:
            short = len(self._part_teams(sizes.NARROW_PARTS, None))
            most = teams[short - 1][0]
            ways = [written(self._part_teams(kind, whole)) for kind, whole in ((sizes.VECTOR_PARTS, True), (sizes.NARROW_PARTS, False))]
            versions = [(most, lambda _, most: self._short(site, ways, most)), *versions[short:]]
        return by_length(site.names, self.body.length, versions, "rows of {} places")

    def _short(self, site: Site, ways: Sequence[list[Version]], most: int) -> tuple[HostNode, ...]:
        """The launches for short rows of narrow elements: of whole vectors, and others."""
        count, size = constant_value(self.body.length), self.vector
        nodes: list[HostNode] = []
        for versions, is_whole in zip(ways, (True, False), strict=True):
            *some, (last, write) = versions
            bounded: list[Version] = [*some, (last, lambda least, _, write=write: write(least, most))]
            if count is not None and (count % size == 0) != is_whole:
                continue
            words = "rows of {} places, " + ("in whole vectors" if is_whole else "in parts of vectors")
            launches = by_length(site.names, self.body.length, bounded, words)
            left = self.body.length % size
            once = combine("max", integer(1) - left, integer(0)) if is_whole else combine("min", left, integer(1))
            nodes += launches if count is not None else [HostLoop(site.names.fresh("once"), integer(0), once, 1, launches)]
        return tuple(nodes)

    def _part_teams(self, parts: Sequence[tuple[int, int]], is_whole: bool | None) -> list[Way]:
        """Parts of a warp that have short rows: of whole vectors, of others, or of both (None)."""
        kind = "" if is_whole is None else "whole_" if is_whole else "odd_"
        teams: list[Way] = []
        for threads, most in parts:
            held = min(self.held, most)
            if not teams or threads * held > teams[-1][0]:
                suffix = f"x{held}" if [each for each, _ in parts].count(threads) > 1 else ""
                teams.append((threads * held, f"part_{kind}{threads}{suffix}", partial(self._parts, threads, held, is_whole)))
        return teams

    def shortest(self, site: Site, name: str, labels: tuple[str, ...], most: int) -> tuple[HostNode, ...]:
        """The launches for rows of at most so many places, by every other one of the teams that have such."""
        versions = self._versions(site)
        first = next(number for number, (places, _, _) in enumerate(versions) if places >= most)
        *some, (_, suffix, last) = versions[first % 2 : first + 1 : 2]
        ways: list[Version] = [(places, self.written(site, f"{name}_{part}", labels, write)) for places, part, write in some]

        def longest(least: int, _: int) -> tuple[HostNode, ...]:
            return (last(site, f"{name}_{suffix}", labels, least, most),)

        return by_length(site.names, self.body.length, [*ways, (0, longest)], "rows of {} places")

    def longest(self, site: Site, name: str, labels: tuple[str, ...], least: int) -> tuple[HostNode, ...]:
        """The launch for the longest rows, of `least` places and more."""
        _, suffix, write = self._versions(site)[-1]
        return self.written(site, f"{name}_{suffix}", labels, write)(least, 0)

    @property
    def vector(self) -> int:
        """Neighbouring elements of a thread of a block."""
        return vector_of(self.body, {buffer.name: buffer for buffer in self.memory})

    @property
    def has_few(self) -> bool:
        """Are so few elements of a place asked for that the checker can be asked about more ways of each team?"""
        return len({load for one in self.body.passes for load in self.body.asked(one)}) <= sizes.FEW_ASKED

    @property
    def holds_results(self) -> bool:
        """Do passes make elements for others, or compute alike what costs more than to hold it?"""
        if self.body.made:
            return True
        count = Counter(part for one in self.body.passes for part in _parts_of(one))
        return any(number > 1 and _price(part) > sizes.COSTLY for part, number in count.items())

    def staged(self, held: int) -> int:
        """How many elements a thread asks for one by one, of so many that it holds."""
        return max(1, min(sizes.STAGED_APART, held // 2)) if held and self.room else sizes.STAGED

    def _versions(self, site: Site) -> tuple[Way, ...]:
        """The teams that may have a row, smallest first: of how many places at most, what the launch is
        called, and what writes it. The last takes rows of any length. (A row that is read once needs no cluster; one of
        which a block holds two thirds is the block's, which reads it again.)"""
        short = (
            *self._part_teams(sizes.NARROW_PARTS if self.vector else sizes.PARTS, None),
            (LANES * self.held, "warp", self._warps),
            (sizes.FEW_THREADS * self.held, "block", partial(self._blocks, sizes.FEW_THREADS, 1, self.held, 0)),
            (sizes.MORE_THREADS * self.held, "middle", partial(self._blocks, sizes.MORE_THREADS, 1, self.held, 0)),
        )
        block = sizes.THREADS * self.held
        large, again = partial(self._blocks, sizes.THREADS, 1, self.held, 0), partial(self._blocks, sizes.THREADS, 1, 0, 0)
        if is_read_once(self.body):
            wide = sizes.CLUSTERS[-1] if self.cluster_sizes(site) else 1
            most = wide * block if wide > 1 else 0
            longer = [(0, "long", partial(self._blocks, sizes.THREADS, wide, 0, 0))] if most else []
            return (*short, (block, "large", large), (most, "once", again), *longer)
        if self.vector and self.holds_results and site.machine.cluster >= sizes.CLUSTERS[-1]:
            shapes = sizes.HOLDING if self.body.made else sizes.HOLDING[:-1]
            whole = [
                (blocks * threads * self.held, f"cluster_{blocks}x{threads}" if blocks > 1 else "full", partial(self._blocks, threads, blocks, self.held, 0))
                for blocks, threads in shapes
            ]
            return (*short, (block, "large", large), *whole, (0, "long", again))
        if self.vector and (kept := self.kept(site)) > block:
            near = partial(self._blocks, sizes.THREADS, 1, 0, kept)
            return (*short, (block, "large", large), (kept, "kept", near), (0, "long", again))
        blocks_of = self.cluster_sizes(site)
        clusters = [
            (blocks * block, f"cluster_{blocks}", partial(self._blocks, sizes.THREADS, blocks, self.held, 0))
            for blocks in blocks_of
        ]
        # Beside what clusters hold there are no registers for rows that are read again.
        longer = [(0, "long", partial(self._blocks, sizes.THREADS, blocks_of[-1], 0, 0))] if blocks_of else []
        return (*short, (block * 3 // 2 if blocks_of else block, "large", large), *clusters, *longer)

    def _parts(
        self, threads: int, held: int, is_whole: bool | None, site: Site, name: str, labels: tuple[str, ...], least: int, most: int
    ) -> Launch:
        """So many threads of a warp a row: several rows a warp. Threads of other rows wait for each other too,
        so that those without a row come along."""
        dims = order_dims(self.group)
        chain, point, inside = self.grid_of_teams(site, dims, sizes.PARTS_THREADS // threads)
        thread = site.names.fresh("t")
        chain.append((thread, integer(threads), Where.BLOCK))
        staged = max(1, min(sizes.STAGED_APART, held // 2))
        vector = self.vector if self.has_few and held >= self.vector and is_whole is not False else 0
        team = Team(Threads(((thread, threads),)), held, least, most, inside, staged=staged, vector=vector, whole=is_whole is True)
        return self.launch(name, labels, chain, self.nodes(site, point, team))

    def _warps(self, site: Site, name: str, labels: tuple[str, ...], least: int, most: int) -> Launch:
        """A warp a row."""
        chain, point, inside = self.grid_of_teams(site, order_dims(self.group), sizes.WARPS, mapping=Where.WARP)
        lane = site.names.fresh("lane")
        chain.append((lane, integer(LANES), Where.LANE))
        vector = self.vector if self.has_few else 0
        team = Team(Threads(((lane, LANES),)), self.held, least, most, staged=self.staged(self.held), vector=vector)
        return self.launch(name, labels, chain, (Guard(inside, self.nodes(site, point, team)),))

    def _blocks(
        self, threads: int, blocks: int, held: int, kept: int, site: Site, name: str, labels: tuple[str, ...], least: int, most: int
    ) -> Launch:
        """A block of so many threads a row, or a cluster of so many of these."""
        chain, point = self.grid(site, order_dims(self.group))
        loops = [(site.names.fresh("rank"), blocks)] if blocks > 1 else []
        chain += [(var, integer(count), Where.CLUSTER) for var, count in loops]
        thread = site.names.fresh("t")
        chain.append((thread, integer(threads), Where.BLOCK))
        pairs = blocks == 1 and self.has_few and len(order_dims(self.group)) == 1  # (of clusters that have them nothing is proved)
        team = Team(
            Threads((*loops, (thread, threads))), held, least, most,
            staged=self.staged(held), vector=self.vector, kept=kept, pairs=pairs,
        )  # fmt: skip
        launch = self.launch(name, labels, chain, self.nodes(site, point, team))
        if self.vector and self.body.made and not held:  # what passes make goes through memory: with fewer registers it spills
            return replace(launch, registers=MULTIPROCESSOR.registers_with(threads // LANES))
        return self.crowded(launch) if self.vector and (blocks > 1 or threads >= sizes.THREADS) and (held or kept) else launch

    def who(self, inside: Sequence[Loop]) -> str:
        """Part of a warp has a number of threads."""
        if len(inside) > 1 and inside[0].mapping is Where.BLOCK:
            count = constant_value(inside[-1].upper)
            return "a thread a row" if count == 1 else f"{count} threads a row"
        return TeamsFit.who(self, inside)


def _parts_of(one: Pass) -> set[Expr]:
    """What a pass computes on the way of elements of the row."""
    values = [node.value for node in one.nodes if isinstance(node, Compute)]
    parts = {part for value in values for part in walk_expr(value) if not isinstance(part, Load)}
    return {part for part in parts if any(COLUMN in subscript_iterators(load) for load in loads(part))}


def _price(part: Expr) -> float:
    """Instructions of what is computed, its loads aside."""
    return expression_price(part, "gpu") - OPERATION * len(loads(part))
