"""GPU memory of our own: what the command line runs on, which needs neither CuPy nor PyTorch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from loopfuse.runtime.devices import cuda


class DeviceArray:
    """GPU memory holding a copy of a NumPy array: what the command line uses, which needs
    neither CuPy nor PyTorch. Freed with the object."""

    def __init__(self, array: Any, index: int = 0) -> None:
        cuda.need_gpu(index)
        self._index, self.shape, self.dtype = index, array.shape, array.dtype
        self._size = array.nbytes
        driver = cuda.driver_api()
        with cuda.on_gpu(index):
            self._pointer = int(cuda.check_call(driver.cuMemAlloc(max(16, self._size)), "allocating"))
            if self._size:
                cuda.check_call(driver.cuMemcpyHtoD(self._pointer, array.ctypes.data, self._size), "copying")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._pointer, False),
            "strides": None,
            "stream": None,
        }

    def download(self) -> Any:
        """The contents as a NumPy array, after everything enqueued before."""
        array = np.empty(self.shape, self.dtype)
        with cuda.on_gpu(self._index):
            cuda.check_call(cuda.driver_api().cuCtxSynchronize(), "waiting for the GPU")
            if self._size:
                cuda.check_call(
                    cuda.driver_api().cuMemcpyDtoH(array.ctypes.data, self._pointer, self._size), "copying"
                )
        return array

    def __del__(self) -> None:
        pointer = getattr(self, "_pointer", 0)
        if pointer and not sys.is_finalizing():
            with cuda.on_gpu(self._index):
                cuda.driver_api().cuMemFree(pointer)


class Timer:
    """Device time between `start` and `stop`, in seconds, on a stream (the default one if not
    given) of GPU `index`."""

    def __init__(self, index: int = 0, stream: int = 0) -> None:
        self._index, self._stream = index, stream
        driver = cuda.driver_api()
        flags = driver.CUevent_flags.CU_EVENT_DEFAULT
        with cuda.on_gpu(index):
            self._events = [
                cuda.check_call(driver.cuEventCreate(flags), "making an event") for _ in range(2)
            ]

    def start(self) -> None:
        """Mark the beginning."""
        self._record(0)

    def _record(self, which: int) -> None:
        with cuda.on_gpu(self._index):
            cuda.check_call(
                cuda.driver_api().cuEventRecord(self._events[which], self._stream),
                "recording an event",
            )

    def stop(self) -> float:
        """Mark the end, wait for it, and give the seconds since `start`."""
        driver = cuda.driver_api()
        self._record(1)
        with cuda.on_gpu(self._index):
            cuda.check_call(driver.cuEventSynchronize(self._events[1]), "waiting for an event")
            spent = cuda.check_call(driver.cuEventElapsedTime(*self._events), "reading the timer")
        return float(spent) / 1e3


def copy_device(destination: DeviceArray, source: DeviceArray, size: int) -> None:
    """Enqueue a plain copy of `size` bytes on the default stream."""
    target = destination.__cuda_array_interface__["data"][0]
    origin = source.__cuda_array_interface__["data"][0]
    with cuda.on_gpu(0):
        cuda.check_call(cuda.driver_api().cuMemcpyDtoDAsync(target, origin, size, 0), "copying")


def settle(index: int) -> None:
    """Wait for everything on GPU `index`."""
    with cuda.on_gpu(index):
        cuda.check_call(cuda.driver_api().cuCtxSynchronize(), "waiting for the GPU")


def allocate_bytes(size: int, index: int) -> int:
    """The address of `size` new bytes on GPU `index`; MemoryError where there is no room."""
    with cuda.on_gpu(index):
        try:
            return int(cuda.check_call(cuda.driver_api().cuMemAlloc(size), f"allocating {size} bytes"))
        except cuda.LaunchError as error:
            raise MemoryError(str(error)) from None


def free_bytes(pointers: Sequence[int], index: int) -> None:
    """Free memory of `allocate_bytes`, once everything on the GPU is done."""
    with cuda.on_gpu(index):
        cuda.driver_api().cuCtxSynchronize()
        for pointer in pointers:
            cuda.driver_api().cuMemFree(pointer)


def fill(place: int, origin: int, size: int, index: int, stream: int) -> None:
    """Enqueue a copy of `size` bytes of GPU memory from `origin` (0: zeros) to `place`."""
    if not size:
        return
    driver = cuda.driver_api()
    with cuda.on_gpu(index):
        if origin:
            cuda.check_call(driver.cuMemcpyDtoDAsync(place, origin, size, stream), "copying")
        else:
            cuda.check_call(driver.cuMemsetD8Async(place, 0, size, stream), "clearing")


def read(into: Any, place: int, index: int, stream: int) -> None:
    """The bytes at `place` into the NumPy array `into`, after everything enqueued on `stream`."""
    driver = cuda.driver_api()
    with cuda.on_gpu(index):
        cuda.check_call(driver.cuStreamSynchronize(stream), "waiting for the kernel")
        if into.nbytes:
            cuda.check_call(driver.cuMemcpyDtoH(into.ctypes.data, place, into.nbytes), "copying")
