"""`Needs` in a report: the same sizes are fine, nothing is said twice."""

from __future__ import annotations

import itertools

import pytest

import loopfuse
from loopfuse.runtime.formulas import evaluate

PROGRAMS = {
    "stencil": """kernel k(x: f32[H, W], out y: f32[H, W]):
    for i in 1..H-1, j in 2..W-2:
        y[i, j] = x[i-1, j] + x[i, j+2] + x[i, j-2] + x[i+1, j]
    for i in 0..H, j in 0..2:
        y[i, j] = x[i, j]
    for i in 0..3, j in 0..W:
        y[i, j] = x[i, j] + x[i, 7]
""",
    "growing": """kernel k(x: f32[H, W], out y: f32[4]):
    y[0] = x[0, 0]
    y[1] = x[1, 0]
    y[2] = x[1, 5]
    y[3] = x[3, 2]
""",
    "assumed": """kernel k(x: f32[H, W], out y: f32[H, W], n: i64):
    assume n >= 2 and H >= n + 3 and W >= H
    for i in 0..H, j in 0..n:
        y[i, j] = x[i, j]
    for i in 0..n + 1, j in 0..W:
        y[i, j] = x[i, j] + 1.0
""",
    "several": """kernel k(x: f32[H], y: f32[W], out z: f32[H]):
    for i in 0..H:
        z[i] = y[i] + y[i + 1] + y[2*i]
""",
    "none": "kernel k(x: f32[H], out y: f32[H]):\n    for i in 0..H:\n        y[i] = x[i]\n",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_sizes_in_fewer_words(name: str) -> None:
    kernel = loopfuse.loads(PROGRAMS[name], target="cpu")
    needs = kernel.explain(target="cpu").report.preconditions
    every = [one["text"] for one in kernel.compile("cpu").manifest["preconditions"]]
    cases = [dict(zip("HWn", case)) for case in itertools.product(range(13), repeat=3)]
    truth = [[bool(evaluate(text, case)) for text in needs] for case in cases]
    for case, row in zip(cases, truth):
        assert all(row) == all(evaluate(text, case) for text in every), case
    for k in range(len(needs)):  # each refuses something that the others do not
        assert any(not row[k] and all(row[:k] + row[k + 1 :]) for row in truth), needs[k]
    assert list(needs) == sorted(needs, key=len)
    assert sum(map(len, needs)) <= sum(map(len, every))


def test_what_it_says() -> None:
    kernel = loopfuse.loads(PROGRAMS["growing"], target="cpu")
    assert kernel.explain(target="cpu").report.preconditions == ("H >= 4", "W >= 6")
