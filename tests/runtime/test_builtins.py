"""Builtins of native code: what they call, what they keep, and where there are none; NumPy's arrays read by one."""

from __future__ import annotations

import ctypes
import gc
import pickle
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.runtime import builtins
from loopfuse.runtime.arrays import numpy_reader
from loopfuse.runtime.arrays.native_reader import MOVED, OTHER, SAME

ADD = """
kernel add(x: f32[N], y: f32[N], out z: f32[N]):
    for i in 0..N:
        z[i] = x[i] + y[i]
"""
SCALE = """
kernel scale(x: f32[H, W], a: f32, out y: f32[H, W]):
    for i in 0..H, j in 0..W:
        y[i, j] = a * x[i, j]
"""


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    patch = pytest.MonkeyPatch()
    patch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    for name in ("LOOPFUSE_CACHE", "LOOPFUSE_DEBUG", "LOOPFUSE_FUEL", "LOOPFUSE_NUM_THREADS"):
        patch.delenv(name, raising=False)
    yield
    patch.undo()


def f32(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).random(shape, np.float32)


def planned(arguments: tuple[Any, ...], positions: tuple[int, ...]) -> tuple[Callable[..., int], Any]:
    """The builtin for calls like this one, whose addresses are in the launch, and its plan."""
    make = numpy_reader.reader()
    assert make is not None
    array, words = builtins.words_of(numpy_reader.plan_words(arguments, positions))
    words[numpy_reader.VALID] = 1
    return make(array), words


# ---------------------------------------------------------------------------------- builtins


def address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def test_a_function_gets_its_arguments_and_gives_its_answer() -> None:
    asked: list[tuple[int, ...]] = []

    @ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)
    def function(*given: int) -> int:
        asked.append(given)
        return -7

    tells = builtins.released(address(function), (1, -2, 1 << 62), answers=True)
    silent = builtins.released(address(function), (5,), answers=False)
    assert tells and silent and tells() == -7 and silent() == 0
    assert asked == [(1, -2, 1 << 62, 0), (5, 0, 0, 0)]
    with pytest.raises(TypeError):
        tells(1)


def test_others_run_while_a_function_does() -> None:
    usleep = ctypes.CDLL(None).usleep
    call = builtins.released(address(usleep), (200_000,), answers=False)
    assert call
    thread = threading.Thread(target=call)
    thread.start()
    assert thread.is_alive()  # we have Python's lock while it sleeps
    thread.join()


def test_a_builtin_keeps_its_words_and_lets_them_go() -> None:
    x = f32(4)
    make = numpy_reader.reader()
    assert make is not None
    array, words = builtins.words_of(numpy_reader.plan_words((x,), (0,)))
    gone = weakref.ref(array)
    read = make(array)
    del array, words
    gc.collect()
    assert gone() is not None and read(x) == MOVED
    before = sys.getrefcount(x), sys.getrefcount(x.dtype), sys.getrefcount(gone())
    for _ in range(100):
        read(x)
        read(None)
    assert (sys.getrefcount(x), sys.getrefcount(x.dtype), sys.getrefcount(gone())) == before
    del read
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("field", ["DATA", "RANK", "BASE", "DTYPE", "FLAGS"])
def test_arrays_that_lie_otherwise_are_noticed(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert builtins._looks_like(whole)
    other = {"DATA": 3, "RANK": 8, "BASE": 7, "DTYPE": 2, "FLAGS": 9}[field]
    monkeypatch.setattr(builtins, field, other)
    assert not builtins._looks_like(whole)


def test_extents_and_strides_are_told_from_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    strides, extents = builtins.STRIDES, builtins.EXTENTS
    monkeypatch.setattr(builtins, "EXTENTS", strides)
    assert not builtins._looks_like(np.zeros((2, 3)))
    monkeypatch.setattr(builtins, "EXTENTS", extents)
    monkeypatch.setattr(builtins, "STRIDES", extents)
    assert not builtins._looks_like(np.zeros((2, 3)))


@pytest.mark.parametrize("what", ["implementation", "lock", "header"])
def test_other_interpreters_have_none(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    builtins.are_possible.cache_clear()
    match what:
        case "implementation":
            monkeypatch.setattr(sys.implementation, "name", "another")
        case "lock":
            monkeypatch.setattr(builtins.sysconfig, "get_config_var", lambda name: int(name == "Py_GIL_DISABLED"))
        case _:
            monkeypatch.setattr(builtins, "_looks_like", lambda array: array.ndim != 3)
    assert not builtins.are_possible()
    monkeypatch.undo()
    builtins.are_possible.cache_clear()
    assert builtins.are_possible()


# ------------------------------------------------------------------------------------ arrays

X = np.arange(24, dtype=np.float32).reshape(4, 6)


def fixed(array: Any) -> Any:
    found = array.copy()
    found.flags.writeable = False
    return found


class Subclass(np.ndarray):
    pass


OTHERS = {
    "extents": X[:3].copy(),
    "transposed extents": np.zeros((6, 4), np.float32),
    "another rank": X.reshape(2, 2, 6),
    "no rank": np.float32(3) * np.ones((), np.float32),
    "strides": np.zeros((4, 12), np.float32)[:, ::2],
    "Fortran's order": np.asfortranarray(X),
    "backwards": X[::-1],
    "dtype": X.astype(np.int32),
    "byte order": X.astype(">f4"),
    "read-only": fixed(X),
    "a subclass": X.copy().view(Subclass),
    "a scalar": np.float32(1),
    "a number": 1.5,
    "nothing": None,
    "a list": [1.0],
    "a type": np.ndarray,
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_is_unlike_is_said_to_be(what: str) -> None:
    y = f32(3)
    read, words = planned((y, 1.0, X), (0, 2))
    assert read(y, 2.0, X) == SAME
    assert read(y, 1.0, OTHERS[what]) == OTHER
    assert read(OTHERS[what], 1.0, X) == OTHER
    assert read(y, 1.0, X) == SAME and list(words[4:6]) == [y.ctypes.data, X.ctypes.data]


def test_other_numbers_of_arguments() -> None:
    read, _ = planned((X, X), (0, 1))
    assert [read(), read(X), read(X, X), read(X, X, X)] == [OTHER, OTHER, SAME, OTHER]


def test_what_moved_is_told_until_the_launch_has_it() -> None:
    read, words = planned((X, X), (0, 1))
    other = X.copy()
    assert [read(X, other), read(X, other)] == [MOVED, MOVED]
    assert list(words[4:6]) == [X.ctypes.data, other.ctypes.data]
    words[numpy_reader.VALID] = 1
    assert read(X, other) == SAME
    assert read(other, None) == OTHER  # the first address is noted, and not in the launch
    assert read(X, other) == MOVED


# ------------------------------------------------------------------------------------- calls


def source_of(kernel: Any) -> str:
    (path,) = kernel.call_paths.paths
    return path.source


def test_calls_are_read_by_one_builtin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the first calls no array is asked from Python: no key is made."""
    kernel = loopfuse.loads(ADD)
    x, y, z = f32(50), f32(50), f32(50)
    for _ in range(3):
        kernel(x, y, z)
    (path,) = kernel.call_paths.paths
    names = path.call.__globals__
    monkeypatch.setitem(names, "LAST", None)
    kernel(y, x, z)
    np.testing.assert_array_equal(z, x + y)
    with pytest.raises(AssertionError):
        monkeypatch.setattr(loopfuse.runtime.arrays.arrays, "match", refuse)
        kernel(x[:40], y[:40], z[:40])


def refuse(*_: Any) -> Any:
    raise AssertionError


def test_outputs_that_the_call_makes() -> None:
    kernel = loopfuse.loads(SCALE)
    kept: list[Any] = []
    for turn in range(12):
        x = f32(5, 7) + turn
        kept.append((kernel(x, 1.0 + turn), x * np.float32(1.0 + turn)))
        if turn % 3 == 2:
            kernel(f32(3, 2), 2.0)  # another state
    for found, wanted in kept:
        np.testing.assert_array_equal(found, wanted)
    assert "s[0](*args)" in source_of(kernel)


def test_views_with_gaps() -> None:
    kernel = loopfuse.loads(SCALE)
    room = f32(20, 30)
    for part in (room[::2, ::3], room[1::2, 1::3], room[:10, :10], room[::2, 20:0:-2], room[::2, ::3]):
        for _ in range(3):
            np.testing.assert_array_equal(kernel(part, 2.0), part * np.float32(2))


def test_a_dtype_that_is_equal_and_another_object() -> None:
    kernel = loopfuse.loads(ADD)
    x = f32(30)
    again = pickle.loads(pickle.dumps(x))
    assert again.dtype is not x.dtype and again.dtype == x.dtype
    for one, other in [(x, x), (x, again), (again, x), (again, again), (x, x), (x, x)]:
        np.testing.assert_array_equal(kernel(one, other), x + x)


@pytest.mark.parametrize("given", [True, False])
def test_without_builtins(given: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from loopfuse.runtime.call import fast_native
    from loopfuse.runtime.devices import cpu, native_steps, threads

    monkeypatch.setattr(fast_native.numpy_reader, "reader", lambda: None)
    for module in (cpu, native_steps, threads):
        monkeypatch.setattr(module, "released", lambda *_, **__: None)
    kernel = loopfuse.loads(SCALE)
    x, y = f32(6, 9), np.zeros((6, 9), np.float32)
    for turn in range(3):
        if given:
            kernel(x, float(turn), y)
        else:
            y = kernel(x, float(turn))
        np.testing.assert_array_equal(y, x * np.float32(turn))
    assert "*args" not in source_of(kernel)


@pytest.mark.parametrize("given", [True, False])
def test_a_call_that_was_stopped_leaves_no_addresses(given: bool) -> None:
    """An interrupt at each line of a call with other arrays than before; the next call is right."""
    kernel = loopfuse.loads(SCALE)
    first, second = f32(4, 8), f32(4, 8) + 1
    again = pickle.loads(pickle.dumps(second))  # asked from Python, and like the others
    outs = [np.zeros_like(first) for _ in range(2)]

    def call(x: Any, out: Any) -> Any:
        if given:
            kernel(x, 2.0, out)
            return out
        return kernel(x, 2.0)

    for _ in range(3):
        call(first, outs[0])
    line, stopped = 0, 0
    for moved in (second, again):
        line, stops = 0, True
        while stops:
            line += 1
            stops = _stopped(line, lambda moved=moved: call(moved, outs[1]))
            stopped += stops
            for x, out in ((first, outs[0]), (second, outs[1]), (first, outs[1]), *[(first, outs[0])] * 2):
                out[...] = -1
                np.testing.assert_array_equal(call(x, out), 2 * x)
    assert stopped > 30


def _stopped(line: int, run: Callable[[], Any]) -> bool:
    """Was a call interrupted at so many lines of its path?"""
    count = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename != "<loopfuse call>":
            return None
        if event == "line":
            count += 1
            if count == line:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        run()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False
