"""Strategy `generic`: takes every group that no other takes."""

from __future__ import annotations

from dataclasses import dataclass

from loopfuse.plan.mapping.space import Site
from loopfuse.plan.strategies.generic.generic import find_reordered, plan_map, plan_serial
from loopfuse.plan.strategies.map_fit import MapFit
from loopfuse.plan.strategies.strategy import Fit, Strategy
from loopfuse.plan.units.groups import Group, Legality


@dataclass(frozen=True, slots=True)
class Generic(Strategy):
    """The strategy."""

    name: str = "generic"

    def fit(self, group: Group, site: Site, is_rest: bool) -> Fit:
        plan = plan_map if group.legality is Legality.INDEPENDENT and group.dims else plan_serial
        return MapFit(group, self.name, plan, find_reordered(group, site))


GENERIC = Generic()
