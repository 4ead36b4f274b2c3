"""The search for one call: recall, else measure, choose, remember."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace

from loopfuse.base import forks
from loopfuse.base.choices import Choices
from loopfuse.base.diagnostics import Diagnostic, LoopfuseError, UserError
from loopfuse.base.options import Options, Tuning, bad_option
from loopfuse.base.warn import warn
from loopfuse.runtime import cache
from loopfuse.runtime.arrays.arrays import Match
from loopfuse.runtime.call.call_paths import Loaded
from loopfuse.tuning.copies import Copies
from loopfuse.tuning.helpers import Helpers
from loopfuse.tuning.measure import Bench
from loopfuse.tuning.remember import Tuned, device_name, note, recall, size_class
from loopfuse.tuning.search import Searched, Trial, search
from loopfuse.tuning.space import axes, describe
from loopfuse.tuning.timing import timer_for

BUDGET = 30.0
"""Seconds that a search may take, if not said otherwise."""
LEAST_GAIN = 0.02
"""The part of its time that a choice must save, measured in turns with the default, to be used."""

SLOW = 1.0
"""Seconds of a compile from which helpers are worth their start, which takes two."""

Tell = Callable[[float, str], None]
Progress = Callable[[str], AbstractContextManager[Tell]]


@dataclass(frozen=True, slots=True)
class Job:
    """A call to tune for. `options` are those of its compile, with the tuning to start from;
    `identity` and `constants` are what else decides the code. `load` makes a choice ready to run,
    `plan` says what the planner chose, `reorders` whether a choice's plan reorders sums; `request`
    tells a helper what to compile (None: helpers cannot)."""

    kernel: str
    identity: str
    options: Options
    constants: tuple[tuple[str, int], ...]
    matched: Match
    load: Callable[[Tuning], Loaded]
    plan: Callable[[], Choices]
    reorders: Callable[[Tuning], bool]
    request: Callable[[Tuning], object] | None = None

    @property
    def key(self) -> str:
        """The key of the outcome in the cache."""
        device = self.matched.device
        where = device_name(None if device.kind == "cpu" else device.index)
        return cache.key_of(
            "tuning", self.identity, self.kernel, self.options, self.constants, where,
            size_class(self.matched),
        )  # fmt: skip


def check_budget(seconds: float) -> float:
    """`seconds` as a budget; UserError[bad-budget] where it is no positive number."""
    if type(seconds) not in (int, float) or not 0 < seconds < 1e6:
        raise UserError(
            Diagnostic(
                "bad-budget",
                f"a search cannot take {seconds!r} seconds",
                fix=f"give a number above 0; without one it is {BUDGET:g}",
            )
        )
    return float(seconds)


def choose_budget(tune: bool, seconds: float | None) -> float | None:
    """The budget that `--tune` and `--budget` ask for; None: no search. UserError[bad-budget]."""
    if not tune and seconds is not None:
        raise UserError(
            Diagnostic(
                "bad-budget",
                "`--budget` says how long `--tune` searches, and there is no `--tune`",
                fix="add `--tune`, or leave `--budget` out",
            )
        )
    return check_budget(BUDGET if seconds is None else seconds) if tune else None


def check_tune(tune: bool) -> bool:
    """`tune` as True or False; UserError[kernel-option] where it is neither."""
    if type(tune) is bool:
        return tune
    raise bad_option(
        "tune", tune, "it is True or False; `tune_budget` says how many seconds a search may take"
    )


# One search at a time: two would measure each other.
_lock = forks.Lock()


def tune(job: Job, budget: float, progress: Progress | None = None) -> Tuned:
    """The tuning for a call: remembered, or searched for now, in about `budget` seconds (a compile
    that has begun ends). Errors of the call itself are raised as it would; trials that compute
    something else are dropped with a warning. MemoryError where copies of the written arrays do
    not fit."""
    key = job.key
    with _lock:
        found = recall(key, budget)
        if found is None:
            found = _search(job, budget, progress)
            note(key, found)
    found = replace(found, kernel=job.kernel)
    for text in found.wrong:
        warn(_complaint(job.kernel, text))
    return found


def _search(job: Job, budget: float, progress: Progress | None) -> Tuned:
    begin = time.monotonic()
    start = job.options.tuning
    along = axes(start, job.plan(), job.options.target.is_gpu)
    if not along or all(found.is_empty for found in job.matched.views.values()):
        return Tuned(start, None, None, 0, True, budget)
    longest = 0.0  # of the compiles so far

    def load(tuning: Tuning) -> Loaded:
        nonlocal longest
        started = time.monotonic()
        loaded = job.load(tuning)
        longest = max(longest, time.monotonic() - started)
        return loaded

    def left() -> float:
        return 0.95 * budget - (time.monotonic() - begin)

    bar: AbstractContextManager[Tell] = nullcontext(_silent)
    if progress is not None:
        bar = progress(f"tuning {job.kernel}")
    with (
        closing(Copies(job.matched, _stream(job.matched))) as copies,
        closing(timer_for(copies)) as timer,
        closing(Helpers(job.request)) as helpers,
        bar as tell,
    ):
        bench = Bench(copies, timer, load, job.reorders)

        def show(tuning: Tuning) -> None:
            spent = time.monotonic() - begin
            tell(min(1.0, spent / budget), f"best {bench.best * 1e3:.3f} ms, {describe(tuning)}")

        def prepare(coming: Sequence[Tuning]) -> None:
            show(coming[0])
            if longest > SLOW:
                helpers.prepare(coming, left())

        def measure(tuning: Tuning) -> Trial:
            show(tuning)
            told = helpers.told.get(tuning)
            if told is not None and told.problem:
                return Trial(tuning, None, told.problem, told.is_bug)
            return bench.measure(tuning)

        tell(0.0, "the default")
        default = bench.default(start)
        searched = search(default, along, measure, lambda: left() < 0, prepare)
        return _outcome(bench, default, searched, budget)


def _outcome(bench: Bench, default: Trial, searched: Searched, budget: float) -> Tuned:
    """The best that is also best in turns with the default, the best of which goes first."""
    assert default.seconds is not None
    wrong = tuple(
        f"{describe(trial.tuning)}: {trial.problem}" for trial in searched.trials if trial.wrong
    )
    best, seconds, before = default.tuning, default.seconds, default.seconds
    if searched.best is not default:
        other, again = bench.duel(searched.best.tuning, default.tuning)
        seconds = before = again
        if other < again * (1 - LEAST_GAIN):
            best, seconds = searched.best.tuning, other
    tried = len(searched.trials)
    return Tuned(best, seconds, before, tried, searched.complete, budget, searched.trials, wrong)


def _silent(done: float, text: str) -> None:
    """Nobody looks."""


def _stream(matched: Match) -> int:
    if matched.device.kind == "cpu":
        return 0
    from loopfuse.runtime.devices import cuda

    return cuda.current_stream(matched.library, matched.device.index)


def out_of_memory(kernel: str) -> str:
    """The warning where there is no room for copies."""
    return str(
        LoopfuseError(
            Diagnostic(
                "tuning-memory",
                f"`{kernel}` is not tuned: copies of the arrays that it writes do not fit in memory",
                severity="warning",
                fix="call it once on smaller arrays, or use `tune=False`",
            )
        )
    )


def _complaint(kernel: str, text: str) -> str:
    return str(
        LoopfuseError(
            Diagnostic(
                "tuning-differs",
                f"`{kernel}` computes something else under another tuning, which was dropped: {text}",
                severity="warning",
                notes=("this is a bug in loopfuse: please report it with the program",),
            )
        )
    )
