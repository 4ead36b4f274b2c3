"""Element-wise work: the PTX of the kernels, run as `tests/ptx_runs.py` says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ptx_runs import compiled, run, size_of

from loopfuse.base.options import Tuning

FLAT = """
kernel f(a: {0}[N], b: {0}[N], out c: {0}[N]):
    for i in 0..N:
        c[i] = a[i] + b[i]
"""
ROWS = """
kernel f(a: {0}[H, W], b: {0}[W], out c: {0}[H, W]):
    for y in 0..H, x in 0..W:
        c[y, x] = a[y, x] + b[x]
"""
DTYPES = ("f32", "f64", "u8", "i16")  # the machine knows no pairs of f16


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_of_any_length(dtype: str) -> None:
    """16 bytes at a time where the array starts at a multiple of that, whatever its length."""
    width = 16 // size_of(dtype)
    block = 2 * 256 * width
    for length in (0, 1, width, width + 1, block - 1, block, block + 1, 2 * block + width + 3):
        stored = run(FLAT.format(dtype), Tuning(), {"N": length}, 0, strategy="pointwise")
        assert stored.get(16, 0) == length // width, (length, stored)
    for length in (1, block - 1, block + 259):
        stored = run(FLAT.format(dtype), Tuning(), {"N": length}, 1, strategy="pointwise")
        assert stored == {size_of(dtype): length}, (length, stored)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_any_length(dtype: str) -> None:
    """16 bytes at a time where all rows start at multiples of that."""
    size = size_of(dtype)
    width = 16 // size
    for columns in (1, width, 32 * width, 32 * width + 1, 65 * width):
        stored = run(ROWS.format(dtype), Tuning(), {"H": 11, "W": columns}, 0, strategy="pointwise")
        whole = columns % width == 0
        assert stored == ({16: 11 * columns // width} if whole else {size: 11 * columns}), stored


@pytest.mark.parametrize("dtype", ["f32", "f64", "i16"])
def test_ends_of_rows_of_every_length(dtype: str) -> None:
    """The last part of a row, written out by how many elements a thread has of it."""
    width = 16 // size_of(dtype)
    for columns in (3, 31, 33, 63, 65, 95, 97, 127, 32 * width - 1, 32 * width + 33):
        stored = run(ROWS.format(dtype), Tuning(), {"H": 9, "W": columns}, 1, strategy="pointwise")
        assert stored == {size_of(dtype): 9 * columns}, (columns, stored)


def test_loads_at_ends_of_rows_are_under_way_together() -> None:
    """As many as there are elements, without a test between them."""
    ptx = compiled(ROWS.format("f32"), Tuning(), strategy="pointwise")[2].ptx
    blocks = re.split(r"^\$L__BB\w+:|^\s*@%p\d+ bra.*|^\s*bra.*", ptx, flags=re.MULTILINE)
    stores = {len(re.findall(r"st\.global\.b32", block)) for block in blocks}
    assert {4, 3, 2, 1} <= stores


def test_loads_are_under_way_together() -> None:
    """Two vectors of each array; element by element, as many as a vector has, without a test
    between them."""
    ptx = compiled(FLAT.format("f32"), Tuning(), strategy="pointwise")[2].ptx
    blocks = re.split(r"^\$L__BB\w+:|^\s*@%p\d+ bra.*|^\s*bra.*", ptx, flags=re.MULTILINE)
    found = {
        (len(re.findall(r"ld\.global\.nc\.v4", block)), len(re.findall(r"ld\.global\.nc\.b32", block)))
        for block in blocks
    }
    assert (4, 0) in found and (0, 8) in found, found


@pytest.mark.parametrize("columns", [8, 8 * 33])
def test_pairs_of_bf16_are_widened_a_word_at_a_time(columns: int) -> None:
    """One instruction an element: ptxas makes two of `cvt.f32.bf16` for the upper half of a word."""
    text = """
kernel f(a: bf16[H, W], b: bf16[W], out c: bf16[H, W]):
    for y in 0..H, x in 0..W:
        c[y, x] = bf16(f32(a[y, x]) * 0.1 + f32(b[x]))
"""
    stored = run(text, Tuning(), {"H": 3, "W": columns}, 0, strategy="pointwise")
    assert stored == {16: 3 * columns // 8}
    ptx = compiled(text, Tuning(), strategy="pointwise")[2].ptx
    vectors = ptx[ptx.index("ld.global.nc.v4.b32") : ptx.index("st.global.v4.b32")]
    assert "cvt.f32.bf16" not in vectors
    assert len(re.findall(r"and\.b32 .*, -65536;", vectors)) == 8, vectors
