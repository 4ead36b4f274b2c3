"""What the blocks of a launch hand on to those after them in a Scan (see there): how much memory that takes.

    words:          how many blocks have started | of each row of blocks:
    words of a row: what block 0, 1, .. makes, but the last | what CHAIN, 2 CHAIN, .. blocks make

A word has 32 bits of a value, and says in which run of the launch it was written: so nothing is cleared between two runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopfuse.base.dtypes import DType
from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, combine, integer
from loopfuse.tree.looptree import LINEAR

CHAIN = 256
"""Blocks that look at each other's results one by one. What stands before these goes from one such group to the next, which
takes less time than a group's elements take to be read."""


def parts_of(op: str, dtype: DType) -> int:
    """Words of a value."""
    return -(-dtype.bytes // 4) * (2 if op == LINEAR else 1)


def row_of(op: str, dtype: DType, blocks: Expr) -> Expr:
    """Words of a row of so many blocks; none of one block."""
    before = combine("max", blocks - 1, integer(0))
    return tidy((before + before // CHAIN) * parts_of(op, dtype))


def words_of(op: str, dtype: DType, rows: Sequence[Expr], blocks: Expr) -> Expr:
    """All words, of so many rows along each loop; none where a row has one block."""
    words = row_of(op, dtype, blocks)
    for count in rows:
        words = words * combine("max", count, integer(0))
    return tidy(words + combine("min", words, integer(1)))
