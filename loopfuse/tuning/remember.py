"""What was found, in the disk cache: by kernel, options, device and size class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from loopfuse.base.options import Tuning
from loopfuse.base.words import as_fast_text
from loopfuse.runtime import cache
from loopfuse.runtime.arrays.arrays import Match
from loopfuse.tuning.search import Trial
from loopfuse.tuning.space import FROM_ZERO, describe


@dataclass(frozen=True, slots=True, repr=False)
class Tuned:
    """The outcome of a search. `seconds` and `default_seconds` are those of one run (None: there
    was nothing to choose, and nothing was run); `tried` counts choices, and `trials` lists them where the search was made now; `wrong` says what computed
    something else and was dropped; `complete`: the search ended because nothing helped any more,
    not because its `budget` of seconds was spent; `remembered`: by an earlier search; `kernel`: the
    name of what was tuned, empty where it is not known."""

    tuning: Tuning
    seconds: float | None
    default_seconds: float | None
    tried: int
    complete: bool
    budget: float
    trials: tuple[Trial, ...] = ()
    wrong: tuple[str, ...] = ()
    remembered: bool = False
    kernel: str = ""

    @property
    def gain(self) -> float:
        """How many times faster than the default."""
        if self.seconds is None or self.default_seconds is None:
            return 1.0
        return self.default_seconds / self.seconds

    def __repr__(self) -> str:
        return str(self)  # what an interactive session shows

    def _repr_html_(self) -> str:
        from loopfuse.base.html import Column, fragment, table, text

        rows = [
            [
                self._mark(one, text(describe(one.tuning))),
                "" if one.seconds is None else f"{one.seconds * 1e6:.1f}",
                f'<span class="bad">{text(one.problem)}</span>'
                if one.wrong
                else self._mark(one, "chosen") if one.tuning == self.tuning else text(one.problem),
            ]
            for one in sorted(self.trials, key=lambda one: one.seconds or float("inf"))
        ]
        columns = [Column("choice"), Column("µs", True), Column("")]
        title = f"<h2>{text(self.kernel)}</h2>" if self.kernel else ""
        wrong = "".join(f'<p class="bad">{text(one)}</p>' for one in self.wrong)
        trials = table("Choices tried", columns, rows)
        return fragment(f"{title}<p>{text(self)}</p>{wrong}{trials}")

    def _mark(self, one: Trial, shown: str) -> str:
        return f'<span class="good">{shown}</span>' if one.tuning == self.tuning else shown

    def __str__(self) -> str:
        return self.describe(self.gain)

    def describe(self, gain: float) -> str:
        """In words; `gain`: how many times faster it was when last measured."""
        if self.seconds is None:
            return "nothing to choose: the plan has no windows and no time steps to block"
        text = f"{describe(self.tuning)}: {as_fast_text(gain, 'the default')}"
        known = "remembered" if self.remembered else f"{self.tried} choices tried"
        return f"{text} ({known}{'' if self.complete else ', the budget was spent'})"


def size_class(matched: Match) -> tuple[tuple[str, int], ...]:
    """Calls of one class share a tuning: their sizes and integers lie nearest the same power of
    two, and their rows start at multiples of 16 bytes, or do not."""
    classes = [
        (name, _power(value)) for name, value in matched.values.items() if type(value) is int
    ]
    aligned = all(
        found.pointer % 16 == 0 and (not found.shape or found.shape[-1] * found.item % 16 == 0)
        for found in matched.views.values()
    )
    return (*classes, ("aligned", int(aligned)))


def _power(value: int) -> int:
    """1 + the exponent of the nearest power of two, below 0 for what is negative; 0 for 0."""
    size = abs(value)
    if not size:
        return 0
    exponent = size.bit_length() - 1
    exponent += size * size >= 1 << (2 * exponent + 1)
    return (1 + exponent) * (1 if value > 0 else -1)


def device_name(index: int | None) -> str:
    """GPU number `index`, or the CPU (None), as far as speed depends on it."""
    if index is None:
        from loopfuse.runtime.devices import cpu, threads

        return f"cpu {cpu.host_cpu()} {threads.thread_count()} threads"
    from loopfuse.runtime.devices import cuda

    info = cuda.need_gpu(index)
    return f"{info.name} {info.target} {info.multiprocessors} driver {info.driver}"


def device_words(index: int | None) -> str:
    """GPU number `index`, or the CPU (None), for people."""
    if index is None:
        from loopfuse.runtime.devices import cpu, threads

        return f"{cpu.host_cpu().partition(' ')[0]}, {threads.thread_count()} threads"
    from loopfuse.runtime.devices import cuda

    return cuda.need_gpu(index).name


def recall(key: str, budget: float) -> Tuned | None:
    """What `note` stored, if there is something, and it is no search that a larger budget would
    go on with. What does not read as `note` wrote it is nothing."""
    entry = cache.get(key)
    if entry is None:
        return None
    try:
        found = _read(entry[0])
    except (KeyError, TypeError, ValueError):
        return None
    if not found.complete and budget > 1.5 * found.budget:
        return None
    return found


def _read(stored: Mapping[str, Any]) -> Tuned:
    values: Mapping[str, Any] = stored["tuning"]
    if set(values) != {one.name for one in fields(Tuning)}:
        raise ValueError("other fields")
    for name, value in values.items():
        if name == "windows":
            fine = type(value) is bool
        else:
            fine = (type(value) is int and 0 <= value < 1 << 20) or (
                name in FROM_ZERO and value is None
            )
        if not fine:
            raise ValueError(name)
    times = tuple(stored[name] for name in ("seconds", "default_seconds"))
    if not all(one is None or (type(one) is float and one > 0) for one in times):
        raise ValueError("seconds")
    tuning = Tuning(**values)
    complete, tried, budget = (
        bool(stored["complete"]),
        int(stored["tried"]),
        float(stored["budget"]),
    )
    return Tuned(tuning, times[0], times[1], tried, complete, budget, remembered=True)


def note(key: str, found: Tuned) -> None:
    """Store an outcome, whole or not at all; a cache that cannot be written is no error."""
    cache.put(
        key,
        {
            "tuning": asdict(found.tuning), "seconds": found.seconds,
            "default_seconds": found.default_seconds, "tried": found.tried,
            "complete": found.complete, "budget": found.budget,
        },
    )  # fmt: skip
