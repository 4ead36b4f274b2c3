"""Columns, and points of several loops, of every shape on a GPU, as they are compiled: exactly, and against float64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import loopfuse

ROOT = Path(__file__).resolve().parents[2]
LENGTHS = (1, 2, 24, 25, 63, 64, 65, 255, 256, 257, 1000, 1024, 1025, 2048, 2049, 4095, 4097, 8192, 8193, 20001)
SHAPES = (
    (1, 1), (2, 3), (3, 32), (40, 7), (1, 33), (9, 64), (3, 511), (5, 512), (2, 513), (8, 3136), (29, 513), (31, 520),
    (200, 70), (700, 40), (33, 1025), (64, 3136), (1, 5000),
)  # fmt: skip
SOFTMAX = """
kernel columns(x: f32[R, C], out y: f32[R, C]):
    for c in 0..C:
        let m = max(r in 0..R: x[r, c])
        let z = sum(r in 0..R: exp(x[r, c] - m))
        for r in 0..R:
            y[r, c] = exp(x[r, c] - m) / z
"""

pytestmark = pytest.mark.gpu


def device_arrays():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("length", LENGTHS)
def test_columns(length: int) -> None:
    torch = device_arrays()
    exact, once = (loopfuse.load(ROOT / f"tests/cases/columns_{name}.lf") for name in ("every_length", "read_once"))
    softmax = loopfuse.loads(SOFTMAX)
    random = np.random.default_rng(length)
    for columns in (1, 31, 33, 2049):
        x = random.integers(-100, 100, (length, columns)).astype(np.int32)
        w = random.integers(-9, 9, length).astype(np.int32)
        total, most = 7 + (x * w[:, None]).sum(0), np.maximum(-1000, x.max(0))
        wanted = (total, most, x * w[:, None] - (total - 2 * most))
        given = [torch.from_numpy(each).cuda() for each in (x, w)]
        for found, each in zip(exact(*given), wanted, strict=True):
            assert np.array_equal(found.cpu().numpy(), each)
        for found, each in zip(once(given[0]), (x.sum(0), (x * x).sum(0)), strict=True):
            assert np.array_equal(found.cpu().numpy(), each)
        f = torch.randn(length, columns, device="cuda") * 8
        y = torch.full_like(f, float("nan"))
        softmax(f, y)
        assert torch.allclose(y.double(), torch.softmax(f.double(), 0), rtol=1e-5, atol=1e-7)
        again = torch.empty_like(y)
        softmax(f, again)
        assert torch.equal(y, again)


@pytest.mark.parametrize("shape", SHAPES)
def test_nests(shape: tuple[int, int]) -> None:
    torch = device_arrays()
    kernel, norm = loopfuse.load(ROOT / "tests/cases/nests_every_shape.lf"), loopfuse.load("example:group_norm")
    random = np.random.default_rng(shape[1])
    for points in (1, 5):
        x = random.integers(-100, 100, (points, *shape)).astype(np.int32)
        gain = random.integers(-9, 9, shape[0]).astype(np.int32)
        total = (x * gain[:, None]).sum((1, 2))
        wanted = (total, x * gain[:, None] - (total + x.max((1, 2)))[:, None, None])
        for found, each in zip(kernel(torch.from_numpy(x).cuda(), torch.from_numpy(gain).cuda()), wanted, strict=True):
            assert np.array_equal(found.cpu().numpy(), each)
    assert norm is not None
