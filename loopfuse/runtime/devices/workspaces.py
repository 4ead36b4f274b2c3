"""Memory for the workspaces of kernels on the CPU, kept from call to call.

New memory is cleared by the operating system, page by page as it is touched, which may take longer than a kernel
does to write it. So what a call gives back is kept for the next, up to `LIMIT` bytes; the longest unused goes first.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from loopfuse.base.diagnostics import Diagnostic, UserError
from loopfuse.base.machine import LINE
from loopfuse.runtime.devices.steps import buffer_bytes

PAGE = 4096
APART = 17 * LINE
"""Workspaces start so many bytes later in a page than the one before: rows of a power of two would
otherwise meet in the same sets of a cache, array by array."""
OWN = 1 << 18
"""Workspaces of up to so many bytes together are not given back: whoever has them calls again."""


def _limit() -> int:
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # no such question on this system
        return 256 << 20
    return min(1 << 30, memory // 16)


LIMIT = _limit()
"""Bytes that are kept for the next call: a sixteenth of the machine's memory, and at most 1 GiB."""


class Pool:
    """Pieces of memory that no call uses, for calls from any thread."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._free: list[Any] = []
        """Longest unused first."""

    def take(self, size: int) -> Any:
        """Memory of `size` bytes, or of up to twice as many, as an array of bytes; MemoryError."""
        with self._lock:
            fits = [k for k, one in enumerate(self._free) if size <= one.nbytes <= 2 * size]
            if fits:
                return self._free.pop(min(fits, key=lambda k: self._free[k].nbytes))
        return np.empty(size, np.uint8)

    def put(self, piece: Any) -> None:
        """Nobody uses it any more."""
        if piece.nbytes > self.limit:
            return
        with self._lock:
            self._free.append(piece)
            held = sum(one.nbytes for one in self._free)
            while held > self.limit:
                held -= self._free.pop(0).nbytes

    def forget(self) -> None:
        """Let all of it go; and of a lock that another thread held when this process began as a copy."""
        self._lock = threading.Lock()
        self._free.clear()


POOL = Pool(LIMIT)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=POOL.forget)


class Workspaces:
    """The workspaces of a kernel at some sizes, for one call at a time: `offsets`, of each by its name, from where
    `take` says; `total` bytes are asked of."""

    def __init__(self, manifest: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        self._kernel: str = manifest["kernel"]
        self._sizes = {one["name"]: buffer_bytes(one, values) for one in manifest["buffers"]}
        self._zeroed = [one["name"] for one in manifest["buffers"] if one["zeroed"]]
        self.offsets: dict[str, int] = {}
        end = 0
        for number, (name, size) in enumerate(self._sizes.items()):
            self.offsets[name] = start = -(-end // PAGE) * PAGE + number * APART % PAGE
            end = start + size
        self.total = sum(self._sizes.values())
        self._end = end
        self._piece: Any = None
        self._base = 0
        self._cleared: list[Any] = []
        """The parts of `_piece` that are zero when a call begins."""

    def take(self) -> int:
        """Where they are until `free`; UserError[out-of-memory]."""
        if self._piece is None:
            try:
                piece = POOL.take(self._end + PAGE)  # so that the start can be moved to a page's
            except (MemoryError, ValueError) as error:
                name = max(self._sizes, key=lambda name: self._sizes[name])
                text = f"cannot allocate `{name}` of `{self._kernel}`: {self._sizes[name]} bytes"
                raise UserError(Diagnostic("out-of-memory", text)) from error
            address = int(piece.ctypes.data)
            self._base = -(-address // PAGE) * PAGE
            starts = [(self._base - address + self.offsets[name], self._sizes[name]) for name in self._zeroed]
            self._cleared = [piece[start : start + size] for start, size in starts]
            self._piece = piece
        for part in self._cleared:
            part.fill(0)
        return self._base

    def free(self) -> None:
        """The call is over."""
        if self._piece is not None and self._end > OWN:
            POOL.put(self._piece)
            self._piece, self._cleared = None, []
