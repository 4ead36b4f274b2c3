"""What a tile does for one row of one stage: load or compute it, hand its columns to the
neighbours, mirror it at the edges, store it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from loopfuse.base.dtypes import DType
from loopfuse.base.machine import LANES
from loopfuse.lang.index import conjoin, in_range, is_checked, negate
from loopfuse.lang.linear import constant_value, linear_form, tidy
from loopfuse.lang.nodes import (
    Binary,
    Const,
    Expr,
    Iter,
    Load,
    Select,
    Unary,
    combine,
    compare,
    integer,
)
from loopfuse.lang.semantics import neutral
from loopfuse.lang.walk import loads, substitute, walk_expr
from loopfuse.plan.mapping.body import BodyBuilder, host_conditions, loop_conditions, merge_guards
from loopfuse.plan.strategies.sliding.cpu.tile import LineTile
from loopfuse.plan.strategies.sliding.gpu.tile import Tile
from loopfuse.plan.strategies.sliding.windows.borders import is_border
from loopfuse.plan.strategies.sliding.windows.edges import MIRRORED, before_wrap, unfolded
from loopfuse.plan.strategies.sliding.windows.records import Stage, Step
from loopfuse.plan.strategies.sliding.windows.regions import in_region, is_all
from loopfuse.plan.units.groups import Region, whole_name
from loopfuse.plan.units.recompute import Value
from loopfuse.poly.edges import lower_subscript
from loopfuse.poly.model import Statement
from loopfuse.tree.looptree import (
    Compute,
    Copy,
    Guard,
    Loop,
    Prefetch,
    Register,
    TreeNode,
    Window,
)
from loopfuse.tree.looptree import Mapping as Where

Head = tuple[str, Expr, Expr, int, Where]


def columns(tile: Tile, where: Where) -> Head:
    """A loop head over the lane's own columns."""
    return tile.site.names.fresh("v"), integer(0), integer(tile.shape.columns), 1, where


def ask_for(tile: Tile, stage: Stage, row: Expr) -> TreeNode:
    """Asks memory for the lane's columns of a row that is loaded later."""
    index = tile.element(stage, row, integer(0))
    return Prefetch(source_of(tile, stage, index))


def region_of(tile: Tile, stage: Stage) -> Region | None:
    """What of the stage's array the launch finds in the copies of a time block, if anything."""
    return tile.time.region(stage.array) if tile.time is not None else None


def source_of(tile: Tile, stage: Stage, index: tuple[Expr, ...]) -> Load:
    """Where a loaded stage finds an element: in the array, or in the copy of it that time blocks keep."""
    return tile.memory(stage.array, index, region_of(tile, stage) is not None)


def element_of(tile: Tile, stage: Stage, index: tuple[Expr, ...], move: Callable[[Load], Copy]) -> TreeNode:
    """Moves an element that a loaded stage holds: what the time loop never writes stays in the array
    itself."""
    region = region_of(tile, stage)
    node = move(source_of(tile, stage, index))
    if region is None or is_all(region, tile.program.arrays[stage.array]):
        return node
    return Guard(in_region(index, region), (node,), (move(tile.memory(stage.array, index)),))


def load_row(tile: Tile, stage: Stage, row: Expr, inside: bool, where: Where) -> list[TreeNode]:
    """A row of memory into the window; beyond an edge, what the edge mode reads there."""
    head = columns(tile, where)
    source = tile.loaded_row(stage, row)
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


def is_plain(tile: Tile, stage: Stage) -> bool:
    """Is what a loaded stage holds its elements, all from one place, and nothing beyond the array?"""
    region = region_of(tile, stage)
    is_one = region is None or is_all(region, tile.program.arrays[stage.array])
    return is_one and not any(stage.frame.modes)


def are_elements(extents: Sequence[Expr], *places: Sequence[Expr]) -> Expr:
    """All of these places lie in an array of these extents."""
    tests: list[Expr] = []
    for index in places:
        for subscript, extent in zip(index, extents, strict=True):
            tests += in_range(subscript, integer(0), extent)
    return conjoin(*dict.fromkeys(tests))


def settle_row(tile: Tile, stage: Stage, row: Expr) -> TreeNode:
    """A row that the warp loaded as a whole: its elements to their places. That waits
    until the row has arrived, so not before it is needed."""
    head = columns(tile, Where.STRADDLED)
    cell = tile.cell(stage, row, Iter(head[0]))
    return Loop(*head, (Copy(cell, cell),))


def zero_of(tile: Tile, stage: Stage) -> Const:
    """What a cell holds that has no element: anything would do, but what it held before would have
    to be kept until then."""
    dtype = tile.program.arrays[stage.array].dtype
    return Const(neutral("sum", dtype), dtype)


def compute_rows(tile: Tile, step: Step, row: Expr, inside: bool) -> list[TreeNode]:
    """A row of every stage that the step makes, from the windows it reads; where its loop does
    not run, what the arrays hold besides."""
    head = columns(tile, Where.UNROLLED)
    point = tile.point(row, Iter(head[0]))
    made = [stage for stage in tile.pipeline.stages if stage.step is step]
    otherwise: list[TreeNode] = []
    for stage in made:
        otherwise += unwritten(tile, stage, row, Iter(head[0]), inside)
    if inside and is_border(step.placed.unit):
        return [Loop(*head, tuple(otherwise))] if otherwise else []
    wrapped = [] if inside else [dim for dim in tile.group.dims if tile.wraps(made[0], dim)]
    body = tuple(WindowBody(tile).step(step, point, wrapped))
    if inside:
        return [Loop(*head, body)]
    running = tile.running(made[0], point, beyond=True)
    # An iteration that wraps is one where there are columns to wrap around. And where something is
    # left as it was, LLVM selects either way; this one takes half the time to prove.
    alone = is_alone(tile, made)
    if wrapped or (alone and any(tile.is_read_unwritten(stage) for stage in made)):
        return [Loop(*head, (Guard(running, body, tuple(otherwise)),))]
    return [Loop(*head, where_running(tile, made, running, body, otherwise))]


def where_running(
    tile: Tile,
    made: Sequence[Stage],
    running: Expr,
    body: tuple[TreeNode, ...],
    otherwise: Sequence[TreeNode],
) -> tuple[TreeNode, ...]:
    """What a step does where its loop runs, and what is done instead elsewhere. A body that only
    computes runs everywhere, as its tests cost more: but where others make the rest of the array."""
    if not is_alone(tile, made) or not is_harmless(tile, body):
        return (Guard(running, body, tuple(otherwise)),)
    if not any(tile.is_read_unwritten(stage) for stage in made):
        return body
    return (*body, Guard(negate(running), tuple(otherwise)))


def is_alone(tile: Tile, made: Sequence[Stage]) -> bool:
    """Does the step that makes these stages alone write their arrays?"""
    return all(len(tile.pipeline.boxes(stage.array)) < 2 for stage in made)


def is_harmless(tile: Tile, body: Sequence[TreeNode]) -> bool:
    """May the body run where its loop does not? It goes from registers to registers, and cannot
    fault or be reported."""
    buffers = tile.site.names.buffers
    for node in body:
        if not isinstance(node, Compute) or node.predicate is not None:
            return False
        for load in (node.target, *loads(node.value)):
            if not isinstance(buffers[load.array].home, Register | Window):
                return False
        for part in walk_expr(node.value):
            divides = isinstance(part, Binary) and part.op in ("floordiv", "mod")
            if is_checked(part) or (divides and part.dtype.is_integer):
                return False
    return True


def unwritten(
    tile: Tile, stage: Stage, row: Expr, column: Expr, inside: bool
) -> list[TreeNode]:
    """The cell of an element that the stage's loop does not write."""

    def earlier(before: Stage) -> Load:
        down = stage.ahead_of(before, tile.pipeline.stream)
        aside = stage.ahead_of(before, tile.pipeline.across)
        place = (row + down, tidy(column + aside))
        return tile.cell(before, tidy(place[0]), place[1])

    index = tile.element(stage, row, column)
    return held_besides(tile, stage, tile.cell(stage, row, column), index, inside, earlier)


def held_besides(
    tile: Tile,
    stage: Stage,
    target: Load,
    index: tuple[Expr, ...],
    inside: bool,
    earlier: Callable[[Stage], Load],
) -> list[TreeNode]:
    """What the cell `target` of a stage holds, of the element `index`, where the stage's loop does not
    run; `earlier`: the cell of the stage before."""
    nothing = Copy(target, zero_of(tile, stage))
    if is_left(tile, stage):
        return []
    if is_unneeded(tile, stage):
        return [nothing]
    before = tile.pipeline.before(stage)
    if before is not None:  # a time loop: it holds what it held an iteration ago
        same = Copy(target, earlier(before))
        made = tile.pipeline.made_before(stage)
        if not made or inside:
            return [same]
        # What others made in this iteration apart from the rest, which may come from memory: what
        # is stored to memory depends on the former alone.
        return [Guard(in_region(index, made), (same,), (same,))]
    if tile.site.stores[whole_name(stage.array)].home != "global":
        return [nothing]
    return [left_in_memory(tile, stage, target, index)]


def left_in_memory(tile: Tile, stage: Stage, target: Load, index: tuple[Expr, ...]) -> TreeNode:
    """The element of the stage's array as it was before the launch, where no loop writes it."""
    extents = tile.program.arrays[stage.array].extents
    tests: list[Expr] = []
    for subscript, extent in zip(index, extents, strict=True):
        tests += in_range(subscript, integer(0), extent)
    if len(tile.pipeline.boxes(stage.array)) > 1:  # what other loops write is theirs
        region = in_region(index, tile.pipeline.region(stage.array))
        tests.append(Unary("not", region, DType.BOOL))
    node = Copy(target, tile.memory(stage.array, index))
    nothing = Copy(target, zero_of(tile, stage))
    return Guard(conjoin(*dict.fromkeys(tests)), (node,), (nothing,))


def is_left(tile: Tile, stage: Stage) -> bool:
    """Does the stage's window hold already what its loop does not write?"""
    before = tile.pipeline.before(stage)
    return before is not None and tile.pipeline.passes_on(before)


def is_unneeded(tile: Tile, stage: Stage) -> bool:
    """Does no one read what the stage's window holds of elements that its loop does not write, before
    others write them?"""
    if tile.is_made_anew(stage):
        return True
    return is_alone(tile, [stage]) and not tile.is_read_unwritten(stage)


# ------------------------------------------------------------------------ neighbours and edges


def spread(tile: Tile, stage: Stage, row: Expr) -> TreeNode:
    """The lane's own columns where other lanes can read them."""
    head = columns(tile, Where.UNROLLED)
    place = Iter(tile.lane) * tile.shape.columns
    target = tile.held(stage, tidy(place + Iter(head[0])))
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
        column = tidy(Iter(var) + first)
        own = Iter(tile.lane) * count
        place = tidy(own + column) % (LANES * count)
        node = Copy(tile.cell(stage, row, column), tile.held(stage, place))
        out.append(Loop(var, integer(0), integer(number), 1, Where.UNROLLED, (node,)))
    return out


def mirror_columns(tile: Tile, stage: Stage, row: Expr) -> list[TreeNode]:
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
    first = tile.start + stage.frame.shifts[position]
    place = folded - tidy(first)
    last = integer(LANES * tile.shape.columns - 1)
    place = combine("max", combine("min", place, last), integer(0))
    taken = tile.taken(stage)
    beyond = negate(conjoin(*in_range(subscript, integer(0), extent)))
    kept = Guard(beyond, (Copy(tile.cell(stage, row, Iter(head[0])), taken),))
    return [spread(tile, stage, row), Loop(*head, (Copy(taken, tile.held(stage, place)), kept))]


def in_reach(tile: Tile, stage: Stage, dim: str, subscript: Expr) -> Expr:
    """The nearest subscript along `dim` that some loop may read, or that the array has: far from the array
    nobody reads, and to mirror there many periods would be passed."""
    position = stage.frame.position(dim)
    extent = tile.program.arrays[stage.array].extents[position]
    shift = integer(stage.frame.shifts[position])
    low, high = (end + shift for end in tile.read_range(stage, dim))
    low = combine("min", tidy(low), integer(0))  # no element of the array is beyond its edges
    wider = constant_value(high - extent)
    if wider is None or wider < 0:
        high = extent if wider is not None else combine("max", tidy(high), extent)
    subscript = combine("min", subscript, tidy(high - 1))
    return combine("max", subscript, tidy(low))


def mirror_rows(tile: Tile, stage: Stage, row: Expr) -> list[TreeNode]:
    """Rows beyond the array's first and last, as the edge mode has them: copies of rows that the
    window holds."""
    stream = tile.pipeline.stream
    if not tile.mirrors(stage, stream):
        return []
    position = stage.frame.position(stream)
    extent = tile.program.arrays[stage.array].extents[position]
    here = tile.element(stage, row, integer(0))[position]
    if stage.frame.modes[position] in MIRRORED:
        return reflected_rows(
            stage, stream, here, extent, row, lambda source, to: [copy_row(tile, stage, source, to)]
        )
    out: list[TreeNode] = []
    for distance in range(1, stage.last + 1):
        last = tidy(here - (distance - 1))
        source = tidy(row - distance)
        out.append(Guard(compare("eq", last, extent), (copy_row(tile, stage, source, row),)))
    if stage.first:
        above = tuple(
            copy_row(tile, stage, row, tidy(row - distance))
            for distance in range(1, stage.first + 1)
        )
        out.append(Guard(compare("eq", here, integer(0)), above))
    return out


def reflected_rows(
    stage: Stage,
    stream: str,
    here: Expr,
    extent: Expr,
    row: Expr,
    copy: Callable[[Expr, Expr], Sequence[TreeNode]],
    last: bool = True,
) -> list[TreeNode]:
    """A row (or plane) beyond the last copies the one as far before it, each of the first few is copied
    to as far above the first. Where the array has fewer than that, what is copied is a copy itself,
    made before. `here`: the row's subscript; `copy` makes the copies, of a source to a target; `last`:
    of those beyond the last too."""
    between = int(stage.frame.mode(stream) == "symmetric")  # is the edge itself repeated?
    several = extent > (1 - between)

    def before(distance: int) -> Expr:
        return tidy(row - distance)

    out: list[TreeNode] = []
    for distance in range(1, stage.last + 1) if last else ():
        inwards = tidy(here - (distance - 1))
        beyond = conjoin(compare("eq", inwards, extent), several)
        out.append(Guard(beyond, tuple(copy(before(2 * distance - between), row))))
        if not between:  # around a row alone there is no other
            alone = conjoin(compare("eq", extent, integer(1)), compare("eq", here, integer(distance)))
            out.append(Guard(alone, tuple(copy(before(distance), row))))
    for distance in range(1, stage.first + 1):
        first = compare("eq", here, integer(distance - between))
        there = conjoin(first, extent > 0)
        out.append(Guard(there, tuple(copy(row, before(2 * distance - between)))))
    return out


def copy_row(tile: Tile, stage: Stage, source: Expr, target: Expr) -> TreeNode:
    """One row of the window over another."""
    var = tile.site.names.fresh("c")
    width = stage.left + tile.shape.columns + stage.right
    column = tidy(Iter(var) - stage.left)
    node = Copy(tile.cell(stage, target, column), tile.cell(stage, source, column))
    return Loop(var, integer(0), integer(width), 1, Where.UNROLLED, (node,))


# ------------------------------------------------------------------------------------ results


def store_row(tile: Tile, stage: Stage, row: Expr, inside: bool, where: Where) -> list[TreeNode]:
    """The part of the row that is the tile's own, to memory."""
    shape = tile.shape
    tests = tile.stores_at(stage, row) if tile.pipeline.stream else []
    first = shape.pad // shape.columns
    tests.append(Iter(tile.lane) >= first)
    last = first + shape.stored // shape.columns
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


class WindowBody(BodyBuilder):
    """Bodies whose arrays lie in windows."""

    def __init__(self, tile: Tile | LineTile) -> None:
        site = tile.site
        super().__init__(
            site.program, tile.group, dict(site.stores), site.names, dict(site.extents)
        )
        self.tile = tile
        self.made: set[str] = set()
        self.point: Mapping[str, Expr] = {}
        self.arms = 0  # arms of a Select around: what they read may not be there

    def step(
        self, step: Step, point: Mapping[str, Expr], wrapped: Collection[str] = ()
    ) -> list[TreeNode]:
        """The step's unit at a point of the group, which may lie beyond the first or last along
        the `wrapped` dimensions."""
        self.current, self.point = step, point
        scope, time = self.tile.group.scope, self.tile.time
        placed = step.placed
        iteration = scope.values() if scope is not None else {}
        iteration |= {c.iterator: tidy(substitute(c.value(), point)) for c in placed.coordinates}
        if time is not None:
            before = Iter(time.iterator) * (2 * time.steps)
            first = time.lower + (time.first + step.ahead)
            iteration[time.iterator] = tidy(first + before)
        self.parity = dict(step.swaps)
        known: list[Expr] = [*host_conditions(self.tile.group)]
        for loop in placed.unit.common:
            known += loop_conditions(loop.iterator, loop.lower, loop.upper, loop.step)
        names: list[str] = []
        for c in placed.coordinates:
            if c.dim in wrapped:
                names.append(c.iterator)
                value = iteration[c.iterator]
                iteration[before_wrap(c.iterator)] = value
                iteration[c.iterator] = self.wrapped_value(step, c.dim, value)
        unit = unfolded(placed.unit, self.is_windowed, self.tile.program, names)
        return merge_guards(self.items(unit.items, iteration, known))

    def wrapped_value(self, step: Step, dim: str, value: Expr) -> Expr:
        """The iteration that does what `value` does in a window: that of the same element."""
        placed, pipeline = step.placed, self.tile.pipeline
        stage = next(stage for stage in pipeline.stages if stage.step is step)
        position = stage.frame.position(dim)
        ahead = integer(stage.frame.shifts[position] - placed.coordinate(dim).constant)
        extent = self.tile.program.arrays[stage.array].extents[position]
        element = tidy(value + ahead)
        return tidy(lower_subscript("wrap", element, extent, False, False) - ahead)

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

    def redirected(
        self,
        expr: Expr,
        sources: Iterator[Value | None],
        statement: Statement,
        iteration: Mapping[str, Expr],
    ) -> Expr:
        """`expr` with each load sent to its buffer."""
        if not isinstance(expr, Select):
            return super().redirected(expr, sources, statement, iteration)
        self.arms += 1
        out = super().redirected(expr, sources, statement, iteration)
        self.arms -= 1
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
        """The cell of the stage called `name` that an access goes to."""
        tile = self.tile
        stage = tile.pipeline.stage(name)
        if stage is None:
            found = super().storage(tile.pipeline.planes.whole(load), statement, iteration)
            if self.arms or isinstance(tile, LineTile):
                return found
            return tile.kept.register(found, self.current)
        place: list[Expr] = []
        for dim, base in ((tile.pipeline.stream, tile.base), (tile.pipeline.across, tile.own)):
            if not dim:  # nothing streams: the row that stands there
                place.append(self.point[dim])
                continue
            position = stage.frame.position(dim)
            start = base + stage.frame.shifts[position]
            place.append(tidy(load.index[position] - start))
        return tile.cell(stage, place[0], place[1])
