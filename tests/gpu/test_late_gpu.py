"""Planes that come by themselves (`cp.async`) on a real GPU, against the CPU: many blocks, whose copies
come when they come; rows that start at multiples of 16 bytes, and anywhere."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import loopfuse
from loopfuse.base.options import Tuning
from loopfuse.runtime.devices import cuda
from tests.plan.test_sliding_planes import CHAINS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(cuda.gpu() is None, reason=cuda.gpu_problem() or "a GPU is here"),
]

SHAPES = {
    "small blocks": Tuning(columns=4, warps=2, band=4, rows=9, late=2),
    "one plane": Tuning(columns=2, warps=4, band=2, rows=20, late=1),
    "many planes": Tuning(columns=4, warps=8, band=1, rows=30, late=4),
}
NAMES = ("star", "box", "in place", "two stencils", "zero", "reflected loads", "asymmetric")
KINDS = {"f32": np.float32, "f64": np.float64, "i32": np.int32}
SIZES = [(70, 61, 512), (33, 47, 509), (41, 30, 130), (5, 3, 4)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", NAMES)
def test_chains(name: str, shape: str) -> None:
    torch = pytest.importorskip("torch")
    text = textwrap.dedent(CHAINS[name])
    gpu = loopfuse.loads(text).with_options(tuning=SHAPES[shape])
    assert "cp.async" in gpu.compile("sm_90", emit=frozenset({"ptx"})).ptx
    cpu = loopfuse.loads(text, target="cpu")
    random = np.random.default_rng(5)
    for depth, height, width in SIZES:
        for offset in (0, 1):
            arrays: list[Any] = []
            for array in cpu.signature.parameters:
                rank = len(array.extents or ())
                data = random.integers(0, 100, (depth, height, width)[3 - rank :])
                arrays.append(data.astype(KINDS[array.dtype.value]))
            there: list[Any] = []
            for data in arrays:
                flat = torch.zeros(data.size + offset, dtype=torch.as_tensor(data[:0]).dtype, device="cuda")
                view = flat[offset:].view(data.shape)
                view.copy_(torch.as_tensor(data))
                there.append(view)
            for _ in range(3):  # in place: each run goes on from the last
                gpu(*there)
                cpu(*arrays)
            for view, data in zip(there, arrays, strict=True):
                np.testing.assert_array_equal(view.cpu().numpy(), data)
