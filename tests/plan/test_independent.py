"""Reductions of one sweep on the CPU: each has a loop over lanes of its own, unless they share values."""

from __future__ import annotations

import re
import textwrap

import numpy as np
import pytest

import loopfuse
from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU, Options, Target
from loopfuse.codegen.targets.native import optimize_llvm
from loopfuse.tree.looptree import Loop, Mapping, TreeNode

APART = """
    kernel k(x: f32[N], out a: f32[1], out b: f32[1], out c: f32[1]):
        let total = sum(i in 0..N: x[i])
        let squares = sum(i in 0..N: x[i] * x[i])
        let high = max(i in 0..N: x[i])
        a[0] = total
        b[0] = squares
        c[0] = high
    """
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
    """Serial loops around unrolled lanes."""
    found = 0
    for node in nodes:
        if isinstance(node, Loop):
            inner = [each for each in node.body if isinstance(each, Loop)]
            is_round = node.mapping is Mapping.SERIAL and any(
                each.mapping is Mapping.UNROLLED for each in inner
            )
            found += is_round or rounds(node.body)
    return found


@pytest.mark.parametrize(("text", "loops"), [(APART, 3), (SHARED, 2)])
def test_each_reduction_has_its_lanes(text: str, loops: int) -> None:
    program = pipeline.read_program(Source("k.lf", textwrap.dedent(text)))
    found = pipeline.plan_kernel(program, "k", Options(target=CPU))
    assert found.verdict.answer == "proved"
    assert sum(rounds(launch.body) for launch in found.tree.launches) == loops
    kernel = loopfuse.loads(textwrap.dedent(text))
    for count in (0, 1, 15, 16, 17, 40_000):
        x = np.random.default_rng(count).integers(-3, 4, count).astype(np.float32)
        fused, plain = kernel(x), kernel.with_options(fuel=0)(x)
        np.testing.assert_allclose(fused, plain, rtol=1e-5)


def test_sums_of_one_sweep_are_vectors() -> None:
    """LLVM kept both scalar where they stood in one loop, five times slower than one after the other."""
    wide = Target("cpu", "x86-64-v3")
    artifact = loopfuse.loads(textwrap.dedent(APART)).compile("cpu", emit={"llvm"})
    assert artifact.llvm is not None
    code = str(optimize_llvm(artifact.llvm, wide))
    assert re.search(r"fadd <(8|16) x float>", code)
    assert re.search(r"call <(8|16) x float> @llvm.fma", code)
