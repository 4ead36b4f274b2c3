"""Convolutions and box filters written as sums: windows whose weights are read once a tile."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import Options, Target, Tuning
from loopfuse.codegen.targets.assemble import assemble, find_ptxas
from loopfuse.tree.printer import print_tree
from tests.plan.test_sliding import SIZES, planned, run

DEPTHWISE = """
    kernel f(a: f32[N, H, W], w: f32[N, 3, 3], bias: f32[N], out c: f32[N, H, W]):
        temp b: f32[N, H, W]
        for n in 0..N, y in 0..H, x in 0..W:
            b[n, y, x] = bias[n] + sum(r in 0..3, s in 0..3: a.zero[n, y+r-1, x+s-1] * w[n, r, s])
        for n in 0..N, y in 0..H, x in 0..W:
            c[n, y, x] = max(b[n, y, x], 0.0)
    """

CONVOLUTIONS = {
    "depthwise": DEPTHWISE,
    "variable": """
        kernel f(a: f64[N, H, W], w: f64[N, 3, 3], out c: f64[N, H, W]):
            for n in 0..N, y in 1..H-1, x in 1..W-1:
                var total: f64 = 0.0
                for r in 0..3:
                    for s in 0..3:
                        total += w[n, r, s] * a[n, y+r-1, x+s-1]
                c[n, y, x] = total
        """,
    "in three statements": """
        kernel f(a: f32[N, H, W], w: f32[N, 3], bias: f32[N], out c: f32[N, H, W]):
            temp b: f32[N, H, W]
            for n in 0..N, y in 0..H, x in 1..W-1:
                b[n, y, x] = bias[n]
                for s in 0..3:
                    b[n, y, x] += w[n, s] * a[n, y, x+s-1]
            for n in 0..N, y in 1..H-1, x in 1..W-1:
                let total = sum(r in 0..3: b[n, y+r-1, x])
                let scaled = total * bias[n]
                c[n, y, x] = max(scaled, 0.0)
        """,
    "box": """
        kernel f(a: i32[H, W], out c: i32[H, W]):
            temp b: i64[H, W]
            for y in 0..H, x in 0..W:
                b[y, x] = sum(s in -2..3: a.clamp[y, x+s])
            for y in 0..H, x in 0..W:
                c[y, x] = i32(sum(r in -1..2: b.clamp[y+r, x]) // 15)
        """,
    "largest": """
        kernel f(a: f32[H, W], out c: f32[H, W]):
            for y in 0..H, x in 0..W:
                c[y, x] = max(r in -1..2, s in -1..2: a.clamp[y+r, x+s])
        """,
    "other outer bounds": """
        kernel f(a: i32[N, H, W], w: i32[M], out c: i32[N, H, W], out d: i32[M, H, W]):
            for n in 0..N, y in 0..H, x in 1..W-1:
                c[n, y, x] = a[n, y, x-1] + a[n, y, x+1]
            for n in 0..M, y in 1..H-1, x in 1..W-1:
                d[n, y, x] = w[n] * sum(r in 0..3: a[n, y+r-1, x])
        """,
}

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "kernels" / "depthwise_relu.lf"
IMAGES = {"depthwise", "variable", "in three statements"}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_sums_are_windows(name: str) -> None:
    found = planned(CONVOLUTIONS[name])
    assert found.verdict.answer == "proved"
    assert [launch.strategy for launch in found.tree.launches] == ["sliding"]
    for height, width in SIZES:
        sizes = {"H": height, "W": width}
        if name in IMAGES:
            sizes |= {"N": 2}
        if name == "other outer bounds":
            for images in (0, 1, 3):  # w has no element for the images beyond
                run(found, {**sizes, "N": 3, "M": images}, {})
            continue
        run(found, sizes, {})


def test_time_steps_of_a_sum() -> None:
    found = planned(
        """
        kernel f(inout a: f32[H, W], w: f32[3, 3], n: i64):
            temp b: f32[H, W]
            for t in 0..n:
                for y in 1..H-1, x in 1..W-1:
                    b[y, x] = sum(r in 0..3, s in 0..3: w[r, s] * a[y+r-1, x+s-1])
                for y in 1..H-1, x in 1..W-1:
                    a[y, x] = b[y, x]
        """,
        Tuning(columns=1, rows=6, warps=1, steps=2),
    )
    assert found.verdict.answer == "proved"
    assert any(launch.strategy == "sliding" for launch in found.tree.launches)
    for (height, width), steps in zip([(0, 0), (3, 3), (9, 5), (20, 45)], (3, 4, 5, 9)):
        run(found, {"H": height, "W": width}, {"n": steps})


def test_weights_are_read_before_the_first_row() -> None:
    lines = print_tree(planned(DEPTHWISE, Tuning()).tree).splitlines()
    reads = [number for number, line in enumerate(lines) if re.search(r"= (w|bias)\[", line)]
    first = next(number for number, line in enumerate(lines) if "rotated for" in line)
    assert len(reads) == 10
    assert max(reads) < first
    assert not any(re.search(r"\b(w|bias)\[", line) for line in lines[first:])


def test_a_weight_that_a_condition_guards_is_not_kept() -> None:
    found = planned(
        """
        kernel f(a: f32[H, W], w: f32[M], out c: f32[H, W]):
            for y in 1..H-1, x in 0..W:
                c[y, x] = (w[0] if M > 0 else 2.0) * sum(r in 0..3: a[y+r-1, x])
        """
    )
    assert found.verdict.answer == "proved"
    assert "_kept" not in print_tree(found.tree)
    for weights in (0, 2):
        run(found, {"H": 12, "W": 35, "M": weights}, {})


@pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas")
@pytest.mark.parametrize("name", ["depthwise_relu", "variable"])
def test_machine_code(name: str) -> None:
    """Windows in registers, 16 bytes a load; weights are read outside the loop over rows."""
    text = textwrap.dedent(CONVOLUTIONS[name]) if name in CONVOLUTIONS else BENCHMARK.read_text()
    program = pipeline.read_program(Source("t.lf", text))
    options = Options(target=Target("sm_90"))
    ptx = pipeline.compile_kernel(program, program.kernels[0].name, options).ptx
    made: Any = assemble(ptx, Target("sm_90"))
    _, registers, spills = made
    assert set(spills.values()) == {0}
    assert all(count <= 128 for count in registers.values())
    assert ".local" not in ptx
    assert "bar.sync" not in ptx
    loops = _loops(ptx)
    wide = [body for body in loops if re.search(r"ld\.global\.nc\.v[24]", body)]
    aligned = [body for body in wide if not re.search(r"ld\.global(\.nc)?\.b", body)]
    assert aligned
    for body in wide:  # of the vector behind a row that starts anywhere, half may be all it needs
        assert body in aligned or "selp." in body


def _loops(ptx: str) -> list[str]:
    """The straight-line bodies that a branch goes back to the start of."""
    blocks = re.split(r"^(\$L__BB\d+_\d+):", ptx, flags=re.MULTILINE)
    return [
        body
        for label, body in zip(blocks[1::2], blocks[2::2], strict=True)
        if re.search(rf"bra\s+\{label};", body)
    ]


def test_report_names_the_loops_and_statements() -> None:
    found = planned(CONVOLUTIONS["in three statements"])
    report = found.report.to_dict()
    assert [loop["id"] for loop in report["loops"]] == ["L1", "L2"]
    assert [loop["statements"] for loop in report["loops"]] == [["S1", "S2"], ["S3", "S4", "S5"]]
    assert [d["between"] for d in report["decisions"]] == [["L1", "L2"]]
    assert np.all([d["fused"] for d in report["decisions"]])


def test_images_of_a_batch_have_a_warp_a_block() -> None:
    """Beside a narrow image a block's other warps would idle, and hold its registers."""
    lines = print_tree(planned(DEPTHWISE, Tuning()).tree).splitlines()
    assert any("warp for" in line and "in 0..1" in line for line in lines)
    lines = print_tree(planned(DEPTHWISE, Tuning(warps=2)).tree).splitlines()
    assert any("warp for" in line and "in 0..2" in line for line in lines)
