"""Copies, comparison and measuring on the CPU, with real kernels as the choices."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import Diagnostic, InternalError, LimitError, UserError
from loopfuse.base.dtypes import DType
from loopfuse.base.options import Tuning
from loopfuse.runtime.arrays.arrays import match
from loopfuse.runtime.binding import Binding
from loopfuse.runtime.call.call_paths import Loaded
from loopfuse.tuning.compare import first_difference
from loopfuse.tuning.copies import Copies
from loopfuse.tuning.measure import Bench
from loopfuse.tuning.timing import CpuTimer, seconds_of

TEXT = """\
kernel mix(x: f32[N, M], inout y: f32[N, M], out z: f32[N, M]):
    for i in 0..N, j in 0..M:
        y[i, j] = 0.5 * y[i, j] + x[i, j]
    for i in 0..N, j in 0..M:
        z[i, j] = y[i, j] * y[i, j]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "trials"))
    for name in ("LOOPFUSE_CACHE", "LOOPFUSE_DEBUG", "LOOPFUSE_FUEL"):
        monkeypatch.delenv(name, raising=False)


def bytes_of(array: Any) -> Any:
    return np.frombuffer(array.tobytes(), np.uint8)


# --------------------------------------------------------------------------------------- copies


def test_restored_copies_hold_the_callers_data() -> None:
    kernel = loopfuse.loads(TEXT)
    x, y = np.ones((5, 7), np.float32), np.arange(35, dtype=np.float32).reshape(5, 7)
    copies = Copies(match(kernel.signature, (x, y), {}))
    assert [copy.name for copy in copies.copies] == ["y", "z"] and not copies.on_gpu
    copies.restore()
    first = copies.results()
    assert np.array_equal(first["y"], bytes_of(y)) and not first["z"].any()
    for _ in range(2):
        copies.restore()
        for name in "yz":  # a run would write
            memory = copies.binding.views[name]
            np.ctypeslib.as_array(
                (np.ctypeslib.ctypes.c_uint8 * memory.size_bytes).from_address(memory.pointer)
            )[:] = 3
    assert (copies.results()["y"] == 3).all() and (copies.results()["z"] == 3).all()
    assert y[4, 6] == 34.0
    assert copies.binding.views["x"].pointer == x.ctypes.data, "what is only read is not copied"


@pytest.mark.parametrize("view", [
    lambda whole: whole[::2, 1:8], lambda whole: whole.T[3:10, :5], lambda whole: whole[::-1, ::-3],
])  # fmt: skip
def test_a_view_is_copied_with_its_gaps(view: Callable[[Any], Any]) -> None:
    kernel = loopfuse.loads(TEXT)
    whole = np.arange(400, dtype=np.float32).reshape(20, 20)
    y = view(whole)
    x = np.ones(y.shape, np.float32)
    matched = match(kernel.signature, (x, y), {})
    copies = Copies(matched)
    copies.restore()
    there, here = copies.binding.views["y"], matched.views["y"]
    assert there.strides == here.strides and there.pointer % 64 == here.pointer % 64
    span = np.frombuffer(whole.tobytes(), np.uint8)
    start = here.start - whole.ctypes.data
    assert np.array_equal(copies.results()["y"], span[start : start + here.end - here.start])


def test_no_elements() -> None:
    kernel = loopfuse.loads(TEXT)
    copies = Copies(match(kernel.signature, (np.ones((0, 4), np.float32),) * 2, {}))
    copies.restore()
    assert copies.results()["y"].size == 0
    copies.close()


# -------------------------------------------------------------------------------------- compare


def compared(left: Any, right: Any, dtype: DType, loosely: bool = False) -> str:
    return first_difference({"a": bytes_of(left)}, {"a": bytes_of(right)}, {"a": dtype}, loosely)


def test_bits_decide() -> None:
    left = np.array([0.0, 1.0, np.nan], np.float32)
    assert not compared(left, left.copy(), DType.F32)
    assert "element 0 of `a`" in compared(
        left, np.array([-0.0, 1.0, np.nan], np.float32), DType.F32
    )
    other = left.copy()
    other.view(np.uint32)[2] = 0x7FC00001
    assert not compared(left, other, DType.F32), "two NaNs are equal"
    assert "is 1.0, and nan by default" in compared(
        left, np.array([0.0, 1.0, 1.0], np.float32), DType.F32
    )
    assert compared(np.array([1, 2]), np.array([1, 3]), DType.I64, loosely=True)
    assert compared(left, left[:2], DType.F32) == "`a` differs"


@pytest.mark.parametrize(("kind", "dtype", "near", "far"), [
    (np.float64, DType.F64, 1 + 1e-13, 1 + 1e-9), (np.float32, DType.F32, 1 + 1e-6, 1.001),
    (np.float16, DType.F16, 1.001, 1.01),
])  # fmt: skip
def test_reordered_sums_are_compared_to_rounding(
    kind: Any, dtype: DType, near: float, far: float
) -> None:
    one = np.array([1.0, np.nan], kind)
    assert compared(one, np.array([near, np.nan], kind), dtype)
    assert not compared(one, np.array([near, np.nan], kind), dtype, loosely=True)
    assert compared(one, np.array([far, np.nan], kind), dtype, loosely=True)


# -------------------------------------------------------------------------------------- measure


class Clock:
    """Seconds that pass only when a run says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Choices:
    """Each choice by its rows: what its code does, and how long it takes."""

    def __init__(self, y: Any) -> None:
        self.kernel = loopfuse.loads(TEXT)
        self.clock, self.loads = Clock(), []
        self.reorder: set[int] = set()
        self.extra: dict[int, Callable[[Binding], None]] = {}
        self.seconds: dict[int, float] = {}
        matched = match(self.kernel.signature, (np.ones_like(y), y), {})
        self.copies = Copies(matched)
        target = self.kernel._target_for(matched)
        self.real = self.kernel._ready(target, matched, {}, Tuning())
        self.bench = Bench(self.copies, CpuTimer(self.copies, self.clock), self.load, self.reorders)

    def reorders(self, tuning: Tuning) -> bool:
        return tuning.rows in self.reorder

    def load(self, tuning: Tuning) -> Loaded:
        rows = tuning.rows
        self.loads.append(rows)
        if rows == 99:
            raise LimitError(Diagnostic("too-much", "that is too much"))
        if rows == 98:
            raise InternalError(Diagnostic("broken", "that is broken"))
        if rows == 97:
            warnings.warn("the fused schedule of `mix` could not be proved (x); ...", stacklevel=2)

        def run(binding: Binding) -> None:
            self.real.run(binding)
            self.extra.get(rows, lambda binding: None)(binding)
            self.clock.now += self.seconds.get(rows, 1.0)

        real = self.real
        return Loaded(real.manifest, 32, {}, run, real.machine, real.setting, False, code=rows // 2)


@pytest.fixture
def choices() -> Choices:
    return Choices(np.arange(12, dtype=np.float32).reshape(3, 4))


def poke(place: int, value: float) -> Callable[[Binding], None]:
    def act(binding: Binding) -> None:
        floats = (np.ctypeslib.ctypes.c_float * 12).from_address(binding.views["z"].pointer)
        floats[place] = value * floats[place]

    return act


def test_times_are_those_of_the_clock(choices: Choices) -> None:
    choices.seconds = {0: 2.0, 8: 1.5, 20: 9.0}
    assert choices.bench.default(Tuning()).seconds == 2.0
    assert choices.bench.measure(Tuning(rows=8)).seconds == 1.5
    before = choices.clock.now
    assert choices.bench.measure(Tuning(rows=20)).seconds == 9.0
    assert choices.clock.now - before == 18.0, "one run to compare, one to see that it is slow"
    assert choices.bench.duel(Tuning(rows=8), Tuning()) == (1.5, 2.0)


def test_what_differs_is_wrong_and_not_timed(choices: Choices) -> None:
    choices.extra[8] = poke(5, 1.00001)
    choices.bench.default(Tuning())
    before = choices.clock.now
    trial = choices.bench.measure(Tuning(rows=8))
    assert trial.wrong and trial.seconds is None and "element 5 of `z`" in trial.problem
    assert choices.clock.now - before == 1.0


def test_reordered_sums_may_differ_in_rounding(choices: Choices) -> None:
    choices.extra = {8: poke(5, 1.00001), 12: poke(5, 1.01)}
    choices.reorder = {8, 12}
    choices.bench.default(Tuning())
    assert choices.bench.measure(Tuning(rows=8)).seconds == 1.0
    assert choices.bench.measure(Tuning(rows=12)).wrong


def test_the_same_code_is_run_once(choices: Choices) -> None:
    choices.bench.default(Tuning())
    choices.bench.measure(Tuning(rows=8))
    before = choices.clock.now
    again = choices.bench.measure(Tuning(rows=9))  # the same code number
    assert again.seconds == 1.0 and again.problem == "the same code"
    assert choices.clock.now == before


@pytest.mark.parametrize(("rows", "words", "wrong"), [
    (99, "too much", False), (98, "broken", True), (97, "could not be proved", False),
])  # fmt: skip
def test_what_does_not_compile_is_dropped(
    choices: Choices, rows: int, words: str, wrong: bool
) -> None:
    choices.bench.default(Tuning())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trial = choices.bench.measure(Tuning(rows=rows))
    assert trial.seconds is None and words in trial.problem and trial.wrong == wrong


def test_what_does_not_run_is_dropped(choices: Choices) -> None:
    def fail(binding: Binding) -> None:
        raise MemoryError

    choices.extra[8] = fail
    choices.bench.default(Tuning())
    assert "do not fit" in choices.bench.measure(Tuning(rows=8)).problem


def test_what_is_wrong_with_the_call_is_raised(choices: Choices) -> None:
    def fail(binding: Binding) -> None:
        raise UserError(Diagnostic("subscript-out-of-range", "no such element"))

    choices.extra[0] = fail
    with pytest.raises(UserError, match="no such element"):
        choices.bench.default(Tuning())


def test_runs_are_bounded_by_time_and_number() -> None:
    class Played:
        count = 0

        def __init__(self, *times: float) -> None:
            self.times = times

        def time_once(self, run: Callable[[], None]) -> float:
            self.count += 1
            return self.times[min(self.count, len(self.times)) - 1]

        time_again = time_once

        def close(self) -> None:
            pass

    slow = Played(5.0, 4.0, 6.0)
    assert seconds_of(slow, lambda: None, part=1.0) == 4.0 and slow.count == 3
    fast = Played(1e-6)
    assert seconds_of(fast, lambda: None, part=1.0) == 1e-6 and fast.count == 40
    hopeless = Played(5.0)
    assert seconds_of(hopeless, lambda: None, best=1.0) == 5.0 and hopeless.count == 1
