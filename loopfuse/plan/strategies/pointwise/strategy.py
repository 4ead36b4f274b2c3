"""Strategy `pointwise`: loops whose every access is the point itself, or does not move along the last dimension."""

from __future__ import annotations

from dataclasses import dataclass

from loopfuse.plan.mapping.space import Site
from loopfuse.plan.strategies.map_fit import MapFit
from loopfuse.plan.strategies.pointwise.cpu import fit_rows, runs_in_rows
from loopfuse.plan.strategies.pointwise.pointwise import fits_pointwise, plan_pointwise
from loopfuse.plan.strategies.strategy import Fit, Strategy
from loopfuse.plan.units.groups import Group


@dataclass(frozen=True, slots=True)
class Pointwise(Strategy):
    """The strategy: on a GPU wide accesses, on the CPU dimensions that lie one after the other as one row."""

    name: str = "pointwise"

    def fit(self, group: Group, site: Site, is_rest: bool) -> Fit | None:
        if runs_in_rows(group, site):
            plan = fit_rows(group, site)
            return plan and MapFit(group, self.name, plan)
        # A few steps gain little by a way for aligned arrays, for which all would be proved twice.
        if not is_rest and fits_pointwise(group, site):
            return MapFit(group, self.name, plan_pointwise)
        return None

    def may_collapse(self, group: Group, site: Site) -> bool:
        return fits_pointwise(group, site) or runs_in_rows(group, site)


POINTWISE = Pointwise()
