"""What a strategy is: who turns a group of loops into launches, and what it says of that.

A strategy is asked in two steps, since storage must know of every group before it can say what lives in
memory. `claim`: does it take the group, whatever lives where? Then its `Fit` says which values it holds itself.
`fit`: does it take a group that nobody claimed, now that every array has a home? The first that does has it
(`plan.registry` says in which order they are asked). One for chains of loops also takes part in planning
(`plan.fusion.streams`).

The Fit is the decision: storage, schedule, report and tuner read it, and nobody fits again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from loopfuse.base.machine import Machine
from loopfuse.base.options import Tuning
from loopfuse.lang.nodes import Expr, integer
from loopfuse.plan.fusion.cost import CostModel
from loopfuse.plan.fusion.streams import Streams
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.units.forest import Scope, Unit
from loopfuse.plan.units.groups import Crossing, Group, ProgramOrder
from loopfuse.plan.units.rules import Rules
from loopfuse.plan.units.running import Running
from loopfuse.plan.units.scattered import Scattered
from loopfuse.plan.units.storage import Store
from loopfuse.poly.model import PolyProgram
from loopfuse.tree.looptree import HostNode, Launch, LoopTree


class Fit:
    """How a strategy runs one group. What a fit says nothing of is as here: one launch, for one thread a point,
    whose values live where storage put them."""

    launches: ClassVar[int] = 1
    """How many of its launches run in a call."""

    @property
    def runs(self) -> Expr:
        """How many launches a call starts, as a formula: `launches`, but where the strategy has loops of the host of its own."""
        return integer(self.launches)

    team: ClassVar[int] = 1
    """How many threads run one point of the group together (at least)."""

    keeps_order: ClassVar[bool] = True
    """Does a thread run the statements of a point as the program does, so that an array of its own may be a register?"""

    @property
    def is_shared(self) -> bool:
        """Do threads share what it runs?"""
        return True

    @property
    def waiting(self) -> float:
        """How many times as long as a sweep over as many bytes its memory takes."""
        return 1.0

    def bind(self, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
        """The launches, called after `name`, and the loops of the host around them. `labels`: the loops of the
        program that they run."""
        raise NotImplementedError

    def detail(self, launch: Launch, tree: LoopTree) -> str:
        """How one of the launches runs, as reports say it."""
        raise NotImplementedError

    def holds(self, array: str) -> bool:
        """Does the launch hold the values of a temporary that nobody else touches, in a home of the
        strategy's own? (Its `Store.home` is then `window`: neither memory nor a thread's register.)"""
        return False

    def home(self, array: str, stores: Mapping[str, Store]) -> str:
        """Where a temporary lives, as reports say it; "" where the tree says it."""
        return ""

    def reordered(self) -> frozenset[str]:
        """The statements whose updates it makes in another order than the program: reports say so."""
        return frozenset()

    def choices(self, tuning: Tuning) -> Tuning | None:
        """What was chosen where `tuning` left it free; None where there is nothing to tune."""
        return None


class Strategy:
    """One way to run groups; each has a folder or a file, and a line in the registry. What a strategy has no
    part in, it leaves as it is here."""

    name: str
    """What reports call it."""

    def streams(self, program: PolyProgram, cost: CostModel, rules: Rules) -> Streams | None:
        """How it takes part in planning, if it runs chains of loops that no common iteration could run."""
        return None

    def claim(self, group: Group, program: PolyProgram, device: str) -> Fit | None:
        """Its fit, where it takes the group whatever lives in memory."""
        return None

    def fit(self, group: Group, site: Site, is_rest: bool) -> Fit | None:
        """Its fit for a group that nobody claimed. `is_rest`: of what blocks of time steps leave over, which
        runs seldom."""
        return None

    def easier(self, fits: Sequence[Fit], rules: Rules) -> Iterator[tuple[Rules, str]]:
        """What may be tried in turn where a tree of these fits, planned under `rules`, was not proved, and that
        in words."""
        return iter(())

    def team(self, group: Group, program: PolyProgram, device: str) -> int:
        """How many threads would run one point of the group together, neighbours in memory along its inner
        loops: what a price takes. 1: none do."""
        return 1

    def tiles(self, group: Group, device: str) -> bool:
        """Would it run the group in tiles of registers, whose operands come from caches? A price takes less for that."""
        return False

    def runs_whole(self, unit: Unit, found: Running | Scattered, program: PolyProgram, device: str) -> bool:
        """Would it run a loop as it stands whose iterations depend on each other through running values, or scattered
        updates? (Else what of it does not depend on other iterations may be a loop of its own.)"""
        return False

    def reorder(self, unit: Unit, scope: Scope, program: PolyProgram, machine: Machine, now: ProgramOrder) -> Group | None:
        """A nest in another order by the exact dependences, with the strategy's fit; None where it knows none that is better than the
        program's, in which it runs as `now` says."""
        return None

    def crosses(self, first: Group, second: Group, program: PolyProgram, device: str) -> Crossing | None:
        """Would it run two neighbouring groups of a plan, of which one goes along the rows of an array and the other across
        them, in one pass? What of; None where it would not."""
        return None

    def cross(self, first: Fit, second: Fit, found: Crossing, site: Site) -> Fit | None:
        """The fit of both, each of which has one of its own (in the plan's order); None where it does not run them in one
        pass."""
        return None

    def may_collapse(self, group: Group, site: Site) -> bool:
        """Would it run the group whatever dimensions of it, neighbours in memory, are run as one?"""
        return False
