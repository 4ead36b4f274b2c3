"""Rows: the PTX of the kernels, run on the machine of `tests/ptx_machine.py` against the interpreter, bit for
bit, at lengths that fill the last chunk of a team or leave a place of it."""

from __future__ import annotations

import sys
from math import prod
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))

from ptx_runs import compiled, run

from loopfuse.base.options import Tuning
from loopfuse.lang.linear import constant_value
from loopfuse.tree.looptree import Mapping
from loopfuse.tree.walk import split_chain

TEXT = """
kernel f(x: i32[R, {length}], w: i32[{length}], out total: i32[R], out y: i32[R, {length}]):
    for r in 0..R:
        let most = max(c in 0..{length}: x[r, c])
        total[r] = sum(c in 0..{length}: (x[r, c] - most) * w[c])
        for c in 0..{length}:
            y[r, c] = x[r, c] * w[c] - total[r]
"""
TEAMS = {25: 4, 32: 4, 33: 8, 48: 8, 64: 8, 127: 8, 128: 8, 129: 16, 512: 16, 513: 32, 1000: 32, 1025: 128, 5000: 256, 16385: 512, 32768: 1024, 40000: 2048}
"""Lengths, and how many threads then have a row together."""


@pytest.mark.parametrize("length", TEAMS)
def test_rows_of_a_known_length(length: int) -> None:
    text = TEXT.format(length=length)
    _, tree, _ = compiled(text, Tuning(), strategy="rows")
    (launch,) = tree.launches
    chain, _ = split_chain(launch)
    team = [loop for loop in chain if loop.mapping is Mapping.CLUSTER or loop is chain[-1]]
    assert prod(constant_value(loop.upper) or 0 for loop in team) == TEAMS[length]
    for rows in (1, 5) if length < 600 else (2,):
        run(text, Tuning(), {"R": rows}, 1, strategy="rows")


@pytest.mark.parametrize("dtype", ("i32", "i16"))
def test_rows_of_few_places(dtype: str) -> None:
    """Of one thread, of two, four, eight and sixteen, with places left over in the last chunk and without. (Rows of narrow elements go by
    vectors where their lengths are multiples of 8.)"""
    text = TEXT.format(length="C").replace("x: i32", f"x: {dtype}").replace("out y: i32", f"out y: {dtype}")
    if dtype == "i16":
        text = text.replace("x[r, c] * w[c] - total[r]", "i16(x[r, c] * 3)")
    for length in (1, 2, 3, 4, 5, 8, 9, 13, 16, 17, 24, 40, 48, 49, 64, 65, 128, 129):
        run(text, Tuning(), {"R": 3 if length > 9 else 35, "C": length}, 0 if length % 3 else 1, strategy="rows")
