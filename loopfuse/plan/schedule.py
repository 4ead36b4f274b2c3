"""From the fusion plan to the LoopTree: each group becomes launches by the strategy that fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from loopfuse.base.dtypes import DType
from loopfuse.lang.index import conjoin, trip_count
from loopfuse.lang.nodes import Expr, Select, combine, integer
from loopfuse.lang.walk import iterators, substitute
from loopfuse.plan import registry
from loopfuse.plan.fusion.fuse import FusionPlan
from loopfuse.plan.mapping.body import Names
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.strategies.strategy import Fit
from loopfuse.plan.units.forest import Scope
from loopfuse.plan.units.groups import Crossing, Group, HostGroup, PlanItem, groups_of
from loopfuse.plan.units.rules import Rules
from loopfuse.plan.units.storage import Store, place_storage
from loopfuse.poly.collapse import find_collapses
from loopfuse.poly.isl import value_expr
from loopfuse.poly.isl_relations import hull_along, is_thin
from loopfuse.poly.model import Dependences, PolyProgram
from loopfuse.tree.looptree import RESIDENT, HostLoop, HostNode, LoopTree
from loopfuse.tree.rewrite.nontemporal import past_caches
from loopfuse.tree.rewrite.turns import merge


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The tree, the home of every array of the program, the plan with what strategies claimed of it, and
    which group each launch runs, and how, by name."""

    tree: LoopTree
    stores: dict[str, Store]
    items: tuple[PlanItem, ...] = ()
    fits: Mapping[str, Fit] = field(default_factory=dict[str, Fit])
    groups: Mapping[str, Group] = field(default_factory=dict[str, Group])
    apart: tuple[Crossing, ...] = ()
    """What was planned as one pass, and is none."""


def build_tree(
    program: PolyProgram,
    dependences: Dependences,
    plan: FusionPlan,
    device: str,
    rules: Rules,
) -> Scheduled:
    """The LoopTree of `plan` for `device` (cpu or gpu)."""
    items = registry.claimed(plan.items, program, device)
    stores = place_storage(program, dependences, items, device)
    # Hidden from other names: the parameters, and iterators of host loops.
    names = Names(set(program.symbols) | {p.name for p in program.kernel.scalars})
    names.strided, names.rows = rules.strided, dict(rules.rows)
    names.used |= set(program.arrays)
    extents = iterator_extents(program, stores)
    site = Site(
        program, stores, names, device, extents, machine=rules.machine, teams=rules.teams, tiles=rules.tiles,
        tuning=rules.tuning,
    )  # fmt: skip
    if not rules.strided and registry.may_collapse(items, site):
        site = replace(site, collapses=find_collapses(program))
    builder = _TreeBuilder(site, program.kernel.name)
    body = builder.host(items, {})
    tree = LoopTree(program.kernel.name, device, tuple(names.buffers.values()), tuple(body))
    tree = replace(tree, collapsed=site.collapses)
    if builder.resident:
        tree = replace(tree, resident=conjoin(*dict.fromkeys(builder.resident)))
    tree = merge(tree, names.fresh) if rules.turns else tree
    if device == "cpu" and rules.machine.resident:
        tree = past_caches(tree, rules.machine.resident, written_again(items))
    launches = {launch.name for launch in tree.launches}
    fits = {name: fit for name, fit in builder.fits.items() if name in launches}
    groups = {name: group for name, group in builder.groups.items() if name in launches}
    items = tuple(
        replace(item, crossing=None) if isinstance(item, Group) and any(item.crossing is one for one in builder.apart) else item
        for item in items
    )
    in_memory = {buffer.name for buffer in tree.buffers}
    held = {name: Store("window") for name in program.arrays.keys() - in_memory for fit in fits.values() if fit.holds(name)}
    return Scheduled(tree, {**stores, **held}, items, fits, groups, tuple(builder.apart))


def written_again(items: Sequence[PlanItem]) -> frozenset[tuple[str, str, str]]:
    """(array, statement, statement) of which the first writes elements that the second, or the first itself, writes again in the same
    launch, more of them than a border."""
    return frozenset(
        (d.array, d.source, d.sink)
        for group in groups_of(items)
        for d in (group.scope.touching(group.ids) if group.scope else ())
        if d.kind == "output" and d.source in group.ids and d.sink in group.ids and not is_thin(d.relation.domain())
    )


@dataclass
class _TreeBuilder:
    site: Site
    kernel: str
    count: int = 0
    fits: dict[str, Fit] = field(default_factory=dict[str, Fit])
    groups: dict[str, Group] = field(default_factory=dict[str, Group])
    resident: list[Expr] = field(default_factory=list[Expr])
    """When the loops in blocks have none."""
    apart: list[Crossing] = field(default_factory=list[Crossing])
    """Those that are no pass after all."""

    def host(
        self, items: Sequence[PlanItem], outer: Mapping[str, Expr], is_rest: bool = False
    ) -> list[HostNode]:
        """`outer`: the values of the host iterators around, in tree variables. `is_rest`: what runs
        is left over from blocks of time steps."""
        blocks = next((item for item in items if isinstance(item, HostGroup) and item.blocks is not None), None)
        out: list[HostNode] = []
        for number, item in enumerate(items):
            behind = items[number + 1] if number + 1 < len(items) else None
            if isinstance(item, HostGroup):
                out.append(self.loop(item, outer, blocks if item.blocks is None else None))
            elif isinstance(behind, Group) and behind.crossing is not None:
                out += self.launch_both(item, behind, behind.crossing, is_rest)
            elif item.crossing is None:
                out += self.launch(item, is_rest)
        return out

    def loop(self, item: HostGroup, outer: Mapping[str, Expr], longer: HostGroup | None) -> HostLoop:
        """`longer`: the longest of the blocks of time steps that leave `item` over."""
        loop = item.loop
        self.site.names.used.add(loop.iterator)
        scope = Scope((loop,), (), False)
        inside = {**outer, **{n: substitute(v, outer) for n, v in scope.values().items()}}
        body = tuple(self.host(item.body, inside, longer is not None))
        lower = substitute(loop.lower, outer)
        upper = substitute(loop.upper, outer)
        if item.blocks is not None:
            trips = substitute(item.blocks, outer)
            if item.resident is not None:
                self.resident.append(item.resident)
                trips = Select(RESIDENT, integer(0), trips, DType.I64)
            return HostLoop(loop.iterator, integer(0), trips, 1, body)
        if longer is not None and longer.resident is not None:
            lower = Select(RESIDENT, substitute(longer.loop.lower, outer), lower, DType.I64)
        if loop.step > 0:
            return HostLoop(loop.iterator, lower, upper, loop.step, body)
        trips = trip_count(lower, upper, loop.step)
        return HostLoop(loop.iterator, integer(0), trips, 1, body)

    def launch_both(self, first: Group, second: Group, found: Crossing, is_rest: bool) -> tuple[HostNode, ...]:
        """Two groups in one pass, where a strategy takes both."""
        fits = [registry.fit(group, self.site, is_rest) for group in (first, second)]
        fit = registry.cross(fits[0], fits[1], found, self.site)
        if fit is None:
            self.apart.append(found)
            return (*self.launch(first, is_rest, fits[0]), *self.launch(second, is_rest, fits[1]))
        return self.launch(first.beside(second), is_rest, fit)

    def launch(self, group: Group, is_rest: bool, fit: Fit | None = None) -> tuple[HostNode, ...]:
        """`fit`: its fit, where that is known."""
        name = f"{self.kernel}_{self.count}"
        self.count += 1
        labels = tuple(dict.fromkeys(unit.label for unit in group.units))
        fit = fit or registry.fit(group, self.site, is_rest)
        made = fit.bind(self.site, name, labels)
        for launch in LoopTree(name, self.site.device, (), made).launches:
            self.fits[launch.name], self.groups[launch.name] = fit, group
        return made


def iterator_extents(
    program: PolyProgram, stores: dict[str, Store]
) -> dict[str, tuple[Expr, Expr]]:
    """For every iterator that storage is expanded over: (least value, greatest value + 1)."""
    wanted = {name for store in stores.values() for name in store.leading}
    out: dict[str, tuple[Expr, Expr]] = {}
    for name in sorted(wanted):
        statement = next(s for s in program.statements if name in s.iterators)
        loop = next(loop for loop in statement.loops if loop.iterator == name)
        if loop.step > 0 and not iterators(loop.lower) | iterators(loop.upper):
            out[name] = (loop.lower, loop.upper)
        elif loop.step < 0 and not iterators(loop.lower) | iterators(loop.upper):
            one = integer(1)
            out[name] = (loop.upper + one, loop.lower + one)
        else:
            alone = [
                hull_along([s.domain], s.iterators.index(name))
                for s in program.statements
                if name in s.iterators
            ]
            low = value_expr(alone[0][0], program.symbols)
            high = value_expr(alone[0][1], program.symbols)
            for least, greatest in alone[1:]:
                low = combine("min", low, value_expr(least, program.symbols))
                high = combine("max", high, value_expr(greatest, program.symbols))
            out[name] = (low, high + 1)
    return out


