"""Helper functions of Python kernels mean what they mean in CPython, and are noticed when they
change."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopfuse

X = np.array([-2.0, -0.5, 0.0, 1.0, 3.0])


def three_ways(v: Any) -> Any:
    if v > 1.0:
        return v * 2.0
    elif v < 0.0:
        return -v
    return v + 10.0


def updated(v: Any) -> Any:
    a = v
    a += 3.0
    a *= a
    return a


def exchanged(v: Any) -> Any:
    a, b = v, 2.0 * v
    a, b = b, a
    return a - 3.0 * b


def early(v: Any) -> Any:
    if v < 0.0:
        return 0.0
    w = v * 3.0
    w = w + 1.0
    return w


def assigned_in_branches(v: Any) -> Any:
    if v > 0.0:
        f = v
    else:
        f = v * v
    if f > 0.2:
        f += 1.0
    return f


def nested(v: Any) -> Any:
    sign = 1.0
    if v < 0.0:
        sign = -1.0
        if v < -1.0:
            return 7.0
    return sign * v


def keyword(v: Any, *, scale: float = 2.5) -> Any:
    return scale * v


square = lambda v: v * v + 1.0  # noqa: E731 - a lambda is what is tested


def twice(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(function)
    def wrapper(v: Any) -> Any:
        return 2.0 * function(v)

    return wrapper


@twice
def decorated(v: Any) -> Any:
    return v + 1.0


@functools.lru_cache
def cached(v: Any) -> Any:
    return v - 1.0


HELPERS = [
    three_ways, updated, exchanged, early, assigned_in_branches, nested, keyword, square, decorated, cached,
]  # fmt: skip


def use(helper: Callable[..., Any]) -> Callable[..., Any]:
    """A function that applies `helper` to each element."""

    def apply(x: Any) -> Any:
        y = np.empty_like(x)
        for i in range(len(x)):
            y[i] = helper(x[i])
        return y

    return apply


@pytest.mark.parametrize("helper", HELPERS, ids=[f"{k}" for k in range(len(HELPERS))])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_helper_means_what_it_means_in_python(helper: Any, dtype: Any) -> None:
    function, x = use(helper), X.astype(dtype)
    found = loopfuse.kernel(function, fp="strict")(x)
    np.testing.assert_array_equal(found, function(x))


class Weights:
    inner = 3.0


OBJECT = Weights()


def weighted(x: Any) -> Any:
    y = np.empty_like(x)
    for i in range(len(x)):
        y[i] = Weights.inner * x[i]
    return y


def test_attributes_that_change_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = loopfuse.kernel(weighted)
    np.testing.assert_array_equal(kernel(X), 3.0 * X)
    monkeypatch.setattr(Weights, "inner", 9.0)
    np.testing.assert_array_equal(kernel(X), 9.0 * X)


def test_what_changes_of_a_helper_is_seen_by_the_next_call() -> None:
    def make(factor: float) -> Callable[..., Any]:
        def helper(v: Any, c: float = factor) -> Any:
            return v * c + factor

        return helper

    helper = make(2.0)

    def apply(x: Any) -> Any:
        y = np.empty_like(x)
        for i in range(len(x)):
            y[i] = helper(x[i])
        return y

    kernel = loopfuse.kernel(apply)
    np.testing.assert_array_equal(kernel(X), 2.0 * X + 2.0)
    helper.__defaults__ = (5.0,)
    np.testing.assert_array_equal(kernel(X), 5.0 * X + 2.0)
    helper = make(7.0)  # the same text, at the same place, with another closure
    np.testing.assert_array_equal(kernel(X), 7.0 * X + 7.0)


def test_a_module_that_is_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The helper has the same name and the same line."""
    text = "def scale(v):\n    return v * {}\n"
    (tmp_path / "changing_helpers.py").write_text(text.format("2.0"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module = importlib.import_module("changing_helpers")

    def apply(x: Any) -> Any:
        y = np.empty_like(x)
        for i in range(len(x)):
            y[i] = module.scale(x[i])
        return y

    kernel = loopfuse.kernel(apply)
    np.testing.assert_array_equal(kernel(X), 2.0 * X)
    (tmp_path / "changing_helpers.py").write_text(text.format("11.0"))
    importlib.reload(module)
    np.testing.assert_array_equal(kernel(X), 11.0 * X)


def test_a_helper_that_is_the_same_again_is_not_compiled_again() -> None:
    def make() -> Callable[..., Any]:
        def helper(v: Any) -> Any:
            return v * 4.0

        return helper

    helper = make()

    def apply(x: Any) -> Any:
        y = np.empty_like(x)
        for i in range(len(x)):
            y[i] = helper(x[i])
        return y

    kernel = loopfuse.kernel(apply)
    kernel(X)
    before = kernel.specialise(X)
    helper = make()
    kernel(X)
    assert kernel.specialise(X) is before
