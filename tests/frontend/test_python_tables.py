"""Elements of tables have the types that they have in CPython."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import UserError

NARROW_AND_WIDE = (np.float32(0.1), 0.1)
NARROW = (np.float32(0.1), np.float32(0.3))
LARGE = (2**53 + 1, 0.5)
TAPS = ((-1, 0.25), (0, 0.5), (1, 0.25))
INTEGERS_AND_FLOATS = (1, 0.5, 2)
TYPED_TAPS = [(np.int64(-1), np.float32(0.25)), (np.int64(1), np.float32(0.5))]
NAMES = (True, 2, np.int8(3), np.float16(0.1), 0.1, -0.0)
ROWS = ((1, 2.5), (np.int8(3), 4.5))
SMALL = np.array([1, 2, 3], np.int8)


def first(x: Any) -> Any:
    return NARROW_AND_WIDE[0], NARROW_AND_WIDE[1], NARROW_AND_WIDE[-1]


def large(x: Any) -> Any:
    return LARGE[0], LARGE[1], LARGE[-2]


def each(x: Any) -> Any:
    return NAMES[0], NAMES[1], NAMES[2], NAMES[3], NAMES[4], NAMES[5]


def of_rows(x: Any) -> Any:
    return ROWS[0][0], ROWS[0][1], ROWS[1][0], ROWS[-1][-1]


def columns(x: Any) -> Any:
    s = 0.0
    for k in range(2):
        s += ROWS[k][1] * x[k]
    return s


def narrow(x: Any) -> Any:
    return NARROW[1], x[0] * NARROW[0]


def small(x: Any) -> Any:
    return SMALL[1], SMALL[-1] * x[0]


def over_two_types(x: Any) -> Any:
    y = np.zeros(len(x))
    for i in range(len(x)):
        s = np.float64(0)
        for p in NARROW_AND_WIDE:
            s += x[i] * p
        y[i] = s
    return y


def over_one_type(x: Any) -> Any:
    y = np.zeros(len(x))
    for i in range(len(x)):
        s = np.float64(0)
        for p in NARROW:
            s += x[i] * p
        y[i] = s
    return y


def over_integers_and_floats(x: Any) -> Any:
    s = np.float64(0)
    for i, p in enumerate(INTEGERS_AND_FLOATS):
        s += x[i] * p
    return s


def taps(x: Any) -> Any:
    y = np.zeros_like(x)
    for i in range(1, len(x) - 1):
        for d, w in TAPS:
            y[i] += w * x[i + d]
    return y


def taps_in_the_text(x: Any) -> Any:
    y = np.zeros_like(x)
    for i in range(1, len(x) - 1):
        for d, w in ((-1, 0.25), (0, 0.5), (1, 0.25)):
            y[i] += w * x[i + d]
    return y


def taps_subscripted(x: Any) -> Any:
    y = np.zeros_like(x)
    for i in range(1, len(x) - 1):
        for k in range(3):
            y[i] += TAPS[k][1] * x[i + TAPS[k][0]]
    return y


def taps_of_numpy(x: Any) -> Any:
    y = np.zeros_like(x)
    for i in range(1, len(x) - 1):
        for d, w in TYPED_TAPS:
            y[i] += w * x[i + d]
    return y


def taps_outside(x: Any) -> Any:
    y = np.zeros_like(x)
    for d, w in TAPS:
        for i in range(1, len(x) - 1):
            t = w * x[i + d]
            if t > 1:
                t = t - 1
            y[i] += t
    return y


def nested(x: Any) -> Any:
    y = np.zeros_like(x)
    for i in range(1, len(x) - 1):
        for d, w in TAPS:
            for v in INTEGERS_AND_FLOATS:
                y[i] += w * x[i + d] * v
    return y


def numbered(x: Any) -> Any:
    y = np.zeros_like(x)
    for i in range(1, len(x) - 1):
        for k, (d, w) in enumerate(TAPS, 1):
            y[i] += k * w * x[i + d]
    return y


def beside_an_array(x: Any) -> Any:
    s = np.float64(0)
    for v, p in zip(x, INTEGERS_AND_FLOATS):
        s += v * p
    return s


def written_here(x: Any) -> Any:
    weights = (np.float32(0.1), 0.2)
    return weights[0] * x[0] + weights[1] * x[1]


KERNELS = (
    first, large, each, of_rows, columns, narrow, small, over_two_types, over_one_type, over_integers_and_floats,
    taps, taps_in_the_text, taps_subscripted, taps_of_numpy, taps_outside, nested, numbered, beside_an_array,
    written_here,
)  # fmt: skip
STORED = (taps_of_numpy, taps_outside, nested, taps, taps_in_the_text, taps_subscripted, numbered)
"""Floats are not stored in arrays of integers (NumPy's error)."""


@pytest.mark.parametrize("function", KERNELS, ids=lambda one: one.__name__)
def test_as_cpython_has_it(function: Callable[..., Any]) -> None:
    kernel: Any = loopfuse.kernel(function, fp="strict", reassociate=False)
    for dtype in (np.int8, np.uint8, np.int32, np.int64, np.float16, np.float32, np.float64):
        for length in (8, 3, 2):
            x = np.arange(3, 3 + length).astype(dtype)
            if length < 3 and function is over_integers_and_floats:
                continue
            try:
                result = kernel(x)
            except UserError as error:
                refusable = function in STORED
                assert refusable, error
                assert np.issubdtype(dtype, np.integer), error
                continue
            wanted = function(x)
            result, wanted = (one if isinstance(one, tuple) else (one,) for one in (result, wanted))
            for one, other in zip(result, wanted, strict=True):
                assert type(one) is type(other), (dtype, one, other)
                assert np.asarray(one).tobytes() == np.asarray(other).tobytes(), (dtype, one, other)


def test_an_element_of_unknown_place_has_one_type() -> None:
    @loopfuse.kernel
    def k(x: Any) -> None:
        for i in range(2):
            x[i] = NARROW_AND_WIDE[i]

    with pytest.raises(UserError) as caught:
        k(np.zeros(2))
    (one,) = caught.value.diagnostics
    assert one.code == "unsupported-table"
    assert one.message.startswith("`NARROW_AND_WIDE` holds numbers of several types, float32, float")


def test_a_fault_in_a_turn_is_told_once() -> None:
    @loopfuse.kernel
    def k(x: Any) -> None:
        for _, w in TAPS:
            x[0] = x[w]

    with pytest.raises(UserError) as caught:
        k(np.zeros(2))
    assert len(caught.value.diagnostics) == 1
