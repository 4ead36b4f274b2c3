"""f32 to u8 and u16: the PTX run on the machine of `tests/ptx_machine.py`, against the interpreter."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ptx_machine import Machine, Memory, read_ptx

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import Options, Target
from loopfuse.lang.interp import interpret
from loopfuse.runtime.devices.steps import run_steps

EXPRESSIONS = (
    "x[i]", "round(x[i])", "floor(x[i])", "ceil(x[i])", "trunc(x[i])", "round(floor(x[i]))",
    "round(min(max(x[i], 0.0), 255.0))", "min(max(round(x[i]), 0.0), 255.0)",
    "max(0.0, min(65535.0, x[i]))", "round(min(x[i], 254.0))", "round(max(x[i], 0.25))",
    "min(max(x[i], -3.0), 70000.0)", "max(x[i], 1.0)", "fmin(x[i], 255.0)",
)  # fmt: skip


def values() -> Any:
    """Around every integer and half that matters, and what is no number."""
    whole = np.concatenate([np.arange(-3, 260), np.arange(65530, 65540)]).astype(np.float32)
    near = [whole, whole + np.float32(0.5), whole + np.float32(0.25)]
    near += [np.nextafter(each, np.float32(way)) for each in near for way in (-1e9, 1e9)]
    odd = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 3e38, -3e38, 2.0**22, 2.0**31]
    return np.concatenate([*near, np.array(odd, np.float32)]).astype(np.float32)


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize("dtype", ["u8", "u16"])
def test_casts(dtype: str, expression: str) -> None:
    text = f"""
kernel f(x: f32[N], out o: {dtype}[N], out p: {dtype}[N]):
    for i in 0..N:
        o[i] = {dtype}({expression})
    for i in 0..N:
        p[i] = {dtype}({expression.replace("x[i]", "x[N-1-i]")})
"""
    program = pipeline.read_program(Source("t.lf", text.lstrip()))
    options = Options(target=Target("sm_90"), index_bits=32)
    artifact = pipeline.compile_kernel(program, "f", options, emit=frozenset({"ptx"}))
    rounded = "round" in expression and "floor" not in expression  # truncation keeps the conversion
    assert dtype == "u16" or not rounded or "cvt.r" not in artifact.ptx
    data = values()
    kind = np.uint8 if dtype == "u8" else np.uint16
    arrays = {"x": data, "o": np.zeros(data.size, kind), "p": np.zeros(data.size, kind)}
    wanted = {name: each.copy() for name, each in arrays.items()}
    memory, pointers = Memory({}), {}
    for number, (name, each) in enumerate(arrays.items()):
        pointers[name] = (number + 1) << 20
        memory.place(pointers[name], each)
    sizes = {"N": data.size}
    expected = interpret(program.kernels[0], wanted, sizes)
    entries = read_ptx(artifact.ptx)

    def launch(one: Any, grid: int, block: Any) -> None:
        Machine(entries[one["name"]], list(block.words), grid, one["threads"], memory).run()

    run_steps(artifact.manifest, pointers, sizes, True, launch)
    for name in ("o", "p"):
        np.testing.assert_array_equal(arrays[name], expected.get(name, wanted[name]))
