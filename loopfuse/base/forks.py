"""Locks that survive a fork.

A child process has the thread that forked and no other. A lock that another thread held at that
moment would stay held in the child for ever; what it guarded is cleared or made again there.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from types import TracebackType
from typing import Any


class Lock:
    """A re-entrant lock, which in the child of a fork only its own thread can still hold."""

    __slots__ = ("__weakref__", "_inner", "_owner")

    def __init__(self) -> None:
        self._inner = threading.RLock()
        self._owner: list[int] = []
        _locks.add(self)

    def acquire(self, blocking: bool = True) -> bool:
        """As `threading.RLock`."""
        taken = self._inner.acquire(blocking)
        if taken:
            self._owner.append(threading.get_ident())
        return taken

    def release(self) -> None:
        """As `threading.RLock`."""
        self._owner.pop()
        self._inner.release()

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def after_fork(self) -> None:
        """Let go of a thread that is no more."""
        if self._owner[-1:] != [threading.get_ident()]:
            self._inner, self._owner = threading.RLock(), []


_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


def _after_fork() -> None:
    for lock in list(_locks):
        lock.after_fork()
    _free_llvm()


def _free_llvm() -> None:
    """llvmlite guards LLVM by one lock of its own, which a compile holds most of the time."""
    ffi: Any = sys.modules.get("llvmlite.binding.ffi")
    guard: Any = getattr(getattr(ffi, "lib", None), "_lock", None)
    inner: Any = getattr(guard, "_lock", None)
    if inner is not None and not inner._is_owned():
        guard._lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)
