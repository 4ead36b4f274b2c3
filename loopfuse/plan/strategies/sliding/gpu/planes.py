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

from loopfuse.lang.index import conjoin
from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter, integer
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.strategies.sliding.gpu.fetch import fetch_rows
from loopfuse.plan.strategies.sliding.gpu.launch import launch_of
from loopfuse.plan.strategies.sliding.gpu.load import ask_for_plane, load_plane
from loopfuse.plan.strategies.sliding.gpu.mirrors import (
    mirror_own_columns,
    mirror_own_rows,
    mirror_planes,
    row_beside,
)
from loopfuse.plan.strategies.sliding.gpu.slices import compute_slice, halo, over, own_spans
from loopfuse.plan.strategies.sliding.gpu.tile import WindowTile
from loopfuse.plan.strategies.sliding.windows.blocks import plane_rows, register_limit
from loopfuse.plan.strategies.sliding.windows.code_size import is_written_once
from loopfuse.plan.strategies.sliding.windows.records import Stage, Step
from loopfuse.plan.strategies.sliding.windows.shape import Windowed
from loopfuse.tree.looptree import Arrive, Barrier, Copy, Guard, Launch, Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where


def plan_planes(windowed: Windowed, site: Site, name: str, labels: tuple[str, ...]) -> Launch:
    """The launch of a window group with stencils along three dimensions."""
    shape = windowed.shape
    tile = WindowTile(windowed.pipeline, shape, site)

    def choose(*ways: str) -> Guard:
        inside, edge = ((tile_steps(tile, way),) for way in ways)
        return Guard(tile.inside(), inside, edge)

    ways = choose("inside", "edge")
    if not tile.has_views():
        ways = Guard(tile.aligned(ends=True), (choose("whole", "whole edge"),), (ways,))
    nodes: tuple[TreeNode, ...] = (*tile.invariants.copies(), ways)
    most = register_limit(windowed.pipeline, shape, windowed.pipeline.program)
    return launch_of(tile, nodes, name, labels, most)


def tile_steps(tile: WindowTile, way: str) -> TreeNode:
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
        if stage.is_shared:
            plane = aged(planes[stage.name], stage.ages[1].first)
            body += fill_beside(tile, stage, plane, edge)
            if edge:
                body += mirror_own_rows(tile, stage, plane)
                body += mirror_planes(tile, stage, plane, "rows")
    if tile.shape.copies == 1 and tile.planes:
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
            body += compute_slice(tile, stage.step, plane, not edge)
        if edge:
            body += mirror_own_columns(tile, stage, plane)
            body += mirror_planes(tile, stage, plane, "own")
        # What is beside a plane is asked for when it is used, so that no register holds it before.
        old = aged(plane, stage.ages[2].first)
        body += halo(tile, stage, old)
        if edge and stage.halos[-1]:
            body += mirror_planes(tile, stage, old, "columns")
        handed = aged(plane, stage.ages[1].first - 1)
        body += spread_rows(tile, stage, handed, where)
        body += fetch_rows(tile, stage, handed, edge, where)
        if stage in tile.outputs:
            body += store_plane(tile, stage, plane, edge, where)
    if tile.planes:
        body.append(Barrier("block"))
    how = Where.SHIFTED if edge and is_written_once(tile.pipeline) else Where.ROTATED
    return Loop(var, integer(0), integer(tile.shape.chunk.size), 1, how, tuple(body))


def aged(plane: Expr, age: int) -> Expr:
    """The plane that arrived `age` steps before."""
    return tidy(plane - age)


# --------------------------------------------------------------------------------- neighbours


def spread_rows(tile: WindowTile, stage: Stage, plane: Expr, where: Where) -> list[TreeNode]:
    """The rows of the plane that other warps read, to shared memory."""
    if not stage.is_shared:
        return []
    around, held = stage.halos[1], tile.shape.rows
    kept = plane_rows(stage, tile.shape)
    parts = [((0, held), 0)] if kept == held else [
        ((0, around.high), 0), ((held - around.low, held), held - kept)
    ]  # fmt: skip
    out: list[TreeNode] = []
    for rows, moved in parts:

        def make(row: Expr, column: Expr, moved: int = moved) -> tuple[TreeNode, ...]:
            own = row - moved
            target = tile.shared_at(stage, plane, own, column)
            return (Copy(target, tile.cell(stage, plane, row, column)),)

        out += over(tile, (rows, (0, tile.shape.columns)), where, make)
    return out


def fill_beside(tile: WindowTile, stage: Stage, plane: Expr, edge: bool) -> list[TreeNode]:
    """The rows of other warps, with the columns beside them that stencils read, from shared
    memory."""
    mirrors = edge and tile.mirrors(stage, tile.pipeline.dims[1])
    around, corner, held = stage.halos[1], stage.corner, tile.shape.rows
    kept = plane_rows(stage, tile.shape)
    columns = tile.shape.columns
    out: list[TreeNode] = []
    for rows, moved in (((-around.low, 0), 0), ((held, held + around.high), held - kept)):

        def make(row: Expr, column: Expr, moved: int = moved) -> tuple[TreeNode, ...]:
            if mirrors:
                source = tile.row_at(stage, plane, row_beside(tile, stage, row), column)
            else:
                source = tile.shared_at(stage, plane, row - moved, column)
            return (Copy(tile.cell(stage, plane, row, column), source),)

        for part, where in (
            ((0, columns), Where.VECTOR),
            ((-corner.low, 0), Where.UNROLLED),
            ((columns, columns + corner.high), Where.UNROLLED),
        ):
            out += over(tile, (rows, part), where, make)
    return out


# ------------------------------------------------------------------------------------ results


def store_plane(
    tile: WindowTile, stage: Stage, plane: Expr, edge: bool, where: Where
) -> list[TreeNode]:
    """The part of the plane that is the tile's own, to memory; where rows start anywhere, a warp's
    row at once."""
    copy = tile.time is not None and not tile.time.back

    def one(row: Expr, column: Expr) -> tuple[TreeNode, Expr]:
        point = tile.point(plane, row, column)
        memory = tile.memory(stage.array, tile.element_at(stage, point), copy)
        node = Copy(memory, tile.cell(stage, plane, row, column))
        return node, tile.written(stage, point, tile.element_at(stage, point))

    def whole(row: Expr, column: Expr) -> tuple[TreeNode, ...]:
        return (one(row, column)[0],)

    def stored(row: Expr) -> tuple[Expr, tuple[TreeNode, ...]]:
        ends = (0, tile.shape.columns - 1) if edge else ()
        runs = dict.fromkeys(one(row, integer(column))[1] for column in ends)
        return conjoin(tile.is_stored(stage, plane, row), *runs), ()

    if where is Where.VECTOR and (not edge or tile.runs_in_vectors(stage)):
        return over(tile, own_spans(tile), where, whole, stored)

    def single(row: Expr, column: Expr) -> tuple[TreeNode, ...]:
        node, runs = one(row, column)
        tests = (runs,) if edge else ()
        return (Guard(conjoin(tile.is_stored(stage, plane, row), *tests), (node,)),)

    return over(tile, own_spans(tile), Where.STRADDLED, single)
