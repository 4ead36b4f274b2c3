"""Arrays between pages that nobody may touch: an address sanitizer for compiled code.

Each array lies in pages of its own with a forbidden page on either side, and either its first element
in memory stands right behind the lower one, or its last right before the upper one. A read or write
one element outside then kills the process (SIGSEGV), so what is tried runs in a child; `run_apart`
starts one and says what it was at.
"""

from __future__ import annotations

import ctypes
import mmap
import subprocess
import sys
import weakref
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from loopfuse.base.machine import LINE
from loopfuse.runtime.devices import workspaces

TESTS = Path(__file__).resolve().parent
PAGE = mmap.PAGESIZE
SIDES = ("low", "high")
"""At which end an array touches its guard page."""
_KEPT = 1 << 20
"""Bytes of an arena that is used again."""


@cache
def _libc() -> ctypes.CDLL:
    found = ctypes.CDLL(None, use_errno=True)
    found.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return found


class Arena:
    """Pages that may be touched, between two that may not."""

    def __init__(self, pages: int) -> None:
        self.bytes = pages * PAGE
        self.map = mmap.mmap(-1, self.bytes + 2 * PAGE)
        self.whole = np.frombuffer(self.map, np.uint8)
        self.start = self.whole.ctypes.data + PAGE
        for guard in (self.start - PAGE, self.start + self.bytes):
            if _libc().mprotect(guard, PAGE, 0):
                raise OSError(ctypes.get_errno(), "mprotect")

    def place(self, size: int, side: str) -> np.ndarray:
        """`size` bytes at one end, full of a pattern."""
        begin = PAGE if side == "low" else PAGE + self.bytes - size
        found = self.whole[begin : begin + size]
        found[...] = 0xA5
        return found


_free: dict[int, list[Arena]] = {}


def memory(size: int, side: str) -> np.ndarray:
    """`size` bytes of their own at `side` of an arena, which is used again once they are gone."""
    pages = max(1, -(-size // PAGE))
    waiting = _free.setdefault(pages, [])
    arena = waiting.pop() if waiting else Arena(pages)
    found = arena.place(size, side)
    # Views of an array refer to the array that owns its memory: an object of its own here.
    held = (ctypes.c_char * size).from_address(found.ctypes.data)
    if arena.bytes <= _KEPT:
        weakref.finalize(held, waiting.append, arena)
    else:
        weakref.finalize(held, lambda keep: None, arena)
    return np.frombuffer(held, np.uint8) if size else np.empty(0, np.uint8)


def guarded(array: np.ndarray, side: str) -> np.ndarray:
    """An array with the elements, shape and strides of `array`; of the memory around a view only
    what lies between its first and its last element is there."""
    if not array.size:
        return array.copy()
    reach = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    low, high = sum(min(0, r) for r in reach), sum(max(0, r) for r in reach)
    space = memory(high - low + array.itemsize, side)
    found = np.ndarray(array.shape, array.dtype, space.data, -low, array.strides)
    if 0 in array.strides:
        found[tuple(slice(0, 1) if s == 0 else slice(None) for s in array.strides)] = array[
            tuple(slice(0, 1) if s == 0 else slice(None) for s in array.strides)
        ]
        found.flags.writeable = array.flags.writeable
    else:
        found[...] = array
    return found


def guard_all(arguments: Mapping[str, Any], side: str) -> dict[str, Any]:
    """The arguments of a call with all arrays guarded; those that were one object still are."""
    made: dict[int, np.ndarray] = {}
    return {
        name: made.setdefault(id(value), guarded(value, side))
        if isinstance(value, np.ndarray)
        else value
        for name, value in arguments.items()
    }


def _guarded(side: str, made: list[int]) -> type[workspaces.Workspaces]:
    """Workspaces each of which lies between guard pages, and starts on a cache line."""

    class Guarded(workspaces.Workspaces):
        def __init__(self, manifest: Mapping[str, Any], values: Mapping[str, Any]) -> None:
            super().__init__(manifest, values)
            self._held = {name: memory(-(-size // LINE) * LINE, side) for name, size in self._sizes.items()}
            self.offsets = {name: one.ctypes.data for name, one in self._held.items()}
            made.extend(self._sizes.values())

        def take(self) -> int:
            for name in self._zeroed:
                self._held[name][...] = 0
            return 0

        def free(self) -> None: ...

    return Guarded


@contextmanager
def guarded_workspaces(side: str) -> Generator[list[int]]:
    """Inside, what the CPU runtime allocates for a call lies between guard pages as well; gives the
    sizes of what it asked for."""
    from loopfuse.runtime.call import fast_cpu
    from loopfuse.runtime.devices import cpu

    made: list[int] = []
    before = cpu.Workspaces, fast_cpu.Workspaces
    cpu.Workspaces = fast_cpu.Workspaces = _guarded(side, made)  # type: ignore[misc]
    try:
        yield made
    finally:
        cpu.Workspaces, fast_cpu.Workspaces = before  # type: ignore[misc]


def run_apart(module: str, *words: str, seconds: float = 280.0, **variables: str) -> str:
    """What `python -m module words...` prints; AssertionError where it fails or is killed, with the
    last lines it printed (what it was at) and what `faulthandler` says."""
    import os

    path = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    child = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", module, *words],
        capture_output=True, text=True, timeout=seconds, cwd=TESTS, check=False,
        env={**os.environ, "PYTHONPATH": path, "LOOPFUSE_CACHE": "0", **variables},
    )  # fmt: skip
    if child.returncode:
        last = "\n".join(child.stdout.splitlines()[-3:])
        raise AssertionError(f"exit status {child.returncode}, at\n{last}\n{child.stderr[-6000:]}")
    return child.stdout
