"""Which elements of an array loops write together: boxes, and the one box that they make up.

before:  y in 1..H-1, x in 1..W-1;  y in 0..1, x in 0..W;  y in H-1..H, x in 0..W;  ...
after:   y in 0..H, x in 0..W
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopfuse.base.dtypes import DType
from loopfuse.lang.affine import integer
from loopfuse.lang.nodes import Binary, Expr
from loopfuse.plan.expressions import conjoin, in_range
from loopfuse.plan.groups import Box, Region
from loopfuse.plan.linear import constant_value, same_index
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


def as_one_box(region: Region, array: Array, program: PolyProgram) -> Region:
    """The region as one box, where in every call it is one whose ends are seen: those that all its
    boxes have, or the array's."""
    if len(region) < 2:
        return region
    box: list[tuple[Expr, Expr]] = []
    for position, extent in enumerate(array.extents):
        lows = dict.fromkeys(one[position][0] for one in region)
        highs = dict.fromkeys(one[position][1] for one in region)
        low = next(iter(lows)) if len(lows) == 1 else integer(0)
        high = next(iter(highs)) if len(highs) == 1 else extent
        box.append((low, high))
    return (tuple(box),) if _is_made_of(tuple(box), region, program) else region


def _is_made_of(box: Box, region: Region, program: PolyProgram) -> bool:
    """Have the boxes of the region all elements of `box`, and no others?"""
    space = isl.set_space(
        isl.context_of(program.context), tuple(program.symbols), [f"i{k}" for k in range(len(box))]
    )
    reader = isl.Reader(space)
    whole = _points(box, reader, space)
    parts = [_points(one, reader, space) for one in region]
    if whole is None or any(part is None for part in parts):
        return False
    union = parts[0]
    for part in parts[1:]:
        union = union.union(part)
    union = union.intersect_params(program.context)
    return bool(union.is_equal(whole.intersect_params(program.context)))


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
