"""Which iteration of the GRID loops a block runs: the number of a block, taken apart.

Blocks are started in the order of their numbers, and a launch ends with its slowest. Tiles at the
ends of rows and columns take two or three times as long as others (they test each element); where
the planner says so (`Launch.ends_first`) they have the first numbers, so that none of them starts
when others are done.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from loopfuse.codegen.mlir_build import Builder


def in_order(builder: Builder, number: SSAValue, inner: Sequence[SSAValue]) -> list[SSAValue]:
    """The iteration of each loop, the last one fastest; `inner`: the extents of all but the first."""
    found: list[SSAValue] = []
    for extent in reversed(inner):
        rest = builder.binary("divui", number, extent)
        found.append(builder.binary("subi", number, builder.binary("muli", rest, extent)))
        number = rest
    return [number, *reversed(found)]


def ends_first(
    builder: Builder, number: SSAValue, extents: Sequence[SSAValue], ends: int
) -> list[SSAValue]:
    """The iteration of each loop, where the first and the last of the last `ends` loops (1 to 3) come
    before the others.

    Of two, the order is: the first row of blocks, the last row, both ends of the rows between, what
    is inside, row by row; loops around them go through all ends before anything inside. A third
    only starts with its last iteration.
    """
    if ends == 1:
        *outer, last = in_order(builder, number, extents[1:])
        return [*outer, _rotated(builder, last, extents[-1])]
    *around, rows, columns = extents
    kind = number.type
    zero, one, two = (builder.constant(value, kind) for value in (0, 1, 2))

    def inside(extent: SSAValue) -> SSAValue:
        return builder.binary("maxsi", builder.binary("subi", extent, two), zero)

    within = builder.binary("muli", inside(rows), inside(columns))
    ring = builder.binary("subi", builder.binary("muli", rows, columns), within)
    rings = ring
    for extent in around:
        rings = builder.binary("muli", rings, extent)
    is_end = builder.compare("ult", number, rings)
    place = builder.select(is_end, number, builder.binary("subi", number, rings))
    found: list[SSAValue] = []
    if around:
        each = builder.select(is_end, ring, builder.binary("maxsi", within, one))
        outer = builder.binary("divui", place, each)
        place = builder.binary("subi", place, builder.binary("muli", outer, each))
        found = in_order(builder, outer, around[1:])
        if ends == 3:
            found[-1] = _rotated(builder, found[-1], around[-1])
    row, column = _in_ring(builder, place, rows, columns)
    wide = builder.binary("maxsi", inside(columns), one)
    down = builder.binary("divui", place, wide)
    aside = builder.binary("subi", place, builder.binary("muli", down, wide))
    found.append(builder.select(is_end, row, builder.binary("addi", down, one)))
    found.append(builder.select(is_end, column, builder.binary("addi", aside, one)))
    return found


def _in_ring(
    builder: Builder, place: SSAValue, rows: SSAValue, columns: SSAValue
) -> tuple[SSAValue, SSAValue]:
    """Row and column of a place in the ring: its first row, its last, then its sides."""
    kind = place.type
    zero, one, two = (builder.constant(value, kind) for value in (0, 1, 2))
    both = builder.binary("addi", columns, columns)
    is_first = builder.compare("ult", place, columns)
    is_row = builder.compare("ult", place, both)
    # Sides have two columns, but where there is only one.
    sides = builder.binary("minsi", columns, two)
    side = builder.binary("subi", place, both)
    down = builder.binary("divui", side, sides)
    which = builder.binary("subi", side, builder.binary("muli", down, sides))
    last_row, last_column = (builder.binary("subi", extent, one) for extent in (rows, columns))
    row = builder.select(is_row, last_row, builder.binary("addi", down, one))
    along = builder.binary("subi", place, columns)
    column = builder.select(is_row, along, builder.binary("muli", which, last_column))
    return builder.select(is_first, zero, row), builder.select(is_first, place, column)


def _rotated(builder: Builder, place: SSAValue, extent: SSAValue) -> SSAValue:
    """The last place for the first, and each other's predecessor."""
    zero, one = (builder.constant(value, place.type) for value in (0, 1))
    is_first = builder.compare("eq", place, zero)
    before = builder.select(is_first, extent, place)
    return builder.binary("subi", before, one)
