"""How long a run takes: wall time on the CPU, events on the GPU's stream."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from loopfuse.tuning.copies import Copies

PART = 0.15
"""Seconds that the runs of one trial may take together, once there are `FEWEST`."""
FEWEST = 3
MOST = 40
PLUG_BYTES = 1 << 28
"""What a GPU clears before a run, again and again: about 100 us of an H100."""
PLUG_SECONDS = 8e-5
"""A plug takes at least so long on the fastest GPU."""


class Timer(Protocol):
    """Seconds of one run, its arrays restored before."""

    def time_once(self, run: Callable[[], None]) -> float:
        """Restore the arrays, run, and say how long the run took."""
        ...

    def time_again(self, run: Callable[[], None]) -> float:
        """Restore the arrays, run twice, and say how long the second run took: the caches hold what
        they hold where a user calls again and again."""
        ...

    def close(self) -> None:
        """Let go of what the timer holds."""
        ...


class CpuTimer:
    """Wall time. `clock` gives seconds."""

    def __init__(self, copies: Copies, clock: Callable[[], float] = time.perf_counter) -> None:
        self._copies, self._clock = copies, clock

    def time_once(self, run: Callable[[], None]) -> float:
        """Restore the arrays, run, and say how long the run took."""
        self._copies.restore()
        return self._time(run)

    def time_again(self, run: Callable[[], None]) -> float:
        """Restore the arrays, run twice, and say how long the second run took."""
        self._copies.restore()
        run()
        return self._time(run)

    def _time(self, run: Callable[[], None]) -> float:
        start = self._clock()
        run()
        return self._clock() - start

    def close(self) -> None:
        """Nothing."""


class GpuTimer:
    """Device time between events. The GPU is given other work first, for as long as the host takes
    to enqueue the run: else short kernels would be as slow as their launches."""

    def __init__(self, copies: Copies) -> None:
        from loopfuse.runtime.devices import gpu_arrays

        self._copies = copies
        self._index, self._stream = copies.binding.device.index, copies.stream
        self._timer = gpu_arrays.Timer(self._index, self._stream)
        self._plug = gpu_arrays.allocate_bytes(PLUG_BYTES, self._index)
        self._host = PLUG_SECONDS

    def time_once(self, run: Callable[[], None]) -> float:
        """Restore the arrays, run, and say how long the run took."""
        self._cover(1)
        return self._time(run)

    def time_again(self, run: Callable[[], None]) -> float:
        """Restore the arrays, run twice, and say how long the second run took."""
        self._cover(2)
        run()
        return self._time(run)

    def _cover(self, runs: int) -> None:
        from loopfuse.runtime.devices import gpu_arrays

        self._copies.restore()
        for _ in range(min(100, 1 + int(1.5 * runs * self._host / PLUG_SECONDS))):
            gpu_arrays.fill(self._plug, 0, PLUG_BYTES, self._index, self._stream)

    def _time(self, run: Callable[[], None]) -> float:
        self._timer.start()
        start = time.perf_counter()
        run()
        self._host = time.perf_counter() - start
        return self._timer.stop()

    def close(self) -> None:
        """Free the memory of the plug."""
        from loopfuse.runtime.devices import gpu_arrays

        gpu_arrays.free_bytes([self._plug], self._index)


def timer_for(copies: Copies) -> Timer:
    """The timer of the device that `copies` lie on."""
    return GpuTimer(copies) if copies.on_gpu else CpuTimer(copies)


def seconds_of(
    timer: Timer, run: Callable[[], None], best: float = float("inf"), part: float = PART
) -> float:
    """The shortest of several runs, which `part` seconds bound: what slows a run down is other
    work, never the kernel. One is enough where it takes twice as long as the `best` so far."""
    times: list[float] = []
    while len(times) < FEWEST or (sum(times) < part and len(times) < MOST):
        times.append(timer.time_once(run))
        if times[0] > 2 * best:
            break
    return max(min(times), 1e-9)
