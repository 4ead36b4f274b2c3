"""A GPU that is played: its memory is the host's, its clock is ours, and a launch does what the
test says. Everything else is real: planning, PTX, binding, copies, events, the cache."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from loopfuse.runtime.devices import cuda


@dataclass
class Launch:
    """What a launch was asked for; `words` are its first two arguments, pointers."""

    grid: int
    threads: int
    words: list[int]


@dataclass
class PlayedGpu:
    """`seconds` says how long a launch takes; `act` what it does to memory. `launches` holds all,
    `held` the bytes allocated by address."""

    seconds: Callable[[Launch], float]
    act: Callable[[Launch], None] = lambda launch: None
    launches: list[Launch] = field(default_factory=list)
    held: dict[int, Any] = field(default_factory=dict)
    capturing: int = 0
    room: int = 1 << 40
    now: float = 0.0
    _code: list[bytes] = field(default_factory=list)

    def allocate(self, size: int, *stream: int) -> tuple[int, int]:
        if sum(array.size for array in self.held.values()) + size > self.room:
            return 2, 0
        array = np.zeros(int(size) + 256, np.uint8)
        place = (array.ctypes.data + 255) & ~255
        self.held[place] = array
        return 0, place

    def free(self, place: int, *stream: int) -> int:
        self.held.pop(int(place), None)  # it may be of an earlier test's GPU
        return 0

    def copy(self, target: int, origin: int, size: int, *stream: int) -> int:
        ctypes.memmove(int(target), int(origin), size)
        return 0

    def clear(self, place: int, value: int, size: int, *stream: int) -> int:
        ctypes.memset(int(place), value, min(size, 1 << 20))  # a plug is only looked at by time
        self.now += size / 3e12
        return 0

    def launch(self, function: int, grid: int, *given: Any) -> int:
        slots = (ctypes.c_uint64 * 2).from_address(given[7])
        words = [ctypes.c_uint64.from_address(slot).value for slot in slots]
        one = Launch(grid, given[2], words)
        self.launches.append(one)
        self.act(one)
        self.now += self.seconds(one)
        return 0

    def record(self, event: list[float], stream: int) -> int:
        event[0] = self.now
        return 0

    def driver(self) -> SimpleNamespace:
        """The driver API."""
        status = SimpleNamespace(CUDA_SUCCESS=0)
        attributes = SimpleNamespace(
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=1,
            CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED=2,
        )
        return SimpleNamespace(
            CUresult=status, CUfunction_attribute=attributes,
            CUevent_flags=SimpleNamespace(CU_EVENT_DEFAULT=0, CU_EVENT_DISABLE_TIMING=2),
            CUstreamCaptureStatus=SimpleNamespace(CU_STREAM_CAPTURE_STATUS_NONE=0),
            cuGetErrorString=lambda status: (0, b"out of memory"),
            cuLaunchKernel=self.launch, cuMemsetD8Async=self.clear,
            cuDeviceGet=lambda index: (0, index), cuDevicePrimaryCtxRetain=lambda device: (0, 5),
            cuCtxGetCurrent=lambda: (0, 5), cuCtxSynchronize=lambda: 0,
            cuLibraryLoadData=lambda image, *rest: (0, 7),
            cuLibraryGetKernel=lambda *given: (0, 8), cuKernelGetFunction=lambda kernel: (0, 9),
            cuKernelSetAttribute=lambda *given: 0,
            cuMemAlloc=self.allocate, cuMemAllocAsync=self.allocate,
            cuMemFree=self.free, cuMemFreeAsync=self.free,
            cuMemcpyDtoDAsync=self.copy, cuMemcpyDtoH=self.copy, cuMemcpyHtoD=self.copy,
            cuStreamSynchronize=lambda stream: 0,
            cuStreamIsCapturing=lambda stream: (0, self.capturing),
            cuEventCreate=lambda flags: (0, [0.0]), cuEventRecord=self.record,
            cuEventSynchronize=lambda event: 0,
            cuEventElapsedTime=lambda one, other: (0, (other[0] - one[0]) * 1e3),
        )  # fmt: skip


_numbers = count()


class Status(int):
    """A driver's status has a name."""

    name = "CUDA_ERROR_OUT_OF_MEMORY"


def play(monkeypatch: pytest.MonkeyPatch, gpu: PlayedGpu) -> PlayedGpu:
    """Let the process see `gpu` as its only one: an sm_86, so that kernels for sm_80 stay PTX.
    It is another model each time: tunings are remembered by device, code is not."""
    driver = gpu.driver()
    plain = driver.cuMemAlloc

    def allocate(size: int, *stream: int) -> tuple[int, int]:
        status, place = plain(size)
        return Status(status), place

    driver.cuMemAlloc = allocate
    info = cuda.GpuInfo(0, f"played {next(_numbers)}", "sm_86", 1 << 34, 84, "13.0", 1)
    monkeypatch.setattr(cuda, "driver_api", lambda: driver)
    monkeypatch.setattr(cuda, "_probe", lambda index: cuda._Probe(info, ""))
    # What was launched is waited for by `synchronize`: not by the next test's.
    monkeypatch.setattr(cuda, "_used", set())
    return gpu
