"""Which loop of a statement is innermost on the CPU, and what that makes of its accesses.

A loop along rows of memory becomes vectors, and what it touches comes by whole cache lines. Where
neighbours lie apart, each element is an instruction, and comes in a line of its own. Of a loop over threads
and the one inside it, the better is innermost (`plan.mapping.strips`).
"""

from __future__ import annotations

from dataclasses import dataclass

from loopfuse.lang.linear import linear
from loopfuse.lang.walk import iterators
from loopfuse.plan.mapping.strips import AGAIN, IN_TURN, access_price, is_short_loop
from loopfuse.plan.units.groups import Group, Legality
from loopfuse.poly.model import Access, Loop, Statement

LINE = 8.0
"""How many times what it uses an access moves, where each element comes in a line of its own."""

NEAR = 2.0
"""The same where the loop around goes along the lines: most of them are still in a cache."""

APART_ROWS = 1.75
"""The same of rows that do not follow each other in memory, planes apart: each starts in another page. (A plane's rows of 1 to 4 KiB,
written or copied on an EPYC: 1.5 to 1.9; of 16 KiB 1.1. Arrays of three dimensions have no longer ones, mostly.)"""

SETS = 16.0
"""How much of a cache rows take that lie planes apart: where a plane is a multiple of 4 KiB, as those of many sizes are, they
share few of its sets. (128 planes of 128 x 128, on an EPYC: no row stayed in 1 MB from one loop to the next.)"""

MIXED = 4.0
"""How many instructions more a statement takes that asks at each point whether it is its turn."""

IN_STRIPS = 3.0
"""The same of rows that are written a strip at a time: the lines of each strip are asked for late (4096 rows
of 4096 floats, copied on a Sapphire Rapids)."""


@dataclass(frozen=True, slots=True)
class CpuNest:
    """The innermost loop of a statement and the one around it, by iterator ("": none); `strips`: the
    loop over threads runs inside another."""

    inner: str
    around: str
    strips: bool = False
    own: tuple[Loop, ...] = ()
    """The statement's loops that are none over threads."""

    def held(self, access: Access) -> tuple[Loop, ...]:
        """The loops that go over elements of the access while a thread is in one iteration."""
        used = {name for part in access.load.index for name in iterators(part)}
        return tuple(loop for loop in self.own if loop.iterator in used)

    def price(self, statement: Statement) -> float:
        """What the statement's accesses cost, as `plan.mapping.strips` weighs them."""
        write = statement.write.load
        price = sum(access_price(each.load, self.inner, self.around) for each in statement.reads)
        price += 2 * access_price(write, self.inner, self.around)
        return price + (IN_TURN if self.waits(statement) else 0.0)

    def waits(self, statement: Statement) -> bool:
        """Does each iteration of the innermost loop update what the one before did?"""
        write = statement.write.load
        fixed = all(self.inner not in iterators(part) for part in write.index)
        return fixed and not self.strips and write.dtype.is_float and self.updates(statement)

    def updates(self, statement: Statement) -> bool:
        """Does the statement read what it writes?"""
        return any(each.array == statement.write.array for each in statement.reads)

    def is_vector(self, statement: Statement) -> bool:
        """Do neighbours in the innermost loop run as lanes of vectors?"""
        return self.price(statement) == 0.0

    def has_lanes(self, statement: Statement) -> bool:
        """Would its iterations be lanes of vectors if a sum might be added up in another order?"""
        return self.waits(statement) and self.price(statement) == IN_TURN

    def room(self, access: Access) -> float:
        """How many times what it uses the access takes of a cache until it is used again."""
        leaps = any(_leaps(access, loop.iterator) for loop in self.own[:-1])
        return SETS if leaps else 1.0

    def moved(self, access: Access, is_write: bool) -> float:
        """How many times what it uses the access moves."""
        if access_price(access.load, self.inner, self.around) > AGAIN:
            last = linear(access.load.index[-1]) or {}
            return NEAR if abs(last.get(self.around, 0)) == 1 else LINE
        if _leaps(access, self.around):
            return APART_ROWS
        rows = self.strips and any(self.around in iterators(part) for part in access.load.index)
        return IN_STRIPS if is_write and rows else 1.0


def find_nest(group: Group, statement: Statement, dims: tuple[str, ...]) -> CpuNest | None:
    """How the statement's innermost loops run in a group whose dimensions are `dims`, slowest first;
    None where its iterations are not simply those of threads."""
    placed = group.placed.get(statement.id)
    if group.legality is not Legality.INDEPENDENT or placed is None or not placed.coordinates:
        return None
    chain = [placed.coordinate(dim).iterator for dim in dims]
    host = {loop.iterator for loop in group.scope.host} if group.scope else set[str]()
    own = [lp for lp in statement.loops if lp.iterator not in chain and lp.iterator not in host]
    own = [lp for lp in own if not is_short_loop(lp.lower, lp.upper, lp.step)]
    nests, inner = [*chain, *(loop.iterator for loop in own)], tuple(own)
    inside = CpuNest(nests[-1], nests[-2] if len(nests) > 1 else "", own=inner)
    if not own or _follows(own[-1], chain[-1]):
        return inside
    strips = CpuNest(chain[-1], own[-1].iterator, strips=True, own=inner)
    return strips if strips.price(statement) < inside.price(statement) else inside


def _follows(loop: Loop, iterator: str) -> bool:
    """Do the loop's bounds depend on the iterator, or on data?"""
    return bool(loop.unknown) or iterator in iterators(loop.lower) | iterators(loop.upper)


def _leaps(access: Access, around: str) -> bool:
    """Does the loop around the innermost one go from plane to plane, and not from row to row?"""
    index = access.load.index
    return (
        len(index) > 2
        and all(around not in iterators(part) for part in index[-2:])
        and any(around in iterators(part) for part in index[:-2])
    )


def have_mixed_steps(group: Group, dim: str) -> bool:
    """Do members take steps of their own along a dimension? Then one loop goes by ones, and each asks
    whether it is its turn, which makes no vectors of several of them."""
    steps: list[tuple[int, object]] = []
    for placed in group.members:
        if not placed.coordinates:
            continue
        c = placed.coordinate(dim)
        loop = next(loop for loop in placed.unit.common if loop.iterator == c.iterator)
        steps.append((loop.step * c.sign, (loop.lower, c.parameters, c.constant)))
    strided = [step for step in steps if abs(step[0]) != 1]
    return len(steps) > 1 and bool(strided) and len(set(steps)) > 1
