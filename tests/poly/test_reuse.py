"""Footprints and traffic as formulas."""

from __future__ import annotations

from helpers import example, kernel

from loopfuse.poly.build import build_model
from loopfuse.poly.reuse import Moved, footprint, traffic


def test_unsharp_before_and_after() -> None:
    program = build_model(example("unsharp"))
    one = [
        Moved("img", "read", ("S1",)),
        Moved("rows", "write", ("S1",)),
        Moved("rows", "read", ("S2",)),
        Moved("blur", "write", ("S2",)),
        Moved("blur", "read", ("S3",)),
        Moved("img", "read", ("S3",)),
        Moved("sharp", "write", ("S3",)),
    ]
    before = traffic(program, one, {"H": 4096, "W": 4096})
    assert (before.text, before.value) == ("28*H*W", 28 * 4096 * 4096)
    fused = [Moved("img", "read", ("S1", "S3")), Moved("sharp", "write", ("S3",))]
    assert traffic(program, fused, {}).text == "8*H*W"
    assert traffic(program, fused, {}).value is None


def test_stencil_hull_and_host_loop() -> None:
    program = build_model(
        kernel(
            "kernel f(inout a: f32[N, N], out b: f32[N, N], steps: i64):\n"
            "    for t in 0..steps:\n        for i in 1..N-1, j in 1..N-1:\n"
            "            b[i, j] = a[i, j-1] + a[i, j+1]\n"
        )
    )
    (statement,) = program.statements
    found = footprint(program, ["S1"], "a", "read")
    assert found is not None
    assert found.box == (("1", "N - 2"), ("0", "N - 1"))
    assert found.bytes.text == "4*(N - 2)*N"
    times = (statement.loops[0],)
    total = traffic(program, [Moved("b", "write", ("S1",), times)], {"N": 10, "steps": 3})
    assert (total.text, total.value) == ("4*steps*(N - 2)*(N - 2)", 4 * 3 * 8 * 8)


def test_strides_count_as_boxes() -> None:
    program = build_model(
        kernel(
            "kernel f(a: f64[N], out b: f64[N]):\n    for i in 0..N step 2:\n        b[i] = a[i]\n"
        )
    )
    found = footprint(program, ["S1"], "a", "read", {"N": 9})
    assert found is not None and found.bytes.value == 72


def test_nothing_touched() -> None:
    program = build_model(example("unsharp"))
    assert footprint(program, ["S3"], "rows", "read") is None
