"""Strategy `scan`: which loops it takes, what reports say of them and of others, and what its code computes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from ptx_runs import run as run_ptx

import loopfuse
from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU, Options, Target, Tuning
from loopfuse.lang.interp import interpret
from loopfuse.plan.strategies.scan import cpu, gpu, tile
from loopfuse.tree import chains
from loopfuse.tree.interp.run import run_tree
from loopfuse.tree.interp.threads import reduce_in_warps, scan_in_warps
from loopfuse.tree.looptree import Scan, Shared
from loopfuse.tree.walk import walk_nodes
from tests.plan.mutate_scan import small

GPU = Target("sm_90")
TARGETS = pytest.mark.parametrize("target", [CPU, GPU], ids=lambda target: target.name)
HEAD = "kernel f(x: f32[N], w: f32[N], r: f32[R, C], inout m: f32[1], out k: i32[N], out y: f32[N], out z: f32[R, C]):\n"

TAKEN = {
    "sum": """
    var s: f32 = 0.0
    for i in 0..N:
        s += x[i]
        y[i] = s
""",
    "exclusive": """
    var s: f32 = 0.0
    for i in 0..N:
        y[i] = s
        s += x[i]
""",
    "greatest": """
    var s: f32 = -inf
    for i in 0..N:
        s max= x[i]
        y[i] = s
""",
    "product": """
    var s: f32 = 1.0
    for i in 0..N:
        s *= x[i]
        y[i] = s
""",
    "in memory": """
    for i in 0..N:
        m[0] += x[i]
        y[i] = m[0]
""",
    "fused": """
    var s: f32 = 0.0
    for i in 0..N:
        let e = x[i] * w[i] + 1.0
        s += e
        y[i] = s / e
""",
    "two": """
    var s: f32 = 0.0
    var t: f32 = -inf
    for i in 0..N:
        s += x[i]
        t max= w[i]
        y[i] = s * t
""",
    "in place": """
    for i in 0..N:
        m[0] += y[i]
        y[i] = m[0]
""",
    "counted under a condition": """
    var c: i32 = 0
    for i in 0..N:
        k[i] = c
        if x[i] > 0.0:
            c += 1
""",
    "read under a condition": """
    var s: f32 = 0.0
    for i in 0..N:
        s += x[i]
        if i > 2:
            y[i] = s
""",
    "updated under a condition": """
    var s: f32 = 0.0
    for i in 0..N:
        if i > 2:
            s += x[i]
        y[i] = s
""",
    "added where it is there": """
    var s: f32 = 0.0
    for i in 0..N:
        if x[i] > 1.0 and i > 2:
            s += w[i-3]
        y[i] = s
""",
    "chosen where it is there": """
    var s: f32 = 0.0
    for i in 0..N:
        s += w[i-3] if i > 2 else x[i]
        y[i] = s
""",
    "other bounds": """
    var s: f32 = 0.0
    for i in 1..N-1:
        s += x[i-1] * x[i+1]
        y[i] = s
""",
    "total used": """
    var s: f32 = 0.0
    for i in 0..N:
        s += x[i]
        y[i] = s
    m[0] = s
""",
}
ON_A_GPU = {
    "a step": """
    var s: f32 = 0.0
    for i in 3..N step 2:
        s += x[i]
        y[i] = s
""",
    "phases": """
    var s: f32 = 0.0
    for i in 0..N:
        if i % 3 == 0:
            s += x[i]
        y[i] = s
""",
    "rows": """
    for a in 0..R:
        var s: f32 = 0.0
        for c in 0..C:
            s += r[a, c]
            z[a, c] = s
""",
}
OTHERS = {
    "feeds back": ("""
    var s: f32 = 0.0
    for i in 0..N:
        s += x[i] * s * s
        y[i] = s
""", ""),
    "feeds back through another": ("""
    var s: f32 = 0.0
    var t: f32 = 0.0
    for i in 0..N:
        s += x[i] * t
        t += s
        y[i] = t
""", "what is added to `s` depends on the running value of `t`"),
    "a sum of sums": ("""
    var s: f32 = 0.0
    var t: f32 = 0.0
    for i in 0..N:
        s += x[i]
        t += s
        y[i] = t
""", "what is added to `t` depends on the running value of `s`"),
    "set besides": ("""
    var s: f32 = 0.0
    for i in 0..N:
        s += x[i]
        y[i] = s
        if x[i] < 0.0:
            s = 0.0
""", "`s` is updated and set in the same iteration"),
    "carries another": ("""
    var s: f32 = 0.0
    for i in 1..N:
        s += y[i-1]
        y[i] = s
""", "iterations depend on each other through `y` too"),
    "few": ("""
    var s: f32 = 0.0
    for i in 0..20:
        s += w[i]
        y[i] = s
    assume N >= 20
""", ""),
    "columns": ("""
    for c in 0..C:
        var s: f32 = 0.0
        for a in 0..R:
            s += r[a, c]
            z[a, c] = s
""", ""),
}


@functools.cache
def plan(text: str, target: Target = GPU, head: str = HEAD, **options: Any) -> pipeline.Planned:
    program = pipeline.read_program(Source("f.lf", head + text))
    return pipeline.plan_kernel(program, "f", Options(target=target, **options))


def strategies(planned: pipeline.Planned) -> set[str]:
    return {launch.strategy for launch in planned.tree.launches}


@TARGETS
@pytest.mark.parametrize("name", TAKEN)
def test_taken(name: str, target: Target) -> None:
    found = plan(TAKEN[name], target)
    assert found.verdict.answer == "proved" and "scan" in strategies(found)
    step = f"scan, chunks of {cpu.CHUNK}" if target == CPU else ": once, from what those before hand on"
    assert any(step in k.detail for k in found.report.kernels), found.report.kernels


@pytest.mark.parametrize("name", ON_A_GPU)
def test_taken_on_a_gpu(name: str) -> None:
    """On a CPU each row is a worker's, in lanes, and steps and phases would take long to prove."""
    found = plan(ON_A_GPU[name])
    assert found.verdict.answer == "proved" and "scan" in strategies(found)
    assert name != "rows" or any("parallel over a" in kernel.detail for kernel in found.report.kernels)
    beside = plan(ON_A_GPU[name], CPU)
    assert ("scan" in strategies(beside)) == (name == "rows")
    assert name != "rows" or [k.detail for k in beside.report.kernels] == ["scan, one thread, 8 neighbours at once, parallel over a"]


@TARGETS
@pytest.mark.parametrize("name", OTHERS)
def test_others(name: str, target: Target) -> None:
    text, why = OTHERS[name]
    found = plan(text, target)
    assert found.verdict.answer == "proved" and "scan" not in strategies(found)
    assert not why or any(why in decision.reason for decision in found.report.decisions)


@TARGETS
def test_the_order_may_be_kept(target: Target) -> None:
    for name in TAKEN:
        found = plan(TAKEN[name], target, reassociate=False)
        assert "scan" not in strategies(found) and found.report.reassociated == ()


@TARGETS
def test_reports_say_that_the_order_is_another(target: Target) -> None:
    found = plan(TAKEN["sum"], target)
    assert found.report.reassociated == ("s",)
    assert plan(TAKEN["sum"], target, reassociate=False).report.reassociated == ()


def test_loops_stay_whole() -> None:
    """What a running value is made of would be a loop of its own elsewhere."""
    for target in (CPU, GPU):
        assert len({launch.loops for launch in plan(TAKEN["fused"], target).tree.launches} - {("S1",)}) == 1


def test_the_collective_is_in_the_tree_once_for_each_value() -> None:
    found = plan(TAKEN["two"])
    last = next(launch for launch in found.tree.launches if launch.name.endswith("_p"))
    assert sum(isinstance(node, Scan) for node in walk_nodes(last.body)) == 2
    shared = {buffer.name for buffer in found.tree.buffers if isinstance(buffer.home, Shared)}
    assert not any(node.buffer in shared for node in walk_nodes(last.body) if isinstance(node, Scan))


@pytest.mark.parametrize("count", [32, 64, 96, 1024])
def test_what_a_scan_means(count: int) -> None:
    values = [int(each) for each in np.random.default_rng(count).integers(-9, 9, count)]
    before = scan_in_warps(values, lambda a, b: a + b, 0)
    assert before == [sum(values[:t]) for t in range(count)]
    assert before[-1] + values[-1] == reduce_in_warps(values, lambda a, b: a + b, 0)
    words = scan_in_warps([chr(97 + t % 26) for t in range(count)], lambda a, b: a + b, "")
    assert words[-1] == "".join(chr(97 + t % 26) for t in range(count - 1))  # in order


# ------------------------------------------------------------------------------ on the interpreter


@pytest.mark.parametrize("target", ["cpu", "sm_90"])
@pytest.mark.parametrize("name", [*TAKEN, *ON_A_GPU])
def test_small_chunks_in_any_order_of_the_threads(name: str, target: str) -> None:
    """Numbers are small and whole, so that every order of a sum gives the same bits."""
    made = small(target, text=HEAD + {**TAKEN, **ON_A_GPU}[name]).make()
    sizes = ({"N": n, "R": 3, "C": n} for n in (0, 1, 5, 17, 130, 300, *([700] if target != "cpu" else [])))
    for each in sizes:
        random = np.random.default_rng(each["N"])
        low, high = (1, 2) if name == "product" else (-3, 4)
        given: dict[str, Any] = {}
        for array in made.program.kernel.arrays:
            shape = [each.get(getattr(extent, "name", ""), 1) for extent in array.extents]
            given[array.name] = random.integers(low, high, shape).astype(array.dtype.numpy_name)
        with np.errstate(all="ignore"):
            wanted = {key: value.copy() for key, value in given.items()}
            wanted |= interpret(made.program.kernel, wanted, each)
            for order in ("forward", "reverse", "shuffled"):
                held = {key: value.copy() for key, value in given.items()}
                run_tree(made.tree, held, each, order=order, aligned=order == "forward")
                for key, value in wanted.items():
                    assert np.array_equal(held[key], value, equal_nan=True), (each, order, key)


# ------------------------------------------------------------------------------ compiled code

EDGES = (cpu.CHUNK, cpu.CHUNK + cpu.PART, cpu.ROUND)
SIZES = (0, 1, 2, 7, 8, 9, 4095, 4096, *(edge + more for edge in EDGES for more in (-1, 0, 1, 16)), 2 * cpu.CHUNK, 100_000, 600_001)
SUMS = """
kernel f(x: T[N], inout s: T[1], out y: T[N], out z: T[N]):
    for i in 0..N:
        z[i] = s[0]
        s[0] += x[i]
        y[i] = s[0]
"""
NUMPY = {"i32": np.int32, "i64": np.int64, "f32": np.float32, "f64": np.float64}


@pytest.mark.parametrize("dtype", NUMPY)
def test_sums_on_a_cpu(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whole numbers, exactly: inclusive, exclusive, from what was there, and the total; with one result for any
    number of threads."""
    kernel = loopfuse.loads(SUMS.replace("T[", f"{dtype}["), target="cpu")
    for n in SIZES:
        x = np.random.default_rng(n).integers(-9, 9, n).astype(NUMPY[dtype])
        for threads in (1, 2, 3, 7) if n in (cpu.CHUNK + 1, cpu.ROUND + 1, 600_001) else (2,):
            monkeypatch.setenv("LOOPFUSE_NUM_THREADS", str(threads))
            s, y, z = np.full(1, 7, x.dtype), np.empty_like(x), np.empty_like(x)
            kernel(x, s, y, z)
            wanted = 7 + np.cumsum(x, dtype=x.dtype)
            assert np.array_equal(y, wanted) and np.array_equal(z, wanted - x), (n, threads)
            assert s[0] == 7 + x.sum(dtype=x.dtype)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_bits_do_not_depend_on_threads(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = loopfuse.loads(SUMS.replace("T[", f"{dtype}["), target="cpu")
    x = np.random.default_rng(1).normal(size=700_001).astype(NUMPY[dtype])
    results: list[tuple[bytes, ...]] = []
    for threads in (1, 2, 3, 7):
        monkeypatch.setenv("LOOPFUSE_NUM_THREADS", str(threads))
        s, y, z = np.zeros(1, x.dtype), np.empty_like(x), np.empty_like(x)
        kernel(x, s, y, z)
        results.append((s.tobytes(), y.tobytes(), z.tobytes()))
    assert len(set(results)) == 1


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_sums_are_no_less_accurate(offset: float) -> None:
    """Against float64, beside the sum one after the other."""
    text = SUMS.replace("T[", "f32[")
    x = (np.random.default_rng(2).normal(size=1 << 20) + offset).astype(np.float32)
    exact = np.cumsum(x, dtype=np.float64)
    errors: list[float] = []
    for reassociate in (True, False):
        kernel = loopfuse.loads(text, target="cpu", reassociate=reassociate)
        s, y, z = np.zeros(1, x.dtype), np.empty_like(x), np.empty_like(x)
        kernel(x, s, y, z)
        errors.append(float(np.abs(y - exact).max()))
    assert errors[0] <= errors[1]


RUNNING = """
kernel f(x: f32[N], out lo: f32[N], out hi: f32[N], out k: i32[N], out n: i32[1]):
    var a: f32 = inf
    var b: f32 = -inf
    var c: i32 = 0
    for i in 0..N:
        a min= x[i]
        b max= x[i]
        if x[i] > 0.0:
            c += 1
        lo[i] = a
        hi[i] = b
        k[i] = c
    n[0] = c
"""


@pytest.mark.parametrize("size", [0, 1, 5000, 16385, 50_000, 300_000])
def test_least_greatest_and_counts_on_a_cpu(size: int) -> None:
    kernel = loopfuse.loads(RUNNING, target="cpu")
    x = np.random.default_rng(size).normal(size=size).astype(np.float32)
    if size > 100:
        x[size // 2 :: 97] = np.nan
    lo, hi, k, n = (np.empty(size, d) for d in (np.float32, np.float32, np.int32, np.int32))
    n = np.empty(1, np.int32)
    kernel(x, lo, hi, k, n)
    assert np.array_equal(lo, np.minimum.accumulate(x), equal_nan=True) if size else True
    assert np.array_equal(hi, np.maximum.accumulate(x), equal_nan=True) if size else True
    counts = np.cumsum(x > 0)
    assert np.array_equal(k, counts) and n[0] == (counts[-1] if size else 0)


THROUGH = """
kernel f(x: T[N], out y: T[N]):
    assume N >= 1
    y[0] = x[0]
    for i in 1..N:
        y[i] = y[i-1] + x[i]
"""
ALONG = """
kernel f(x: T[R, N], out y: T[R, N], out z: T[R, N], out t: T[R]):
    for r in 0..R:
        var s: T = 1
        for i in 0..N:
            z[r, i] = s
            s += x[r, i] * 2
            y[r, i] = s
        t[r] = s
"""


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_sums_through_the_result_on_a_cpu(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recurrence that adds to its value before is a sum: the same bits for any number of threads."""
    text = THROUGH.replace("T[", f"{dtype}[")
    kernel = loopfuse.loads(text, target="cpu")
    assert "y: reduced in another order" in str(kernel.explain())
    for n in (1, 2, 9, 100, cpu.CHUNK, cpu.CHUNK + 1, cpu.CHUNK + 2, cpu.ROUND + 1, cpu.ROUND + 2, 700_001):
        x = np.random.default_rng(n).normal(size=n).astype(NUMPY[dtype])
        seen: set[bytes] = set()
        for threads in (1, 2, 3, 7):
            monkeypatch.setenv("LOOPFUSE_NUM_THREADS", str(threads))
            y = np.full_like(x, np.nan)
            kernel(x, y)
            seen.add(y.tobytes())
        assert len(seen) == 1, n
        exact = np.cumsum(x, dtype=np.longdouble)
        plain = np.abs(np.cumsum(x) - exact).max()
        assert np.abs(y - exact).max() <= max(plain, np.abs(exact).max() * {"f32": 2e-6, "f64": 4e-15}[dtype]), n


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_rows_in_lanes_on_a_cpu(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inclusive, exclusive, and the total of each row, of small whole numbers exactly."""
    kernel = loopfuse.loads(ALONG.replace("T[", f"{dtype}[").replace(": T ", f": {dtype} "), target="cpu")
    for rows, width in ((0, 5), (3, 0), (1, 1), (5, 7), (4, 8), (3, 9), (2, 1003), (7, 20_000)):
        x = np.random.default_rng(width).integers(-9, 9, (rows, width)).astype(NUMPY[dtype])
        for threads in (1, 3):
            monkeypatch.setenv("LOOPFUSE_NUM_THREADS", str(threads))
            y, z, t = np.empty_like(x), np.empty_like(x), np.empty(rows, x.dtype)
            kernel(x, y, z, t)
            wanted = 1 + np.cumsum(2 * x, axis=1)
            assert np.array_equal(y, wanted) and np.array_equal(z, wanted - 2 * x), (rows, width, threads)
            assert np.array_equal(t, 1 + 2 * x.sum(1))


PTX = """
kernel f(x: T[N], out y: T[N], out z: T[N]):
    var s: T = ZERO
    for i in 0..N:
        z[i] = s
        s += x[i]
        y[i] = s
"""


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("dtype", NUMPY)
def test_ptx(dtype: str, offset: int) -> None:
    """One thread's, one block's, and three launches; arrays that start anywhere."""
    text = PTX.replace("T[", f"{dtype}[").replace("T =", f"{dtype} =").replace("ZERO", "0.0" if dtype[0] == "f" else "0")
    for n in (0, 1, 256, 257, 4095, 4096, 4097, 8192, 9001):
        stored = run_ptx(text, Tuning(), {"N": n}, offset, strategy="generic")
        assert bool(stored.get(16)) == (n > 256 and offset == 0), (n, stored)


SMALL = {(tile, "PASS_THREADS"): 64, (gpu, "PASS_THREADS"): 64, (chains, "CHAIN"): 2}


@pytest.mark.parametrize("text", [
    "kernel f(x: f32[N], out y: f32[N]):\n var s: f32 = 0.5\n for i in 0..N:\n  y[i] = s\n  s += x[i]\n",
    "kernel f(x: f64[N], inout s: f64[2], out y: f64[N]):\n for i in 3..N:\n  s[1] += x[i]\n  y[i] = s[1]\n",
    "kernel f(x: i64[N], inout s: i64[2], out y: i64[N]):\n for i in 0..N:\n  s[0] min= x[i]\n  y[i] = s[0]\n",
    "kernel f(x: u8[N], out y: i32[N]):\n var s: i32 = 0\n var m: u8 = 0\n for i in 0..N:\n  s += i32(x[i])\n  m max= x[i]\n  y[i] = s * i32(m)\n",
    "kernel f(x: f16[R, N], out y: f32[R, N]):\n for r in 0..R:\n  var s: f32 = 0.0\n  for i in 0..N:\n   s += f32(x[r, i])\n   y[r, i] = s\n",
    "kernel f(x: bool[N], out y: bool[N]):\n var s: bool = false\n for i in 0..N:\n  s = s or x[i]\n  y[i] = s\n",
    "kernel f(a: f64[N], x: f64[N], out y: f64[N]):\n var s: f64 = 0.5\n for i in 0..N:\n  s = a[i] * s + x[i]\n  y[i] = s\n",
])  # fmt: skip
def test_ptx_of_many_blocks(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that start in any order, and many that look at each other; what goes from one group of them to the next."""
    for (room, name), value in SMALL.items():
        monkeypatch.setattr(room, name, value)
    rng = np.random.default_rng(5)
    run_ptx(text, Tuning(), {"N": 9001, "R": 3}, 0, strategy="", data_of=lambda name, shape: rng.integers(0, 2, shape))


@pytest.mark.parametrize("width", [256, 257, 4096, 4100, 8193])
def test_ptx_of_rows(width: int) -> None:
    text = """
kernel f(x: f32[R, N], out y: f32[R, N]):
    for r in 0..R:
        var s: f32 = 1.0
        for i in 1..N-1:
            y[r, i] = s
            s += x[r, i]
"""
    run_ptx(text, Tuning(), {"N": width, "R": 2}, 0, strategy="")
