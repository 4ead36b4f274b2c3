"""Strategy `generic`: takes every group that no other takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from loopfuse.plan.mapping.space import Site
from loopfuse.plan.strategies.generic.generic import find_reordered, plan_map, plan_serial
from loopfuse.plan.strategies.map_fit import MapFit
from loopfuse.plan.strategies.strategy import Fit, Strategy
from loopfuse.plan.units.groups import Group, Legality
from loopfuse.plan.units.rules import Rules


@dataclass(frozen=True, slots=True)
class Generic(Strategy):
    """The strategy."""

    name: str = "generic"

    def easier(self, fits: Sequence[Fit], rules: Rules) -> Iterator[tuple[Rules, str]]:
        if any(isinstance(fit, MapFit) and fit.free for fit in fits):
            yield replace(rules, teams=False), "sums run in the program's order"

    def fit(self, group: Group, site: Site, is_rest: bool) -> Fit:
        plan = plan_map if group.legality is Legality.INDEPENDENT and group.dims else plan_serial
        return MapFit(group, self.name, plan, find_reordered(group, site))


GENERIC = Generic()
