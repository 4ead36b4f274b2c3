"""How much isl may work: a limit for each question, and one for a whole compile.

isl counts its own basic operations, so these limits are the same on every machine and under every
load. (Time decides only where a compile has worked for long, and then the thread's own.)
Past a limit isl raises; `Unknown` says so.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import islpy

OPERATIONS = 3_000_000
"""isl operations one question may take: about a second, more in many dimensions."""

SHALLOW = 12
"""Loops in one nest up to which an operation costs about the same. In a deeper nest it costs more
time and memory in proportion, and a question may take fewer."""

FEW = 2
"""Quotients and remainders in the subscripts of one access up to which an operation costs about the
same: isl holds each as a dimension more, twice where two accesses are compared. With every other
one a question may take a third, but `LEAST` in any case."""
LEAST = 5_000

QUESTIONS = 7
"""How many such questions a whole compile may take together."""

SECONDS = 6.0
"""Processor time after which a compile of a deep nest asks no more: in fifty dimensions one operation
costs what thousands cost in five."""

SHALLOW_SECONDS = 60.0
"""The same where nests are not deep. Operations end nearly every compile long before that; what a
kernel becomes must not depend on how busy the machine is."""


class Unknown(Exception):
    """isl reached its operation limit: the question has no answer."""


FAILURES: tuple[type[Exception], ...] = (Unknown, islpy.Error)
"""What a stage may raise when isl gives up; `gave_up` tells it from a bug."""


def gave_up(error: BaseException) -> bool:
    """Whether `error` says that isl reached a limit (and not that it was used wrongly)."""
    return isinstance(error, Unknown) or any(text in str(error) for text in _SAID)


_SAID = ("operations exceeded", "failed to create arg")
"""What islpy says past a limit: isl counts making a number too, which is how arguments are made."""

_STEPS = (2_000, 20_000, 200_000, 2_000_000, 20_000_000)


@dataclass
class Budget:
    """What one compile may spend: `question` operations on each question, `left` on all that are
    still to come."""

    question: int
    left: int
    seconds: float = SHALLOW_SECONDS
    start: float = field(default_factory=time.thread_time)
    began: float = field(default_factory=time.perf_counter)
    probes: dict[int, Any] = field(default_factory=dict[int, Any])
    unanswered: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    """Questions of `isl.ends_of` that took too long: they are not asked again."""

    def weigh(self, depth: int, quotients: int = 0) -> None:
        """From now on ask about nests of `depth` loops, and accesses with so many quotients and
        remainders."""
        if quotients > FEW:
            share = 3 ** (quotients - FEW)
            self.seconds = min(self.seconds, SECONDS)
            self.question = min(self.question, max(LEAST, self.question // share))
            self.left = min(self.left, self.question * QUESTIONS)
        if depth > SHALLOW:
            self.seconds = min(self.seconds, SECONDS)
            self.question = max(1, self.question * SHALLOW // depth)
            self.left = self.left * SHALLOW // depth

    def check_time(self) -> None:
        """Unknown where the compile has worked for its seconds (which the clock on the wall, far cheaper
        to ask on some systems, shows first)."""
        if time.perf_counter() - self.began <= self.seconds:
            return
        if time.thread_time() - self.start > self.seconds:
            self.left = 0
            raise Unknown("this compile has taken too long (operation limit)")

    def adopt(self, thing: Any) -> None:
        """Let the isl context of `thing` (a set or map), which an earlier budget has limited,
        draw on this one."""
        raw = thing.get_ctx()
        raw.reset_operations()
        raw.set_max_operations(max(1, self.left))

    def charge(self, raw: Any) -> None:
        """Take what the isl context has counted off what is left, and count from 0 again.

        isl does not tell its count, but a question of known, small cost asked under a limit says
        whether the limit is reached: so the count is found to a power of ten, and a third of that
        is charged.
        """
        key = hash(raw)
        if key not in self.probes:
            raw.set_max_operations(0)
            self.probes[key] = islpy.Set.read_from_str(raw, "{ [i] : i >= 5 }")
        for step in _STEPS:
            if not _reached(self.probes[key], raw, step):
                self.left -= step // 3 if step > _STEPS[0] else 100
                break
        else:
            self.left = 0
        raw.reset_operations()
        raw.set_max_operations(max(1, self.left))


def _reached(probe: Any, raw: Any, operations: int) -> bool:
    """Whether the context has counted so many operations."""
    raw.set_max_operations(operations)
    try:
        probe.intersect(probe)  # a few operations: the cheapest question that counts any
    except islpy.Error:
        return True
    return False


def check_time() -> None:
    """Unknown where the compile that runs has worked too long; for loops that ask much in small
    pieces."""
    budget = _current.get()
    if budget is not None:
        budget.check_time()


def weigh(depth: int, quotients: int = 0) -> None:
    """Tell the budget of the compile that runs how deep its loops are nested, and how many quotients
    and remainders the subscripts of an access hold."""
    budget = _current.get()
    if budget is not None:
        budget.weigh(depth, quotients)


_current: ContextVar[Budget | None] = ContextVar("budget", default=None)


def current_budget() -> Budget | None:
    """What the compile that runs may spend; None outside `spending`."""
    return _current.get()


@contextmanager
def spending(operations: int = 0, seconds: float = SHALLOW_SECONDS) -> Generator[Budget, None, None]:
    """A compile: every isl context made inside draws on one budget. `operations` is the limit of
    a question (0: the default); the whole may take `QUESTIONS` times as many, and `seconds` of
    processor time.

    Inside, whatever asks isl may raise one of `FAILURES`, also outside `Context.ask`.
    """
    question = operations or OPERATIONS
    token = _current.set(Budget(question, question * QUESTIONS, seconds))
    try:
        found = _current.get()
        assert found is not None
        yield found
    finally:
        _current.reset(token)
