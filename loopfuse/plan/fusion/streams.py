"""What the planner asks of a strategy for chains of loops that no common iteration could run: stencils, of
which each reads neighbours of what the one before it makes, and time loops around them.

The planner decides which loops to try, and whether it is worth it; the strategy whether it can, how that
is said, and which blocks of time steps there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from loopfuse.plan.units.forest import Scope, Unit
from loopfuse.plan.units.groups import Group, HostGroup
from loopfuse.plan.units.records import Decision


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring units that may be one chain: the first of them that writes a border, and one that
    writes the rest of its array."""

    units: tuple[Unit, ...]
    rest: Unit
    border: Unit


@dataclass(frozen=True, slots=True)
class Blocks:
    """A time loop in blocks of steps: loops over pairs of launches, longest blocks first, and then what is
    left, step by step. `decisions`: what there is to say of that, or why there are none."""

    loops: tuple[HostGroup, ...]
    rest: HostGroup
    decisions: tuple[Decision, ...]


class Streams(Protocol):
    """A strategy for chains, over one program."""

    def form(self, units: Sequence[Unit], scope: Scope, needed: frozenset[str]) -> Group | None:
        """The units, as they run, as a chain, with the strategy's fit, where that is possible and takes
        fewer operations than computing anew. `needed`: arrays that others see afterwards."""
        ...

    def why_not(self, units: Sequence[Unit], scope: Scope) -> str:
        """Why `form` gave nothing; "" where that goes without saying."""
        ...

    def why_apart(self, units: Sequence[Unit], scope: Scope) -> tuple[str, str | None]:
        """Why loops that read each other's neighbours are no chain, and the change that would make them
        one; nothing where they do not, or are."""
        ...

    def describe(self, group: Group, first: Unit, second: Unit) -> Decision:
        """How two loops of a chain run together."""
        ...

    def describe_serial(self, unit: Unit, scope: Scope) -> list[Decision]:
        """Why a nest of stencils runs in one thread."""
        ...

    def is_border(self, unit: Unit) -> bool:
        """Does the unit write a border of what another writes? It runs in a chain, or by itself."""
        ...

    def runs(self, entries: Sequence[Unit | HostGroup], scope: Scope) -> Iterator[Run]:
        """Neighbouring units to try together before others, longest first."""
        ...

    def blocks(
        self, host: HostGroup, scope: Scope, live: frozenset[str], fuel: int | None
    ) -> Blocks | None:
        """The time loop in at most `fuel` kinds of blocks; None where there is nothing to say. `live`:
        arrays that others see after the loop."""
        ...
