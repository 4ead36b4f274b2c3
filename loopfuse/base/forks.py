"""Locks that survive a fork.

A child process has the thread that forked and no other. A lock that another thread held at that
moment would stay held in the child for ever; what it guarded is cleared or made again there.
A module that another thread was importing would stay half made, and Python's lock of it held: a first
call imports what compiles, so that a fork waits until such imports are done. It waits too while another
thread is inside LLVM, whose tables would stay as they were at that moment.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
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
    _let_llvm_go()
    for lock in list(_locks):
        lock.after_fork()
    _free_llvm()


def _llvm_guard() -> Any:
    """llvmlite guards LLVM by one lock of its own, which a compile holds most of the time; None where it is not
    loaded. What guards is its `_lock`."""
    ffi: Any = sys.modules.get("llvmlite.binding.ffi")
    guard: Any = getattr(getattr(ffi, "lib", None), "_lock", None)
    return guard if hasattr(guard, "_lock") else None


_held: list[Any] = []
"""The lock of LLVM while a fork is made, where it could be had."""


def _hold_llvm(seconds: float) -> None:
    guard = _llvm_guard()
    if guard is not None and guard._lock.acquire(timeout=max(0.0, seconds)):
        _held.append(guard._lock)


def _let_llvm_go() -> None:
    while _held:
        _held.pop().release()


def _free_llvm() -> None:
    """In the child of a fork that did not get it."""
    guard = _llvm_guard()
    if guard is not None and not guard._lock._is_owned():
        guard._lock = threading.RLock()


OURS = frozenset(
    ("loopfuse", "llvmlite", "islpy", "lark", "xdsl", "numba", "ml_dtypes", "rich", "cuda", "numpy")
)
"""Packages that a first call may import."""
PATIENCE = 10.0
"""Seconds that a fork waits at most."""


def _imported_elsewhere() -> bool:
    """Whether another thread is importing a module that a first call needs."""
    me = threading.get_ident()
    locks: Any = getattr(importlib, "_bootstrap")._module_locks  # noqa: B009 (the interpreter's own)
    for name, known in list(locks.items()):
        owner = getattr(known(), "owner", None) if name.partition(".")[0] in OURS else None
        if owner not in (None, me):
            return True
    return False


def _before_fork() -> None:
    end = time.monotonic() + PATIENCE
    while _imported_elsewhere() and time.monotonic() < end:
        time.sleep(0.001)
    _hold_llvm(end - time.monotonic())


os.register_at_fork(before=_before_fork, after_in_parent=_let_llvm_go, after_in_child=_after_fork)
