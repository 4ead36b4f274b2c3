"""What a tile in three dimensions loads: rows of a plane of memory, the lane's own columns of one row."""

from __future__ import annotations

from collections.abc import Callable

from loopfuse.lang.index import conjoin, in_range
from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter, Load, integer
from loopfuse.plan.strategies.sliding.gpu.slices import (
    are_elements,
    element_of,
    is_plain,
    over,
    own_spans,
    source_of,
    zero_of,
)
from loopfuse.plan.strategies.sliding.gpu.tile import WindowTile
from loopfuse.plan.strategies.sliding.windows.records import Stage
from loopfuse.poly.edges import lower_subscript
from loopfuse.tree.looptree import Barrier, Copy, Guard, Loop, Prefetch, TreeNode
from loopfuse.tree.looptree import Mapping as Where

Cells = Callable[[Expr], Load]
"""By column of the lane: where its element goes."""
CellAt = Callable[[Stage, Expr, Expr, Expr], Load]
"""By stage, plane, row and column."""
Points = Callable[[Expr], dict[str, Expr]]
"""By column of the lane: the group's point."""


def load_plane(
    tile: WindowTile, stage: Stage, plane: Expr, edge: bool, where: Where
) -> list[TreeNode]:
    """A plane of memory into the window; beyond an edge, what the edge mode reads there. What only
    feeds the point it stands at is loaded where the tile stores. Where planes come late, one that has
    come, and another is asked for in its place."""
    if not tile.pipeline.late:
        return _load_plane(tile, stage, plane, edge, where, tile.cell)

    def take(row: Expr, column: Expr) -> tuple[TreeNode, ...]:
        come = tile.coming_at(stage, plane, row, column)
        return (Copy(tile.cell(stage, plane, row, column), come),)

    taken = over(tile, own_spans(tile), Where.VECTOR, take)
    later = tidy(plane + tile.pipeline.late)
    loads = _load_plane(tile, stage, later, edge, where, tile.coming_at)
    is_needed = later <= tile.last_loaded(stage)
    return [*taken, Barrier("warp"), Guard(is_needed, tuple(loads))]


def _load_plane(
    tile: WindowTile, stage: Stage, plane: Expr, edge: bool, where: Where, cell_at: CellAt
) -> list[TreeNode]:
    def cells(row: Expr) -> Cells:
        return lambda column: cell_at(stage, plane, row, column)

    def points(row: Expr) -> Points:
        return lambda column: tile.point(plane, row, column)

    var = tile.site.names.fresh("r")
    row = Iter(var)
    body = load_columns(tile, stage, cells(row), points(row), edge, where)
    if stage.is_local and not tile.pipeline.late:
        is_stored = tile.is_stored(stage, plane, row)
        body = (Guard(is_stored, body, (nothing(tile, stage, cells(row)),)),)
    elif stage.is_local:
        stored = tile.is_stored if where is Where.VECTOR else tile.is_stored_row
        body = (Guard(stored(stage, plane, row), body),)
    count = integer(tile.shape.rows)
    loads: list[TreeNode] = [Loop(var, integer(0), count, 1, Where.UNROLLED, body)]
    if not edge or is_plain(tile, stage):
        return loads

    def without(row: Expr, column: Expr) -> tuple[TreeNode, ...]:
        return (Copy(cell_at(stage, plane, row, column), zero_of(tile, stage)),)

    empty = over(tile, own_spans(tile), Where.UNROLLED, without)
    return [Guard(has_elements(tile, stage), tuple(loads), tuple(empty))]


def ask_for_plane(tile: WindowTile, stage: Stage, plane: Expr) -> list[TreeNode]:
    """Asks memory for the lane's columns of a plane that is loaded later."""
    if not tile.shape.asked:
        return []
    later = tidy(plane + tile.shape.asked)

    def make(row: Expr, column: Expr) -> tuple[TreeNode, ...]:
        index = tile.element(stage, later, row, column)
        return (Prefetch(source_of(tile, stage, index)),)

    own = [*own_spans(tile)[:-1], (0, 1)]
    nodes = over(tile, own, Where.UNROLLED, make)
    return [Guard(later <= tile.last_loaded(stage), tuple(nodes))]


def has_elements(tile: WindowTile, stage: Stage) -> Expr:
    """The array is not empty: where it is, edge modes have nothing to read."""
    extents = tile.program.arrays[stage.array].extents
    return conjoin(*(extent > 0 for extent in dict.fromkeys(extents)))


def load_columns(
    tile: WindowTile, stage: Stage, cells: Cells, points: Points, edge: bool, where: Where
) -> tuple[TreeNode, ...]:
    """The lane's columns of one row, where the array has them."""
    var = tile.site.names.fresh("v")
    head = var, integer(0), integer(tile.shape.columns), 1
    single = Where.SPREAD if tile.pipeline.late else Where.UNROLLED
    if tile.pipeline.late and where is not Where.VECTOR:
        where = Where.SPREAD

    def each(*body: TreeNode) -> tuple[TreeNode, ...]:
        if where is Where.SPREAD and stage.is_local:
            body = (Guard(tile.is_stored_column(Iter(var)), body),)
        return body

    if not edge:
        index = tile.element_at(stage, points(Iter(var)))
        memory = source_of(tile, stage, index)
        return (Loop(*head, where, each(_move(tile, cells(Iter(var)), memory))),)
    if where is not Where.VECTOR or not is_plain(tile, stage):
        node = _element(tile, stage, cells(Iter(var)), points(Iter(var)))
        return (Loop(*head, single, each(*node)),)
    # Where rows are whole vectors, all columns of a lane are elements, or none.
    ends = (integer(0), integer(tile.shape.columns - 1))
    extents = tile.program.arrays[stage.array].extents
    present = are_elements(extents, *(tile.element_at(stage, points(end)) for end in ends))
    empty = () if _is_needed_alone(tile, stage) else (nothing(tile, stage, cells),)
    index = tile.element_at(stage, points(Iter(var)))
    memory = source_of(tile, stage, index)
    vector = Loop(*head, where, (_move(tile, cells(Iter(var)), memory),))
    return (Guard(present, (vector,), empty),)


def _is_needed_alone(tile: WindowTile, stage: Stage) -> bool:
    """Does an element come late that only the point it stands at reads? Where there is none, nothing
    reads it."""
    return tile.pipeline.late > 0 and stage.is_local


def _move(tile: WindowTile, target: Load, memory: Load) -> Copy:
    return Copy(target, memory, late=tile.pipeline.late > 0)


def nothing(tile: WindowTile, stage: Stage, cells: Cells) -> TreeNode:
    """Zeros in the place of a row."""
    var = tile.site.names.fresh("v")
    zero = Copy(cells(Iter(var)), zero_of(tile, stage))
    return Loop(var, integer(0), integer(tile.shape.columns), 1, Where.UNROLLED, (zero,))


def _element(
    tile: WindowTile, stage: Stage, target: Load, point: dict[str, Expr]
) -> tuple[TreeNode, ...]:
    """One element, or what the edge mode reads in its place."""
    extents = tile.program.arrays[stage.array].extents
    index = tile.element_at(stage, point)
    empty = Copy(target, zero_of(tile, stage))
    if is_plain(tile, stage):
        memory = source_of(tile, stage, index)
        node = _move(tile, target, memory)
        others = () if _is_needed_alone(tile, stage) else (empty,)
        return (Guard(are_elements(extents, index), (node,), others),)
    # Beyond the array anything will do, and the nearest element needs no branch; the other modes
    # would pass many periods far from it, where nobody reads.
    tests: list[Expr] = []
    for dim, subscript, mode in zip(stage.frame.dims, index, stage.frame.modes, strict=True):
        if mode not in ("", "clamp"):
            tests += in_range(subscript, *tile.read_range(stage, dim))
    folded = [
        lower_subscript(mode or "clamp", subscript, extent, False, False)
        for subscript, extent, mode in zip(index, extents, stage.frame.modes, strict=True)
    ]
    node = element_of(tile, stage, tuple(folded), lambda memory: _move(tile, target, memory))
    return (Guard(conjoin(*dict.fromkeys(tests)), (node,), (empty,)),) if tests else (node,)
