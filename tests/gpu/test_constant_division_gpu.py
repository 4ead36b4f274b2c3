"""Divisions by constants in windows, on a GPU: the bits of IEEE division.

Run on a machine with a GPU: `pytest -m gpu tests/gpu/test_constant_division_gpu.py`. Every
subnormal and smallest normal f32, and one in 32 of all others.
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
kernel quotients(g: {kind}[H, W], out e: {kind}[H, W]):
    for y in 1..H, x in 0..W:
        e[y, x] = g[y-1, x] / {divisor}
"""
WIDTH = 4096


def patterns(kind: str) -> list[np.ndarray]:
    if kind == "f32":
        small = np.arange(2**24, dtype=np.uint32)
        every = np.arange(2**26, dtype=np.uint32) * np.uint32(64)
        parts = [small, small + np.uint32(2**31), every, every + np.uint32(37)]
        return [part.view(np.float32) for part in parts]
    random = np.random.default_rng(3)
    small = random.integers(0, 2**54, 2**22, dtype=np.uint64)
    every = random.integers(0, 2**64 - 1, 2**24, dtype=np.uint64)
    return [part.view(np.float64) for part in (small, small + np.uint64(2**63), every)]


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("divisor", ["12.0", "-7.0", "0.1"])
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_quotients(kind: str, divisor: str, name: str) -> None:
    upload, download = LIBRARIES[name]()
    kernel = loopfuse.loads(TEXT.format(kind=kind, divisor=divisor))
    for x in patterns(kind):
        rows = x.reshape(-1, WIDTH)
        given = np.concatenate([rows, rows[:1]])  # the last row is not read
        held = {"g": upload(given), "e": upload(np.zeros_like(given))}
        assert "sliding" in str(kernel.explain(**held))
        kernel(**held)
        loopfuse.synchronize()
        got = download(held["e"])[1:]
        with np.errstate(all="ignore"):
            wanted = rows / x.dtype.type(float(divisor))
        same = (got.view(f"u{x.itemsize}") == wanted.view(f"u{x.itemsize}")) | (
            np.isnan(got) & np.isnan(wanted)
        )
        assert same.all(), (rows[~same][:4], got[~same][:4], wanted[~same][:4])
