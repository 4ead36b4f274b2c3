"""Sliding windows of planes: stencils along three dimensions, on the LoopTree interpreter, and what
code comes of the shapes that the planner chooses."""

from __future__ import annotations

import re
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.machine import MULTIPROCESSOR
from loopfuse.base.options import Options, Target, Tuning
from loopfuse.codegen.targets.assemble import assemble
from loopfuse.proof.check import Verdict
from loopfuse.tree.looptree import Barrier, HostLoop, Launch, LoopTree, Shared
from loopfuse.tree.walk import walk_nodes
from tests.plan.test_sliding import planned, run
from tests.plan.treekit import of_doubled

pytestmark = pytest.mark.usefixtures("launches_apart")

STAR = """
    kernel f(a: f32[D, H, W], out b: f32[D, H, W]):
        for z in 1..D-1, y in 1..H-1, x in 1..W-1:
            b[z, y, x] = a[z, y, x] + a[z-1, y, x] - 2.0 * a[z+1, y, x] + 3.0 * a[z, y-1, x] + 4.0 * a[z, y+1, x] + 5.0 * a[z, y, x-1] - a[z, y, x+1]
    """

CHAINS = {
    "star": STAR,
    "box": """
        kernel f(a: f64[D, H, W], out b: f64[D, H, W]):
            for z in 1..D-1, y in 1..H-1, x in 1..W-1:
                b[z, y, x] = a[z, y, x] + a[z-1, y-1, x-1] - 2.0 * a[z+1, y+1, x+1] + 3.0 * a[z+1, y-1, x] + 4.0 * a[z-1, y+1, x-1]
        """,
    "asymmetric": """
        kernel f(a: i32[D, H, W], out c: i32[D, H, W]):
            for z in 0..D, y in 0..H, x in 0..W:
                c[z, y, x] = a.clamp[z-1, y, x] + 2 * a.clamp[z+2, y+1, x-1] - a.clamp[z, y-2, x+3]
        """,
    "zero": """
        kernel f(a: f32[D, H, W], out c: f32[D, H, W]):
            for z in 0..D, y in 0..H, x in 0..W:
                c[z, y, x] = a.zero[z-1, y, x] + 2.0 * a.zero[z+1, y+1, x-1] - a.zero[z, y-2, x]
        """,
    "two stencils": """
        kernel f(a: f32[D, H, W], out c: f32[D, H, W]):
            temp b: f32[D, H, W]
            for z in 1..D-1, y in 1..H-1, x in 1..W-1:
                b[z, y, x] = a[z-1, y, x] + a[z, y-1, x] - a[z, y, x+1] + a[z+1, y, x]
            for z in 2..D-2, y in 2..H-2, x in 2..W-2:
                c[z, y, x] = b[z-1, y, x] + b[z, y-1, x] - b[z, y+1, x+1] + b[z+1, y, x]
        """,
    "in place": """
        kernel f(a: f32[D, H, W], inout b: f32[D, H, W], k: f32[H, W]):
            for z in 2..D-2, y in 2..H-2, x in 2..W-2:
                b[z, y, x] = 2.0 * a[z, y, x] - b[z, y, x] + k[y, x] * (a[z-2, y, x] + a[z+2, y, x] + a[z, y-2, x] + a[z, y+2, x] - a[z, y, x+2] + a[z, y, x-2])
        """,
    "in place everywhere": """
        kernel f(a: f32[D, H, W], inout b: f32[D, H, W]):
            for z in 0..D, y in 0..H, x in 0..W:
                b[z, y, x] = b[z, y, x] + a.clamp[z-1, y, x] - a.clamp[z, y+1, x] + a.clamp[z, y, x+1]
        """,
    "read one plane further": """
        kernel f(a: f32[D, H, W], w: f32[D, H, W], out c: f32[D, H, W]):
            temp b: f32[D, H, W]
            for z in 1..D-1, y in 1..H-1, x in 0..W:
                b[z, y, x] = w[z, y, x] * (a[z-1, y, x] + a[z, y-1, x] + a[z, y+1, x] - a[z+1, y, x])
            for z in 1..D-2, y in 1..H-1, x in 0..W:
                c[z, y, x] = b[z, y, x] + 2.0 * b[z+1, y, x]
        """,
    "blur3d": """
        kernel f(a: f32[D, H, W], out c: f32[D, H, W]):
            temp b: f32[D, H, W]
            temp e: f32[D, H, W]
            for z in 0..D, y in 0..H, x in 0..W:
                b[z, y, x] = a.clamp[z, y, x-1] + 2.0 * a[z, y, x] + a.clamp[z, y, x+1]
            for z in 0..D, y in 0..H, x in 0..W:
                e[z, y, x] = b.clamp[z, y-1, x] + 2.0 * b[z, y, x] + b.clamp[z, y+1, x]
            for z in 0..D, y in 0..H, x in 0..W:
                c[z, y, x] = e.clamp[z-1, y, x] + 2.0 * e[z, y, x] + e.clamp[z+1, y, x]
        """,
    "mirrored": """
        kernel f(a: f32[D, H, W], out c: f32[D, H, W]):
            temp b: f32[D, H, W]
            for z in 0..D, y in 0..H, x in 0..W:
                b[z, y, x] = a.clamp[z-1, y, x] + 2.0 * a.clamp[z, y+1, x] - a.clamp[z, y, x+1]
            for z in 0..D, y in 0..H, x in 0..W:
                c[z, y, x] = b.clamp[z-1, y, x] + 2.0 * b.clamp[z+1, y, x-1] - b.clamp[z, y-1, x] + b.clamp[z, y+1, x] - b[z, y, x] + b.clamp[z, y, x+1]
        """,
    "symmetric": of_doubled(
        "b.symmetric[z-1, y, x] + 2.0 * b.symmetric[z+1, y, x-1] - b.symmetric[z, y-1, x] + b.symmetric[z, y+1, x] - b[z, y, x]"
    ),
    "reflected planes": of_doubled(
        "b.reflect[z-1, y, x] + 2.0 * b.reflect[z+1, y, x] - b.symmetric[z, y-1, x] + b.clamp[z, y, x+1]"
    ),
    "reflected rows": of_doubled(
        "b.clamp[z-1, y, x] + 2.0 * b.reflect[z, y+1, x] - b.reflect[z, y-1, x] + b.symmetric[z, y, x+1]"
    ),
    "reflected columns": of_doubled(
        "b.symmetric[z-1, y, x] + 2.0 * b.reflect[z, y, x+1] - b.clamp[z, y-1, x] + b.reflect[z, y, x-1]"
    ),
    "reflected planes and rows": of_doubled(
        "b.reflect[z-1, y, x] + 2.0 * b.reflect[z+1, y+1, x] - b.reflect[z, y-1, x] + b.clamp[z, y, x+1]"
    ),
    "reflected everywhere": of_doubled(
        "b.reflect[z-1, y, x] + 2.0 * b.reflect[z+1, y+1, x-1] - b.reflect[z, y-1, x] + b.reflect[z, y, x+1]"
    ),
    "wrapped loads": """
        kernel f(a: f32[D, H, W], out c: f32[D, H, W]):
            for z in 0..D, y in 0..H, x in 0..W:
                c[z, y, x] = a.wrap[z-1, y, x] + 2.0 * a.wrap[z, y+1, x-1] - a.wrap[z+1, y-1, x]
        """,
    "reflected loads": """
        kernel f(a: f32[D, H, W], k: f32[D, H, W], out c: f32[D, H, W]):
            for z in 0..D, y in 0..H, x in 0..W:
                c[z, y, x] = a.reflect[z-1, y, x] + 2.0 * a.reflect[z, y+1, x-1] - k.symmetric[z+2, y, x] + k.symmetric[z, y-1, x+1]
        """,
    "torus": """
        kernel f(a: f32[D, H, W], out c: f32[D, H, W]):
            temp b: f32[D, H, W]
            for z in 0..D, y in 0..H, x in 0..W:
                b[z, y, x] = a.wrap[z-1, y, x] + 2.0 * a.wrap[z, y+1, x] - a.wrap[z, y, x+1]
            for z in 0..D, y in 0..H, x in 0..W:
                c[z, y, x] = b.wrap[z-1, y, x] + 2.0 * b.wrap[z+1, y, x-1] - b.wrap[z, y-1, x] + b[z, y, x]
        """,
    "batches": """
        kernel f(a: f32[N, D, H, W], inout s: f32[N, D, H, W], out c: f32[N, D, H, W]):
            for n in 0..N, z in 1..D-1, y in 1..H-1, x in 1..W-1:
                s[n, z, y, x] = a[n, z, y+1, x] - a[n, z, y-1, x] + a[n, z-1, y, x]
            for n in 0..N, z in 2..D-2, y in 3..H-3, x in 1..W-1:
                c[n, z, y, x] = s[n, z+1, y-2, x] - s[n, z, y+1, x]
        """,
    "weights": """
        kernel f(a: f32[D, H, W], w: f32[4], out b: f32[D, H, W]):
            for z in 1..D-1, y in 1..H-1, x in 1..W-1:
                b[z, y, x] = w[0] * a[z, y, x] + w[1] * a[z-1, y, x] - w[2] * a[z, y+1, x] + w[3] * a[z, y, x-1]
        """,
    "weights of some batches": """
        kernel f(a: f32[N, D, H, W], w: f32[N], out b: f32[N, D, H, W], out c: f32[N, D, H, W]):
            for n in 0..N, z in 1..D-1, y in 1..H-1, x in 1..W-1:
                b[n, z, y, x] = w[n] * a[n, z, y+1, x] + a[n, z-1, y, x]
            for n in 1..N, z in 1..D-1, y in 1..H-1, x in 1..W-1:
                c[n, z, y, x] = b[n, z, y, x] + w[n-1] * a[n, z, y-1, x]
        """,
}

TIMES = {
    "levels": """
        kernel f(inout u: f32[2, D, H, W], n: i64):
            for t in 0..n:
                for z in 1..D-1, y in 1..H-1, x in 1..W-1:
                    u[(t + 1) % 2, z, y, x] = 0.5 * (u[t % 2, z-1, y, x] + u[t % 2, z+1, y, x] - u[t % 2, z, y-1, x] + u[t % 2, z, y+1, x] - u[t % 2, z, y, x+1])
        """,
    "temporary": """
        kernel f(inout a: f32[D, H, W], n: i64):
            temp b: f32[D, H, W]
            for t in 0..n:
                for z in 1..D-1, y in 1..H-1, x in 1..W-1:
                    b[z, y, x] = 0.5 * (a[z-1, y, x] + a[z+1, y, x] - a[z, y-1, x] + a[z, y+1, x] - a[z, y, x+1])
                for z in 1..D-1, y in 1..H-1, x in 1..W-1:
                    a[z, y, x] = b[z, y, x]
        """,
    "swap": """
        kernel f(inout a: f64[D, H, W], inout b: f64[D, H, W], n: i64):
            for t in 0..n:
                for z in 1..D-1, y in 2..H-1, x in 1..W-1:
                    b[z, y, x] = 0.5 * (a[z-1, y, x] + a[z+1, y, x] - a[z, y-2, x] + a[z, y+1, x] - a[z, y, x+1])
                swap a, b
        """,
}

SMALL = Tuning(columns=1, rows=4, warps=2, band=4)
OTHER = Tuning(columns=2, rows=3, warps=3, band=2, ahead=0)
SIZES = [(0, 0, 0), (1, 1, 1), (3, 5, 4), (9, 13, 40), (14, 7, 31), (5, 3, 70)]


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("tuning", [SMALL, OTHER], ids=["small", "other"])
def test_chain_is_one_launch_of_planes(name: str, tuning: Tuning) -> None:
    if name in ("asymmetric", "batches", "in place", "mirrored", "zero", "two stencils", "weights of some batches", "reflected loads", "torus"):  # a wider halo
        wide = Tuning(columns=2, rows=5, warps=3, band=4)
        tuning = replace(SMALL, band=8) if tuning is SMALL and name == "batches" else tuning
        tuning = wide if tuning is OTHER else tuning
    if name == "reflected everywhere" and tuning is SMALL:  # isl gives up over lanes of one column
        tuning = replace(OTHER, rows=5)
    found = planned(CHAINS[name], tuning)
    assert found.verdict.answer == "proved", found.verdict.findings
    assert [launch.strategy for launch in found.tree.launches] == ["sliding"]
    assert any(isinstance(buffer.home, Shared) for buffer in found.tree.buffers)
    for depth, height, width in SIZES:
        sizes = {"D": depth, "H": height, "W": width}
        run(found, {**sizes, **({"N": 2} if "batches" in name else {})}, {})


def test_corners_with_edges_before_a_star_with_edges_are_proved() -> None:
    """In the planner's own shape, whose races were once more than isl answered."""
    text = (Path(__file__).resolve().parent.parent / "cases" / "planes_smooth.lf").read_text()
    found = planned(text.replace("planes_smooth", "f"), Tuning())
    assert found.verdict.answer == "proved", found.verdict.findings
    assert [launch.strategy for launch in found.tree.launches] == ["sliding"]


@pytest.mark.parametrize("name", TIMES)
def test_time_steps_in_blocks(name: str) -> None:
    found = planned(TIMES[name], Tuning(columns=1, rows=4, warps=2, band=6, steps=2))
    assert found.verdict.answer == "proved", found.verdict.findings
    pairs = [node for node in found.tree.body if isinstance(node, HostLoop)]
    assert [launch.strategy for launch in pairs[0].body if isinstance(launch, Launch)] == [
        "sliding", "sliding",
    ]  # fmt: skip
    for (depth, height, width), steps in zip(SIZES[:4], (2, 3, 5, 7)):
        run(found, {"D": depth, "H": height, "W": width}, {"n": steps})


def test_time_steps_beyond_the_edges() -> None:
    """Zeros stand beyond the faces of what is made, in blocks of two steps."""
    found = planned(
        """
        kernel f(inout a: f32[D, H, W], n: i64):
            temp b: f32[D, H, W]
            for t in 0..n:
                for z in 0..D, y in 0..H, x in 0..W:
                    b[z, y, x] = 0.5 * (a.zero[z-1, y, x] + a.zero[z+1, y, x] - a.zero[z, y-1, x] + a.zero[z, y+1, x] - a.zero[z, y, x+1])
                for z in 0..D, y in 0..H, x in 0..W:
                    a[z, y, x] = b[z, y, x]
        """,
        Tuning(rows=6, warps=2),
    )
    assert found.verdict.answer == "proved", found.verdict.findings
    assert "2 iterations of `t` run in one pass" in " ".join(d.reason for d in found.plan.decisions)
    # What is left over from blocks has no way of its own for aligned arrays.
    assert [launch.strategy for launch in found.tree.launches] == [*["sliding"] * 5, "generic"]
    for (depth, height, width), steps in zip(SIZES[1:4], (2, 3, 5)):
        run(found, {"D": depth, "H": height, "W": width}, {"n": steps})


def test_far_neighbours_beyond_the_edges() -> None:
    """No plane comes late of an array that the same launch writes."""
    found = planned(
        """
        kernel f(inout a: f32[D, H, W], n: i64):
            temp b: f32[D, H, W]
            for t in 0..n:
                for z in 0..D, y in 0..H, x in 0..W:
                    b[z, y, x] = a.zero[z-2, y, x] + a.zero[z+2, y, x] - a.zero[z, y-2, x] + a.zero[z, y+2, x] - a.zero[z, y, x+2]
                for z in 0..D, y in 0..H, x in 0..W:
                    a[z, y, x] = b[z, y, x]
        """,
        Tuning(),
    )
    assert found.verdict.answer == "proved", found.verdict.findings
    assert "sliding" in {launch.strategy for launch in found.tree.launches}


def test_blocks_that_are_not_proved_leave_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time loop then runs step by step, each with its windows, and is told so."""
    real = pipeline.verify

    def doubtful(program: Any, deps: Any, tree: LoopTree, *rest: Any) -> Verdict:
        if len(tree.body) > 1:  # loops over blocks, and over what is left
            return Verdict("unknown", ("too hard",), 0, ("read",))
        return real(program, deps, tree, *rest)

    monkeypatch.setattr(pipeline, "verify", doubtful)
    text = TIMES["temporary"]
    with pytest.warns(UserWarning, match="the time loop runs step by step"):
        found = planned(text, Tuning(columns=1, rows=4, warps=2, band=6, steps=2))
    assert found.verdict.answer == "proved"
    words = [decision.reason for decision in found.plan.decisions]
    assert "the iterations of `t` run one by one: blocks of them were not proved" in words


def test_a_face_runs_in_each_step_of_a_block() -> None:
    """A loop over a face writes a part of the array that the stencil behind it reads."""
    found = planned(
        """
        kernel f(inout a: f32[D, H, W], n: i64):
            temp b: f32[D, H, W]
            for t in 0..n:
                for z in 1..D-1, y in 1..H-1, x in 1..W-1:
                    b[z, y, x] = 0.5 * (a[z-1, y, x] + a[z, y+1, x] - a[z, y, x+1])
                for z in 1..D-1, y in 1..H-1, x in 1..W-1:
                    a[z, y, x] = b[z, y, x]
                for y in 0..H, x in 0..W:
                    a[0, y, x] = 1.0
        """,
        Tuning(columns=1, rows=4, warps=2, band=6, steps=2),
    )
    assert found.verdict.answer == "proved", found.verdict.findings
    pairs = [n for n in found.tree.body if isinstance(n, HostLoop) and len(n.body) == 2]
    launches = [launch for pair in pairs for launch in pair.body if isinstance(launch, Launch)]
    assert launches and all(launch.strategy == "sliding" for launch in launches)
    for (depth, height, width), steps in zip(SIZES[:2], (5, 7)):
        run(found, {"D": depth, "H": height, "W": width}, {"n": steps})


def test_one_plane_in_shared_memory_has_two_barriers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where two do not fit."""
    from loopfuse.plan.strategies.sliding.windows import blocks as window_blocks

    small = replace(MULTIPROCESSOR, shared_of_block=1400)
    monkeypatch.setattr(window_blocks, "MULTIPROCESSOR", small)
    found = planned(STAR, Tuning(columns=1, rows=4, warps=2, band=4))
    assert found.verdict.answer == "proved", found.verdict.findings
    assert [b.home for b in found.tree.buffers if isinstance(b.home, Shared)] == [Shared(1)]
    barriers = [n for n in walk_nodes(found.tree.launches[0].body) if isinstance(n, Barrier)]
    assert len(barriers) == 4 * 2
    for depth, height, width in SIZES:
        run(found, {"D": depth, "H": height, "W": width}, {})


def test_stencil_of_what_it_overwrites_gets_no_planes() -> None:
    found = planned(
        """
        kernel f(inout a: f32[D, H, W]):
            for z in 1..D-1, y in 1..H-1, x in 1..W-1:
                a[z, y, x] = a[z-1, y, x] + a[z, y+1, x]
        """,
        SMALL,
    )
    assert all(launch.strategy != "sliding" for launch in found.tree.launches)


def test_report_says_how_it_is_cut() -> None:
    found = planned(STAR, SMALL)
    (kernel,) = found.report.kernels
    assert "streams down z, tiles of 8 rows and 30 columns" in kernel.detail
    assert "2 warps of 4 rows" in kernel.detail


def test_views_stream_too() -> None:
    """No way of a tile has 16-byte accesses to memory."""
    program = pipeline.read_program(Source("t.lf", textwrap.dedent(STAR)))
    options = Options(target=Target("sm_90"), strided=("a", "b"))
    found = pipeline.plan_kernel(program, "f", replace(options, tuning=SMALL))
    assert found.verdict.answer == "proved"
    assert [launch.strategy for launch in found.tree.launches] == ["sliding"]
    for depth, height, width in SIZES:
        run(found, {"D": depth, "H": height, "W": width}, {})
    ptx = pipeline.compile_kernel(program, "f", options).ptx
    assert not re.search(r"(ld|st)\.global(\.nc)?\.v[24]\.", ptx)


SHAPES = {
    "star": STAR,
    "box": CHAINS["box"],
}  # test_benchmarks_ptx.py has the wave equation and heat


@pytest.mark.parametrize("name", SHAPES)
def test_windows_lie_in_registers(name: str) -> None:
    """The shape that the planner chooses spills nothing, loads what the type allows at once, and
    waits once a step."""
    program = pipeline.read_program(Source("t.lf", textwrap.dedent(SHAPES[name])))
    kernel = program.kernels[0].name
    options = Options(target=Target("sm_90"), index_bits=32)
    found = pipeline.plan_kernel(program, kernel, options)
    assert found.verdict.answer == "proved"
    artifact = pipeline.compile_kernel(program, kernel, options, planned=found)
    assert ".local" not in artifact.ptx
    assert re.search(r"ld\.global(\.nc)?\.v[24]\.", artifact.ptx)
    assert "st.shared.v" in artifact.ptx and "ld.shared.v" in artifact.ptx
    made = assemble(artifact.ptx, Target("sm_90"))
    if made is None:
        pytest.skip("no ptxas")
    _, registers, spills = made
    assert not any(spills.values()), (registers, spills)
