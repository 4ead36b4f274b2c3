"""Loops over elements and subscripts from the end mean what they mean in CPython."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import UserError

TABLE = (0.5, 1.0, 2.0)
LONG = np.arange(7, dtype=np.float32)
LAST = -2


def counted(x: Any, y: Any) -> None:
    for i, v in enumerate(x):
        y[i] = 2 * v


def counted_from(x: Any, y: Any) -> None:
    for i, v in enumerate(x, start=1):
        if i < len(x):
            x[i] = v + x[i]  # the next turn reads it
        y[i - 1] = v


def pairs(x: Any, y: Any) -> None:
    s = 0.0
    for a, b in zip(x, y):
        s += a * b
    y[0] = s


def counted_pairs(x: Any, y: Any) -> None:
    for i, (a, b) in enumerate(zip(x, y)):
        y[i] = a * b


def values(x: Any, y: Any) -> None:
    s = np.float32(0)
    for v in x:
        v = v * v
        s += v
    y[0] = s


def table(x: Any, y: Any) -> None:
    for i in range(len(x)):
        for t in TABLE:
            y[i] += x[i] * t


def beside_a_table(x: Any, y: Any) -> None:
    s = 0.0
    for a, t in zip(x, TABLE):
        s += a * t
    y[0] = s


def beside_a_longer_table(x: Any, y: Any) -> None:
    for i, (a, b, t) in enumerate(zip(x, y, LONG)):
        y[i] = a * b - t


def beside_two_tables(x: Any, y: Any) -> None:
    for i in range(len(x)):
        for t, u in zip(TABLE, LONG):
            y[i] += x[i] * t + u


def backwards(x: Any, y: Any) -> None:
    for i in reversed(range(1, len(x))):
        x[i - 1] = x[i] + x[i - 1]
    for i in reversed(range(3)):
        y[i] = x[i]


def last(x: Any, y: Any) -> None:
    y[-1] = x[-2] + x[LAST]
    for i in range(1, len(x)):
        x[-1] += x[i - 1]


def indices(a: Any, b: Any) -> None:
    for i, j in np.ndindex(*a.shape):
        b[i, j] = a[i, j] * 2


def indices_of_numbers(a: Any, b: Any) -> None:
    h, w = a.shape
    for i, j in np.ndindex(h, w - 1):
        b[i, j] = a[i, j + 1] * 2


def indices_again(a: Any, b: Any) -> None:
    for _ in range(3):
        for i, j in np.ndindex(a.shape):
            b[i, j] += a[i, j]


def last_of_rows(a: Any, b: Any) -> None:
    k = -1
    for i in range(len(a)):
        b[i, -1] = a[i, k] + a[-1, 0] + TABLE[-1] * TABLE[-3]


FLAT = (
    counted, counted_from, pairs, counted_pairs, values, table, beside_a_table, beside_a_longer_table,
    beside_two_tables, backwards, last,
)  # fmt: skip
PLANE = (indices, indices_of_numbers, indices_again, last_of_rows)


@pytest.mark.parametrize("function", (*FLAT, *PLANE), ids=lambda function: function.__name__)
def test_as_in_python(function: Callable[..., None]) -> None:
    shape, other = ((5,), (6,)) if function in FLAT else ((3, 4), (3, 4))
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1
    y = np.full(other, 3, np.float32)
    expected = x.copy(), y.copy()
    function(*expected)
    loopfuse.kernel(function, fp="strict", reassociate=False)(x, y)
    assert np.array_equal(x, expected[0]) and np.array_equal(y, expected[1])


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4])
def test_a_table_beside_an_array_of_any_length(length: int) -> None:
    x, y, expected = np.arange(1, length + 1, dtype=np.float32), np.zeros(1, np.float32), np.zeros(1, np.float32)
    beside_a_table(x, expected)
    loopfuse.kernel(beside_a_table, fp="strict", reassociate=False)(x, y)
    assert y[0] == expected[0]


def test_a_call_is_held_to_the_length_that_a_subscript_from_the_end_needs() -> None:
    kernel = loopfuse.kernel(last)
    with pytest.raises(UserError, match=r"len\(x\) >= 2"):
        kernel(np.ones(1, np.float32), np.ones(3, np.float32))


def three_names(a: Any, b: Any) -> None:
    for i, j, k in np.ndindex(a.shape):
        b[i, j] = k


def rows(a: Any, b: Any) -> None:
    for i, row in enumerate(a):
        b[i, 0] = row[0]


def one_name(a: Any, b: Any) -> None:
    for ij in np.ndindex(a.shape):
        b[ij] = a[ij]


def exchanged(a: Any, b: Any) -> None:
    for i, _ in enumerate(a):
        a, b = b, a
        a[i, 0] = 1.0


@pytest.mark.parametrize(
    ("function", "code", "fix"),
    [
        (three_names, "unpacking", "give 2"),
        (rows, "loop-over-elements", "write `for i in range(len(a)):`, and `a[i, j]` for elements"),
        (one_name, "loop-over-elements", "write `for i, j in np.ndindex(a.shape):`, with a name for each dimension"),
        (exchanged, "loop-over-elements", "write `for i in range(len(a)):`, and `a[i]`"),
    ],
    ids=("three names", "rows", "one name", "exchanged"),
)
def test_what_is_refused(function: Callable[..., None], code: str, fix: str) -> None:
    with pytest.raises(UserError) as caught:
        loopfuse.kernel(function)(np.ones((3, 4), np.float32), np.ones((3, 4), np.float32))
    assert (caught.value.diagnostics[0].code, caught.value.diagnostics[0].fix) == (code, fix)
