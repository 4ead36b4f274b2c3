"""PyTorch tensors in main memory, where PyTorch is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import UserError
from loopfuse.runtime.arrays import arrays
from loopfuse.runtime.devices import cpu

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


COPY = "kernel copy(x: f32[H, W], out y: f32[H, W]):\n    for i in 0..H, j in 0..W:\n        y[i, j] = x[i, j]\n"


def test_views_of_tensors() -> None:
    kernel = loopfuse.loads(COPY)
    base = torch.arange(6 * 8, dtype=torch.float32).reshape(6, 8)
    for _ in range(3):
        for x in (base, base.T, base[::2, 1::3], base[:1].expand(4, 8), base[:, :1].expand(6, 5)):
            made = kernel(x)
            assert isinstance(made, torch.Tensor) and torch.equal(made, x)
            y = torch.zeros(x.shape[1], 2 * x.shape[0])[:, ::2].T
            kernel(x, y)
            assert torch.equal(y, x)
    assert len(kernel.call_paths.paths) == 6  # rows without gaps have code of their own


def test_a_repeated_output_tensor() -> None:
    kernel = loopfuse.loads(COPY)
    with pytest.raises(UserError, match=r"such as `y\.contiguous\(\)`") as caught:
        kernel(torch.zeros(3, 4), torch.zeros(1, 4).expand(3, 4))
    assert caught.value.diagnostics[0].code == "self-overlap"


def test_numbers_still_to_be_negated_are_refused() -> None:
    kernel = loopfuse.loads(COPY)
    x = torch.randn(3, 4, dtype=torch.complex64)
    for _ in range(2):
        assert torch.equal(kernel(x.imag), x.imag)
    negated = x.conj().imag
    assert negated.is_neg() and negated.stride() == x.imag.stride()
    with pytest.raises(UserError, match=r"pass `x\.resolve_neg\(\)`"):
        kernel(negated)
    assert torch.equal(kernel(negated.resolve_neg()), -x.imag)


def test_tensors_that_are_nowhere() -> None:
    kernel = loopfuse.loads(COPY)
    with pytest.raises(UserError, match="the tensor is on the device `meta`"):
        kernel(torch.zeros(3, 4, device="meta"))
    with pytest.raises(UserError, match=r"layout torch\.sparse_coo does not lie in memory"):
        kernel(torch.zeros(3, 4).to_sparse())
