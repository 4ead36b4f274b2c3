"""Rows of a plane that no warp of a block holds: those that a tile reads before its first and behind
its last row. The warps fetch them between them, a row or two each, and hand them to shared memory
with their own.

    before (radius 4):   24 rows a block, held by 12 warps; the 16 in the middle are stored
    after:               24 rows held and stored; 8 more are fetched, by 8 of the warps

What is fetched is needed in shared memory alone, when the plane is handed over: it waits one step in
registers, of which a row takes a few, where a row that a warp holds takes some for each plane.
"""

from __future__ import annotations

from collections.abc import Callable

from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter, Load, combine, integer
from loopfuse.plan.strategies.sliding.gpu.load import has_elements, load_columns, nothing
from loopfuse.plan.strategies.sliding.gpu.slices import is_plain
from loopfuse.plan.strategies.sliding.gpu.tile import WindowTile
from loopfuse.plan.strategies.sliding.windows.blocks import plane_rows
from loopfuse.plan.strategies.sliding.windows.records import Stage
from loopfuse.tree.looptree import Barrier, Copy, Guard, Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where

Row = Callable[[Expr, Expr], tuple[TreeNode, ...]]
"""What is done with a row: by its number, counted from the tile's first, and where in the thread's
registers it is."""


def fetch_rows(
    tile: WindowTile, stage: Stage, plane: Expr, edge: bool, where: Where
) -> list[TreeNode]:
    """The rows of the plane that no warp holds, to shared memory; they are fetched a step before,
    where the warps have loaded theirs by then."""
    if not tile.fetched(stage):
        return []
    if tile.pipeline.late:
        later = tidy(plane + tile.pipeline.late)
        last = tile.last_loaded(stage) - (stage.ages[1].first - 1)
        is_needed = later <= last
        handed = hand_over(tile, stage, plane, where)
        return [*handed, Barrier("warp"), Guard(is_needed, tuple(fetch(tile, stage, later, edge, where)))]
    if stage.ages[1].first < 2:
        return [*fetch(tile, stage, plane, edge, where), *hand_over(tile, stage, plane, where)]
    later = tidy(plane + 1)
    return [*hand_over(tile, stage, plane, where), *fetch(tile, stage, later, edge, where)]


def hand_over(tile: WindowTile, stage: Stage, plane: Expr, where: Where) -> list[TreeNode]:
    """The rows fetched of the plane, to shared memory."""
    kept = tile.shape.warps * plane_rows(stage, tile.shape)

    def make(row: Expr, slot: Expr) -> tuple[TreeNode, ...]:
        var = tile.site.names.fresh("v")
        node = Copy(
            tile.row_at(stage, plane, row, Iter(var)),
            tile.fetched_at(stage, plane, slot, Iter(var)),
        )
        vectors = Where.VECTOR if tile.pipeline.late else where
        return (Loop(var, integer(0), integer(tile.shape.columns), 1, vectors, (node,)),)

    return _by_warps(tile, stage, kept, make)


def fetch(tile: WindowTile, stage: Stage, plane: Expr, edge: bool, where: Where) -> list[TreeNode]:
    """The rows of the plane that no warp holds, from memory to registers."""
    held = tile.shape.cuts[1].size

    def cells(slot: Expr) -> Callable[[Expr], Load]:
        return lambda column: tile.fetched_at(stage, plane, slot, column)

    def make(row: Expr, slot: Expr) -> tuple[TreeNode, ...]:
        between = tile.pipeline.dims[1]
        here = tidy(tile.start[between] + row)

        def point(column: Expr) -> dict[str, Expr]:
            return tile.point(plane, integer(0), column) | {between: here}

        return load_columns(tile, stage, cells(slot), point, edge, where)

    out: list[TreeNode] = _by_warps(tile, stage, held, make)
    if tile.pipeline.late or stage.ages[1].first > 2:  # older than what the warps load: theirs begin here
        begun = plane >= (tile.pipeline.late - stage.lag)
        out = [Guard(begun, tuple(out))]
    if not edge or is_plain(tile, stage):
        return out
    var = tile.site.names.fresh("k")
    empty = nothing(tile, stage, cells(Iter(var)))
    count = integer(tile.fetched_by_each(stage))
    zeros = Loop(var, integer(0), count, 1, Where.UNROLLED, (empty,))
    return [Guard(has_elements(tile, stage), tuple(out), (zeros,))]


def _by_warps(tile: WindowTile, stage: Stage, between: int, make: Row) -> list[TreeNode]:
    """Each warp's share of the rows: of those before the tile's first and, `between` further, of those
    behind its last."""
    around = tile.fetched(stage)
    each = tile.fetched_by_each(stage)
    var = tile.site.names.fresh("k")
    own = Iter(tile.warp) * each
    number = tidy(own + Iter(var))
    row = tidy(number - around.low)
    if around.low and around.high:
        is_behind = combine("max", tidy(row + 1), integer(0))
        is_behind = combine("min", is_behind, integer(1))
        row = row + between * is_behind
    elif around.high:
        row = tidy(row + between)
    body = make(row, Iter(var))
    if around.width < each * tile.shape.warps:
        body = (Guard(number < around.width, body),)
    return [Loop(var, integer(0), integer(each), 1, Where.UNROLLED, body)]
