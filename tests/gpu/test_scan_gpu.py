"""Running values on a GPU, as they are compiled: one thread's, one block's, and chunks; exactly on whole numbers, and sums of
floats against float64."""

from __future__ import annotations

import numpy as np
import pytest

import loopfuse

SIZES = (0, 1, 2, 255, 256, 257, 4095, 4096, 4097, 8191, 8192, 8193, 12289, 100_000, 1 << 20, (1 << 22) + 5, 33_554_433)
SUMS = """
kernel f(x: T[N], inout s: T[1], out y: T[N], out z: T[N]):
    for i in 0..N:
        z[i] = s[0]
        s[0] += x[i]
        y[i] = s[0]
"""
NUMPY = {"i32": np.int32, "i64": np.int64, "f32": np.float32, "f64": np.float64}

pytestmark = pytest.mark.gpu


def device_arrays():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("n", SIZES)
def test_exact(n: int, dtype: str) -> None:
    """Whole numbers: inclusive, exclusive, from what was there, and the total; arrays that start on 16 bytes, and that do not."""
    torch = device_arrays()
    kernel = loopfuse.loads(SUMS.replace("T[", f"{dtype}["))
    values = np.random.default_rng(n).integers(0, 2 if dtype == "f32" else 9, n + 1).astype(NUMPY[dtype])
    if dtype == "f32" and n > 1 << 23:
        values[1 << 22 :] = 0  # so that every sum is exact
    for offset in (0, 1):
        x = torch.from_numpy(values).cuda()[offset : offset + n]
        s = torch.full((1,), 7, dtype=x.dtype, device="cuda")
        y, z = (torch.full((n + 1,), -1, dtype=x.dtype, device="cuda")[offset : offset + n] for _ in range(2))
        kernel(x, s, y, z)
        wanted = 7 + np.cumsum(values[offset : offset + n], dtype=values.dtype)
        assert np.array_equal(y.cpu().numpy(), wanted)
        assert np.array_equal(z.cpu().numpy(), wanted - values[offset : offset + n])
        assert s.item() == (wanted[-1] if n else 7)


RUNNING = """
kernel f(x: f32[N], out lo: f32[N], out hi: f32[N], out k: i32[N], out n: i32[1]):
    var a: f32 = inf
    var b: f32 = -inf
    var c: i32 = 0
    for i in 0..N:
        let e = x[i] * 0.5
        a min= e
        b max= e
        if x[i] > 0.0:
            c += 1
        lo[i] = a
        hi[i] = b
        k[i] = c
    n[0] = c
"""


@pytest.mark.parametrize("size", [1, 300, 5000, 1_000_001])
def test_least_greatest_and_counts(size: int) -> None:
    torch = device_arrays()
    kernel = loopfuse.loads(RUNNING)
    values = np.random.default_rng(size).normal(size=size).astype(np.float32)
    x = torch.from_numpy(values).cuda()
    lo, hi = torch.empty_like(x), torch.empty_like(x)
    k, n = torch.empty(size, dtype=torch.int32, device="cuda"), torch.empty(1, dtype=torch.int32, device="cuda")
    kernel(x, lo, hi, k, n)
    assert np.array_equal(lo.cpu().numpy(), np.minimum.accumulate(values * np.float32(0.5)))
    assert np.array_equal(hi.cpu().numpy(), np.maximum.accumulate(values * np.float32(0.5)))
    counts = np.cumsum(values > 0)
    assert np.array_equal(k.cpu().numpy(), counts) and n.item() == counts[-1]


ROWS = """
kernel f(x: i32[R, N], w: i32[N], out y: i32[R, N], out t: i32[R]):
    for r in 0..R:
        var s: i32 = 1
        for i in 0..N:
            y[r, i] = s
            s += x[r, i] * w[i]
        t[r] = s
"""


@pytest.mark.parametrize("width", (0, 1, 255, 256, 257, 1000, 4096, 4097, 10_000, 70_001))
@pytest.mark.parametrize("rows", [1, 7])
def test_rows(rows: int, width: int) -> None:
    torch = device_arrays()
    kernel = loopfuse.loads(ROWS)
    random = np.random.default_rng(width)
    x, w = random.integers(-9, 9, (rows, width)).astype(np.int32), random.integers(-9, 9, width).astype(np.int32)
    y = torch.empty((rows, width), dtype=torch.int32, device="cuda")
    t = torch.empty(rows, dtype=torch.int32, device="cuda")
    kernel(torch.from_numpy(x).cuda(), torch.from_numpy(w).cuda(), y, t)
    sums = 1 + np.cumsum(x * w, 1, dtype=np.int32)
    assert np.array_equal(y.cpu().numpy(), sums - x * w)
    assert np.array_equal(t.cpu().numpy(), sums[:, -1] if width else np.ones(rows, np.int32))


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_sums_are_accurate_and_the_same_each_time(offset: float) -> None:
    """No less accurate than one sum after the other, in f32 on the host."""
    torch = device_arrays()
    kernel = loopfuse.loads(SUMS.replace("T[", "f32["))
    values = (np.random.default_rng(3).normal(size=1 << 22) + offset).astype(np.float32)
    x = torch.from_numpy(values).cuda()
    results: list[bytes] = []
    for _ in range(3):
        s, y, z = torch.zeros(1, device="cuda"), torch.empty_like(x), torch.empty_like(x)
        kernel(x, s, y, z)
        results.append(y.cpu().numpy().tobytes())
    assert len(set(results)) == 1
    exact = np.cumsum(values, dtype=np.float64)
    error = np.abs(np.frombuffer(results[0], np.float32) - exact).max()
    assert error <= np.abs(np.cumsum(values, dtype=np.float32) - exact).max()
