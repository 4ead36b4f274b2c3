"""Rows of every length on a GPU, as they are compiled: a thread's, a part of a warp's, a warp's, a block's, a cluster's and longer
ones, against float64 (sums) and exactly (the rest)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import loopfuse

ROOT = Path(__file__).resolve().parents[2]
WIDTHS = (
    1, 2, 24, 25, 31, 32, 33, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1000, 1024, 1025, 3000, 4096, 4097,
    16383, 16384, 16385, 20000, 24576, 24577, 32767, 32768, 32769, 50257, 65536, 65537, 70001, 131071, 131072, 131073, 200001,
)  # fmt: skip

pytestmark = pytest.mark.gpu


def device_arrays():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("width", WIDTHS)
def test_softmax(width: int) -> None:
    torch = device_arrays()
    kernel = loopfuse.load(ROOT / "examples/softmax.lf")
    for rows in (1, 3, 130):
        x = torch.randn(rows, width, device="cuda") * 8
        y = torch.full_like(x, float("nan"))
        kernel(x, y)
        wanted = torch.softmax(x.double(), 1)
        assert torch.allclose(y.double(), wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("width", WIDTHS)
def test_exact(width: int) -> None:
    torch = device_arrays()
    kernel = loopfuse.load(ROOT / "tests/cases/rows_every_width.lf")
    random = np.random.default_rng(width)
    rows = 37
    x = random.integers(-1000, 1000, (rows, width)).astype(np.int32)
    w = random.integers(-9, 9, width).astype(np.int32)
    total = 7 + (x * w).sum(1)
    most = np.maximum(-1000, x.max(1))
    y = x * w - (total - 2 * most)[:, None]
    given = [torch.from_numpy(each).cuda() for each in (x, w)]
    outs = [torch.empty(rows, dtype=torch.int32, device="cuda") for _ in range(2)]
    outs.append(torch.empty(rows, width, dtype=torch.int32, device="cuda"))
    kernel(*given, *outs)
    for found, wanted in zip(outs, (total, most, y), strict=True):
        assert np.array_equal(found.cpu().numpy(), wanted)


@pytest.mark.parametrize("width", (5, 100, 3000, 9000, 20000, 40000))
def test_views(width: int) -> None:
    """Rows that lie apart, start anywhere, or whose neighbours lie apart."""
    torch = device_arrays()
    kernel = loopfuse.load(ROOT / "examples/softmax.lf")
    whole = torch.randn(7, 2 * width + 3, device="cuda")
    for x in (whole[:, :width], whole[:, 3 : 3 + width], whole[1:6, : 2 * width : 2], whole.t()[:width].contiguous().t()):
        y = torch.full_like(x, float("nan"))
        kernel(x, y)
        assert torch.allclose(y.double(), torch.softmax(x.double(), 1), rtol=1e-5, atol=1e-7)


NARROW = {
    "softmax": """
kernel f(x: {t}[R, C], out y: {t}[R, C]):
    for r in 0..R:
        let m = max(c in 0..C: x[r, c])
        let s = sum(c in 0..C: exp(x[r, c] - m))
        for c in 0..C:
            y[r, c] = exp(x[r, c] - m) / s
""",
    "layernorm": """
kernel f(x: {t}[R, C], g: {t}[C], b: {t}[C], out y: {t}[R, C]):
    for r in 0..R:
        let mean = sum(c in 0..C: x[r, c]) / C
        let scale = rsqrt(sum(c in 0..C: (x[r, c] - mean) ** 2) / C + 1.0e-5)
        for c in 0..C:
            y[r, c] = (x[r, c] - mean) * scale * g[c] + b[c]
""",
}


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("dtype", ("bf16", "f16"))
def test_narrow(name: str, dtype: str) -> None:
    """Rows of two-byte elements of every width, which start anywhere; nothing beside them is touched."""
    torch = device_arrays()
    kind = {"bf16": torch.bfloat16, "f16": torch.float16}[dtype]
    kernel = loopfuse.loads(NARROW[name].format(t=dtype))
    for width in (*WIDTHS, 7, 1001, 1033, 2047, 4093, 4095, 5003, 8191, 16381, 262143):
        for rows, offset in ((1, 0), (3, 0), (133 if width < 70000 else 5, 0), (4, 1)):
            room = torch.full((rows * width + offset + 64,), 7.0, device="cuda", dtype=kind)
            x = torch.randn(rows * width + offset, device="cuda").to(kind)[offset:].view(rows, width)
            y = room[offset : offset + rows * width].view(rows, width)
            w = [torch.randn(width, device="cuda").to(kind) for _ in range(2 if name == "layernorm" else 0)]
            kernel(x, *w, y)
            wide = x.double()
            wanted = torch.softmax(wide, 1)
            if name == "layernorm":
                wanted = torch.nn.functional.layer_norm(wide, (width,), w[0].double(), w[1].double(), 1e-5)
            error = (y.double() - wanted).norm() / wanted.norm().clamp_min(1e-30)
            assert error < 1e-2, (width, rows, offset, float(error))
            assert (room[offset + rows * width :] == 7).all() and (room[:offset] == 7).all(), (width, rows, offset)
