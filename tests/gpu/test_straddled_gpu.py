"""Windows on a real GPU over rows that start anywhere: pitches that are multiples of nothing, arrays
that start between two vectors, every width of element. `pytest -m gpu`; under compute-sanitizer no
access may lie outside the allocations (`LOOPFUSE_STRADDLED_TIGHT=1` gives every array one of its
own, without a byte around it)."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from straddled_programs import BOX, DOWN, STEPS

import loopfuse
from loopfuse.runtime.devices import cuda

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(cuda.gpu() is None, reason=cuda.gpu_problem() or "a GPU is here"),
]

KINDS = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "i32": np.int32, "i64": np.int64,
    "i16": np.int16, "u8": np.uint8, "i8": np.int8,
}  # fmt: skip
WIDTHS = (*range(1021, 1037), 1500, 2047, 2053, 4099)
ROWS = 301
FILL = 0x5A


@cache
def kernels(text: str) -> tuple[Any, Any]:
    return loopfuse.loads(text), loopfuse.loads(text, target="cpu")


def held(data: Any, offset: int) -> tuple[Any, Any]:
    """The data on the GPU, `offset` elements into an allocation, and the allocation's bytes."""
    torch = pytest.importorskip("torch")
    around = 0 if os.environ.get("LOOPFUSE_STRADDLED_TIGHT") else 64
    size = data.itemsize
    flat = torch.full((offset * size + data.nbytes + around,), FILL, dtype=torch.uint8, device="cuda")
    inside = flat[offset * size : offset * size + data.nbytes]
    inside.copy_(torch.as_tensor(data.reshape(-1).view(np.uint8)))
    kind = torch.as_tensor(data[:0]).dtype
    return inside.view(kind).reshape(data.shape), flat


def check(text: str, dtype: str, width: int, offset: int, *scalars: int) -> None:
    gpu, cpu = kernels(text.format(dtype))
    random = np.random.default_rng(width)
    count = 1 if scalars else 2
    arrays = [random.integers(0, 100, (ROWS, width)).astype(KINDS[dtype]) for _ in range(count)]
    # `view` wants an offset that is a multiple of the element; arrays start apart from another.
    there = [held(data, offset + number) for number, data in enumerate(arrays)]
    gpu(*(view for view, _ in there), *scalars)
    expected = [data.copy() for data in arrays]
    cpu(*expected, *scalars)
    for (view, flat), data in zip(there, expected, strict=True):
        np.testing.assert_array_equal(view.cpu().numpy(), data)
        start = view.storage_offset() * data.itemsize
        bytes_ = flat.cpu().numpy()
        assert (bytes_[:start] == FILL).all() and (bytes_[start + data.nbytes :] == FILL).all()


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("text", [BOX, DOWN], ids=["box", "down"])
def test_pitches_and_starts(text: str, dtype: str) -> None:
    for number, width in enumerate(WIDTHS):
        check(text, dtype, width, 0)
        check(text, dtype, width, number % 9)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_time_steps(dtype: str) -> None:
    for number, width in enumerate(WIDTHS[::3]):
        check(STEPS, dtype, width, number % 5, 11)
