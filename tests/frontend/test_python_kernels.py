"""Kernels as people write them, beside CPython: bit for bit under strict, and what they return. What
is refused says what to write, and that does what CPython does."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import LoopfuseError
from tests.frontend.kernels_of_users import CASES


def same(a: Any, b: Any) -> bool:
    """Equal to the bit and the type; NaN is like NaN."""
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(same, a, b))
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        alike = a.dtype == b.dtype and a.shape == b.shape
        return alike and bool(np.all((a == b) & (np.signbit(a) == np.signbit(b)) | (a != a) & (b != b))
                              if a.dtype.kind == "f" else np.array_equal(a, b))  # fmt: skip
    return a is b or a == b or (a != a and b != b)


def run(function: Callable[..., Any], arguments: tuple[Any, ...], compiled: bool) -> tuple[Any, tuple[Any, ...]]:
    mine = tuple(one.copy() if isinstance(one, np.ndarray) else one for one in arguments)
    if compiled:
        function = loopfuse.kernel(function, fp="strict", reassociate=False, target="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*mine), mine


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: " ".join([case[0].__name__, *(getattr(a, "dtype", a).__str__() for a in case[1:])])
)
def test_as_in_python(case: tuple[Any, ...]) -> None:
    function, *arguments = case
    expected, changed = run(function, tuple(arguments), False)
    found, mine = run(function, tuple(arguments), True)
    assert same(expected, found), (expected, found)
    for a, b in zip(changed, mine):
        assert same(a, b), (a, b)


X = np.array([0.5, -1.25, 2.0, 0.0, 3.75], np.float32)
XX = np.arange(20, dtype=np.float32).reshape(4, 5) - 7
L = np.array([3, -1, 4, 1, 5])


def breaks(x, y):
    for i in range(len(x)):
        if x[i] > 1:
            break
        y[i] = x[i]


def breaks_2(x, y):
    go = True
    for i in range(len(x)):
        if x[i] > 1:
            go = False
        if go:
            y[i] = x[i]


def whiles(x, y):
    i = 0
    while i < len(x):
        y[i] = x[i]
        i += 1


def whiles_2(x, y):
    for i in range(len(x)):
        y[i] = x[i]


def returns(x, y):
    if len(x) == 0:
        return
    for i in range(len(x)):
        y[i] = x[i]


def returns_2(x, y):
    if len(x) != 0:
        for i in range(len(x)):
            y[i] = x[i]


def returns_inside(x):
    for i in range(len(x)):
        if x[i] > 1:
            return i
    return -1


def returns_inside_2(x):
    found = -1
    for i in range(len(x)):
        if found == -1 and x[i] > 1:
            found = i
    return found


def deep(x, y):
    for i in range(len(x)):
        if x[i] < 1:
            if x[i] < -1:
                continue
            y[i] = 1
        y[i] += x[i]


def deep_2(x, y):
    for i in range(len(x)):
        if not (x[i] < -1):
            if x[i] < 1:
                y[i] = 1
            y[i] += x[i]


def nested(x, y):
    def f(v):
        return v * 2

    for i in range(len(x)):
        y[i] = f(x[i])


def twice(v):
    return v * 2


def nested_2(x, y):
    for i in range(len(x)):
        y[i] = twice(x[i])


def sliced(x, y):
    y[1:-1] = x[2:] - x[:-2]


def sliced_2(x, y):
    for i in range(1, len(y) - 1):
        y[i] = x[i + 1] - x[i - 1]


def row(x, y):
    for i in range(x.shape[0]):
        y[i, :] = x[i, :] * 2


def row_2(x, y):
    for i in range(x.shape[0]):
        for j in range(y.shape[1]):
            y[i, j] = x[i, j] * 2


def row_sum(x, y):
    for i in range(x.shape[0]):
        y[i, 0] = x[i, 1:].sum()


def row_sum_2(x, y):
    for i in range(x.shape[0]):
        s = 0.0
        for j in range(1, x.shape[1]):
            s += x[i, j]
        y[i, 0] = s


def chosen(x, y):
    for i in range(len(x)):
        y[i] = np.where(x[i] > 1, x[i], 0.0)


def chosen_2(x, y):
    for i in range(len(x)):
        y[i] = x[i] if x[i] > 1 else 0.0


def bounded(v, lo=0.0, hi=1.0):
    if v < lo:
        return lo
    if v > hi:
        return hi
    return v


def helped(x, y):
    for i in range(len(x)):
        y[i] = (bounded(x[i], lo=0.1) * 0.7 + 0.3) / 1.7


def helped_2(x, y):
    for i in range(len(x)):
        y[i] = (np.float32(bounded(x[i], lo=0.1)) * 0.7 + 0.3) / 1.7


def walrus(x, y):
    for i in range(len(x)):
        if (v := x[i] * 2) > 0:
            y[i] = v


def walrus_2(x, y):
    for i in range(len(x)):
        v = x[i] * 2
        if v > 0:
            y[i] = v


def listed(x, y):
    t = [v * 2 for v in x]
    for i in range(len(x)):
        y[i] = t[i]


def listed_2(x, y):
    t = np.empty_like(x)
    for i in range(len(x)):
        t[i] = x[i] * 2
    for i in range(len(x)):
        y[i] = t[i]


def summed(x, y):
    for i in range(len(x)):
        y[i] = sum(x[j] for j in range(i))


def summed_2(x, y):
    for i in range(len(x)):
        s = 0.0
        for j in range(i):
            s += x[j]
        y[i] = s


def caught(x, y):
    for i in range(len(x)):
        try:
            y[i] = math.floor(x[i])
        except ValueError:
            y[i] = 0


def caught_2(x, y):
    for i in range(len(x)):
        y[i] = math.floor(x[i])


def raised(x, y):
    if len(x) != len(y):
        raise ValueError("lengths")
    for i in range(len(x)):
        y[i] = x[i]


def raised_2(x, y):
    assert len(x) == len(y)
    for i in range(len(x)):
        y[i] = x[i]


def two_places(x, y):
    for i in range(len(x)):
        y[i] = round(x[i] * 10.0, 2)


def two_places_2(x, y):
    for i in range(len(x)):
        y[i] = np.rint(x[i] * 10.0 * 10.0 ** 2) / 10.0 ** 2


def counted(x, y):
    t = np.arange(len(x))
    for i in range(len(x)):
        y[i] = t[i]


def counted_2(x, y):
    t = np.empty(len(x), np.int64)
    for i in range(len(x)):
        t[i] = i
    for i in range(len(x)):
        y[i] = t[i]


def stored(k, y):
    for i in range(len(y)):
        k[i] = y[i] * 0.5


def stored_2(k, y):
    for i in range(len(y)):
        k[i] = np.int64(y[i] * 0.5)


def powers(k, y):
    for i in range(len(y)):
        y[i] = 2 ** i


def powers_2(k, y):
    for i in range(len(y)):
        y[i] = np.float64(2) ** i


REFUSED = [
    (breaks, breaks_2, "break-statement", (X, X)),
    (whiles, whiles_2, "while-loop", (X, X)),
    (returns, returns_2, "early-return", (X, X)),
    (returns_inside, returns_inside_2, "early-return", (X,)),
    (deep, deep_2, "continue-statement", (X, X)),
    (nested, nested_2, "nested-function", (X, X)),
    (sliced, sliced_2, "slice", (X, X)),
    (row, row_2, "slice", (XX, XX)),
    (row_sum, row_sum_2, "array-method", (XX, XX)),
    (chosen, chosen_2, "whole-array-function", (X, X)),
    (helped, helped_2, "weak-mix", (X, X)),
    (walrus, walrus_2, "assignment-expression", (X, X)),
    (listed, listed_2, "comprehension", (X, X)),
    (summed, summed_2, "comprehension", (X, X)),
    (caught, caught_2, "try-statement", (X, X)),
    (raised, raised_2, "raise-statement", (X, X)),
    (two_places, two_places_2, "call-arguments", (X, X)),
    (counted, counted_2, "loop-over-elements", (X, X)),
    (stored, stored_2, "bad-conversion", (L, X)),
    (powers, powers_2, "integer-power", (L, X)),
]


@pytest.mark.parametrize(("function", "fixed", "code", "given"), REFUSED, ids=lambda one: getattr(one, "__name__", ""))
def test_what_is_refused_and_its_fix(
    function: Callable[..., Any], fixed: Callable[..., Any], code: str, given: tuple[Any, ...]
) -> None:
    with pytest.raises(LoopfuseError) as caught:
        run(function, given, True)
    assert caught.value.diagnostics[0].code == code and caught.value.diagnostics[0].fix
    expected, changed = run(fixed if function in (helped, two_places) else function, given, False)
    found, mine = run(fixed, given, True)
    assert same(expected, found)
    assert all(map(same, changed, mine))
