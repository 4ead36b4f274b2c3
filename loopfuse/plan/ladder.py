"""What is tried in turn until the checker has proved a tree.

    as chosen            what costs least
    apart                the same, where two launches of a time loop are one, as two
    easier               what strategies can do without: threads that share a row, long blocks of time steps, blocks at
                         all, windows
    unfused              each loop by itself
    in order             the program's own order, in one thread: the checker has to prove no more than that
    as written           nothing is asked of isl any more (`plan.strategies.plain`): only `pipeline` goes there, when
                         isl has given up

Each is a rule for planning again, so that every tree is made by the same stages and proved by the same checker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from loopfuse.plan import registry
from loopfuse.plan.strategies.strategy import Fit
from loopfuse.plan.units.rules import Rules


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way to plan. `words`: what is used then, for a warning; `fuel`: how many fusions may be made; `in_order`:
    none, and no loop in parallel."""

    words: str
    fuel: int | None
    rules: Rules
    in_order: bool = False


Rung = Callable[[int | None, Rules, Sequence[Fit]], Iterator[Attempt]]
"""Attempts, given the fuel and the rules of the first, and what strategies made of it."""


def apart(fuel: int | None, rules: Rules) -> Attempt:
    """As chosen, but no two launches are one with arrays exchanged: what is proved of two in turn asks more at once."""
    return Attempt("", fuel, replace(rules, turns=False))


def easier(fuel: int | None, rules: Rules, fits: Sequence[Fit]) -> Iterator[Attempt]:
    """Without what strategies can do without; what one gave up stays given up."""
    for given_up, words in registry.easier(fits, rules):
        yield Attempt(words, fuel, given_up)


def unfused(fuel: int | None, rules: Rules, fits: Sequence[Fit]) -> Iterator[Attempt]:
    """Each loop by itself."""
    if fuel != 0:
        yield Attempt("the unfused kernels are used", 0, easiest(rules, fits))


def in_order(fuel: int | None, rules: Rules, fits: Sequence[Fit]) -> Iterator[Attempt]:
    """The program's own order."""
    yield Attempt("it runs in program order, by one thread", None, easiest(rules, fits), in_order=True)


LADDER: tuple[Rung, ...] = (easier, unfused, in_order)
"""What follows on the first attempt."""


def easiest(rules: Rules, fits: Sequence[Fit]) -> Rules:
    """The rules when all is given up that can be."""
    for given_up, _ in registry.easier(fits, rules):
        rules = given_up
    return rules


def attempts(fuel: int | None, rules: Rules, fits: Sequence[Fit]) -> Iterator[Attempt]:
    """What is tried in turn where the first attempt, planned under `rules` as `fits`, was not proved."""
    for rung in LADDER:
        yield from rung(fuel, rules, fits)
