"""What a tile does for one slice of one stage, whatever the dimensions: compute it, hold what its loop does
not write, hand its columns to the neighbours, copy it beyond the array's edges."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loopfuse.base.dtypes import DType
from loopfuse.lang.index import conjoin, in_range, is_checked, negate
from loopfuse.lang.linear import constant_value, tidy
from loopfuse.lang.nodes import (
    Binary,
    Const,
    Expr,
    Iter,
    Load,
    Unary,
    combine,
    compare,
    integer,
    zero,
)
from loopfuse.lang.walk import loads, walk_expr
from loopfuse.plan.strategies.sliding.gpu.tile import WindowTile
from loopfuse.plan.strategies.sliding.windows.body import WindowBody
from loopfuse.plan.strategies.sliding.windows.borders import is_border
from loopfuse.plan.strategies.sliding.windows.edges import MIRRORED
from loopfuse.plan.strategies.sliding.windows.records import Halo, Stage, Step
from loopfuse.plan.strategies.sliding.windows.regions import in_region, is_all
from loopfuse.plan.units.groups import Region, whole_name
from loopfuse.tree.layout import Level
from loopfuse.tree.looptree import (
    Compute,
    Copy,
    Guard,
    Loop,
    Register,
    TreeNode,
    Window,
)
from loopfuse.tree.looptree import Mapping as Where

Head = tuple[str, Expr, Expr, int, Where]


def columns(tile: WindowTile, where: Where) -> Head:
    """A loop head over the lane's own columns."""
    return tile.site.names.fresh("v"), integer(0), integer(tile.shape.columns), 1, where


def region_of(tile: WindowTile, stage: Stage) -> Region | None:
    """What of the stage's array the launch finds in the copies of a time block, if anything."""
    return tile.time.region(stage.array) if tile.time is not None else None


def source_of(tile: WindowTile, stage: Stage, index: tuple[Expr, ...]) -> Load:
    """Where a loaded stage finds an element: in the array, or in the copy of it that time blocks keep."""
    return tile.memory(stage.array, index, region_of(tile, stage) is not None)


def element_of(tile: WindowTile, stage: Stage, index: tuple[Expr, ...], move: Callable[[Load], Copy]) -> TreeNode:
    """Moves an element that a loaded stage holds: what the time loop never writes stays in the array
    itself."""
    region = region_of(tile, stage)
    node = move(source_of(tile, stage, index))
    if region is None or is_all(region, tile.program.arrays[stage.array]):
        return node
    return Guard(in_region(index, region), (node,), (move(tile.memory(stage.array, index)),))


def is_plain(tile: WindowTile, stage: Stage) -> bool:
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


def zero_of(tile: WindowTile, stage: Stage) -> Const:
    """What a cell holds that has no element: anything would do, but what it held before would have
    to be kept until then."""
    dtype = tile.program.arrays[stage.array].dtype
    return zero(dtype)


def over(
    tile: WindowTile,
    spans: Sequence[tuple[int, int]],
    where: Where,
    make: Callable[..., tuple[TreeNode, ...]],
    *around: Callable[..., tuple[Expr, tuple[TreeNode, ...]]],
) -> list[TreeNode]:
    """Loops over a slice's dimensions, in each from where to where (exclusive), around what `make` gives
    for one place; the last loop runs as `where` says. `around`: guards around each row, the outermost
    first, each with what is done instead."""
    if any(first >= end for first, end in spans):
        return []
    names = [*(tile.site.names.fresh("r") for _ in spans[1:]), tile.site.names.fresh("v")]
    place = [tidy(Iter(var) + first) for var, (first, _) in zip(names, spans, strict=True)]
    *heads, last = (
        (var, integer(0), integer(end - first), 1)
        for var, (first, end) in zip(names, spans, strict=True)
    )
    body = make(*place)
    if not body:
        return []
    body = (Loop(*last, where, body),)
    for guard in reversed(around):
        test, otherwise = guard(*place[:-1])
        body = (Guard(test, body, otherwise),)
    for head in reversed(heads):
        body = (Loop(*head, Where.UNROLLED, body),)
    return list(body)


def own_spans(tile: WindowTile) -> list[tuple[int, int]]:
    """The thread's own cells of a slice."""
    return [(0, cut.by(Level.SLOT)) for cut in tile.shape.cuts[1:]]


def compute_slice(tile: WindowTile, step: Step, number: Expr, inside: bool) -> list[TreeNode]:
    """A slice of every stage that the step makes, from the windows it reads; where its loop does
    not run, what the arrays hold besides."""
    made = [stage for stage in tile.pipeline.stages if stage.step is step]
    is_copied = inside and is_border(step.placed.unit)
    if tile.pipeline.between and is_copied and all(is_left(tile, stage) for stage in made):
        return []
    wrapped = [] if inside else [dim for dim in tile.group.dims if tile.wraps(made[0], dim)]
    # Where something is left as it was, LLVM selects either way; a guard takes half the time to prove.
    # (Not so where warps share a tile.)
    if not inside and not tile.pipeline.between and is_alone(tile, made):
        is_guarded = bool(wrapped) or any(tile.is_read_unwritten(stage) for stage in made)
    else:  # an iteration that wraps is one where there are columns to wrap around
        is_guarded = bool(wrapped)

    def make(*place: Expr) -> tuple[TreeNode, ...]:
        point = tile.point(number, *place)
        otherwise: list[TreeNode] = []
        for stage in made:
            otherwise += unwritten(tile, stage, (number, *place), inside)
        if is_copied:
            return tuple(otherwise)
        body = tuple(WindowBody(tile).step(step, point, wrapped))
        if inside:
            return body
        running = tile.running(made[0], point, beyond=True)
        if is_guarded:
            return (Guard(running, body, tuple(otherwise)),)
        return where_running(tile, made, running, body, otherwise)

    nodes = over(tile, own_spans(tile), Where.UNROLLED, make)
    is_read = any(tile.pipeline.readers(tile.pipeline.holder(stage)) for stage in made)
    if is_read or all(cut.pad < cut.by(Level.SLOT) for cut in tile.shape.cuts[1:-1]):
        return nodes
    # Some warps only hold rows for others: nobody needs what they would compute.
    return [Guard(tile.stores_some(made[0], number), tuple(nodes))]


def where_running(
    tile: WindowTile,
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


def is_alone(tile: WindowTile, made: Sequence[Stage]) -> bool:
    """Does the step that makes these stages alone write their arrays?"""
    return all(len(tile.pipeline.boxes(stage.array)) < 2 for stage in made)


def is_harmless(tile: WindowTile, body: Sequence[TreeNode]) -> bool:
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
    tile: WindowTile, stage: Stage, place: Sequence[Expr], inside: bool
) -> list[TreeNode]:
    """The cell of an element that the stage's loop does not write."""

    def earlier(before: Stage) -> Load:
        apart = (stage.ahead_of(before, dim) for dim in tile.pipeline.dims)
        return tile.cell(before, *(part + by for part, by in zip(place, apart, strict=True)))

    index = tile.element(stage, *place)
    return held_besides(tile, stage, tile.cell(stage, *place), index, inside, earlier)


def held_besides(
    tile: WindowTile,
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


def left_in_memory(tile: WindowTile, stage: Stage, target: Load, index: tuple[Expr, ...]) -> TreeNode:
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


def is_left(tile: WindowTile, stage: Stage) -> bool:
    """Does the stage's window hold already what its loop does not write?"""
    before = tile.pipeline.before(stage)
    return before is not None and tile.pipeline.passes_on(before)


def is_unneeded(tile: WindowTile, stage: Stage) -> bool:
    """Does no one read what the stage's window holds of elements that its loop does not write, before
    others write them?"""
    if tile.is_made_anew(stage):
        return True
    return is_alone(tile, [stage]) and not tile.is_read_unwritten(stage)


def spread(tile: WindowTile, stage: Stage, number: Expr, *row: Expr) -> TreeNode:
    """The lane's own columns of a row where other lanes can read them."""
    head = columns(tile, Where.UNROLLED)
    target = tile.held(stage, tidy(tile.within[tile.pipeline.across] + Iter(head[0])), *row)
    return Loop(*head, (Copy(target, tile.cell(stage, number, *row, Iter(head[0]))),))


def halo(tile: WindowTile, stage: Stage, number: Expr) -> list[TreeNode]:
    """The columns of neighbouring lanes, beside each row of the thread's. The first and last lane's
    come from the other end of the strip: what is computed of them is not stored."""
    sides, count = stage.halos[-1], tile.shape.columns
    out: list[TreeNode] = []
    for row in tile.rows if sides else ():
        out.append(spread(tile, stage, number, *row))
        for first, width in ((-sides.low, sides.low), (count, sides.high)):
            if not width:
                continue
            var = tile.site.names.fresh("h")
            column = tidy(Iter(var) + first)
            place = tidy(tile.within[tile.pipeline.across] + column) % tile.shape.strip.size
            node = Copy(tile.cell(stage, number, *row, column), tile.held(stage, place, *row))
            out.append(Loop(var, integer(0), integer(width), 1, Where.UNROLLED, (node,)))
    return out


def in_reach(tile: WindowTile, stage: Stage, dim: str, subscript: Expr) -> Expr:
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


def mirrored_slices(
    tile: WindowTile,
    stage: Stage,
    number: Expr,
    clamped: Halo,
    copy: Callable[[Expr, Expr], Sequence[TreeNode]],
    last: bool = True,
) -> list[TreeNode]:
    """What a slice is copied to, and from, beyond the array's first and last, as the edge mode has it:
    `copy` makes the copies, of a source to a target; `last`: of slices beyond the last too.

    `clamp`: the first is copied to as many before it as `clamped` says, each behind the last is a copy of
    that. `reflect`, `symmetric`: one beyond the last copies the one as far before it, each of the first
    few is copied to as far before the first. Where the array has fewer than that, what is copied is a
    copy itself, made before."""
    stream = tile.pipeline.stream
    if not tile.mirrors(stage, stream):
        return []
    position = stage.frame.position(stream)
    extent = tile.program.arrays[stage.array].extents[position]
    here = tidy(tile.own[stream] + number + stage.frame.shifts[position])
    out: list[TreeNode] = []
    if stage.frame.modes[position] not in MIRRORED:
        for distance in range(1, clamped.high + 1) if last else ():
            test = compare("eq", tidy(here - (distance - 1)), extent)
            out.append(Guard(test, tuple(copy(tidy(number - distance), number))))
        firsts = [copy(number, tidy(number - distance)) for distance in range(1, clamped.low + 1)]
        if any(firsts):
            nodes = tuple(node for each in firsts for node in each)
            out.append(Guard(compare("eq", here, integer(0)), nodes))
        return out
    between = int(stage.frame.mode(stream) == "symmetric")  # is the edge itself repeated?
    several = extent > (1 - between)

    def before(distance: int) -> Expr:
        return tidy(number - distance)

    for distance in range(1, stage.folded.high + 1) if last else ():
        inwards = tidy(here - (distance - 1))
        beyond = conjoin(compare("eq", inwards, extent), several)
        out.append(Guard(beyond, tuple(copy(before(2 * distance - between), number))))
        if not between:  # around a slice alone there is no other
            alone = conjoin(compare("eq", extent, integer(1)), compare("eq", here, integer(distance)))
            out.append(Guard(alone, tuple(copy(before(distance), number))))
    for distance in range(1, stage.folded.low + 1):
        first = compare("eq", here, integer(distance - between))
        there = conjoin(first, extent > 0)
        out.append(Guard(there, tuple(copy(number, before(2 * distance - between)))))
    return out
