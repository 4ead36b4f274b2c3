"""Windows along one dimension: chains of stencils and time steps on a line, in strips of one row, on
the LoopTree interpreter."""

from __future__ import annotations

import pytest

from loopfuse.base.options import Tuning
from loopfuse.plan.strategies.sliding.strategy import windows_of
from loopfuse.tree.looptree import HostLoop, Launch
from tests.plan.test_sliding import planned, run

pytestmark = pytest.mark.usefixtures("launches_apart")

CHAINS = {
    "blur": """
        kernel f(a: f32[N], out c: f32[N]):
            temp b: f32[N]
            for i in 1..N-1:
                b[i] = a[i-1] + a[i] + a[i+1]
            for i in 2..N-2:
                c[i] = b[i-1] + b[i] + b[i+1]
        """,
    "clamped": """
        kernel f(a: f64[N], out c: f64[N]):
            temp b: f64[N]
            for i in 0..N:
                b[i] = 2.0 * a.clamp[i-2] + a.clamp[i+3] - a[i]
            for i in 0..N:
                c[i] = b.clamp[i-1] + 3.0 * b.clamp[i+2]
        """,
    "zero": """
        kernel f(a: f32[N], out c: f32[N], out d: f32[N]):
            for i in 0..N:
                c[i] = a.zero[i-1] - 2.0 * a.zero[i+1]
            for i in 0..N:
                d[i] = c.zero[i+2] - c.zero[i-1]
        """,
    "reflected": """
        kernel f(a: i32[N], out c: i32[N]):
            temp b: i32[N]
            for i in 0..N:
                b[i] = a.reflect[i-2] + a.reflect[i+3]
            for i in 0..N:
                c[i] = b.reflect[i-1] - b.reflect[i+2]
        """,
    "symmetric": """
        kernel f(a: i32[N], out c: i32[N]):
            temp b: i32[N]
            for i in 0..N:
                b[i] = a.symmetric[i-2] + a.symmetric[i+3]
            for i in 0..N:
                c[i] = b.symmetric[i-1] - b.symmetric[i+2]
        """,
    "wrapped": """
        kernel f(a: i32[N], out c: i32[N]):
            temp b: i32[N]
            for i in 0..N:
                b[i] = a.wrap[i-2] + a.wrap[i+3]
            for i in 0..N:
                c[i] = b.wrap[i-1] - b.wrap[i+2]
        """,
    "one-sided, mixed types": """
        kernel f(a: u8[N], k: f32[N], w: f32[2], out c: f32[N], inout s: f32[N]):
            for i in 0..N-3:
                s[i] = f32(a[i+3]) * w[0] + k[i]
            for i in 3..N-3:
                c[i] = s[i-3] * w[1] - k[i-2]
        """,
    "no loop in between": """
        kernel f(a: i64[N], out c: i64[N]):
            temp b: i64[N]
            temp d: i64[N]
            for i in 0..N-1:
                b[i] = a[i+1] - a[i]
            for i in 0..N-1:
                d[i] = max(b[i], 0)
            for i in 1..N-1:
                c[i] = d[i-1] + d[i]
        """,
}

TIMES = {
    "two arrays": """
        kernel f(inout a: f32[N], inout b: f32[N], n: i64):
            for t in 0..n:
                for i in 1..N-1:
                    b[i] = 0.3 * (a[i] + a[i-1] + a[i+1])
                for i in 1..N-1:
                    a[i] = 0.3 * (b[i] + b[i-1] + b[i+1])
        """,
    "temporary": """
        kernel f(inout a: f64[N], n: i64):
            temp b: f64[N]
            for t in 0..n:
                for i in 1..N-1:
                    b[i] = 0.25 * a[i-1] + 0.5 * a[i] + 0.25 * a[i+1]
                for i in 1..N-1:
                    a[i] = b[i]
        """,
    "one-sided": """
        kernel f(inout a: f32[N], n: i64):
            temp b: f32[N]
            for t in 0..n:
                for i in 2..N:
                    b[i] = a[i-1] + 0.5 * a[i-2]
                for i in 2..N:
                    a[i] = b[i]
        """,
    "swap": """
        kernel f(inout a: f32[N], inout b: f32[N], n: i64):
            for t in 0..n:
                for i in 1..N-1:
                    b[i] = 0.25 * a[i-1] + 0.5 * a[i] + 0.25 * a[i+1]
                swap a, b
        """,
    "planes": """
        kernel f(inout u: f32[2, N], n: i64):
            for t in 0..n:
                for i in 1..N-1:
                    u[(t+1) % 2, i] = 0.25 * u[t % 2, i-1] + 0.5 * u[t % 2, i] + 0.25 * u[t % 2, i+1]
        """,
    "coefficients": """
        kernel f(inout a: f32[N], k: f32[N], inout b: f32[N], n: i64):
            for t in 0..n:
                for i in 2..N-2:
                    b[i] = a[i] + k[i] * a[i-2]
                for i in 2..N-2:
                    a[i] = b[i] - k[i] * b[i+2]
        """,
    "clamped": """
        kernel f(inout a: f32[N], inout b: f32[N], n: i64):
            for t in 0..n:
                for i in 0..N:
                    b[i] = a.clamp[i-1] + 0.5 * a.clamp[i+2]
                swap a, b
        """,
    "ring": """
        kernel f(inout a: f32[N], inout b: f32[N], n: i64):
            for t in 0..n:
                for i in 0..N:
                    b[i] = a.wrap[i-1] + 0.5 * a.wrap[i+1]
                swap a, b
        """,
    "counting down": """
        kernel f(inout a: f32[N], inout b: f32[N], n: i64):
            for t in 0..n:
                for i in N-2..0 step -1:
                    b[i] = a[i-1] + 0.5 * a[i+1]
                for i in 1..N-1:
                    a[i] = b[i-1] - b[i]
        """,
    "two fields": """
        kernel f(inout e: f32[N], inout h: f32[N], n: i64):
            for t in 0..n:
                for i in 1..N:
                    e[i] = e[i] - 0.5 * (h[i] - h[i-1])
                for i in 0..N-1:
                    h[i] = h[i] - 0.7 * (e[i+1] - e[i])
        """,
}

SIZES = (0, 1, 2, 5, 31, 40, 61, 64, 97, 300)


@pytest.mark.parametrize("columns", [1, 4])
@pytest.mark.parametrize("name", CHAINS)
def test_chain_is_one_launch_of_strips(name: str, columns: int) -> None:
    found = planned(CHAINS[name], Tuning(columns=columns, warps=2))
    assert found.verdict.answer == "proved"
    assert [launch.strategy for launch in found.tree.launches] == ["sliding"]
    for size in SIZES:
        run(found, {"N": size}, {})


@pytest.mark.parametrize("name", TIMES)
def test_time_steps_in_blocks(name: str) -> None:
    found = planned(TIMES[name], Tuning(columns=1, warps=2, steps=2))
    assert found.verdict.answer == "proved"
    pairs = [node for node in found.tree.body if isinstance(node, HostLoop)]
    assert [launch.strategy for launch in pairs[0].body if isinstance(launch, Launch)] == [
        "sliding", "sliding",
    ]  # fmt: skip
    for size, steps in zip((0, 1, 3, 9, 45, 63, 130), (3, 2, 4, 5, 9, 0, 8), strict=True):
        run(found, {"N": size}, {"n": steps})


@pytest.mark.parametrize("name", ["temporary", "swap", "planes"])
def test_blocks_are_long_of_their_own_accord(name: str) -> None:
    found = planned(TIMES[name], Tuning())
    assert found.verdict.answer == "proved"
    made = [one.group.time for one in windows_of(found.scheduled.fits.values())]
    assert made[0] is not None and made[0].steps == 16
    run(found, {"N": 700}, {"n": 37})


BATCHES = {
    "lines": """
        kernel f(a: f32[B, N], w: f32[N], k: f32[B], out c: f32[B, N]):
            temp b: f32[B, N]
            for j in 0..B, i in 0..N:
                b[j, i] = a.clamp[j, i-1] + w[i] * a.clamp[j, i+2]
            for j in 0..B, i in 0..N:
                c[j, i] = b.clamp[j, i-1] - k[j] * b.clamp[j, i+1]
        """,
    "some of the lines": """
        kernel f(a: i32[B, N], out c: i32[B, N], out d: i32[B, N]):
            for j in 0..B, i in 1..N-1:
                c[j, i] = a[j, i-1] - a[j, i+1]
            for j in 1..B, i in 2..N-2:
                d[j, i] = c[j, i-1] + c[j, i+1]
        """,
    "a line for a range of one": """
        kernel f(a: f64[N], w: f32[N], out c: f64[N], out d: f32[N]):
            for j in 3..4, i in 2..N:
                c[i] = a[i-1] + a[i] * f64(j)
            for j in 0..1, i in 1..N-1:
                d[i] = w[i-1] + w[i+1]
        """,
    "columns of images": """
        kernel f(a: f64[B, 3, N], out c: f64[B, 3, N]):
            temp b: f64[B, 3, N]
            for j in 0..B, y in 0..3, i in 0..N:
                b[j, y, i] = a.wrap[j, y, i-1] + a.wrap[j, y, i+1]
            for j in 0..B, y in 0..3, i in 0..N:
                c[j, y, i] = b.wrap[j, y, i-2] - b[j, y, i]
        """,
}
STEPPED_BATCH = """
    kernel f(inout a: f32[B, N], n: i64):
        temp m: f32[B, N]
        for t in 0..n:
            for j in 0..B, i in 1..N-1:
                m[j, i] = 0.25 * a[j, i-1] + 0.5 * a[j, i] + 0.25 * a[j, i+1]
            for j in 0..B, i in 1..N-1:
                a[j, i] = m[j, i]
    """


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_of_lines(name: str) -> None:
    """Lines that need nothing of each other are not streamed: a batch of four has no edge there."""
    found = planned(BATCHES[name], Tuning(columns=2))
    assert found.verdict.answer == "proved"
    assert {one.pipeline.stream for one in windows_of(found.scheduled.fits.values())} == {""}
    for lines, size in ((0, 5), (1, 1), (2, 9), (3, 61), (5, 197)):
        run(found, {"B": lines, "N": size}, {})


def test_time_steps_of_a_batch_of_lines() -> None:
    found = planned(STEPPED_BATCH, Tuning(columns=1, steps=2))
    assert found.verdict.answer == "proved"
    assert {one.pipeline.stream for one in windows_of(found.scheduled.fits.values())} == {""}
    for lines, size, steps in ((0, 5, 4), (2, 9, 5), (3, 70, 9)):
        run(found, {"B": lines, "N": size}, {"n": steps})


def test_lines_that_read_each_other_stream() -> None:
    found = planned(
        """
        kernel f(a: f32[B, N], out c: f32[B, N]):
            temp b: f32[B, N]
            for j in 0..B, i in 1..N-1:
                b[j, i] = a[j, i-1] + a[j, i+1]
            for j in 1..B, i in 1..N-1:
                c[j, i] = b[j-1, i] + b[j, i]
        """
    )
    assert found.verdict.answer == "proved"
    assert all(one.pipeline.stream for one in windows_of(found.scheduled.fits.values()))
    run(found, {"B": 9, "N": 40}, {})


@pytest.mark.parametrize("loops", ["i in H-1..-1 step -1, j in 0..W", "i in 0..H, j in W-1..-1 step -1"])
def test_parallel_loops_that_count_down_are_windows(loops: str) -> None:
    found = planned(
        f"""
        kernel f(x: f32[H, W], out y: f32[H, W]):
            temp m: f32[H, W]
            for {loops}:
                m[i, j] = x.clamp[i, j-1] - 2.0 * x.clamp[i, j+1]
            for i in H-2..0 step -1, j in 1..W:
                y[i, j] = m[i-1, j] + 3.0 * m[i+1, j-1]
        """
    )
    assert found.verdict.answer == "proved"
    assert [launch.strategy for launch in found.tree.launches] == ["sliding"]
    for height, width in ((0, 0), (1, 1), (2, 9), (7, 40), (24, 75)):
        run(found, {"H": height, "W": width}, {})
