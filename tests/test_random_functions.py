"""Random Python functions (tests/fuzz/python_programs.py) beside CPython, to the bit: all are read and
interpreted, every third is compiled and called between guard pages."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from fuzz import pipelines, python_quick
from fuzz.python_watch import deviation

PROGRAMS, BLOCK = 300, 12
FIRST = 1_000_000
"""Beyond the seeds of campaigns."""


@pytest.mark.parametrize("block", range(PROGRAMS // BLOCK))
def test_random_functions(block: int) -> None:
    """A difference, a crash, or a plan that is found to be wrong is a failure; what is refused is
    refused with a code."""
    seen: Counter[str] = Counter()
    for number in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        found = python_quick.check(number, is_compiled=number % 3 == 0)
        assert found.status != "failed", f"program {number}: {found.kind}\n{found.detail}"
        seen[found.status] += 1
    assert seen["ok"] > BLOCK // 2, seen


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("out[0] = twice(3.0)", ""),
        ("out[0] = max(0.0, -0.0)", "an extreme of both zeros"),
        ("out[0] = np.int64(2**62) * np.int64(4)", "an integer leaves its type"),
        ("out[0] = int(1e30)", "a cast to an integer that does not hold it"),
    ],
)
def test_what_python_may_do_otherwise_is_seen(body: str, reason: str) -> None:
    """Defaults of helpers, which a module makes while it is defined, included."""
    text = f"import math\nimport numpy as np\ndef twice(v, k=np.int32(2)):\n    return v * k\ndef f(out):\n    {body}\n"
    scope: dict[str, object] = {}
    exec(text, scope)
    with np.errstate(all="ignore"):
        assert deviation(scope["f"], text, {"out": np.zeros(1)}) == reason  # pyright: ignore[reportArgumentType]


def test_random_pipelines() -> None:
    """Of loops that write parts of arrays that were created full (tests/fuzz/pipelines.py)."""
    for number in range(FIRST, FIRST + 12):
        found = pipelines.check(number)
        assert found.status == "ok", f"program {number}: {found.code} {found.kind}\n{found.detail}"
