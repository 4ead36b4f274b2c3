"""Edge modes of what a pipeline in three dimensions makes itself: cells beyond the array's first and
last plane, row and column are filled, so that readers read there as in the middle (`clamp`, and
`reflect` and `symmetric`, which copy what stands as far on the other side of the edge).

Columns: each row of a warp is handed around by shuffle. Rows: through the plane in shared memory,
when the neighbours' rows come. Planes: those before the first are copies of it, made when it is
there, and again when what lies beside it is; those behind the last are copies of the one before.
"""

from __future__ import annotations

from loopfuse.lang.index import conjoin, in_range, negate
from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter, combine, integer
from loopfuse.plan.strategies.sliding.gpu.slices import (
    columns,
    in_reach,
    mirrored_slices,
    over,
    spread,
)
from loopfuse.plan.strategies.sliding.gpu.tile import WindowTile
from loopfuse.plan.strategies.sliding.windows.edges import MIRRORED
from loopfuse.plan.strategies.sliding.windows.records import Stage
from loopfuse.poly.edges import lower_subscript
from loopfuse.tree.looptree import Copy, Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where


def _within(value: Expr, count: int) -> Expr:
    """The nearest of 0..count."""
    return combine("max", combine("min", value, integer(count - 1)), integer(0))


def _folded(tile: WindowTile, stage: Stage, dim: str, here: Expr) -> tuple[Expr, Expr]:
    """(the array's subscript along `dim` at `here` of the group, the one that the edge mode reads
    instead)."""
    position = stage.frame.position(dim)
    extent = tile.program.arrays[stage.array].extents[position]
    subscript = tidy(here + stage.frame.shifts[position])
    mode = stage.frame.modes[position]
    inner = subscript
    if mode in MIRRORED:
        inner = in_reach(tile, stage, dim, subscript)
    return subscript, lower_subscript(mode, inner, extent, False, False)


def mirror_own_columns(tile: WindowTile, stage: Stage, plane: Expr) -> list[TreeNode]:
    """The lane's own columns beyond the array's first and last, of each row of the warp."""
    across = tile.pipeline.across
    if not tile.mirrors(stage, across):
        return []
    first = tidy(tile.start[across] + stage.frame.shift(across))
    out: list[TreeNode] = []
    for row in tile.rows:
        out.append(spread(tile, stage, plane, *row))
        head = columns(tile, Where.UNROLLED)
        _, folded = _folded(tile, stage, across, tidy(tile.own[across] + Iter(head[0])))
        place = _within(folded - first, tile.shape.strip.size)
        node = Copy(tile.cell(stage, plane, *row, Iter(head[0])), tile.held(stage, place, *row))
        out.append(Loop(*head, (node,)))
    return out


def row_beside(tile: WindowTile, stage: Stage, row: Expr) -> Expr:
    """Which row of the block's tile holds what the edge mode reads at the thread's row."""
    between = tile.pipeline.dims[1]
    _, folded = _folded(tile, stage, between, tidy(tile.own[between] + row))
    first = tidy(tile.start[between] + stage.frame.shift(between))
    return _within(folded - first, tile.shape.cuts[1].size)


def _has_row(tile: WindowTile, stage: Stage, row: Expr) -> Expr:
    """The array has the thread's row."""
    between = tile.pipeline.dims[1]
    extent = tile.program.arrays[stage.array].extents[stage.frame.position(between)]
    subscript, _ = _folded(tile, stage, between, tidy(tile.own[between] + row))
    return conjoin(*in_range(subscript, integer(0), extent))


def mirror_own_rows(tile: WindowTile, stage: Stage, plane: Expr) -> list[TreeNode]:
    """The warp's own rows beyond the array's first and last, from shared memory."""
    if not tile.mirrors(stage, tile.pipeline.dims[1]) or not stage.is_shared:
        return []

    def make(row: Expr, column: Expr) -> tuple[TreeNode, ...]:
        source = tile.row_at(stage, plane, row_beside(tile, stage, row), column)
        return (Copy(tile.cell(stage, plane, row, column), source),)

    def outside(row: Expr) -> tuple[Expr, tuple[TreeNode, ...]]:
        return negate(_has_row(tile, stage, row)), ()

    wide = -stage.corner.low, tile.shape.columns + stage.corner.high
    return over(tile, ((0, tile.shape.rows), wide), Where.UNROLLED, make, outside)


def mirror_planes(tile: WindowTile, stage: Stage, plane: Expr, part: str) -> list[TreeNode]:
    """Planes beyond the array's first and last. `part`: the thread's `own` cells, when they are
    there; the `columns` beside them; or the `rows` beside them, with their columns. What lies beside
    planes behind the last comes from those planes themselves."""
    _, rows, beside = stage.halos
    held, count = tile.shape.rows, tile.shape.columns
    own, wide = (0, held), (-stage.corner.low, count + stage.corner.high)
    blocks = {
        "own": [(own, (0, count))],
        "columns": [(own, (-beside.low, 0)), (own, (count, count + beside.high))],
        "rows": [((-rows.low, 0), wide), ((held, held + rows.high), wide)],
    }[part]
    folds = tile.mirrors(stage, tile.pipeline.dims[1])

    def copy(source: Expr, target: Expr) -> list[TreeNode]:
        def make(*place: Expr) -> tuple[TreeNode, ...]:
            return (Copy(tile.cell(stage, target, *place), tile.cell(stage, source, *place)),)

        out: list[TreeNode] = []
        for spans in blocks:
            out += over(tile, spans, Where.UNROLLED, make, *around)
        if part == "rows" and folds:
            out += over(tile, (own, wide), Where.UNROLLED, make, outside)
        return out

    def inside(row: Expr) -> tuple[Expr, tuple[TreeNode, ...]]:
        return _has_row(tile, stage, row), ()

    def outside(row: Expr) -> tuple[Expr, tuple[TreeNode, ...]]:
        return negate(_has_row(tile, stage, row)), ()

    # Rows beyond the array's come from those of the same plane, when the neighbours' rows come.
    around = (inside,) if part == "own" and folds else ()
    return mirrored_slices(tile, stage, plane, stage.halos[0], copy, part == "own")
