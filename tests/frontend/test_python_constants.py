"""Values that are one of a few known Python numbers, or typed: what both paths give is computed when the
function is read; CPython's bits, or a refusal that names the number."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import UserError

X = np.array([-1.5, -0.2, 0.0, 0.003, 0.05, 0.2, 0.4, 0.7, 0.99, 1.0, 1.5, 3], np.float32)
U = np.array([0, 3, 50, 99, 100, 101, 199, 200, 201, 250, 254, 255], np.uint8)
S = np.array([-128, -100, -3, -1, 0, 1, 2, 3, 50, 99, 126, 127], np.int8)
K = np.array([-100, -3, -1, 0, 1, 2, 3, 4, 5, 100, 2**29, 2**31 - 1], np.int32)
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


CASES: list[tuple[Callable[..., None], Any, Any, bool]] = [
    (above, U, np.float64, False), (below, U, np.float64, True), (doubled, U, np.float64, False),
    (raised, U, np.float64, False), (lifted, U, np.float64, True), (turned, U, np.float64, False),
    (turned, S, np.float64, True), (flipped, U, np.float64, False), (flipped, S, np.float64, True),
    (divided, U, np.float64, True), (helped, S, np.float64, False), (helped, K, np.float64, True),
    (large, K, np.float64, False), (small, K, np.float64, True), (of_unknown, U, np.float64, False),
    (many_bits, K, np.float64, False), (many_bits_chosen, K, np.float64, False),
    (few_bits, K, np.float64, True), (truth, K, np.float64, True), (scaled, X, np.float32, True),
    (scaled, X, np.float64, False), (clipped, X, np.float32, True), (rounded_twice, X, np.float32, False),
    (through_numpy, X, np.float32, False),
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
