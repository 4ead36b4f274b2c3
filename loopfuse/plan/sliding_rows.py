"""What a tile does for one row of one stage: load or compute it, hand its columns to the
neighbours, mirror it at the edges, store it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopfuse.lang.affine import combine, integer
from loopfuse.lang.nodes import Const, Expr, Iter, Load
from loopfuse.lang.semantics import neutral
from loopfuse.lang.walk import substitute
from loopfuse.plan.body import BodyBuilder, host_conditions, loop_conditions, merge_guards
from loopfuse.plan.expressions import compare, conjoin, in_range
from loopfuse.plan.looptree import Copy, Guard, Loop, Prefetch, TreeNode
from loopfuse.plan.looptree import Mapping as Where
from loopfuse.plan.recompute import tidy
from loopfuse.plan.sliding_tile import Tile, source_is_copy
from loopfuse.plan.window_edges import unfolded
from loopfuse.plan.window_records import Stage, Step
from loopfuse.plan.window_shape import LANES
from loopfuse.poly.edges import lower_subscript
from loopfuse.poly.model import Statement

Head = tuple[str, Expr, Expr, int, Where]


def columns(tile: Tile, where: Where) -> Head:
    """A loop head over the lane's own columns."""
    return tile.site.names.fresh("v"), integer(0), integer(tile.shape.columns), 1, where


def ask_for(tile: Tile, stage: Stage, row: Expr) -> TreeNode:
    """Asks memory for the lane's columns of a row that is loaded later."""
    index = tile.element(stage, row, integer(0))
    copied = source_is_copy(tile.time) and tile.pipeline.last(stage.array) is not None
    return Prefetch(tile.memory(stage.array, index, copied))


def load_row(tile: Tile, stage: Stage, row: Expr, inside: bool, where: Where) -> list[TreeNode]:
    """A row of memory into the window; beyond an edge, what the edge mode reads there."""
    head = columns(tile, where)
    index = tile.element(stage, row, Iter(head[0]))
    target = tile.cell(stage, row, Iter(head[0]))
    copy = source_is_copy(tile.time)
    made = tile.pipeline.last(stage.array)
    if inside:
        return [Loop(*head, (Copy(target, tile.memory(stage.array, index, copy and made is not None)),))]
    extents = tile.site.program.arrays[stage.array].extents
    folded: list[Expr] = []
    tests: list[Expr] = []
    for subscript, extent, mode in zip(index, extents, stage.frame.modes, strict=True):
        if mode:
            folded.append(lower_subscript(mode, subscript, extent, False, False))
            tests.append(compare("gt", extent, integer(0)))
        else:
            folded.append(subscript)
            tests += in_range(subscript, integer(0), extent)
    node: TreeNode = Copy(target, tile.memory(stage.array, tuple(folded)))
    if copy and made is not None:
        # What the time loop never writes stays in the array itself.
        written: list[Expr] = []
        for dim, subscript in zip(stage.frame.dims, folded, strict=True):
            written += in_range(subscript, *tile.bounds(stage, dim))
        other = Copy(target, tile.memory(stage.array, tuple(folded), copy=True))
        node = Guard(conjoin(*dict.fromkeys(written)), (other,), (node,))
    nothing = Copy(target, zero_of(tile, stage))
    return [Loop(*head, (Guard(conjoin(*dict.fromkeys(tests)), (node,), (nothing,)),))]


def settle_row(tile: Tile, stage: Stage, row: Expr) -> TreeNode:
    """A row that came as vectors which start before it: its elements to their places. That waits
    until the row has arrived, so not before it is needed."""
    head = columns(tile, Where.STRADDLED)
    cell = tile.cell(stage, row, Iter(head[0]))
    return Loop(*head, (Copy(cell, cell),))


def zero_of(tile: Tile, stage: Stage) -> Const:
    """What a cell holds that has no element: anything would do, but what it held before would have
    to be kept until then."""
    dtype = tile.site.program.arrays[stage.array].dtype
    return Const(neutral("sum", dtype), dtype)


def compute_rows(tile: Tile, step: Step, row: Expr, inside: bool) -> list[TreeNode]:
    """A row of every stage that the step makes, from the windows it reads; where its loop does
    not run, what the arrays hold besides."""
    head = columns(tile, Where.UNROLLED)
    point = tile.point(row, Iter(head[0]))
    body = tuple(_WindowBody(tile).step(step, point))
    if inside:
        return [Loop(*head, body)]
    made = [stage for stage in tile.pipeline.stages if stage.step is step]
    otherwise: list[TreeNode] = []
    for stage in made:
        otherwise += unwritten(tile, stage, row, Iter(head[0]))
    return [Loop(*head, (Guard(tile.running(made[0], point), body, tuple(otherwise)),))]


def unwritten(tile: Tile, stage: Stage, row: Expr, column: Expr) -> list[TreeNode]:
    """The cell of an element that the stage's loop does not write."""
    array = tile.site.program.arrays[stage.array]
    target = tile.cell(stage, row, column)
    if not any(stage.name in step.reads.values() for step in tile.pipeline.steps):
        return [Copy(target, zero_of(tile, stage))]
    before = tile.pipeline.before(stage)
    if before is not None:  # a time loop: it holds what it held an iteration ago
        down = stage.ahead_of(before, tile.pipeline.stream)
        aside = stage.ahead_of(before, tile.pipeline.across)
        place = (combine("add", row, integer(down)), tidy(combine("add", column, integer(aside))))
        return [Copy(target, tile.cell(before, tidy(place[0]), place[1]))]
    if tile.site.stores[stage.array].home != "global":
        return [Copy(target, zero_of(tile, stage))]
    index = tile.element(stage, row, column)
    tests: list[Expr] = []
    for subscript, extent in zip(index, array.extents, strict=True):
        tests += in_range(subscript, integer(0), extent)
    node = Copy(target, tile.memory(stage.array, index))
    nothing = Copy(target, zero_of(tile, stage))
    return [Guard(conjoin(*dict.fromkeys(tests)), (node,), (nothing,))]


# ------------------------------------------------------------------------ neighbours and edges


def spread(tile: Tile, stage: Stage, row: Expr) -> TreeNode:
    """The lane's own columns where other lanes can read them."""
    head = columns(tile, Where.UNROLLED)
    place = combine("mul", Iter(tile.lane), integer(tile.shape.columns))
    target = tile.held(stage, tidy(combine("add", place, Iter(head[0]))))
    return Loop(*head, (Copy(target, tile.cell(stage, row, Iter(head[0]))),))


def halo(tile: Tile, stage: Stage, row: Expr) -> list[TreeNode]:
    """The neighbours' columns. The first and last lane's come from the other end of the strip:
    what is computed of them is not stored."""
    if not (stage.left or stage.right):
        return []
    out = [spread(tile, stage, row)]
    count = tile.shape.columns
    for first, number in ((-stage.left, stage.left), (count, stage.right)):
        if not number:
            continue
        var = tile.site.names.fresh("h")
        column = tidy(combine("add", Iter(var), integer(first)))
        own = combine("mul", Iter(tile.lane), integer(count))
        place = combine("mod", tidy(combine("add", own, column)), integer(LANES * count))
        node = Copy(tile.cell(stage, row, column), tile.held(stage, place))
        out.append(Loop(var, integer(0), integer(number), 1, Where.UNROLLED, (node,)))
    return out


def mirror_columns(tile: Tile, stage: Stage, row: Expr) -> list[TreeNode]:
    """Columns beyond the array's first and last, as the edge mode has them."""
    across = tile.pipeline.across
    if not tile.mirrors(stage, across):
        return []
    position = stage.frame.position(across)
    extent = tile.site.program.arrays[stage.array].extents[position]
    head = columns(tile, Where.UNROLLED)
    subscript = tile.element(stage, row, Iter(head[0]))[position]
    folded = lower_subscript(stage.frame.modes[position], subscript, extent, False, False)
    first = combine("add", tile.start, integer(stage.frame.shifts[position]))
    place = combine("sub", folded, tidy(first))
    last = integer(LANES * tile.shape.columns - 1)
    place = combine("max", combine("min", place, last), integer(0))
    node = Copy(tile.cell(stage, row, Iter(head[0])), tile.held(stage, place))
    return [spread(tile, stage, row), Loop(*head, (node,))]


def mirror_rows(tile: Tile, stage: Stage, row: Expr) -> list[TreeNode]:
    """Rows beyond the array's first and last: copies of those (`clamp`)."""
    stream = tile.pipeline.stream
    if not tile.mirrors(stage, stream):
        return []
    position = stage.frame.position(stream)
    extent = tile.site.program.arrays[stage.array].extents[position]
    here = tile.element(stage, row, integer(0))[position]
    out: list[TreeNode] = []
    for distance in range(1, stage.down + 1):
        last = tidy(combine("sub", here, integer(distance - 1)))
        source = tidy(combine("sub", row, integer(distance)))
        out.append(Guard(compare("eq", last, extent), (copy_row(tile, stage, source, row),)))
    if stage.up:
        above = tuple(
            copy_row(tile, stage, row, tidy(combine("sub", row, integer(distance))))
            for distance in range(1, stage.up + 1)
        )
        out.append(Guard(compare("eq", here, integer(0)), above))
    return out


def copy_row(tile: Tile, stage: Stage, source: Expr, target: Expr) -> TreeNode:
    """One row of the window over another."""
    var = tile.site.names.fresh("c")
    width = stage.left + tile.shape.columns + stage.right
    column = tidy(combine("sub", Iter(var), integer(stage.left)))
    node = Copy(tile.cell(stage, target, column), tile.cell(stage, source, column))
    return Loop(var, integer(0), integer(width), 1, Where.UNROLLED, (node,))


# ------------------------------------------------------------------------------------ results


def store_row(tile: Tile, stage: Stage, row: Expr, inside: bool, where: Where) -> list[TreeNode]:
    """The part of the row that is the tile's own, to memory."""
    shape = tile.shape
    tests: list[Expr] = [compare("ge", row, integer(shape.warm))]
    if stage.lag < shape.steps - shape.warm - shape.rows:
        tests.append(compare("lt", row, integer(shape.warm + shape.rows)))
    first = shape.pad // shape.columns
    tests.append(compare("ge", Iter(tile.lane), integer(first)))
    last = first + shape.stored // shape.columns
    if last < LANES:
        tests.append(compare("lt", Iter(tile.lane), integer(last)))
    head = columns(tile, where)
    point = tile.point(row, Iter(head[0]))
    index = tile.element(stage, row, Iter(head[0]))
    copy = tile.time is not None and not tile.time.back
    memory = tile.memory(stage.array, index, copy)
    node: TreeNode = Copy(memory, tile.cell(stage, row, Iter(head[0])))
    if where is Where.STRADDLED:  # the whole warp moves columns to the next lane
        return [Loop(*head, (Guard(conjoin(*tests), (node,)),))]
    if not inside:
        node = Guard(tile.running(stage, point), (node,))
    return [Guard(conjoin(*tests), (Loop(*head, (node,)),))]


class _WindowBody(BodyBuilder):
    """Bodies whose arrays lie in windows."""

    def __init__(self, tile: Tile) -> None:
        site = tile.site
        super().__init__(
            site.program, tile.group, dict(site.stores), site.names, dict(site.extents)
        )
        self.tile = tile
        self.made: set[str] = set()

    def step(self, step: Step, point: Mapping[str, Expr]) -> list[TreeNode]:
        """The step's unit at a point of the group."""
        self.current = step
        scope, time = self.tile.group.scope, self.tile.time
        placed = step.placed
        iteration = scope.values() if scope is not None else {}
        iteration |= {c.iterator: tidy(substitute(c.value(), point)) for c in placed.coordinates}
        if time is not None:
            before = combine("mul", Iter(time.iterator), integer(2 * time.steps))
            first = combine("add", time.lower, integer(time.first + step.ahead))
            iteration[time.iterator] = tidy(combine("add", first, before))
        self.parity = dict(step.swaps)
        known: list[Expr] = [*host_conditions(self.tile.group)]
        for loop in placed.unit.common:
            known += loop_conditions(loop.iterator, loop.lower, loop.upper, loop.step)
        unit = unfolded(placed.unit, self.is_windowed, self.tile.site.program)
        return merge_guards(self.items(unit.items, iteration, known))

    def is_windowed(self, load: Load) -> bool:
        """Does the access go to a window?"""
        name = self.current.stage_of(self.current.array_of(load))
        return self.tile.pipeline.stage(name) is not None

    def statement(
        self, statement: Statement, iteration: Mapping[str, Expr], known: Sequence[Expr]
    ) -> list[TreeNode]:
        """One statement instance; what it makes, later statements of the step read."""
        out = super().statement(statement, iteration, known)
        if statement.target.index:
            self.made.add(self.current.array_of(statement.target))
        return out

    def target(self, load: Load, statement: Statement, iteration: Mapping[str, Expr]) -> Load:
        """The window's cell that a store fills."""
        array = self.current.array_of(statement.target)
        return self.cell(load, self.current.writes.get(array, ""), statement, iteration)

    def storage(self, load: Load, statement: Statement, iteration: Mapping[str, Expr]) -> Load:
        """The window's cell; BodyBuilder's storage for what has no window."""
        array = load.array
        if load.swapped is not None and self.parity[self.original_parity(load, statement)]:
            array = load.swapped.array
        reads = self.current.writes if array in self.made else self.current.reads
        return self.cell(load, reads.get(array, ""), statement, iteration)

    def cell(
        self, load: Load, name: str, statement: Statement, iteration: Mapping[str, Expr]
    ) -> Load:
        tile = self.tile
        stage = tile.pipeline.stage(name)
        if stage is None:
            return super().storage(load, statement, iteration)
        place: list[Expr] = []
        for dim, base in ((tile.pipeline.stream, tile.base), (tile.pipeline.across, tile.own)):
            position = stage.frame.position(dim)
            start = combine("add", base, integer(stage.frame.shifts[position]))
            place.append(tidy(combine("sub", load.index[position], start)))
        return tile.cell(stage, place[0], place[1])


