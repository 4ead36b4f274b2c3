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
TEAMS = {25: 8, 127: 8, 128: 8, 129: 16, 512: 16, 513: 32, 1000: 32, 1025: 128, 5000: 256, 16385: 512, 32768: 1024, 40000: 2048}
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
