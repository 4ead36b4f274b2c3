"""What `loopfuse bench` runs on a GPU: arrays of the library that a user has, and events.

Calls on arrays of our own take the checked path, whose 0.1 ms a user of PyTorch or CuPy never pays.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from loopfuse.commands.bench_clock import Call, batch_of
from loopfuse.runtime.devices import cuda
from loopfuse.runtime.devices.gpu_arrays import DeviceArray, allocate_bytes, fill, free_bytes

PLUG_BYTES = 1 << 28
PLUG_SECONDS = 8e-5
"""Clearing the plug takes at least so long."""


def on_gpu(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The arguments with their arrays on GPU 0, and whose they are: PyTorch's, CuPy's, or our own
    where neither is there or takes their types."""
    for library, convert in (("torch", _to_torch), ("cupy", _to_cupy)):
        try:
            module = importlib.import_module(library)
            return {name: convert(module, value) for name, value in arguments.items()}, library
        except MemoryError:
            raise
        except Exception:  # not installed, built without CUDA, or a dtype that it lacks
            continue
    return {name: _to_own(value) for name, value in arguments.items()}, ""


def _to_torch(torch: Any, value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.name == "bfloat16":
        return torch.from_numpy(value.view(np.int16)).to("cuda:0").view(torch.bfloat16)
    return torch.from_numpy(value).to("cuda:0")


def _to_cupy(cupy: Any, value: Any) -> Any:
    return cupy.asarray(value) if isinstance(value, np.ndarray) else value


def _to_own(value: Any) -> Any:
    return DeviceArray(value) if isinstance(value, np.ndarray) else value


class EventClock:
    """Seconds between events on the default stream. `covers`: the GPU is given other work first, for
    as long as the host takes to enqueue the calls (those on arrays of our own take long)."""

    def __init__(self, covers: bool) -> None:
        cuda.need_gpu(0)
        self._events: list[Any] = []
        self._plug = allocate_bytes(PLUG_BYTES, 0) if covers else 0
        self._host = PLUG_SECONDS

    def batch(self, seconds: float) -> int:
        """How many calls in a row, each of about so many seconds, are to be timed as one."""
        return batch_of(seconds)

    def times(self, call: Call, count: int, batch: int = 1) -> list[float]:
        """The device seconds of a call, for each of `count` batches of calls in a row."""
        driver = cuda.driver_api()
        with cuda.on_gpu(0):
            while len(self._events) <= count:
                flags = driver.CUevent_flags.CU_EVENT_DEFAULT
                self._events.append(cuda.check_call(driver.cuEventCreate(flags), "making an event"))
            if self._plug:
                for _ in range(min(200, 1 + int(1.5 * count * batch * self._host / PLUG_SECONDS))):
                    fill(self._plug, 0, PLUG_BYTES, 0, 0)
            record: Callable[..., Any] = driver.cuEventRecord
            start = time.perf_counter()
            for event in self._events[:count]:
                record(event, 0)
                for _ in range(batch):
                    call()
            record(self._events[count], 0)
            self._host = (time.perf_counter() - start) / (count * batch)
            cuda.check_call(driver.cuEventSynchronize(self._events[count]), "waiting for an event")
            pairs = zip(self._events[:count], self._events[1 : count + 1])
            return [
                float(cuda.check_call(driver.cuEventElapsedTime(a, b), "reading an event")) / (1e3 * batch)
                for a, b in pairs
            ]

    def close(self) -> None:
        """Free the plug."""
        if self._plug:
            free_bytes([self._plug], 0)
            self._plug = 0
