"""`swap a, b`: which buffer a name refers to, as a parity that is affine in the iterators.

before:  for t in 0..T:  b[i] = a[i];  swap a, b
after:   for t in 0..T:  b~a(t % 2)[i] = a~b(t % 2)[i]

A name swapped with one partner only refers to itself where the number of swaps made so far is
even. In the n-th pass of a loop whose body makes C swaps that number is n*C more than before the
loop, and modulo 2 only the parity of C counts. Rotations of three arrays, swaps under an `if`,
and counts that are not affine are limits.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from loopfuse.lang.nodes import Const, Exchange, Expr, Swapped, integer

Pair = tuple[str, str]
"""The core names of two arrays, sorted."""


def pair_of(left: str, right: str) -> Pair:
    """The pair of two arrays."""
    return (left, right) if left <= right else (right, left)


@dataclass(slots=True)
class Swaps:
    """For each array that has been swapped: its partner, and how often so far."""

    partner: dict[str, str] = field(default_factory=dict[str, str])
    count: dict[Pair, Expr] = field(default_factory=dict[Pair, Expr])

    def redirect(self, array: str) -> tuple[str, Swapped | None]:
        """What an access to `array` goes to here: an array, and what takes its place at parity 1."""
        partner = self.partner.get(array)
        if partner is None:
            return array, None
        parity = self.count[pair_of(array, partner)] % 2
        if isinstance(parity, Const):
            return (partner if parity.value else array), None
        return array, Swapped(partner, parity)

    def join(self, left: str, right: str) -> bool:
        """Make the two arrays partners; False if one of them has another partner."""
        if self.partner.get(left, right) != right or self.partner.get(right, left) != left:
            return False
        self.partner[left], self.partner[right] = right, left
        self.count.setdefault(pair_of(left, right), integer(0))
        return True

    def add(self, pair: Pair, times: Expr) -> None:
        """The pair was swapped `times` times more."""
        self.count[pair] = self.count[pair] + times

    def exchanges(self) -> list[Exchange]:
        """The pairs that may be exchanged now."""
        found = [Exchange(*p, n % 2) for p, n in self.count.items()]
        return [one for one in found if not (isinstance(one.parity, Const) and not one.parity.value)]

    @contextmanager
    def loop(self, counts: Mapping[Pair, int], passes: Expr, trips: Expr) -> Generator[None, None, None]:
        """Inside: `passes` passes of a loop are done, each having swapped `counts` times. After:
        all `trips` are."""
        before = dict(self.count)
        odd = [pair for pair, count in counts.items() if count % 2]
        for pair in odd:
            self.add(pair, passes)
        try:
            yield
        finally:
            # Pairs whose arrays were declared inside are new each time and end with the loop.
            self.count = before | {
                pair: before[pair] + trips for pair in odd if pair in before
            }
