"""Forms that are natural in Python mean in a kernel what they mean in CPython."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import UserError


def chained_constants(x: Any) -> Any:
    a = b = -1
    n = m = len(x)
    h = w = x.shape[0] - 1
    z1 = z2 = np.float32(0.0)
    s = t = 0.0
    for i in range(n):
        z1 += np.float32(x[i])
        s += x[i]
    return a + b, n + m, z1, z2, s, t, h + w


def chained_sizes(x: Any) -> Any:
    n = m = len(x)
    y = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            y[i, j] = x[i] + x[j]
    return y


def chained_elements(x: Any) -> Any:
    y = np.zeros_like(x)
    for i in range(len(x) - 1):
        t = x[i] = y[i] = x[i + 1] + x[i]
        y[i + 1] = x[i] = t + t
    return y


def chained_swap(x: Any) -> Any:
    a = x[0]
    b = x[1]
    c = a = b = a + b
    return a, b, c


def elif_continue(x: Any) -> Any:
    y = np.zeros_like(x)
    for i in range(len(x)):
        if x[i] > 5:
            y[i] = 1
        elif x[i] > 2:
            y[i] = 2
            continue
        y[i] += 7
    return y


def elifs_continue(x: Any) -> Any:
    y = np.zeros_like(x)
    for i in range(len(x)):
        if x[i] > 6:
            y[i] = 1
        elif x[i] > 4:
            continue
        elif x[i] > 3:
            y[i] = 2
        else:
            y[i] = 5
            continue
        t = x[i] + 1
        if x[i] == 7:
            y[i] += 1
        elif x[i] == 5:
            continue
        y[i] += t
    return y


def compared(x: Any) -> Any:
    y = np.zeros(len(x), np.int64)
    for i in range(len(x)):
        if x[i] < 1180591620717411303424:
            y[i] += 1
        if x[i] > -(2**40) and -1180591620717411303424 < x[i] < 3:
            y[i] += 2
        if x[i] == 300 or 5 <= x[i] <= 1000:
            y[i] += 4
    return y, x[0] < 300, x[1] != -1, x[0] <= 2**40, x[0] == 73786976294838206464, 1 < x[2] < 73786976294838206464


KERNELS = (
    chained_constants, chained_sizes, chained_elements, chained_swap, elif_continue, elifs_continue, compared,
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*never-used")
@pytest.mark.parametrize("function", KERNELS, ids=lambda one: one.__name__)
def test_as_cpython_has_it(function: Callable[..., Any]) -> None:
    kernel: Any = loopfuse.kernel(function, fp="strict", reassociate=False)
    dtypes = (np.int8, np.uint8, np.int32, np.uint64, np.int64)
    for dtype in dtypes if function is compared else (np.int64, np.float32, np.float64):
        mine, theirs = (np.array([3, 1, 4, 5, 9, 2, 6, 7, 0]).astype(dtype) for _ in range(2))
        result, wanted = kernel(mine), function(theirs)
        result, wanted = (one if isinstance(one, tuple) else (one,) for one in (result, wanted))
        for one, other in zip((*result, mine), (*wanted, theirs), strict=True):
            assert type(one) is type(other), (dtype, one, other)
            np.testing.assert_array_equal(one, other)


def by_name(x: Any, *, b: Any = 3, c: Any = 1) -> Any:
    y = np.zeros_like(x)
    for i in range(len(x)):
        y[i] = x[i] * b + c
    return y


@pytest.mark.parametrize("given", [(2.0,), (2.0, 1.0)])
def test_what_follows_a_star_is_given_by_name(given: tuple[float, ...]) -> None:
    kernel: Any = loopfuse.kernel(by_name)
    x = np.arange(3.0)
    for _ in range(2):
        with pytest.raises(UserError, match="takes 1 argument by position, but got") as caught:
            kernel(x, *given)
        assert caught.value.diagnostics[0].code == "too-many-arguments"
        assert caught.value.diagnostics[0].fix == "pass by name what follows `*`: `b=...`, `c=...`"
        np.testing.assert_array_equal(kernel(x, b=2.0), by_name(x, b=2.0))
        np.testing.assert_array_equal(kernel(x, c=2.0, b=5), by_name(x, c=2.0, b=5))
        np.testing.assert_array_equal(kernel(x), by_name(x))


def star(a: Any, *, b: Any = 3) -> Any:
    return a + b


def slash(a: Any, /, b: Any = 3) -> Any:
    return a + b


def test_helpers_take_arguments_as_functions_do() -> None:
    def good(x: Any) -> Any:
        return star(x[0], b=2), star(x[0]), slash(x[0], 1), slash(x[0], b=1)

    def by_position(x: Any) -> Any:
        return star(x[0], 2)  # pyright: ignore[reportCallIssue]

    def positional_by_name(x: Any) -> Any:
        return slash(a=x[0])  # pyright: ignore[reportCallIssue]

    def doubled(x: Any) -> Any:
        return slash(x[0], 1, b=2)  # pyright: ignore[reportCallIssue]

    x = np.arange(3.0)
    result: Any = loopfuse.kernel(good)(x)
    assert result == good(x)
    for function, text in ((by_position, "star"), (positional_by_name, "slash"), (doubled, "slash")):
        with pytest.raises(TypeError):
            function(x)
        with pytest.raises(UserError, match=f"`{text}` is called with the wrong arguments") as caught:
            loopfuse.kernel(function)(x)
        assert caught.value.diagnostics[0].code == "helper-arguments"


def or_and(x: Any) -> Any:
    z = np.zeros_like(x)
    for i in range(1, len(x)):
        z[i] = x[i] or x[i - 1] or 3
    return z, x[0] and x[1], x[-1] or x[1], x[0] or (x[1] and x[2])


def limits(x: Any) -> Any:
    low = np.iinfo(np.int64).max
    for i in range(len(x)):
        low = min(low, int(x[i]))
    return low, np.finfo(np.float32).eps, np.finfo("f8").tiny, np.iinfo(np.uint8).max


def eroded(x: Any) -> Any:
    seen = np.zeros(len(x), np.bool_)
    for i in range(len(x)):
        seen[i] = x[i] > 3
    out = np.zeros(len(x), np.bool_)
    wide = np.zeros(len(x), np.bool_)
    for i in range(1, len(x) - 1):
        out[i] = min(seen[i], seen[i - 1], seen[i + 1])
        most = seen[i]
        for k in range(-1, 2):
            most = max(most, seen[i + k])
        wide[i] = np.maximum(most, out[i])
    return out, wide, np.minimum(seen[0], seen[1])


def counted_from_two(x: Any) -> Any:
    y = np.zeros(len(x) + 2)
    for i, v in enumerate(x, 2):
        y[i] = v * i
    for i, (v, w) in enumerate(zip(x, y), start=1):
        y[i] += v * w
    return y


@pytest.mark.filterwarnings("ignore:.*never-used")
@pytest.mark.parametrize("function", [or_and, limits, eroded, counted_from_two], ids=lambda one: one.__name__)
def test_more_as_cpython_has_it(function: Callable[..., Any]) -> None:
    test_as_cpython_has_it(function)


def says(function: Callable[..., Any], *arguments: Any) -> str:
    """The fixes that are proposed, of errors and warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        kernel: Any = loopfuse.kernel(function)
        try:
            kernel(*arguments)
        except UserError as error:
            return "; ".join(one.fix for one in error.diagnostics)
    return "; ".join(str(one.message).rpartition("fix: ")[2].strip() for one in told)


NARROW = np.int8(3)
STEP = 2


def test_fixes_are_in_the_words_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPFUSE_CACHE", "0")  # a kernel that was compiled before says nothing
    x, y = np.arange(6.0), np.zeros(6)

    def mixed(p: Any, x: Any, y: Any) -> None:
        for i in range(len(x)):
            y[i] = p[i] * x[i]

    assert says(mixed, x.astype(np.int32), x.astype(np.float32), y).startswith("write `np.float32(p[i])` to stay")
    assert says(mixed, x.astype(np.uint64), x.astype(np.int64), y).startswith("write `np.int64(p[i])` to stay")

    def stepped(x: Any, y: Any, k: Any) -> None:
        for i in range(0, len(x), k):
            y[i] = x[i]

    assert "const" not in says(stepped, x, y, 2)

    def by_global(x: Any, y: Any) -> None:
        for i in range(0, len(x), STEP):
            y[i] = x[i]

    assert says(by_global, x, y) == ""

    def up_to_a_float(x: Any, y: Any, n: Any) -> None:
        for i in range(n):
            y[i] = x[i]

    assert says(up_to_a_float, x, y, 2.0) == "write `int(n)`"

    def narrow(x: Any, y: Any) -> None:
        for i in range(len(x) - NARROW):
            y[i] = x[i]

    assert says(narrow, x, y).startswith("write `np.int64(...)` around each i8")

    def not_narrow(x: Any, y: Any) -> None:
        for i in range(len(x) - np.int64(NARROW)):
            y[i] = x[i]

    assert says(not_narrow, x, y) == ""

    def zoomed(a: Any, b: Any) -> None:
        for i in range(b.shape[0]):
            for j in range(b.shape[1]):
                b[i, j] = a[i * a.shape[0] // b.shape[0], j]

    assert "dimension more" not in says(zoomed, np.zeros((6, 4)), np.zeros((3, 4)))

    def computed(x: Any, y: Any) -> None:
        y[0] = x[0] + np.finfo(len).eps  # pyright: ignore[reportCallIssue, reportArgumentType]

    assert says(computed, x, y) == "compute it before the call, and pass it"


def test_subscripts_that_all_count_from_the_end() -> None:
    x, y = np.arange(6.0), np.zeros(6)

    def read(x: Any, y: Any) -> None:
        for i in range(len(x)):
            y[i] = x[-1 - i]

    def written(x: Any, y: Any) -> None:
        for i in range(1, len(x) + 1):
            y[-i] = x[i - 1]

    def counted(x: Any, y: Any) -> None:
        for i, v in enumerate(x, 1):
            y[-i] = v

    def forward(x: Any, y: Any) -> None:
        for i in range(len(x)):
            y[i] = x[-len(x) + i]

    def last(x: Any, y: Any) -> None:
        for i in range(3):
            y[i] = x[i - 3]

    def right(x: Any, y: Any) -> None:
        for i in range(len(x)):
            y[i] = x[len(x) - i - 1]

    assert says(forward, x, y) == "count from the end: `x[i]`"
    assert says(last, x, y) == "count from the end: `x[len(x)+i-3]`"
    assert says(read, x, y) == "count from the end: `x[len(x)-i-1]`"
    assert says(written, x, y) == says(counted, x, y) == "count from the end: `y[len(x)-i]`"
    assert says(right, x, y) == ""


def both_ways(a: Any, b: Any) -> Any:
    return a + b, a - b


def ordered(a: Any, b: Any) -> Any:
    if a > b:
        return b, a
    low, high = a, b
    return low, high


def of_both(a: Any, b: Any, scale: Any = 2) -> Any:
    low, high = ordered(a, b)
    total, other = both_ways(high * scale, low)
    return total, other, low


def passed_on(a: Any, b: Any) -> Any:
    return both_ways(b, a)


def taken_apart(x: Any) -> Any:
    y = np.zeros_like(x)
    a = x[0]
    b = x[1]
    for i in range(1, len(x)):
        low, high = ordered(x[i], x[i - 1])
        y[i] = high - low
        y[i - 1], low = both_ways(low, high)
        p, q, _ = of_both(x[i], low)
        y[i] += p * q
        a, b = both_ways(a, b)
    c, d = passed_on(a, b)
    return y, a, b, c, d


def test_helpers_that_return_tuples() -> None:
    test_as_cpython_has_it(taken_apart)
    x = np.arange(3.0)

    def too_few(x: Any) -> Any:
        a, b = of_both(x[0], x[1])
        return a + b

    def one_number(x: Any) -> Any:
        a, b = star(x[0])
        return a + b

    assert says(too_few, x) == "give 3"
    assert says(one_number, x).startswith("assign one name at a time")


def counts_tests(x: Any) -> Any:
    pairs = 0
    weighed = 0.5
    z = np.zeros_like(x)
    for i in range(len(x)):
        for j in range(len(x)):
            pairs += (i != j) and (x[i] == x[j] + 1)
            weighed += (i != j) and (x[i] == x[j] + 1)
            z[i] += (i != j) and (x[i] == x[j] + 1)
    return pairs, weighed, z


def test_tests_that_are_counted() -> None:
    test_as_cpython_has_it(counts_tests)
