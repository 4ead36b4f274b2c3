"""Edge modes of what a pipeline in three dimensions makes itself: cells beyond the array's first and
last plane, row and column are filled, so that readers read there as in the middle (`clamp`, and
`reflect` and `symmetric`, which copy what stands as far on the other side of the edge).

Columns: each row of a warp is handed around by shuffle. Rows: through the plane in shared memory,
when the neighbours' rows come. Planes: those before the first are copies of it, made when it is
there, and again when what lies beside it is; those behind the last are copies of the one before.
"""

from __future__ import annotations

from loopfuse.base.machine import LANES
from loopfuse.lang.index import conjoin, in_range, negate
from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter, Load, combine, compare, integer
from loopfuse.plan.strategies.sliding.gpu.block import BlockTile
from loopfuse.plan.strategies.sliding.gpu.planes_body import rows_and_columns
from loopfuse.plan.strategies.sliding.gpu.rows import in_reach, reflected_rows
from loopfuse.plan.strategies.sliding.windows.edges import MIRRORED
from loopfuse.plan.strategies.sliding.windows.records import Stage
from loopfuse.poly.edges import lower_subscript
from loopfuse.tree.looptree import Copy, Guard, Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where


def _within(value: Expr, count: int) -> Expr:
    """The nearest of 0..count."""
    return combine("max", combine("min", value, integer(count - 1)), integer(0))


def _folded(tile: BlockTile, stage: Stage, dim: str, here: Expr) -> tuple[Expr, Expr]:
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


def mirror_own_columns(tile: BlockTile, stage: Stage, plane: Expr) -> list[TreeNode]:
    """The lane's own columns beyond the array's first and last, of each row of the warp."""
    across, count, names = tile.pipeline.across, tile.shape.columns, tile.site.names
    if not tile.mirrors(stage, across):
        return []
    shift = integer(stage.frame.shifts[stage.frame.position(across)])
    first = tidy(tile.start + shift)
    own = Iter(tile.lane) * count
    out: list[TreeNode] = []
    for row in range(tile.block_rows.held):
        line = integer(row)
        spread, back = names.fresh("v"), names.fresh("v")
        target = tile.row_held(stage, row, tidy(own + Iter(spread)))
        node = Copy(target, tile.cell_at(stage, plane, line, Iter(spread)))
        out.append(Loop(spread, integer(0), integer(count), 1, Where.UNROLLED, (node,)))
        column = tidy(tile.own + Iter(back))
        _, folded = _folded(tile, stage, across, column)
        place = _within(folded - first, LANES * count)
        node = Copy(
            tile.cell_at(stage, plane, line, Iter(back)), tile.row_held(stage, row, place)
        )
        out.append(Loop(back, integer(0), integer(count), 1, Where.UNROLLED, (node,)))
    return out


def line_beside(tile: BlockTile, stage: Stage, row: Expr) -> Expr:
    """Which row of the block's tile holds what the edge mode reads at the thread's row."""
    abreast = tile.pipeline.abreast
    shift = integer(stage.frame.shifts[stage.frame.position(abreast)])
    here = tidy(tile.own_row + row)
    _, folded = _folded(tile, stage, abreast, here)
    first = tidy(tile.start_row + shift)
    return _within(folded - first, tile.shape.warps * tile.block_rows.held)


def _has_row(tile: BlockTile, stage: Stage, row: Expr) -> Expr:
    """The array has the thread's row."""
    abreast = tile.pipeline.abreast
    extent = tile.program.arrays[stage.array].extents[stage.frame.position(abreast)]
    subscript, _ = _folded(tile, stage, abreast, tidy(tile.own_row + row))
    return conjoin(*in_range(subscript, integer(0), extent))


def mirror_own_rows(tile: BlockTile, stage: Stage, plane: Expr) -> list[TreeNode]:
    """The warp's own rows beyond the array's first and last, from shared memory."""
    abreast, band = tile.pipeline.abreast, stage.band
    if not tile.mirrors(stage, abreast) or not band.is_read_beside:
        return []

    def make(row: Expr, column: Expr) -> tuple[TreeNode, ...]:
        source = tile.line_at(stage, plane, line_beside(tile, stage, row), column)
        return (Copy(tile.cell_at(stage, plane, row, column), source),)

    def outside(row: Expr) -> tuple[Expr, tuple[TreeNode, ...]]:
        return negate(_has_row(tile, stage, row)), ()

    held, columns = (0, tile.block_rows.held), (-band.left, tile.shape.columns + band.right)
    return rows_and_columns(tile, held, columns, Where.UNROLLED, make, outside)


def mirror_planes(tile: BlockTile, stage: Stage, plane: Expr, part: str) -> list[TreeNode]:
    """Planes beyond the array's first and last. `part`: the thread's `own` cells, when they are
    there; the `columns` beside them; or the `rows` beside them, with their columns. What lies beside
    planes behind the last comes from those planes themselves."""
    stream, band = tile.pipeline.stream, stage.band
    if not tile.mirrors(stage, stream):
        return []
    position = stage.frame.position(stream)
    extent = tile.program.arrays[stage.array].extents[position]
    group = tidy(tile.base + plane)
    here = tidy(group + stage.frame.shifts[position])
    held, count = (0, tile.block_rows.held), tile.shape.columns
    wide = (-band.left, count + band.right)
    blocks = {
        "own": [(held, (0, count))],
        "columns": [(held, (-stage.left, 0)), (held, (count, count + stage.right))],
        "rows": [((-band.north, 0), wide), ((held[1], held[1] + band.south), wide)],
    }[part]
    folds = tile.mirrors(stage, tile.pipeline.abreast)

    def copy(source: Expr, target: Expr) -> list[TreeNode]:
        def make(row: Expr, column: Expr) -> tuple[TreeNode, ...]:
            cells: list[Load] = [
                tile.cell_at(stage, each, row, column) for each in (target, source)
            ]
            return (Copy(cells[0], cells[1]),)

        out: list[TreeNode] = []
        for rows, columns in blocks:
            out += rows_and_columns(tile, rows, columns, Where.UNROLLED, make, *around)
        if part == "rows" and folds:
            out += rows_and_columns(tile, held, wide, Where.UNROLLED, make, outside)
        return out

    def inside(row: Expr) -> tuple[Expr, tuple[TreeNode, ...]]:
        return _has_row(tile, stage, row), ()

    def outside(row: Expr) -> tuple[Expr, tuple[TreeNode, ...]]:
        return negate(_has_row(tile, stage, row)), ()

    # Rows beyond the array's come from those of the same plane, when the neighbours' rows come.
    around = (inside,) if part == "own" and folds else ()
    out: list[TreeNode] = []
    if stage.frame.modes[position] in MIRRORED:
        return reflected_rows(stage, stream, here, extent, plane, copy, part == "own")
    for distance in range(1, stage.down + 1) if part == "own" else ():
        last = tidy(here - (distance - 1))
        source = tidy(plane - distance)
        out.append(Guard(compare("eq", last, extent), tuple(copy(source, plane))))
    above: list[TreeNode] = []
    for distance in range(1, stage.up + 1):
        above += copy(plane, tidy(plane - distance))
    if above:
        out.append(Guard(compare("eq", here, integer(0)), tuple(above)))
    return out
