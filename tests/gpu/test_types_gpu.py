"""Every row of `docs/types.md` on a GPU, against exact arithmetic, bit for bit.

Run on a machine with a GPU: `pytest -m gpu tests/gpu/test_types_gpu.py`. PyTorch has bfloat16, and CuPy
the unsigned types; each is tried with the types it has.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import types_programs
from gpu_libraries import Library, with_each
from types_programs import Check

import loopfuse
from loopfuse.kernels import kernel as kernels

pytestmark = pytest.mark.gpu

CHECKS = (
    *types_programs.operation_checks(),
    *types_programs.promotion_checks(),
    *types_programs.reduction_checks(),
)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_gpu(check: Check) -> None:
    """Fused and unfused."""
    for fuel in (None, 0):
        kernel = kernels.load_all(check.source, fuel=fuel, reassociate=False)[check.name]

        def run(name: str, library: Library, fuel: int | None = fuel, kernel: kernels.Kernel = kernel) -> None:
            upload, download = library
            held = {key: upload(value) for key, value in check.arguments().items()}
            kernel(**held)
            loopfuse.synchronize()
            check.compare({key: download(value) for key, value in held.items()}, f"{name}, {fuel}")

        with_each(run)
