"""Coordinate descent: one choice after the other, each moved as long as that makes it faster.

    default -> steps up ... down ... -> rows up ... down ... -> ... -> again, until nothing helps

Along an axis the search goes on for `MISSES` values that are no faster: unrolled loops make times
that are not smooth. Every choice is measured once. What is measured, and what time it is, are
given, so that a test decides both. `prepare` hears which choices would be next, if none is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from loopfuse.base.options import Tuning
from loopfuse.tuning.space import Axis

Ways = Sequence[tuple[Axis, Sequence[int]]]
"""Axes, and values along them in the order that they are tried."""

MISSES = 2
"""Values in a row that were no faster before a direction is given up."""
GAIN = 0.01
"""The part of its time that a choice must save to be taken: less is noise."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A choice that was tried: seconds of a run, or None and why it cannot be used. `wrong`: it
    computed something else, which is a bug."""

    tuning: Tuning
    seconds: float | None
    problem: str = ""
    wrong: bool = False


@dataclass(frozen=True, slots=True)
class Searched:
    """Where a search ended: the fastest trial, all of them in order, and whether it went on until
    nothing helped (else time was up)."""

    best: Trial
    trials: tuple[Trial, ...]
    complete: bool


def search(
    start: Trial,
    axes: Sequence[Axis],
    measure: Callable[[Tuning], Trial],
    time_is_up: Callable[[], bool],
    prepare: Callable[[Sequence[Tuning]], None] = lambda coming: None,
) -> Searched:
    """The fastest choice reachable from `start`, which was measured. `measure` is asked for no
    choice twice, and for none once `time_is_up`; before it is, `prepare` is given that choice and
    those that would come after it."""
    known: dict[Tuning, Trial] = {start.tuning: start}
    best, complete = start, True

    def climb(best: Trial, axis: Axis, values: Sequence[int], then: Ways) -> tuple[Trial, bool]:
        """The best after going along `values`; False where time was up. `then`: where the search
        goes next."""
        misses = 0
        for place, value in enumerate(values):
            tuning = axis.put(best.tuning, value)
            if tuning not in known:
                if time_is_up():
                    return best, False
                here = values[place : place + MISSES - misses]
                coming = _coming(best.tuning, [(axis, here), *then])
                prepare([each for each in coming if each not in known])
                if time_is_up():
                    return best, False
                known[tuning] = measure(tuning)
            if is_faster(known[tuning], best):
                best, misses = known[tuning], 0
                continue
            misses += 1
            if misses == MISSES:
                break
        return best, True

    again = True
    while again and complete:
        again = False
        for number, axis in enumerate(axes, 1):
            before = best
            above, below = axis.beside(best.tuning)
            later = [(one, way) for one in axes[number:] for way in one.beside(best.tuning)]
            best, complete = climb(best, axis, above, [(axis, below), *later])
            if complete and best is before:  # what lies below was left behind otherwise
                best, complete = climb(best, axis, below, later)
            again = again or best is not before
            if not complete:
                break
    return Searched(best, tuple(known.values()), complete)


def _coming(best: Tuning, ways: Ways) -> Iterator[Tuning]:
    """The choices that are tried along `ways` if none is faster than `best`."""
    for axis, values in ways:
        yield from (axis.put(best, value) for value in values[:MISSES])


def is_faster(one: Trial, other: Trial) -> bool:
    """`one` can be used, and saves more than noise."""
    if one.seconds is None or other.seconds is None:
        return False
    return one.seconds < other.seconds * (1 - GAIN)
