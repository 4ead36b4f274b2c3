"""Which linear forms are even whatever their atoms are: held against trying numbers."""

from __future__ import annotations

from itertools import product

import pytest

from loopfuse.base.dtypes import DType
from loopfuse.codegen.mlir.index import Facts, is_even, known_odd, linear
from loopfuse.lang.index import evaluate_index
from loopfuse.lang.nodes import Binary, Compare, Expr, Iter, Symbol, combine, integer

R, C, W, H = Iter("r"), Iter("c"), Symbol("W", DType.I64), Symbol("H", DType.I64)


def form(text: str) -> Expr:
    """The expression of a Python text over r, c, W and H."""

    class Name:
        def __init__(self, expr: Expr) -> None:
            self.expr = expr

        def _with(self, op: str, other: object) -> Name:
            right = other.expr if isinstance(other, Name) else integer(int(other))  # type: ignore[call-overload]
            return Name(combine(op, self.expr, right))

        __add__ = __radd__ = lambda self, other: self._with("add", other)
        __mul__ = __rmul__ = lambda self, other: self._with("mul", other)
        __sub__ = lambda self, other: self._with("sub", other)  # noqa: E731
        __mod__ = lambda self, other: self._with("mod", other)  # noqa: E731
        __floordiv__ = lambda self, other: self._with("floordiv", other)  # noqa: E731

    names = {"r": Name(R), "c": Name(C), "W": Name(W), "H": Name(H)}
    return eval(text, {}, names).expr


@pytest.mark.parametrize(
    ("text", "odd", "even"),
    [
        ("r * W - r % 2 + 2 * c", ("W",), True),
        ("(8 * r + c) * W - (8 * r + c) % 2", ("W",), True),
        ("r * W - r % 4", ("W",), True),
        ("r * W - r % 2", (), False),
        ("r * W - r % 3", ("W",), False),
        ("r * W - r // 2", ("W",), False),
        ("r * W + c", ("W",), False),
        ("r * W + r * H", ("W", "H"), True),
        ("r * r + r", (), True),
        ("r + W", ("W",), False),
        ("W + H", ("W", "H"), True),
        ("r * W - r % 2 + 1", ("W",), False),
    ],
)
def test_forms(text: str, odd: tuple[str, ...], even: bool) -> None:
    facts = Facts(1 << 20, odd=frozenset(odd))
    assert is_even(linear(form(text), facts), facts) == even
    if even:
        for r, c, w, h in product(range(5), repeat=4):
            values = {"r": r, "c": c, "W": 2 * w + 1 if "W" in odd else w, "H": 2 * h + 1 if "H" in odd else h}
            assert evaluate_index(form(text), values) % 2 == 0


def test_what_a_guard_says_is_odd() -> None:
    rest = Binary("mod", W, integer(2), DType.I64)
    assert known_odd(Compare("eq", rest, integer(1))) == {"W"}
    assert known_odd(Compare("eq", rest, integer(0))) == frozenset()
    three = Binary("mod", W, integer(3), DType.I64)
    assert known_odd(Compare("eq", three, integer(1))) == frozenset()
