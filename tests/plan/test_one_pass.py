"""Rows and columns of an array that a CPU goes along in one pass: which are taken, and that the bits are those of the shares, whoever runs
them."""

from __future__ import annotations

import random
from collections.abc import Sequence
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
from loopfuse.plan.strategies.rows.one_pass import FEW, SHARE
from loopfuse.plan.units.rules import Rules
from loopfuse.tree.interp.run import run_tree
from loopfuse.tree.looptree import Launch
from tests.plan.mutate_one_pass import BOTH, small_shares

HEAD = """kernel f(x: f32[R, C], inout g: f32[R, C], a: f32[R], v: f32[C], inout s: f32[R], inout t: f32[C], out w: f32[C], out y: f32[R, C]):
"""

TAKEN = {
    "rows, and columns of what they make": """    for r in 0..R:
        for c in 0..C:
            s[r] += x[r, c] * v[c]
        for c in 0..C:
            t[c] += x[r, c] * s[r]
""",
    "both in one loop": """    for r in 0..R:
        s[r] = 0.0
        for c in 0..C:
            t[c] += a[r] * x[r, c]
            s[r] += x[r, c] * v[c]
""",
    "columns first": """    for c in 0..C:
        t[c] = sum(r in 0..R: x[r, c] * a[r])
    for r in 0..R:
        s[r] = sum(c in 0..C: x[r, c] * v[c])
""",
    "a loop each": """    for r in 0..R, c in 0..C:
        s[r] += x[r, c] * v[c]
    for c in 0..C, r in 0..R:
        t[c] += x[r, c] * a[r]
""",
    "rows that are written": """    for r in 0..R, c in 0..C:
        g[r, c] = g[r, c] + a[r] * v[c]
    for c in 0..C, r in 0..R:
        t[c] += g[r, c] * a[r]
""",
    "rows that are made": """    for r in 0..R, c in 0..C:
        y[r, c] = x[r, c] * a[r]
    for c in 0..C:
        w[c] = max(r in 0..R: y[r, c])
""",
    "the least of rows and the greatest of columns": """    for r in 0..R:
        s[r] = min(c in 0..C: x[r, c])
    for c in 0..C:
        t[c] = max(r in 0..R: x[r, c] - s[r])
""",
    "several results": """    for r in 0..R:
        s[r] = sum(c in 0..C: x[r, c] * v[c])
    for c in 0..C:
        w[c] = 0.0
        for r in 0..R:
            w[c] = max(w[c], x[r, c])
            t[c] += x[r, c] * s[r]
        t[c] = t[c] * 2.0 + v[c]
""",
    "a value made on the way": """    for r in 0..R:
        s[r] = sum(c in 0..C: x[r, c])
    for c in 0..C:
        for r in 0..R:
            let d = x[r, c] - s[r]
            t[c] += d * d
""",
    "a variable for each column": """    for r in 0..R:
        s[r] = sum(c in 0..C: x[r, c])
    for c in 0..C:
        let d = sum(r in 0..R: x[r, c] * s[r])
        w[c] = d * v[c] + 1.0
""",
    "part of the rows and columns": """    for r in 2..R:
        s[r] = sum(c in 0..C: x[r, c])
    for c in 1..C-1:
        for r in 2..R:
            t[c] += x[r, c-1] * s[r]
""",
}  # fmt: skip

LEFT = {
    "columns that rows need": """    for c in 0..C, r in 0..R:
        t[c] += x[r, c] * a[r]
    for r in 0..R, c in 0..C:
        s[r] += x[r, c] * t[c]
""",
    "sums of the row before": """    for r in 0..R:
        s[r] = sum(c in 0..C: x[r, c])
    for c in 0..C:
        for r in 1..R:
            t[c] += x[r, c] * s[r-1]
""",
    "other rows": """    for r in 0..R:
        s[r] = sum(c in 0..C: x[r, c])
    for c in 0..C:
        for r in 1..R:
            t[c] += x[r, c]
""",
    "rows that are overwritten": """    for c in 0..C, r in 0..R:
        t[c] += g[r, c] * a[r]
    for r in 0..R, c in 0..C:
        g[r, c] = g[r, c] + a[r] * v[c]
""",
    "other arrays": """    for r in 0..R:
        s[r] = sum(c in 0..C: g[r, c])
    for c in 0..C, r in 0..R:
        t[c] += x[r, c]
""",
    "columns in two passes": """    for r in 0..R:
        s[r] = sum(c in 0..C: x[r, c])
    for c in 0..C:
        w[c] = sum(r in 0..R: x[r, c]) / 4.0
        t[c] = sum(r in 0..R: (x[r, c] - w[c]) * (x[r, c] - w[c]))
""",
    "a result that is found and set": """    for r in 0..R:
        s[r] = sum(c in 0..C: x[r, c])
    for c in 0..C:
        let d = sum(r in 0..R: x[r, c] * s[r])
        t[c] = t[c] + d * v[c]
""",
    "columns of some rows": """    for r in 0..R:
        s[r] = sum(c in 0..C: x[r, c])
    for c in 0..C, r in 0..R:
        if r > 3:
            t[c] += x[r, c]
""",
    "known few rows": """    for r in 0..R:
        s[r] = 0.0
    for r in 0..64:
        s[r] = sum(c in 0..C: x[r, c])
    for c in 0..C, r in 0..64:
        t[c] += x[r, c]
""",
    "apart by wish": """    nofuse:
        for r in 0..R:
            s[r] = sum(c in 0..C: x[r, c])
        for c in 0..C, r in 0..R:
            t[c] += x[r, c]
""",
    "in a loop around": """    for k in 0..3:
        for r in 0..R:
            s[r] = sum(c in 0..C: x[r, c] * t[c])
        for c in 0..C, r in 0..R:
            t[c] += x[r, c] * s[r]
""",
    "one row's edges": """    for r in 0..R:
        s[r] = sum(c in 0..C: x.clamp[r-1, c] + x[r, c])
    for c in 0..C, r in 0..R:
        t[c] += x[r, c]
""",
}  # fmt: skip


def planned(text: str, reassociate: bool = True, target: Target = CPU, **sizes: int) -> pipeline.Planned:
    program = pipeline.read_program(Source("f.lf", text))
    made = pipeline.plan_kernel(program, "f", Options(target=target, reassociate=reassociate, sizes=tuple(sizes.items())))
    assert made.verdict.answer == "proved" and not made.used, made.verdict
    return made


def passes(made: pipeline.Planned) -> list[Launch]:
    return [launch for launch in made.tree.launches if launch.name.endswith("_pass")]


@pytest.mark.parametrize("name", TAKEN)
def test_rows_and_columns_are_one_pass(name: str) -> None:
    made = planned(HEAD + TAKEN[name])
    assert len(passes(made)) == 1
    assert sum("in one pass over the rows" in one.reason for one in made.report.decisions) == 1


@pytest.mark.parametrize("name", LEFT)
def test_others_are_not(name: str) -> None:
    made = planned(HEAD + LEFT[name])
    assert not passes(made)
    assert not any("in one pass over the rows" in one.reason for one in made.report.decisions)


def test_what_was_planned_and_is_none_is_said() -> None:
    made = planned(HEAD + LEFT["a result that is found and set"])
    assert [one.reason for one in made.report.decisions] == ["one pass over the rows does not suit the way in which each of them runs"]
    assert made.report.launches_after == 2


def test_sums_keep_their_order_where_they_must() -> None:
    for name in TAKEN:
        text = HEAD + TAKEN[name]
        exact = name in ("rows that are made", "the least of rows and the greatest of columns")
        assert bool(passes(planned(text, reassociate=False))) == exact, name


def test_a_gpu_has_none() -> None:
    assert not passes(planned(BOTH, target=Target("sm_90")))


def test_what_stays_in_a_cache_is_gone_along_twice() -> None:
    assert passes(planned(BOTH, R=2000, C=2000))
    assert not passes(planned(BOTH, R=2000, C=100))


def test_without_fusion_there_is_none() -> None:
    kernel = loopfuse.loads(BOTH).with_options(fuel=0)
    assert "one pass" not in str(kernel.explain(target="cpu"))


def test_an_easier_plan_has_none() -> None:
    made = planned(BOTH)
    rules = Rules.of(made.options, made.program)
    words = [words for found, words in registry.easier([*made.scheduled.fits.values()], rules) if not found.crossings]
    assert words[0] == "rows and columns are gone along apart"


def test_reports_say_it() -> None:
    made = planned(BOTH)
    assert [kernel.detail for kernel in made.report.kernels] == [
        "rows, reduced in lanes, parallel over r",
        "rows, a worker a column, parallel over c",
        f"rows, one pass, each {SHARE} rows with a copy of t, parallel over r",
        "rows, copies added up, parallel over c",
    ]
    (one,) = (one for one in made.report.decisions if one.fused)
    assert one.between == ("L1.1", "L1.2")
    assert one.reason == f"in one pass over the rows of `x`: each {SHARE} of them add to a copy of `t`"
    assert made.report.reassociated == ("s", "t")
    assert made.report.launches_after == 2
    assert made.report.traffic_after.text.replace(" ", "").count("R*C") == 1


def test_copies_take_a_small_part() -> None:
    tree = planned(BOTH).tree
    (copies,) = (buffer for buffer in tree.buffers if buffer.name.startswith("t_part"))
    sizes = {"R": 6400, "C": 100}
    count = np.prod([evaluate_index(extent, sizes) for extent in copies.extents])
    assert count == 6400 * 100 // SHARE


def given(made: pipeline.Planned, sizes: dict[str, int], whole: bool = False) -> dict[str, Any]:
    rng = np.random.default_rng(sum(sizes.values()))
    found: dict[str, Any] = {}
    for array in made.program.kernel.arrays:
        shape = tuple(evaluate_index(extent, sizes) for extent in array.extents)
        values = rng.integers(-3, 4, shape) if whole else rng.standard_normal(shape)
        found[array.name] = values.astype(array.dtype.numpy_name)
    return found


RAGGED = [(0, 3), (3, 0), (1, 1), (2, 5), (7, 1), (10, 2), (11, 4), (13, 17), (23, 7)]


@pytest.mark.parametrize("name", TAKEN)
def test_the_tree_has_each_row_once(name: str) -> None:
    with small_shares():
        made = planned(HEAD + TAKEN[name])
    has_each_row_once(made, RAGGED)


def has_each_row_once(made: pipeline.Planned, shapes: Sequence[tuple[int, int]]) -> None:
    """On whole numbers, of which every order gives the same."""
    for rows, columns in shapes:
        sizes = {"R": rows, "C": columns}
        arrays = given(made, sizes, whole=True)
        right = interpret(made.program.kernel, arrays, sizes)
        run_tree(made.tree, arrays, sizes, order="shuffled")
        for array, value in right.items():
            np.testing.assert_array_equal(arrays[array], value, f"{array} at {sizes}")


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32"])
def test_code_has_the_bits_of_the_tree(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By any number of threads."""
    monkeypatch.setenv("LOOPFUSE_CACHE", "0")  # shares are small here
    text = (HEAD + TAKEN[name]).replace("f32", dtype)
    if dtype == "i32":
        text = text.replace("0.0", "0").replace("2.0", "2").replace("1.0", "1")
    with small_shares():
        made, kernel = planned(text), loopfuse.loads(text)
        for rows, columns in RAGGED:
            sizes = {"R": rows, "C": columns}
            start = given(made, sizes, whole=dtype == "i32")
            wanted = {key: value.copy() for key, value in start.items()}
            run_tree(made.tree, wanted, sizes)
            for threads in ("1", "2", "12"):
                monkeypatch.setenv("LOOPFUSE_NUM_THREADS", threads)
                arrays = {key: value.copy() for key, value in start.items()}
                kernel(**arrays)
                for array, value in wanted.items():
                    np.testing.assert_array_equal(arrays[array], value, f"{array} at {sizes}, {threads} threads")


@pytest.mark.parametrize("rows", [FEW, FEW + 1, FEW + 67])
def test_large_ones_are_right(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = loopfuse.loads(BOTH.replace("f32", "f64"))
    rng = np.random.default_rng(0)
    x, v, s, t = rng.random((rows, 301)), rng.random(301), rng.random(rows), rng.random(301)
    sums = s + x @ v
    found: list[bytes] = []
    for threads in ("1", "2", "12"):
        monkeypatch.setenv("LOOPFUSE_NUM_THREADS", threads)
        one, other = s.copy(), t.copy()
        kernel(x, v, one, other)
        np.testing.assert_allclose(one, sums, 1e-12)
        np.testing.assert_allclose(other, t + x.T @ sums, 1e-12)
        found.append(one.tobytes() + other.tobytes())
    assert len({*found}) == 1


# ------------------------------------------------------------------------- random programs


def random_program(seed: int) -> str:
    """Two nests over one matrix, mostly one along its rows and the other across."""
    rng = random.Random(seed)
    lower = rng.choice(["0", "0", "0", "1"])
    into = rng.choice(["g", "y"])
    along = rng.choice([
        f"for r in {lower}..R:\n        s[r] = sum(c in 0..C: x[r, c] * v[c])",
        f"for r in {lower}..R, c in 0..C:\n        s[r] += x[r, c] * v[c] + g[r, c]",
        f"for r in {lower}..R:\n        s[r] = max(c in 0..C: x[r, c])",
        f"for r in {lower}..R, c in 0..C:\n        {into}[r, c] = x[r, c] * a[r] + v[c]",
        f"for r in {lower}..R:\n        for c in 0..C:\n            {into}[r, c] = x[r, c] + a[r]\n        s[r] = min(c in 0..C: x[r, c])",
        f"for r in {lower}..R:\n        let m = max(c in 0..C: x[r, c])\n        for c in 0..C:\n            y[r, c] = x[r, c] - m",
        f"for c in 0..C, r in {lower}..R:\n        {into}[r, c] = x[r, c] * a[r]",
    ])  # fmt: skip
    matrix = rng.choice(["x", "x", into])
    factor = rng.choice(["a[r]", "s[r]", "v[c]", "g[r, c]", "2"])
    across = rng.choice([
        f"for c in 0..C, r in {lower}..R:\n        t[c] += {matrix}[r, c] * {factor}",
        f"for r in {lower}..R, c in 0..C:\n        t[c] += {matrix}[r, c] * {factor}",
        f"for c in 0..C:\n        w[c] = sum(r in {lower}..R: {matrix}[r, c] * {factor})",
        f"for c in 0..C:\n        t[c] = max(r in {lower}..R: {matrix}[r, c] + {factor})",
        f"for c in 0..C:\n        t[c] = 0\n        for r in {lower}..R:\n            t[c] += {matrix}[r, c] * {factor}\n        w[c] = t[c] + v[c]",
        f"for c in 0..C:\n        for r in {lower}..R:\n            if r > 3:\n                t[c] += {matrix}[r, c] * {factor}",
        f"for c in 0..C:\n        for r in {lower}..R:\n            if x[r, c] > 0:\n                t[c] += {matrix}[r, c] * {factor}",
        f"for c in 0..C:\n        for r in {lower}..R:\n            let d = {matrix}[r, c] * {factor}\n            t[c] += d * d",
        f"for c in 0..C-1, r in {lower}..R:\n        t[c] += {matrix}[r, c+1] * {factor}",
        f"for c in 0..C, r in {lower}..R:\n        t[c] *= {matrix}[r, c]",
    ])  # fmt: skip
    nests = [along, across]
    if rng.random() < 0.3:
        nests.reverse()
    if rng.random() < 0.3:
        nests.insert(rng.randrange(3), "for c in 0..C:\n        t[c] = 1")
    head = HEAD.replace("f32", rng.choice(["f32", "i32"]))
    return head + "".join(f"    {nest}\n" for nest in nests)


def check_random(seed: int) -> bool:
    """Is it one pass? The tree gives what the program says, and what is said of a pass is so."""
    text = random_program(seed)
    with small_shares():
        made = planned(text)
    for rows, columns in [(0, 2), (1, 1), (5, 3), (13, 4), (17, 19)]:
        sizes = {"R": rows, "C": columns}
        arrays = given(made, sizes, whole=True)
        right = interpret(made.program.kernel, arrays, sizes)
        run_tree(made.tree, arrays, sizes, order="shuffled")
        for array, value in right.items():
            np.testing.assert_array_equal(arrays[array], value, f"{array} at {sizes} of\n{text}")
    said = sum("in one pass over the rows" in one.reason for one in made.report.decisions)
    assert said == len(passes(made)), text
    return said == 1


@pytest.mark.parametrize("part", range(4))
def test_random_programs(part: int) -> None:
    assert sum(check_random(seed) for seed in range(part * 8, part * 8 + 8)) >= 2
