"""Known kernels: the dependences a textbook gives."""

from __future__ import annotations

import time

import brute
import pytest
from helpers import example, kernel

from loopfuse.base.diagnostics import UserError
from loopfuse.poly.build import build_model
from loopfuse.poly.deps import find_dependences
from loopfuse.poly.deps_report import describe_dependences, print_dependences
from tests.machine import is_within


def summary(text_or_kernel: object, **options: object) -> set[tuple[object, ...]]:
    core = kernel(text_or_kernel) if isinstance(text_or_kernel, str) else text_or_kernel
    program = build_model(core)  # type: ignore[arg-type]
    described = describe_dependences(program, find_dependences(program), **options)  # type: ignore[arg-type]
    return {
        (
            d["kind"],
            d["array"],
            d["source"]["statement"],
            d["sink"]["statement"],
            tuple(d["distance"]),
            "".join(d["direction"]),
            d["carried_by"],
            d["reduction"],
        )
        for d in described["dependences"]
    }


def test_jacobi() -> None:
    found = summary(example("jacobi"))
    assert ("flow", "b", "S1", "S2", (0,), "=", None, False) in found
    assert ("flow", "a", "S2", "S1", (1,), "<", "t", False) in found
    assert ("anti", "a", "S1", "S2", (0,), "=", None, False) in found
    assert ("output", "a", "S2", "S2", (1, 0, 0), "<==", "t", False) in found
    assert {each[-2] for each in found} == {None, "t"}


def test_gauss_seidel() -> None:
    found = summary(
        "kernel gs(inout a: f64[N, N], steps: i64):\n"
        "    for t in 0..steps:\n        for i in 1..N-1, j in 1..N-1:\n"
        "            a[i, j] = a[i-1, j] + a[i, j-1] + a[i+1, j] + a[i, j+1]\n"
    )
    flow = {each[4:7] for each in found if each[0] == "flow"}
    assert ((0, 1, 0), "=<=", "i") in flow
    assert ((0, 0, 1), "==<", "j") in flow
    assert ((1, None, None), "<**", "t") in flow


def test_matrix_product() -> None:
    found = summary(
        "kernel mm(a: f32[M, K], b: f32[K, N], inout c: f32[M, N]):\n"
        "    for i in 0..M, j in 0..N, k in 0..K:\n        c[i, j] += a[i, k] * b[k, j]\n"
    )
    assert found == {
        ("flow", "c", "S1", "S1", (0, 0, 1), "==<", "k", True),
        ("output", "c", "S1", "S1", (0, 0, 1), "==<", "k", True),
    }


def test_triangular_solve() -> None:
    found = summary(
        "kernel solve(l: f64[N, N], b: f64[N], out x: f64[N]):\n"
        "    for i in 0..N:\n        var s: f64 = b[i]\n"
        "        for j in 0..i:\n            s -= l[i, j] * x[j]\n"
        "        x[i] = s / l[i, i]\n"
    )
    assert ("flow", "x", "S3", "S2", (None,), "<", "i", False) in found
    assert ("flow", "s", "S2", "S2", (0, 1), "=<", "j", True) in found
    assert not any(each[1] == "x" and each[0] != "flow" for each in found)


def test_prefix_sum() -> None:
    found = summary(
        "kernel scan(x: f32[N], out y: f32[N]):\n    y[0] = x[0]\n"
        "    for i in 1..N:\n        y[i] = y[i-1] + x[i]\n"
    )
    assert found == {
        ("flow", "y", "S1", "S2", (), "", None, False),
        ("flow", "y", "S2", "S2", (1,), "<", "i", False),
    }


def test_steps_count_iterations_and_counting_down_is_forward() -> None:
    found = summary(
        "kernel f(inout a: f32[N]):\n"
        "    for i in N-3..-1 step -2:\n        a[i] = a[i+2]\n"
    )
    assert found == {("flow", "a", "S1", "S1", (1,), "<", "i", False)}


def test_a_recurrence_is_no_reduction() -> None:
    found = summary(
        "kernel f(inout a: f32[N]):\n    for i in 1..N:\n        a[i] += a[i-1]\n"
    )
    assert found == {("flow", "a", "S1", "S1", (1,), "<", "i", False)}


def test_strided_loop_that_counts_down() -> None:
    """isl 0.27's own flow analysis is wrong here (docs/decisions/flow.md)."""
    core = kernel(
        "kernel f(inout a: f64[K], M: i64, N: i64):\n"
        "    assume K >= 2 * N\n"
        "    for t in 0..2, i in M..0 step -2, j in i % 2..N step 2:\n        a[2*j] = 1.0\n"
    )
    sizes = {"K": 8, "M": 4, "N": 4}
    program = build_model(core)
    described = describe_dependences(program, find_dependences(program), sizes, instances=True)
    truth = brute.find(brute.trace(core, sizes)).pairs["output", "a", "S1", "S1"]
    listed = {
        (tuple(one), tuple(other))
        for record in described["dependences"]
        for one, other in record["pairs"]
    }
    assert listed == truth


def test_instances_need_sizes() -> None:
    program = build_model(example("jacobi"))
    with pytest.raises(UserError) as caught:
        describe_dependences(program, find_dependences(program), {"N": 4}, instances=True)
    assert caught.value.diagnostics[0].code == "missing-size"
    assert "steps" in caught.value.diagnostics[0].fix


def test_instances_of_a_reduction_have_its_iterators() -> None:
    program = build_model(
        kernel("kernel f(a: f32[N], out s: f32[1]):\n    s[0] = sum(k in 0..N: a[k])\n")
    )
    described = describe_dependences(program, find_dependences(program), {"N": 3}, instances=True)
    own = next(d for d in described["dependences"] if d["source"] == d["sink"] and d["kind"] == "flow")
    assert own["reduction"] and own["pairs"] == [[[0], [1]], [[1], [2]]]
    last = next(d for d in described["dependences"] if d["source"] != d["sink"])
    assert last["pairs"] == [[[2], []]]


def test_text_is_narrow() -> None:
    program = build_model(example("jacobi"))
    deps = find_dependences(program)
    text = print_dependences(describe_dependences(program, deps, {"N": 5, "steps": 2}, True))
    assert text.startswith("jacobi")
    assert max(map(len, text.splitlines())) <= 80


def test_giving_up_is_an_answer() -> None:
    program = build_model(example("jacobi"))
    deps = find_dependences(program, operations=10)
    assert not deps.complete and "`a`" in deps.why
    assert find_dependences(program).complete  # the context is usable again


def test_unsharp_is_fast() -> None:
    core = example("unsharp")
    best = 1.0
    for _ in range(5):
        start = time.process_time()
        find_dependences(build_model(core))
        best = min(best, time.process_time() - start)
    assert is_within(best, 0.05), f"{best * 1e3:.1f} ms; it takes 3 on an idle machine"
