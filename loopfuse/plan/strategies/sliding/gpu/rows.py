"""Slices that are rows, of warps that share nothing: what a tile loads, mirrors at the edges, and stores."""

from __future__ import annotations

from loopfuse.base.machine import LANES
from loopfuse.lang.index import conjoin, in_range, negate
from loopfuse.lang.linear import linear_form, tidy
from loopfuse.lang.nodes import (
    Expr,
    Iter,
    combine,
    integer,
)
from loopfuse.plan.strategies.sliding.gpu.slices import (
    are_elements,
    columns,
    element_of,
    in_reach,
    is_plain,
    mirrored_slices,
    source_of,
    spread,
    zero_of,
)
from loopfuse.plan.strategies.sliding.gpu.tile import WindowTile
from loopfuse.plan.strategies.sliding.windows.edges import MIRRORED
from loopfuse.plan.strategies.sliding.windows.records import Stage
from loopfuse.poly.edges import lower_subscript
from loopfuse.tree.looptree import (
    Copy,
    Guard,
    Loop,
    Prefetch,
    TreeNode,
)
from loopfuse.tree.looptree import Mapping as Where


def ask_for(tile: WindowTile, stage: Stage, row: Expr) -> TreeNode:
    """Asks memory for the lane's columns of a row that is loaded later."""
    index = tile.element(stage, row, integer(0))
    return Prefetch(source_of(tile, stage, index))


def load_row(tile: WindowTile, stage: Stage, row: Expr, inside: bool, where: Where) -> list[TreeNode]:
    """A row of memory into the window; beyond an edge, what the edge mode reads there."""
    head = columns(tile, where)
    source = tile.loaded_slice(stage, row)
    index = tile.element(stage, source, Iter(head[0]))
    target = tile.cell(stage, row, Iter(head[0]))
    if inside:
        return [Loop(*head, (Copy(target, source_of(tile, stage, index)),))]
    extents = tile.program.arrays[stage.array].extents
    nothing = Copy(target, zero_of(tile, stage))
    if where is Where.VECTOR and is_plain(tile, stage):
        # Where rows are whole vectors, all columns of a lane are elements, or none.
        ends = (integer(0), integer(tile.shape.columns - 1))
        test = are_elements(extents, *(tile.element(stage, source, column) for column in ends))
        vector = Loop(*head, (Copy(target, source_of(tile, stage, index)),))
        zeros = Loop(*head[:-1], Where.UNROLLED, (nothing,))
        return [Guard(test, (vector,), (zeros,))]
    head = (*head[:-1], Where.UNROLLED)
    folded: list[Expr] = []
    tests: list[Expr] = []
    for position, (subscript, extent) in enumerate(zip(index, extents, strict=True)):
        mode = stage.frame.modes[position]
        if mode:
            folded.append(lower_subscript(mode, subscript, extent, False, False))
            tests.append(extent > 0)
            if mode != "clamp":  # far from the array nobody reads, and many periods would be passed
                tests += in_range(subscript, *tile.read_range(stage, stage.frame.dims[position]))
        else:
            folded.append(subscript)
            tests += in_range(subscript, integer(0), extent)
    node = element_of(tile, stage, tuple(folded), lambda memory: Copy(target, memory))
    return [Loop(*head, (Guard(conjoin(*dict.fromkeys(tests)), (node,), (nothing,)),))]


def settle_row(tile: WindowTile, stage: Stage, row: Expr) -> TreeNode:
    """A row that the warp loaded as a whole: its elements to their places. That waits
    until the row has arrived, so not before it is needed."""
    head = columns(tile, Where.STRADDLED)
    cell = tile.cell(stage, row, Iter(head[0]))
    return Loop(*head, (Copy(cell, cell),))


def mirror_columns(tile: WindowTile, stage: Stage, row: Expr) -> list[TreeNode]:
    """Columns beyond the array's first and last, as the edge mode has them. All lanes shuffle, as
    all of a warp must; only those beyond the edges keep what they get."""
    across = tile.pipeline.across
    if not tile.mirrors(stage, across):
        return []
    position = stage.frame.position(across)
    extent = tile.program.arrays[stage.array].extents[position]
    head = columns(tile, Where.UNROLLED)
    mode = stage.frame.modes[position]
    subscript = tile.element(stage, row, Iter(head[0]))[position]
    if mode in MIRRORED:
        subscript = in_reach(tile, stage, across, subscript)
    folded = lower_subscript(mode, subscript, extent, False, False)
    first = tile.start[across] + stage.frame.shifts[position]
    place = folded - tidy(first)
    last = integer(tile.shape.strip.size - 1)
    place = combine("max", combine("min", place, last), integer(0))
    taken = tile.taken(stage)
    beyond = negate(conjoin(*in_range(subscript, integer(0), extent)))
    kept = Guard(beyond, (Copy(tile.cell(stage, row, Iter(head[0])), taken),))
    return [spread(tile, stage, row), Loop(*head, (Copy(taken, tile.held(stage, place)), kept))]


def mirror_rows(tile: WindowTile, stage: Stage, row: Expr) -> list[TreeNode]:
    """Rows beyond the array's first and last, as the edge mode has them: copies of rows that the
    window holds."""

    def copy(source: Expr, target: Expr) -> list[TreeNode]:
        return [copy_row(tile, stage, source, target)]

    return mirrored_slices(tile, stage, row, stage.folded, copy)


def copy_row(tile: WindowTile, stage: Stage, source: Expr, target: Expr) -> TreeNode:
    """One row of the window over another."""
    var = tile.site.names.fresh("c")
    width = tile.shape.columns + stage.halos[-1].width
    column = tidy(Iter(var) - stage.halos[-1].low)
    node = Copy(tile.cell(stage, target, column), tile.cell(stage, source, column))
    return Loop(var, integer(0), integer(width), 1, Where.UNROLLED, (node,))


def store_row(tile: WindowTile, stage: Stage, row: Expr, inside: bool, where: Where) -> list[TreeNode]:
    """The part of the row that is the tile's own, to memory."""
    shape = tile.shape
    tests = tile.stores_at(stage, row) if tile.pipeline.stream else []
    first, last = tile.stored_lanes
    tests.append(Iter(tile.lane) >= first)
    if last < LANES:
        tests.append(Iter(tile.lane) < last)
    vectors = where is Where.VECTOR and (inside or tile.runs_in_vectors(stage))
    head = columns(tile, Where.UNROLLED if where is Where.VECTOR and not vectors else where)
    point = tile.point(row, Iter(head[0]))
    index = tile.element(stage, row, Iter(head[0]))
    if vectors and inside and not starts_vectors(index[-1], head[0], shape.columns):
        where, head = Where.STRADDLED, (*head[:-1], Where.STRADDLED)
    copy = tile.time is not None and not tile.time.back
    memory = tile.memory(stage.array, index, copy)
    node: TreeNode = Copy(memory, tile.cell(stage, row, Iter(head[0])))
    if where is Where.STRADDLED:  # the whole warp takes part
        if not inside:
            tests.append(tile.written(stage, point, index))
        return [Loop(*head, (Guard(conjoin(*tests), (node,)),))]
    if not inside and vectors:
        for column in (integer(0), integer(shape.columns - 1)):
            there = tile.element(stage, row, column)
            tests.append(tile.written(stage, tile.point(row, column), there))
    elif not inside:
        node = Guard(tile.written(stage, point, index), (node,))
    return [Guard(conjoin(*tests), (Loop(*head, (node,)),))]


def starts_vectors(column: Expr, var: str, columns: int) -> bool:
    """Does a lane's first element, at `column` where `var` is 0, start a vector of `columns` in every
    tile? Not where the loop that makes a row was shifted against those that it reads."""
    constant, terms = linear_form(column)
    numbers = (constant, *(count for atom, count in terms if atom != Iter(var)))
    return all(number % columns == 0 for number in numbers)
