"""Rows and columns of an array in one pass on a GPU, as they are compiled: of every length that has a way of its own, on each side of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import loopfuse
from loopfuse.plan.strategies.rows import sizes
from tests.plan.test_both import NORM

ROOT = Path(__file__).resolve().parents[2]
WIDTHS = (1, 7, 48, 49, 256, 257, 1000, 1024, 1025, 4096, 4097, 5000, 16384, 16385)
COUNTS = (3, sizes.FEW_ROWS, sizes.FEW_ROWS + 1, sizes.FEW_ROWS + sizes.ROWS_OF_SHARE + 5)

pytestmark = pytest.mark.gpu

EXACT = """kernel f(x: i32[R, C], a: i32[R], out s: i32[R], out t: i32[C], out w: i32[C]):
    for r in 0..R:
        s[r] = sum(c in 0..C: x[r, c])
    for c in 0..C:
        t[c] = sum(r in 0..R: x[r, c] * a[r])
        w[c] = max(r in 0..R: x[r, c] - s[r])
"""


@pytest.mark.parametrize("width", WIDTHS)
def test_whole_numbers(width: int) -> None:
    torch = pytest.importorskip("torch")
    kernel = loopfuse.loads(EXACT)
    for count in COUNTS:
        x = torch.randint(-100, 100, (count, width), dtype=torch.int32, device="cuda")
        a = torch.randint(-9, 9, (count,), dtype=torch.int32, device="cuda")
        s, t, w = kernel(x, a)
        assert torch.equal(s, x.sum(1, dtype=torch.int32))
        assert torch.equal(t, (x * a[:, None]).sum(0, dtype=torch.int32))
        assert torch.equal(w, (x - s[:, None]).amax(0))


@pytest.mark.parametrize("width", WIDTHS)
def test_backward_passes_of_norms(width: int) -> None:
    torch = pytest.importorskip("torch")
    layer = loopfuse.load(ROOT / "examples/layernorm_backward.lf")
    root = loopfuse.loads(NORM)
    for count in COUNTS[1:]:
        x, dy = (torch.randn(count, width, device="cuda") for _ in range(2))
        gamma, scale, mean = torch.randn(width, device="cuda"), torch.rand(count, device="cuda"), torch.randn(count, device="cuda")
        found = layer(x, dy, gamma, mean, scale)
        again = layer(x, dy, gamma, mean, scale)
        normal = (x.double() - mean.double()[:, None]) * scale.double()[:, None]
        slope = dy.double() * gamma.double()
        dx = scale.double()[:, None] * (slope - slope.mean(1)[:, None] - normal * (slope * normal).mean(1)[:, None])
        wanted = (dx, (dy.double() * normal).sum(0), dy.double().sum(0))
        for one, same, other in zip(found, again, wanted, strict=True):
            assert torch.equal(one, same)
            assert float((one.double() - other).norm()) <= 1e-5 * float(other.norm())
        x, dy, weight = (each.to(torch.bfloat16) for each in (x, dy, gamma))
        dx, dw = root(x, dy, weight, scale)
        x, dy, weight, scale = (each.double() for each in (x, dy, weight, scale))
        slope = (dy * weight * x).sum(1) * scale * scale / width
        wanted = scale[:, None] * (dy * weight - x * slope[:, None])
        assert float((dx.double() - wanted).norm()) <= 4e-3 * float(wanted.norm())
        wanted = (dy * x * scale[:, None]).sum(0)
        assert float((dw.double() - wanted).norm()) <= 1e-5 * float(wanted.norm())
