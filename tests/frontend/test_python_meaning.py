"""`verify` and `assert_equivalent` compare a Python kernel with its function in CPython, so that no fault
of the door can pass them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse import UserError
from loopfuse.frontend.python import stmt as pyfunc_stmt
from loopfuse.lang.surface import syntax
from loopfuse.testing import assert_equivalent


def make() -> Any:
    """A kernel of its own each time: what was read once is not read again."""

    @loopfuse.kernel
    def smooth(x: loopfuse.f32["N"], y: loopfuse.f32["N"], t: loopfuse.f32):
        blend = np.empty_like(x)
        total = 0.0
        for i in range(1, len(x) - 1):
            total += x[i]
            y[i] = y[i] + t * np.exp(x[i - 1])
            blend[i] = total * y[i]
        return blend

    return smooth


def test_a_kernel_that_means_what_python_means() -> None:
    found = make().verify()
    assert found and "interpreted and CPython agree" in str(found)
    assert_equivalent(make())
    x = np.ones(9, np.float32)
    assert_equivalent(make(), x, x.copy(), 0.3)


def test_a_fault_of_the_door_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = pyfunc_stmt._accumulation

    def wrong(place: Any, value: Any) -> Any:
        op, expr = right(place, value)
        return ("-", expr) if op == "+" and isinstance(place, syntax.Subscript) else (op, expr)

    monkeypatch.setattr(pyfunc_stmt, "_accumulation", wrong)
    monkeypatch.setenv("LOOPFUSE_CACHE", "0")
    found = make().verify()
    assert not found and "(CPython)" in str(found) and "`y`" not in str(found)
    assert {one.array for one in found.mismatches} <= {"y", "blend"}
    with pytest.raises(AssertionError, match="differs from its function in CPython"):
        assert_equivalent(make())


def test_where_python_has_no_result_nothing_is_compared() -> None:
    """A division of Python numbers by zero is an error there, and 0 here."""

    @loopfuse.kernel
    def divided(x: loopfuse.f64["N"], n: int):
        for i in range(len(x)):
            x[i] = i // (n - n)

    assert divided.verify()


def test_an_inverted_bool_is_not_of_numpy_and_refused_of_python() -> None:
    """`~` of an np.bool is `not`; of a Python bool it is -1 or -2, both true."""

    def chosen(x, y):  # pyright: ignore
        for i in range(len(x)):
            y[i] = 5 if ~(x[i] > 2) else 7

    def iterated(x, y):  # pyright: ignore
        for i in range(len(x)):
            y[i] = 5 if ~(i > 2) else 7  # pyright: ignore

    def mended(x, y):  # pyright: ignore
        for i in range(len(x)):
            y[i] = 5 if not (i > 2) else 7

    x = np.arange(6, dtype=np.float32)
    for function in (chosen, mended):
        y = np.zeros(6, np.float32)
        loopfuse.kernel(function, target="cpu")(x, y)
        assert y.tolist() == [5, 5, 5, 7, 7, 7]
    with pytest.raises(UserError) as caught:
        loopfuse.kernel(iterated, target="cpu")(x, x.copy())
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.fix) == ("inverted-bool", "write `not (i > 2)`")
