"""What a worker does for one row of one stage: compute it, fill what its loop does not write,
continue it beyond the array's edges, store it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from loopfuse.lang.index import TRUE, conjoin, in_range
from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Const, Expr, Iter, Load, compare, integer
from loopfuse.lang.semantics import neutral
from loopfuse.plan.mapping.interior import split_interior
from loopfuse.plan.strategies.sliding.cpu.tile import LineTile, Range, meet, moved
from loopfuse.plan.strategies.sliding.windows.body import WindowBody
from loopfuse.plan.strategies.sliding.windows.passes import Pass
from loopfuse.plan.strategies.sliding.windows.records import Halo, Stage, Step
from loopfuse.plan.units.groups import whole_name
from loopfuse.poly.model import Statement
from loopfuse.tree.looptree import Copy, Guard, Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where


def pass_nodes(tile: LineTile, each: Pass) -> list[TreeNode]:
    """One row of every stage that the pass makes."""
    made = list(each.made)
    holders = [tile.pipeline.holder(stage) for stage in made]
    if not any(stage.name in tile.lines or stage in tile.outputs for stage in holders):
        return []  # what nothing needs
    row = tidy(Iter(tile.step) - made[0].lag)
    around = widest(made, 0)
    body = compute_row(tile, each.steps, made, row)
    for stage in made:
        body += mirror_columns(tile, stage, row)
    for stage in made:
        body += mirror_rows(tile, stage, row)
        if stage in tile.outputs and stage.name in tile.lines:
            body += store_row(tile, stage, row)
    chunk = tile.shape.chunk
    first, last = chunk.pad - around.low, chunk.pad + chunk.stored + around.high
    tests: list[Expr] = []
    if first + made[0].lag > 0:
        tests.append(row >= first)
    if last + made[0].lag < chunk.size:
        tests.append(row < last)
    return guarded(conjoin(*tests), body)


def guarded(condition: Expr, body: list[TreeNode], otherwise: list[TreeNode] | None = None) -> list[TreeNode]:
    """`body` where the condition holds."""
    if condition == TRUE:
        return body
    return [Guard(condition, tuple(body), tuple(otherwise or ()))] if body or otherwise else []


def compute_row(
    tile: LineTile, steps: Sequence[Step], made: list[Stage], row: Expr
) -> list[TreeNode]:
    """The row, where the loops of the steps run; what the arrays hold besides, where they do
    not."""
    across = tile.pipeline.across
    need = needed(tile, made)
    runs = moved(tile.runs(made[0], across), tile.own[across])
    var = tile.site.names.fresh("v")
    point = tile.point(row, Iter(var))
    nodes = tuple(node for step in steps for node in LineBody(tile).step(step, point))
    low, high = meet(need, runs)
    loop = Loop(var, low, high, 1, Where.SERIAL, nodes)
    body: list[TreeNode] = [*split_interior(loop, tile.site.names.fresh)]
    otherwise: list[TreeNode] = []
    for stage in made:
        if stage.name in tile.registers or tile.has_borders(stage):
            continue
        whole = moved(tile.filled(stage, across), tile.own[across])
        others = [dim for dim in tile.group.dims if dim != across]
        there = conjoin(*inside(tile, row, {dim: tile.filled(stage, dim) for dim in others}))
        if whole != runs:
            sides = fill(tile, stage, row, meet(need, whole, (whole[0], runs[0])))
            sides += fill(tile, stage, row, meet(need, whole, (runs[1], whole[1])))
            # Where the loop has no columns, nothing says that its rows are rows of the array.
            implied = all(tile.is_within(stage, dim) for dim in others)
            body += sides if implied else guarded(there, sides)
        if any(tile.filled(stage, dim) != tile.runs(stage, dim) for dim in others):
            otherwise += guarded(there, fill(tile, stage, row, meet(need, whole)))
    return guarded(
        conjoin(*inside(tile, row, {d: tile.runs(made[0], d) for d in tile.group.dims})),
        body,
        otherwise,
    )


def inside(tile: LineTile, row: Expr, ranges: Mapping[str, Range]) -> list[Expr]:
    """The row is one of those in `ranges`, along all dimensions but the columns."""
    point = tile.point(row, integer(0))
    tests: list[Expr] = []
    for dim, (low, high) in ranges.items():
        if dim == tile.pipeline.across:
            continue
        extent = tile.extents[dim]
        if dim in tile.outer and (low, high) == (extent.lower, extent.upper):
            continue  # that is what the loop over them runs
        tests += in_range(point[dim], low, high)
    return list(dict.fromkeys(tests))


def needed(tile: LineTile, made: list[Stage]) -> Range:
    """The columns of the tile that someone needs."""
    strip, around = tile.shape.strip, widest(made, -1)
    return integer(strip.pad - around.low), integer(strip.pad + strip.stored + around.high)


def widest(made: Sequence[Stage], k: int) -> Halo:
    """How far around what a tile stores some of the stages must be right, along one dimension."""
    return reduce(Halo.widened, (stage.needed[k] for stage in made))


def fill(tile: LineTile, stage: Stage, row: Expr, columns: Range) -> list[TreeNode]:
    """Elements that the stage's loop does not write: what the array held before."""
    if stage.name not in tile.lines and not (stage in tile.outputs and tile.to_copy):
        return []
    var = tile.site.names.fresh("v")
    value = held_before(tile, stage, row, Iter(var))
    node = Copy(tile.cell(stage, row, Iter(var)), value)
    return [Loop(var, *columns, 1, Where.SERIAL, (node,))]


def held_before(tile: LineTile, stage: Stage, row: Expr, column: Expr) -> Load | Const:
    """What an element that the stage's loop does not write holds."""
    pipeline = tile.pipeline
    before = pipeline.before(stage)
    if before is not None:  # a time loop: what it held an iteration ago
        apart = (stage.ahead_of(before, dim) for dim in pipeline.dims)
        return tile.cell(before, *(tidy(part + by) for part, by in zip((row, column), apart, strict=True)))
    if tile.site.stores[whole_name(stage.array)].home == "global":
        return tile.memory(stage.array, tile.element(stage, row, column))
    dtype = tile.program.arrays[stage.array].dtype
    return Const(neutral("sum", dtype), dtype)


# ------------------------------------------------------------------------------------ edges


def mirror_columns(tile: LineTile, stage: Stage, row: Expr) -> list[TreeNode]:
    """Columns beyond the array's first and last: copies of those (`clamp`)."""
    across = tile.pipeline.across
    if not tile.mirrors(stage, across):
        return []
    low, high = moved(tile.whole(stage, across), tile.own[across])
    need = needed(tile, [stage])
    body: list[TreeNode] = []
    last = tidy(high - 1)
    for beyond, edge in (((need[0], low), low), ((high, need[1]), last)):
        var = tile.site.names.fresh("v")
        node = Copy(tile.cell(stage, row, Iter(var)), tile.cell(stage, row, edge))
        body.append(Loop(var, *meet(need, beyond), 1, Where.SERIAL, (node,)))
    whole = {dim: tile.filled(stage, dim) for dim in tile.group.dims}
    return guarded(conjoin(*inside(tile, row, whole)), body)


def mirror_rows(tile: LineTile, stage: Stage, row: Expr) -> list[TreeNode]:
    """Rows beyond the array's first and last: copies of those (`clamp`)."""
    stream = tile.pipeline.stream
    if not tile.mirrors(stage, stream):
        return []
    low, high = tile.whole(stage, stream)
    here = tile.point(row, integer(0))[stream]
    out: list[TreeNode] = []
    for distance in range(1, stage.slices):  # as far as the last row is still there
        source = tidy(row - distance)
        last = tidy(here - (distance - 1))
        out.append(Guard(compare("eq", last, high), (copy_row(tile, stage, source, row),)))
    before = tuple(
        copy_row(tile, stage, row, tidy(row - distance))
        for distance in range(1, stage.slices)
    )
    return [*out, *([Guard(compare("eq", here, low), before)] if before else [])]


def copy_row(tile: LineTile, stage: Stage, source: Expr, target: Expr) -> TreeNode:
    """One line of the stage over another, as far as it is filled."""
    across = tile.pipeline.across
    columns = needed(tile, [stage])
    if not tile.mirrors(stage, across):
        columns = meet(columns, moved(tile.filled(stage, across), tile.own[across]))
    var = tile.site.names.fresh("v")
    node = Copy(tile.cell(stage, target, Iter(var)), tile.cell(stage, source, Iter(var)))
    return Loop(var, *columns, 1, Where.SERIAL, (node,))


# ---------------------------------------------------------------------------------- results


def store_row(tile: LineTile, stage: Stage, row: Expr) -> list[TreeNode]:
    """The part of the row that is the tile's own, to memory."""
    (chunk, strip), across = tile.shape.cuts, tile.pipeline.across
    own = (integer(strip.pad), integer(strip.pad + strip.stored))
    columns = meet(own, moved(tile.hull(stage, across), tile.own[across]))
    var = tile.site.names.fresh("v")
    target = tile.place(stage, tile.element(stage, row, Iter(var)))
    node = Copy(target, tile.cell(stage, row, Iter(var)))
    stored = {dim: tile.hull(stage, dim) for dim in tile.group.dims}
    tests = in_range(row, integer(chunk.pad), integer(chunk.pad + chunk.stored))
    tests += inside(tile, row, stored)
    return guarded(conjoin(*tests), [Loop(var, *columns, 1, Where.SERIAL, (node,))])


class LineBody(WindowBody):
    """Bodies whose arrays lie in line buffers, in memory where they have none."""

    def __init__(self, tile: LineTile) -> None:
        super().__init__(tile)
        self.lines = tile

    def is_windowed(self, load: Load) -> bool:
        """Does the access go to a line buffer?"""
        name = self.current.stage_of(self.current.array_of(load))
        return name in self.lines.lines or name in self.lines.registers

    def cell(
        self, load: Load, name: str, statement: Statement, iteration: Mapping[str, Expr]
    ) -> Load:
        """The line's cell, or the element in memory."""
        stage = self.lines.pipeline.stage(name)
        held = "" if stage is None else self.lines.pipeline.holder(stage).name
        if stage is None or held in self.lines.lines or held in self.lines.registers:
            return super().cell(load, name, statement, iteration)
        return self.lines.place(stage, load.index)
