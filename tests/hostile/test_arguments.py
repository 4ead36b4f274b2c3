"""Calls with arguments nobody should pass: each is refused in words, or computes what it should."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import loopfuse
from loopfuse.base.diagnostics import InternalError, LoopfuseError
from tests.machine import is_within

pytestmark = pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")

TEXT = """
kernel k(a: f32[N], inout b: f32[N], s: f32, n: i64):
    for i in 0..N:
        b[i] = a[i] * s + f32(n)
"""


class Odd(np.ndarray):
    """A subclass."""


class Raises:
    """Nearly every question is answered with an exception (which is the caller's own)."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return Raises
        raise ZeroDivisionError(f"mine: {name}")


class LiesAboutArrays:
    """Claims an interface it does not keep."""

    __array_interface__: ClassVar = {"shape": (3,), "typestr": "<f4", "version": 3, "data": None}
    __cuda_array_interface__: ClassVar = {"shape": "x", "typestr": 5, "version": -1, "data": ("a", None)}

    def __dlpack__(self, **_: Any) -> Any:
        return 7

    def __dlpack_device__(self) -> Any:
        return ("cpu", None)


class HugeNumber:
    """An index beyond everything."""

    def __index__(self) -> int:
        return 10**1000

    def __int__(self) -> int:
        return 10**1000

    def __float__(self) -> float:
        raise OverflowError


def weird() -> list[Any]:
    """Objects of every kind, none of them a plain array of four f32."""
    base = np.arange(4, dtype=np.float32)
    read_only = base.copy()
    read_only.flags.writeable = False
    return [
        None, "abc", b"abcd", "", 3, -1, 2.5, True, 1j, float("nan"), float("inf"), 10**30, -(10**30), 10**5000, "x" * 10**6, [0.0] * 10**6,
        [], [1, 2], [[1, 2], [3]], [1.0, 2.0, 3.0, 4.0], (), {}, set(), object(), object, len, Ellipsis,
        slice(None), range(4), NotImplemented, Raises(), LiesAboutArrays(), HugeNumber(), iter([1]),
        np.array(1.0, np.float32), np.float32(2), np.int8(3), np.bool_(True), np.datetime64("2020"),
        np.array(["a", "b", "c", "d"]), np.array([None, 1, 2, 3], object), np.zeros(4, "V4"),
        np.zeros(4, [("x", "f4")]), np.zeros(4, "M8[s]"), np.zeros(4, np.complex64),
        np.zeros(4, ">f4"), np.zeros(4, np.longdouble), np.zeros(0, np.float32), np.zeros((4, 1), np.float32),
        np.zeros((2,) * 20, np.float32), np.zeros((0,) * 32, np.float32),
        np.ma.masked_array(base.copy(), [True, False, True, False]), np.matrix([[1.0, 2.0]]),
        base.copy().view(Odd), read_only, base.copy()[::-1], np.arange(8, dtype=np.float32)[::2],
        np.broadcast_to(np.float32(1), (4,)), np.broadcast_to(np.float32(1), (1 << 40,)),
        as_strided(base, (4,), (1 << 40,)), as_strided(base, (4,), (0,)), as_strided(base, (1 << 58,), (0,)),
        as_strided(base, (4,), (-(1 << 61),)), np.frombuffer(b"\0" * 17, np.float32, 4, 1),
        np.frombuffer(bytearray(19), np.float32, 4, 3), memoryview(bytearray(16)), bytearray(16),
        np.random.default_rng(0), np.float64, np.dtype("f4"), base.copy().astype(np.float64),
        base.copy().astype(np.float16), base.copy().astype(bool), base.copy().astype(np.uint64),
    ]  # fmt: skip


def is_dangerous(thing: Any) -> bool:
    """It points where there is no memory: only its refusal can be tested."""
    return isinstance(thing, np.ndarray) and any(abs(s) >= 1 << 40 for s in thing.strides)


def refused_or_done(call: Callable[[], Any]) -> None:
    """Only UserError and LimitError (and TypeError, for what is no call at all) may come, at once:
    to print all of an array takes NumPy seconds."""
    began = time.process_time()
    try:
        call()
    except InternalError:
        raise
    except (LoopfuseError, TypeError) as error:
        assert str(error)
    except ZeroDivisionError as error:
        assert str(error).startswith("mine"), error  # raised by `Raises` itself
    assert is_within(time.process_time() - began, 2)


@pytest.fixture(scope="module")
def kernel() -> Any:
    return loopfuse.loads(TEXT)


@pytest.mark.filterwarnings("ignore:.*unaligned-copy")
def test_every_object_in_every_place(kernel: Any) -> None:
    for place, make in itertools.product(range(4), range(len(weird()))):
        arguments: list[Any] = [np.ones(4, np.float32), np.ones(4, np.float32), 2.0, 3]
        arguments[place] = weird()[make]
        if is_dangerous(arguments[place]):
            continue
        refused_or_done(lambda arguments=arguments: kernel(*arguments))


@pytest.mark.filterwarnings("ignore:.*unaligned-copy")
def test_two_odd_objects_at_once(kernel: Any) -> None:
    generator = random.Random(5)
    for _ in range(600):
        arguments = [generator.choice(weird()) for _ in range(generator.randrange(6))]
        sizes = [getattr(a, "size", 0) if isinstance(a, np.ndarray) else 0 for a in arguments]
        if any(is_dangerous(a) for a in arguments) or any(size > 1 << 20 for size in sizes):
            continue
        refused_or_done(lambda arguments=arguments: kernel(*arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        {}, {"a": 1}, {"nothing": 3}, {"a": None, "b": None, "s": None, "n": None}, {"N": -1},
        {"N": 1 << 70}, {"N": "4"}, {"": 1}, {"self": 1}, {"a": np.ones(4, np.float32), "A": 1},
    ],
)  # fmt: skip
def test_keywords(kernel: Any, arguments: dict[str, Any]) -> None:
    with pytest.raises((LoopfuseError, TypeError)):
        kernel(**arguments)
    one = np.ones(4, np.float32)
    with pytest.raises((LoopfuseError, TypeError)):
        kernel(one, one.copy(), 1.0, 2, 3, 4, 5, **arguments)


def test_sizes_whose_product_overflows_are_refused_at_the_call() -> None:
    """N*M*4 bytes is past 2**63: nothing is allocated, nothing runs."""
    text = """
kernel k(a: f32[N], c: f32[M], out b: f32[N, M]):
    for i in 0..N, j in 0..M:
        b[i, j] = a[i] + c[j]
"""
    one = loopfuse.loads(text)
    for rows, columns in ((1 << 31, 1 << 32), (1 << 40, 1 << 40), (1 << 47, 1 << 20), (1 << 31, 1 << 30)):
        a = np.broadcast_to(np.float32(1), (rows,))
        c = np.broadcast_to(np.float32(1), (columns,))
        with pytest.raises(LoopfuseError):
            one(a, c)


def test_a_precondition_over_sizes_near_the_end_of_64_bits() -> None:
    """2*N + 1 <= M is asked in exact numbers: where N is 2**47 it does not wrap round."""
    text = """
kernel k(a: f32[M], b: f32[N], out c: f32[1]):
    for i in 0..N:
        c[0] += a[2 * i + 2] * b[i]
"""
    one = loopfuse.loads(text)
    with pytest.raises(LoopfuseError) as caught:
        one(np.ones(5, np.float32), np.broadcast_to(np.float32(1), (1 << 47,)))
    assert "reads after the last element of `a`" in str(caught.value)


def test_integers_at_the_ends() -> None:
    text = """
kernel k(n: i64, m: u64, c: i8, out b: i64[1], out d: u64[1]):
    b[0] = n + 1
    d[0] = m + u64(1)
"""
    one = loopfuse.loads(text)
    b, d = one((1 << 63) - 1, (1 << 64) - 1, -128)
    assert b[0] == -(1 << 63) and d[0] == 0
    for bad in ((1 << 63, 0, 0), (-(1 << 63) - 1, 0, 0), (0, 1 << 64, 0), (0, -1, 0), (0, 0, 128)):
        with pytest.raises(LoopfuseError):
            one(*bad)
