"""Strategy `pointwise`: loops whose every access is the point itself, or does not move along the last dimension."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from loopfuse.lang.nodes import Expr
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.strategies.map_fit import MapFit, Plan
from loopfuse.plan.strategies.pointwise.cpu import fit_rows, runs_in_rows
from loopfuse.plan.strategies.pointwise.pointwise import (
    fits_pointwise,
    plan_pointwise,
    plan_short,
    short_rows,
)
from loopfuse.plan.strategies.strategy import Fit, Strategy
from loopfuse.plan.strategies.versions import Version, by_length
from loopfuse.plan.units.groups import Group
from loopfuse.tree.looptree import HostNode


@dataclass(frozen=True, slots=True)
class Pointwise(Strategy):
    """The strategy: on a GPU wide accesses, on the CPU dimensions that lie one after the other as one row."""

    name: str = "pointwise"

    def fit(self, group: Group, site: Site, is_rest: bool) -> Fit | None:
        if runs_in_rows(group, site):
            found = fit_rows(group, site)
            return found and MapFit(group, self.name, found[0], ones=found[1])
        # A few steps gain little by a way for aligned arrays, for which all would be proved twice.
        if not is_rest and fits_pointwise(group, site):
            rows = None if group.scope and group.scope.host else short_rows(group, site)
            if rows is not None:
                return RowsFit(group, self.name, plan_pointwise, length=rows[0], short=rows[1])
            return MapFit(group, self.name, plan_pointwise)
        return None

    def may_collapse(self, group: Group, site: Site) -> bool:
        return fits_pointwise(group, site) or runs_in_rows(group, site)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsFit(MapFit):
    """Rows of which the length says how many threads go along one: up to `short` elements SHORT_TILE."""

    length: Expr
    short: int

    def bind(self, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
        def write(plan: Plan, suffix: str, least: int, most: int) -> tuple[HostNode, ...]:
            return (plan(self.group, site, name + suffix, labels),)

        versions: list[Version] = [
            (self.short, partial(write, plan_short, "_short")),
            (0, partial(write, self.plan, "")),
        ]
        return by_length(site.names, self.length, versions, "rows of {} places")


POINTWISE = Pointwise()
