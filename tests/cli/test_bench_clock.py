"""What `loopfuse bench` says of times: turns, humps, and a user's own clock."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.commands import bench, bench_clock
from loopfuse.commands.bench_clock import Times, WallClock, batch_of, find_humps, time_in_turns
from loopfuse.commands.bench_report import Found, Row


def noisy(middle: float, count: int, seed: int, width: float = 0.03) -> list[float]:
    generator = random.Random(seed)
    return [middle * generator.lognormvariate(0.0, width) for _ in range(count)]


@pytest.mark.parametrize("seed", range(5))
def test_two_humps_are_noticed(seed: int) -> None:
    times = noisy(0.4e-3, 60, seed) + noisy(12e-3, 40, seed + 50)
    random.Random(seed).shuffle(times)
    found = find_humps(times)
    assert found is not None
    (quick, share), (slow, rest) = found
    assert quick == pytest.approx(0.4e-3, rel=0.05) and share == pytest.approx(0.6)
    assert slow == pytest.approx(12e-3, rel=0.05) and rest == pytest.approx(0.4)


@pytest.mark.parametrize("seed", range(20))
def test_one_hump_is_one(seed: int) -> None:
    assert find_humps(noisy(1e-3, 100, seed)) is None
    assert find_humps(noisy(1e-3, 100, seed, 0.4)) is None, "wide, but one"
    assert find_humps([1e-3 * (1 + k / 50) for k in range(100)]) is None, "evenly spread"
    assert find_humps([*noisy(1e-3, 95, seed), *noisy(9e-3, 5, seed)]) is None, "a few hiccups"
    assert find_humps([*noisy(1e-3, 50, seed), *noisy(1.05e-3, 50, seed)]) is None, "close together"


class Played:
    """A machine that is slow now and then; calls say who they are."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.order = 0.0, ""
        monkeypatch.setattr(bench_clock.time, "perf_counter", lambda: self.now)

    def call(self, name: str, seconds: float) -> Callable[[], None]:
        def run() -> None:
            self.order += name
            # Ten times slower for two of five stretches.
            self.now += seconds * (10.0 if len(self.order) // 20 % 5 >= 3 else 1.0)

        return run


def test_forms_are_measured_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Played(monkeypatch)
    calls = [machine.call("a", 0.01), machine.call("b", 0.03)]
    one, other = time_in_turns(calls, WallClock(), 100.0)
    assert machine.order[6:].count("ab") + machine.order[6:].count("ba") >= 5
    assert one.median == pytest.approx(0.01) and other.median == pytest.approx(0.03)
    assert one.humps is not None and one.humps[1][0] == pytest.approx(0.1)
    assert one.quickest == pytest.approx(0.01)


class Costly(WallClock):
    """A clock of which every reading costs a microsecond, as an event on a GPU does."""

    def batch(self, seconds: float) -> int:
        return batch_of(seconds)

    def times(self, call: Callable[[], Any], count: int, batch: int = 1) -> list[float]:
        return [one + 1e-6 / batch for one in super().times(call, count, batch)]


@pytest.mark.parametrize("seconds", [1e-7, 4e-6, 4e-5, 3e-4, 0.2])
def test_short_calls_are_timed_together(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Played(monkeypatch)
    monkeypatch.setattr(Played, "call", lambda self, name, each: lambda: setattr(self, "now", self.now + each))
    (one,) = time_in_turns([machine.call("a", seconds)], Costly(), 10.0)
    assert one.median == pytest.approx(seconds + 1e-6 / batch_of(seconds))
    if seconds >= 4e-6:  # as long as any launch
        assert one.median == pytest.approx(seconds, rel=0.011)


def test_the_report_says_so() -> None:
    humps = ((1e-3, 0.7), (9e-3, 0.3))
    rows = (
        Row("fused", 1e-3, 100, 1, humps, 1e-3), Row("unfused", 5e-3, 200, 2, None, 2e-3),
        Row("copy", 1e-3, 100, "", None, 1e-3),
    )  # fmt: skip
    found = Found("k", "cpu", "", {"N": 10}, 100, rows)
    text = found.to_text()
    assert "fused     has two sorts of calls: 1.000 ms (70%) and 9.000 ms (30%)" in text
    assert "fused is 5.00 times faster than unfused (2.00 by their quickest calls)" in text
    assert "Times vary" in text
    assert found.to_dict()["forms"][0]["humps"][1] == {"seconds": 9e-3, "share": 0.3}
    quiet = Found("k", "cpu", "", {}, 100, tuple(Row(r.form, r.seconds, 1, 1) for r in rows))
    assert "Times vary" not in quiet.to_text()


TEXT = """\
kernel k(x: f32[H, W], out y: f32[H, W]):
    temp t: f32[H, W]
    for i in 0..H, j in 0..W:
        t[i, j] = exp(x[i, j]) * log(x[i, j] + 2.0)
    for i in 0..H, j in 0..W:
        y[i, j] = t[i, j] * t[i, j] + 1.0
"""


@pytest.mark.slow
def test_its_figures_are_a_users_own(
    tmp_path: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quickest calls, since a shared machine disturbs either."""
    from loopfuse.commands.common import Common

    file = tmp_path / "k.lf"
    file.write_text(TEXT)
    seen: list[Found] = []
    monkeypatch.setattr(bench, "say", lambda text: None)
    monkeypatch.setattr(Found, "to_text", lambda self: seen.append(self) or "")
    bench.bench_file(str(file), Common(target="cpu", sizes=(("H", 1500), ("W", 1500))), (), 0)
    kernel = loopfuse.load(file, target="cpu")
    x = np.random.default_rng(0).random((1500, 1500), np.float32)
    y = np.empty_like(x)
    for form, call in (("fused", lambda: kernel(x, y)), ("allocated", lambda: kernel(x))):
        own: list[float] = []
        for _ in range(200):
            start = time.perf_counter()
            call()
            own.append(time.perf_counter() - start)
        assert seen[0].quickest(form) == pytest.approx(Times(tuple(own)).quickest, rel=0.1)
        assert statistics.median(own) > 0
