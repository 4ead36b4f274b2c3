"""CPU threads: how many a launch may have, and who runs them.

Ours are made once, by the first launch that wants them, as plain threads of the system that never
touch Python: they run `native_pool`'s code until the process ends, and what they use is never freed.
A forked child has none of its parent's threads and makes its own. `LOOPFUSE_THREAD_LAYER=numba` takes
numba's instead.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import threading
from functools import partial
from typing import Any, Protocol

from loopfuse.base.diagnostics import Diagnostic, UserError
from loopfuse.runtime.builtins import released
from loopfuse.runtime.devices import native_pool
from loopfuse.runtime.devices.native_pool import PROCESSORS, pool_text, state_bytes
from loopfuse.runtime.devices.processors import usable_processors
from loopfuse.runtime.native_code import addresses_for_good

SPIN_NANOSECONDS = 50_000
"""How long a thread without work looks for some before it parks."""

WAIT_NANOSECONDS = 10_000
"""How long a caller looks whether others are done before it parks. Short: the thread that it waits for
may be waiting for this very processor."""

FEWEST_RANGES = 64
"""Threads that a later launch may have, when the first one had fewer."""

STACK_BYTES = 8 << 20
"""A thread's stack: line buffers lie there."""

THREAD_NAME = "loopfuse"
"""What `top` and debuggers call our threads."""

LAYERS = ("own", "numba")


def thread_count() -> int:
    """Threads a launch may use: `LOOPFUSE_NUM_THREADS`, else the CPUs this process may use."""
    text = os.environ.get("LOOPFUSE_NUM_THREADS", "")
    if not text:
        return usable_processors()
    if not text.isdecimal() or int(text) < 1:
        raise UserError(
            Diagnostic(
                "bad-thread-count",
                f"LOOPFUSE_NUM_THREADS is `{text}`",
                fix="set it to a whole number of threads, 1 or more",
            )
        )
    return int(text)


def thread_layer() -> str:
    """Whose threads launches use: `LOOPFUSE_THREAD_LAYER`, `own` where it is not set."""
    text = os.environ.get("LOOPFUSE_THREAD_LAYER", "") or "own"
    if text not in LAYERS:
        raise UserError(
            Diagnostic(
                "bad-thread-layer",
                f"LOOPFUSE_THREAD_LAYER is `{text}`",
                fix="set it to `own` or to `numba`, or leave it out",
            )
        )
    return text


class Launch(Protocol):
    """Runs an entry over iterations 0..grid, in `chunks` chunks of `step` iterations (the last may
    have fewer), on at most `threads` threads."""

    def __call__(self, grid: int, step: int, chunks: int, threads: int) -> None: ...


class Pool(Protocol):
    """Threads that launches share."""

    def launcher(self, adapter: int, block: int) -> Launch:
        """For an adapter and its argument block (addresses), for one thread at a time to call."""
        ...


class OwnPool:
    """Our threads. `workers` of them run beside those that call: one more than a launch has helpers, so that the one on
    the caller's processor need not be among them."""

    def __init__(self, threads: int) -> None:
        names = ("worker", "launch")
        processor = PROCESSORS.get(platform.machine())
        found = addresses_for_good(names, pool_text(processor)) if processor else None
        self.workers = 0
        self._lock = threading.Lock()
        if found is None:
            self.ranges = 1
            return
        self._worker, launch = found
        self.ranges = max(threads, FEWEST_RANGES, os.cpu_count() or 1)
        self._state = _forever(state_bytes(self.ranges))
        ctypes.c_int64.from_address(self._state + native_pool.RANGES).value = self.ranges
        ctypes.c_int64.from_address(self._state + native_pool.SPIN).value = SPIN_NANOSECONDS
        ctypes.c_int64.from_address(self._state + native_pool.WAIT).value = WAIT_NANOSECONDS
        self._launch = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(launch)
        self.grow(threads)

    def grow(self, threads: int) -> None:
        """Have threads for launches that want so many, the caller's own among them, as far as the
        system gives them."""
        with self._lock:
            wanted = min(threads, self.ranges) if threads > 1 else 0
            if self.workers < wanted:
                self._settle(threads)
                self.workers += _start_threads(self._worker, self._state, wanted - self.workers)
                if self.workers < wanted:  # the system gives no more: it is not asked again
                    self.ranges = self.workers + 1

    def _settle(self, threads: int) -> None:
        """Give each worker a processor of its own, where a launch may have them all. (Where it may not, others may want them.)"""
        allowed = sorted(os.sched_getaffinity(0))
        if threads < len(allowed) or allowed[-1] >= native_pool.MOST_PROCESSORS:
            return
        homes = (ctypes.c_uint32 * len(allowed)).from_address(self._state + native_pool.HOMES)
        homes[:] = [processor + 1 for processor in allowed]

    def native(self, threads: int) -> tuple[int, int, int]:
        """For native code that launches by itself: the function (`native_pool.pool_text`) and its state, and how many
        threads of the `threads` that it wants a launch may have."""
        if not self.workers:
            return 0, 0, 1
        if threads > self.workers + 1 and self.workers + 1 < self.ranges:
            self.grow(threads)
        return ctypes.cast(self._launch, ctypes.c_void_p).value or 0, self._state, min(threads, self.workers + 1, self.ranges)

    def launcher(self, adapter: int, block: int) -> Launch:
        """See `Pool`."""
        if not self.workers:
            return _alone(adapter, block)
        words = (ctypes.c_int64 * native_pool.FIELDS_COUNT)(adapter, block)
        function = ctypes.cast(self._launch, ctypes.c_void_p).value or 0
        given = (self._state, ctypes.addressof(words))
        call = released(function, given, answers=False) or partial(self._launch, *given)
        last: tuple[int, int, int, int] | None = None

        def launch(grid: int, step: int, chunks: int, threads: int, keep: Any = words) -> None:
            nonlocal last
            if threads > self.workers + 1:
                if self.workers + 1 < self.ranges:
                    self.grow(threads)
                threads = min(threads, self.workers + 1, self.ranges)
            now = (grid, step, chunks, threads)
            if now != last:
                words[native_pool.GRID :] = now
                last = now
            call()

        return launch


class NumbaPool:
    """numba's omppool, called through its exported addresses."""

    def __init__(self, threads: int) -> None:
        # A compiled module without a stub.
        from numba.np.ufunc import omppool  # pyright: ignore[reportAttributeAccessIssue]

        launch = ctypes.CFUNCTYPE(None, ctypes.c_int)(omppool.launch_threads)
        launch(max(threads, len(os.sched_getaffinity(0))))
        self._parallel_for = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int,
        )(omppool.parallel_for)  # fmt: skip

    def launcher(self, adapter: int, block: int) -> Launch:
        """See `Pool`."""
        steps = (ctypes.c_size_t * 1)(16)
        parallel_for = self._parallel_for

        def launch(grid: int, step: int, chunks: int, threads: int) -> None:
            bounds = [min(grid, step * k) for k in range(chunks + 1)]
            pairs = (ctypes.c_int64 * (2 * chunks))(
                *(bound for k in range(chunks) for bound in (bounds[k], bounds[k + 1]))
            )
            arguments = (ctypes.c_void_p * 1)(ctypes.addressof(pairs))
            dimensions = (ctypes.c_size_t * 1)(chunks)
            parallel_for(
                adapter, ctypes.addressof(arguments), ctypes.addressof(dimensions),
                ctypes.addressof(steps), block, 0, 1, threads,
            )  # fmt: skip

        return launch


ADAPTER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
"""An entry's adapter: (where the chunk's begin and end lie, nothing, nothing, the argument block)."""


def _alone(adapter: int, block: int) -> Launch:
    """Everything by the caller: where the system gives no thread."""
    chunk = (ctypes.c_int64 * 2)(0, 0)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(chunk))
    call, where = ADAPTER(adapter), ctypes.addressof(arguments)

    def launch(grid: int, step: int, chunks: int, threads: int, keep: Any = arguments) -> None:
        chunk[1] = grid
        call(where, None, None, block)

    return launch


# ---------------------------------------------------------------------------------- the system


def _forever(size: int) -> int:
    """The address of zeroed memory that is never freed: threads look at it until the process is gone,
    longer than the interpreter lives."""
    allocate = ctypes.CDLL(None).calloc
    allocate.restype, allocate.argtypes = ctypes.c_void_p, (ctypes.c_size_t, ctypes.c_size_t)
    address = allocate(1, size + native_pool.LINE)
    if not address:
        raise MemoryError
    return -(-int(address) // native_pool.LINE) * native_pool.LINE


def _start_threads(function: int, state: int, count: int) -> int:
    """Start threads that run `function(state)`, with all signals blocked: Python's handlers belong to
    other threads. How many the system gave."""
    library = ctypes.CDLL(None)
    create = library.pthread_create
    create.argtypes = (ctypes.c_void_p,) * 4
    attributes = (ctypes.c_uint64 * 32)()  # no system's pthread_attr_t is as large
    thread = ctypes.c_void_p()
    if library.pthread_attr_init(ctypes.byref(attributes)):
        return 0
    library.pthread_attr_setstacksize(ctypes.byref(attributes), ctypes.c_size_t(STACK_BYTES))
    library.pthread_attr_setdetachstate(ctypes.byref(attributes), 1)
    before = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    try:
        for number in range(count):
            if create(ctypes.addressof(thread), ctypes.addressof(attributes), function, state):
                return number
            library.pthread_setname_np(thread, THREAD_NAME.encode())
        return count
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        library.pthread_attr_destroy(ctypes.byref(attributes))


# ------------------------------------------------------------------------------------ the pools

_pools: dict[str, Pool] = {}
_lock = threading.Lock()
_numba_is_lost = False


def _after_fork() -> None:
    """Threads do not survive a fork: the child makes its own when it needs them. OpenMP kills a child
    that asks for numba's, so that it gets ours."""
    global _pools, _lock, _numba_is_lost
    _numba_is_lost = _numba_is_lost or "numba" in _pools
    _pools, _lock = {}, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def has_started() -> bool:
    """Are there threads?"""
    return bool(_pools)


def pool(threads: int) -> Pool:
    """The threads of the layer that is asked for now, for launches that want so many."""
    layer = thread_layer()
    if layer == "numba" and _numba_is_lost:
        layer = "own"
    found = _pools.get(layer)
    if found is None:
        with _lock:
            found = _pools.get(layer)
            if found is None:
                found = _pools[layer] = _make(layer, threads)
    return found


def _make(layer: str, threads: int) -> Pool:
    if layer == "own":
        return OwnPool(threads)
    try:
        return NumbaPool(threads)
    except (ImportError, AttributeError, OSError) as error:
        raise UserError(
            Diagnostic(
                "no-thread-layer",
                f"LOOPFUSE_THREAD_LAYER is `numba`, and numba's threads do not start: {error}",
                fix="leave LOOPFUSE_THREAD_LAYER out, or `pip install numba`",
            )
        ) from error


def describe() -> str:
    """Which threads a launch would use, for `doctor`."""
    count, layer = thread_count(), thread_layer()
    if layer == "numba":
        return f"{count}, numba's (LOOPFUSE_THREAD_LAYER)"
    made = pool(count)
    have = made.workers + 1 if isinstance(made, OwnPool) else count
    return f"{count}, our own" if have >= count else f"{count}, of which the system gives {have}"
