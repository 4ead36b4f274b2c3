"""Small reductions over neighbours written out: the same bits, the same labels; what has to stay
a loop stays one."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.lang.check.unroll_reductions import absorbed_labels, unroll_reductions
from loopfuse.lang.interp import interpret
from loopfuse.lang.nodes import Define, For, Kernel, Reduce, Store
from loopfuse.lang.walk import walk_stmts

WRITTEN_OUT = {
    "sum": """
        kernel f(a: f32[H, W], w: f32[3, 3], out c: f32[H, W]):
            for y in 0..H, x in 0..W:
                c[y, x] = 0.5 + sum(r in 0..3, s in 0..3: a.zero[y+r-1, x+s-1] * w[r, s])
        """,
    "sum of f16": """
        kernel f(a: f16[H, W], out c: f16[H, W]):
            for y in 0..H, x in 0..W:
                c[y, x] = f16(sum(r in -1..2, s in -1..2: a.clamp[y+r, x+s]) / 9.0)
        """,
    "extremes": """
        kernel f(a: f32[H, W], out c: f32[H, W]):
            for y in 0..H, x in 0..W:
                let high = max(s in 0..3: a.clamp[y, x+s-1])
                c[y, x] = high - min(r in 0..2: a.clamp[y-r, x])
        """,
    "narrow extremes": """
        kernel f(a: f16[H, W], out c: f16[H, W]):
            for y in 0..H, x in 0..W:
                c[y, x] = max(s in 0..3: a.clamp[y, x+s-1])
        """,
    "any and all": """
        kernel f(a: f32[H, W], out c: i32[H, W]):
            for y in 0..H, x in 0..W:
                let some = any(s in 0..3: a.clamp[y, x+s-1] > 0.5)
                let each = all(r in 0..3: a.clamp[y+r-1, x] > -0.5)
                c[y, x] = (1 if some else 0) + (2 if each else 0)
        """,
    "prod of integers": """
        kernel f(a: i32[H, W], out c: i64[H, W]):
            for y in 0..H, x in 0..W:
                c[y, x] = prod(s in 0..3: a.wrap[y, x+s])
        """,
    "triangle": """
        kernel f(a: f64[H, W], out c: f64[H, W]):
            for y in 0..H, x in 0..W:
                c[y, x] = sum(r in 0..3, s in r..3: a.clamp[y+r, x-s])
        """,
    "sum of sums": """
        kernel f(a: f32[H, W], w: f32[3], out c: f32[H, W]):
            for y in 0..H, x in 0..W:
                c[y, x] = sum(r in 0..3: w[r] * sum(s in r..3: a.clamp[y+r-1, x+s-1]))
        """,
    "downwards": """
        kernel f(a: f32[H, W], out c: f32[H, W]):
            for y in 0..H, x in 0..W:
                var total: f32 = 0.25
                for s in 2..-3 step -2:
                    total += a.clamp[y, x+s] * f32(s)
                c[y, x] = total
        """,
    "variable": """
        kernel f(a: f32[H, W], w: f32[3, 3], out c: f32[H, W]):
            for y in 1..H-1, x in 1..W-1:
                var total: f32 = 0.0
                for r in 0..3:
                    for s in 0..3:
                        total += w[r, s] * a[y+r-1, x+s-1]
                c[y, x] = total
        """,
    "element": """
        kernel f(a: f32[H, W], inout c: f32[H, W]):
            for y in 1..H-1, x in 1..W-1:
                for r in 0..3, s in 0..3:
                    c[y, x] += a[y+r-1, x+s-1]
        """,
    "two at once": """
        kernel f(a: f32[H, W], out c: f32[H, W], out d: f32[H, W]):
            for y in 0..H, x in 0..W:
                var total: f32 = 0.0
                var largest: f32 = -inf
                for s in -2..3:
                    let here = a.clamp[y, x+s]
                    total += here * here
                    largest max= here
                c[y, x] = total
                d[y, x] = largest
        """,
    "a condition on the range": """
        kernel f(a: f32[H, W], out c: f32[H, W]):
            for y in 0..H, x in 0..W:
                c[y, x] = sum(s in -1..2: a.clamp[y, x+s] if s != 0 else -2.0 * a[y, x])
        """,
    "empty": """
        kernel f(a: f32[H, W], out c: f32[H, W]):
            for y in 0..H, x in 0..W:
                c[y, x] = 1.0 + sum(s in 2..2: a.clamp[y, x+s])
        """,
}

STAYS = {
    "no neighbours": """
        kernel f(a: f32[H, 3], out c: f32[H]):
            for y in 0..H:
                c[y] = sum(k in 0..3: a[y, k])
        """,
    "symbolic": """
        kernel f(a: f32[H, W], out c: f32[H, W], n: i64):
            for y in 0..H, x in 0..W:
                c[y, x] = sum(s in 0..n: a.clamp[y, x+s])
        """,
    "many": """
        kernel f(a: f32[H, W], out c: f32[H, W]):
            for y in 0..H, x in 0..W:
                c[y, x] = sum(r in 0..9, s in 0..9: a.clamp[y+r, x+s])
        """,
    "parallel": """
        kernel f(a: f32[H, W], inout c: f32[H, W]):
            for y in 0..H, x in 0..W:
                parallel for s in 0..3:
                    c[y, x] += a.clamp[y, x+s]
        """,
    "outside all loops": """
        kernel f(a: f32[H, W], out c: f32[1]):
            c[0] = sum(s in 0..3: a.clamp[0, s])
        """,
    "carried by a loop": """
        kernel f(a: f32[H, W], inout c: f32[1]):
            for y in 0..H, x in 0..W:
                for s in 0..3:
                    c[0] += a.clamp[y, x+s]
        """,
    "carried by the next loop": """
        kernel f(a: f32[H, W], out c: f32[H]):
            for y in 0..H:
                var total: f32 = 0.0
                for x in 0..W:
                    for s in 0..3:
                        total += a.clamp[y, x+s]
                c[y] = total
        """,
    "steps that need each other": """
        kernel f(a: f32[H, W], out c: f32[H, W]):
            for y in 0..H, x in 0..W:
                var low: f32 = 0.0
                var high: f32 = 0.0
                for s in 0..3:
                    low += a.clamp[y, x+s]
                    high += low
                c[y, x] = high
        """,
    "a store of its own": """
        kernel f(a: f32[H, W], out c: f32[H, W, 3], out d: f32[H, W]):
            for y in 0..H, x in 0..W:
                var total: f32 = 0.0
                for s in 0..3:
                    c[y, x, s] = a.clamp[y, x+s]
                    total += a.clamp[y, x+s]
                d[y, x] = total
        """,
    "first place": """
        kernel f(a: f32[H, W], out c: i64[H, W]):
            for y in 0..H, x in 0..W:
                c[y, x] = argmax(s in 0..3: a.clamp[y, x+s])
        """,
    "no step": """
        kernel f(a: f32[H, W], out c: f32[H, W]):
            for y in 0..H, x in 0..W:
                var last: f32 = 0.0
                for s in 0..3:
                    last = a.clamp[y, x+s] - last * last
                c[y, x] = last
        """,
}


def read(text: str, fp: str = "fast") -> Kernel:
    return pipeline.read_program(Source("t.lf", textwrap.dedent(text)), fp).kernel("f")


def run(kernel: Kernel, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    sizes = {"H": 7, "W": 9}
    arguments: dict[str, object] = {scalar.name: 2 for scalar in kernel.scalars}
    for array in kernel.arrays:
        shape = [sizes.get(getattr(e, "name", ""), getattr(e, "value", 0)) for e in array.extents]
        values = random.standard_normal(shape) * 3.0
        if array.dtype.is_float:  # every kind of number, so that an order of steps shows
            values = np.where(random.random(shape) < 0.05, -0.0, values)
            values = np.where(random.random(shape) < 0.02, np.inf, values)
            values = np.where(random.random(shape) < 0.02, np.nan, values)
        arguments[array.name] = values.astype(array.dtype.numpy_name)
    return interpret(kernel, arguments, sizes)


@pytest.mark.parametrize("fp", ["fast", "strict"])
@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_written_out_with_the_same_bits(name: str, fp: str) -> None:
    kernel = read(WRITTEN_OUT[name], fp)
    found = unroll_reductions(kernel)
    loops = {s.iterator for s in walk_stmts(found.body) if isinstance(s, For)}
    assert loops == {"y", "x"}
    assert not any(isinstance(s, Reduce) for s in walk_stmts(found.body))
    for seed in range(8):
        wanted, got = run(kernel, seed), run(found, seed)
        for array, values in wanted.items():
            np.testing.assert_array_equal(got[array], values, strict=True)
            if values.dtype.kind == "f":
                assert (np.signbit(got[array]) == np.signbit(values))[~np.isnan(values)].all()
    assert unroll_reductions(found) is found


@pytest.mark.parametrize("name", STAYS)
def test_stays_a_loop(name: str) -> None:
    kernel = read(STAYS[name])
    assert unroll_reductions(kernel) is kernel


def test_inside_a_long_reduction() -> None:
    kernel = read(
        """
        kernel f(a: f32[H, W], out c: f32[H]):
            for y in 0..H:
                c[y] = sum(x in 0..W: max(s in 0..3: a.clamp[y, x+s]))
        """
    )
    found = unroll_reductions(kernel)
    kept = [s for s in walk_stmts(found.body) if isinstance(s, Reduce)]
    assert [s.op for s in kept] == ["sum"]
    for array, values in run(kernel, 3).items():
        np.testing.assert_array_equal(run(found, 3)[array], values, strict=True)


def test_labels_stay_and_what_vanished_is_named() -> None:
    kernel = read(WRITTEN_OUT["sum of sums"])
    found = unroll_reductions(kernel)
    labels = [s.label for s in walk_stmts(found.body) if isinstance(s, Define | Store)]
    inner = [s.label for s in walk_stmts(kernel.body) if isinstance(s, Reduce)][1]
    assert inner not in labels
    assert sorted(absorbed_labels(kernel, found).values()) == [(inner,)]
    two = read(WRITTEN_OUT["two at once"])
    assert absorbed_labels(two, unroll_reductions(two)) == {"S4": ("S3",)}
