"""Strategy `affine`: nests whose iterations depend on each other, in another order than the program's, on a CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from loopfuse.plan.mapping.space import Site
from loopfuse.plan.strategies.affine.orders import Order, find_order
from loopfuse.plan.strategies.affine.space import find_space
from loopfuse.plan.strategies.affine.tree import TreeWriter, scan_order
from loopfuse.plan.strategies.strategy import Fit, Strategy
from loopfuse.plan.units.align import Placed
from loopfuse.plan.units.forest import Scope, Unit
from loopfuse.plan.units.groups import Group, Legality
from loopfuse.plan.units.rules import Rules
from loopfuse.poly.model import PolyProgram
from loopfuse.tree.looptree import HostNode, Launch, LoopTree


@dataclass(frozen=True, slots=True)
class Affine(Strategy):
    """The strategy."""

    name: str = "affine"

    def easier(self, fits: Sequence[Fit], rules: Rules) -> Iterator[tuple[Rules, str]]:
        if any(isinstance(fit, AffineFit) for fit in fits):
            yield replace(rules, orders=False), "loops run in the program's order"

    def reorder(self, unit: Unit, scope: Scope, program: PolyProgram, device: str) -> Group | None:
        if device != "cpu" or scope.host:
            return None
        if any(program.arrays[name].private_to for s in unit.statements for name, _ in s.write.parts):
            return None
        if any(len(access.parts) > 1 for s in unit.statements for access in (*s.reads, s.write)):
            return None
        if any(not s.write.exact for s in unit.statements):
            return None
        space = find_space(unit)
        order = None if space is None else find_order(unit, space, scope)
        if order is None:
            return None
        group = Group(Legality.SERIAL, (), (Placed(unit, ()),), scope=scope)
        return replace(group, fit=AffineFit(group, order))


AFFINE = Affine()


@dataclass(frozen=True, slots=True)
class AffineFit(Fit):
    """A group in an order of its own."""

    group: Group
    order: Order

    def bind(self, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
        writer = TreeWriter(self.order, self.group, site, name, labels)
        return tuple(writer.host(scan_order(self.order, site), {}))

    def detail(self, launch: Launch, tree: LoopTree) -> str:
        """`affine, order k, i, j; threads over i; vectors over j`."""
        return f"affine, {self.order.words}"
