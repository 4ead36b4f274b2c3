"""Quotients by the machine's reciprocal, corrected (`codegen.mlir.quotients`), on a GPU: the bits of IEEE division.

Run on a machine with a GPU: `pytest -m gpu tests/gpu/test_quotients_gpu.py`. The reciprocals of all significands; quotients of
random numbers, and of those nearest to the middle of two.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gpu_libraries import LIBRARIES

import loopfuse

pytestmark = pytest.mark.gpu

TEXT = """
kernel quotients(a: f32[N], b: f32[N], out q: f32[N], out r: f32[N], out e: f32[N]):
    for i in 0..N:
        q[i] = a[i] / b[i]
        r[i] = 1.0 / b[i]
        e[i] = exp(b[i])
"""
HOST = """
kernel exponentials(b: f32[N], out e: f32[N]):
    for i in 0..N:
        e[i] = exp(b[i])
"""


def compare(a: np.ndarray, b: np.ndarray) -> None:
    upload, download = next(iter(LIBRARIES.values()))()
    kernel = loopfuse.loads(TEXT)
    held = {"a": upload(a), "b": upload(b), **{name: upload(np.full_like(a, np.nan)) for name in "qre"}}
    kernel(**held)
    loopfuse.synchronize()
    exponentials = np.empty_like(b)
    loopfuse.loads(HOST)(b, exponentials)
    with np.errstate(all="ignore"):
        wanted = {"q": a / b, "r": np.float32(1) / b, "e": exponentials}
    for name, right in wanted.items():
        got = download(held[name])
        same = (got.view(np.uint32) == right.view(np.uint32)) | (np.isnan(got) & np.isnan(right))
        assert same.all(), (name, a[~same][:4], b[~same][:4], got[~same][:4], right[~same][:4])


@pytest.mark.parametrize("exponent", [0, 1, 2, 67, 126, 127, 128, 186, 187, 188, 252, 253, 254, 255])
def test_all_significands(exponent: int) -> None:
    random = np.random.default_rng(exponent)
    b = np.arange(1 << 23, dtype=np.uint32) | np.uint32(exponent << 23)
    for sign in (0, 1 << 31):
        a = random.integers(0, 1 << 32, b.size, dtype=np.uint32)
        compare(a.view(np.float32), (b | np.uint32(sign)).view(np.float32))


def test_all_exponents() -> None:
    """Of both, of either sign, and zeros."""
    random = np.random.default_rng(1)
    a, b = (random.integers(0, 1 << 32, 1 << 24, dtype=np.uint32) for _ in range(2))
    a[::5] &= np.uint32(1 << 31)
    compare(a.view(np.float32), b.view(np.float32))


def test_quotients_near_the_middle_of_two() -> None:
    """a 2**h = s (2 q + 1) + 1 or - 1, as in tests/codegen/test_together.py: of all odd s of 24 bits."""
    s = np.arange(1 << 23, 1 << 24, dtype=np.int64) | 1
    for rest in (1, -1):
        x = np.full_like(s, rest) % s
        for h in range(1, 26):
            x = np.where(x & 1, (x + s) >> 1, x >> 1)
            fits = (x >= 1 << 23) & (x < 1 << 24) & (h >= 23)
            if fits.any():
                scale = np.float32(2.0 ** (h - 24))
                compare(x[fits].astype(np.float32) * scale, s[fits].astype(np.float32))
