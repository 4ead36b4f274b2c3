"""Memory of workspaces on the CPU: where it lies, who has it, and how long it is kept."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse import UserError
from loopfuse.base.machine import LINE
from loopfuse.runtime.devices import workspaces
from loopfuse.runtime.devices.workspaces import OWN, Pool, Workspaces

TWICE = """
kernel twice(a: f64[N], out b: f64[N]):
    temp c: f64[N]
    for i in 0..N:
        c[N-1-i] = 2.0 * a[i]
    for i in 0..N:
        b[i] = sum(j in i..min(i + 1, N): c[j]) + c[N-1-i]
"""


def manifest(*sizes: int, zeroed: bool = False) -> dict[str, Any]:
    return {
        "kernel": "k",
        "buffers": [
            {"name": f"w{k}", "dtype": "u8", "extents": [str(size)], "zeroed": zeroed} for k, size in enumerate(sizes)
        ],
    }


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Pool:
    """A pool of its own."""
    made = Pool(64 << 20)
    monkeypatch.setattr(workspaces, "POOL", made)
    return made


def test_they_start_on_lines_of_the_cache_apart_from_each_other(pool: Pool) -> None:
    spaces = Workspaces(manifest(100, 0, 5000, 1 << 20), {})
    base = spaces.take()
    starts = {name: base + offset for name, offset in spaces.offsets.items()}
    assert all(start % LINE == 0 for start in starts.values())
    ends = [start + size for start, size in zip(starts.values(), (100, 0, 5000, 1 << 20), strict=True)]
    assert all(end <= start for end, start in zip(ends, [*starts.values()][1:]))
    assert len({start % 4096 for start in starts.values()}) == 4, "none begins where another does in its page"
    assert spaces.total == 100 + 5000 + (1 << 20)


def test_what_was_given_back_is_used_again(pool: Pool) -> None:
    spaces = Workspaces(manifest(1 << 20), {})
    first = spaces.take()
    spaces.free()
    assert Workspaces(manifest(1 << 20), {}).take() == first


def test_two_calls_at_once_have_memory_of_their_own(pool: Pool) -> None:
    one, other = (Workspaces(manifest(1 << 20), {}) for _ in range(2))
    assert one.take() != other.take()


def test_nothing_is_twice_as_large_as_it_need_be(pool: Pool) -> None:
    large = Workspaces(manifest(8 << 20), {})
    place = large.take()
    large.free()
    assert Workspaces(manifest(1 << 20), {}).take() != place


def test_small_ones_stay_with_their_call(pool: Pool) -> None:
    spaces = Workspaces(manifest(OWN // 2), {})
    place = spaces.take()
    spaces.free()
    assert Workspaces(manifest(OWN // 2), {}).take() != place
    assert spaces.take() == place


def test_no_more_is_kept_than_the_limit(pool: Pool) -> None:
    many = [Workspaces(manifest(10 << 20), {}) for _ in range(9)]
    for one in many:
        one.take()
    for one in many:
        one.free()
    held = sum(piece.nbytes for piece in pool._free)  # pyright: ignore[reportPrivateUsage]
    assert 50 << 20 < held <= pool.limit
    whole = Workspaces(manifest(65 << 20), {})
    whole.take()
    whole.free()
    assert sum(piece.nbytes for piece in pool._free) == held  # pyright: ignore[reportPrivateUsage]


def test_those_that_hold_zeros_do_each_time(pool: Pool) -> None:
    spaces = Workspaces(manifest(1 << 20, 300, zeroed=True), {})
    for _ in range(2):
        base = spaces.take()
        piece = spaces._piece  # pyright: ignore[reportPrivateUsage]
        for name, size in (("w0", 1 << 20), ("w1", 300)):
            start = base - piece.ctypes.data + spaces.offsets[name]
            assert not piece[start : start + size].any()
        piece[...] = 7
        spaces.free()


def test_memory_that_is_not_there_is_said(pool: Pool) -> None:
    with pytest.raises(UserError) as caught:
        Workspaces(manifest(5, 1 << 60), {}).take()
    (found,) = caught.value.diagnostics
    assert found.code == "out-of-memory" and "cannot allocate `w1` of `k`" in found.message


@pytest.mark.parametrize("size", [40, 300_000])
def test_calls_from_many_threads(size: int) -> None:
    """Through the generated path too: each call after the first."""
    kernel = loopfuse.loads(TWICE)
    assert kernel.compile("cpu", emit=("object",)).manifest["buffers"], "the program needs a workspace"
    wrong: list[str] = []

    def call(seed: int) -> None:
        a = np.random.default_rng(seed).standard_normal(size)
        for _ in range(20):
            b = np.zeros(size)
            kernel(a, b)
            if not np.array_equal(b, 2 * a[::-1] + 2 * a):
                wrong.append(f"thread {seed}")

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_has_a_pool_of_its_own(pool: Pool, tmp_path: Path) -> None:
    """Also where another thread held the lock when it was made."""
    spaces = Workspaces(manifest(1 << 20), {})
    spaces.take()
    spaces.free()
    os.register_at_fork(after_in_child=pool.forget)
    with pool._lock:  # pyright: ignore[reportPrivateUsage]
        child = os.fork()
        if not child:
            Workspaces(manifest(1 << 20), {}).take()
            os._exit(0 if not pool._free else 3)  # pyright: ignore[reportPrivateUsage]
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
