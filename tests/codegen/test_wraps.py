"""Remainders of wrapped places: compares where a place is seen to lie near its size, at any size; divisions elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import loopfuse
from loopfuse.base.dtypes import DType
from loopfuse.codegen.mlir.index import Facts, Linear, Operation
from loopfuse.codegen.mlir.wraps import is_never_negative, sizes_short
from loopfuse.lang.nodes import Iter, Symbol

X, W, V = Iter("x"), Symbol("W", DType.I64), Symbol("V", DType.I64)


def form(*terms: tuple[Iter | Symbol | Operation, int], constant: int = 0) -> Linear:
    return Linear(terms, constant)


SIZE = form((W, 1))
ZERO = Linear((), 0)


def facts_of(lower: Linear, upper: Linear) -> Facts:
    return Facts(1 << 31, sizes={"W"}, ranges={"x": (lower, upper)})


@pytest.mark.parametrize("away", range(-4, 5))
def test_places_near_the_size(away: int) -> None:
    """So many compares as the place lies beyond it."""
    found = sizes_short(form((X, 1), constant=away), SIZE, facts_of(ZERO, SIZE))
    assert found == (-away if abs(away) <= 3 else None)


def test_what_is_not_seen_is_divided() -> None:
    far = facts_of(ZERO, form((W, 1), constant=1))
    for left, size, facts in (
        (form((X, 1)), SIZE, far),
        (form((X, 1)), SIZE, facts_of(Linear((), -1), SIZE)),
        (form((X, 2)), SIZE, facts_of(ZERO, SIZE)),
        (form((X, 1)), form((V, 1)), facts_of(ZERO, SIZE)),
        (form((V, 1)), SIZE, facts_of(ZERO, SIZE)),
        (form((X, 1)), SIZE, Facts(1 << 31, sizes={"W"})),
        (form((Operation("mod", form((V, 1)), SIZE), 1)), SIZE, facts_of(ZERO, SIZE)),
    ):
        assert sizes_short(left, size, facts) is None


def test_a_remainder_is_a_place_again() -> None:
    inner = Operation("mod", form((X, 1), constant=-1), SIZE)
    facts = facts_of(ZERO, SIZE)
    assert sizes_short(form((inner, 1), constant=-1), SIZE, facts) == 1
    assert sizes_short(form((inner, 1), constant=-1), form((V, 1)), facts) is None


def test_sides_of_min_and_max() -> None:
    """`max` where one side is enough, `min` where both are; less of it the other way around."""
    facts = facts_of(ZERO, SIZE)
    near, far = form((W, 1)), form((V, 1))
    for op, factor, wanted in (("max", 1, True), ("min", 1, False), ("max", -1, False), ("min", -1, True)):
        either = Operation(op, near.times(factor), far.times(factor))
        assert is_never_negative(form((either, factor)), facts) is wanted
        both = Operation(op, near.times(factor), Linear((), 2 * factor))
        assert is_never_negative(form((both, factor)), facts)
    edge = Operation("min", Linear((), 2), SIZE)
    assert sizes_short(form((X, 1), constant=-1), SIZE, facts_of(ZERO, form((edge, 1)))) == 1
    assert sizes_short(form((X, 1), constant=1), SIZE, facts_of(form((edge, 1)), SIZE)) == -1


TORUS = """
kernel torus(v: f32[H, W], out s: f32[H, W]):
    temp b: f32[H, W]
    for y in 0..H, x in 0..W:
        b[y, x] = v.wrap[y-1, x+1] + 2.0 * v.wrap[y+3, x-3]
    for y in 0..H, x in 0..W:
        s[y, x] = b.wrap[y+1, x-1] - b.wrap[y, x+2] + b[y, x]
"""


def torus(v: np.ndarray) -> np.ndarray:
    b = np.roll(v, (1, -1), (0, 1)) + np.float32(2) * np.roll(v, (-3, 3), (0, 1))
    return np.roll(b, (-1, 1), (0, 1)) - np.roll(b, (0, -2), (0, 1)) + b


@pytest.mark.parametrize("fuel", (None, 0))
def test_any_size_has_its_places(fuel: int | None) -> None:
    """Also where the place lies several sizes beyond."""
    kernel = loopfuse.loads(TORUS, target="cpu")
    assert isinstance(kernel, loopfuse.Kernel)
    kernel = kernel.with_options(fuel=fuel)
    for height in (1, 2, 3, 5, 40):
        for width in (1, 2, 3, 4, 7, 70):
            v = np.random.default_rng(height * width).integers(-9, 9, (height, width)).astype(np.float32)
            s = np.full_like(v, np.nan)
            kernel(v=v, s=s)
            assert np.array_equal(s, torus(v)), (height, width)


def test_no_division_is_left() -> None:
    kernel = loopfuse.loads(TORUS, target="cpu")
    assert isinstance(kernel, loopfuse.Kernel)
    mlir = kernel.compile("cpu", emit={"mlir"}).mlir
    assert mlir is not None and not any(word in mlir for word in ("remsi", "remui", "floordivsi"))
