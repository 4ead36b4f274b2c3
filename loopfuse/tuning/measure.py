"""One choice at a time: compiled, run on copies, compared with the default, timed."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from loopfuse.base.diagnostics import LoopfuseError
from loopfuse.base.options import Tuning
from loopfuse.runtime.binding import Binding
from loopfuse.runtime.call.call_paths import Loaded
from loopfuse.tuning.compare import first_difference
from loopfuse.tuning.copies import Copies
from loopfuse.tuning.search import Trial
from loopfuse.tuning.timing import PART, Timer, seconds_of
from loopfuse.tuning.told import Told, listen

ROUNDS = (7, 60)
"""The fewest and the most runs of each of two choices that are compared in turns."""


@dataclass
class Bench:
    """Where choices are measured: the call's `copies`, a `timer`, how to `load` a choice, and
    whether its plan reorders sums. The first choice measured is what the others must equal."""

    copies: Copies
    timer: Timer
    load: Callable[[Tuning], Loaded]
    reorders: Callable[[Tuning], bool]
    best: float = float("inf")
    """Seconds of the fastest choice so far."""
    _first: tuple[Tuning, dict[str, Any]] | None = None
    _known: dict[object, Trial] = field(default_factory=dict[object, Trial])
    _runs: dict[Tuning, Callable[[], None]] = field(
        default_factory=dict[Tuning, Callable[[], None]]
    )

    def default(self, tuning: Tuning) -> Trial:
        """Measure the choice that the others must equal. What is wrong with the call itself is
        raised, as the call would."""
        loaded = self.load(tuning)
        self._execute(loaded.run)
        self._first = (tuning, self.copies.results())
        return self._timed(tuning, loaded)

    def measure(self, tuning: Tuning) -> Trial:
        """Measure another choice. Nothing is raised that speaks of the choice alone: such a trial
        has no seconds, and says why."""
        loaded, told = listen(lambda: self.load(tuning))
        if loaded is None:
            return _useless(tuning, told)
        same = self._known.get(loaded.code)
        if same is not None:
            if same.tuning in self._runs:
                self._runs[tuning] = self._runs[same.tuning]
            return Trial(tuning, same.seconds, same.problem or "the same code", same.wrong)
        try:
            self._execute(loaded.run)
            trouble = self._trouble(tuning)
        except LoopfuseError as error:  # more registers than a block may have, and the like
            trouble = _useless(tuning, Told.by(error))
        except MemoryError:
            trouble = Trial(tuning, None, "its workspaces do not fit in memory")
        if trouble is not None:
            self._known[loaded.code] = trouble
            return trouble
        return self._timed(tuning, loaded)

    def _trouble(self, tuning: Tuning) -> Trial | None:
        """Why the results that lie there are not those of the default."""
        assert self._first is not None
        default, expected = self._first
        found = self.copies.results()
        text = first_difference(expected, found, self.copies.dtypes)
        if text and (self.reorders(tuning) or self.reorders(default)):
            text = first_difference(expected, found, self.copies.dtypes, loosely=True)
        return Trial(tuning, None, text, wrong=True) if text else None

    def _timed(self, tuning: Tuning, loaded: Loaded) -> Trial:
        def run() -> None:
            self._run(loaded.run)

        self._runs[tuning] = run
        seconds = seconds_of(self.timer, run, self.best)
        self.best = min(seconds, self.best)
        trial = Trial(tuning, seconds)
        self._known[loaded.code] = trial
        return trial

    def _execute(self, run: Callable[[Binding], None]) -> None:
        self.copies.restore()
        self._run(run)

    def _run(self, run: Callable[[Binding], None]) -> None:
        run(self.copies.binding)

    def duel(self, one: Tuning, other: Tuning) -> tuple[float, float]:
        """The medians of `ROUNDS` runs or more of each of two measured choices, in turns (what slows
        the device down slows both) and as a user has them who calls again and again."""
        times: tuple[list[float], list[float]] = ([], [])
        while len(times[0]) < ROUNDS[0] or (sum(times[0]) < PART and len(times[0]) < ROUNDS[1]):
            for tuning, into in zip((one, other), times):
                into.append(self.timer.time_again(self._runs[tuning]))
        return statistics.median(times[0]), statistics.median(times[1])


def _useless(tuning: Tuning, told: Told) -> Trial:
    return Trial(tuning, None, told.problem, told.is_bug)
