"""Random expressions: checker and interpreter against CPython with NumPy scalars (NEP 50).

The same text is evaluated twice: as `.lf` under fp="strict", and by Python's own `eval` on NumPy
scalars (typed parameters) and Python numbers (literals and the iterator). Types and bits agree.
"""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loopfuse.base.diagnostics import Source
from loopfuse.frontend.lf.door import parse
from loopfuse.lang.check.check import check
from loopfuse.lang.interp import interpret
from loopfuse.lang.nodes import For, Store
from loopfuse.lang.walk import walk_stmts

KINDS = {"a": np.float32, "b": np.float64, "k": np.int32, "n": np.int64}
NAMES = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64"}

leaves = st.one_of(
    st.sampled_from(["a", "b", "k", "n", "i"]),
    st.integers(0, 5).map(str),
    st.sampled_from(["0.1", "0.5", "2.0", "1e10"]),
)


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "/", "//", "%"])
    comparisons = st.sampled_from(["<", "<=", "==", "!=", ">", ">="])
    return st.one_of(
        st.tuples(inner, operators, inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda e: f"(-{e})"),
        inner.map(lambda e: f"abs({e})"),
        inner.map(lambda e: f"({e})**2"),
        st.tuples(inner, comparisons, inner, inner).map(
            lambda t: f"({t[0]}*{t[3]} if {t[0]} {t[1]} {t[2]} else {t[0]}*{t[3]}*2)"
        ),
    )


expressions = st.recursive(leaves, _larger, max_leaves=8)
floats = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -3.5, 0.1, 1e-30, 3e38, float("inf"), float("nan")]),
    st.floats(-100, 100),
)
i32s = st.one_of(st.integers(-9, 9), st.sampled_from([2**31 - 1, -(2**31), 46341]))
i64s = st.one_of(st.integers(-9, 9), st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1]))


@settings(max_examples=200, deadline=None)
@given(expressions, floats, floats, i32s, i64s, st.integers(0, 3))
def test_expressions_are_numpys(text: str, a: float, b: float, k: int, n: int, i: int) -> None:
    with np.errstate(all="ignore"):
        values = {"a": np.float32(a), "b": np.float64(b), "k": np.int32(k), "n": np.int64(n)}
        try:
            expected = eval(text, {**values, "i": i, "abs": abs, "__builtins__": {}})
        except (ZeroDivisionError, OverflowError):
            assume(False)  # Python's own numbers raise where the language gives inf, nan or 0
            return
        weak = isinstance(expected, int | float) and not isinstance(expected, np.generic)
        if weak and isinstance(expected, int):
            assume(abs(expected) < 2**63)
        typed = np.asarray(expected)
        kind = NAMES[typed.dtype.name]
        program = f"""
kernel test(a: f32, b: f64, k: i32, n: i64, out y: {kind}[4]):
    for i in 0..4:
        y[i] = {text}
"""
        kernel = check(parse(Source("test.lf", program)), fp="strict").kernels[0]
        loop = kernel.body[0]
        assert isinstance(loop, For)
        (store,) = (stmt for stmt in walk_stmts(loop.body) if isinstance(stmt, Store))
        # The right type without a conversion at the store.
        assert store.value.dtype.numpy_name == typed.dtype.name
        got = interpret(kernel, values)["y"][i]
    assert got.dtype == typed.dtype
    assert got.tobytes() == typed.tobytes() or (got != got and typed != typed), (got, typed)
