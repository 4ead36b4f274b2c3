"""The fit of strategies that run independent iterations, or all of them in one thread, by one launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from loopfuse.plan.mapping.space import Site
from loopfuse.plan.strategies.strategy import Fit
from loopfuse.plan.units.groups import Group
from loopfuse.tree.looptree import HostNode, Launch, LoopTree

Plan = Callable[[Group, Site, str, tuple[str, ...]], Launch]
"""The launch of a group at a site, with its name, and the labels of the loops it runs."""


@dataclass(frozen=True, slots=True)
class MapFit(Fit):
    """`plan` makes the launch; values live where storage put them. `free`: the statements whose updates it makes in another
    order than the program. `ones`: the iterators of the dimensions that run as one in this launch."""

    group: Group
    strategy: str
    plan: Plan
    free: frozenset[str] = frozenset()
    ones: tuple[str, ...] = ()

    def bind(self, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
        return (self.plan(self.group, site, name, labels),)

    def reordered(self) -> frozenset[str]:
        return self.free

    def detail(self, launch: Launch, tree: LoopTree) -> str:
        """`pointwise, parallel over y, x, H x W as one` or, of this launch alone, `with x, c as one`."""
        if not self.group.dims:
            return f"{self.strategy}, one thread in order"
        ones = "".join(f", {' x '.join(sizes)} as one" for sizes in tree.collapsed)
        ones += f", with {', '.join(self.ones)} as one" if self.ones else ""
        return f"{self.strategy}, {parallel_over(self.group)}{ones}"


def parallel_over(group: Group) -> str:
    """`parallel over y, x`: the dimensions of a group as its first member calls them."""
    first = next(placed for placed in group.members if placed.coordinates)
    return f"parallel over {', '.join(c.iterator.split('.')[0] for c in first.coordinates)}"
