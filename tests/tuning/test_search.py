"""The search alone, on invented times: it finds the best of smooth times, crosses bumps, stops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopfuse.base.choices import Choices
from loopfuse.base.options import Tuning
from loopfuse.tuning.search import Searched, Trial, is_faster, search
from loopfuse.tuning.space import CPU, GPU, Axis, axes, describe

START = Tuning()
STENCIL = Choices(True, False, Tuning(columns=4, warps=4, rows=64, ahead=2))
TIME = Choices(True, True, Tuning(columns=4, warps=4, rows=64, ahead=2, steps=8))
ALONG = axes(START, TIME, on_gpu=True)


class Played:
    """Times by a formula; what was asked for is in `asked`."""

    def __init__(
        self, seconds: Callable[[dict[str, int]], float | None], along: tuple[Axis, ...]
    ) -> None:
        self.seconds, self.along = seconds, along
        self.asked: list[Tuning] = []

    def measure(self, tuning: Tuning) -> Trial:
        self.asked.append(tuning)
        found = self.seconds({axis.field: axis.value(tuning) for axis in self.along})
        return Trial(tuning, found, "" if found else "no")

    def run(self, most: int = 1000) -> Searched:
        start = self.measure(START)
        return search(start, self.along, self.measure, lambda: len(self.asked) >= most)


def bowl(**best: int) -> Callable[[dict[str, int]], float]:
    """Smooth times with one minimum."""

    def seconds(values: dict[str, int]) -> float:
        return 1.0 + sum(abs(log2((values[n] + 1) / (v + 1))) for n, v in best.items())

    return seconds


@pytest.mark.parametrize(
    "best",
    [
        {"steps": 3, "rows": 256, "columns": 2, "warps": 1, "ahead": 4},
        {"steps": 16, "rows": 16, "columns": 16, "warps": 8, "ahead": 0},
        {"steps": 8, "rows": 64, "columns": 4, "warps": 4, "ahead": 2},
    ],
)
def test_it_finds_the_minimum(best: dict[str, int]) -> None:
    played = Played(bowl(**best), ALONG)
    found = played.run()
    assert {
        axis.field: axis.value(found.best.tuning) for axis in ALONG if axis.field in best
    } == best
    assert found.complete and found.best.seconds == 1.0
    assert len(played.asked) == len(set(played.asked)) == len(found.trials) < 70


def test_the_default_stays_when_nothing_is_faster() -> None:
    found = Played(lambda values: 1.0, ALONG).run()
    assert found.best.tuning == START and found.complete


def test_less_than_noise_is_no_gain() -> None:
    found = Played(lambda values: 1.0 - 0.001 * values["warps"], ALONG).run()
    assert found.best.tuning == START


def test_it_crosses_one_bump() -> None:
    times = {8: 1.0, 10: 1.2, 12: 0.5, 16: 2.0}
    found = Played(lambda values: times.get(values["steps"], 3.0), ALONG).run()
    assert found.best.tuning == replace(START, steps=12)


def test_what_cannot_be_used_is_passed_over() -> None:
    def seconds(values: dict[str, int]) -> float | None:
        return (
            None
            if values["columns"] >= 8 or values["warps"] == 2
            else bowl(columns=16, warps=1)(values)
        )

    found = Played(seconds, ALONG).run()
    assert found.best.tuning == replace(START, warps=1)
    assert any(trial.seconds is None and trial.problem == "no" for trial in found.trials)


@pytest.mark.parametrize("most", [1, 2, 5, 17])
def test_it_stops_when_time_is_up(most: int) -> None:
    played = Played(bowl(steps=1, rows=512, columns=1, warps=8), ALONG)
    found = played.run(most)
    assert len(played.asked) == most and not found.complete
    assert found.best == min(found.trials, key=lambda trial: trial.seconds or 9)


def test_it_is_deterministic() -> None:
    runs = [Played(bowl(steps=2, rows=32, columns=8), ALONG) for _ in range(2)]
    assert runs[0].run() == runs[1].run() and runs[0].asked == runs[1].asked


@given(st.lists(st.floats(0.1, 10.0), min_size=8, max_size=8))
def test_on_any_times_the_best_is_no_slower_than_the_default(times: list[float]) -> None:
    def seconds(values: dict[str, int]) -> float:
        return times[hash(tuple(values.items())) % len(times)]

    found = Played(seconds, ALONG).run()
    start = found.trials[0]
    assert found.best == start or is_faster(found.best, start)
    assert not any(is_faster(trial, found.best) for trial in found.trials)


# ---------------------------------------------------------------------------------------- space


def test_what_applies() -> None:
    def names(choices: Choices, gpu: bool = True, start: Tuning = START) -> list[str]:
        return [axis.field for axis in axes(start, choices, gpu)]

    nothing = Choices(False, False, Tuning())
    assert names(nothing) == names(nothing, gpu=False) == []
    assert names(STENCIL) == ["rows", "columns", "warps", "ahead", "windows"]
    assert names(TIME) == [name for name in GPU if name not in ("band", "late")]
    assert names(STENCIL, gpu=False) == ["columns", "rows", "windows"]
    assert names(TIME, gpu=False) == list(CPU)
    # A time loop that was left alone may still be blocked; the shape of windows follows.
    assert names(Choices(False, True, Tuning())) == ["steps"]


def test_a_field_that_is_set_stays() -> None:
    start = Tuning(columns=2, ahead=0)
    assert {axis.field for axis in axes(start, TIME, True)} == {"steps", "rows", "warps", "windows"}
    assert axes(Tuning(windows=False), TIME, True) == ()


@pytest.mark.parametrize(
    ("tuning", "above", "below"),
    [
        (Tuning(), (128, 256), (32, 16)),
        (Tuning(rows=16), (32, 64, 128, 256), ()),
        (Tuning(rows=256), (), (128, 64, 32, 16)),
        (Tuning(rows=100), (128, 256), (64, 32, 16)),
        (Tuning(rows=1000), (), (256, 128, 64, 32, 16)),
    ],
)
def test_values_beside(tuning: Tuning, above: tuple[int, ...], below: tuple[int, ...]) -> None:
    assert Axis("rows", (16, 32, 64, 128, 256), 64).beside(tuning) == (above, below)


def test_no_rows_ahead_is_a_value() -> None:
    axis = Axis("ahead", (0, 1, 2), 2)
    assert axis.value(Tuning()) == 2 and axis.value(Tuning(ahead=0)) == 0


def test_windows_stay_a_truth_value() -> None:
    off = Axis("windows", (0, 1), 1).put(Tuning(rows=16), 0)
    assert off == Tuning(windows=False, rows=16) and repr(off) == repr(
        Tuning(windows=False, rows=16)
    )


def test_words() -> None:
    assert describe(Tuning()) == "the planner's own"
    assert describe(Tuning(columns=8, ahead=0)) == "columns=8 ahead=0"


@pytest.mark.parametrize("most", [1000, 7])
def test_what_comes_is_said_before(most: int) -> None:
    """Each choice is announced, and where none is faster all come in the order announced."""
    played = Played(lambda values: 1.0, ALONG)
    announced: list[list[Tuning]] = []

    def prepare(coming: Sequence[Tuning]) -> None:
        assert coming and not set(coming) & set(played.asked)
        announced.append(list(coming))

    start = played.measure(START)
    search(start, ALONG, played.measure, lambda: len(played.asked) >= most, prepare)
    assert played.asked[1:] == announced[0][: len(played.asked) - 1]
    if most == 1000:
        assert played.asked[1:] == announced[0]


def test_time_that_is_up_after_preparing_ends_the_search() -> None:
    played = Played(lambda values: 1.0, ALONG)
    ready: list[bool] = []
    start = played.measure(START)
    found = search(start, ALONG, played.measure, lambda: bool(ready), lambda _: ready.append(True))
    assert len(played.asked) == 1 and not found.complete
