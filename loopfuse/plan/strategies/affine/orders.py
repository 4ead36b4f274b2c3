"""Orders for a nest: which are legal by the exact dependences, and which is taken.

    in tiles         what a block of steps does to all other rows is a product, in tiles of registers (`tiled`)
    as it is         a permutation of the nest's dimensions, whose innermost loop is independent of itself: vectors
    split            a dimension in three, before, at and behind where it meets an outer one (k in Floyd-Warshall's i and j), where
                     that makes its parts independent
    in blocks        of an outer dimension k so many iterations together: what they make for each other first, then all rows
                     that need nothing but that, by threads, each through the whole block while it is in a cache
    together         rows of a nest in which nothing is independent, several at once, each so far behind the one before it
                     that what it needs is there
    in diagonals     tiles of two dimensions, those of a diagonal by threads
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import permutations, product
from typing import Any

from loopfuse.base.machine import Machine
from loopfuse.lang.index import TRUE
from loopfuse.lang.nodes import Expr
from loopfuse.lang.price import own_price
from loopfuse.lang.walk import iterators, walk_expr
from loopfuse.plan.mapping.strips import access_price
from loopfuse.plan.strategies.affine.space import Space, find_space, minus
from loopfuse.plan.strategies.affine.tiled import (
    COLUMN,
    IS_OTHER,
    STAGE,
    THREADS,
    TILE_COLUMN,
    TILE_ROW,
    Stage,
    Tiles,
    all_of,
    are_alone,
    find_tiles,
    stages_of,
    stays_in_sums,
)
from loopfuse.plan.units.forest import Scope, Unit, may_reorder
from loopfuse.plan.units.groups import ProgramOrder
from loopfuse.poly.isl import SET, forget
from loopfuse.poly.isl_orders import (
    Affine,
    Coordinate,
    in_time,
    moves_at,
    order_of,
    part_of,
    runs_forward,
    sides_of,
    variable_of,
    whole_rows,
)
from loopfuse.poly.isl_relations import condition_expr
from loopfuse.poly.model import Statement

BLOCK = 32
"""Iterations of an outer loop that go together through each row."""

TOGETHER = 4
"""Rows of a nest at once: so many sums of others go on while one waits for its own. More would want more pointers than there are
registers (on an EPYC Cholesky takes 1.45 times as long with 8, Livermore's 23 twice)."""

WAITING = 8
"""The same where each value takes a division or a function, for which the others wait longer (seidel-2d: 0.75 of 4)."""

SLOW = 5.0
"""Instructions in the time of such an operation, at least."""

MOST_SKEW = 3
"""How many columns a row is behind the one before it, at most."""


_ALONE = 3
"""The side of blocks that have too few rows: one by one."""


TILE = (64, 512)
"""Rows and columns of a tile of a wavefront, of two loops: some ten launches' time."""

DEEP_TILE = (32, 32)
"""The same where there are loops inside."""


OPERATIONS = 400_000
"""isl operations that the search for an order may take."""

OPERATIONS_TILED = 4_000_000
"""The same for tiles, whose loops are more to write (LU: 1.2 million, 0.4 s)."""


class Axis(enum.Enum):
    """How a dimension of an order is run."""

    HOST = "host"  # the host's loop, around launches
    PART = "part"  # parts, one after the other, in the text
    THREADS = "threads"  # by threads, where it is independent
    SERIAL = "serial"
    LANES = "vectors"  # in vectors, where it is independent
    ROWS = "rows"  # written out: several rows, each at another place


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an order: the values of its dimensions of parts, the statements that run in it, and, by dimension (of those
    that threads or vectors may take), which of them depend on an earlier iteration of which."""

    sides: tuple[int, ...]
    maps: Mapping[str, Any]
    moving: Mapping[int, frozenset[tuple[str, str]]]

    is_tiled: bool = False
    """Do its maps hold the first point of each step of tiles of registers?"""
    present: Expr = TRUE
    """Where there is such a tile, by the dimensions around those of a column."""
    columns_at: int = -1
    """The dimension that says which columns, of those that go through tiles together."""

    def is_independent(self, depth: int, ids: Collection[str]) -> bool:
        """Do iterations of a loop along the dimension, which runs these statements, depend on no others?"""
        return depth in self.moving and not any(source in ids and sink in ids for source, sink in self.moving[depth])


@dataclass(frozen=True, slots=True)
class Order:
    """`axes` with a name for each (of the loop of the program that it goes along); the last dimension of time, which has no axis,
    is the text's. `words`: the order as reports say it. `size`: how many rows go together. `whole`: dimensions
    of which no loop is cut for some statements alone. `tiles`: of registers, which some pieces run in."""

    axes: tuple[Axis, ...]
    names: tuple[str, ...]
    pieces: tuple[Piece, ...]
    words: str
    size: int = 0
    whole: frozenset[int] = frozenset()
    tiles: Tiles | None = None


@dataclass(frozen=True, slots=True)
class _Dim:
    """A dimension to be: of the space's `dim`s, the one on whose sides another lies, a block of it, or its own value."""

    axis: Axis
    dim: int
    against: int = -1
    block: int = 0


def find_orders(
    unit: Unit, scope: Scope, machine: Machine, symbols: Sequence[str], now: ProgramOrder
) -> Iterator[tuple[int, Callable[[], Order | None]]]:
    """Searches for the order that a nest is run in, the best first, each with the isl operations that it may take; None where the program's is
    as good as any. Where threads share what there is, only tiles are better; where one thread does not run a part of it in order, only
    those and vectors by threads."""
    spaces = [find_space(unit, beside) for beside in (False, True)]
    first, second = (None if space is None else _Search(unit, space, scope, machine, symbols) for space in spaces)
    if first is None:
        return
    yield OPERATIONS_TILED, first.tiled
    if second is not None and spaces[0] != spaces[1]:
        yield OPERATIONS_TILED, second.tiled
    if now is not ProgramOrder.SHARED:
        yield OPERATIONS, lambda: first.vectors() or (first.together() or first.waves() if now is ProgramOrder.ALONE else None)


def _is_slow(statement: Statement) -> bool:
    """Does the statement take a division or a function of floats?"""
    return any(own_price(part, "cpu") >= SLOW for part in walk_expr(statement.value) if part.dtype.is_float)


class _Search:
    def __init__(self, unit: Unit, space: Space, scope: Scope, machine: Machine, symbols: Sequence[str]) -> None:
        self.unit, self.space, self.scope, self.machine, self.symbols = unit, space, scope, machine, symbols
        self.texts = {statement.id: number for number, statement in enumerate(unit.statements)}
        self.by_id = {statement.id: statement for statement in unit.statements}
        self.dependences = [
            d for d in scope.touching(unit.ids) if d.source in unit.ids and d.sink in unit.ids
        ]

    # --------------------------------------------------------------------------------- tiles

    def tiled(self) -> Order | None:
        """The first legal order with tiles of registers."""
        texts = {id: self.text(id) for id in self.by_id}
        for tiles in find_tiles(self.space, self.by_id, self.machine):
            found = self.in_stages(tiles, stages_of(tiles, self.space, self.by_id, texts))
            if found is not None:
                return found
        return None

    def in_stages(self, tiles: Tiles, stages: Sequence[Stage]) -> Order | None:
        """The order of stages, where it is legal, threads share none that they are to share whose parts depend on each other, and tiles have
        what they need."""
        if not any(stage.whole for stage in stages):
            return None
        maps = all_of(stages)
        ends = [(d.source, d.sink) for d in self.dependences]
        times: list[Any] = []
        for d in self.dependences:
            times.append(in_time(d.relation, maps[d.source], maps[d.sink]))
            if not runs_forward(times[-1]):
                return None
        pieces: list[Piece] = []
        for stage in stages:
            fixed = {STAGE: stage.number}
            if any(moves_at(each, THREADS, fixed) for each in times):
                return None
            if stage.whole and not (are_alone(stage) and all(stays_in_sums(each, stage) for each in times)):
                return None
            free = {THREADS: frozenset[tuple[str, str]]()}
            lanes = [end for end, each in zip(ends, times, strict=True) if moves_at(each, COLUMN, fixed)]
            if stage.whole:
                pieces.append(Piece((stage.number, 0), stage.whole, free, True, self.present(stage)))
            moving = {**free, COLUMN: frozenset(lanes)}
            for depth, part in stage.parts(tiles):
                pieces.append(Piece((stage.number, 1), part, moving, columns_at=depth))
        steps, rows, columns = (self.space.dims[dim] for dim in tiles.dims)
        last = Axis.LANES if tiles.goes_along else Axis.SERIAL
        axes = (
            Axis.HOST, Axis.PART, Axis.THREADS, Axis.PART, Axis.SERIAL, Axis.SERIAL, Axis.PART, Axis.SERIAL, Axis.SERIAL, last,
        )  # fmt: skip
        names = (f"{steps}b", "", f"{rows}s", "", f"{columns}t", f"{rows}t", "", steps, rows, columns)
        words = (
            f"order {steps}, {rows}, {columns}; blocks of {tiles.shape.steps} {steps}; "
            f"register tiles over {rows}, {columns}; threads over {rows}"
        )
        return Order(axes, names, tuple(pieces), words, whole=frozenset((TILE_COLUMN, TILE_ROW)), tiles=tiles)

    def present(self, stage: Stage) -> Expr:
        """Where a column of tiles has one that is whole."""
        behind = TILE_COLUMN + 1
        places = reduce(lambda one, other: one.union(other), (order.range() for order in stage.whole.values()))
        places = places.project_out(SET, behind, places.dim(SET) - behind)
        for depth in (STAGE, IS_OTHER):
            places = forget(places, depth)
        places = places.coalesce()
        for depth in range(behind):
            places = places.set_dim_name(SET, depth, variable_of(depth))
        return condition_expr(places, self.symbols)

    # ------------------------------------------------------------------------------- vectors

    def vectors(self) -> Order | None:
        """The first legal order whose innermost loop goes along memory in vectors."""
        if any(self._stays_in_registers(statement) for statement in self.by_id.values()):
            return None
        count = len(self.space.dims)
        for dims in permutations(range(count)):
            if not self.goes_along(dims[-1]) or not self.is_legal(tuple(_Dim(Axis.SERIAL, dim) for dim in dims)):
                continue
            for candidate in self.candidates(dims):
                found = self.made(candidate)
                if found is not None:
                    return found
        return None

    def candidates(self, dims: Sequence[int]) -> Iterator[tuple[_Dim, ...]]:
        """Orders along a permutation, best first."""
        last = _Dim(Axis.LANES, dims[-1])
        if len(dims) == 3:
            a, b, _ = dims
            yield (
                _Dim(Axis.HOST, a, block=BLOCK), _Dim(Axis.PART, b, against=a, block=BLOCK), _Dim(Axis.THREADS, b),
                _Dim(Axis.SERIAL, a), last,
            )  # fmt: skip
            yield _Dim(Axis.HOST, a), _Dim(Axis.THREADS, b), last
            yield (
                _Dim(Axis.HOST, a), _Dim(Axis.PART, b, against=a), _Dim(Axis.THREADS, b),
                _Dim(Axis.PART, dims[-1], against=a), last,
            )  # fmt: skip

    def made(self, candidate: tuple[_Dim, ...]) -> Order | None:
        """The order, where it is legal, its innermost loop is independent wherever it is run, and threads have something."""
        maps = self.maps(candidate)
        times = self.times(maps)
        if not all(map(runs_forward, times)):
            return None
        pieces = self.pieces(candidate, maps, times)
        lanes, threads = len(candidate) - 1, next(k for k, dim in enumerate(candidate) if dim.axis is Axis.THREADS)
        wide = {id for id in self.by_id if self.space.is_full(id)}
        if not all(piece.is_independent(lanes, wide) for piece in pieces):
            return None
        if not any(piece.is_independent(threads, piece.maps) for piece in pieces if wide & piece.maps.keys()):
            return None
        return Order(tuple(dim.axis for dim in candidate), self.named(candidate), pieces, self.words(candidate))

    def goes_along(self, dim: int) -> bool:
        """Are neighbours in a dimension neighbours in memory, for all statements that have all dimensions?"""
        full = [statement for statement in self.unit.statements if self.space.is_full(statement.id)]
        return bool(full) and all(self._goes_along(statement, dim) for statement in full)

    def _stays_in_registers(self, statement: Statement) -> bool:
        """Does the statement, in the program's order, update one element in lanes, and read nothing else that changes meanwhile?"""
        if not (self.space.is_full(statement.id) and may_reorder(statement, self.scope.reassociate)):
            return False
        loads = (access.load for access in (*statement.reads, statement.write))
        return not any(statement.iterators[-1] in iterators(part) for load in loads for part in load.index)

    def _goes_along(self, statement: Statement, dim: int) -> bool:
        inner = self.space.own[statement.id][dim]
        if any(access_price(access.load, inner, "") for access in (*statement.reads, statement.write)):
            return False
        if statement.predicate is not None:
            return False
        return any(inner in iterators(part) for part in statement.write.load.index)

    # --------------------------------------------------------------------------------- waves

    def waves(self) -> Order | None:
        """Tiles of two neighbouring dimensions, those of a diagonal by threads: of inner ones where that is possible. (Skewed tiles would be
        too much to prove.)"""
        found = map(self.wave, reversed(range(len(self.space.dims) - 1)))
        return next((order for order in found if order is not None), None)

    def wave(self, rows: int) -> Order | None:
        """In each iteration of the dimensions around `rows`: diagonals of tiles, tiles, and in a tile the order of the program."""
        names = self.space.dims
        high, wide = DEEP_TILE if rows + 2 < len(names) else TILE
        maps: dict[str, Any] = {}
        for id, statement in self.by_id.items():
            values = self.space.values[id]
            tile, column = ((1, minus(values[dim], self.space.first[dim]), size) for dim, size in ((rows, high), (rows + 1, wide)))
            around, inside = ([Coordinate(((1, value, 1),)) for value in part] for part in (values[:rows], values[rows:]))
            maps[id] = order_of(statement.domain, [*around, Coordinate((tile, column)), Coordinate((tile,)), *inside, self.text(id)])
        times = self.times(maps)
        if not all(map(runs_forward, times)) or any(moves_at(each, rows + 1, {}) for each in times):
            return None
        words = (
            f"order {', '.join(names)}; tiles {high} x {wide} of {names[rows]}, {names[rows + 1]} in diagonals; "
            f"threads over {names[rows]}"
        )
        axes = (*(Axis.HOST for _ in range(rows + 1)), Axis.THREADS, *(Axis.SERIAL for _ in names[rows:]))
        labels = (*names[:rows], "wave", f"{names[rows]}t", *names[rows:])
        piece = Piece((), maps, {rows + 1: frozenset[tuple[str, str]]()})
        return Order(axes, labels, (piece,), words, whole=frozenset(range(rows + 2)))

    # ---------------------------------------------------------------------------------- rows

    def together(self) -> Order | None:
        """Rows of a nest together, with the least skew that dependences allow: of an inner dimension where that is possible."""
        count = len(self.space.dims)
        for skew in range(MOST_SKEW + 1):
            for rows in reversed(range(count - 1)):
                found = self.skewed(rows, skew)
                if found is not None:
                    return found
        return None

    def skewed(self, rows: int, skew: int) -> Order | None:
        """Blocks of the dimension `rows` around what lies inside it, each row so many iterations of the next dimension behind the
        one before it."""
        full = [statement for statement in self.unit.statements if self.space.is_full(statement.id)]
        if not any(statement.target.dtype.is_float for statement in full):
            return None  # whole numbers wait for nothing long
        maps: dict[str, Any] = {}
        plain: dict[str, Any] = {}
        count = len(self.space.dims)
        depth, size = count, self.size()
        for id, statement in self.by_id.items():
            values = [Coordinate(((1, value, 1),)) for value in self.space.values[id]]
            row, from_first = self.space.values[id][rows], minus(self.space.values[id][rows], self.space.first[rows])
            block = Coordinate(((1, from_first, size),))
            values[rows + 1] = Coordinate((*values[rows + 1].terms, (skew, row, 1)))
            number = Coordinate(((1, from_first, 1), (-size, from_first, size)))
            around, inside, one = [*values[:rows], block], values[rows + 1 :], values[rows]
            maps[id] = order_of(statement.domain, [*around, *inside, one, number, self.text(id)])
            alone = [*around, *inside[:-1], Coordinate(((1, (("", _ALONE),), 1),)), one, inside[-1], self.text(id)]
            plain[id] = order_of(statement.domain, alone)
        times = self.times(maps)
        wide = {id for id in maps if self.space.is_full(id)}
        if not all(map(runs_forward, times)) or not all(map(runs_forward, self.times(plain))):
            return None
        if any(
            moves_at(each, depth, {})
            for d, each in zip(self.dependences, times, strict=True)
            if d.source in wide and d.sink in wide
        ):
            return None
        parts = whole_rows(maps, wide, rows + 1, depth, size)
        alone = {id: plain[id].intersect_domain(order.domain()) for id, order in parts[_ALONE].items()}
        pieces = tuple(
            Piece((side,), dict(inside), {depth + 1: frozenset[tuple[str, str]]()} if side == 1 else {})
            for side, inside in enumerate((*parts[:_ALONE], alone))
            if inside
        )
        names = self.space.dims
        axes = [Axis.SERIAL] * (depth - 1)
        words = f"order {', '.join(names)}; {size} of {names[rows]} at once"
        if skew:
            words += f", each {skew} of {names[rows + 1]} behind"
        inside_names = names[rows + 1 :]
        labels = (*names[:rows], f"{names[rows]}b", *inside_names[:-1], "", inside_names[-1], names[rows])
        return Order((*axes, Axis.PART, Axis.SERIAL, Axis.ROWS), labels, pieces, words, size)

    def size(self) -> int:
        """How many rows go together."""
        full = [statement for statement in self.unit.statements if self.space.is_full(statement.id)]
        return WAITING if any(map(_is_slow, full)) else TOGETHER

    # --------------------------------------------------------------------------------- maps

    def text(self, id: str) -> Coordinate:
        """Where in the text a statement stands."""
        return Coordinate(((1, (("", self.texts[id]),), 1),))

    def is_legal(self, dims: tuple[_Dim, ...]) -> bool:
        """Does every dependence run forward?"""
        return all(map(runs_forward, self.times(self.maps(dims))))

    def maps(self, dims: tuple[_Dim, ...]) -> dict[str, Any]:
        """The order of each statement."""
        return {
            id: order_of(statement.domain, [*(self.coordinate(id, dim) for dim in dims), self.text(id)])
            for id, statement in self.by_id.items()
        }

    def coordinate(self, id: str, dim: _Dim) -> Coordinate:
        """A dimension of time of a statement."""
        values = self.space.values[id]
        value = values[dim.dim]
        if dim.axis is Axis.PART and dim.block:
            # before: i, k     after: whether i lies behind all of k's block
            behind: tuple[tuple[int, Affine, int], ...] = ((1, value, dim.block), (-1, values[dim.against], dim.block), (-1, (("", 1),), 1))
            return Coordinate(behind, 2)
        if dim.axis is Axis.PART:
            return Coordinate(((1, value, 1), (-1, values[dim.against], 1)), 3)
        return Coordinate(((1, value, max(1, dim.block)),))

    def times(self, maps: Mapping[str, Any]) -> list[Any]:
        """The dependences as pairs of times."""
        return [in_time(d.relation, maps[d.source], maps[d.sink]) for d in self.dependences]

    def pieces(self, dims: tuple[_Dim, ...], maps: Mapping[str, Any], times: Sequence[Any]) -> tuple[Piece, ...]:
        """The parts of an order, in order, and what is independent in each."""
        parts = [k for k, dim in enumerate(dims) if dim.axis is Axis.PART]
        values = [sorted({side for order in maps.values() for side in sides_of(order, k)}) for k in parts]
        asked = [k for k, dim in enumerate(dims) if dim.axis in (Axis.THREADS, Axis.LANES)]
        known: dict[tuple[int, tuple[tuple[int, int], ...]], frozenset[tuple[str, str]]] = {}
        out: list[Piece] = []
        for sides in product(*values):
            fixed = dict(zip(parts, sides, strict=True))
            inside = {id: part_of(order, fixed) for id, order in maps.items()}
            inside = {id: order for id, order in inside.items() if not order.is_empty()}
            if not inside:
                continue
            moving: dict[int, frozenset[tuple[str, str]]] = {}
            for depth in asked:
                before = tuple((k, side) for k, side in fixed.items() if k < depth)
                if (depth, before) not in known:
                    ends = ((d.source, d.sink) for d, each in zip(self.dependences, times) if moves_at(each, depth, dict(before)))
                    known[depth, before] = frozenset(ends)
                moving[depth] = known[depth, before]
            out.append(Piece(sides, inside, moving))
        return tuple(out)

    def named(self, dims: tuple[_Dim, ...]) -> tuple[str, ...]:
        """The names of the loops."""
        return tuple(f"{self.space.dims[dim.dim]}b" if dim.block else self.space.dims[dim.dim] for dim in dims)

    def words(self, dims: tuple[_Dim, ...]) -> str:
        """`order k, i, j; blocks of 32 k; threads over i; vectors over j`."""
        names = self.space.dims
        order = [names[dim.dim] for dim in dims if dim.axis is not Axis.PART and not dim.block]
        said = [f"order {', '.join(order)}"]
        said += [f"blocks of {dim.block} {names[dim.dim]}" for dim in dims if dim.block and dim.axis is not Axis.PART]
        said += [
            f"{names[dim.dim]} split at {names[dim.against]}" for dim in dims if dim.axis is Axis.PART and not dim.block
        ]
        said += [f"{dim.axis.value} over {names[dim.dim]}" for dim in dims if dim.axis in (Axis.THREADS, Axis.LANES)]
        return "; ".join(said)
