"""Formulas compute as the language does, and nothing else gets through."""

from __future__ import annotations

import pytest

from loopfuse.base.diagnostics import InternalError
from loopfuse.runtime.formulas import evaluate, names_in


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 * N + 1", 15),
        ("(N - 10) // 2", -2),
        ("(N - 10) % 4", 1),
        ("min(N, M, 3) + max(0, M - 9)", 3),
        ("-N", -7),
        ("N // Z", 0),
        ("N % Z", 0),
        ("N >= 3 and M < 5", True),
        ("not N == 7 or M != 4", False),
        ("0 <= N < 8", True),
        ("N if M else 0", 7),
    ],
)
def test_values(text: str, expected: object) -> None:
    assert evaluate(text, {"N": 7, "M": 4, "Z": 0}) == expected


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "N.bit_length()", "[N][0]", "N ** 9", "lambda: N", "1.5", "'a'",
     "min(N, key=M)", "N +", "(" * 500, "f(N)", "N if", "print"],
)  # fmt: skip
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(InternalError):
        evaluate(text, {"N": 7, "M": 4})


def test_names() -> None:
    assert names_in("min(N, 2 * M) // 3") == {"N", "M"}
