"""A team for each point that reduces several dimensions of it: `for n: s = sum(h, w: x[n, h, w])`.

The innermost loop goes along memory, over neighbouring threads; the outermost goes to groups of these. How long the
two are says how many threads have which.
"""

from __future__ import annotations

from dataclasses import dataclass

from loopfuse.lang.nodes import integer
from loopfuse.plan.mapping.space import Site, order_dims
from loopfuse.plan.strategies.rows import sizes
from loopfuse.plan.strategies.rows.gpu import Team, Threads
from loopfuse.plan.strategies.rows.teams import TeamsFit
from loopfuse.plan.strategies.versions import Write, by_length
from loopfuse.tree.looptree import HostNode, Launch
from loopfuse.tree.looptree import Mapping as Where


@dataclass(frozen=True, slots=True)
class NestsFit(TeamsFit):
    """Each point has its team."""

    @property
    def held(self) -> int:
        """Nothing is held: each pass reads again."""
        return 0

    def bind(self, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
        versions = [(shape.most, self._write(site, name, labels, shape)) for shape in sizes.SHAPES]
        return by_length(site.names, self.body.length, versions, "rows of {} places")

    def _write(self, site: Site, name: str, labels: tuple[str, ...], shape: sizes.Shape) -> Write:
        """The launches of a shape, by how often the outermost loop goes round."""

        def written(places: tuple[int, int], blocks: int, suffix: str) -> Write:
            called = f"{name}_{shape.name}{suffix}"
            return lambda least, most: (self._team(site, called, labels, shape, places, blocks),)

        thread = [(sizes.FEW_ITERATIONS, self.by_thread(site, f"{name}_{shape.name}", labels))] if shape is sizes.SHAPES[0] else []
        blocks = max((size for size in sizes.CLUSTERS if size <= site.machine.cluster), default=1)

        def by_outer(least: int, most: int) -> tuple[HostNode, ...]:
            versions = [*thread, (0, written((least, most), 1, ""))]
            if shape.shares and blocks > 1:
                few = (sizes.SHARED_PLACES // max(1, least) - 1, written((least, most), 1, ""))
                versions = [few, (0, written((least, most), blocks, "_cluster"))]
            return by_length(site.names, self.body.outer_length, versions, "{} of them")

        return by_outer

    def _team(
        self,
        site: Site,
        name: str,
        labels: tuple[str, ...],
        shape: sizes.Shape,
        places: tuple[int, int],
        blocks: int,
    ) -> Launch:
        """A block, or a cluster of so many, for each point, whose innermost loop has at least and at most so many places."""
        chain, point = self.grid(site, order_dims(self.group))
        fresh = site.names.fresh
        rank, outer, inner = (fresh("rank"), blocks), (fresh("o"), shape.outer), (fresh("t"), shape.inner)
        chain += [(rank[0], integer(blocks), Where.CLUSTER)] if blocks > 1 else []
        threads = [each for each in (outer, inner) if each[1] > 1]
        chain += [(var, integer(count), Where.BLOCK) for var, count in threads]
        shared = Threads(tuple(each for each in (rank, outer) if each[1] > 1))
        team = Team(Threads((inner,)), 0, *places, outer=shared, staged=shape.staged)
        return self.launch(name, labels, chain, self.nodes(site, point, team))
