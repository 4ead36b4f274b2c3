"""Generated call paths: the same results and the very same errors as the checked path."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import LoopfuseError
from loopfuse.base.dtypes import DType
from loopfuse.runtime.arrays import arrays, readers
from loopfuse.runtime.arrays.arguments import check_scalar, read_signature
from loopfuse.runtime.call import call_kinds, fast, fast_cpu
from loopfuse.runtime.call.call_paths import PATHS_LIMIT
from loopfuse.runtime.devices import cpu
from loopfuse.runtime.devices.steps import ArgumentBlock

ADD = """
kernel add(x: f32[N], y: f32[N], out z: f32[N]):
    for i in 0..N:
        z[i] = x[i] + y[i]
"""
MIX = """
kernel mix(x: f32[H, W], out y: f32[H, W], inout t: f64[H], a: f32, k: i32, by: i64, on: bool):
    for i in 0..H, j in 0..W:
        y[i, j] = a * x[i, j] + f32(k)
    for i in 0..H-by:
        if on:
            t[i] = t[i] + x[i + by, 0]
"""
GATHER = """
kernel gather(x: f32[M], at: i32[N], by: i32, out y: f32[N]):
    temp t: f32[M + by]
    for j in 0..M + by:
        t[j] = 2.0 * x.clamp[j]
    for i in 0..N:
        y[i] = t[at[i]]
"""


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    patch = pytest.MonkeyPatch()
    patch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    for name in ("LOOPFUSE_CACHE", "LOOPFUSE_DEBUG", "LOOPFUSE_FUEL", "LOOPFUSE_NUM_THREADS"):
        patch.delenv(name, raising=False)
    yield
    patch.undo()


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one at each call that takes the checked path."""
    calls: list[int] = []
    real = arrays.match

    def count(*given: Any) -> Any:
        calls.append(1)
        return real(*given)

    monkeypatch.setattr(arrays, "match", count)
    return calls


def f32(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).random(shape, np.float32)


def mixed(h: int = 4, w: int = 5) -> list[Any]:
    return [f32(h, w), np.zeros((h, w), np.float32), np.ones(h), 2.0, 3, 1, True]


# ------------------------------------------------------------------------------------ results


def test_the_second_call_is_fast_and_right(checked: list[int]) -> None:
    kernel = loopfuse.loads(ADD)
    for number in range(5):
        x, y, z = f32(100), f32(100) + number, f32(100)
        assert kernel(x, y, z) is None
        np.testing.assert_array_equal(z, x + y)
    assert len(checked) == 1


def test_new_sizes_are_checked_once(checked: list[int]) -> None:
    kernel = loopfuse.loads(ADD)
    for count in (3, 0, 1000, 3, 0, 1000, 77_777, 77_777, 77_777):
        x, y, z = f32(count), f32(count), f32(count)
        kernel(x, y, z)
        np.testing.assert_array_equal(z, x + y)
    assert len(checked) == 4


def test_omitted_outputs_are_new_each_time(checked: list[int]) -> None:
    kernel = loopfuse.loads(ADD)
    x, y = f32(50), f32(50)
    made = [kernel(x, y) for _ in range(4)] + [kernel(x, y, None), kernel(x, y, None)]
    assert len({id(one) for one in made}) == 6
    for one in made:
        np.testing.assert_array_equal(one, x + y)
    assert len(checked) == 2


def test_several_outputs_come_as_a_tuple(checked: list[int]) -> None:
    kernel = loopfuse.loads(
        "kernel two(x: f32[N], out y: f32[N], out z: f64[2*N+1]):\n"
        "    for i in 0..N:\n        y[i] = x[i]\n        z[2*i] = f64(x[i])\n"
    )
    for _ in range(3):
        y, z = kernel(f32(5))
        np.testing.assert_array_equal(y, f32(5))
        assert z.shape == (11,) and (z[:10:2] == y).all() and not z[1::2].any()
    assert len(checked) == 1


def test_names_and_sizes_by_name(checked: list[int]) -> None:
    kernel = loopfuse.loads(
        "kernel fill(x: f32[M], out y: f32[N], a: f32):\n"
        "    for i in 0..N:\n        y[i] = a\n    for i in 0..min(N, M):\n        y[i] = x[i]\n"
    )
    for _ in range(3):
        assert kernel(f32(2), 1.5, N=4).tolist() == [*f32(2).tolist(), 1.5, 1.5]
        assert kernel(a=2.5, x=f32(1), N=3).tolist() == [*f32(1).tolist(), 2.5, 2.5]
        assert kernel(a=2.5, x=f32(1), N=2).tolist() == [*f32(1).tolist(), 2.5]
    assert len(checked) == 3


@pytest.mark.parametrize("a", [0.1, -0.0, 0.0, 1e300, -1e300, float("nan"), 7, np.float32(0.1), np.float64(0.1)])
def test_scalars_arrive_as_on_the_checked_path(a: Any, checked: list[int]) -> None:
    kernel = loopfuse.loads(MIX)
    first, second = mixed(), mixed()
    first[3] = second[3] = a
    kernel.with_options()(*first)
    warm = mixed()
    warm[3] = type(a)(3)
    kernel(*warm)
    kernel(*second)
    assert len(checked) == 2
    for one, other in zip(first[:3], second[:3]):
        np.testing.assert_array_equal(one.view(np.uint8), other.view(np.uint8))


def test_scalars_change_from_call_to_call(checked: list[int]) -> None:
    kernel = loopfuse.loads(MIX)
    for number in range(6):
        x, y, t, *_ = mixed()
        on = number % 2 == 0
        kernel(x, y, t, 0.5 * number, number - 3, 1, on)
        np.testing.assert_allclose(y, np.float32(0.5 * number) * x + np.float32(number - 3), rtol=1e-6)
        assert t.tolist() == [1 + v * on for v in x[1:, 0].astype(float)] + [1.0]
    assert len(checked) == 1


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_half_scalars_round(dtype: DType) -> None:
    argument = {"kind": "value", "name": "a", "dtype": dtype.value}
    for a in (1.0, 0.1, 1e6, 1e39, -2.5, -0.0, 3e-8, float("inf")):
        value = check_scalar("k", "a", dtype, a)
        assert fast._bits_of(dtype)(a) == ArgumentBlock([argument], {}, {"a": value}, False).words[0]


def test_constants_have_a_path_each(checked: list[int]) -> None:
    kernel = loopfuse.loads(
        "kernel k(x: f32[N], out y: f32[N], S: const i64):\n"
        "    for i in 0..N:\n        y[i] = x[i] * S\n"
    )
    for _ in range(3):
        for s in (2, 3):
            assert kernel(np.ones(3, np.float32), s).tolist() == [s] * 3
    assert len(checked) == 2


def test_host_loops_and_workspaces(checked: list[int]) -> None:
    kernel = loopfuse.loads(
        "kernel heat(inout a: f64[N], steps: i64):\n    temp b: f64[N]\n"
        "    for t in 0..steps:\n"
        "        for i in 1..N-1:\n            b[i] = 0.5 * (a[i-1] + a[i+1])\n"
        "        for i in 1..N-1:\n            a[i] = b[i] + t\n"
    )
    for steps in (3, 0, 3, 5, 5):
        for n in (10, 20_000):
            a = np.arange(float(n)) ** 2
            b = a.copy()
            kernel(a, steps)
            for t in range(steps):
                b[1:-1] = 0.5 * (b[:-2] + b[2:]) + t
            np.testing.assert_array_equal(a, b)
    assert len(checked) == 6


def test_wide_indices_have_a_path(checked: list[int]) -> None:
    kernel = loopfuse.loads("kernel k(x: f32[N, M], out y: f32[N]):\n    for i in 0..N, j in 0..M:\n        y[i] = x[i, j]\n")
    empty = np.zeros((0, 1 << 30), np.float32)
    for _ in range(3):
        assert kernel(empty).shape == (0,)
    x = f32(4, 4)
    for _ in range(3):
        np.testing.assert_array_equal(kernel(x), x[:, -1])
    assert len(checked) == 2


def test_integers_that_need_wide_indices_are_checked(checked: list[int]) -> None:
    """An i64 that no formula reads may change freely, within what 32-bit indices allow."""
    kernel = loopfuse.loads(
        "kernel k(x: i64[N], out y: i64[N], k: i64):\n    for i in 0..N:\n        y[i] = x[i] + k\n"
    )
    x = np.arange(5)
    expected = [0, 1, 1, 1, 2, 2]  # calls on the checked path before each
    for k, calls in zip((5, -6, (1 << 31) - 1, 1 << 31, -(1 << 31), 1 << 62), expected):
        assert len(checked) == calls
        assert (kernel(x, k) == x + k).all()
    assert len(kernel.call_paths.paths) == 2  # one with 32-bit indices, one with 64
    kernel(x, 1 << 40)
    assert len(checked) == 2


def test_unaligned_arrays_after_aligned_ones(checked: list[int]) -> None:
    kernel = loopfuse.loads(ADD)
    room = f32(1000)
    for start in (0, 1, 2, 4, 3, 0):
        x, y, z = room[start : start + 300], f32(300), f32(301)[1:]
        kernel(x, y, z)
        np.testing.assert_array_equal(z, x + y)
    assert len(checked) == 1


# ------------------------------------------------------------------------------------- errors


def read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


class Subclass(np.ndarray):
    pass


def packed_records(count: int) -> Any:
    """Numbers 5 bytes apart."""
    return np.zeros(count, [("tag", "u1"), ("x", "<f4")])


def shifted(*shape: int) -> Any:
    """An array whose numbers start one byte late."""
    size = 4 * int(np.prod(shape))
    return np.zeros(size + 1, np.uint8)[1:].view(np.float32).reshape(shape)


def repeated(*shape: int) -> Any:
    """A writable array whose rows are one."""
    return np.lib.stride_tricks.as_strided(f32(shape[-1]), shape, (0, 4))


BAD: dict[str, Callable[[list[Any]], tuple[list[Any], dict[str, Any]]]] = {
    "dtype": lambda a: ([a[0].astype(np.float64), *a[1:]], {}),
    "byte order": lambda a: ([a[0].astype(">f4"), *a[1:]], {}),
    "rank": lambda a: ([a[0].ravel(), *a[1:]], {}),
    "size": lambda a: ([a[0], f32(4, 6), *a[2:]], {}),
    "size of two": lambda a: ([f32(6, 5), f32(6, 5), *a[2:]], {}),
    "repeated output": lambda a: ([a[0], repeated(4, 5), *a[2:]], {}),
    "an output that is a view of an input": lambda a: ([a[0], a[0][::-1], *a[2:]], {}),
    "read-only": lambda a: ([a[0], read_only(a[1]), *a[2:]], {}),
    "read-only inout": lambda a: ([*a[:2], read_only(a[2]), *a[3:]], {}),
    "same array": lambda a: ([a[0], a[0], *a[2:]], {}),
    "list": lambda a: ([a[0].tolist(), *a[1:]], {}),
    "none": lambda a: ([None, *a[1:]], {}),
    "none inout": lambda a: ([*a[:2], None, *a[3:]], {}),
    "string scalar": lambda a: ([*a[:3], "2", *a[4:]], {}),
    "bool for float": lambda a: ([*a[:3], True, *a[4:]], {}),
    "float for int": lambda a: ([*a[:4], 3.0, *a[5:]], {}),
    "bool for int": lambda a: ([*a[:4], True, *a[5:]], {}),
    "int past i32": lambda a: ([*a[:4], 1 << 31, *a[5:]], {}),
    "int below i32": lambda a: ([*a[:4], -(1 << 31) - 1, *a[5:]], {}),
    "int past i64": lambda a: ([*a[:5], 1 << 63, *a[6:]], {}),
    "huge int for float": lambda a: ([*a[:3], 10**400, *a[4:]], {}),
    "array for scalar": lambda a: ([*a[:3], np.zeros(3), *a[4:]], {}),
    "int for bool": lambda a: ([*a[:6], 1], {}),
    "out of bounds": lambda a: ([*a[:5], -1, a[6]], {}),
    "too few": lambda a: (a[:6], {}),
    "too many": lambda a: ([*a, 1], {}),
    "unknown name": lambda a: (a, {"b": 1}),
    "twice": lambda a: (a, {"x": a[0]}),
    "size by name": lambda a: (a, {"H": 7}),
    "negative size": lambda a: (a, {"H": -4}),
    "size no integer": lambda a: (a, {"H": 4.0}),
}


def error_of(kernel: Any, args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, str]:
    with pytest.raises(LoopfuseError) as caught:
        kernel(*args, **kwargs)
    return caught.value.diagnostics, str(caught.value)


@pytest.fixture(scope="module")
def warm() -> Any:
    """A kernel with paths for positions, for names, and for an omitted output."""
    kernel = loopfuse.loads(MIX)
    for _ in range(2):
        kernel(*mixed())
        kernel(*mixed(6, 5))
        kernel(*mixed(), H=4)
        x, _, *rest = mixed()
        kernel(x, *rest)
        kernel(x, None, *rest)
        kernel(*mixed()[:3], a=1.0, k=2, by=1, on=False)
    return kernel


@pytest.mark.parametrize("what", BAD)
def test_an_error_is_the_same_after_good_calls(what: str, warm: Any) -> None:
    assert len(warm.call_paths.calls) >= 5
    cold = error_of(loopfuse.loads(MIX), *BAD[what](mixed()))
    good = mixed()
    args, kwargs = BAD[what](good)
    before = [one.copy() if isinstance(one, np.ndarray) else one for one in args]
    again = error_of(warm, args, kwargs)
    assert again == cold
    for one, other in zip(args, before):  # nothing ran
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other)


# ------------------------------------------------------------------- subscripts that depend on data


def gathered(*at: int, by: int = 0) -> list[Any]:
    return [np.arange(5, dtype=np.float32), np.array(at, np.int32), by]


def test_checked_subscripts_have_a_path(checked: list[int]) -> None:
    kernel = loopfuse.loads(GATHER)
    for number in range(5):
        np.testing.assert_array_equal(kernel(*gathered(number, 4, 1)), np.float32([2 * number, 8, 2]))
    assert len(checked) == 1


def test_an_offender_is_the_same_after_good_calls() -> None:
    kernel = loopfuse.loads(GATHER)
    for by in (0, 2):
        for _ in range(2):
            kernel(*gathered(1, 2, by=by))
    for args in (gathered(1, 5), gathered(1, 7, by=2), gathered(-3, 0), gathered(9, -9)):
        error = error_of(kernel, args, {})
        assert error == error_of(loopfuse.loads(GATHER), args, {})
        assert "in 0..5" in error[1] or "in 0..7" in error[1]
        np.testing.assert_array_equal(kernel(*gathered(1, 2)), np.float32([2, 4]))  # and forgotten


def test_an_interrupted_call_leaves_no_offender() -> None:
    kernel = loopfuse.loads(GATHER)
    for _ in range(2):
        kernel(*gathered(1, 2))
    (path,) = kernel.call_paths.paths
    ((free, _),) = path._table.values()
    for part in free[0]:
        if isinstance(part, ctypes.c_int64):
            part.value = (7 << 16) + 1
            break
    else:
        raise AssertionError("a state has no error word")
    np.testing.assert_array_equal(kernel(*gathered(1, 2)), np.float32([2, 4]))


def test_threads_have_an_offender_each() -> None:
    kernel = loopfuse.loads(GATHER)
    kernel(*gathered(1, 2))
    wrong: list[Any] = []

    def work(seed: int) -> None:
        for number in range(200):
            place = 5 * (number % 2) + seed
            try:
                kernel(*gathered(0, place))
                found = None
            except LoopfuseError as error:
                found = str(error)
            if (found is None) != (place < 5) or (found and f"element {place} " not in found):
                wrong.append((place, found))

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_overlaps_are_seen_after_good_calls() -> None:
    room = f32(600)
    good = (room[:200], room[200:400], room[400:])
    bad = [
        (room[:200], room[200:400], room[399:599]),
        (room[1:201], room[201:401], room[200:400]),
        (room[:200], room[:200], room[:200]),
        (room[400:], room[200:400], room[201:401]),
    ]
    kernel = loopfuse.loads(ADD)
    for args in bad:
        kernel(*good)
        kernel(*good)
        held = room.copy()
        assert error_of(kernel, list(args), {}) == error_of(loopfuse.loads(ADD), list(args), {})
        np.testing.assert_array_equal(room, held)
    kernel(good[0], good[0], good[2])  # reading one array twice is fine
    kernel(room[5:5], room[:0], room[3:3])  # and so is sharing nothing
    kernel(room[5:5], room[:0], room[3:3])


def test_arrays_that_change_in_place() -> None:
    kernel = loopfuse.loads(ADD)
    x, y, z = f32(100), f32(100), f32(100)
    for _ in range(2):
        kernel(x, y, z)
    z.flags.writeable = False
    assert error_of(kernel, [x, y, z], {})[0][0].code == "read-only"
    z.flags.writeable = True
    kernel(x, y, z)
    x.shape = (10, 10)
    assert error_of(kernel, [x, y, z], {})[0][0].code == "wrong-rank"
    x.shape = (100,)
    y.dtype = np.int32
    assert error_of(kernel, [x, y, z], {})[0][0].code == "wrong-dtype"
    y.dtype = np.float32
    y.resize(99, refcheck=False)
    assert error_of(kernel, [x, y, z], {})[0][0].code == "size-mismatch"


def test_an_array_that_moves(checked: list[int]) -> None:
    kernel = loopfuse.loads(ADD)
    x, y, z = f32(64), f32(64), np.zeros(64, np.float32)
    kernel(x, y, z)
    for _ in range(3):
        x.resize(5000, refcheck=False)
        x.resize(64, refcheck=False)
        x[:] = f32(64)
        kernel(x, y, z)
        np.testing.assert_array_equal(z, x + y)
    assert len(checked) == 1


def test_subclasses_take_the_checked_path(checked: list[int]) -> None:
    kernel = loopfuse.loads(ADD)
    x, z = f32(9), f32(9)
    for _ in range(3):
        kernel(x.view(Subclass), x, z)
        np.testing.assert_array_equal(z, x + x)
    assert len(checked) == 3


def test_a_preconditions_integer_is_in_the_key(warm: Any) -> None:
    args = mixed()
    args[5] = 4
    warm(*args)
    args[5] = 0
    t = args[2] = np.zeros(4)
    warm(*args)
    warm(*args)
    np.testing.assert_array_equal(t, 2 * args[0][:, 0].astype(float))


# ---------------------------------------------------------------------------- the surroundings


def test_a_bad_thread_count_is_refused_also_later(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = loopfuse.loads(ADD)
    args = [f32(10), f32(10), f32(10)]
    for _ in range(2):
        kernel(*args)
    monkeypatch.setenv("LOOPFUSE_NUM_THREADS", "many")
    assert error_of(kernel, args, {})[0][0].code == "bad-thread-count"
    monkeypatch.setenv("LOOPFUSE_NUM_THREADS", "3")
    for _ in range(2):
        kernel(*args)
    monkeypatch.delenv("LOOPFUSE_NUM_THREADS")
    kernel(*args)


@pytest.mark.parametrize("layer", ["numba", "own"])
def test_large_calls_share_the_work(
    layer: str, monkeypatch: pytest.MonkeyPatch, checked: list[int]
) -> None:
    monkeypatch.setenv("LOOPFUSE_NUM_THREADS", "3")
    monkeypatch.setenv("LOOPFUSE_THREAD_LAYER", layer)
    kernel = loopfuse.loads(ADD)
    for _ in range(4):
        x, y, z = f32(300_007), f32(300_007), f32(300_007)
        kernel(x, y, z)
        np.testing.assert_array_equal(z, x + y)
    assert len(checked) == 1


def test_grids_that_follow_a_host_loop(stepper: Any, code: bytes) -> None:
    """A grid over a loop variable: every launch has its own."""
    loop = stepper["steps"][0]["loop"]
    loop["body"][0]["launch"]["grid"] = "min(N, t * 400)"
    signature = read_signature(stepper)
    machine = fast_cpu.machine(cpu.load(stepper, code), "numpy")
    y = np.zeros(60_000, np.int64)
    matched = arrays.match(signature, (y, 200), {})
    described = call_kinds.describe(signature, (y, 200), {}, matched, {}, 64, False)
    assert described is not None
    path = fast.CallPath(*described, signature, stepper, machine)
    assert path.call((y, 200), {}) is fast.MISS
    path.learn((y, 200), {}, matched)
    expected = np.zeros(60_000, np.int64)
    work = np.zeros(60_000, np.int64)
    for t in range(200):
        expected[: t * 400] += t * work[: t * 400]
        work[: t * 400] += 1
    for _ in range(3):
        y[:] = 0
        assert path.call((y, 200), {}) is None
        np.testing.assert_array_equal(y, expected)


def test_many_threads_call_one_kernel() -> None:
    kernel = loopfuse.loads(MIX)
    kernel(*mixed())
    wrong: list[Any] = []

    def work(seed: int) -> None:
        for number in range(300):
            x, y, t, *_ = mixed()
            x += seed
            kernel(x, y, t, float(seed), number, 1, True)
            if not np.allclose(y, seed * x + number) or not np.allclose(t[:-1], 1 + x[1:, 0]):
                wrong.append((seed, number))

    workers = [threading.Thread(target=work, args=(k,)) for k in range(1, 7)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_a_forked_child_may_call() -> None:
    kernel = loopfuse.loads(ADD)
    x, z = np.ones(300_000, np.float32), np.zeros(300_000, np.float32)
    for _ in range(2):
        kernel(x, x, z)
    child = os.fork()
    if child == 0:
        kernel(z, x, x.copy())
        y = kernel(x, z)
        os._exit(0 if (y == 3).all() else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_tables_and_paths_are_bounded() -> None:
    kernel = loopfuse.loads(ADD)
    for count in range(fast.TABLE_LIMIT + 40):
        x = np.ones(count, np.float32)
        assert (kernel(x, x) == 2).all()
    (path,) = kernel.call_paths.paths
    assert len(path._table) <= fast.TABLE_LIMIT
    mixer = loopfuse.loads(MIX)
    for a in (1, 1.0, np.float32(1), np.float64(1)):
        for k in (1, np.int32(1), np.int64(1)):
            args = mixed()
            args[3], args[4] = a, k
            mixer(*args)
            assert np.allclose(args[1], args[0] + 1)
    assert len(mixer.call_paths.calls) == len(mixer.call_paths.paths) == PATHS_LIMIT


def test_pointers_read_from_memory_and_through_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert readers.FAST_POINTERS
    monkeypatch.setattr(readers, "FAST_POINTERS", False)
    kernel = loopfuse.loads(ADD)
    for _ in range(2):
        x = f32(20)
        np.testing.assert_array_equal(kernel(x, x), x + x)
    (path,) = kernel.call_paths.paths
    assert "__array_interface__" in path.source and "MEMORY" not in path.source
    class Strange:
        def __getitem__(self, index: int) -> int:
            return 0

    assert not readers._reads_data_pointers(Strange())


def test_examples_give_the_same_bits_on_both_paths(
    checked: list[int], own_cache: Any
) -> None:
    import sys

    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    import engines
    import references
    from case_files import assert_same, copy_arguments, make_arguments, read_examples

    seen = 0
    for case in read_examples():
        if case.name not in ("unsharp", "jacobi", "softmax", "l2norm", "stats", "triangular_solve"):
            continue
        for program in engines.read(case.source).kernels:
            kernel = loopfuse.load(case.path)
            kernel = kernel if isinstance(kernel, loopfuse.Kernel) else kernel[program.name]
            for sizes in case.sizes[:2]:
                given = make_arguments(program, sizes, case.scalars, case.data)
                given = references.prepare(program.name, given)
                named = engines.sizes_to_pass(program, sizes)
                results = []
                for _ in range(3):
                    copied = copy_arguments(given)
                    kernel(**copied, **named)
                    results.append({k: v for k, v in copied.items() if isinstance(v, np.ndarray)})
                for again in results[1:]:
                    assert_same(program, results[0], again, f"{case.name} {sizes}")
                seen += 1
    assert seen >= 6 and len(checked) == seen
