"""Which iteration of the GRID loops a block runs: the number of a block, taken apart.

Blocks are started in the order of their numbers, and a launch ends with its slowest. Tiles at the
ends of rows and columns take two or three times as long as others (they test each element); where
the planner says so (`Launch.ends_first`) they have the first numbers, so that none of them starts
when others are done.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopfuse.codegen.build import Builder
from loopfuse.codegen.ir import Value


def in_order(builder: Builder, number: Value, inner: Sequence[Value]) -> list[Value]:
    """The iteration of each loop, the last one fastest; `inner`: the extents of all but the first."""
    found: list[Value] = []
    for extent in reversed(inner):
        number, rest = _divided(builder, number, extent)
        found.append(rest)
    return [number, *reversed(found)]


def ends_first(builder: Builder, number: Value, extents: Sequence[Value]) -> list[Value]:
    """The iteration of each loop (1 to 3 of these extents), where the first and the last of each loop
    come before the others.

    Of two, the order is: the first row of blocks, the last row, both ends of the rows between, what
    is inside, row by row. A third, around them, goes through all ends before anything inside, and
    only starts with its last iteration.
    """
    if len(extents) == 1:
        return [_rotated(builder, number, extents[0])]
    *around, rows, columns = extents
    kind = number.type
    zero, one, two = (builder.constant(value, kind) for value in (0, 1, 2))

    def inside(extent: Value) -> Value:
        return builder.binary("maxsi", builder.binary("subi", extent, two), zero)

    within = builder.binary("muli", inside(rows), inside(columns))
    ring = builder.binary("subi", builder.binary("muli", rows, columns), within)
    rings = builder.binary("muli", ring, around[0]) if around else ring
    is_end = builder.compare("ult", number, rings)
    place = builder.select(is_end, number, builder.binary("subi", number, rings))
    found: list[Value] = []
    if around:
        each = builder.select(is_end, ring, builder.binary("maxsi", within, one))
        outer, place = _divided(builder, place, each)
        found = [_rotated(builder, outer, around[0])]
    row, column = _in_ring(builder, place, rows, columns)
    wide = builder.binary("maxsi", inside(columns), one)
    down, aside = _divided(builder, place, wide)
    found.append(builder.select(is_end, row, builder.binary("addi", down, one)))
    found.append(builder.select(is_end, column, builder.binary("addi", aside, one)))
    return found


def _in_ring(
    builder: Builder, place: Value, rows: Value, columns: Value
) -> tuple[Value, Value]:
    """Row and column of a place in the ring: its first row, its last, then its sides."""
    kind = place.type
    zero, one, two = (builder.constant(value, kind) for value in (0, 1, 2))
    both = builder.binary("addi", columns, columns)
    is_first = builder.compare("ult", place, columns)
    is_row = builder.compare("ult", place, both)
    # Sides have two columns, but where there is only one.
    sides = builder.binary("minsi", columns, two)
    down, which = _divided(builder, builder.binary("subi", place, both), sides)
    last_row, last_column = (builder.binary("subi", extent, one) for extent in (rows, columns))
    row = builder.select(is_row, last_row, builder.binary("addi", down, one))
    along = builder.binary("subi", place, columns)
    column = builder.select(is_row, along, builder.binary("muli", which, last_column))
    return builder.select(is_first, zero, row), builder.select(is_first, place, column)


def _divided(builder: Builder, number: Value, by: Value) -> tuple[Value, Value]:
    """Quotient and rest, unsigned."""
    quotient = builder.binary("divui", number, by)
    return quotient, builder.binary("subi", number, builder.binary("muli", quotient, by))


def _rotated(builder: Builder, place: Value, extent: Value) -> Value:
    """The last place for the first, and each other's predecessor."""
    zero, one = (builder.constant(value, place.type) for value in (0, 1))
    is_first = builder.compare("eq", place, zero)
    before = builder.select(is_first, extent, place)
    return builder.binary("subi", before, one)
