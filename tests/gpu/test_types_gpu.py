"""Every row of `docs/types.md` on a GPU, against exact arithmetic, bit for bit.

Run on a machine with a GPU: `pytest -m gpu tests/gpu/test_types_gpu.py`. PyTorch has bfloat16, and CuPy
the unsigned types; each is tried with the types it has.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import types_programs
from types_programs import Check

import loopfuse
from loopfuse import kernels

pytestmark = pytest.mark.gpu

CHECKS = (
    *types_programs.operation_checks(),
    *types_programs.promotion_checks(),
    *types_programs.reduction_checks(),
)
BF16 = np.dtype(ml_dtypes.bfloat16)

Library = tuple[Callable[[np.ndarray], Any], Callable[[Any], np.ndarray]]


def _torch() -> Library:
    torch = pytest.importorskip("torch")

    def upload(array: np.ndarray) -> Any:
        name = "bfloat16" if array.dtype == BF16 else array.dtype.name
        kind = getattr(torch, name, None)
        if kind is None:
            pytest.skip(f"this PyTorch has no {name}")
        plain = torch.from_numpy(array.view(np.uint8).copy()).cuda()
        return plain.view(kind)

    def download(tensor: Any) -> np.ndarray:
        name = str(tensor.dtype).removeprefix("torch.")
        kind = BF16 if name == "bfloat16" else np.dtype(name)
        return tensor.view(torch.uint8).cpu().numpy().view(kind)

    return upload, download


def _cupy() -> Library:
    cupy = pytest.importorskip("cupy")

    def upload(array: np.ndarray) -> Any:
        if array.dtype == BF16:
            pytest.skip("CuPy's bfloat16 is not NumPy's")
        return cupy.asarray(array)

    return upload, cupy.asnumpy


LIBRARIES: dict[str, Callable[[], Library]] = {"torch": _torch, "cupy": _cupy}


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_gpu(check: Check, name: str) -> None:
    """Fused and unfused."""
    upload, download = LIBRARIES[name]()
    for fuel in (None, 0):
        kernel = kernels.load_all(check.source, fuel=fuel, reassociate=False)[check.name]
        held = {key: upload(value) for key, value in check.arguments().items()}
        kernel(**held)
        loopfuse.synchronize()
        check.compare({key: download(value) for key, value in held.items()}, f"{name}, {fuel}")
