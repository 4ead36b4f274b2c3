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
        if columns % width == 0:
            assert stored == {16: 11 * columns // width}, stored
        else:  # of two bytes: in pairs
            assert sum(bytes_ * count for bytes_, count in stored.items()) == 11 * columns * size
            assert set(stored) <= ({2, 4} if size == 2 else {size}), stored


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


PAIRS = """
kernel f(a: i16[R, C], bias: i16[C], out y: i16[R, C]):
    for r in 0..R, c in 0..C:
        y[r, c] = a[r, c] + bias[c]
"""


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("columns", [1, 2, 255, 256, 257, 301])
def test_rows_of_two_bytes_move_in_pairs(columns: int, offset: int) -> None:
    """Where they start anywhere: each pair at a multiple of four bytes, which the machine asks for."""
    sizes = {"R": 3, "C": columns}
    stored = run(PAIRS, Tuning(), sizes, offset, strategy="pointwise")
    if offset:
        assert set(stored) == {2}
    elif columns % 8:
        assert stored.get(4, 0) >= 3 * ((columns - 2) // 2), stored
    else:
        assert set(stored) == {16}


AS_ONE = """
kernel f(a: f32[H, W], b: f32[H, W], out y: f32[H, W]):
    for y_ in 0..H, x in 0..W:
        y[y_, x] = a[y_, x] + b[y_, x]
"""
COLOURS = """
kernel f(a: f32[H, W, C], s: f32[C], out y: f32[H, W, C]):
    for r in 0..H, x in 0..W, c in 0..C:
        y[r, x, c] = a[r, x, c] * s[c]
""".replace("C]", "3]").replace("0..C", "0..3")


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (3, 5), (7, 300), (2, 1031), (0, 4)])
def test_rows_run_as_one(height: int, width: int, bits: int) -> None:
    """16 bytes at a time, whatever a row's length: only the last vector may be a part of one."""
    stored = run(AS_ONE, Tuning(), {"H": height, "W": width}, 0, bits, "pointwise")
    points = height * width
    assert stored.get(16, 0) == points // 4 and stored.get(4, 0) == points % 4, stored


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (3, 5), (2, 341), (1, 1025)])
def test_colours_are_elements_of_a_column(height: int, width: int, offset: int) -> None:
    stored = run(COLOURS, Tuning(), {"H": height, "W": width}, offset, strategy="pointwise")
    points = height * width * 3
    assert stored == {4: points} if offset else stored.get(16, 0) >= points // 4 - 1, stored
