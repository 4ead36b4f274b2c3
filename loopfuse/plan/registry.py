"""Every strategy, in the order in which they are asked for a group: a line each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from loopfuse.base.machine import Machine
from loopfuse.plan.fusion.cost import CostModel
from loopfuse.plan.fusion.streams import Streams
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.strategies.affine.strategy import AFFINE
from loopfuse.plan.strategies.contract.strategy import CONTRACT
from loopfuse.plan.strategies.generic.strategy import GENERIC
from loopfuse.plan.strategies.histogram.strategy import HISTOGRAM
from loopfuse.plan.strategies.pointwise.strategy import POINTWISE
from loopfuse.plan.strategies.reduce import REDUCE
from loopfuse.plan.strategies.rows.strategy import ROWS
from loopfuse.plan.strategies.scan.strategy import SCAN
from loopfuse.plan.strategies.sliding.strategy import SLIDING
from loopfuse.plan.strategies.strategy import Fit, Strategy
from loopfuse.plan.units.forest import Scope, Unit
from loopfuse.plan.units.groups import Crossing, Group, HostGroup, PlanItem, ProgramOrder
from loopfuse.plan.units.rules import Rules
from loopfuse.plan.units.running import Running
from loopfuse.plan.units.scattered import Scattered
from loopfuse.poly.model import PolyProgram

STRATEGIES: tuple[Strategy, ...] = (
    AFFINE,
    SLIDING,
    REDUCE,
    CONTRACT,
    ROWS,
    SCAN,
    HISTOGRAM,
    POINTWISE,
    GENERIC,
)


def streams(program: PolyProgram, cost: CostModel, rules: Rules) -> Streams | None:
    """The first strategy for chains of loops, over a program."""
    found = (strategy.streams(program, cost, rules) for strategy in STRATEGIES)
    return next((one for one in found if one is not None), None)


def easier(fits: Sequence[Fit], rules: Rules) -> Iterator[tuple[Rules, str]]:
    """What may be tried in turn where a tree of these fits was not proved, and that in words. Who is asked
    last gives way first, and what one gave up stays given up."""
    for strategy in reversed(STRATEGIES):
        given_up = rules
        for given_up, words in strategy.easier(fits, rules):
            yield given_up, words
        rules = given_up


def claimed(items: Sequence[PlanItem], program: PolyProgram, device: str) -> tuple[PlanItem, ...]:
    """A plan whose groups have their fits, where a strategy takes one whatever lives in memory."""

    def one(item: PlanItem) -> PlanItem:
        if isinstance(item, HostGroup):
            return replace(item, body=tuple(map(one, item.body)))
        if item.fit is not None:
            return item
        found = (strategy.claim(item, program, device) for strategy in STRATEGIES)
        return replace(item, fit=next((fit for fit in found if fit is not None), None))

    return tuple(map(one, items))


def fit(group: Group, site: Site, is_rest: bool) -> Fit:
    """How the group is run, now that every array has a home."""
    if group.fit is not None:
        return group.fit
    found = (strategy.fit(group, site, is_rest) for strategy in STRATEGIES)
    return next(one for one in found if one is not None)


def team(group: Group, program: PolyProgram, device: str) -> int:
    """How many threads would run one point of the group together."""
    return max(strategy.team(group, program, device) for strategy in STRATEGIES)


def tiles(group: Group, device: str) -> bool:
    """Would some strategy run the group in tiles of registers?"""
    return any(strategy.tiles(group, device) for strategy in STRATEGIES)


def runs_whole(unit: Unit, found: Running | Scattered, program: PolyProgram, device: str) -> bool:
    """Does some strategy run the loop as it stands, whose iterations depend on each other through running values, or
    scattered updates?"""
    return any(strategy.runs_whole(unit, found, program, device) for strategy in STRATEGIES)


def reorder(unit: Unit, scope: Scope, program: PolyProgram, machine: Machine, now: ProgramOrder) -> Group | None:
    """A nest in another order than the program's, where some strategy runs it so."""
    found = (strategy.reorder(unit, scope, program, machine, now) for strategy in STRATEGIES)
    return next((group for group in found if group is not None), None)


def crosses(first: Group, second: Group, program: PolyProgram, device: str) -> Crossing | None:
    """Two neighbouring groups of a plan as one pass, where some strategy runs them so."""
    if tiles(first, device) or tiles(second, device):
        return None
    found = (strategy.crosses(first, second, program, device) for strategy in STRATEGIES)
    return next((one for one in found if one is not None), None)


def cross(first: Fit, second: Fit, found: Crossing, site: Site) -> Fit | None:
    """The fit of two groups in one pass, where some strategy has one."""
    fits = (strategy.cross(first, second, found, site) for strategy in STRATEGIES)
    return next((fit for fit in fits if fit is not None), None)


def may_collapse(items: Sequence[PlanItem], site: Site) -> bool:
    """Is every group run whatever dimensions of it are run as one?"""
    return all(
        may_collapse(item.body, site)
        if isinstance(item, HostGroup)
        else any(strategy.may_collapse(item, site) for strategy in STRATEGIES)
        for item in items
    )
