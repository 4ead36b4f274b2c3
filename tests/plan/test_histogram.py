"""Strategy `histogram`: which loops it takes, what reports say of others, and what its code computes. Chunks and blocks
are small where trees are interpreted."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse import pipeline
from loopfuse.base.diagnostics import Source, UserError
from loopfuse.base.dtypes import DType
from loopfuse.base.options import CPU, Options, Target
from loopfuse.lang.interp import interpret
from loopfuse.plan.strategies.histogram import sizes
from loopfuse.tree.interp.run import run_tree
from tests.plan.mutate_histogram import SMALL, made_small

GPU = Target("sm_90")
TARGETS = pytest.mark.parametrize("target", [CPU, GPU], ids=lambda target: target.name)
HEAD = (
    "kernel f(x: u8[N], k: i32[N], w: i32[N], v: f32[N], a: u8[R, C], d: u8[R, C, 3], inout h: i32[64], "
    "inout g: f32[64], inout p: i32[64, 64], inout q: i32[B], inout b: u8[64], inout rows: i32[R, 64], out y: i32[N]):\n"
    "    assume B >= 64\n"
)
TAKEN = {
    "counts": """
    for i in 0..N:
        h[x[i]] += 1
""",
    "weights": """
    for i in 0..N:
        h[k[i]] += w[i]
""",
    "differences": """
    for i in 0..N:
        h[k[i]] -= w[i]
""",
    "least and greatest": """
    for i in 0..N:
        h[k[i]] min= w[i]
    for i in 0..N:
        q[k[i]] max= w[i]
""",
    "bins that are a size": """
    for i in 0..N:
        q[k[i]] += 1
""",
    "two subscripts": """
    for i in 0..N:
        p[x[i], k[i]] += 1
""",
    "computed": """
    for i in 0..N:
        let bin = i32(v[i] * 64.0)
        h[min(max(bin, 0), 63)] += 1
""",
    "under a condition": """
    for i in 0..N:
        if v[i] > 0.5 and i % 3 != 1:
            h[x[i]] += 1
""",
    "other bounds": """
    for i in 1..N - 1:
        h[(i32(x[i - 1]) + i32(x[i + 1])) % 64] += 1
""",
    "steps": """
    for i in 1..N step 3:
        h[x[i]] += 1
""",
    "downwards": """
    for i in N - 1..-1 step -1:
        h[x[i]] += 1
""",
    "a nest": """
    for r in 0..R:
        for c in 0..C:
            h[a[r, c]] += 1
""",
    "colours": """
    for r in 0..R:
        for c in 0..C:
            for l in 0..3:
                p[l, d[r, c, l]] += 1
""",
    "set before": """
    for i in 0..64:
        h[i] = i
    for i in 0..N:
        h[x[i]] += 1
""",
    "running sums of it": """
    temp t: i32[64]
    for i in 0..64:
        t[i] = 0
    for i in 0..N:
        t[x[i]] += 1
    var s: i32 = 0
    for i in 0..64:
        s += t[i]
        h[i] = s
""",
    "read wherever": """
    for i in 0..N:
        h[x[i]] += 1
    for i in 0..N:
        y[i] = h[k[i]]
""",
    "ends of edges": """
    for i in 0..N:
        h[x[i]] += 1
        h[k[i]] += w[i]
""",
    "carried besides": """
    for i in 1..N:
        y[i] = y[i - 1] * 3 + 1
        h[x[i]] += y[i]
""",
    "two in a loop": """
    for i in 0..N:
        h[x[i]] += 1
        q[k[i]] += w[i]
""",
}
IN_TABLES = {
    "sums of floats": """
    for i in 0..N:
        g[x[i]] += v[i]
""",
    "products": """
    for i in 0..N:
        h[x[i]] *= w[i]
""",
    "greatest of floats": """
    for i in 0..N:
        g[x[i]] max= v[i]
""",
    "bytes": """
    for i in 0..N:
        b[x[i]] += 1
""",
}
ON_A_GPU = {
    "rows": """
    for r in 0..R:
        for c in 0..C:
            rows[r, a[r, c]] += 1
""",
    "rows that are set": """
    for r in 0..R:
        for i in 0..64:
            rows[r, i] = 0
        for c in 0..C:
            rows[r, a[r, c]] += 1
""",
}
OTHERS = {
    "read besides": ("""
    for i in 0..N:
        h[x[i]] += 1
        y[i] = h[0]
""", "`h` is touched elsewhere in an iteration"),
    "two operations": ("""
    for i in 0..N:
        h[x[i]] += 1
        h[k[i]] max= 1
""", "several updates at places that depend on data"),
    "by its own count": ("""
    for i in 0..N:
        h[h[x[i]] % 64] += 1
""", ""),
    "until it is full": ("""
    for i in 0..N:
        if h[x[i]] < 10:
            h[x[i]] += 1
""", "`h` is touched elsewhere in an iteration"),
    "not set": ("""
    temp t: i32[64]
    for i in 0..N:
        t[x[i]] += 1
    for i in 0..64:
        h[i] = t[i]
""", "`t` is not set before it is updated"),
    "few": ("""
    for i in 0..20:
        h[x[i]] += 1
    assume N >= 20
""", ""),
}
VALUES = {"N": 700, "R": 9, "C": 45, "B": 64}


@functools.cache
def plan(text: str, target: Target = GPU, head: str = HEAD, **options: Any) -> pipeline.Planned:
    program = pipeline.read_program(Source("f.lf", head + text))
    return pipeline.plan_kernel(program, "f", Options(target=target, **options))


def strategies(planned: pipeline.Planned) -> set[str]:
    return {launch.strategy for launch in planned.tree.launches}


def arguments(kernel: Any, at: dict[str, int], seed: int = 1) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for array in kernel.arrays:
        shape = tuple(at.get(getattr(e, "name", ""), getattr(e, "value", 0)) for e in array.extents)
        kind = np.dtype(array.dtype.numpy_name)
        found[array.name] = random.random(shape).astype(kind) if kind.kind == "f" else random.integers(0, 64, shape).astype(kind)
    return found


@TARGETS
@pytest.mark.parametrize("name", [*TAKEN, *IN_TABLES])
def test_taken(name: str, target: Target) -> None:
    found = plan((TAKEN | IN_TABLES)[name], target)
    assert found.verdict.answer == "proved" and "histogram" in strategies(found)
    assert any(kernel.detail.startswith("histogram, ") for kernel in found.report.kernels)


@pytest.mark.parametrize("name", ON_A_GPU)
def test_taken_on_a_gpu(name: str) -> None:
    """On a CPU each row is a worker's."""
    found = plan(ON_A_GPU[name])
    assert found.verdict.answer == "proved" and "histogram" in strategies(found)
    assert "histogram" not in strategies(plan(ON_A_GPU[name], CPU))


@TARGETS
def test_what_is_not_atomic_needs_a_table(target: Target) -> None:
    found = plan("    for i in 0..N:\n        t[k[i]] += v[i]\n", target, HEAD.replace("inout b", "inout t: f32[1000000], inout b"))
    assert found.verdict.answer == "proved" and "histogram" not in strategies(found)
    assert any("neither tables nor atomic updates fit" in decision.reason for decision in found.report.decisions)


@TARGETS
@pytest.mark.parametrize("name", OTHERS)
def test_others(name: str, target: Target) -> None:
    text, why = OTHERS[name]
    found = plan(text, target)
    assert found.verdict.answer == "proved" and "histogram" not in strategies(found)
    assert not why or any(why in decision.reason for decision in found.report.decisions)


@pytest.mark.parametrize("name", [*TAKEN, *IN_TABLES, *ON_A_GPU])
def test_trees_compute_what_the_program_does(name: str) -> None:
    """In any order of the threads, with whole chunks and blocks and parts of them; floats to rounding."""
    text = (TAKEN | IN_TABLES | ON_A_GPU)[name]
    for target in (CPU, GPU):
        with made_small({**SMALL, "LONG": 4, "PARTS": 3, "FEW_ROWS": 4}):
            found = plan(text, target)
        assert found.verdict.answer == "proved"
        given = arguments(found.kernel, VALUES)
        for order in ("forward", "shuffled"):
            held = {key: value.copy() for key, value in given.items()}
            run_tree(found.tree, held, VALUES, order=order, aligned=order == "forward")
            wanted = {key: value.copy() for key, value in given.items()}
            wanted |= interpret(found.kernel, wanted, VALUES)
            for key, value in wanted.items():
                assert np.allclose(held[key], value, 1e-5) if value.dtype.kind == "f" else np.array_equal(held[key], value), key


@TARGETS
def test_the_order_of_floats_may_be_kept(target: Target) -> None:
    """Of whole numbers, and of the least and greatest, no bit shows an order."""
    for name in ("counts", "least and greatest", "read wherever", *IN_TABLES):
        text = (TAKEN | IN_TABLES)[name]
        found = plan(text, target, reassociate=False)
        assert found.verdict.answer == "proved" and found.report.reassociated == ()
        if name == "sums of floats":
            assert "histogram" not in strategies(found)
            assert any("reassociate=False" in decision.reason for decision in found.report.decisions)
        else:
            assert "histogram" in strategies(found)


def test_reports_say_that_the_order_is_another() -> None:
    assert plan(IN_TABLES["sums of floats"], CPU).report.reassociated == ("g",)
    assert plan(TAKEN["counts"], CPU).report.reassociated == ()


# ------------------------------------------------------------------------------ what is compiled


def count(kind: str, bins: str, update: str, value: str, text: str = "") -> Any:
    return loopfuse.loads(
        f"kernel f(x: i64[N], w: {kind}[N], inout h: {kind}[{bins}]):\n    for i in 0..N:\n        h[x[i]] {update} {value}\n"
    )


LENGTHS = (0, 1, sizes.SHORT, sizes.SHORT + 1, 2 * sizes.CHUNK, 2 * sizes.CHUNK + 5, 300_001)


@pytest.mark.parametrize("kind", ["i32", "u64", "u8", "f64"])
def test_counts_as_numpy_does(kind: str) -> None:
    kernel, random = count(kind, "B", "+=", "w[i]"), np.random.default_rng(2)
    for length in LENGTHS:
        for bins in (1, 64, sizes.USUAL_BINS, sizes.USUAL_BINS + 1):  # asked when it is called
            x = random.integers(0, bins, length)
            w = random.integers(0, 100, length).astype(np.dtype("f8" if kind == "f64" else kind.replace("i", "int").replace("u", "uint")))
            h = np.ones(bins, w.dtype)
            wanted = h.copy()
            np.add.at(wanted, x, w)
            kernel(x=x, w=w, h=h)
            assert np.array_equal(h, wanted), (length, bins)  # whole numbers: also in floats exact


def test_many_bins_have_one_table() -> None:
    kernel, random = count("i32", "20000", "+=", "w[i]"), np.random.default_rng(6)
    assert sizes.tables_of(20000, DType.I32) == 1 < sizes.tables_of(1000, DType.I32)
    for length in (70_000, 3_000_000):
        x, w, h = random.integers(0, 20000, length), random.integers(0, 9, length).astype(np.int32), np.zeros(20000, np.int32)
        wanted = h.copy()
        np.add.at(wanted, x, w)
        kernel(x=x, w=w, h=h)
        assert np.array_equal(h, wanted)


@pytest.mark.parametrize("update", ["min", "max"])
def test_extremes_as_numpy_has_them(update: str) -> None:
    kernel, random = count("f32", "100", f"{update}=", "w[i]"), np.random.default_rng(3)
    for length in LENGTHS:
        x, w = random.integers(0, 100, length), random.standard_normal(length).astype(np.float32)
        w[length // 3 : length // 3 + 2] = np.nan
        h = np.zeros(100, np.float32)
        wanted = h.copy()
        getattr(np, f"{update}imum").at(wanted, x, w)
        kernel(x=x, w=w, h=h)
        assert np.array_equal(h, wanted, equal_nan=True), length


def test_sums_have_one_order_for_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(4)
    x, w = random.integers(0, 50, 500_000), random.standard_normal(500_000).astype(np.float32)
    found: set[bytes] = set()
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("LOOPFUSE_NUM_THREADS", threads)
        h = np.zeros(50, np.float32)
        count("f32", "50", "+=", "w[i]")(x=x, w=w, h=h)
        found.add(h.tobytes())
    assert len(found) == 1
    exact = np.zeros(50)
    np.add.at(exact, x, w.astype(np.float64))
    assert np.allclose(np.frombuffer(found.pop(), np.float32), exact, rtol=1e-3, atol=1e-3)


def test_a_place_outside_is_reported() -> None:
    kernel = count("i32", "64", "+=", "w[i]")
    for length in (100, 300_000):
        for wrong in (-1, 64):
            x, w, h = np.zeros(length, np.int64), np.ones(length, np.int32), np.zeros(64, np.int32)
            x[length - 3] = wrong
            with pytest.raises(UserError) as caught:
                kernel(x=x, w=w, h=h)
            assert f"element {wrong} of `h`" in str(caught.value)
            assert h[0] == length - 1 and not h[1:].any()


def test_views() -> None:
    kernel, random = count("i32", "64", "+=", "w[i]"), np.random.default_rng(5)
    x, w, h = random.integers(0, 64, (200_000, 2)), random.integers(0, 9, (200_000, 3)).astype(np.int32), np.zeros((64, 2), np.int32)
    wanted = np.zeros(64, np.int32)
    np.add.at(wanted, x[:, 1], w[:, 2])
    kernel(x=x[:, 1], w=w[:, 2], h=h[:, 1])
    assert np.array_equal(h[:, 1], wanted) and not h[:, 0].any()
