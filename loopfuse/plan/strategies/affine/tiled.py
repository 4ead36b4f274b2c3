"""Products behind a block: an order in which what a block of steps does to all other rows runs in tiles of registers.

    for kb:  rows of the block, and columns of it, as they need each other
             for tiles of the other rows and columns:  sums in registers;  for k in kb: sums -= A[i, k] * A[k, j];  sums back

Of a nest of three dimensions one is the *steps*: no update's target moves with it. In turn, for each block of steps: rows before
the block (trmm), its own rows, rows behind it (factorisations, triangular systems); where columns are counted as steps are, those of
the block before those outside it. Tiles that are whole, in rows and columns of each of their steps, are found as sets; what is left runs
point by point in its tile's place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import permutations
from typing import Any

from loopfuse.base.machine import Machine
from loopfuse.lang.linear import linear
from loopfuse.lang.walk import iterators, loads, subscript_iterators
from loopfuse.plan.mapping.strips import access_price
from loopfuse.plan.mapping.updates import is_cheap
from loopfuse.plan.strategies.affine.space import Space
from loopfuse.poly.isl import IN, OUT, SET
from loopfuse.poly.isl_orders import Affine, Coordinate, order_of, part_of, whole_tiles
from loopfuse.poly.isl_relations import equate
from loopfuse.poly.model import Statement

BLOCK = 32
"""Steps of a block."""

VECTORS = 2
"""Vectors of a row of a tile."""
FEW_ROWS, ROWS = 4, 8
"""Rows of a tile, with 16 vector registers and with more."""

STRIP_ROWS = 64
"""Rows that a thread takes at a time through tiles: so often a packed panel of columns is used."""
STRIP_COLUMNS = 64
"""Columns that a thread takes at a time through the rows of a block."""
PANEL_ROWS = 32
"""Rows that a thread takes at a time through the columns of a block."""

STAGE, THREADS, IS_OTHER, TILE_COLUMN, TILE_ROW, IS_CUT, STEP, ROW, COLUMN = range(1, 10)
"""Dimensions of time, behind that of blocks: which region, what a thread takes of it, whether it is no update; tiles by columns and rows,
and whether not all of one is there; and in a tile the steps, rows and columns (where not all is there: rows, columns and steps)."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A tile of registers, in elements, and how many steps go through it together."""

    rows: int
    vectors: int
    lanes: int
    steps: int

    @property
    def columns(self) -> int:
        """Columns of a tile."""
        return self.vectors * self.lanes


def shape_of(machine: Machine, bytes: int) -> Shape | None:
    """The tile for sums of so many bytes; None where vectors have hardly any."""
    lanes = machine.vector // bytes
    if not 2 <= lanes <= BLOCK // VECTORS:
        return None
    return Shape(ROWS if machine.vector_registers > 16 else FEW_ROWS, VECTORS, lanes, BLOCK)


@dataclass(frozen=True, slots=True)
class Update:
    """A statement that adds to a sum in each step: its iterators that go along steps, rows and columns. `turned`: rows count down."""

    step: str
    row: str
    column: str
    turned: bool


def find_update(statement: Statement, space: Space, dims: tuple[int, int, int]) -> Update | None:
    """The update that a statement is with these dimensions as steps, rows and columns; None where it is none: its sum is at one place in
    all steps, of the operands none moves with rows and columns both, and columns are neighbours in memory."""
    step, row, column = (space.own[statement.id][dim] for dim in dims)
    target, every = statement.target, loads(statement.value)
    if statement.predicate is not None or every.count(target) != 1 or not is_cheap(statement.value):
        return None
    if any(load.mode or load.swapped or any(linear(part) is None for part in load.index) for load in (target, *every)):
        return None
    *outer, last = target.index
    if step in subscript_iterators(target) or any(column in iterators(part) for part in outer):
        return None
    signs = [dict(space.values[statement.id][dim]).get(own) for dim, own in zip(dims, (step, row, column), strict=True)]
    if (linear(last) or {}).get(column) != 1 or signs[2] != 1 or row not in subscript_iterators(target):
        return None
    along = [subscript_iterators(load) & {row, column} for load in every if load != target]
    if any(len(each) == 2 for each in along) or not all(frozenset((own,)) in along for own in (row, column)):
        return None
    return Update(step, row, column, signs[1] == -1)


@dataclass(frozen=True, slots=True)
class Tiles:
    """Which dimensions might be steps, rows and columns (`dims`, of those that have these `names`). `regions`: what runs one after the
    other. `goes_along`: what each update reads goes along columns in memory, or does not move with them."""

    names: tuple[str, ...]
    dims: tuple[int, int, int]
    regions: tuple[Region, ...]
    goes_along: bool
    shape: Shape
    updates: Mapping[str, Update]


def find_tiles(space: Space, statements: Mapping[str, Statement], machine: Machine) -> Iterator[Tiles]:
    """The dimensions that might be steps, rows and columns."""
    full = {id: statement for id, statement in statements.items() if space.is_full(id)}
    if len(space.dims) != 3 or not full or any(not s.target.index for s in full.values()):
        return
    if not any(load.array == s.target.array and load != s.target for s in full.values() for load in loads(s.value)):
        return  # a product of other arrays needs no order
    sizes = {statement.target.dtype.bytes for statement in full.values()}
    shape = shape_of(machine, max(sizes))
    if shape is None or len(sizes) > 1:
        return
    for one, two, three in permutations(range(3)):
        dims = (one, two, three)
        found = {id: find_update(statement, space, dims) for id, statement in full.items()}
        updates = {id: update for id, update in found.items() if update is not None}
        if len(updates) < len(found):
            continue
        along = all(_goes_along(full[id], update.column) for id, update in updates.items())
        for regions in (PLAIN, ROWS_APART, SQUARE):
            yield Tiles(space.dims, dims, regions, along, shape, updates)


def _goes_along(statement: Statement, column: str) -> bool:
    return not any(access_price(access.load, column, "") for access in (*statement.reads, statement.write))


BEFORE, INSIDE, BEHIND = range(3)
"""On which side of a block of steps."""


@dataclass(frozen=True, slots=True)
class Region:
    """A stage of a block: on which sides of it rows and columns are, and who runs that."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    """None: on any, also of `rows`."""
    runs: str
    """`tiles`, `rows` (by threads, each all its columns), `columns` (by threads, each all rows) or `one` thread."""


PLAIN = (Region((BEFORE,), (), "tiles"), Region((INSIDE,), (), "columns"), Region((BEHIND,), (), "tiles"))
"""Where columns are counted by themselves."""
ROWS_APART = (Region((), (INSIDE,), "rows"), Region((), (BEFORE, BEHIND), "tiles"))
"""Where rows are, and columns as steps are."""
SQUARE = tuple(
    region
    for rows, panel, rest in ((BEFORE, "rows", "tiles"), (INSIDE, "one", "columns"), (BEHIND, "rows", "tiles"))
    for region in (Region((rows,), (INSIDE,), panel), Region((rows,), (BEFORE, BEHIND), rest))
)
"""Where both are counted as steps are."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What of each statement runs in a region, in its order: `maps`; of those that run in tiles, what of that stands for whole ones: the
    first point of each step."""

    number: int
    region: Region
    maps: Mapping[str, Any]
    whole: Mapping[str, Any]

    def parts(self, tiles: Tiles) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """What keeps its sums in registers, in tiles, and what does not, each with the dimension that says which columns."""
        in_registers = self.region.runs == "tiles" or (self.region.runs == "one" and not tiles.goes_along)
        inside = {id for id in self.maps if in_registers and id in tiles.updates}
        for depth, ids in ((TILE_COLUMN, inside), (ROW, self.maps.keys() - inside)):
            if ids:
                yield depth, {id: order for id, order in self.maps.items() if id in ids}


def stages_of(
    tiles: Tiles, space: Space, statements: Mapping[str, Statement], texts: Mapping[str, Coordinate]
) -> tuple[Stage, ...]:
    """The stages of a candidate."""
    steps, rows, columns = tiles.dims
    shape = tiles.shape
    out: list[Stage] = []
    for number, region in enumerate(tiles.regions):
        maps: dict[str, Any] = {}
        whole: dict[str, Any] = {}
        for id, statement in statements.items():
            step, row, column = (space.values[id][dim] for dim in (steps, rows, columns))
            domain = _inside(statement.domain, region, step, row, column)
            if domain.is_empty():
                continue
            thread = {
                "tiles": _quotient(row, STRIP_ROWS), "rows": _quotient(row, PANEL_ROWS), "columns": _quotient(column, STRIP_COLUMNS),
                "one": _constant(0),
            }[region.runs]  # fmt: skip
            at = [_quotient(step, BLOCK), _constant(number), thread]
            inside = [_value(step), _value(row), _value(column), texts[id]]
            if region.runs != "tiles" or id not in tiles.updates:
                if region.runs == "one" and not tiles.goes_along:
                    way = [row, column, row, column, step]  # a sum at a time, in a register
                elif region.runs == "rows":
                    way = [step, row, step, None, column]  # rows at each step, of which each waits for a division of its own
                else:
                    way = [row, step, step, None, column]
                part = _quotient(column, shape.columns)
                first, second, third, fourth, last = (part if each is None else _value(each) for each in way)
                maps[id] = order_of(domain, [*at, _constant(1), first, second, _constant(1), third, fourth, last, texts[id]])
                continue
            at += [_constant(0), _quotient(column, shape.columns), _quotient(row, shape.rows)]
            maps[id] = order_of(domain, [*at, _constant(1), _value(row), _value(column), _value(step), texts[id]])
            places = order_of(domain, [*at, _value(step), _remainder(row, shape.rows), _remainder(column, shape.columns)])
            every = whole_tiles(places.range(), (shape.rows, shape.columns)).add_dims(SET, 2)
            places = places.intersect_range(every)
            if not places.is_empty():
                first = places.fix_val(OUT, places.dim(OUT) - 1, 0).fix_val(OUT, places.dim(OUT) - 2, 0)
                whole[id] = order_of(first.domain().coalesce(), [*at, _constant(0), *inside])
        if maps:
            out.append(Stage(number, region, maps, whole))
    return tuple(out)


def _inside(domain: Any, region: Region, step: Affine, row: Affine, column: Affine) -> Any:
    """The points of a region."""
    for value, where in ((row, region.rows), (column, region.columns)):
        if not where:
            continue
        parts = [_on_side(domain, value, step, each) for each in where]
        domain = reduce(lambda one, other: one.union(other), parts)
    return domain.coalesce()


def _on_side(domain: Any, value: Affine, step: Affine, side: int) -> Any:
    """The points where a value is before, inside or behind the block of a step."""
    from_first = (1, value, 1), (-BLOCK, step, BLOCK)
    first, last = Coordinate(from_first, 2), Coordinate((*from_first, (-BLOCK, (("", 1),), 1)), 2)
    for bound, is_behind in ((first, side != BEFORE), (last, side == BEHIND)):
        domain = part_of(order_of(domain, [bound]), {0: int(is_behind)}).domain()
    return domain


def _constant(value: int) -> Coordinate:
    return Coordinate(((1, (("", value),), 1),))


def _value(value: Affine) -> Coordinate:
    return Coordinate(((1, value, 1),))


def _quotient(value: Affine, size: int) -> Coordinate:
    return Coordinate(((1, value, size),))


def _remainder(value: Affine, size: int) -> Coordinate:
    return Coordinate(((1, value, 1), (-size, value, size)))


# ------------------------------------------------------------------------------------- legality


def all_of(stages: Sequence[Stage]) -> dict[str, Any]:
    """The order of each statement."""
    found: dict[str, Any] = {}
    for stage in stages:
        for id, order in stage.maps.items():
            found[id] = found[id].union(order) if id in found else order
    return found


def stays_in_sums(times: Any, stage: Stage) -> bool:
    """Does no sum of a tile need another of the tiles of its columns in the same block? (Else what they read would not lie still.)"""
    for position, value in ((STAGE, stage.number), (IS_OTHER, 0)):
        times = times.fix_val(IN, position, value)
    same = equate(times, [(k, k) for k in range(TILE_COLUMN + 1)])
    return bool(same.is_subset(equate(same, [(STEP, STEP), (ROW, ROW)])))


def are_alone(stage: Stage) -> bool:
    """Is what is a whole tile of one update no place of another's?"""
    places = {id: order.range().project_out(SET, IS_CUT, order.dim(OUT) - IS_CUT) for id, order in stage.maps.items()}
    whole = {id: order.range().project_out(SET, IS_CUT, order.dim(OUT) - IS_CUT) for id, order in stage.whole.items()}
    return all(one.is_disjoint(other) for id, one in whole.items() for name, other in places.items() if name != id)
