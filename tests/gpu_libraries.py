"""Moving arrays to a GPU and back, with PyTorch or CuPy, whatever their dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

BF16 = np.dtype(ml_dtypes.bfloat16)

Library = tuple[Callable[[np.ndarray], Any], Callable[[Any], np.ndarray]]


def _torch() -> Library:
    torch = pytest.importorskip("torch")

    def upload(array: np.ndarray) -> Any:
        name = "bfloat16" if array.dtype == BF16 else array.dtype.name
        kind = getattr(torch, name, None)
        if kind is None:
            pytest.skip(f"this PyTorch has no {name}")
        if not array.size:  # which `view` does not take
            return torch.empty(array.shape, dtype=kind, device="cuda")
        plain = np.ascontiguousarray(array).reshape(-1).view(np.uint8).copy()
        return torch.from_numpy(plain).cuda().view(kind).reshape(array.shape)

    def download(tensor: Any) -> np.ndarray:
        name = str(tensor.dtype).removeprefix("torch.")
        kind = BF16 if name == "bfloat16" else np.dtype(name)
        if not tensor.numel():
            return np.empty(tuple(tensor.shape), kind)
        # `contiguous` leaves one element with whatever stride it has.
        packed = tensor.clone(memory_format=torch.contiguous_format)
        plain = packed.reshape(-1).view(torch.uint8).cpu().numpy()
        return plain.view(kind).reshape(tuple(tensor.shape))

    return upload, download


def _cupy() -> Library:
    cupy = pytest.importorskip("cupy")

    def upload(array: np.ndarray) -> Any:
        if array.dtype == BF16:
            pytest.skip("CuPy's bfloat16 is not NumPy's")
        return cupy.asarray(array)

    return upload, cupy.asnumpy


LIBRARIES: dict[str, Callable[[], Library]] = {"torch": _torch, "cupy": _cupy}


def with_each(run: Callable[[str, Library], None]) -> None:
    """Runs with every library that is installed and has the types, so that what is compiled once serves
    them all; skipped where there is none."""
    ran, reasons = False, list[str]()
    for name, made in LIBRARIES.items():
        try:
            run(name, made())
            ran = True
        except pytest.skip.Exception as reason:
            reasons.append(str(reason))
    if not ran:
        pytest.skip("; ".join(reasons))
