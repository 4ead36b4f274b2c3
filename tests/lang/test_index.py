"""Index expressions: built, evaluated and printed as Python formulas."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopfuse.base.dtypes import DType
from loopfuse.lang.index import evaluate_index, trip_count
from loopfuse.lang.index_text import to_python
from loopfuse.lang.linear import linear, linear_form, tidy
from loopfuse.lang.nodes import (
    Binary,
    Cast,
    Compare,
    Expr,
    Iter,
    Select,
    Symbol,
    Unary,
    combine,
    integer,
)
from loopfuse.lang.walk import iterators, loads, map_expr, substitute, symbols, walk_expr

H, W, N = (Symbol(name, DType.I64) for name in "HWN")
i, j = Iter("i"), Iter("j.2")


def op(name: str, left: Expr | int, right: Expr | int) -> Expr:
    """A Binary of dtype i64, unsimplified."""
    a = integer(left) if isinstance(left, int) else left
    b = integer(right) if isinstance(right, int) else right
    return Binary(name, a, b, DType.I64)


def chosen(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    """A Select of dtype i64."""
    return Select(condition, then, otherwise, DType.I64)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (op("mul", op("mul", 4, H), W), "4*H*W"),
        (op("add", op("mul", H, W), op("mul", W, H)), "2*H*W"),
        (op("add", N, 0), "N"),
        (op("sub", N, N), "0"),
        (op("add", op("sub", 0, i), N), "N - i"),
        (op("sub", op("mul", 2, N), op("add", 1, N)), "N - 1"),
        (op("floordiv", op("add", N, 1), 2), "(N + 1)//2"),
        (op("floordiv", op("mul", 4, N), 2), "2*N"),
        (op("mod", op("sub", i, 1), N), "(i - 1) % N"),
        (op("mul", 3, op("mod", i, 2)), "3*(i % 2)"),
        (op("add", op("mod", i, 2), 1), "i % 2 + 1"),
        (op("min", op("min", N, H), 3), "min(N, H, 3)"),
        (op("max", 0, op("max", 2, N)), "max(N, 2)"),
        (op("max", 0, op("sub", N, 1)), "max(0, N - 1)"),
        (op("mul", op("add", N, 1), op("sub", N, 1)), "N*N - 1"),
        (Unary("neg", N, DType.I64), "-N"),
        (Cast(Symbol("k", DType.I32), DType.I64), "k"),
        (op("add", j, 1), "j + 1"),
        (integer(-3), "-3"),
        (op("floordiv", 7, 2), "3"),
        (op("add", chosen(Compare("ge", N, H), N, op("mul", 2, H)), 1), "(N if N >= H else 2*H) + 1"),
    ],
)
def test_to_python(expr: Expr, text: str) -> None:
    assert to_python(expr) == text


leaves = st.one_of(st.sampled_from([H, W, N, i]), st.integers(-5, 5).map(integer))


def _larger(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    divisors = st.integers(1, 4).map(integer)
    compared = st.builds(Compare, st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"]), inner, inner)
    both = st.builds(Binary, st.sampled_from(["and", "or"]), compared, compared, st.just(DType.BOOL))
    neither = st.builds(Unary, st.just("not"), both, st.just(DType.BOOL))
    return st.one_of(
        st.builds(op, st.sampled_from(["add", "sub", "mul", "min", "max"]), inner, inner),
        st.builds(op, st.sampled_from(["floordiv", "mod"]), inner, divisors),
        st.builds(lambda e: Unary("neg", e, DType.I64), inner),
        st.builds(chosen, compared | both | neither, inner, inner),
    )


expressions = st.recursive(leaves, _larger, max_leaves=8)
values = st.fixed_dictionaries({name: st.integers(-6, 9) for name in ("H", "W", "N", "i")})


# A busy machine makes them slowly.
SLOW_IS_FINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SLOW_IS_FINE
@given(expressions, values)
def test_printing_keeps_the_value(expr: Expr, names: dict[str, int]) -> None:
    expected = evaluate_index(expr, names)
    assert eval(to_python(expr), {"min": min, "max": max}, dict(names)) == expected


@SLOW_IS_FINE
@given(st.sampled_from(["add", "sub", "mul", "floordiv", "mod", "min", "max"]),
       expressions, st.integers(1, 5), values)  # fmt: skip
def test_combine_keeps_the_value(name: str, expr: Expr, k: int, names: dict[str, int]) -> None:
    plain = op(name, expr, k)
    assert evaluate_index(combine(name, expr, integer(k)), names) == evaluate_index(plain, names)


@SLOW_IS_FINE
@given(st.integers(-9, 9), st.integers(-9, 9), st.sampled_from([-3, -2, -1, 1, 2, 3]))
def test_trip_count_is_the_length_of_range(lower: int, upper: int, step: int) -> None:
    names = {"i": lower, "N": upper}
    assert evaluate_index(trip_count(i, N, step), names) == len(range(lower, upper, step))


@SLOW_IS_FINE
@given(expressions, expressions, values)
def test_substitute(expr: Expr, value: Expr, names: dict[str, int]) -> None:
    inner = {**names, "i": evaluate_index(value, names)}
    replaced = substitute(expr, {"i": value})
    assert evaluate_index(replaced, names) == evaluate_index(expr, inner)
    assert map_expr(lambda e: e, expr) is expr
    assert loads(expr) == ()
    named = {e.name for e in walk_expr(expr) if isinstance(e, Iter | Symbol)}
    assert iterators(expr) | symbols(expr) == named


@pytest.mark.parametrize("sign", ["+", "-", "*", "//", "%", "<", "<=", ">", ">="])
@given(a=st.integers(-20, 20), b=st.integers(1, 20))
def test_operators(sign: str, a: int, b: int) -> None:
    """Expressions have Python's operators, with expressions and with numbers on either side."""
    wanted = eval(f"{a} {sign} {b}")
    values = {"i": a, "W": b}
    ways = {"left": i, "right": W, "a": integer(a), "b": integer(b)}
    for text in (f"left {sign} right", f"left {sign} ({b})", f"({a}) {sign} right", f"a {sign} b"):
        found = eval(text, ways)
        if isinstance(wanted, bool):
            found = Select(found, integer(1), integer(0), DType.I64)
        assert evaluate_index(found, values) == int(wanted), text


def test_operators_fold_and_drop() -> None:
    """Constants are folded and neutral operands dropped, and nothing else changes its shape."""
    assert i + 0 == i and 1 * i == i and i // 1 == i and i % 1 == integer(0) and 0 * i == integer(0)
    assert i + (-3) == Binary("sub", i, integer(3), DType.I64) and i - (-3) == i + 3
    assert (i + 1) + 1 == Binary("add", i + 1, integer(1), DType.I64)


def test_comparison_has_no_truth_value() -> None:
    """`0 <= i < N` would forget its first half."""
    with pytest.raises(TypeError, match="not a truth value"):
        assert 0 <= i < N


def test_one_linear_form() -> None:
    """Sums of narrow integers wrap: they are atoms of a linear form. Conversions that keep every number are not
    seen."""
    small = Symbol("s", DType.I32)
    narrow = Binary("add", small, Symbol("u", DType.I32), DType.I32)
    assert linear(narrow) is None and linear_form(narrow) == (0, ((narrow, 1),))
    assert linear(Cast(small, DType.I64) * 2 + i - 3) == {"": -3, "s": 2, "i": 1}
    assert linear(i % 2 + 1) is None and linear_form(i % 2 + 1) == (1, ((i % 2, 1),))
    assert tidy((N + i) - (i + 2)) == N - 2
