"""Loops that go along the rows of some arrays and down the columns of others: eight columns at a time, where rows lie in the same sets of a cache.

before:  for i in rows: for j in columns: c[j, i] = a[i, j]
after:   if rows of c are a multiple of 1024 bytes:
             for jb in columns by 8: for i in rows: for j in jb..jb + 8: c[j, i] = a[i, j]
         else: as before

Each element of a column comes in a line of its own, which the next row uses again if a cache still has it. Of rows of a multiple of
4 KiB all lines of a column lie in one set of the nearest cache, which has eight or twelve. (2048 x 2048 f64, one thread of an EPYC, ns for
an element: stored 7.4, eight columns at a time 1.5; loaded 6.5 and 0.8. Rows of 2000: 1.5 and 1.4; 1.0 and 1.3.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from loopfuse.base.dtypes import DType
from loopfuse.lang.index import FALSE, TRUE
from loopfuse.lang.linear import constant_value, linear, tidy
from loopfuse.lang.nodes import Binary, Const, Expr, Iter, Load, combine, compare, integer
from loopfuse.lang.walk import iterators, loads
from loopfuse.plan.mapping.interior import copied
from loopfuse.plan.mapping.space import CPU_WRITE
from loopfuse.tree.looptree import Buffer, Compute, Global, Guard, Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import walk_nodes

TOGETHER = 8
"""Columns that go together."""
ROWS = 64
"""Rows that a thread takes: each line of a column is used whole."""
COLUMNS = 1024
"""Columns that a thread takes, at most: where they go one by one, their lines stay in a cache from row to row."""
SETS = 2048
"""Rows of a multiple of so many bytes have so few sets of a cache that the lines of `COLUMNS` do not stay. Where they are written, rows of
a part of that, `CPU_WRITE`, have."""


def share_sets(body: Sequence[TreeNode], inner: str, around: str, buffers: Mapping[str, Buffer]) -> Expr:
    """Where do elements that neighbours in the loop `inner` touch lie in the same sets of a cache, and those of neighbours in `around` in
    one line? FALSE: nowhere, whatever the sizes, or the loop runs other loops. (What data decides about is touched too seldom.)"""
    nodes = [*walk_nodes(tuple(body))]
    if not all(isinstance(node, Compute | Guard) for node in nodes):
        return FALSE
    tests: dict[Expr, None] = {}
    for node in nodes:
        if isinstance(node, Compute) and node.predicate is None:
            for load in (node.target, *loads(node.value)):
                tests |= _share(load, SETS // CPU_WRITE if load is node.target else SETS, buffers[load.array], inner, around)
    known = [test for test in tests if isinstance(test, Const)]
    if TRUE in known:
        return TRUE
    asked = [test for test in tests if test not in known]
    out: Expr = asked[0] if asked else FALSE
    for test in asked[1:]:
        out = Binary("or", out, test, DType.BOOL)
    return out


def _share(load: Load, sets: int, buffer: Buffer, inner: str, around: str) -> dict[Expr, None]:
    """When the rows of what an access goes down are a multiple of `sets` bytes, if it goes down columns."""
    if not isinstance(buffer.home, Global) or buffer.strides is not None or not _goes_down(load, inner, around):
        return {}
    rest = tidy(buffer.extents[-1] % (sets // buffer.dtype.bytes))
    known = constant_value(rest)
    return {compare("eq", rest, integer(0)) if known is None else (FALSE if known else TRUE): None}


def _goes_down(load: Load, inner: str, around: str) -> bool:
    """Does `inner` go from row to row, and `around` along them?"""
    if len(load.index) < 2 or any(loads(part) for part in load.index):
        return False
    last = linear(load.index[-1])
    return (
        last is not None
        and abs(last.get(around, 0)) == 1
        and inner not in last
        and any(inner in iterators(part) for part in load.index[:-1])
    )


def eight_together(row: str, rows: tuple[Expr, Expr], loop: Loop, fresh: Callable[[str], str]) -> TreeNode:
    """The loop, in each of a thread's rows, so many columns at a time."""
    first = fresh(f"{loop.var}t")
    end = tidy(Iter(first) + TOGETHER)
    rest = copied(loop, Iter(first), combine("min", end, loop.upper), loop.body, fresh)
    columns = Guard(compare("le", end, loop.upper), (replace(loop, lower=Iter(first), upper=end),), (rest,))
    down = Loop(row, *rows, 1, Where.SERIAL, (columns,))
    return Loop(first, loop.lower, loop.upper, TOGETHER, Where.SERIAL, (down,))
