"""Reductions of one sweep on the CPU: each has a loop over lanes of its own, unless they share values, or elements of a row."""

from __future__ import annotations

import re
import textwrap

import numpy as np
import pytest

import loopfuse
from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.dtypes import DType
from loopfuse.base.options import CPU, Options, Target
from loopfuse.codegen.targets.native import optimize_llvm
from loopfuse.lang.nodes import Binary, Const, Expr, Iter, Load, integer
from loopfuse.tree.looptree import Compute, Loop, Mapping, TreeNode
from loopfuse.tree.rewrite.independent import consecutive_parts

THREE = """
    kernel k({arrays}, out a: f32[1], out b: f32[1], out c: f32[1]):
        let total = sum(i in 0..N: x[i])
        let squares = sum(i in 0..N: {y}[i] * {y}[i])
        let high = max(i in 0..N: {z}[i])
        a[0] = total
        b[0] = squares
        c[0] = high
    """
TOGETHER = THREE.format(arrays="x: f32[N]", y="x", z="x")
APART = THREE.format(arrays="x: f32[N], y: f32[N], z: f32[N]", y="y", z="z")
SHARED = """
    kernel k(x: f32[N], out a: f32[1], out b: f32[1], out c: f32[1]):
        var total: f32 = 0.0
        var high: f32 = 0.0
        var count: f32 = 0.0
        for i in 0..N:
            let e = exp(x[i])
            total += e
            high = max(high, e)
            count += x[i]
        a[0] = total
        b[0] = high
        c[0] = count
    """


def rounds(nodes: tuple[TreeNode, ...]) -> int:
    """Serial loops around lanes."""
    found = 0
    for node in nodes:
        if isinstance(node, Loop):
            inner = [each for each in node.body if isinstance(each, Loop)]
            is_round = node.mapping is Mapping.SERIAL and any(
                each.mapping in (Mapping.UNROLLED, Mapping.VECTOR) for each in inner
            )
            found += is_round or rounds(node.body)
    return found


@pytest.mark.parametrize(("text", "loops", "lanes"), [(TOGETHER, 1, 16), (APART, 6, 64), (SHARED, 1, 16)])
def test_each_reduction_has_its_lanes(text: str, loops: int, lanes: int) -> None:
    """One that waits for itself has four times as many, and a loop more: several that read the same have one loop, and wait for each other."""
    program = pipeline.read_program(Source("k.lf", textwrap.dedent(text)))
    found = pipeline.plan_kernel(program, "k", Options(target=CPU))
    assert found.verdict.answer == "proved"
    assert sum(rounds(launch.body) for launch in found.tree.launches) == loops
    assert {buffer.extents for buffer in found.tree.buffers if "_acc" in buffer.name} == {(integer(lanes),)}
    kernel = loopfuse.loads(textwrap.dedent(text))
    for count in (0, 1, 15, 16, 17, 63, 64, 65, 100, 40_000):
        read = np.random.default_rng(count).integers(-3, 4, (3, count)).astype(np.float32)
        arrays = [each for name, each in zip("xyz", read, strict=True) if f"{name}: f32" in text]
        fused, plain = kernel(*arrays), kernel.with_options(fuel=0)(*arrays)
        np.testing.assert_allclose(fused, plain, rtol=1e-5)


ROWS = """
    kernel k(a: f64[N, N], b: f64[N, N], x: f64[N, N], z: f64[N, N], out y: f64[N], out w: f64[N]):
        for i in 0..N:
            var s: f64 = 0.0
            var t: f64 = 0.0
            for j in 0..N:
                s += a[i, j] * x[i, j]
                t += b[i, j] * {other}[i, j]
            y[i] = s
            w[i] = t
    """


@pytest.mark.parametrize(("other", "loops", "lanes"), [("x", 3, 32), ("z", 6, 64)])
def test_sums_that_read_the_same_are_one_loop(other: str, loops: int, lanes: int) -> None:
    """Two rows of memory are under way then, and what both read is loaded once: 2.7 times as fast."""
    text = textwrap.dedent(ROWS).format(other=other)
    found = pipeline.plan_kernel(pipeline.read_program(Source("k.lf", text)), "k", Options(target=CPU))
    assert found.verdict.answer == "proved"
    (launch,) = found.tree.launches
    assert rounds(launch.body) == loops
    cells = [buffer for buffer in found.tree.buffers if "lane" in buffer.name]
    assert [buffer.extents for buffer in cells] == [(integer(lanes),)] * 2
    kernel = loopfuse.loads(text)
    for side in (0, 1, 17, 100):
        rng = np.random.default_rng(side)
        a, b, x, z = rng.integers(-3, 4, (4, side, side)).astype(np.float64)
        y, w = kernel(a, b, x, z)
        np.testing.assert_array_equal(y, (a * x).sum(axis=1))
        np.testing.assert_array_equal(w, (b * (x if other == "x" else z)).sum(axis=1))


def test_sums_of_one_sweep_are_vectors() -> None:
    """LLVM kept both scalar where they stood in one loop, five times slower than one after the other."""
    wide = Target("cpu", "x86-64-v3")
    for text in (APART, TOGETHER):
        artifact = loopfuse.loads(textwrap.dedent(text)).compile("cpu", emit={"llvm"})
        assert artifact.llvm is not None
        code = str(optimize_llvm(artifact.llvm, wide))
        assert re.search(r"fadd <(8|16) x float>", code)
        assert re.search(r"call <(8|16) x float> @llvm.fma", code)


MIXED = """
    kernel k(a: u8[N], b: i16[N], h: f16[N], out s: u64[1], out p: i64[1], out g: f16[1], out t: f32[1]):
        s[0] = sum(k in 0..N: a[k])
        p[0] = max(k in 0..N: b[k] * b[k])
        g[0] = min(k in 0..N: h[k])
        t[0] = sum(k in 0..N: h[k] * h[k])
    """
MASKED = """
    kernel k(x: f32[N], m: f32[N], inout t: f32[N], out s: f32[1], out c: i64[1]):
        s[0] = 0.0
        c[0] = 0
        for i in 0..N:
            if m[i] > 0.0:
                t[i] = x[i] + 1.0
                c[0] += 1
            if m[i] < 1.0:
                s[0] += t[i]
    """


def test_whole_numbers_have_no_lanes() -> None:
    """LLVM makes vectors of their loops itself, and made none of sixteen lanes of them beside others: 15 times slower."""
    program = pipeline.read_program(Source("k.lf", textwrap.dedent(MIXED)))
    found = pipeline.plan_kernel(program, "k", Options(target=CPU))
    assert sum(rounds(launch.body) for launch in found.tree.launches) == 2  # of g and t together: of 32 lanes, and of 16
    places = [buffer.extents for buffer in found.tree.buffers if "_acc" in buffer.name and not buffer.dtype.is_float]
    assert places == [(integer(1),)] * 2, "of an array of lanes LLVM makes no register"
    kernel = loopfuse.loads(textwrap.dedent(MIXED))
    code = str(optimize_llvm(kernel.compile("cpu", emit={"llvm"}).llvm or "", Target("cpu", "x86-64-v3")))
    assert re.search(r"add <\d+ x i64>", code)
    rng = np.random.default_rng(5)
    for count in (1, 16, 33, 40_000):
        a, b = rng.integers(0, 256, count).astype(np.uint8), rng.integers(-9, 9, count).astype(np.int16)
        h = rng.integers(-3, 4, count).astype(np.float16)
        s, p, g, t = kernel(a, b, h)
        assert (s[0], p[0]) == (a.sum(dtype=np.uint64), (b * b).max())
        assert (g[0], t[0]) == (h.min(), (h.astype(np.float32) ** 2).sum())


def test_stores_under_conditions_run_before_the_sums_that_read_them() -> None:
    """Lanes of a loop with a branch for each were 9 times slower than the two loops apart."""
    program = pipeline.read_program(Source("k.lf", textwrap.dedent(MASKED)))
    found = pipeline.plan_kernel(program, "k", Options(target=CPU))
    assert found.verdict.answer == "proved"
    kernel = loopfuse.loads(textwrap.dedent(MASKED))
    rng = np.random.default_rng(6)
    for count in (1, 16, 33, 40_000):
        x, m, t = (rng.integers(-2, 3, count).astype(np.float32) for _ in range(3))
        after = np.where(m > 0, x + 1, t)
        s, c = kernel(x, m, t)
        np.testing.assert_array_equal(t, after)
        assert (s[0], c[0]) == (after[m < 1].sum(), (m > 0).sum())


def set_to(array: str, place: Expr, *read: Load) -> Compute:
    value: Expr = Const(1.0, DType.F32)
    for each in read:
        value = Binary("add", value, each, DType.F32)
    return Compute("S", (), Load(array, (place,), DType.F32), value)


def test_parts_that_share_an_element_of_an_iteration() -> None:
    """One part may run for all iterations before the next does where what they share is an iteration's own."""
    i = Iter("i")

    def parts(*body: TreeNode) -> tuple[tuple[int, ...], ...]:
        return consecutive_parts(body, "i", lambda node: isinstance(node, Compute) and node.target.array == "s")

    def at(array: str, place: Expr) -> Load:
        return Load(array, (place,), DType.F32)

    total = at("s", integer(0))
    assert parts(set_to("t", i), set_to("s", integer(0), total, at("t", i))) == ((0,), (1,))
    assert parts(set_to("t", i * 2 + 1), set_to("s", integer(0), total, at("t", i * 2 + 1))) == ((0,), (1,))
    together = ((0, 1),)
    assert parts(set_to("t", i), set_to("s", integer(0), total, at("t", i + 1))) == together
    assert parts(set_to("t", integer(3)), set_to("s", integer(0), total, at("t", integer(3)))) == together
    assert parts(set_to("t", i % 4), set_to("s", integer(0), total, at("t", i % 4))) == together
    assert parts(set_to("t", i, total), set_to("s", integer(0), total)) == together
