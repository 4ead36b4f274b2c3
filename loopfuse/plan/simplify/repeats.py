"""Reductions that find the same value again and again, and do not change by it, take it once.

before:  m = min(p in 0..N: b[i])        after:  m = min(p in 0..min(N, 1): b[i])

The least of a value and itself is the value. (Sums are not: rounding each time, they have bits of their own.)
"""

from __future__ import annotations

from dataclasses import replace

from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Kernel, Range, Reduce, Stmt, combine
from loopfuse.lang.walk import iterators, loads, map_stmts

IDEMPOTENT = ("min", "max", "any", "all")


def without_repeats(kernel: Kernel) -> Kernel:
    """`kernel` with such reductions over one iteration at most; itself where there are none."""
    found = False

    def once(stmt: Stmt) -> tuple[Stmt, ...]:
        nonlocal found
        if not isinstance(stmt, Reduce) or stmt.op not in IDEMPOTENT or stmt.body:
            return (stmt,)
        used = iterators(stmt.value).union(*(iterators(end) for r in stmt.ranges for end in (r.lower, r.upper)))
        ranges = tuple(r if r.iterator in used else _once(r) for r in stmt.ranges)
        found |= ranges != stmt.ranges
        return (replace(stmt, ranges=ranges),)

    body = map_stmts(once, kernel.body)
    return replace(kernel, body=body) if found else kernel


def _once(one: Range) -> Range:
    if loads(one.lower) or loads(one.upper):
        return one
    if one.step < 0:
        return replace(one, upper=tidy(combine("max", one.upper, one.lower - 1)))
    return replace(one, upper=tidy(combine("min", one.upper, one.lower + 1)))
