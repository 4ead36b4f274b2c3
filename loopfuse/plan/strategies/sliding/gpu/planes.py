"""Strategy `sliding` in three dimensions: what a block does for one plane of each stage.

    before:  for z, y, x: b[z, y, x] = f(a[z-1..z+1, y-1..y+1, x-1..x+1])
    after:   for each tile of rows and columns, each chunk of planes: for z:
             neighbours' rows of the last plane of a, from shared memory; a plane of a;
             a plane of b, one behind; what others read of the plane of a, to shared memory; barrier

A thread holds some rows times some columns of each plane. The neighbours' rows of a plane are there
one step after the plane: stencils read only their middle plane beside, as a rule, and that is a
step old by then. So one barrier a step is enough where shared memory keeps two planes of a stage;
with one, a second barrier stands between reading and writing it. Rows that only feed the tile's own are
fetched straight to there (`sliding_fetch`).
"""

from __future__ import annotations

from loopfuse.base.machine import LANES
from loopfuse.lang.index import ceil_div, conjoin
from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter, Load, integer
from loopfuse.plan.mapping.space import Site, count_of, nested
from loopfuse.plan.strategies.sliding.gpu.block import BlockTile
from loopfuse.plan.strategies.sliding.gpu.fetch import fetch_rows
from loopfuse.plan.strategies.sliding.gpu.load import ask_for_plane, load_plane
from loopfuse.plan.strategies.sliding.gpu.mirrors import (
    line_beside,
    mirror_own_columns,
    mirror_own_rows,
    mirror_planes,
)
from loopfuse.plan.strategies.sliding.gpu.planes_body import PlaneBody, rows_and_columns
from loopfuse.plan.strategies.sliding.gpu.rows import held_besides, is_left, where_running
from loopfuse.plan.strategies.sliding.windows.blocks import Cut, plane_rows, register_limit
from loopfuse.plan.strategies.sliding.windows.borders import is_border
from loopfuse.plan.strategies.sliding.windows.code_size import is_written_once
from loopfuse.plan.strategies.sliding.windows.records import Stage, Step
from loopfuse.plan.strategies.sliding.windows.shape import Shape, Windowed
from loopfuse.tree.looptree import Arrive, Barrier, Copy, Guard, Launch, Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where


def plan_planes(windowed: Windowed, site: Site, name: str, labels: tuple[str, ...]) -> Launch:
    """The launch of a window group with stencils along three dimensions."""
    shape = windowed.shape
    assert isinstance(shape, Shape)
    tile = BlockTile(windowed.pipeline, shape, site)

    def choose(*ways: str) -> Guard:
        inside, edge = ((tile_steps(tile, way),) for way in ways)
        return Guard(tile.inside(), inside, edge)

    ways = choose("inside", "edge")
    if not tile.has_views():
        ways = Guard(tile.aligned(ends=True), (choose("whole", "whole edge"),), (ways,))
    nodes: tuple[TreeNode, ...] = (*tile.kept.copies(), ways)
    chain: list[tuple[str, Expr, Where]] = [
        (var, count_of(tile.extents[dim]), Where.GRID) for dim, var in tile.outer.items()
    ]
    for var, first, end, size in (
        (tile.chunk, tile.rows.lower, tile.rows.upper, shape.rows),
        (tile.band, tile.bands.lower, tile.bands.upper, tile.block_rows.stored),
        (tile.block, tile.left, tile.end, shape.stored),
    ):
        chain.append((var, ceil_div(tidy(end - first), size), Where.GRID))
    chain += [
        (tile.warp, integer(shape.warps), Where.WARP),
        (tile.lane, integer(LANES), Where.LANE),
    ]
    nodes = nested(chain, nodes)
    cut = Cut(shape.columns, shape.warps, shape.pad, shape.stored, tile.block_rows)
    most = register_limit(windowed.pipeline, cut, windowed.pipeline.program)
    return Launch(name, "sliding", labels, nodes, registers=most, ends_first=not tile.outer)


def tile_steps(tile: BlockTile, way: str) -> TreeNode:
    """All steps of one tile: `inside` (no guards) or `edge`; `whole` and `whole edge` with 16-byte
    accesses."""
    edge, where = way.endswith("edge"), Where.VECTOR if "whole" in way else Where.UNROLLED
    var = tile.site.names.fresh("t")
    body: list[TreeNode] = []
    if tile.pipeline.late:
        body += [Arrive(tile.pipeline.late - 1), Barrier("warp")]
    planes = {
        stage.name: tidy(Iter(var) - stage.lag)
        for stage in tile.pipeline.stages
    }
    for stage in tile.pipeline.stages:
        if stage.band.is_read_beside:
            plane = aged(planes[stage.name], stage.band.rows_age)
            body += fill_beside(tile, stage, plane, edge)
            if edge:
                body += mirror_own_rows(tile, stage, plane)
                body += mirror_planes(tile, stage, plane, "rows")
    if tile.block_rows.copies == 1 and tile.planes:
        body.append(Barrier("block"))
    done: list[Step] = []
    for stage in tile.pipeline.stages:
        plane = planes[stage.name]
        if stage.step is None:
            body += load_plane(tile, stage, plane, edge, where)
            if not edge:
                body += ask_for_plane(tile, stage, plane)
        elif stage.step not in done:
            done.append(stage.step)
            body += compute_plane(tile, stage.step, plane, edge)
        if edge:
            body += mirror_own_columns(tile, stage, plane)
            body += mirror_planes(tile, stage, plane, "own")
        # What is beside a plane is asked for when it is used, so that no register holds it before.
        old = aged(plane, stage.band.columns_age)
        body += neighbour_columns(tile, stage, old)
        if edge and (stage.left or stage.right):
            body += mirror_planes(tile, stage, old, "columns")
        handed = aged(plane, stage.band.rows_age - 1)
        body += spread_rows(tile, stage, handed, where)
        body += fetch_rows(tile, stage, handed, edge, where)
        if stage in tile.outputs:
            body += store_plane(tile, stage, plane, edge, where)
    if tile.planes:
        body.append(Barrier("block"))
    how = Where.SHIFTED if edge and is_written_once(tile.pipeline) else Where.ROTATED
    return Loop(var, integer(0), integer(tile.shape.steps), 1, how, tuple(body))


def aged(plane: Expr, age: int) -> Expr:
    """The plane that arrived `age` steps before."""
    return tidy(plane - age)


# ----------------------------------------------------------------------------- what fills planes


def compute_plane(tile: BlockTile, step: Step, plane: Expr, edge: bool) -> list[TreeNode]:
    """A plane of every stage that the step makes, from the windows it reads; where its loop does
    not run, what the arrays hold besides."""
    made = [stage for stage in tile.pipeline.stages if stage.step is step]
    wrapped = [dim for dim in tile.group.dims if tile.wraps(made[0], dim)] if edge else []

    def make(row: Expr, column: Expr) -> tuple[TreeNode, ...]:
        point = tile.point_at(plane, row, column)
        otherwise: list[TreeNode] = []
        for stage in made:
            otherwise += unwritten(tile, stage, plane, row, column, not edge)
        if not edge and is_border(step.placed.unit):
            return tuple(otherwise)
        body = tuple(PlaneBody(tile).step(step, point, wrapped))
        if not edge:
            return body
        running = tile.running(made[0], point, beyond=True)
        if wrapped:
            return (Guard(running, body, tuple(otherwise)),)
        return where_running(tile, made, running, body, otherwise)

    if not edge and is_border(step.placed.unit) and all(is_left(tile, stage) for stage in made):
        return []
    own = (0, tile.block_rows.held), (0, tile.shape.columns)
    rows = rows_and_columns(tile, *own, Where.UNROLLED, make)
    is_read = any(tile.pipeline.readers(tile.pipeline.holder(stage)) for stage in made)
    if tile.block_rows.pad < tile.block_rows.held or is_read:
        return rows
    # Some warps only hold rows for others: nobody needs what they would compute.
    return [Guard(tile.stores_some(made[0], plane), tuple(rows))]


def unwritten(
    tile: BlockTile, stage: Stage, plane: Expr, row: Expr, column: Expr, inside: bool
) -> list[TreeNode]:
    """The cell of an element that the stage's loop does not write."""

    def earlier(before: Stage) -> Load:
        dims = (tile.pipeline.stream, tile.pipeline.abreast, tile.pipeline.across)
        place = [
            tidy(part + stage.ahead_of(before, dim))
            for part, dim in zip((plane, row, column), dims, strict=True)
        ]
        return tile.cell_at(before, place[0], place[1], place[2])

    index = tile.element_at(stage, tile.point_at(plane, row, column))
    target = tile.cell_at(stage, plane, row, column)
    return held_besides(tile, stage, target, index, inside, earlier)


# --------------------------------------------------------------------------------- neighbours


def neighbour_columns(tile: BlockTile, stage: Stage, plane: Expr) -> list[TreeNode]:
    """The columns of neighbouring lanes, beside the thread's own rows. The first and last lane's
    come from the other end of the row: what is computed of them is not stored."""
    if not (stage.left or stage.right):
        return []
    count, names = tile.shape.columns, tile.site.names
    first = Iter(tile.lane) * count
    out: list[TreeNode] = []
    for row in range(tile.block_rows.held):
        line = integer(row)
        var = names.fresh("v")
        target = tile.row_held(stage, row, tidy(first + Iter(var)))
        node = Copy(target, tile.cell_at(stage, plane, line, Iter(var)))
        out.append(Loop(var, integer(0), integer(count), 1, Where.UNROLLED, (node,)))
        for start, number in ((-stage.left, stage.left), (count, stage.right)):
            if not number:
                continue
            var = names.fresh("h")
            column = tidy(Iter(var) + start)
            place = tidy(first + column) % (LANES * count)
            node = Copy(
                tile.cell_at(stage, plane, line, column), tile.row_held(stage, row, place)
            )
            out.append(Loop(var, integer(0), integer(number), 1, Where.UNROLLED, (node,)))
    return out


def spread_rows(tile: BlockTile, stage: Stage, plane: Expr, where: Where) -> list[TreeNode]:
    """The rows of the plane that other warps read, to shared memory."""
    if not stage.band.is_read_beside:
        return []
    band, held = stage.band, tile.block_rows.held
    kept = plane_rows(stage, tile.block_rows)
    parts = [((0, held), 0)] if kept == held else [
        ((0, band.south), 0), ((held - band.north, held), held - kept)
    ]  # fmt: skip
    out: list[TreeNode] = []
    for rows, moved in parts:

        def make(row: Expr, column: Expr, moved: int = moved) -> tuple[TreeNode, ...]:
            line = row - moved
            target = tile.shared_at(stage, plane, line, column)
            return (Copy(target, tile.cell_at(stage, plane, row, column)),)

        out += rows_and_columns(tile, rows, (0, tile.shape.columns), where, make)
    return out


def fill_beside(tile: BlockTile, stage: Stage, plane: Expr, edge: bool) -> list[TreeNode]:
    """The rows of other warps, with the columns beside them that stencils read, from shared
    memory."""
    mirrors = edge and tile.mirrors(stage, tile.pipeline.abreast)
    band, held = stage.band, tile.block_rows.held
    kept = plane_rows(stage, tile.block_rows)
    columns = tile.shape.columns
    out: list[TreeNode] = []
    for rows, moved in (((-band.north, 0), 0), ((held, held + band.south), held - kept)):

        def make(row: Expr, column: Expr, moved: int = moved) -> tuple[TreeNode, ...]:
            if mirrors:
                source = tile.line_at(stage, plane, line_beside(tile, stage, row), column)
            else:
                source = tile.shared_at(stage, plane, row - moved, column)
            return (Copy(tile.cell_at(stage, plane, row, column), source),)

        for part, where in (
            ((0, columns), Where.VECTOR),
            ((-band.left, 0), Where.UNROLLED),
            ((columns, columns + band.right), Where.UNROLLED),
        ):
            out += rows_and_columns(tile, rows, part, where, make)
    return out


# ------------------------------------------------------------------------------------ results


def store_plane(
    tile: BlockTile, stage: Stage, plane: Expr, edge: bool, where: Where
) -> list[TreeNode]:
    """The part of the plane that is the tile's own, to memory; where rows start anywhere, a warp's
    row at once."""
    copy = tile.time is not None and not tile.time.back
    own = (0, tile.block_rows.held), (0, tile.shape.columns)

    def one(row: Expr, column: Expr) -> tuple[TreeNode, Expr]:
        point = tile.point_at(plane, row, column)
        memory = tile.memory(stage.array, tile.element_at(stage, point), copy)
        node = Copy(memory, tile.cell_at(stage, plane, row, column))
        return node, tile.written(stage, point, tile.element_at(stage, point))

    def whole(row: Expr, column: Expr) -> tuple[TreeNode, ...]:
        return (one(row, column)[0],)

    def stored(row: Expr) -> tuple[Expr, tuple[TreeNode, ...]]:
        ends = (0, tile.shape.columns - 1) if edge else ()
        runs = dict.fromkeys(one(row, integer(column))[1] for column in ends)
        return conjoin(tile.is_stored(stage, plane, row), *runs), ()

    if where is Where.VECTOR and (not edge or tile.runs_in_vectors(stage)):
        return rows_and_columns(tile, *own, where, whole, stored)

    def single(row: Expr, column: Expr) -> tuple[TreeNode, ...]:
        node, runs = one(row, column)
        tests = (runs,) if edge else ()
        return (Guard(conjoin(tile.is_stored(stage, plane, row), *tests), (node,)),)

    return rows_and_columns(tile, *own, Where.STRADDLED, single)
