"""Edge modes of windows: arrays that are loaded and stages that are computed, read beyond their
edges, on both interpreters, by the checker and through ptxas."""

from __future__ import annotations

import pytest

from loopfuse import pipeline
from loopfuse.base.options import Options, Target, Tuning
from loopfuse.tree.looptree import HostLoop, Launch
from tests.codegen.trees import check_ptx
from tests.plan.test_sliding import SIZES, planned, read, run

pytestmark = pytest.mark.usefixtures("launches_apart")

MODES = ("clamp", "reflect", "symmetric", "wrap")

LOADED = """
    kernel f(a: f32[H, W], out c: f32[H, W]):
        temp b: f32[H, W]
        for y in 0..H, x in 0..W:
            b[y, x] = 2.0 * a.MODE[y, x-2] + a.MODE[y, x+3] - a.MODE[y-4, x]
        for y in 1..H-2, x in 1..W-2:
            c[y, x] = b[y-1, x] + 3.0 * b[y+2, x] - b[y, x-1] + b[y, x+2]
    """
COMPUTED = """
    kernel f(a: f32[H, W], out c: f32[H, W]):
        temp b: f32[H, W]
        for y in 0..H, x in 0..W:
            b[y, x] = 2.0 * a.MODE[y, x-2] + a.MODE[y, x+3] - a.MODE[y-1, x]
        for y in 0..H, x in 0..W:
            c[y, x] = b.MODE[y-1, x] + 3.0 * b.MODE[y+2, x] - b.MODE[y, x-1] + b.MODE[y, x+2]
    """
THREE = """
    kernel f(a: f32[H, W], k: f32[W], out d: f32[H, W], out c: f32[H, W]):
        temp b: f32[H, W]
        for y in 0..H, x in 0..W:
            b[y, x] = a.MODE[y-2, x] + k[x] * a.MODE[y, x+1] + a[y, x] * x
        for y in 0..H, x in 0..W:
            c[y, x] = b.MODE[y-1, x-2] + b[y, x]
        for y in 0..H, x in 0..W:
            d[y, x] = c.MODE[y+1, x] * b.MODE[y+2, x+1] + a.MODE[y, x-3]
    """
COLUMNS = """
    kernel f(a: f64[H, W], out c: f64[H, W]):
        temp b: f64[H, W]
        for y in 1..H-1, x in 0..W:
            b[y, x] = a[y, x] + a.MODE[y-1, x+1]
        for y in 2..H-2, x in 0..W:
            c[y, x] = b.MODE[y-1, x-2] + b.MODE[y+1, x+1]
    """
SHIFTED = """
    kernel f(a: i32[H, W], out c: i32[H, W]):
        temp b: i32[H, W]
        for y in 0..H, x in 0..W:
            b[y, x] = a[y, x] + a.MODE[y-1, x+1]
        for y in -1..H-1, x in 1..W+1:
            c[y+1, x-1] = b.MODE[y-1, x-1] - b.MODE[y+1, x+1]
    """
PROGRAMS = {
    "loaded": LOADED, "computed": COMPUTED, "three": THREE, "columns": COLUMNS, "shifted": SHIFTED,
}  # fmt: skip

TEMPORARY = """
    kernel f(inout a: f32[H, W], n: i64):
        temp b: f32[H, W]
        for t in 0..n:
            for y in 0..H, x in 0..W:
                b[y, x] = 0.25 * (a.MODE[y, x-1] + a.MODE[y, x+1] + a.MODE[y+1, x] - a.MODE[y-1, x])
            for y in 0..H, x in 0..W:
                a[y, x] = b[y, x]
    """
TIMES = {
    "temporary": TEMPORARY,
    "levels": """
    kernel f(inout u: f32[2, H, W], n: i64):
        for t in 0..n:
            for y in 0..H, x in 0..W:
                u[(t + 1) % 2, y, x] = 0.3 * (u[t % 2, y, x] + u.MODE[t % 2, y-1, x] - u.MODE[t % 2, y, x+1])
    """,
    "one sided": """
    kernel f(inout a: f32[H, W], n: i64):
        temp b: f32[H, W]
        for t in 0..n:
            for y in 0..H, x in 0..W:
                b[y, x] = 0.5 * (a.MODE[y+2, x+1] - a.MODE[y+3, x+2])
            for y in 2..H-2, x in 3..W-1:
                a[y, x] = b[y, x]
    """,
    "read later": """
    kernel f(inout a: f32[H, W], out c: f32[H, W], n: i64):
        temp b: f32[H, W]
        for t in 0..n:
            for y in 4..H, x in 3..W:
                b[y, x] = 0.5 * (a.MODE[y+1, x+1] - a.MODE[y, x+2])
            for y in 5..H, x in 4..W:
                a[y, x] = b[y, x]
            for y in 0..H, x in 0..W:
                c[y, x] = a[y, x]
    """,
    "bordered": """
    kernel f(inout a: f32[H, W], n: i64):
        temp b: f32[H, W]
        for t in 0..n:
            for y in 0..H, x in 0..W:
                b[y, x] = 0.5 * (a.MODE[y-1, x+1] - a.MODE[y+1, x])
            for y in 0..H, x in 0..W:
                a[y, x] = b[y, x]
            for x in 0..W:
                a[0, x] = 1.5
    """,
}
BY_HAND = """
    kernel f(a: f32[H, W], out c: f32[H, W]):
        temp b: f32[H, W]
        for y in 1..H-1, x in 0..W:
            b[y, x] = a[y-1, (x + 1) % W] + a[y+1, (x - 1) % W]
        for y in 1..H-1, x in 0..W:
            c[y, x] = b[y, x] - b[y, (x + 2) % W]
    """
SMALL = Tuning(columns=1, rows=6, warps=2)
NARROW = [(1, 9), (9, 1), (2, 2), (3, 3), (4, 33)]


def strategies(found: pipeline.Planned) -> list[str]:
    return [launch.strategy for launch in found.tree.launches]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_edges_are_exact(name: str, mode: str) -> None:
    found = planned(PROGRAMS[name].replace("MODE", mode), SMALL)
    assert found.verdict.answer == "proved"
    assert strategies(found) == ["sliding"]
    for height, width in [*SIZES, *NARROW]:
        run(found, {"H": height, "W": width}, {})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", TIMES)
def test_time_steps_with_edges(name: str, mode: str) -> None:
    tuning = Tuning(columns=1, rows=6, warps=1, steps=2)
    found = planned(TIMES[name].replace("MODE", mode), tuning)
    assert found.verdict.answer == "proved"
    block = found.tree.body[0]
    assert isinstance(block, HostLoop)
    launches = [each.strategy for each in block.body if isinstance(each, Launch)]
    if mode == "wrap" and name not in ("temporary", "levels"):
        reasons = [decision.reason for decision in found.report.decisions]
        assert any("its loop does not write all of it" in reason for reason in reasons), reasons
    else:
        assert launches == ["sliding"] * 2
    for (height, width), steps in zip([(0, 0), (1, 2), (3, 1), (9, 5), (11, 45)], (4, 5, 4, 9, 4)):
        run(found, {"H": height, "W": width}, {"n": steps})


def test_periods_written_by_hand() -> None:
    found = planned(BY_HAND, SMALL)
    assert found.verdict.answer == "proved"
    assert strategies(found) == ["sliding"]
    for height, width in [*SIZES, *NARROW]:
        run(found, {"H": height, "W": width}, {})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (COMPUTED.replace("a.MODE", "a.clamp").replace("b.MODE", "b.wrap"),
         "`b` is read with `.wrap`, and `a`, of which it is made, with `.clamp`"),
        ("""
    kernel f(a: f32[H, W+1], out c: f32[H, W]):
        temp b: f32[H, W]
        for y in 0..H, x in 0..W:
            b[y, x] = a[y, x] + a[y, x+1]
        for y in 0..H, x in 0..W:
            c[y, x] = b.wrap[y-1, x-2] + b.wrap[y+1, x+1]
    """, "`b` is read with `.wrap`, and `a`, which it is made with, has another extent"),
        ("""
    kernel f(a: f32[H, W], inout b: f32[H, W], out c: f32[H, W]):
        for y in 1..H, x in 0..W:
            b[y, x] = a[y, x] + a.wrap[y-1, x+1]
        for y in 0..H, x in 0..W:
            c[y, x] = b.wrap[y-1, x-2] + b.wrap[y+1, x+1]
    """, "`b` is read with `.wrap`, and its loop does not write all of it"),
    ],
)  # fmt: skip
def test_why_a_stage_cannot_wrap(text: str, reason: str) -> None:
    found = planned(text, SMALL)
    assert "sliding" not in strategies(found) or len(strategies(found)) > 1
    assert any(reason in decision.reason for decision in found.report.decisions), [
        decision.reason for decision in found.report.decisions
    ]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["loaded", "computed", "columns"])
def test_edges_spill_nothing(name: str, mode: str) -> None:
    program = read(PROGRAMS[name].replace("MODE", mode))
    artifact = pipeline.compile_kernel(program, "f", Options(target=Target("sm_90")))
    assert check_ptx(artifact.ptx, Target("sm_90"))


@pytest.mark.parametrize("mode", ["", ".wrap"])
def test_views_stream_too(mode: str) -> None:
    """Strides are read at the call; no way of a tile has 16-byte accesses to them."""
    text = BY_HAND if not mode else COMPUTED.replace("MODE", "wrap")
    options = Options(target=Target("sm_90"), tuning=SMALL, strided=("a", "c"))
    program = read(text)
    found = pipeline.plan_kernel(program, "f", options)
    assert found.verdict.answer == "proved"
    assert strategies(found) == ["sliding"]
    assert {b.name for b in found.tree.buffers if b.strides is not None} == {"a", "c"}
    for height, width in SIZES:
        run(found, {"H": height, "W": width}, {})
    ptx = pipeline.compile_kernel(program, "f", options).ptx
    assert check_ptx(ptx, Target("sm_90"))
    assert "ld.global.v4" not in ptx
