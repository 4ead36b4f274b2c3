"""A fork while another thread compiles: the child has none of its threads, and no lock of theirs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

import loopfuse
from loopfuse.base import forks

TEXT = "kernel k(x: f32[N], out y: f32[N]):\n    for i in 0..N:\n        y[i] = x[i] + {number}.0\n"


def in_child(work: Callable[[], bool], seconds: float = 20.0) -> str:
    """`right`, `wrong`, or `hangs` of work done in the child of a fork."""
    child = os.fork()
    if not child:
        try:
            code = 0 if work() else 1
        except BaseException:
            code = 2
        os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "right" if status == 0 else "wrong"
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return "hangs"


def held_elsewhere(lock: forks.Lock) -> threading.Event:
    """Another thread holds the lock until the event is set."""
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            done.wait(60)

    threading.Thread(target=hold, daemon=True).start()
    taken.wait()
    return done


def test_a_lock_of_a_thread_that_is_no_more_is_free() -> None:
    lock, own = forks.Lock(), forks.Lock()
    done = held_elsewhere(lock)
    try:
        with own:

            def work() -> bool:
                with lock, own:
                    return not _free_for_another_thread(own)

            assert in_child(work) == "right"
            assert not lock.acquire(blocking=False)  # here it is still held
    finally:
        done.set()


def _free_for_another_thread(lock: forks.Lock) -> bool:
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(lock.acquire(blocking=False)))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_kernel_is_called_in_the_child_while_its_parent_compiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The parent's other thread stands inside LLVM's lock and the kernel's."""
    import llvmlite.binding as llvm

    kernel = loopfuse.loads(TEXT.format(number=3))
    other = loopfuse.loads(TEXT.format(number=4))
    x = np.ones(1000, np.float32)
    assert other(x)[0] == 5.0  # imports are done
    inside, go, parent = threading.Event(), threading.Event(), os.getpid()
    parse = llvm.parse_assembly

    def slow(*args: object, **more: object) -> object:
        # (In the child too, LLVM works in a thread of its own.)
        if threading.current_thread() is not threading.main_thread() and os.getpid() == parent:
            guard = getattr(llvm.ffi.lib, "_lock")  # noqa: B009 (llvmlite's own)
            with guard:
                inside.set()
                go.wait(60)
        return parse(*args, **more)

    monkeypatch.setattr(forks, "PATIENCE", 0.2)  # for LLVM's lock, which this thread will not give
    monkeypatch.setattr(llvm, "parse_assembly", slow)
    monkeypatch.setenv("LOOPFUSE_CACHE", "0")
    thread = threading.Thread(target=kernel, args=(x,), daemon=True)
    thread.start()
    assert inside.wait(60)
    try:
        assert in_child(lambda: bool(np.all(kernel(x) == 4.0))) == "right"
    finally:
        go.set()
        thread.join()


def test_a_fork_waits_for_llvm() -> None:
    """Where it is between two tables at that moment, the child would find them so."""
    import llvmlite.binding as llvm

    guard = getattr(llvm.ffi.lib, "_lock")  # noqa: B009 (llvmlite's own)
    inside, times = threading.Event(), [0.0]

    def work() -> None:
        with guard:
            inside.set()
            time.sleep(0.3)
            times[0] = time.monotonic()

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(60)

    def child() -> bool:
        return time.monotonic() >= times[0] > 0.0 and guard._lock.acquire(blocking=False)

    assert in_child(child) == "right"
    thread.join()
    assert guard._lock.acquire(blocking=False)  # and the parent has let it go
    guard._lock.release()


FIRST_CALL = """
import os, sys, threading, time
import numpy as np
import loopfuse
kernel = loopfuse.loads({text!r})
x = np.ones(1000, np.float32)
thread = threading.Thread(target=kernel, args=(x,), daemon=True)
thread.start()
time.sleep({delay})
child = os.fork()
if not child:
    os._exit(int(kernel(x)[0] != 4.0))
end = time.monotonic() + 30
while time.monotonic() < end:
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
        sys.exit(os.waitstatus_to_exitcode(status))
    time.sleep(0.01)
os.kill(child, 9)
sys.exit(9)
"""


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.06, 0.15])
def test_a_fork_waits_for_what_a_first_call_imports(delay: float) -> None:
    """Python's lock of a half imported module would be held for ever in the child."""
    program = FIRST_CALL.format(text=TEXT.format(number=3), delay=delay)
    ran = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "LOOPFUSE_CACHE": "0"}, timeout=60, check=False
    )
    assert ran.returncode == 0
