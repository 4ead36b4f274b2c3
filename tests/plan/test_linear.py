"""Linear recurrences as scans: which loops are taken, what their code computes, and what a tree may do with maps."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ptx_runs import run as run_ptx

import loopfuse
from loopfuse import pipeline
from loopfuse.base.diagnostics import InternalError, Source
from loopfuse.base.dtypes import DType
from loopfuse.base.options import CPU, Options, Target, Tuning
from loopfuse.lang.interp import interpret
from loopfuse.lang.nodes import (
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Fma,
    Iter,
    Load,
    Select,
    Unary,
    compare,
    integer,
)
from loopfuse.lang.slope import slope
from loopfuse.plan.strategies.scan import cpu
from loopfuse.tree.form.check import check_tree
from loopfuse.tree.interp.run import run_tree
from loopfuse.tree.interp.threads import append_in_warps
from loopfuse.tree.looptree import Combine, Copy, Fold, LoopTree, TreeNode
from loopfuse.tree.rewrite.maps import as_numbers
from loopfuse.tree.walk import map_nodes
from tests.plan.mutate_scan import THREE, small

GPU = Target("sm_90")
HEAD = (
    "kernel f(a: T[R, C], b: T[R, C], u: T[N], v: T[N], inout m: T[1], out y: T[N], out z: T[N], out h: T[R, C],"
    " out g: T[C, R]):\n"
)
TAKEN = {
    "rows": """
    for r in 0..R:
        var s: T = 0
        for t in 0..C:
            s = a[r, t] * s + b[r, t]
            h[r, t] = s
""",
    "rows through the result": """
    for r in 0..R:
        for t in 0..C:
            h[r, t] = a[r, t] * (h[r, t-1] if t > 0 else 0) + b[r, t]
""",
    "rows from their first": """
    for r in 0..R:
        h[r, 0] = b[r, 0]
        for t in 1..C:
            h[r, t] = a[r, t] * h[r, t-1] + b[r, t]
    assume C >= 1
""",
    "from a number": """
    var s: T = 3
    for t in 0..N:
        s = u[t] * s + v[t]
        y[t] = s
""",
    "in memory, exclusive": """
    for t in 0..N:
        z[t] = m[0]
        m[0] = m[0] * u[t] - v[t]
        y[t] = m[0] * 2
""",
    "from what was there": """
    for t in 1..N:
        y[t] = u[t] * y[t-1] + v[t]
""",
    "running mean": """
    var s: T = 5
    for t in 0..N:
        s = s + u[t] * (v[t] - s)
        y[t] = s
        z[t] = s + v[t]
""",
    "last value alone": """
    var s: T = 0
    for t in 0..N:
        s = s * 3 + u[t]
    m[0] = s
""",
    "two": """
    for t in 0..N:
        y[t] = u[t] * (y[t-1] if t > 0 else 7) + v[t]
        z[t] = v[t] * (z[t-1] if t > 0 else 1) - u[t]
""",
    "sums through the result": """
    for t in 0..N:
        y[t] = (y[t-1] if t > 0 else 0) + v[t]
""",
    "backwards": """
    for t in 0..N:
        y[N-1-t] = u[t] * (y[N-t] if t > 0 else 0) + v[t]
""",
    "neighbours read it too": """
    for t in 1..N:
        y[t] = u[t] * y[t-1] + v[t]
        z[t] = y[t] - y[t-1]
""",
    "gated": """
    var s: T = 0
    for t in 0..N:
        let e = u[t] * 3
        s = e * s + (1 - e) * v[t]
        y[t] = s * v[t]
""",
}
OTHERS = {
    "of the second order": """
    for t in 2..N:
        y[t] = u[t] * y[t-1] + v[t] * y[t-2]
""",
    "two steps apart": """
    for t in 2..N:
        y[t] = u[t] * y[t-2] + v[t]
""",
    "not linear": """
    var s: T = 3
    for t in 0..N:
        s = s * s + v[t]
        y[t] = s
""",
    "feeds another": """
    var s: T = 3
    var q: T = 3
    for t in 0..N:
        s = u[t] * s + v[t]
        q = s * q + v[t]
        y[t] = q
""",
    "under a condition": """
    var s: T = 3
    for t in 0..N:
        if u[t] > 0:
            s = u[t] * s + v[t]
        y[t] = s
""",
    "rounded on the way": """
    var s: f16 = 0.0
    for t in 0..N:
        s = f16(f32(u[t]) * f32(s) + f32(v[t]))
        y[t] = T(s)
""",
    "forgets where data say": """
    var s: T = 3
    for t in 0..N:
        s = u[t] * s + v[t] if v[t] > 0 else v[t]
        y[t] = s
""",
    "forgets now and then": """
    var s: T = 3
    for t in 0..N:
        s = u[t] * (s if t % 64 > 0 else 0) + v[t]
        y[t] = s
""",
    "time steps of points": """
    for r in 0..R, c in 0..C:
        for t in 0..N:
            h[r, c] = h[r, c] * u[t] + 1
""",
    "across memory": """
    for r in 0..R:
        for t in 0..C:
            g[t, r] = a[r, t] * (g[t-1, r] if t > 0 else 0) + b[r, t]
""",
}


def text_of(body: str, dtype: str) -> str:
    return (HEAD + body).replace("T[", f"{dtype}[").replace(": T ", f": {dtype} ").replace("T(", f"{dtype}(")


@functools.cache
def plan(body: str, target: Target = GPU, **options: Any) -> pipeline.Planned:
    program = pipeline.read_program(Source("f.lf", text_of(body, "f32")))
    return pipeline.plan_kernel(program, "f", Options(target=target, **options))


def is_scanned(planned: pipeline.Planned) -> bool:
    assert planned.verdict.answer == "proved"
    return any(launch.strategy == "scan" for launch in planned.tree.launches)


@pytest.mark.parametrize("name", TAKEN)
def test_taken_on_a_gpu(name: str) -> None:
    """Where its order may change, which reports say."""
    found = plan(TAKEN[name])
    assert is_scanned(found) and found.report.reassociated
    kept = plan(TAKEN[name], reassociate=False)
    assert not is_scanned(kept) and not kept.report.reassociated


@pytest.mark.parametrize("name", TAKEN)
def test_taken_on_a_cpu(name: str) -> None:
    """Each row is a worker's, who goes along it in order."""
    found = plan(TAKEN[name], CPU)
    assert is_scanned(found) == (not name.startswith("rows"))
    assert not is_scanned(plan(TAKEN[name], CPU, reassociate=False))


@pytest.mark.parametrize("name", OTHERS)
def test_others(name: str) -> None:
    assert not is_scanned(plan(OTHERS[name]))


# ------------------------------------------------------------------------------ on the interpreter


@pytest.mark.parametrize("target", ["cpu", "sm_90"])
@pytest.mark.parametrize("dtype", ["i64", "f64"])
@pytest.mark.parametrize("name", TAKEN)
def test_small_chunks_in_any_order_of_the_threads(name: str, dtype: str, target: str) -> None:
    """Whole numbers wrap around to the very bits, floats agree to rounding."""
    made = small(target, text=text_of(TAKEN[name], dtype)).make()
    for n in (1, 5, 17, 130, 300):
        sizes = {"N": n, "R": 3, "C": n}
        random = np.random.default_rng(n)
        given: dict[str, Any] = {}
        for array in made.program.kernel.arrays:
            shape = [sizes.get(getattr(extent, "name", ""), 1) for extent in array.extents]
            values = random.integers(-3, 4, shape) if dtype == "i64" else random.uniform(-1, 1, shape)
            given[array.name] = values.astype(array.dtype.numpy_name)
        with np.errstate(all="ignore"):
            wanted = {key: value.copy() for key, value in given.items()}
            wanted |= interpret(made.program.kernel, wanted, sizes)
            for order in ("forward", "reverse", "shuffled"):
                held = {key: value.copy() for key, value in given.items()}
                run_tree(made.tree, held, sizes, order=order, aligned=order == "forward")
                for key, value in wanted.items():
                    tolerance = 0 if dtype == "i64" else 1e-9
                    assert np.allclose(held[key], value, rtol=tolerance, atol=tolerance / 1e3, equal_nan=True), (n, order, key)


def test_nothing_stays_nothing_whatever_the_factors() -> None:
    """Their product is greater than any number, which nothing is multiplied by in the program's order."""
    made = small("sm_90", text=text_of(TAKEN["rows"], "f32")).make()
    held = {a.name: np.zeros((2, 300) if len(a.extents) == 2 else 2, np.float32) for a in made.program.kernel.arrays}
    held["m"], held["g"] = np.zeros(1, np.float32), np.zeros((300, 2), np.float32)
    held["a"] += 3
    held["b"][1, 299] = 2
    held["h"] += np.nan
    run_tree(made.tree, held, {"R": 2, "C": 300, "N": 2})
    assert not held["h"][0].any() and not held["h"][1, :299].any() and held["h"][1, 299] == 2


def test_what_is_infinite_stays_so() -> None:
    """However small the product of the factors is."""
    made = small("sm_90", text=text_of(TAKEN["rows"], "f32")).make()
    held = {a.name: np.zeros((2, 300) if len(a.extents) == 2 else 2, np.float32) for a in made.program.kernel.arrays}
    held["m"], held["g"] = np.zeros(1, np.float32), np.zeros((300, 2), np.float32)
    held["a"] += 0.125
    held["a"][1] *= -1
    held["b"][:, 3] = np.inf
    run_tree(made.tree, held, {"R": 2, "C": 300, "N": 2})
    assert not held["h"][:, :3].any() and np.isinf(held["h"][:, 3:]).all() and (held["h"][0, 3:] > 0).all()
    assert np.array_equal(held["h"][1, 3:] > 0, np.arange(297) % 2 == 0)


@pytest.mark.parametrize("count", [32, 96, 1024])
def test_linear_maps_are_put_together_in_order(count: int) -> None:
    letters = [chr(97 + t % 26) for t in range(count)]
    assert append_in_warps(letters, lambda a, b: a + b, "") == "".join(letters)


# ------------------------------------------------------------------------------ compiled code


@pytest.mark.parametrize("name", ["rows", "rows from their first", "from a number", "two"])
def test_ptx(name: str) -> None:
    text = text_of(TAKEN[name], "i32")
    for n in (5, 257, 4096, 4097, 8193):
        run_ptx(text, Tuning(), {"N": n, "R": 2, "C": n}, 0, strategy="")


@pytest.mark.parametrize("name", ["from a number", "in memory, exclusive", "two", "backwards", "running mean", "neighbours read it too"])
def test_on_a_cpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole numbers to the very bits; floats to rounding, with the same bits for any number of threads."""
    for dtype in ("i32", "f32", "f64"):
        kernel = loopfuse.loads(text_of(TAKEN[name], dtype), target="cpu")
        plain = loopfuse.loads(text_of(TAKEN[name], dtype), target="cpu", reassociate=False)
        for n in (1, 5, cpu.CHUNK, cpu.CHUNK + 1, cpu.CHUNK + cpu.PART + 3, cpu.ROUND + cpu.CHUNK + 7, 600_001):
            sizes = {"N": n, "R": 1, "C": 1}
            random = np.random.default_rng(n)
            given: dict[str, Any] = {}
            names = {"u": "N", "v": "N", "y": "N", "z": "N", "m": "1", "a": "RC", "b": "RC", "h": "RC", "g": "RC"}
            for array, shape in names.items():
                extents = [sizes.get(each, 1) for each in shape]
                values = random.integers(-3, 4, extents) if dtype == "i32" else random.uniform(-1, 1, extents)
                given[array] = values.astype({"i32": np.int32, "f32": np.float32, "f64": np.float64}[dtype])
            results: list[dict[str, Any]] = []
            for threads, run in ((1, plain), (1, kernel), (2, kernel), (3, kernel), (7, kernel)):
                monkeypatch.setenv("LOOPFUSE_NUM_THREADS", str(threads))
                held = {key: value.copy() for key, value in given.items()}
                run(**held)
                results.append(held)
            wanted, first, *others = results
            for key, value in wanted.items():
                assert all(np.array_equal(first[key], other[key]) for other in others), (dtype, n, key)
                tolerance = {"i32": 0, "f32": 1e-5, "f64": 1e-13}[dtype]
                assert np.allclose(first[key], value, rtol=tolerance, atol=tolerance), (dtype, n, key)


# ------------------------------------------------------------------------------ slopes


S, A, B = (Load(name, (), DType.F32) for name in "sab")


def of(op: str, left: Expr, right: Expr) -> Binary:
    return Binary(op, left, right, DType.F32)


IS_FIRST = compare("eq", Iter("t"), integer(0))


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (S, Const(1.0, DType.F32)),
        (A, Const(0.0, DType.F32)),
        (of("add", of("mul", A, S), B), A),
        (of("sub", B, of("mul", S, A)), Unary("neg", A, DType.F32)),
        (of("add", S, of("mul", A, of("sub", B, S))), of("add", Const(1.0, DType.F32), Unary("neg", A, DType.F32))),
        (Fma(A, S, B, DType.F32), A),
        (of("div", S, A), of("div", Const(1.0, DType.F32), A)),
        (of("div", A, S), None),
        (of("mul", S, S), None),
        (of("max", S, A), None),
        (Call("exp", (S,), DType.F32), None),
        (Select(IS_FIRST, A, of("mul", S, B), DType.F32), Select(IS_FIRST, Const(0.0, DType.F32), B, DType.F32)),
        (Select(Compare("gt", S, A), S, B, DType.F32), None),
        (Select(Compare("gt", A, B), S, B, DType.F32), None),
        (Select(Compare("gt", A, B), S, of("mul", S, B), DType.F32), Select(Compare("gt", A, B), Const(1.0, DType.F32), B, DType.F32)),
        (Cast(Cast(S, DType.F64), DType.F32), None),
    ],
)
def test_slopes(value: Expr, wanted: Expr | None) -> None:
    found = slope(value, S)
    if isinstance(wanted, Binary) and wanted.op == "add":  # 1 - a, however it is written
        assert found is not None and repr(found).count("Load") == 1
    else:
        assert found == wanted


# ------------------------------------------------------------------------------ what a tree may do


def tree() -> LoopTree:
    return small("sm_90", text=text_of(TAKEN["from a number"], "f32"), name="tree", more=(THREE,)).make().tree


def changed(change: Any) -> LoopTree:
    def one(node: TreeNode) -> tuple[TreeNode, ...]:
        return (change(node) or node,)

    return map_nodes(one, tree())


def test_maps_are_two_numbers() -> None:
    made = tree()
    check_tree(made)
    maps = {buffer.name for buffer in made.buffers if buffer.factors}
    nodes: list[TreeNode] = []
    map_nodes(lambda node: (nodes.append(node), (node,))[1], as_numbers(made))
    assert maps and not any(isinstance(node, Fold) for node in nodes)
    assert any(isinstance(node, Copy) and node.target.array.endswith("_factor") for node in nodes)
    other = replace(made, buffers=tuple(replace(b, factors="") for b in made.buffers))
    assert as_numbers(other) is other


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda n: replace(n, op="sum") if isinstance(n, Fold) else None, "takes a map for a number"),
        (lambda n: replace(n, op="sum") if isinstance(n, Combine) else None, "takes a map for a number"),
        (
            lambda n: replace(n, value=replace(n.value, value=1.0))
            if isinstance(n, Copy) and isinstance(n.value, Const) and "sum" in n.target.array
            else None,
            "takes a map for a number",
        ),
        (
            lambda n: Copy(n.target, n.value) if isinstance(n, Fold) and "run" in n.target.array else None,
            "takes a map for a number",
        ),
        (
            lambda n: replace(n, value=Load("s_sum_factor", (), DType.F32))
            if isinstance(n, Copy) and n.target.array == "s_total"
            else None,
            "holds factors of maps",
        ),
    ],
)
def test_maps_are_no_numbers(change: Any, says: str) -> None:
    with pytest.raises(InternalError, match=says):
        check_tree(changed(change))


def test_factors_lie_as_their_maps_do() -> None:
    made = tree()
    shorter = tuple(
        replace(b, dtype=DType.F64) if b.name.endswith("_factor") else b for b in made.buffers
    )
    with pytest.raises(InternalError, match="whose factors are in a workspace like it"):
        check_tree(replace(made, buffers=shorter))
