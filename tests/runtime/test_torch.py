"""PyTorch tensors in main memory, where PyTorch is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loopfuse.base.diagnostics import UserError
from loopfuse.runtime import arrays, cpu

torch = pytest.importorskip("torch")


def test_tensors_bind_run_and_come_back(scale: Any, code: bytes) -> None:
    x = torch.arange(10, dtype=torch.float32)
    binding = arrays.bind(scale, (x, 2.0), {})
    cpu.run(cpu.load(scale, code), binding)
    assert isinstance(binding.result, torch.Tensor)
    np.testing.assert_array_equal(binding.result.numpy(), 2 * np.arange(10))


def test_a_wrong_dtype_names_to(scale: Any) -> None:
    with pytest.raises(UserError, match=r"\.to\(torch\.float32\)"):
        arrays.bind(scale, (torch.zeros(20, dtype=torch.float64), 2.0), {})
