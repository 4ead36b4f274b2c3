"""Sliding windows: pipelines of stencils and blocks of time steps, on the LoopTree interpreter."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import Options, Target, Tuning
from loopfuse.lang.index import evaluate_index
from loopfuse.lang.interp import Offence, interpret
from loopfuse.lang.nodes import Program
from loopfuse.tree.interp.run import run_tree
from loopfuse.tree.looptree import HostLoop, Launch

pytestmark = pytest.mark.usefixtures("launches_apart")

CHAINS = {
    "blur": """
        kernel f(a: f32[H, W], out c: f32[H, W]):
            temp b: f32[H, W]
            for y in 0..H, x in 1..W-1:
                b[y, x] = a[y, x-1] + a[y, x] + a[y, x+1]
            for y in 1..H-1, x in 1..W-1:
                c[y, x] = b[y-1, x] + b[y, x] + b[y+1, x]
        """,
    "clamped": """
        kernel f(a: f64[H, W], out c: f64[H, W]):
            temp b: f64[H, W]
            for y in 0..H, x in 0..W:
                b[y, x] = 2.0 * a.clamp[y, x-2] + a.clamp[y, x+3] - a.clamp[y-1, x]
            for y in 0..H, x in 0..W:
                c[y, x] = b.clamp[y-1, x] + 3.0 * b.clamp[y+2, x] - b.clamp[y, x-1] + b.clamp[y, x+2]
        """,
    "zero": """
        kernel f(a: f32[H, W], out c: f32[H, W]):
            for y in 0..H, x in 0..W:
                c[y, x] = a.zero[y-1, x] + 2.0 * a.zero[y+1, x-1] - a.zero[y, x+1]
        """,
    "outer": """
        kernel f(a: i32[N, H, W], bias: i32[N], out c: i32[N, H, W]):
            temp b: i32[N, H, W]
            for n in 0..N, y in 1..H-1, x in 1..W-1:
                b[n, y, x] = a[n, y-1, x] + a[n, y, x-1] - a[n, y+1, x+1] + bias[n]
            for n in 0..N, y in 2..H-2, x in 2..W-2:
                c[n, y, x] = max(b[n, y, x] - b[n, y-1, x+1], 0)
        """,
    "several outputs": """
        kernel f(a: f32[H, W], inout s: f32[H, W], out c: f32[H, W], out d: f32[H, W]):
            for y in 1..H-1, x in 1..W-1:
                s[y, x] = a[y, x-1] - a[y, x+1]
            for y in 2..H-2, x in 2..W-2:
                c[y, x] = s[y-1, x] + s[y+1, x]
            for y in 2..H-2, x in 2..W-2:
                d[y, x] = s[y, x-1] + s[y, x+1]
        """,
    "far below": """
        kernel f(a: f32[H, W], out c: f32[H, W]):
            temp b: f32[H, W]
            for y in 0..H-3, x in 0..W:
                b[y, x] = a[y+3, x] - a[y, x]
            for y in 4..H-3, x in 0..W-5:
                c[y, x] = b[y-4, x] + b[y-1, x+5]
        """,
}

TIMES = {
    "two arrays": """
        kernel f(inout a: f32[H, W], inout b: f32[H, W], n: i64):
            for t in 0..n:
                for y in 1..H-1, x in 1..W-1:
                    b[y, x] = 0.2 * (a[y, x] + a[y, x-1] + a[y, x+1] + a[y+1, x] + a[y-1, x])
                for y in 1..H-1, x in 1..W-1:
                    a[y, x] = 0.2 * (b[y, x] + b[y, x-1] + b[y, x+1] + b[y+1, x] + b[y-1, x])
        """,
    "temporary": """
        kernel f(inout a: f64[H, W], n: i64):
            temp b: f64[H, W]
            for t in 0..n:
                for y in 1..H-1, x in 1..W-1:
                    b[y, x] = 0.25 * (a[y, x-1] + a[y, x+1] + a[y+1, x] + a[y-1, x])
                for y in 1..H-1, x in 1..W-1:
                    a[y, x] = b[y, x]
        """,
    "one-sided": """
        kernel f(inout a: f32[H, W], n: i64):
            temp b: f32[H, W]
            for t in 0..n:
                for y in 2..H, x in 0..W-1:
                    b[y, x] = a[y-1, x] + 0.5 * a[y-2, x+1]
                for y in 2..H, x in 0..W-1:
                    a[y, x] = b[y, x]
        """,
    "swap": """
        kernel f(inout a: f32[H, W], inout b: f32[H, W], n: i64):
            for t in 0..n:
                for y in 1..H-1, x in 1..W-1:
                    b[y, x] = 0.2 * (a[y, x] + a[y, x-1] + a[y, x+1] + a[y+1, x] + a[y-1, x])
                swap a, b
        """,
    "coefficients": """
        kernel f(inout a: f32[H, W], k: f32[H, W], inout b: f32[H, W], n: i64):
            for t in 0..n:
                for y in 1..H-1, x in 2..W-2:
                    b[y, x] = a[y, x] + k[y, x] * (a[y, x-2] - a[y-1, x])
                for y in 1..H-1, x in 2..W-2:
                    a[y, x] = b[y, x] - k[y, x] * (b[y, x+2] - b[y+1, x])
        """,
}

SMALL = Tuning(columns=1, rows=6, warps=2)
SIZES = [(0, 0), (1, 1), (2, 9), (5, 5), (7, 40), (31, 37), (24, 75)]


def read(text: str) -> Program:
    return pipeline.read_program(Source("t.lf", textwrap.dedent(text)))


def planned(text: str, tuning: Tuning = SMALL) -> pipeline.Planned:
    return pipeline.plan_kernel(read(text), "f", Options(target=Target("sm_90"), tuning=tuning))


def run(found: pipeline.Planned, sizes: dict[str, int], scalars: dict[str, int]) -> None:
    """Both interpreters on random data; every array must agree to the bit."""
    kernel, random = found.kernel, np.random.default_rng(7)
    values = {**sizes, **scalars}
    arguments: dict[str, object] = dict(scalars)
    for array in kernel.arrays:
        shape = [evaluate_index(extent, values) for extent in array.extents]
        kind = np.dtype(array.dtype.numpy_name)
        if array.dtype.is_float:
            arguments[array.name] = random.standard_normal(shape).astype(kind)
        else:
            arguments[array.name] = random.integers(-50, 50, shape).astype(kind)
    held = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
    wanted = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
    written = interpret(kernel, wanted, sizes)
    run_tree(found.tree, held, values)
    for array in kernel.arrays:
        expected = written.get(array.name, arguments[array.name])
        np.testing.assert_array_equal(held[array.name], expected, strict=True)


@pytest.mark.parametrize("name", CHAINS)
def test_chain_is_one_launch_of_windows(name: str) -> None:
    found = planned(CHAINS[name])
    assert found.verdict.answer == "proved"
    assert [launch.strategy for launch in found.tree.launches] == ["sliding"]
    for height, width in SIZES:
        run(found, {"H": height, "W": width, **({"N": 2} if name == "outer" else {})}, {})


def test_no_window_feeds_a_subscript() -> None:
    """Beyond what a strip stores a window holds junk: as a subscript it would be an offence."""
    found = planned(
        """
        kernel f(a: i64[H, W], table: f32[N], out c: f32[H, W]):
            temp b: i64[H, W]
            for y in 0..H, x in 1..W-1:
                b[y, x] = a[y, x+1] - a[y, x-1]
            for y in 1..H-1, x in 1..W-1:
                c[y, x] = table[b[y-1, x] + b[y+1, x]]
        """
    )
    assert found.verdict.answer == "proved"
    sizes = {"H": 24, "W": 75, "N": 5}
    ramp = np.tile(np.arange(75), (24, 1))
    arguments = {"a": ramp, "table": np.arange(5, dtype="f4"), "c": np.zeros((24, 75), "f4")}
    offences: list[Offence] = []
    run_tree(found.tree, arguments, sizes, offences=offences)
    assert not offences
    assert (arguments["c"][1:-1, 1:-1] == 4.0).all()


@pytest.mark.parametrize("name", TIMES)
def test_time_steps_in_blocks(name: str) -> None:
    found = planned(TIMES[name], Tuning(columns=1, rows=6, warps=1, steps=2))
    assert found.verdict.answer == "proved"
    pairs = [node for node in found.tree.body if isinstance(node, HostLoop)]
    assert [launch.strategy for launch in pairs[0].body if isinstance(launch, Launch)] == [
        "sliding", "sliding",
    ]  # fmt: skip
    for (height, width), steps in zip([(0, 0), (3, 3), (9, 5), (20, 45), (11, 33)], (3, 4, 5, 9, 0)):
        run(found, {"H": height, "W": width}, {"n": steps})
