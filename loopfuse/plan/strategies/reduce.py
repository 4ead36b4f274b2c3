"""Whole reductions in two launches: every thread reduces its share, then one block (or one CPU
thread) reduces what they left. The order depends on the sizes and this file's constants alone.

before:  s = 0; for i in 0..N: s = s + f(i)
after:   partial[b] = combine over the threads of block b; s = combine of the partials

Several reductions over one iteration space share the pass; point-wise statements they read are
computed on the way, and scalar statements behind them run in the last step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from loopfuse.base.dtypes import DType
from loopfuse.lang.index import TRUE, ceil_div, conjoin
from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Const, Expr, Iter, Load, combine, compare, integer
from loopfuse.lang.semantics import neutral
from loopfuse.lang.walk import has_checks, iterators, substitute
from loopfuse.plan.mapping.body import BodyBuilder, declare_global, merge_guards, tidy_load
from loopfuse.plan.mapping.interior import split_inner
from loopfuse.plan.mapping.lanes import LANES, Update, in_strands, put_together, sharing, strands_of
from loopfuse.plan.mapping.space import (
    Extent,
    Site,
    count_of,
    dim_extents,
    hint_of,
    in_chunks,
    known_of,
    loop_iterations,
    order_dims,
    value_at,
)
from loopfuse.plan.strategies.strategy import Fit, Strategy
from loopfuse.plan.units.forest import fold_of
from loopfuse.plan.units.groups import Group, Legality
from loopfuse.poly.isl import SET, Reader, value_expr
from loopfuse.poly.isl_relations import condition_expr, hull_along, simplify_within
from loopfuse.poly.model import PolyProgram, Statement
from loopfuse.tree.looptree import (
    Buffer,
    Combine,
    Compute,
    Copy,
    Fold,
    Global,
    Guard,
    HostNode,
    Launch,
    Loop,
    LoopTree,
    Register,
    TreeNode,
)
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.price import usual_price
from loopfuse.tree.rewrite.independent import consecutive_parts, independent_parts
from loopfuse.tree.walk import walk_nodes

BLOCKS = 1024
"""GPU blocks of the first launch of a one-dimensional reduction."""

ROWS, COLUMNS = 64, 16
"""The same in two dimensions: blocks along the next-to-last and the last."""

THREADS = 256
CHUNK = 16384
"""Elements that one CPU partial result covers, at most."""

CHUNK_PRICE = 32 * CHUNK
"""What they cost, at most where there are several rounds (`tree_price`): rows that are reduced
themselves are few in a chunk."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A reduction of the group: its statement, operation, private buffer and partial results."""

    statement: Statement
    op: str
    private: Load
    partial: str

    @property
    def key(self) -> tuple[str, str]:
        """Whose accumulator it is, of which array: two updates of one array each have their own."""
        return self.statement.id, self.statement.target.array


@dataclass(frozen=True, slots=True)
class Reduce(Strategy):
    """The strategy."""

    name: str = "reduce"

    def claim(self, group: Group, program: PolyProgram, device: str) -> Fit | None:
        return ReduceFit(group) if group.legality is Legality.REDUCED else None


REDUCE = Reduce()


@dataclass(frozen=True, slots=True)
class ReduceFit(Fit):
    """A group whose results its threads combine."""

    group: Group
    launches: ClassVar[int] = 2

    def bind(self, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
        return plan_combine(self.group, site, name, labels)

    def reordered(self) -> frozenset[str]:
        return frozenset(s for p in self.group.members for s in p.unit.carried)

    def detail(self, launch: Launch, tree: LoopTree) -> str:
        return "partial results" if launch.name.endswith("_a") else "results combined"


def plan_combine(
    group: Group, site: Site, name: str, labels: tuple[str, ...]
) -> tuple[Launch, Launch]:
    """The two launches of a combining group."""
    body = [p for p in group.members if p.coordinates]
    updates = [s for p in body for s in p.unit.statements if s.id in p.unit.carried]
    extents = dim_extents(group, site.program)
    if site.device == "gpu":
        return _gpu(group, site, name, labels, updates, extents)
    return _cpu(group, site, name, labels, updates, extents)


def _neutral(statement: Statement, dtype: DType) -> Const:
    return Const(neutral(statement.reduction, dtype), dtype)


def _accumulators(
    updates: Sequence[Statement], site: Site, partial_extents: tuple[Expr, ...], lanes: Mapping[str, int]
) -> list[Accumulator]:
    """`lanes`: how many there are of each, by statement; none are registers without places."""
    out: list[Accumulator] = []
    for statement in updates:
        array, dtype = statement.target.array, statement.target.dtype
        private = site.names.fresh(f"{array}_acc")
        slots = site.names.fresh(f"{array}_partial")
        shape = (integer(lanes[statement.id]),) if statement.id in lanes else ()
        site.names.add(Buffer(private, array, dtype, shape, Register()))
        site.names.add(Buffer(slots, "", dtype, partial_extents, Global()))
        out.append(Accumulator(statement, fold_of(statement.reduction), Load(private, (), dtype), slots))
    return out


def _stage_one(
    group: Group,
    site: Site,
    extents: Mapping[str, Extent],
    point: Mapping[str, Expr],
    redirect: Mapping[tuple[str, str], Load],
) -> tuple[TreeNode, ...]:
    """One point of the iteration space: everything but initialisations."""
    builder = BodyBuilder(
        site.program, group, dict(site.stores), site.names, dict(site.extents), dict(redirect)
    )
    labels = {s.label for p in group.members for s in p.unit.statements if s.id in p.unit.carried}
    builder.skip = frozenset(
        s.id
        for p in group.members
        for s in p.unit.statements
        if s.kind == "init" and s.label in labels
    )
    out: list[TreeNode] = []
    for placed in group.members:
        if placed.coordinates:
            out += builder.unit(placed, known_of(group, placed, extents), point)
    return tuple(out)


def _finish(group: Group, site: Site, accumulators: Sequence[Accumulator], where: Mapping[tuple[str, str], Load]) -> list[TreeNode]:
    """Results to their places, then the scalar statements behind the reductions."""
    out: list[TreeNode] = []
    builder = BodyBuilder(site.program, group, dict(site.stores), site.names, dict(site.extents))
    # A host loop that counts down is numbered from 0, under the iterator's own name.
    around = group.scope.values() if group.scope else {}
    for a in accumulators:
        swapped = a.statement.target.swapped
        for array in (a.statement.target.array, *((swapped.array,) if swapped else ())):
            declare_global(site.program, site.stores, site.extents, site.names, array)

        def finish(a: Accumulator = a) -> list[TreeNode]:
            element = tidy_load(substitute(a.statement.target, around))
            target, private = builder.storage(element, a.statement, around), where[a.key]
            whole = Copy(target, private) if a.statement.kind == "update" else Fold(a.op, target, private)
            some = substitute(_some(_first(a.statement, site.program), group, site.program), around)
            return [whole] if some == TRUE else [Guard(some, (whole,))]

        out += builder.in_versions((a.statement.target,), around, finish)
    for placed in group.members:
        if not placed.coordinates:
            out += builder.unit(placed, [], {})
    return merge_guards(out)


def _first(update: Statement, program: PolyProgram) -> Statement:
    """What sets the element that a reduction starts from nothing (also where it then has nothing to add), or the
    update itself, where it adds to what is there."""
    starts = (s for s in program.statements if s.kind == "init" and s.label == update.label and update.kind == "update")
    return next(starts, update)


def _some(statement: Statement, group: Group, program: PolyProgram) -> Expr:
    """Where, among the iterations of the host loops around a group, the statement runs at all: elsewhere its element
    may be none (`a[i - 1]`), or not be set."""
    host = frozenset(loop.iterator for loop in group.scope.host) if group.scope else frozenset[str]()
    if not host:
        return TRUE
    runs, around = (
        _along(statement, each, host) for each in (statement.domain, loop_iterations(statement, program, host))
    )
    return condition_expr(simplify_within(runs, around, program.context.intersect(runs.params())), program.symbols)


def _gpu(
    group: Group,
    site: Site,
    name: str,
    labels: tuple[str, ...],
    updates: Sequence[Statement],
    extents: Mapping[str, Extent],
) -> tuple[Launch, Launch]:
    names = site.names
    dims = order_dims(group)
    blocks = BLOCKS if len(dims) == 1 else ROWS * COLUMNS
    accumulators = _accumulators(updates, site, (integer(blocks),), {})
    redirect = {a.key: a.private for a in accumulators}
    thread = names.fresh("t")
    grid: list[tuple[str, int]] = []
    point: dict[str, Expr] = {}
    loops: list[tuple[str, Expr]] = []
    guards: list[Expr] = []
    slot: Expr = integer(0)
    for position, dim in enumerate(reversed(dims)):
        extent, hint = extents[dim], hint_of(group, dim)
        count = count_of(extent)
        var = names.fresh(hint)
        if position == 0:
            share = blocks if len(dims) == 1 else COLUMNS
            block = names.fresh(f"{hint}b")
            grid.append((block, share))
            slot = Iter(block)
            number = Iter(var) * (share * THREADS)
            number = number + Iter(block) * THREADS
            number = number + Iter(thread)
            loops.append((var, ceil_div(count, share * THREADS)))
            point[dim] = value_at(extent, number)
            guards.append(point[dim] < extent.upper)
        elif position == 1:
            block = names.fresh(f"{hint}b")
            grid.append((block, ROWS))
            slot = Iter(block) * COLUMNS + slot
            number = Iter(var) * ROWS + Iter(block)
            loops.append((var, ceil_div(count, ROWS)))
            point[dim] = value_at(extent, number)
            guards.append(point[dim] < extent.upper)
        else:
            loops.append((var, count))
            point[dim] = value_at(extent, Iter(var))
    body: tuple[TreeNode, ...] = (
        Guard(conjoin(*guards), _stage_one(group, site, extents, point, redirect)),
    )
    for var, count in loops:
        body = (Loop(var, integer(0), count, 1, Where.SERIAL, body),)
    first = [Copy(a.private, _neutral(a.statement, a.private.dtype)) for a in accumulators]
    combines = [Combine(a.op, a.private.array, (thread,)) for a in accumulators]
    stores = tuple(
        Copy(Load(a.partial, (slot,), a.private.dtype), a.private) for a in accumulators
    )
    lead = Guard(compare("eq", Iter(thread), integer(0)), stores)
    nodes: tuple[TreeNode, ...] = (
        Loop(thread, integer(0), integer(THREADS), 1, Where.BLOCK, (*first, *body, *combines, lead)),
    )
    for var, count in grid:
        nodes = (Loop(var, integer(0), integer(count), 1, Where.GRID, nodes),)
    one = Launch(f"{name}_a", "generic", labels, nodes)
    return one, _gpu_second(group, site, f"{name}_b", labels, accumulators, blocks)


def _gpu_second(
    group: Group,
    site: Site,
    name: str,
    labels: tuple[str, ...],
    accumulators: Sequence[Accumulator],
    blocks: int,
) -> Launch:
    names = site.names
    thread, block, k = names.fresh("t"), names.fresh("b"), names.fresh("k")
    where: dict[tuple[str, str], Load] = {}
    nodes: list[TreeNode] = []
    folds: list[TreeNode] = []
    combines: list[TreeNode] = []
    for a in accumulators:
        array, dtype = a.statement.target.array, a.private.dtype
        total = names.fresh(f"{array}_total")
        names.add(Buffer(total, array, dtype, (), Register()))
        where[a.key] = Load(total, (), dtype)
        nodes.append(Copy(where[a.key], _neutral(a.statement, dtype)))
        slot = Iter(k) * THREADS + Iter(thread)
        folds.append(Fold(a.op, where[a.key], Load(a.partial, (slot,), dtype)))
        combines.append(Combine(a.op, total, (thread,)))
    nodes.append(
        Loop(k, integer(0), integer(blocks // THREADS), 1, Where.SERIAL, tuple(folds))
    )
    nodes += combines
    last = _finish(group, site, accumulators, where)
    nodes.append(Guard(compare("eq", Iter(thread), integer(0)), tuple(last)))
    body: TreeNode = Loop(thread, integer(0), integer(THREADS), 1, Where.BLOCK, tuple(nodes))
    body = Loop(block, integer(0), integer(1), 1, Where.GRID, (body,))
    return Launch(name, "generic", labels, (body,))


def _cpu(
    group: Group,
    site: Site,
    name: str,
    labels: tuple[str, ...],
    updates: Sequence[Statement],
    extents: Mapping[str, Extent],
) -> tuple[Launch, Launch]:
    names = site.names
    dims = order_dims(group)
    last = dims[-1]
    extent = extents[last]
    length = tidy(extent.upper - extent.lower)
    size_of_chunk = _cpu_chunk(group, site, updates, extents)
    outer = [(dim, names.fresh(hint_of(group, dim))) for dim in dims[:-1]]
    counts = [_positive(count_of(extents[dim])) for dim, _ in outer]
    # Storage is made once, so its extents must hold for every iteration of the host loops.
    most = [_most(group, site, dim, extents[dim], count) for (dim, _), count in zip(outer, counts)]
    longest = _most(group, site, last, extent, length)
    most.append(_positive(ceil_div(longest, size_of_chunk * extent.step)))
    pieces, strands = _cpu_pieces(group, site, updates, extents)
    runs = {id: piece.where for piece in pieces for id in piece.updates}
    counts = {Where.VECTOR: strands * LANES, Where.UNROLLED: LANES, None: 1}
    accumulators = _accumulators(updates, site, tuple(most), {statement.id: counts[runs[statement.id]] for statement in updates})
    chunk = names.fresh(f"{hint_of(group, last)}b")
    point: dict[str, Expr] = {dim: value_at(extents[dim], Iter(var)) for dim, var in outer}
    chunks, low, high = in_chunks(extent, size_of_chunk, chunk)
    slots = (*(Iter(var) for _, var in outer), Iter(chunk))
    body: list[TreeNode] = []

    for a in accumulators:
        fill = partial(_filled, a)
        match runs[a.statement.id]:
            case None:
                body += fill(integer(0))
            case where:
                body += in_strands(strands if where is Where.VECTOR else 1, LANES, fill, names, where)
    first = {a.key: _lane(a, integer(0)) for a in accumulators}

    def rounds(parts: int) -> Expr:
        return (high - low) // (parts * LANES * extent.step)

    def plain(keep: tuple[int, ...], start: Expr) -> Loop:
        """The iterations from `start` on one by one, of the nodes at these positions."""
        at = names.fresh(hint_of(group, last))
        nodes = _stage_one(group, site, extents, {**point, last: Iter(at)}, first)
        return Loop(at, start, high, extent.step, Where.SERIAL, tuple(nodes[k] for k in keep))

    def turns(keep: tuple[int, ...], where: Where, parts: int, begin: Expr) -> Loop:
        """Whole rounds of so many times LANES iterations."""
        turn = names.fresh("k")

        def at(number: Expr) -> tuple[TreeNode, ...]:
            place = tidy(low + (Iter(turn) * (parts * LANES) + number) * extent.step)
            cells = {a.key: _lane(a, number) for a in accumulators}
            nodes = _stage_one(group, site, extents, {**point, last: place}, cells)
            return tuple(nodes[k] for k in keep)

        return Loop(turn, begin, rounds(parts), 1, Where.SERIAL, in_strands(parts, LANES, at, names, where))

    end = low + rounds(1) * (LANES * extent.step)
    rest: list[int] = []
    for piece in pieces:
        if piece.where is None:
            # LLVM makes vectors of these itself, as many as a machine has room for.
            body += split_inner((plain(piece.keep, low),), names.fresh)
            continue
        begin = integer(0)
        if strands > 1 and piece.where is Where.VECTOR:
            body.append(turns(piece.keep, piece.where, strands, begin))
            begin = tidy(rounds(strands) * strands)
        body.append(turns(piece.keep, piece.where, 1, begin))
        if piece.is_followed:
            body.append(plain(piece.keep, end))
        else:
            rest += piece.keep
    if rest:
        body.append(plain(tuple(sorted(rest)), end))
    for a in accumulators:
        found = Load(a.partial, slots, a.private.dtype)
        if runs[a.statement.id] is Where.VECTOR:
            whole = Update(a.statement.id, a.op, a.private, True)
            body += put_together(whole, partial(_lane, a), strands * LANES, found, names)
            continue
        if runs[a.statement.id] is Where.UNROLLED:
            lane = names.fresh("l")
            fold = Fold(a.op, first[a.key], _lane(a, Iter(lane)))
            body.append(Loop(lane, integer(1), integer(LANES), 1, Where.UNROLLED, (fold,)))
        body.append(Copy(found, first[a.key]))
    inside: tuple[TreeNode, ...] = (Loop(chunk, integer(0), chunks, 1, Where.THREAD, tuple(body)),)
    for (dim, var) in reversed(outer):
        inside = (Loop(var, integer(0), count_of(extents[dim]), 1, Where.THREAD, inside),)
    one = Launch(f"{name}_a", "generic", labels, inside)
    sizes = [*zip((var for _, var in outer), (count_of(extents[d]) for d, _ in outer)), (chunk, chunks)]
    return one, _cpu_second(group, site, f"{name}_b", labels, accumulators, sizes)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Nodes of an iteration, by position, that have a loop of their own over a chunk: whole rounds in lanes, which are run so (None: all one
    by one: sums of whole numbers, of which LLVM makes vectors itself where they have one place). `updates`: the statements in them that are reductions.
    `is_followed`: what is left of rounds comes before the next piece."""

    keep: tuple[int, ...]
    where: Where | None
    updates: set[str]
    is_followed: bool = False


def _cpu_pieces(
    group: Group, site: Site, updates: Sequence[Statement], extents: Mapping[str, Extent]
) -> tuple[list[_Piece], int]:
    """The loops over a chunk, and how many times LANES accumulators each update has."""
    trial = replace(site, names=site.names.copy())
    accumulators = _accumulators(updates, trial, (), dict.fromkeys((s.id for s in updates), LANES))
    point: dict[str, Expr] = {dim: Iter(f"@{dim}") for dim in group.dims}
    var = f"@{order_dims(group)[-1]}"
    nodes = _stage_one(group, trial, extents, point, {a.key: _lane(a, integer(0)) for a in accumulators})
    floats = {a.private.array for a in accumulators if a.private.dtype.is_float}
    summed = {statement.id for statement in updates}
    out: list[_Piece] = []
    vectors: list[tuple[int, ...]] = []

    def add(keep: tuple[int, ...], where: Where | None, is_followed: bool = False) -> None:
        found = {node.statement for node in walk_nodes(tuple(nodes[k] for k in keep)) if isinstance(node, Compute)}
        out.append(_Piece(keep, where, summed & found, is_followed))

    for part in independent_parts(nodes):
        inside = [nodes[k] for k in part]
        if not any(_adds_to(node, floats) for node in inside):
            add(part, None)
            continue
        if all(_is_at_once(node, floats) for node in inside):
            vectors.append(part)
            continue
        pieces = [tuple(part[k] for k in each) for each in consecutive_parts(inside, var, lambda node: _adds_to(node, floats))]
        for piece in pieces:
            adds = any(_adds_to(nodes[k], floats) for k in piece)
            at_once = all(_is_at_once(nodes[k], floats) for k in piece)
            add(piece, (Where.VECTOR if at_once else Where.UNROLLED) if adds else None, adds and len(pieces) > 1)
    together = sharing(vectors, nodes, var)
    for part in together:
        add(part, Where.VECTOR)
    strands = strands_of([[nodes[k] for k in part] for part in together], summed) if together else 1
    return out, strands


def _cpu_chunk(
    group: Group, site: Site, updates: Sequence[Statement], extents: Mapping[str, Extent]
) -> int:
    """How many iterations of the last dimension one partial result covers: as many as are worth it, a
    power of two. It is the same for all sizes, and with it the order."""
    trial = replace(site, names=site.names.copy())
    point: dict[str, Expr] = {dim: Iter(trial.names.fresh("at")) for dim in group.dims}
    cells = {a.key: _lane(a, integer(0)) for a in _accumulators(updates, trial, (), dict.fromkeys((s.id for s in updates), LANES))}
    fitting = CHUNK_PRICE // usual_price(tuple(_stage_one(group, trial, extents, point, cells)))
    return max(LANES, min(CHUNK, 1 << max(0, fitting.bit_length() - 1)))


def _cpu_second(
    group: Group,
    site: Site,
    name: str,
    labels: tuple[str, ...],
    accumulators: Sequence[Accumulator],
    sizes: Sequence[tuple[str, Expr]],
) -> Launch:
    names = site.names
    where: dict[tuple[str, str], Load] = {}
    nodes: list[TreeNode] = []
    for a in accumulators:
        array, dtype = a.statement.target.array, a.private.dtype
        total = names.fresh(f"{array}_total")
        names.add(Buffer(total, array, dtype, (), Register()))
        where[a.key] = Load(total, (), dtype)
        nodes.append(Copy(where[a.key], _neutral(a.statement, dtype)))
        loops = [(names.fresh(var), count) for var, count in sizes]
        slots = tuple(Iter(var) for var, _ in loops)
        inner: tuple[TreeNode, ...] = (Fold(a.op, where[a.key], Load(a.partial, slots, dtype)),)
        for var, count in reversed(loops):
            inner = (Loop(var, integer(0), count, 1, Where.SERIAL, inner),)
        nodes += inner
    nodes += _finish(group, site, accumulators, where)
    one = names.fresh("one")
    return Launch(
        name, "generic", labels, (Loop(one, integer(0), integer(1), 1, Where.THREAD, tuple(nodes)),)
    )


def _most(group: Group, site: Site, dim: str, extent: Extent, count: Expr) -> Expr:
    """`count` points of a dimension, or where that depends on host loops, at least as many as the tree's loop has in
    any of their iterations: also where those of the program have none (a range around two that are empty need not
    be)."""
    if not iterators(count):
        return count
    scope = group.scope
    assert scope is not None  # the iterators are its host loops'
    host, numbers = frozenset(loop.iterator for loop in scope.host), scope.numbers()
    statement = next(s for placed in group.members if placed.coordinates for s in placed.unit.statements)
    around = _along(statement, loop_iterations(statement, site.program, host), host)
    position = around.dim(SET)
    around = around.insert_dims(SET, position, 1).set_dim_name(SET, position, dim)
    reader, here = Reader(around.get_space()), Iter(dim)
    lower, upper = (substitute(end, numbers) for end in (extent.lower, extent.upper))
    for condition in (here >= lower, here < upper):
        holds = reader.condition(condition)
        assert holds is not None  # the ends of loops are affine
        around = around.intersect(holds)
    low, high = hull_along([around], position)
    symbols = site.program.symbols
    return _positive(tidy(value_expr(high, symbols) + 1 - value_expr(low, symbols)))


def _along(statement: Statement, iterations: Any, names: frozenset[str]) -> Any:
    """Iterations of a statement, along the loops of these names alone."""
    for position, iterator in reversed([*enumerate(statement.iterators)]):
        if iterator not in names:
            iterations = iterations.project_out(SET, position, 1)
    return iterations


def _adds_to(node: TreeNode, accumulators: set[str]) -> bool:
    """Does the node, or something inside it, update one of the accumulators?"""
    return any(isinstance(each, Compute) and each.target.array in accumulators for each in walk_nodes((node,)))


def _is_at_once(node: TreeNode, accumulators: set[str]) -> bool:
    """May lanes run the node together? A condition keeps an accumulator as it is, but is a branch for anything else."""
    if not isinstance(node, Compute):
        return False
    return node.predicate is None or (node.target.array in accumulators and not has_checks(node.predicate, node.value))


def _filled(a: Accumulator, lane: Expr) -> tuple[TreeNode, ...]:
    return (Copy(_lane(a, lane), _neutral(a.statement, a.private.dtype)),)


def _lane(a: Accumulator, lane: Expr) -> Load:
    return Load(a.private.array, (tidy(lane),), a.private.dtype)


def _positive(count: Expr) -> Expr:
    return combine("max", count, integer(0))
