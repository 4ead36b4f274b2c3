"""Footprints and traffic as formulas."""

from __future__ import annotations

from helpers import example, kernel

from loopfuse.poly.build import build_model
from loopfuse.poly.reuse import Moved, footprint, is_border, traffic


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


def test_borders_alone_are_no_hull() -> None:
    """Rows 0 and H-1 are two rows, and no pass over the array; with the rest they are all of it."""
    program = build_model(
        kernel(
            "kernel f(a: f32[H, W], out b: f32[H, W]):\n"
            "    assume H >= 3 and W >= 3\n"
            "    for x in 0..W:\n        b[0, x] = a[0, x]\n        b[H-1, x] = a[1, x]\n"
            "    for y in 1..H-1, x in 0..W:\n        b[y, x] = a[y, x]\n"
            "    b[0, 0] = 1.0\n    b[0, 1] = 2.0\n"
        )
    )
    sizes = {"H": 100, "W": 70}
    rows = Moved("b", "write", ("S1", "S2"))
    assert traffic(program, [rows], sizes).value == 4 * 2 * 70
    assert traffic(program, [Moved("a", "read", ("S1", "S2"))], sizes).text == "8*W"
    every = Moved("b", "write", ("S1", "S2", "S3"))
    assert traffic(program, [every], sizes).text == "4*H*W"
    corners = Moved("b", "write", ("S4", "S5"))
    assert traffic(program, [corners], sizes).value == 4 * 2
    assert is_border(program, rows) and is_border(program, corners)
    assert not is_border(program, every) and not is_border(program, Moved("a", "read", ("S3",)))


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
