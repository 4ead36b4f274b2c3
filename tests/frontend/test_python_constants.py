"""Values that are one of a few known Python numbers, or typed: what both paths give is computed when the
function is read; CPython's bits, or a refusal that names the number."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from python_run import define

import loopfuse
from loopfuse.base.diagnostics import UserError

X = np.array([-1.5, -0.2, 0.0, 0.003, 0.05, 0.2, 0.4, 0.7, 0.99, 1.0, 1.5, 3], np.float32)
U = np.array([0, 3, 50, 99, 100, 101, 199, 200, 201, 250, 254, 255], np.uint8)
S = np.array([-128, -100, -3, -1, 0, 1, 2, 3, 50, 99, 126, 127], np.int8)
K = np.array([-100, -3, -1, 0, 1, 2, 3, 4, 5, 100, 2**29, 2**31 - 1], np.int32)
L = np.array([0, 1, 3, 100, 255, 256, 260, 261, 300, 2**31, 2**63 - 1, 2**63], np.uint64)
W = L.astype(np.int64)
BITS = 2**53


def above(u, y):
    for i in range(len(u)):
        t = 255
        if u[i] < 100:
            t = u[i]
        y[i] = t + 1


def below(u, y):
    for i in range(len(u)):
        t = 254
        if u[i] < 100:
            t = u[i]
        y[i] = t + 1


def doubled(u, y):
    for i in range(len(u)):
        y[i] = (u[i] if u[i] < 100 else 255) * 2


def raised(u, y):
    for i in range(len(u)):
        y[i] = min(u[i], 200) + 100


def lifted(u, y):
    for i in range(len(u)):
        y[i] = min(u[i], 100) + 100


def turned(u, y):
    for i in range(len(u)):
        y[i] = -min(u[i], 100)


def flipped(u, y):
    for i in range(len(u)):
        y[i] = ~max(u[i], 3)


def divided(u, y):
    for i in range(len(u)):
        y[i] = min(u[i], 100) // 3 + (min(u[i], 100) >> 2) + (max(u[i], 3) & 15) + max(u[i], 7) % 5


def chosen(v):
    if v < 100:
        return v
    return 100


def helped(s, y):
    for i in range(len(s)):
        y[i] = chosen(s[i]) * 3


def large(k, y):
    for i in range(len(k)):
        y[i] = max(k[i], 3) * 2**30 * 4


def small(k, y):
    for i in range(len(k)):
        y[i] = max(k[i], 3) * 4 - 2


def of_unknown(u, y):
    for i in range(len(u)):
        t = i
        if u[i] < 100:
            t = u[i]
        y[i] = t * 2


def many_bits(k, y):
    for i in range(len(k)):
        t = BITS + 1
        if k[i] > 0:
            t = 0.5
        y[i] = t - BITS


def many_bits_chosen(k, y):
    for i in range(len(k)):
        y[i] = (2**53 + 1 if k[i] > 0 else 0.5) - 2**53


def few_bits(k, y):
    for i in range(len(k)):
        t = 3
        if k[i] > 0:
            t = 0.5
        y[i] = t - 2


def truth(k, y):
    for i in range(len(k)):
        t = True
        if k[i] > 2:
            t = 2
        y[i] = t + np.float32(0.1)


def scaled(x, y):
    for i in range(len(x)):
        y[i] = min(max(x[i], 0.0), 1.0) * 0.1


def clipped(x, y):
    for i in range(len(x)):
        v = x[i]
        if v > 1.0:
            v = 1.0
        if v < 0.1:
            v = 0.1
        y[i] = v * 0.7


def rounded_twice(x, y):
    for i in range(len(x)):
        y[i] = (max(x[i], 0.1) * 0.7 + 0.3) / 1.7 - 0.2


def through_numpy(x, y):
    for i in range(len(x)):
        y[i] = max(np.exp(max(x[i], 0.0)), 0.5) * 0.3


def whole_in_numpy(x, y):
    s = 1.0
    for i in range(len(x)):
        y[i] = np.minimum(s / 3.0, s)
        s = x[i]


def kept_in_numpy(x, y):
    s = 1.0
    for i in range(len(x)):
        y[i] = np.minimum(s / 3.0, x[i])
        s = x[i]


def chained(x, y):
    for i in range(len(x)):
        y[i] = (0.1 + (x[i] < 2 < i)) + x[i]


def chained_of_numpy(x, y):
    for i in range(len(x)):
        y[i] = (0.1 + (x[i] < 2 < x[i - i])) + x[i]


CASES: list[tuple[Callable[..., None], Any, Any, bool]] = [
    (above, U, np.float64, False), (below, U, np.float64, True), (doubled, U, np.float64, False),
    (raised, U, np.float64, False), (lifted, U, np.float64, True), (turned, U, np.float64, False),
    (turned, S, np.float64, True), (flipped, U, np.float64, False), (flipped, S, np.float64, True),
    (divided, U, np.float64, True), (helped, S, np.float64, False), (helped, K, np.float64, True),
    (large, K, np.float64, False), (small, K, np.float64, True), (of_unknown, U, np.float64, False),
    (many_bits, K, np.float64, False), (many_bits_chosen, K, np.float64, False),
    (few_bits, K, np.float64, True), (truth, K, np.float64, True), (scaled, X, np.float32, True),
    (scaled, X, np.float64, False), (clipped, X, np.float32, True), (rounded_twice, X, np.float32, False),
    (through_numpy, X, np.float32, False), (whole_in_numpy, X, np.float64, False),
    (whole_in_numpy, X, np.float32, True), (kept_in_numpy, X, np.float64, True),
    (chained, X, np.float32, False), (chained_of_numpy, X, np.float32, True),
]  # fmt: skip


@pytest.mark.parametrize(("function", "given", "kind", "taken"), CASES)
def test_both_paths_or_neither(function: Callable[..., None], given: Any, kind: Any, taken: bool) -> None:
    expected, found = np.zeros(len(given), kind), np.zeros(len(given), kind)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        function(given, expected)
        kernel = loopfuse.kernel(function, target="cpu", fp="strict", reassociate=False)
        if not taken:
            with pytest.raises(UserError) as told:
                kernel(given, found)
            assert told.value.diagnostics[0].code == "weak-mix"
            return
        kernel(given, found)
    assert found.tobytes() == expected.tobytes()


NUMBERS = (
    "abs(-3)", "abs(-300)", "-abs(3)", "abs(-2.5)", "-(-3)", "~(-4)", "~3", "max(-3, 2)", "min(300, 2)",
    "int(-2.5)", "round(2.6)", "math.floor(-0.5)", "math.trunc(-300.5)", "(-3) // 2", "(-7) % 5", "1 << 9",
    "300 >> 7", "2 ** 9", "-2 ** 2", "300 & 7", "-3 | 1", "3 ^ -1", "t", "abs(t)", "-t", "~t", "t + 4", "abs(t) - 4",
    "min(abs(t), 2)", "abs(s)", "-s", "abs(-s)", "abs(300 if u[i] > 3 else -3)", "abs(-3 if u[i] > 3 else t)",
    "GIVEN", "abs(GIVEN)", "-GIVEN", "abs(TABLE[0])", "abs(TABLE[i % 3])", "helped(-3)", "helped(300)",
    "abs(helped(3))", "np.negative(-3)", "np.abs(-3)", "np.absolute(t)", "np.sign(-3)", "np.clip(-3, 1, 2)",
    "np.maximum(-3, 2)", "np.minimum(t, 2)", "np.int16(-3)", "abs(np.int16(-3))", "int(np.float32(-3))",
    "int(abs(-3.5))", "i * 40 - 99", "300 - i", "len(u) * 30", "q", "-q", "abs(q)", "max(q, -400)", "s - q", "q + 3000000000",
    "300 if u[i] > 3 else -3", "TABLE[i % 3]", "(i - 3) // 2 * 90", "q if u[i] > 3 else -3",
)  # fmt: skip
"""Numbers that are known when the function is read, by each thing that makes one of another."""

COMPARED = """
def helped(a):
    return -a

def compared(u, y, q):
    t = -3
    s = 300 if len(u) > 5 else -3
    for i in range(len(u)):
        c = 0
        if ({number}) <= u[i]:
            c += 1
        if u[i] < ({number}):
            c += 2
        if ({number}) == u[i] >> 1:
            c += 4
        if -300 < ({number}) != u[i]:
            c += 8
        if np.greater_equal({number}, u[i]):
            c += 16
        y[i] = c
"""


@pytest.mark.parametrize("number", NUMBERS)
def test_what_is_made_of_a_known_number_compares_as_it_does(number: str) -> None:
    names = {"np": np, "math": math, "GIVEN": -3, "TABLE": (-3, 2, 300)}
    function = define(COMPARED.format(number=number), "compared", names)
    for given in (U, S, K, L, W):
        expected, found = np.zeros(len(given), np.int64), np.zeros(len(given), np.int64)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            function(given, expected, 260)
            kernel = loopfuse.kernel(function, target="cpu", fp="strict", reassociate=False)
            kernel.reference(given, found, 260)
            assert found.tobytes() == expected.tobytes()
            found[:] = -1
            kernel(given, found, 260)
        assert found.tobytes() == expected.tobytes(), (found, expected)


def both_signs(u, v, y):
    for i in range(len(u)):
        y[i] = (u[i] < v[i]) + 2.0 * (v[i] <= u[i]) + 4.0 * (u[i] == v[i]) + 8.0 * (v[i] != u[i]) + 16.0 * np.greater(u[i], v[i])


@pytest.mark.parametrize("other", [W, -W, S, U, L[::-1].copy()])
def test_integers_of_both_signs_compare_as_they_are(other: Any) -> None:
    expected, found = np.zeros(len(L)), np.zeros(len(L))
    both_signs(L, other, expected)
    loopfuse.kernel(both_signs, target="cpu", fp="strict", reassociate=False)(L, other, found)
    assert found.tobytes() == expected.tobytes(), (found, expected)


WRAPPED = (
    "u[i] + max(u[i], q)", "u[i] * (u[i] if u[i] > 9 else q)", "u[i] | max(u[i], q)", "u[i] // max(u[i], q)",
    "(u[i] + max(u[i], q)) // 2", "u[i] + t", "np.maximum(u[i], max(u[i], q)) + u[i]",
    "np.maximum(u[i], q) + u[i]", "max(i - 5, np.minimum(u[i], q))", "np.clip(u[i], q, 99) * u[i]", "v * 0.1 + max(u[i], q)",
    "v * max(u[i], q)", "v / max(u[i], q)",
)  # fmt: skip
WRAPS = """
def wraps(u, y, q):
    v = np.float32(0.3)
    for i in range(len(u)):
        t = u[i]
        if t < 50:
            t = q
        y[i] = {value}
"""


@pytest.mark.parametrize("value", WRAPPED)
def test_what_may_be_a_number_of_python_is_of_the_type_that_numpy_gives(value: str) -> None:
    function = define(WRAPS.format(value=value), "wraps", {"np": np})
    for given in (U, S, K, W):
        expected, found = np.zeros(len(given)), np.zeros(len(given))
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            function(given, expected, 30)
            kernel = loopfuse.kernel(function, target="cpu", fp="strict", reassociate=False)
            try:
                kernel(given, found, 30)
            except UserError as told:  # an f32 with it is an f32 or an f64
                assert told.diagnostics[0].code == "weak-mix" and value.startswith("v") and given.dtype.itemsize > 2
                continue
        assert found.tobytes() == expected.tobytes(), (given.dtype, found, expected)


TAKEN = (
    "max(u[i], q)", "min(u[i], i * 20)", "u[i] if u[i] > q else q", "min(u[i], -q, 300)", "u[i] or q", "u[i] and q",
    "chosen(u[i], q)", "joined(u[i], q)", "max(min(u[i], 100), q)", "t",
)  # fmt: skip
ONE_OF = """
def chosen(a, b):
    if a > b:
        return a
    return b

def joined(a, b):
    c = a
    if a < 100:
        c = b
    return c

def taken(u, y, q):
    for i in range(len(u)):
        t = u[i]
        if t > 3:
            t = q
        y[i] = {value}
"""


@pytest.mark.parametrize("value", TAKEN)
@pytest.mark.parametrize("q", [260, -7])
def test_what_may_be_a_number_of_python_keeps_it_whole(value: str, q: int) -> None:
    function = define(ONE_OF.format(value=value), "taken", {"np": np})
    for given in (U, S, K, L, W):
        expected, found = np.zeros(len(given)), np.zeros(len(given))
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            function(given, expected, q)
            kernel = loopfuse.kernel(function, target="cpu", fp="strict", reassociate=False)
            if given is L:  # no type holds a u64 and what may be negative
                with pytest.raises(UserError) as told:
                    kernel(given, found, q)
                assert told.value.diagnostics[0].code == "weak-mix"
                continue
            kernel(given, found, q)
        assert found.tobytes() == expected.tobytes(), (found, expected)
