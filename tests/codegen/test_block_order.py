"""The order of blocks: every iteration once, and those at the ends of rows and columns first."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import pytest

from loopfuse.codegen.build import Builder
from loopfuse.codegen.ir import I32, Block, Value
from loopfuse.codegen.select.block_order import ends_first, in_order

BITS = (1 << 32) - 1

OPERATIONS: dict[str, Any] = {
    "arith.addi": lambda a, b: a + b & BITS,
    "arith.subi": lambda a, b: a - b & BITS,
    "arith.muli": lambda a, b: a * b & BITS,
    "arith.divui": lambda a, b: a // b,
    "arith.maxsi": lambda a, b: max(a, b, key=lambda x: x - (x >> 31 << 32)),
    "arith.minsi": lambda a, b: min(a, b, key=lambda x: x - (x >> 31 << 32)),
    "arith.select": lambda c, a, b: a if c else b,
}
COMPARISONS: dict[str, Any] = {"eq": lambda a, b: a == b, "ult": lambda a, b: a < b}


def places(extents: tuple[int, ...], ends: int) -> list[tuple[int, ...]]:
    """Which iteration each block runs, by its number."""
    block = Block([I32] * (1 + len(extents)))
    builder = Builder(block)
    number, *sizes = block.args
    found = ends_first(builder, number, sizes) if ends else in_order(builder, number, sizes[1:])
    builder.close()

    def run(n: int) -> tuple[int, ...]:
        values: dict[Value, int] = dict(zip(block.args, (n, *extents), strict=True))
        for operation in block.ops:
            given = [values[each] for each in operation.operands]
            if operation.name == "arith.constant":
                result = operation.properties["value"]
            elif operation.name == "arith.cmpi":
                result = COMPARISONS[operation.properties["predicate"]](*given)
            else:
                result = OPERATIONS[operation.name](*given)
            values[operation.results[0]] = result
        return tuple(values[each] for each in found)

    return [run(n) for n in range(prod(extents))]


SIZES = (1, 2, 3, 4, 7)
SHAPES = [
    *((extents, 0) for rank in (1, 2, 3) for extents in product(SIZES, repeat=rank)),
    *((extents, rank) for rank in (1, 2, 3) for extents in product(SIZES, repeat=rank)),
]


@pytest.mark.parametrize("ends", [0, 1, 2, 3])
def test_every_iteration_once(ends: int) -> None:
    for extents in (extents for extents, which in SHAPES if which == ends):
        every = sorted(product(*(range(extent) for extent in extents)))
        assert sorted(places(extents, ends)) == every, extents


def is_end(place: tuple[int, ...], extents: tuple[int, ...], ends: int) -> bool:
    last = list(zip(place, extents, strict=True))[-ends:]
    return any(at in (0, extent - 1) for at, extent in last)


def test_ends_come_first() -> None:
    for extents in (extents for extents, ends in SHAPES if ends == 2):
        kinds = [is_end(place, extents, 2) for place in places(extents, 2)]
        assert kinds == sorted(kinds, reverse=True), extents


def test_what_is_inside_goes_row_by_row() -> None:
    order = places((5, 6), 2)
    assert order[:12] == [*((0, x) for x in range(6)), *((4, x) for x in range(6))]
    assert order[12:18] == [(y, x) for y in (1, 2, 3) for x in (0, 5)]
    assert order[18:] == [(y, x) for y in (1, 2, 3) for x in (1, 2, 3, 4)]


def test_a_line_starts_with_its_ends() -> None:
    assert places((5,), 1) == [(4,), (0,), (1,), (2,), (3,)]


def test_of_three_the_first_starts_with_its_last() -> None:
    inside = [place for place in places((4, 3, 3), 3) if not is_end(place, (4, 3, 3), 2)]
    assert inside == [(3, 1, 1), (0, 1, 1), (1, 1, 1), (2, 1, 1)]
