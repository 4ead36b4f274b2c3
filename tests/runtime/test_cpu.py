"""Objects load and run: arguments arrive, threads share the work, host loops loop."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from loopfuse.base.diagnostics import InternalError, UserError
from loopfuse.runtime.arrays import arrays
from loopfuse.runtime.devices import cpu


def call(manifest: Any, code: bytes, *args: Any, **kwargs: Any) -> Any:
    binding = arrays.bind(manifest, args, kwargs)
    cpu.run(cpu.load(manifest, code), binding)
    return binding.result


def test_arguments_arrive_in_order(scale: Any, code: bytes) -> None:
    x = np.arange(10, dtype=np.float32)
    y = call(scale, code, x, 2.5)
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, x * np.float32(2.5))


def test_aligned_is_false_for_an_odd_start(scale: Any, code: bytes) -> None:
    room = np.zeros(64, np.uint8)
    start = (4 - room.ctypes.data) % 16
    x = room[start : start + 40].view(np.float32)
    x[:] = 3
    assert x.ctypes.data % 16 == 4
    np.testing.assert_array_equal(call(scale, code, x, 2.0), x)


def test_a_grid_of_zero_is_not_launched(scale: Any, code: bytes) -> None:
    assert call(scale, code, np.zeros(0, np.float32), 1.0).shape == (0,)


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_threads_share_the_work(
    scale: Any, code: bytes, threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPFUSE_NUM_THREADS", threads)
    x = np.random.default_rng(1).random(400_003, np.float32)
    np.testing.assert_array_equal(call(scale, code, x, 1.5), x * np.float32(1.5))


def test_host_loops_and_workspaces(stepper: Any, code: bytes) -> None:
    y = np.zeros(300_000, np.int64)
    call(stepper, code, y, 5)
    assert set(y.tolist()) == {sum(t * t for t in range(5))}


def test_a_host_loop_that_does_not_run(stepper: Any, code: bytes) -> None:
    y = np.ones(7, np.int64)
    call(stepper, code, y, 0)
    assert y.tolist() == [1] * 7


def test_two_threads_may_call_one_kernel(scale: Any, code: bytes) -> None:
    loaded = cpu.load(scale, code)
    wrong: list[int] = []

    def work(factor: int) -> None:
        for length in (1000, 300_001):
            x = np.full(length, 2, np.float32)
            for _ in range(20):
                binding = arrays.bind(scale, (x, float(factor)), {})
                cpu.run(loaded, binding)
                if not (binding.result == 2 * factor).all():
                    wrong.append(factor)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_an_object_without_its_entry_is_a_bug(stepper: Any, code: bytes) -> None:
    stepper["steps"][0]["loop"]["body"][0]["launch"]["name"] = "elsewhere"
    with pytest.raises(InternalError, match="elsewhere") as caught:
        cpu.load(stepper, code)
    assert caught.value.diagnostics[0].code == "bad-object"


def test_a_bad_thread_count_is_refused(
    scale: Any, code: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPFUSE_NUM_THREADS", "many")
    with pytest.raises(UserError, match="LOOPFUSE_NUM_THREADS is `many`"):
        call(scale, code, np.ones(4, np.float32), 1.0)
