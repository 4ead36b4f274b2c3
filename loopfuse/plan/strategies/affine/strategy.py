"""Strategy `affine`: nests whose iterations depend on each other, in another order than the program's, on a CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from loopfuse.base.machine import Machine
from loopfuse.lang.nodes import Expr, integer
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.strategies.affine.orders import Order, find_orders
from loopfuse.plan.strategies.affine.tree import (
    TreeWriter,
    has_threads,
    host_items,
    launched,
    scan_order,
)
from loopfuse.plan.strategies.strategy import Fit, Strategy
from loopfuse.plan.units.align import Placed
from loopfuse.plan.units.forest import Scope, Unit
from loopfuse.plan.units.groups import Group, Legality, ProgramOrder
from loopfuse.plan.units.rules import Rules
from loopfuse.poly.isl import Unknown, context_of
from loopfuse.poly.isl_orders import ScanNode
from loopfuse.poly.model import PolyProgram, Statement
from loopfuse.tree.looptree import HostNode, Launch, LoopTree


@dataclass(frozen=True, slots=True)
class Affine(Strategy):
    """The strategy."""

    name: str = "affine"

    def easier(self, fits: Sequence[Fit], rules: Rules) -> Iterator[tuple[Rules, str]]:
        if any(isinstance(fit, AffineFit) for fit in fits):
            yield replace(rules, orders=False), "loops run in the program's order"

    def reorder(self, unit: Unit, scope: Scope, program: PolyProgram, machine: Machine, now: ProgramOrder) -> Group | None:
        if machine.device != "cpu" or scope.host:
            return None
        if not all(map(partial(stands_alone, unit, program), unit.statements)):
            return None
        if any(len(access.parts) > 1 for s in unit.statements for access in (*s.reads, s.write)):
            return None
        if any(not s.write.exact for s in unit.statements):
            return None
        group = Group(Legality.SERIAL, (), (Placed(unit, ()),), scope=scope)

        for operations, find in find_orders(unit, scope, machine, program.symbols, now):

            def search(find: Callable[[], Order | None] = find) -> AffineFit | None:
                order = find()
                return None if order is None else AffineFit(group, order, scan_order(order, program))

            try:
                fit = context_of(program.context, operations).ask(search)
            except Unknown:
                continue
            if fit is not None:
                return replace(group, fit=fit)
        return None


def stands_alone(unit: Unit, program: PolyProgram, statement: Statement) -> bool:
    """Is what the statement writes seen by others than those of the same iteration of its loops, or set and used in one point?"""
    private = {i for name, _ in statement.write.parts for i in program.arrays[name].private_to}
    return not private or all(private == set(s.iterators) for s in unit.statements)


AFFINE = Affine()


@dataclass(frozen=True, slots=True)
class AffineFit(Fit):
    """A group in an order of its own, and the loops that isl writes for that."""

    group: Group
    order: Order
    nodes: tuple[ScanNode, ...]
    keeps_order: ClassVar[bool] = False

    @property
    def launches(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How many launches the tree has."""
        return launched(host_items(self.nodes, self.order))[0]

    @property
    def runs(self) -> Expr:
        count, total = launched(host_items(self.nodes, self.order))
        return integer(count) if total is None else total

    @property
    def is_shared(self) -> bool:
        return has_threads(host_items(self.nodes, self.order))

    def bind(self, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
        writer = TreeWriter(self.order, self.group, site, name, labels)
        return tuple(writer.host(host_items(self.nodes, self.order), {}))

    def detail(self, launch: Launch, tree: LoopTree) -> str:
        """`affine, order k, i, j; threads over i; vectors over j`."""
        return f"affine, {self.order.words}"
