"""The CPU's planner declines what loses the form that its loops have apart: vectors, whole lines of memory."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

import loopfuse
import loopfuse.testing
from loopfuse import pipeline
from loopfuse.base.options import CPU, Options
from loopfuse.tree.looptree import Loop

CASES = Path(__file__).parent.parent / "cases"
ROWS_BY_COLUMNS = """
    kernel k(a: f32[M, N], out t: f32[M, N]):
        for i in 0..M, j in 0..N:
            t[i, j] = 2.0 * a[i, j]
        for i in 1..M - 2:
            for j in 1..N:
                t[i, j] = max(a[i-1, j], 1.0) if i <= j else min(t[i+2, j], t[i-1, j])
    """
STEPS_OF_TWO_AND_THREE = """
    kernel k(a: f64[M, N], inout b: f64[M, N], out c: f64[M, N]):
        for i in 0..M, j in 0..N step 2:
            c[i, j] = a[i, j] * b[i, j]
        for i in 0..M, j in 1..N step 3:
            b[i, j] = 2.0 * a[i, j]
    """
ANEW_IN_EACH_ROW = """
    kernel k(a: f64[M], out c: f64[M, N]):
        temp t: f64[M]
        temp u: f64[M]
        for i in 0..M:
            t[i] = sqrt(abs(a[i]))
        for i in 0..M:
            u[i] = max(p in 2..M: t[p])
        for i in 0..M, j in 0..N:
            c[i, j] = t[i] + u[i]
    """
WRITTEN_ACROSS = """
    kernel k(a: u32[N, M], b: u32[N, M, N], g: i64[M], inout c: u32[N, M, N]):
        temp t: u32[N, M, N]
        for i in 0..N, j in 0..M:
            for k in 0..N:
                t[i, j, k] = a[k, j] * (b[k, j, k] + a[g[j], j])
        for i in 0..N - 1:
            for j in 2..M - 2, k in 1..N - 1:
                c[i, j, k] = t[k+1, j-2, k]
    """
A_FEW_OF_MANY = """
    kernel k(a: f32[N], b: f32[N], inout c: f32[N], m: i32):
        for i in max(m, 0)..N:
            c[i] = min(c[i], sqrt(abs(0.25 * a[i])))
        for i in max(m - 1, 0)..min(m + 3, N):
            c[i] = max(c[i], b[i])
    """
GATHERS = """
    kernel k(a: bool[N], b: i64[N], at: i32[M], out f: bool[M], out n: i64[M]):
        for i in 0..M:
            f[i] = not a[at[i]]
        for i in 0..M:
            n[i] = b[at[i]] + 1
    """
FROM_PLANE_TO_PLANE = """
    kernel k(a: f64[M, N], inout c: f64[N, M, N], out b: f64[M]):
        for i in 0..N, j in 0..M, k in 0..N:
            c[i, j, k] = a[j, k] + f64(i)
        for j in 0..M:
            b[j] = c[j % N, j, 0]
    """
HALVES_ANEW = """
    kernel k(x: bf16[N], out y: bf16[N]):
        temp b: bf16[N]
        for i in 1..N-1:
            b[i] = 0.25 * (x[i-1] + x[i+1]) + 0.5 * x[i]
        for i in 2..N-2:
            y[i] = 0.25 * (b[i-1] + b[i+1]) + 0.5 * b[i]
    """
KEPT_AND_STORED = """
    kernel k(a: f32[H, W], inout b: f32[H, W], out c: f32[H, W]):
        for y in 1..H, x in 0..W:
            b[y, x] = exp(a[y, x] + a[y-1, x])
        for y in 1..H, x in 1..W:
            c[y, x] = b[y, x] - b[y, x-1]
    """
DECLINED = {
    "what few threads compute": HALVES_ANEW.replace("bf16", "f16"),
    "from plane to plane": FROM_PLANE_TO_PLANE, "halves anew": HALVES_ANEW, "kept and stored": KEPT_AND_STORED,
    "rows by columns": ROWS_BY_COLUMNS, "steps of two and three": STEPS_OF_TWO_AND_THREE,
    "written across": WRITTEN_ACROSS, "a few of many": A_FEW_OF_MANY,
    "gathers": GATHERS,
}  # fmt: skip

POINTS = """
    kernel k(a: f64[M, N], inout b: f64[M, N], out c: f64[M, N]):
        for i in 0..M, j in 0..N:
            c[i, j] = a[i, j] * b[i, j]
        for i in 0..M, j in 0..N:
            b[i, j] = 2.0 * a[i, j]
    """
ROWS = """
    kernel k(a: f32[M, N], out s: f32[M], out t: f32[M, N]):
        for i in 0..M, j in 0..N:
            t[i, j] = 2.0 * a[i, j]
        for i in 0..M:
            s[i] = sum(j in 0..N: t[i, j])
    """
WRITTEN_AND_ANEW = """
    kernel k(a: f64[N], out t: f64[N], out b: f64[N]):
        for i in 0..N:
            t[i] = a[i]
        for i in 0..N:
            b[i] = max(a[i], t[min(i + 2, N - 1)])
    """
COLUMNS = """
    kernel k(a: f32[M, N], out s: f32[N]):
        temp t: f32[M, N]
        for i in 0..M, j in 0..N:
            t[i, j] = 2.0 * a[i, j]
        for j in 0..N:
            s[j] = sum(i in 0..M: t[i, j] * t[i, j])
    """


def report(text: str, target: str = "cpu") -> dict[str, Any]:
    return loopfuse.loads(textwrap.dedent(text)).explain(target=target).to_dict()


@pytest.mark.parametrize("name", DECLINED)
def test_what_would_be_slower_is_declined(name: str) -> None:
    (decision,) = report(DECLINED[name])["decisions"]
    assert not decision["fused"] and decision["reason"].startswith("it would be slower: about ")
    assert report(DECLINED[name])["launches"]["after"] == 2


def test_what_memory_hides_on_a_gpu_a_cpu_pays_for() -> None:
    """Roots computed anew for each row, behind a large array that is written."""
    found = report(ANEW_IN_EACH_ROW)
    assert any(each["reason"].startswith("it would be slower") for each in found["decisions"])
    assert not any("S1 again" in str(each) for each in found["decisions"])


@pytest.mark.parametrize("text", [POINTS, ROWS, COLUMNS, WRITTEN_AND_ANEW])
def test_what_saves_a_pass_is_fused(text: str) -> None:
    assert report(text)["launches"]["after"] == 1


def test_what_a_third_loop_computes_again_is_said() -> None:
    text = textwrap.dedent("""
        kernel k(u: f64[N, M], out w: f64[N, M], inout h: f64[N, M], out o: f64[N, M]):
            for i in 1..N-1, j in 1..M-1:
                w[i, j] = u[i, j+1] - u[i, j-1]
            for i in 1..N-1, j in 1..M-1:
                h[i, j] += 0.1 * w[i, j]
            for i in 2..N-2, j in 2..M-2:
                o[i, j] = h[i-1, j] + h[i+1, j] + w[i, j-1] + w[i, j+1]
        """)
    report = loopfuse.loads(text, target="cpu").explain(N=64, M=48).to_dict()
    last = report["decisions"][-1]
    assert last["between"] == ["L2", "L3"]
    assert last["fused"]
    assert "`w` is computed again where L3 needs it" in last["reason"]


def test_what_waits_for_nothing_is_a_loop_of_its_own_where_one_thread_runs_all() -> None:
    """In one loop both took 2.1 times as long: no vectors of the second."""
    kernel = loopfuse.loads((CASES / "in_turn_apart.lf").read_text(), target="cpu")
    program = kernel.program()
    (launch,) = pipeline.plan_kernel(program, kernel.name, Options(target=CPU)).tree.launches
    (one,) = launch.body
    assert isinstance(one, Loop)
    (steps,) = one.body
    assert isinstance(steps, Loop) and steps.var == "t"
    assert [type(loop) for loop in steps.body] == [Loop, Loop]
    loopfuse.testing.assert_equivalent(kernel, args={"steps": 5})
