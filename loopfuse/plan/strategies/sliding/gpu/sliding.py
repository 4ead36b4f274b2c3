"""Strategy `sliding`, GPU: chains of stencils in one pass. A warp owns a strip of columns and
streams down the rows; every array between the loops is a window of rows in registers.

    before:  for y, x: b[y, x] = f(a[y, x-1..x+1])      for y, x: c[y, x] = g(b[y-1..y+1, x])
    after:   for each strip, chunk: for y: a row of a; a row of b; a row of c, one row behind

A lane holds `columns` neighbouring columns; what it needs of its neighbours' columns comes by
shuffle. Strips overlap by the chain's halo of columns, chunks by that of rows: what is computed
there is not stored. A tile that lies inside every loop's
bounds takes a way without guards, with 16-byte accesses: one where rows start at multiples of that,
one where they start anywhere. The others test each element.

Along a line nothing streams: a tile is one strip, its windows one row each. What a stage reads of
another is in registers, of its own lane or by shuffle.
"""

from __future__ import annotations

from loopfuse.lang.index import conjoin
from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter, combine, integer
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.strategies.sliding.gpu.launch import launch_of
from loopfuse.plan.strategies.sliding.gpu.rows import (
    ask_for,
    load_row,
    mirror_columns,
    mirror_rows,
    settle_row,
    store_row,
)
from loopfuse.plan.strategies.sliding.gpu.slices import compute_slice, halo
from loopfuse.plan.strategies.sliding.gpu.tile import WindowTile
from loopfuse.plan.strategies.sliding.windows.code_size import is_written_once
from loopfuse.plan.strategies.sliding.windows.records import Step
from loopfuse.plan.strategies.sliding.windows.registers import most_registers
from loopfuse.plan.strategies.sliding.windows.shape import Windowed
from loopfuse.tree.looptree import Guard, Launch, Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where


def plan_sliding(windowed: Windowed, site: Site, name: str, labels: tuple[str, ...]) -> Launch:
    """The launch of a window group."""
    pipeline, shape = windowed.pipeline, windowed.shape
    tile = WindowTile(pipeline, shape, site)
    across = pipeline.across
    started = tile.first[across] < tile.stored[across][1]
    inside, interior = _interior(tile)
    edge = tile_steps(tile, "edge")
    if tile.outer and not tile.has_views():  # images of a batch are mostly ends
        edge = (Guard(tile.aligned(ends=True), tile_steps(tile, "whole edge"), edge),)
    ways = Guard(inside, interior, edge)
    nodes: tuple[TreeNode, ...] = (Guard(started, (*tile.invariants.copies(), ways)),)
    most = most_registers(pipeline, shape.columns, pipeline.program)
    return launch_of(tile, nodes, name, labels, most)


def _interior(tile: WindowTile) -> tuple[Expr, tuple[TreeNode, ...]]:
    """When a tile has a way without guards, and that way: one for rows that start at multiples of
    16 bytes and one for others, but for views (neighbours in a row may lie apart)."""
    inside = tile.inside()
    if tile.has_views():
        return inside, tile_steps(tile, "single")
    whole = tile_steps(tile, "whole")
    if tile.shape.columns == 1:  # vectors of one element
        return inside, (Guard(tile.aligned(), whole, tile_steps(tile, "single")),)
    unaligned = tile_steps(tile, "straddled")
    before, behind = tile.roomy()
    if tile.shape.strip.pad:
        inside = conjoin(inside, before, behind)
    else:  # the first strip has no room before it
        single = tile_steps(tile, "single")
        unaligned = (Guard(conjoin(before, behind), unaligned, single),)
    return inside, (Guard(tile.aligned(), whole, unaligned),)


def tile_steps(tile: WindowTile, way: str) -> tuple[TreeNode, ...]:
    """All steps of one tile: `whole` (no guards, rows of whole vectors), `straddled` (no guards,
    rows that start anywhere), `single` (no guards, element by element), `edge`, or `whole edge` (rows
    of whole vectors)."""
    edge = way.endswith("edge")
    where = Where.VECTOR if way.startswith("whole") else Where.UNROLLED
    if way == "straddled":
        where = Where.STRADDLED
    var = tile.site.names.fresh("t")
    body: list[TreeNode] = []
    done: list[Step] = []
    first: list[TreeNode] = []
    if not edge and tile.shape.asked:
        for stage in tile.pipeline.stages:
            if stage.step is None:
                last = tile.last_loaded(stage)
                ahead = Iter(var) + tile.shape.asked
                body.append(ask_for(tile, stage, combine("min", ahead, integer(last))))
                rows = range(min(tile.shape.asked, last))
                first += [ask_for(tile, stage, integer(number)) for number in rows]
    for stage in tile.pipeline.stages:
        row = tidy(Iter(var) - stage.lag)
        if stage.step is None:
            body += load_row(tile, stage, row, not edge, where)
        elif stage.step not in done:
            done.append(stage.step)
            body += compute_slice(tile, stage.step, row, not edge)
        if edge:
            body += mirror_columns(tile, stage, row)
        # A row that was just asked for is not looked at before it is used: it is on its way.
        arrived = tidy(row - stage.delay)
        if stage.step is None and where is Where.STRADDLED:
            body.append(settle_row(tile, stage, arrived))
        body += halo(tile, stage, arrived)
        if edge:
            body += mirror_rows(tile, stage, row)
        if stage in tile.outputs:
            # Images of a batch are mostly ends: theirs go in whole rows too.
            straddles = way == "edge" and bool(tile.outer) and not tile.has_views()
            way_out = Where.STRADDLED if straddles else where
            body += store_row(tile, stage, row, not edge, way_out)
    how = Where.SHIFTED if edge and is_written_once(tile.pipeline) else Where.ROTATED
    steps = Loop(var, integer(0), integer(tile.shape.chunk.size), 1, how, tuple(body))
    return (*first, steps)
