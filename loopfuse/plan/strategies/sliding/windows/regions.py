"""Which elements of an array loops write together: boxes, and the one box that they make up.

before:  y in 1..H-1, x in 1..W-1;  y in 0..1, x in 0..W;  y in H-1..H, x in 0..W;  ...
after:   y in 0..H, x in 0..W
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from loopfuse.base.dtypes import DType
from loopfuse.lang.index import conjoin, in_range
from loopfuse.lang.linear import constant_value, same_index
from loopfuse.lang.nodes import Binary, Expr, integer
from loopfuse.plan.units.groups import Box, Region
from loopfuse.poly import isl
from loopfuse.poly.model import Array, PolyProgram


def in_region(index: Sequence[Expr], region: Region) -> Expr:
    """The element lies in the region."""
    out: Expr | None = None
    for box in region:
        tests: list[Expr] = []
        for subscript, ends in zip(index, box, strict=True):
            tests += in_range(subscript, *ends)
        inside = conjoin(*dict.fromkeys(tests))
        out = inside if out is None else Binary("or", out, inside, DType.BOOL)
    assert out is not None
    return out


def is_all(region: Region, array: Array) -> bool:
    """Is the region seen to be one box, the whole array?"""
    return len(region) == 1 and all(
        constant_value(low) == 0 and same_index(high, extent)
        for (low, high), extent in zip(region[0], array.extents, strict=True)
    )


def as_one_box(region: Region, array: Array, program: PolyProgram, calls: Any) -> Region:
    """The region as one box, where it is one in all of the `calls` (a set of parameters) and its ends
    are seen: those of some of its boxes, or the array's."""
    if len(region) < 2:
        return region
    space = isl.set_space(
        isl.context_of(program.context),
        tuple(program.symbols),
        [f"i{k}" for k in range(len(region[0]))],
    )
    reader = isl.Reader(space)
    union = isl.empty(space)
    for each in region:
        part = _points(each, reader, space)
        if part is None:
            return region
        union = union.union(part)
    union = union.intersect_params(calls)
    box: list[tuple[Expr, Expr]] = []
    for position, extent in enumerate(array.extents):
        lows = (*dict.fromkeys(one[position][0] for one in region), integer(0))
        highs = (*dict.fromkeys(one[position][1] for one in region), extent)
        here = reader.affine({f"i{position}": 1})
        low = _bound(lows, reader, lambda end, here=here: union.intersect(here.lt_set(end)))
        high = _bound(highs, reader, lambda end, here=here: union.intersect(here.ge_set(end)))
        if low is None or high is None:
            return region
        box.append((low, high))
    whole = _points(tuple(box), reader, space)
    is_one = whole is not None and union.is_equal(whole.intersect_params(calls))
    return (tuple(box),) if is_one else region


def _bound(ends: Sequence[Expr], reader: isl.Reader, beyond: Callable[[Any], Any]) -> Expr | None:
    """The first of `ends` beyond which nothing is."""
    for end in ends:
        found = reader.piecewise(end)
        if found is not None and beyond(found).is_empty():
            return end
    return None


def _points(box: Box, reader: isl.Reader, space: Any) -> Any | None:
    """The box as a set; None where an end of it is not affine."""
    out = isl.universe(space)
    for position, (low, high) in enumerate(box):
        first, end = reader.piecewise(low), reader.piecewise(high)
        if first is None or end is None:
            return None
        here = reader.affine({f"i{position}": 1})
        out = out.intersect(here.ge_set(first)).intersect(here.lt_set(end))
    return out
