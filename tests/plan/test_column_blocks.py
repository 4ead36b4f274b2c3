"""Columns that a CPU adds up in blocks of rows: which are taken, and that the bits are those of the blocks, whoever runs them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU, Options, Target
from loopfuse.lang.index import evaluate_index
from loopfuse.lang.interp import interpret
from loopfuse.plan import registry
from loopfuse.plan.strategies.rows.blocks import ROWS
from loopfuse.plan.units.rules import Rules
from loopfuse.tree.interp.run import run_tree
from loopfuse.tree.looptree import Launch
from loopfuse.tree.walk import split_chain
from tests.plan.mutate_columns import STATISTICS, SUMS, small_blocks

HEAD = "kernel f(x: f32[R, C], g: f32[R, C], a: f32[R], inout w: f32[C], out s: f32[C], out y: f32[R, C]):\n"

TAKEN = {
    "sums": (1, """    for c in 0..C:
        s[c] = sum(r in 0..R: x[r, c])
"""),
    "rows first": (1, """    for r in 0..R, c in 0..C:
        w[c] += x[r, c]
"""),
    "weighted rows": (1, """    for r in 0..R, c in 0..C:
        w[c] += x[r, c] * a[r]
"""),
    "several at once": (1, """    for c in 0..C:
        s[c] = max(r in 0..R: x[r, c])
        w[c] *= 0.5
        for r in 0..R:
            w[c] += x[r, c] * g[r, c]
"""),
    "a value made on the way": (1, """    for c in 0..C:
        for r in 0..R:
            let d = x[r, c] - g[r, c]
            w[c] += d * d
            y[r, c] = d
"""),
    "a condition behind": (1, """    for c in 0..C:
        s[c] = sum(r in 0..R: x[r, c]) / 4.0
        if s[c] < 0.5:
            s[c] = 1.0
"""),
    "a pass that needs another": (2, """    for c in 0..C:
        s[c] = sum(r in 0..R: x[r, c]) / 4.0
        w[c] = sum(r in 0..R: (x[r, c] - s[c]) * (x[r, c] - s[c]))
"""),
    "part of the rows and columns": (1, """    for c in 1..C-1:
        s[c] = sum(r in 2..R: x[r, c-1])
"""),
}  # fmt: skip
"""With how many passes."""

LEFT = {
    "a register between passes": """    for c in 0..C:
        let m = sum(r in 0..R: x[r, c]) / 4.0
        s[c] = sum(r in 0..R: (x[r, c] - m) * (x[r, c] - m))
""",
    "rows": """    for r in 0..R:
        y[r, 0] = sum(c in 0..C: x[r, c])
""",
    "few rows": """    for c in 0..C:
        s[c] = sum(r in 0..4: x[r, c])
""",
    "running values": """    for c in 0..C:
        for r in 0..R:
            w[c] += x[r, c]
            y[r, c] = w[c]
""",
    "rows that columns bound": """    for c in 0..C:
        s[c] = sum(r in 0..min(c, R): x[r, c])
""",
    "steps of two": """    for c in 0..C step 2:
        s[c] = sum(r in 0..R: x[r, c])
""",
    "iterations of a loop around": """    for t in 0..3:
        for c in 0..C:
            w[c] = w[c] * 0.5 + sum(r in 0..R: x[r, c])
""",
}


def planned(text: str, reassociate: bool = True, target: Target = CPU) -> pipeline.Planned:
    program = pipeline.read_program(Source("f.lf", text))
    made = pipeline.plan_kernel(program, "f", Options(target=target, reassociate=reassociate))
    assert made.verdict.answer == "proved", made.verdict
    return made


def in_blocks(made: pipeline.Planned) -> list[Launch]:
    return [launch for launch in made.tree.launches if "_blocks" in launch.name]


@pytest.mark.parametrize("name", TAKEN)
def test_columns_are_taken(name: str) -> None:
    passes, text = TAKEN[name]
    assert len(in_blocks(planned(HEAD + text))) == passes


@pytest.mark.parametrize("name", LEFT)
def test_nothing_else_is(name: str) -> None:
    assert not in_blocks(planned(HEAD + LEFT[name]))


def test_sums_keep_their_order_where_they_must() -> None:
    assert not in_blocks(planned(HEAD + TAKEN["sums"][1], reassociate=False))
    assert in_blocks(planned(HEAD + TAKEN["sums"][1].replace("sum(", "max("), reassociate=False))


def test_a_gpu_has_none() -> None:
    assert not in_blocks(planned(SUMS, target=Target("sm_90")))


def given(made: pipeline.Planned, sizes: dict[str, int], whole: bool = False) -> dict[str, Any]:
    rng = np.random.default_rng(sum(sizes.values()))
    found: dict[str, Any] = {}
    for array in made.program.kernel.arrays:
        shape = tuple(evaluate_index(extent, sizes) for extent in array.extents)
        values = rng.integers(-3, 4, shape) if whole else rng.standard_normal(shape)
        found[array.name] = values.astype(array.dtype.numpy_name)
    return found


@pytest.mark.parametrize("text", [SUMS, STATISTICS, *(HEAD + text for _, text in TAKEN.values())])
def test_the_tree_has_each_row_once(text: str) -> None:
    """On whole numbers, of which every order gives the same."""
    with small_blocks():
        made = planned(text)
    for rows, columns in [(0, 3), (1, 1), (10, 2), (11, 4), (15, 3), (17, 1), (23, 7)]:
        sizes = {"R": rows, "C": columns}
        arrays = given(made, sizes, whole=True)
        right = interpret(made.program.kernel, arrays, sizes)
        run_tree(made.tree, arrays, sizes, order="shuffled")
        for name, value in right.items():
            np.testing.assert_allclose(arrays[name], value, 1e-6, 1e-6, err_msg=f"{name} at {sizes}")


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32"])
def test_the_bits_are_those_of_the_blocks(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By any number of threads, with any number of columns."""
    text = f"kernel f(x: {dtype}[R, C], inout s: {dtype}[C]):\n    for r in 0..R, c in 0..C:\n        s[c] += x[r, c]\n"
    kernel = loopfuse.loads(text)
    rng = np.random.default_rng(0)
    for rows, columns in [(2 * ROWS + 1, 1), (3 * ROWS, 5), (2 * ROWS + 3, 2050), (4 * ROWS - 1, 65), (0, 4), (ROWS, 0)]:
        numbers = rng.standard_normal((rows, columns)) * (100 if dtype == "i32" else 1)
        x = numbers.astype({"f32": "f4", "f64": "f8", "i32": "i4"}[dtype])
        start = np.ones(columns, x.dtype)
        wanted = added_up(x, start)
        for threads in "1237":
            monkeypatch.setenv("LOOPFUSE_NUM_THREADS", threads)
            s = start.copy()
            kernel(x, s)
            np.testing.assert_array_equal(s, wanted, f"{rows} x {columns}, {threads} threads")


def added_up(x: Any, start: Any) -> Any:
    """The sums in the order of the blocks."""
    if len(x) <= 2 * ROWS:
        return sequence(x, start)
    parts = [sequence(x[first : first + ROWS], np.zeros_like(start)) for first in range(0, len(x), ROWS)]
    return start + sequence(np.array(parts), np.zeros_like(start))


def sequence(rows: Any, total: Any) -> Any:
    for row in rows:
        total = total + row
    return total


def test_a_worker_goes_along_rows() -> None:
    (launch,) = in_blocks(planned(SUMS))
    chain, _ = split_chain(launch)
    assert [loop.var for loop in chain] == ["rb", "cb_1"]


def test_reports_say_it() -> None:
    made = planned(HEAD + TAKEN["sums"][1])
    assert [kernel.detail for kernel in made.report.kernels] == [
        "rows, a worker a column, parallel over c",
        f"rows, columns added up in blocks of {ROWS} rows, parallel over c",
        "rows, blocks put together, parallel over c",
    ]


def test_an_easier_plan_has_none() -> None:
    made = planned(SUMS)
    rules = Rules.of(made.options, made.program)
    easier = [found for found, _ in registry.easier([*made.scheduled.fits.values()], rules)]
    assert any(not rules.teams for rules in easier)


def test_few_sums_of_rows_and_columns_stay_apart() -> None:
    """Together the sums of rows would be no vectors: they would be added up one row of a strip beside another."""
    text = """kernel f(a: f64[N, N], u: f64[N], inout p: f64[N], inout q: f64[N]):
    for i in 0..N, j in 0..N:
        p[i] += a[i, j] * u[j]
    for i in 0..N, j in 0..N:
        q[i] += a[j, i] * u[j]
"""
    along, across, *_ = planned(text).tree.launches
    assert (along.strategy, across.strategy) == ("rows", "generic")
    assert {*along.loops}.isdisjoint(across.loops)
