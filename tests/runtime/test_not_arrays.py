"""What is no array is refused with the same words in both doors, at a first call and at later ones:
arrays that are not loaded, copies whose result would be lost, and objects that raise."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse import UserError
from loopfuse.testing import assert_equivalent

TEXT = "kernel k(x: f32[N], inout y: f32[N]):\n    for i in 0..N:\n        y[i] = y[i] + x[i]\n"


def plain(x, y):  # pyright: ignore
    for i in range(len(x)):
        y[i] = y[i] + x[i]


def renamed(x, y):  # pyright: ignore
    z = np.zeros_like(y)
    for _ in range(2):
        for i in range(len(x)):
            z[i] = y[i] + x[i]
        y, z = z, y


def _ones() -> Any:
    return np.ones(8, np.float32)


def _doors(first: Any) -> dict[str, Callable[..., Any]]:
    """Each way to get to the message, with arrays like `first` seen before at the later one."""
    python = loopfuse.kernel(plain, target="cpu")
    python(first(), first())
    return {
        "lf": loopfuse.loads(TEXT, target="cpu"),
        "python": loopfuse.kernel(plain, target="cpu"),
        "exchanged": loopfuse.kernel(renamed, target="cpu"),
        "python, later": python,
    }


def _refusals(first: Any, odd: Any, place: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, call in _doors(first).items():
        given = [first(), first()]
        given[place] = odd
        with pytest.raises(UserError) as told:
            call(*given)
        (found[name],) = told.value.diagnostics
        assert found[name].code in ("not-an-array", "argument-type")
    return found


@pytest.mark.parametrize(
    ("home", "words", "written"),
    [
        ("dask.array.core", "load all of it: `x.compute()`", "`t = y.compute()`, pass `t`"),
        ("xarray.core.dataarray", "load all of it: `x.to_numpy()`", "`t = y.to_numpy()`, pass `t`"),
    ],
)
def test_arrays_that_are_not_loaded(home: str, words: str, written: str) -> None:
    body = {"__module__": home, "shape": (8,), "dtype": np.dtype(np.float32), "ndim": 1}
    lazy = type("Array", (), body)()
    assert {one.fix for one in _refusals(_ones, lazy, 0).values()} == {words}
    (fix,) = {one.fix for one in _refusals(_ones, lazy, 1).values()}
    assert fix == f"load all of it: {written}, which then holds the result"
    kernel = loopfuse.kernel(plain, target="cpu")
    with pytest.raises(UserError, match="load all of it"):
        kernel.explain(lazy, lazy)


def test_a_result_is_not_left_in_a_copy() -> None:
    torch = pytest.importorskip("torch")

    def first() -> Any:
        return torch.ones(8)

    negated = torch._neg_view(torch.ones(8))
    assert {one.fix for one in _refusals(first, negated, 0).values()} == {"pass `x.resolve_neg()`"}
    found = _refusals(first, negated, 1)
    words = "copy it in and out: `t = y.resolve_neg()`, pass `t`, then `y.copy_(t)`"
    assert {one.fix for one in found.values()} == {words}
    t = negated.resolve_neg()
    loopfuse.kernel(plain)(first(), t)
    negated.copy_(t)
    assert negated.resolve_neg().tolist() == [0.0] * 8
    masked = np.ma.masked_array(_ones(), _ones() > 2)
    found = _refusals(_ones, masked, 1)
    words = "copy it in and out: `t = y.filled(0)`, pass `t`, then `y[...] = t`"
    assert {one.fix for one in found.values()} == {words}
    (fix,) = {one.fix for one in _refusals(first, torch.ones(8).to_sparse(), 1).values()}
    assert fix == "`t = y.to_dense()`, pass `t`, which then holds the result"


PROTOCOLS = ("__cuda_array_interface__", "__array_interface__", "__dlpack__")


@pytest.mark.parametrize("error", [RuntimeError, OSError])
@pytest.mark.parametrize("name", [*PROTOCOLS, "shape", "dtype", "ndim", "__array__"])
@pytest.mark.parametrize("as_property", [True, False])
def test_what_a_property_raises_is_told(
    name: str, error: type[Exception], as_property: bool
) -> None:
    def raising(self: object, **_: object) -> Any:
        raise error("it is\ngone")

    body: dict[str, Any] = {"shape": (8,), "dtype": np.dtype(np.float32), "ndim": 1}
    body[name] = property(raising) if as_property else raising
    odd = type("Odd", (), body)()
    for place in (0, 1):
        for one in _refusals(_ones, odd, place).values():
            if as_property and name in PROTOCOLS:
                (note,) = one.notes
                assert note.startswith(f"its `{name}` raised {error.__name__}: ") and "\n" not in note
            assert "Odd" in one.message and one.fix.startswith("pass ")
    with pytest.raises(UserError):
        assert_equivalent(loopfuse.loads(TEXT, target="cpu"), odd, _ones())


def test_what_a_function_writes_is_read_off_its_text() -> None:
    from loopfuse.frontend.python.written import may_write

    def rows(a, b, c, d):  # pyright: ignore
        for i in range(3):
            a[i][0] += b[i]
        c, d = d, c

    def swapped(a, b):  # pyright: ignore
        a, b = b, a
        b[0] = 1.0

    assert [may_write(rows, one) for one in "abcd"] == [True, False, False, False]
    assert may_write(swapped, "a")
    module = ModuleType("made")
    exec("def made(x):\n    x[0] = 1.0\n", module.__dict__)
    assert not may_write(module.made, "x")
