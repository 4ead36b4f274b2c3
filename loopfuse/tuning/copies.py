"""Copies of a call's arrays: what trials write, so that each sees the same data and the caller's
arrays stay as they are.

A copy has the bytes that the array spans, gaps of a view included, at an address with the same
low bits: code that asks for alignment takes the way it takes for the array itself.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from loopfuse.base.dtypes import DType
from loopfuse.runtime.arrays.arrays import Match, allocate_outputs
from loopfuse.runtime.binding import ArrayView, Binding

ALIGNMENT = 256


@dataclass(frozen=True, slots=True)
class Copy:
    """One written array: where its data comes from (0: zeros), where the copy lies, its bytes."""

    name: str
    origin: int
    place: int
    size: int
    dtype: DType
    owner: Any


class Copies:
    """A call with copies for every array that it writes; arrays that it only reads are the
    caller's. `binding` runs on them. `stream` is the CUDA stream of all work (GPU only)."""

    def __init__(self, matched: Match, stream: int = 0) -> None:
        """MemoryError where they do not fit."""
        self._index, self.stream = matched.device.index, stream
        self.on_gpu = matched.device.kind != "cpu"
        self._memory: list[int] = []
        if self.on_gpu:
            from loopfuse.runtime.devices import gpu_arrays

            gpu_arrays.settle(self._index)  # whatever stream the arrays are being written on
        # What the caller leaves out is allocated like a call would; the first such array is zeros.
        whole = allocate_outputs(matched)
        modes = {p.name: p.mode for p in matched.signature.parameters}
        omitted = {p.name for p in matched.omitted}
        views: dict[str, ArrayView] = {}
        copies: list[Copy] = []
        try:
            for name, found in whole.views.items():
                if modes[name] != "in":
                    copy = self._copy(name, found, name in omitted)
                    copies.append(copy)
                    pointer = copy.place + found.pointer - found.start
                    found = replace(found, pointer=pointer, owner=copy.owner)
                # Its producer has been waited for, and the caller holds the memory.
                views[name] = replace(found, stream=None, borrowed=False)
        except BaseException:
            self.close()
            raise
        self.copies = tuple(copies)
        self.binding = Binding(whole.kernel, views, whole.values, whole.device, whole.library, ())
        self.dtypes: dict[str, DType] = {copy.name: copy.dtype for copy in copies}

    def _copy(self, name: str, found: ArrayView, is_new: bool) -> Copy:
        assert found.dtype is not None
        size = 0 if found.is_empty else found.end - found.start
        if self.on_gpu:
            base, owner = self._device_memory(size + ALIGNMENT), None
        else:
            owner = np.zeros(size + ALIGNMENT, np.uint8)
            base = owner.ctypes.data
        place = base + (found.start - base) % ALIGNMENT
        # An array allocated for this call is let go here: zeros are its data.
        origin = 0 if is_new else found.start
        kept = owner if is_new else (owner, found.owner)
        return Copy(name, origin, place, size, found.dtype, kept)

    def _device_memory(self, size: int) -> int:
        from loopfuse.runtime.devices import gpu_arrays

        pointer = gpu_arrays.allocate_bytes(size, self._index)
        self._memory.append(pointer)
        return pointer

    def restore(self) -> None:
        """Give every copy the data of its array. On the GPU this is enqueued on the stream."""
        if self.on_gpu:
            from loopfuse.runtime.devices import gpu_arrays

            for copy in self.copies:
                gpu_arrays.fill(copy.place, copy.origin, copy.size, self._index, self.stream)
            return
        for copy in self.copies:
            if copy.origin:
                ctypes.memmove(copy.place, copy.origin, copy.size)
            else:
                ctypes.memset(copy.place, 0, copy.size)

    def results(self) -> dict[str, Any]:
        """The bytes of every copy by name, after all work enqueued so far: copies of their own."""
        found: dict[str, Any] = {}
        for copy in self.copies:
            held = np.empty(copy.size, np.uint8)
            if self.on_gpu:
                from loopfuse.runtime.devices import gpu_arrays

                gpu_arrays.read(held, copy.place, self._index, self.stream)
            elif copy.size:
                ctypes.memmove(held.ctypes.data, copy.place, copy.size)
            found[copy.name] = held
        return found

    def close(self) -> None:
        """Free GPU memory."""
        if self._memory:
            from loopfuse.runtime.devices import gpu_arrays

            gpu_arrays.free_bytes(self._memory, self._index)
            self._memory.clear()
