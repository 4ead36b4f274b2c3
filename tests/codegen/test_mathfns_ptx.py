"""Our math functions as PTX, run on the PTX machine: the bits of the CPU's code, large arguments too."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ptx_machine import Machine, Memory, read_ptx

import loopfuse
from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import Options, Target
from loopfuse.lang import ops
from loopfuse.runtime.devices.steps import run_steps

TEXT = "kernel f(x: {dtype}[N], w: {dtype}[N], out y: {dtype}[N]):\n    for i in 0..N:\n        y[i] = {value}\n"
COMMON = ("sin", "cos", "tan", "atan2", "hypot")
REST = tuple(name for name in ops.OURS if name not in COMMON)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", [*COMMON, *(pytest.param(each, marks=pytest.mark.slow) for each in REST)])
def test_bits_of_the_cpu(name: str, dtype: str) -> None:
    value = f"{name}(x[i], w[i])" if ops.BY_NAME[name].arity == 2 else f"{name}(x[i])"
    text = TEXT.format(dtype=dtype, value=value)
    kind = np.float32 if dtype == "f32" else np.float64
    random = np.random.default_rng(1)
    most = float(np.finfo(kind).maxexp) - 1
    x = (random.choice([-1.0, 1.0], 61) * 2.0 ** random.uniform(-20, most, 61)).astype(kind)
    x[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, np.finfo(kind).smallest_subnormal]
    x[6:30] = random.uniform(-50, 50, 24)
    w = random.permutation(x)
    expected = loopfuse.loads(text, target="cpu")(x, w)
    program = pipeline.read_program(Source("t.lf", text))
    options = Options(target=Target("sm_90"), index_bits=32)
    artifact = pipeline.compile_kernel(program, "f", options, emit=frozenset({"ptx"}))
    assert artifact.ptx is not None
    memory, got = Memory({}), np.zeros_like(x)
    pointers = {"x": 1 << 20, "w": 2 << 20, "y": 3 << 20}
    for array, data in (("x", x), ("w", w), ("y", got)):
        memory.place(pointers[array], data)
    entries = read_ptx(artifact.ptx)

    def launch(one: Any, grid: int, block: Any) -> None:
        Machine(
            entries[one["name"]], list(block.words), grid, one["threads"], memory, one["shared_bytes"]
        ).run()

    run_steps(artifact.manifest, pointers, {"N": len(x)}, True, launch)
    same = (got == expected) & (np.signbit(got) == np.signbit(expected))
    same |= np.isnan(got) & np.isnan(expected)
    assert same.all(), (x[~same], w[~same], got[~same], expected[~same])
