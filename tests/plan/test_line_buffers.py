"""Line buffers: chains of stencils and blocks of time steps on the CPU, with the bits of the
interpreter on the LoopTree interpreter and compiled, one thread and several."""

from __future__ import annotations

import re
import textwrap
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import loopfuse
from loopfuse import pipeline
from loopfuse.base import machine as base_machine
from loopfuse.base.diagnostics import Source
from loopfuse.base.machine import LINE, PAGE
from loopfuse.base.options import CPU, Options, Tuning
from loopfuse.lang.interp import interpret
from loopfuse.lang.linear import constant_value
from loopfuse.lang.printer import print_expr
from loopfuse.runtime.devices import cpu
from loopfuse.runtime.devices.sharing import Share, Work
from loopfuse.tree.interp.run import run_tree
from loopfuse.tree.looptree import Compute, HostLoop, Launch, LineBuffer, Loop
from loopfuse.tree.walk import walk_nodes
from tests.plan.test_sliding import CHAINS, TIMES

MORE = {
    "point-wise between": """
        kernel f(a: f32[H, W], out d: f32[H, W]):
            temp b: f32[H, W]
            temp c: f32[H, W]
            temp e: f32[H, W]
            for y in 1..H-1, x in 1..W-1:
                b[y, x] = a[y-1, x] - a[y+1, x] + a[y, x-1] * a[y, x+1]
            for y in 1..H-1, x in 1..W-1:
                c[y, x] = b[y, x] * b[y, x]
            for y in 2..H-2, x in 2..W-2:
                e[y, x] = c[y-1, x-1] + c[y, x] + c[y+1, x+1]
            for y in 2..H-2, x in 2..W-2:
                d[y, x] = e[y, x] - c[y, x] * 0.5
        """,
    "stored and read": """
        kernel f(a: f32[H, W], out b: f32[H, W], out c: f32[H, W], out d: f32[H, W]):
            for y in 1..H-1, x in 1..W-1:
                b[y, x] = a[y, x-1] + a[y, x+1] - a[y-1, x] - a[y+1, x]
            for y in 1..H-1, x in 1..W-1:
                c[y, x] = b[y, x] * 2.0
            for y in 3..H-1, x in 1..W-3:
                d[y, x] = b[y-2, x] - c[y, x+2] * b[y, x]
        """,
    "two of one loop": """
        kernel f(a: f32[H, W], out c: f32[H, W], out s: f32[H, W]):
            temp b: f32[H, W]
            for y in 0..H, x in 1..W-1:
                b[y, x] = a[y, x-1] + a[y, x] * a[y, x+1]
                s[y, x] = b[y, x] - a[y, x]
            for y in 1..H-1, x in 1..W-1:
                c[y, x] = b[y-1, x] + b[y, x] * b[y+1, x] + s[y, x]
        """,
    "edges of inputs": """
        kernel f(a: f32[H, W], r: f32[H, W], out c: f32[H, W]):
            assume H > 1
            assume W > 1
            temp b: f32[H, W]
            for y in 0..H, x in 0..W:
                b[y, x] = a.reflect[y-1, x+1] + r.wrap[y+2, x-1] - a.symmetric[y, x-2] + r.zero[y+1, x]
            for y in 0..H, x in 0..W:
                c[y, x] = b.clamp[y-3, x] * b.clamp[y, x+2] + r[y, x]
        """,
    "bytes": """
        kernel f(a: u8[H, W], out c: u8[H, W]):
            temp b: i32[H, W]
            for y in 0..H, x in 0..W:
                b[y, x] = i32(a.clamp[y, x-1]) + 2 * i32(a[y, x]) + i32(a.clamp[y, x+1])
            for y in 0..H, x in 0..W:
                c[y, x] = u8((b.clamp[y-1, x] + 2 * b[y, x] + b.clamp[y+1, x]) // 16)
        """,
    "halves": """
        kernel f(a: f16[H, W], k: bf16[W], out c: bf16[H, W]):
            temp b: f16[H, W]
            for y in 0..H, x in 0..W:
                b[y, x] = f16(f32(a.clamp[y, x-1]) * f32(k[x]) + f32(a.clamp[y, x+1]))
            for y in 0..H, x in 0..W:
                c[y, x] = bf16(f32(b.clamp[y-1, x]) - f32(b.clamp[y+1, x]) * f32(a[y, x]))
        """,
    "asymmetric": """
        kernel f(a: f64[H, W], out c: f64[H, W]):
            temp b: f64[H, W]
            temp d: f64[H, W]
            for y in 2..H, x in 0..W-4:
                b[y, x] = a[y-2, x+4] + a[y, x] * a[y-1, x+1]
            for y in 2..H-1, x in 3..W-4:
                d[y, x] = b[y+1, x-3] - b[y, x] * b[y, x-1]
            for y in 2..H-1, x in 5..W-4:
                c[y, x] = d[y, x-2] + d[y, x] * d[y, x-1]
        """,
}

MORE_TIMES = {
    "two fields": """
        kernel f(inout e: f64[H, W], inout h: f64[H, W], n: i64):
            for t in 0..n:
                for y in 1..H, x in 0..W:
                    e[y, x] = e[y, x] - 0.5 * (h[y, x] - h[y-1, x])
                for y in 0..H-1, x in 0..W-1:
                    h[y, x] = h[y, x] - 0.7 * (e[y, x+1] - e[y, x] + e[y+1, x])
        """,
    "arrays of their own sizes": """
        kernel f(inout a: f32[H, W], inout b: f32[K, L], n: i64):
            for t in 0..n:
                for y in 1..H-1, x in 1..W-1:
                    b[y, x] = 0.2 * (a[y, x] + a[y, x-1] + a[y, x+1] + a[y+1, x] + a[y-1, x])
                for y in 1..H-1, x in 1..W-1:
                    a[y, x] = 0.2 * (b[y, x] + b[y, x-1] + b[y, x+1] + b[y+1, x] + b[y-1, x])
        """,
    "every other": """
        kernel f(inout a: f32[2, H, W], n: i64):
            for t in 0..n:
                for y in 1..H-1, x in 1..W-1:
                    a[(t + 1) % 2, y, x] = 0.3 * (a[t % 2, y-1, x] + a[t % 2, y, x+1] - a[t % 2, y, x])
        """,
    "driven": """
        kernel f(inout a: f32[H, W], n: i64):
            temp b: f32[H, W]
            for t in 0..n:
                for y in 1..H-1, x in 1..W-1:
                    b[y, x] = 0.3 * (a[y-1, x] + a[y, x+1] - a[y, x])
                for y in 1..H-1, x in 1..W-1:
                    a[y, x] = b[y, x]
                for x in 0..W:
                    a[0, x] = 1.5
        """,
    "with a source": """
        kernel f(inout a: f32[H, W], s: f32[H, W], n: i64):
            temp b: f32[H, W]
            for t in 0..n:
                for y in 0..H, x in 0..W:
                    b[y, x] = 0.25 * (a.clamp[y, x-1] + a.clamp[y, x+1] + a.clamp[y-1, x] + a.clamp[y+1, x])
                for y in 0..H, x in 0..W:
                    a[y, x] = b[y, x] + s[y, x]
        """,
}

SMALL = Tuning(columns=7, rows=6, steps=2)
SIZES = [(0, 0), (1, 1), (0, 5), (1, 30), (2, 9), (5, 5), (7, 40), (26, 23)]
WITHOUT = {
    "zero": "its only loop reads memory", "driven": "a loop over the border writes it too",
    "every other": "a nest whose iterations depend on each other is strategy affine's",
}  # fmt: skip
"""Those that get no line buffers, and why."""
ASKED = ("several outputs", "stored and read")
"""Those that store what they keep, so that few threads are no faster: lines are asked for."""


def fused(text: str) -> str:
    """The loops of a kernel in a `fuse:` block."""
    head, loops = textwrap.dedent(text).split("    for ", 1)
    return f"{head}    fuse:\n" + textwrap.indent("    for " + loops, "    ")


@cache
def planned(text: str, tuning: Tuning = SMALL) -> pipeline.Planned:
    program = pipeline.read_program(Source("t.lf", textwrap.dedent(text)))
    return pipeline.plan_kernel(program, "f", Options(target=CPU, tuning=tuning))


def made(found: pipeline.Planned, values: dict[str, int]) -> dict[str, np.ndarray]:
    """Random arrays for the kernel's parameters."""
    random = np.random.default_rng(7)
    out: dict[str, np.ndarray] = {}
    for array in found.kernel.arrays:
        shape = [getattr(e, "value", None) or values.get(getattr(e, "name", ""), 0) for e in array.extents]
        kind = np.dtype(array.dtype.numpy_name)
        if array.dtype.is_float:
            out[array.name] = random.standard_normal(shape).astype(kind)
        else:
            out[array.name] = random.integers(0, 50, shape).astype(kind)
    return out


def one_each(grid: int, work: Work, threads: int) -> Share:
    """A chunk for each iteration."""
    return Share(1, grid, min(grid, threads))


def check(name: str, text: str, sizes: dict[str, int], scalars: dict[str, int]) -> None:
    """Interpreter, LoopTree interpreter and compiled code on random data: equal to the bit."""
    found, kernel = planned(text), loopfuse.loads(textwrap.dedent(text)).with_options(tuning=SMALL)
    assert found.verdict.answer == "proved", found.verdict
    given = made(found, sizes)
    wanted = {**{k: v.copy() for k, v in given.items()}, **scalars}
    held = {**{k: v.copy() for k, v in given.items()}, **scalars}
    written = interpret(found.kernel, wanted, sizes)
    run_tree(found.tree, held, {**sizes, **scalars})
    for threads in ("1", "3"):
        run = {**{k: v.copy() for k, v in given.items()}, **scalars}
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LOOPFUSE_NUM_THREADS", threads)
            patch.setattr(cpu, "share_out", one_each)  # threads also for the least of calls
            kernel(*run.values())
        for array in found.kernel.arrays:
            expected = written.get(array.name, given[array.name])
            np.testing.assert_array_equal(run[array.name], expected, strict=True)
    for array in found.kernel.arrays:
        expected = written.get(array.name, given[array.name])
        np.testing.assert_array_equal(held[array.name], expected, strict=True)


@pytest.mark.parametrize("name", [*CHAINS, *MORE])
def test_chain_is_one_launch_of_line_buffers(name: str) -> None:
    text = {**CHAINS, **MORE}[name]
    text = fused(text) if name in ASKED else text
    found = planned(text)
    strategies = [launch.strategy for launch in found.tree.launches]
    lines = [buffer for buffer in found.tree.buffers if isinstance(buffer.home, LineBuffer)]
    assert (strategies, bool(lines)) == ((["generic"], False) if name in WITHOUT else (["sliding"], True))
    least = 2 if "assume" in text else 0
    for height, width in SIZES:
        if min(height, width) >= least:
            check(name, text, {"H": height, "W": width, **({"N": 2} if name == "outer" else {})}, {})


@pytest.mark.parametrize("name", [*TIMES, *MORE_TIMES])
def test_time_steps_in_blocks(name: str) -> None:
    text = {**TIMES, **MORE_TIMES}[name]
    found = planned(text)
    if name in WITHOUT:
        assert all(launch.strategy != "sliding" for launch in found.tree.launches)
    else:
        pairs = [node for node in found.tree.body if isinstance(node, HostLoop)]
        inside = [launch.strategy for launch in replace(found.tree, body=pairs[0].body).launches]
        assert inside in (["sliding"], ["sliding", "sliding"])  # one, if both ways are alike
    for (height, width), steps in zip(
        [(0, 0), (1, 1), (3, 3), (9, 5), (15, 23), (11, 17), (8, 1)], (4, 4, 3, 4, 9, 6, 5)
    ):
        more = {"K": height + 2, "L": width + 1} if "K" in text else {}
        check(name, text, {"H": height, "W": width, **more}, {"n": steps})


def test_strips_and_chunks_of_their_own_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """As planned untuned: several strips and chunks, the last of each cut short."""
    monkeypatch.setenv("LOOPFUSE_NUM_THREADS", "2")
    text = textwrap.dedent(MORE["point-wise between"])
    kernel, random = loopfuse.loads(text), np.random.default_rng(3)
    a = random.standard_normal((200, 9001)).astype(np.float32)
    fused, plain = np.zeros_like(a), np.zeros_like(a)
    kernel(a, fused)
    kernel.with_options(fuel=0)(a, plain)
    np.testing.assert_array_equal(fused, plain)
    assert fused[2:-2, 2:-2].any()


def test_views_are_read_where_they_lie() -> None:
    text = textwrap.dedent(CHAINS["blur"])
    kernel = loopfuse.loads(text)
    a = np.random.default_rng(1).standard_normal((40, 90)).astype(np.float32)
    wide, plain = np.zeros((40, 45), np.float32), np.zeros((40, 45), np.float32)
    kernel(a[:, ::2], wide)
    kernel.with_options(fuel=0)(np.ascontiguousarray(a[:, ::2]), plain)
    np.testing.assert_array_equal(wide, plain)


def test_what_is_cheap_is_recomputed() -> None:
    """A product each is less than a store and a load."""
    found = planned(
        """
        kernel f(a: f32[H, W], out c: f32[H, W]):
            temp b: f32[H, W]
            for y in 0..H, x in 0..W:
                b[y, x] = 2.0 * a[y, x]
            for y in 1..H-1, x in 0..W:
                c[y, x] = b[y-1, x] + b[y+1, x]
        """,
        Tuning(),
    )
    assert [launch.strategy for launch in found.tree.launches] == ["pointwise"]
    assert found.report.kernels[0].homes == (("b", "register"),)


def test_homes_and_words() -> None:
    found = planned(CHAINS["blur"], Tuning())
    (kernel,) = found.report.kernels
    assert kernel.strategy == "sliding" and dict(kernel.homes) == {"b": "line(3)"}
    assert "strips of 4096 columns" in kernel.detail
    assert "b keeps 3 rows in a line buffer" in found.plan.decisions[0].reason
    found = planned(MORE["point-wise between"], Tuning())
    assert dict(found.report.kernels[0].homes) == {"b": "register", "c": "line(3)", "e": "register"}


JACOBI = """
    kernel f(inout a: {0}[H, W], inout b: {0}[H, W], n: i64):
        for t in 0..n:
            for y in 1..H-1, x in {1}..W-1:
                b[y, x] = 0.2 * (a[y, x] + a[y, x-1] + a[y, x+1] + a[y+1, x] + a[y-1, x])
            for y in 1..H-1, x in {1}..W-1:
                a[y, x] = 0.2 * (b[y, x] + b[y, x-1] + b[y, x+1] + b[y+1, x] + b[y-1, x])
    """


@pytest.mark.parametrize("first", [1, 3])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_rows_begin_on_a_line_of_the_cache(dtype: str, first: int) -> None:
    """In lines of the first strip of the launch to the copies, which begins at the array's first column, and in
    those of the one back, which begins where the loops do; and no two lines lie at one place of a page."""
    tree = planned(JACOBI.format(dtype, first), Tuning()).tree
    lines = {buffer.name: buffer for buffer in tree.buffers if isinstance(buffer.home, LineBuffer)}
    size = 4 if dtype == "f32" else 8
    for buffer in lines.values():
        width = constant_value(buffer.extents[1])
        assert width is not None and width * size % LINE == 0 and width * size % PAGE
    pair = next(node for node in tree.body if isinstance(node, HostLoop))
    seen = 0
    for launch in pair.body:
        assert isinstance(launch, Launch)
        chunk = launch.body[0]
        assert isinstance(chunk, Loop) and isinstance(chunk.body[0], Loop)
        strip = chunk.body[0].var
        for loop in walk_nodes(launch.body):
            node = loop.body[0] if isinstance(loop, Loop) else None
            if isinstance(loop, Loop) and isinstance(node, Compute) and node.target.array in lines:
                start = eval(print_expr(loop.lower), {"max": max, strip: 0})
                place = eval(print_expr(node.target.index[1]), {loop.var: start})
                assert place * size % LINE == 0
                seen += 1
    assert seen >= 6


def test_lines_are_run_through_in_the_widest_vectors() -> None:
    """And nothing else is: other loops begin anywhere."""
    wide = '"prefer-vector-width"="512"'
    llvm = loopfuse.loads(textwrap.dedent(CHAINS["blur"])).compile("cpu", emit={"llvm"}).llvm
    assert wide in llvm
    (number,) = re.findall(rf"^attributes (#\d+) = .*{wide}", llvm, re.MULTILINE)
    assert re.search(rf"^define void @\w+\(.*\) {number} ", llvm, re.MULTILINE)
    alone = "kernel f(a: f32[N], out b: f32[N]):\n    for i in 0..N:\n        b[i] = 2.0 * a[i]\n"
    assert wide not in loopfuse.loads(alone).compile("cpu", emit={"llvm"}).llvm


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_time_steps_of_any_number_have_the_bits_of_sweeps(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several chunks of the usual rows and an end of a strip, with few threads and many."""
    monkeypatch.setattr(base_machine, "CPU", replace(base_machine.CPU, resident=0))
    monkeypatch.setitem(base_machine._PLANNED, "cpu", base_machine.CPU)  # pyright: ignore[reportPrivateUsage]
    kernel = loopfuse.loads(textwrap.dedent(JACOBI.format(dtype, 1)))
    random = np.random.default_rng(5)
    kind = np.float32 if dtype == "f32" else np.float64
    for shape, steps in (((301, 77), 11), ((130, 4131), 8)):
        a, b = (random.standard_normal(shape).astype(kind) for _ in range(2))
        plain = a.copy(), b.copy()
        kernel.with_options(fuel=0)(*plain, steps)
        for threads in ("1", "2", "12"):
            monkeypatch.setenv("LOOPFUSE_NUM_THREADS", threads)
            fused = a.copy(), b.copy()
            kernel(*fused, steps)
            for one, other in zip(fused, plain, strict=True):
                np.testing.assert_array_equal(one, other)
