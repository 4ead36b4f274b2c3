"""The fit of strategies that run independent iterations, or all of them in one thread, by one launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from loopfuse.base.options import Tuning
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.units.groups import Group
from loopfuse.plan.units.storage import Store
from loopfuse.tree.looptree import HostNode, Launch, LoopTree

Plan = Callable[[Group, Site, str, tuple[str, ...]], Launch]
"""The launch of a group at a site, with its name, and the labels of the loops it runs."""


@dataclass(frozen=True, slots=True)
class MapFit:
    """`plan` makes the launch; values live where storage put them."""

    group: Group
    strategy: str
    plan: Plan
    launches: int = 1
    team: int = 1

    def holds(self, array: str) -> bool:
        """None of its own."""
        return False

    def bind(self, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
        return (self.plan(self.group, site, name, labels),)

    def detail(self, launch: Launch, tree: LoopTree) -> str:
        """`pointwise, parallel over y, x, H x W as one`."""
        if not self.group.dims:
            return f"{self.strategy}, one thread in order"
        first = next(p for p in self.group.members if p.coordinates)
        names = ", ".join(c.iterator.split(".")[0] for c in first.coordinates)
        ones = "".join(f", {' x '.join(sizes)} as one" for sizes in tree.collapsed)
        return f"{self.strategy}, parallel over {names}{ones}"

    def home(self, array: str, stores: Mapping[str, Store]) -> str:
        """As the tree says."""
        return ""

    def choices(self, tuning: Tuning) -> None:
        """Nothing to tune."""
        return None
