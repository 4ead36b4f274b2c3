"""What one planning run decided about pairs of loops, in the order it was decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from loopfuse.plan.units.forest import Unit
from loopfuse.plan.units.groups import Crossing, Group, PlanItem
from loopfuse.plan.units.records import Decision

SLOWER = "wrap both loops in a `fuse:` block"
"""The remedy for a fusion that is legal, and not made."""


@dataclass(frozen=True, slots=True)
class Apart:
    """Why a border does not run with the rest of its array."""

    rest: Unit
    border: Unit
    why: str


class Decisions(list[Decision]):
    """The decisions so far; each pair may have several, of attempts in turn."""

    def decide(
        self, first: Unit, second: Unit, fused: bool, reason: str, remedy: str | None = None
    ) -> None:
        """Record a decision without a witness."""
        self.append(Decision((first.label, second.label), fused, None, reason, None, remedy))

    def decline(
        self, first: Unit, second: Unit, together: float, apart: float, dear: str = ""
    ) -> None:
        """Record a legal fusion that costs more than it saves; `dear`: what makes it so."""
        reason = slower(together, apart) + (f"; {dear}" if dear else "")
        self.decide(first, second, False, reason, SLOWER)

    def describe_again(
        self, group: Group, describe: Callable[[Group, Unit, Unit], Decision]
    ) -> None:
        """Fusions of loops that are a chain in the end: how far each runs behind."""
        units = {unit.label: unit for unit in group.units}
        for k, one in enumerate(self):
            if one.fused and set(one.between) <= units.keys():
                first, second = one.between
                self[k] = describe(group, units[first], units[second])

    def decide_pass(self, found: Crossing, mark: int) -> None:
        """Two groups are one pass: what was said since `mark` of why they are apart is dropped."""
        along, across = ({unit.label for unit in group.units} for group in (found.along, found.across))

        def meet(one: Decision) -> bool:
            first, second = one.between
            return (first in along and second in across) or (first in across and second in along)

        self[mark:] = [one for one in self[mark:] if one.fused or not meet(one)]
        self.append(Decision(found.between, True, None, found.reason))

    def call_left_over(self, mark: int) -> None:
        """Refusals since `mark` are between loops that run together in blocks of time steps."""
        self[mark:] = [
            one if one.fused else replace(one, reason=f"in iterations left over from blocks: {one.reason}")
            for one in self[mark:]
        ]

    def add_reason(self, mark: int, why: str, remedy: str | None) -> None:
        """Add to the decisions since `mark` why there are no windows."""
        self[mark:] = [
            replace(one, reason=f"{one.reason}; no windows: {why}", remedy=remedy or one.remedy)
            for one in self[mark:]
        ]

    def forget_own(self, unit: Unit, mark: int) -> None:
        """Drop what was said since `mark` of a loop alone: of how it runs in the program's order."""
        self[mark:] = [one for one in self[mark:] if set(one.between) != {unit.label}]

    def explain_apart(self, apart: Sequence[Apart]) -> None:
        """Say of each border that runs by itself why it does not run with the rest of its array."""
        for one in apart:
            between = (one.rest.label, one.border.label)
            known = [k for k, each in enumerate(self) if set(each.between) == set(between)]
            for k in known:
                reason = self[k].reason
                if not self[k].fused and "no windows:" not in reason and one.why not in reason:
                    self[k] = replace(self[k], reason=f"{reason}; no windows: {one.why}")
            if not known:
                self.decide(one.rest, one.border, False, f"no windows: {one.why}")

    def forget_apart(self, items: Sequence[PlanItem], mark: int) -> None:
        """Drop refusals since `mark` between loops that in the end run together: one attempt failed, a
        later one brought more loops; and what is said twice."""
        together = [{unit.label for unit in item.units} for item in items if isinstance(item, Group)]
        kept: list[Decision] = []
        for one in self[mark:]:
            first, second = one.between
            joined = first != second and any({first, second} <= labels for labels in together)
            if one not in kept and (one.fused or not joined):
                kept.append(one)
        self[mark:] = kept


def slower(together: float, apart: float) -> str:
    """The reason for not fusing what costs more together."""
    return f"it would be slower: about {in_words(together)} together, {in_words(apart)} apart"


def in_words(seconds: float) -> str:
    """Seconds as `12 us` or `3.4 ms`."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"
