"""Locals of Python kernels mean what they mean in CPython, bit for bit."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import UserError


def twice(out: Any, x: Any) -> None:
    s = 0.0
    for i in range(len(x)):
        s += x[i]
        s += x[i]
    out[0] = s


def set_then_add(out: Any, x: Any) -> None:
    s = 0.0
    for i in range(len(x)):
        s = x[i]
        s += 1.0
    out[0] = s


def scale_then_add(out: Any, x: Any) -> None:
    s = 1.0
    for i in range(len(x)):
        s *= 2.0
        s += x[i]
    out[0] = s


def count_by_two(out: Any, x: Any) -> None:
    n = 0
    for i in range(len(x)):
        n += 1
        out[i] = n * x[i]
        n += 1
    out[0] = n


def subtract_under_a_condition(out: Any, x: Any) -> None:
    s = 10.0
    for i in range(len(x)):
        s -= x[i]
        if x[i] > 1.5:
            s -= 1.0
        s *= 0.5
    out[0] = s


def mean(out: Any, x: Any) -> None:
    var = 0.0
    for i in range(len(x)):
        var += x[i]
    out[0] = math.sqrt(var / len(x) + 1e-5)


def greatest_byte(out: Any, x: Any) -> None:
    m = -1
    for i in range(len(x)):
        m = max(m, np.uint8(x[i]))
    out[0] = m


def count_true(out: Any, x: Any) -> None:
    n = 0
    for i in range(len(x)):
        n += x[i] > 1.5
        n += i > 1
    out[0] = n


def odd(out: Any, x: Any) -> None:
    for i in range(len(x)):
        if i % 2:
            out[i] = x[i]
        elif not i:
            out[i] = float("-inf")
        else:
            out[i] = 3.0 if i & 2 and x[i] else 4.0


def name_of_a_loop_and_of_a_local(out: Any, x: Any) -> None:
    for j in range(2):
        out[j] = j
    j = x[0] * 2
    out[2] = j
    for j in range(3, 4):
        out[j] = x[j] + j


def a_local_called_underscore(out: Any, x: Any) -> None:
    for i in range(len(x)):
        _ = x[i] * 2.0
        out[i] = _ + 1.0


def annotated(out: Any, x: Any) -> None:
    n: int = len(x)
    s: float = 0.0
    t: np.float32
    k: "anything at all" = 2  # type: ignore[valid-type]
    for i in range(n):
        t: list[int] = x[i] * k  # type: ignore[no-redef,assignment]
        s += doubled(t)
        out[i]: float = s  # type: ignore[misc]


def doubled(v: Any) -> Any:
    twice: float = v * 2
    unused: int  # noqa: F842
    return twice


FORMS = [
    annotated,
    twice, set_then_add, scale_then_add, count_by_two, subtract_under_a_condition, mean, greatest_byte, count_true,
    odd, name_of_a_loop_and_of_a_local, a_local_called_underscore,
]  # fmt: skip


@pytest.mark.parametrize("function", FORMS, ids=lambda f: f.__name__)
def test_a_local_means_what_it_means_in_python(function: Callable[..., Any]) -> None:
    x = np.array([1.0, 2.0, 3.0, 4.5])
    expected, found = np.zeros(4), np.zeros(4)
    function(expected, x)
    loopfuse.kernel(function, fp="strict", reassociate=False)(found, x)
    np.testing.assert_array_equal(found, expected)


def greater_of_a_tenth(x32: Any, y64: Any) -> None:
    for i in range(len(x32)):
        y64[i] = max(x32[i], 0.1)


def chosen_tenth(x32: Any, y64: Any) -> None:
    for i in range(len(x32)):
        y64[i] = x32[i] if x32[i] > 0.5 else 0.1


def tenth_on_a_path(x32: Any, y64: Any) -> None:
    for i in range(len(x32)):
        t = 0.1
        if x32[i] > 0.5:
            t = x32[i]
        y64[i] = t


def sum_from_a_tenth(x32: Any, y64: Any) -> None:
    s = 0.1
    for i in range(len(x32)):
        s += x32[i]
    y64[0] = s


def root_of_a_tenth(x32: Any, y64: Any) -> None:
    for i in range(len(x32)):
        y64[i] = math.sqrt(max(x32[i], 0.1))


def float_of_a_tenth(x32: Any, y64: Any) -> None:
    for i in range(len(x32)):
        y64[i] = float(max(x32[i], 0.1))


def product_with_a_tenth(x32: Any, y64: Any) -> None:
    for i in range(len(x32)):
        y64[i] = max(x32[i], 0.1) * y64[i]


def compared_with_a_tenth(x32: Any, y64: Any) -> None:
    for i in range(len(x32)):
        if max(x32[i], 0.1) < y64[i]:
            y64[i] = 0.0


def returned_tenth(v: Any) -> Any:
    if v > 0.5:
        return v
    return 0.1


def helper_of_a_tenth(x32: Any, y64: Any) -> None:
    for i in range(len(x32)):
        y64[i] = returned_tenth(x32[i])


def int_or_i32(x32: Any, k32: Any) -> None:
    for i in range(len(x32)):
        t = 7
        if k32[i] > 0:
            t = k32[i]
        x32[i] = t * x32[i]


def int_or_float(x32: Any, k32: Any) -> None:
    for i in range(len(x32)):
        t = 1
        if k32[i] > 0:
            t = 0.5
        x32[i] = t // 2 * k32[i]


def sum_beside_f32(x32: Any, y64: Any) -> None:
    s = 0.1
    for i in range(len(x32)):
        x32[i] = x32[i] * s
        s += y64[i]


def bool_of_numpy_beside_f32(x32: Any, y64: Any) -> None:
    s = 0.0
    for i in range(len(x32)):
        x32[i] = x32[i] * ((s + (y64[i] >= -1)) / 1.5)
    for i in range(len(x32)):
        s += x32[i]


def greatest_beside_f32(x32: Any, y64: Any) -> None:
    s = 0.1
    for i in range(len(x32)):
        s = min(s, y64[i])
        x32[i] = x32[i] / (1.0 + np.maximum(s, x32[i]))


def sum_before_it_is_updated(x32: Any, k32: Any) -> None:
    s = 3
    for i in range(len(x32)):
        x32[i] = x32[i] * s * 0.1
        s += k32[i]


def product_before_it_is_updated(x32: Any, y64: Any) -> None:
    p = 3.0
    for i in range(len(x32)):
        y64[i] = p * 0.1
        p *= x32[i]


def sum_of_a_triangle(x32: Any, y64: Any) -> None:
    for i in range(len(x32)):
        s = 0.0
        for j in range(i):
            s += x32[j]
        y64[i] = s + 0.1


def sum_under_a_condition(x32: Any, y64: Any) -> None:
    for i in range(len(x32)):
        s = 0.0
        if x32[i] > 0:
            s += x32[i]
        y64[i] = s + 0.1


def root_of_two_at_least(x32: Any, y64: Any) -> None:
    for i in range(len(x32)):
        x32[i] = x32[i] * np.sqrt(max(x32[i], 2.0))


def root_of_a_tenth_at_least(x32: Any, y64: Any) -> None:
    for i in range(len(x32)):
        x32[i] = np.sqrt(max(x32[i], 0.1))


MIXED = [
    sum_before_it_is_updated, product_before_it_is_updated, sum_of_a_triangle, sum_under_a_condition,
    root_of_two_at_least, root_of_a_tenth_at_least,
    greater_of_a_tenth, chosen_tenth, tenth_on_a_path, sum_from_a_tenth, root_of_a_tenth, float_of_a_tenth,
    product_with_a_tenth, compared_with_a_tenth, helper_of_a_tenth, int_or_i32, int_or_float,
    sum_beside_f32, greatest_beside_f32, bool_of_numpy_beside_f32,
]  # fmt: skip


@pytest.mark.parametrize("function", MIXED, ids=lambda f: f.__name__)
def test_what_depends_on_the_path_is_refused(function: Callable[..., Any]) -> None:
    """The message names the number, and the program with the number converted is accepted."""
    other = np.zeros(4, np.int32 if "k32" in function.__code__.co_varnames else np.float64)
    with pytest.raises(UserError, match=r"weak-mix.*\n[\s\S]*fix: write `np\.\w+\([\d.]+\)`"):
        loopfuse.kernel(function, fp="strict")(np.zeros(4, np.float32), other)


def mean_and_deviation(x: Any, k: Any, y: Any) -> None:
    s, n = 0.0, len(x)
    for i in range(n):
        s += x[i]
    mean = s / n
    v = 0.0
    for i in range(n):
        v += (x[i] - mean) * (x[i] - mean)
    for i in range(n):
        y[i] = (x[i] - mean) / math.sqrt(v / n + 1e-5)


def smoothed(x: Any, k: Any, y: Any) -> None:
    s = 0.0
    for i in range(len(x)):
        s = 0.9 * s + 0.1 * x[i]
        y[i] = s


def peak(x: Any, k: Any, y: Any) -> None:
    p = 0.0
    for i in range(len(x)):
        p = max(p, abs(x[i]))
    for i in range(len(x)):
        y[i] = x[i] * (127.0 / p) * 0.3


def mean_where_positive(x: Any, k: Any, y: Any) -> None:
    s, c = 0.0, 0
    for i in range(len(x)):
        if x[i] > 0:
            s += x[i]
            c += 1
    for i in range(len(x)):
        y[i] = x[i] - s / c


def sum_then_beside(x: Any, k: Any, y: Any) -> None:
    s = 3
    for i in range(len(x)):
        s += k[i]
        y[i] = x[i] * s * 0.1
    for i in range(len(x)):
        y[i] += x[i] * s * 0.1
        if s > k[i]:
            y[i] += 1.0


def sums_before(x: Any, k: Any, y: Any) -> None:
    s, t = 0.0, 0
    for i in range(len(x)):
        y[i] = s * x[i] + t
        s += x[i]
        t += k[i]


GATHERED = [mean_and_deviation, smoothed, peak, mean_where_positive, sum_then_beside, sums_before]


@pytest.mark.parametrize("function", GATHERED, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("whole", [np.uint8, np.int32, np.int64])
def test_sums_have_the_type_of_what_they_sum(function: Callable[..., Any], kind: Any, whole: Any) -> None:
    """On every path of a call of arrays that are not empty, or it is refused."""
    x = np.array([0.3, -1.7, 2.9, 1.1, 0.77], kind)
    k = np.array([3, 7, 1, 9, 2], whole)
    for result in (np.float32, np.float64):
        expected, found = np.zeros(5, result), np.zeros(5, result)
        function(x, k, expected)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                loopfuse.kernel(function, fp="strict", reassociate=False)(x, k, found)
            except UserError as error:
                assert function is sums_before and error.diagnostics[0].code == "weak-mix"
                continue
        assert np.array_equal(found, expected)


TABLE = (1.0, 2.0, 4.0)
KERNEL = np.array([[0.5, -1.0], [0.25, 8.0]])


def halves_of_extents(out: Any, x: Any) -> None:
    """Several scalars at once, at the top."""
    n, k = len(x), 2
    half, other = n // 2, n - n // 2
    a, b = 0.25, 0.5
    for i in range(half):
        out[i] = a * x[i] + b * k
    for i in range(other):
        out[half + i] = b * x[i]


def chosen_weights(out: Any, x: Any) -> None:
    for i in range(len(x)):
        m = (i + 1) % 2
        out[i] = x[i] * TABLE[i % 3] + KERNEL[m, i // 2 % 2]


def length_of_tables(out: Any, x: Any) -> None:
    out[0] = 0.0
    for k in range(len(KERNEL)):
        out[0] += KERNEL[k, 0] * len(TABLE)


def or_guards(out: Any, x: Any) -> None:
    n = len(x)
    for i in range(n):
        if i == 0:
            out[i] = 5.0
        elif i == n - 1 or x[i + 1] < 1.5 or x[i - 1] > x[i + 1]:
            out[i] = 1.0
        else:
            out[i] = x[i + 1] - x[i - 1]


def edge_after_a_promise(out: Any, x: Any) -> None:
    n = len(x)
    assert len(out) == n
    for i in range(n):
        out[i] = x[loopfuse.reflect(i + 1, n)] if n > 1 else x[i]


@pytest.mark.parametrize(
    "function",
    [halves_of_extents, chosen_weights, length_of_tables, or_guards],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("count", [4, 7])
def test_constants_and_guards(function: Callable[..., Any], count: int) -> None:
    x = np.random.default_rng(3).random(count) * 3
    out, expected = np.zeros(count), np.zeros(count)
    function(expected, x)
    loopfuse.kernel(function, fp="strict")(out, x)
    assert out.tobytes() == expected.tobytes()
