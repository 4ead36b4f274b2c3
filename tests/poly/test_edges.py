"""Edge modes as index arithmetic against NumPy's own padding."""

from __future__ import annotations

import numpy as np
import pytest

from loopfuse.base.dtypes import DType
from loopfuse.lang.index import evaluate_index
from loopfuse.lang.nodes import Iter, Load, Select, Symbol
from loopfuse.lang.walk import loads, walk_expr
from loopfuse.poly.edges import lower_edges

N = Symbol("n", DType.I64)
NUMPY = {"clamp": "edge", "wrap": "wrap", "reflect": "reflect", "symmetric": "symmetric"}


@pytest.mark.parametrize("mode", NUMPY)
@pytest.mark.parametrize("extent", [1, 2, 3, 5])
def test_mode_is_numpys_at_any_distance(mode: str, extent: int) -> None:
    far = 23
    padded = np.pad(np.arange(extent), far, mode=NUMPY[mode])
    lowered = lower_edges(Load("a", (Iter("i"),), DType.F32, mode), {"a": (N,)})
    assert isinstance(lowered, Load) and not lowered.mode
    for at in range(-far, extent + far):
        index = evaluate_index(lowered.index[0], {"i": at, "n": extent})
        assert index == padded[at + far], at


def test_zero_becomes_a_select() -> None:
    lowered = lower_edges(Load("a", (Iter("i"),), DType.F32, "zero"), {"a": (N,)})
    assert isinstance(lowered, Select)
    assert [each.mode for each in loads(lowered)] == [""]


def test_what_is_known_costs_nothing() -> None:
    load = Load("a", (Iter("i"),), DType.F32, "clamp")
    assert lower_edges(load, {"a": (N,)}, lambda e, n: (True, True)) == Load(
        "a", (Iter("i"),), DType.F32
    )
    low = lower_edges(load, {"a": (N,)}, lambda e, n: (True, False))
    assert [getattr(each, "op", "") for each in walk_expr(low)].count("max") == 0
