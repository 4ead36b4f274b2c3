"""What a worker runs of a product: a block of rows and columns, in tiles of registers.

    for each tile: sums = what stands before the product
    for kb: panels of columns and of rows are packed
            for each tile: registers = sums;  for k in kb: registers += f * g;  sums = registers
    for i, j of the block: what stands behind

Every sum takes its steps in the loop's own order, and goes on from what it found: which tile it is in changes no bit.
A tile at the edge of the block, where rows or columns are fewer, is as large as all: what is beyond the last row
or column is that row or column once more, in registers of its own, and goes nowhere.

Where a product has a part of its rows and columns alone (`wedge`), tiles that have nothing of it are left out, and a tile that an
edge goes through asks for each sum whether it is one: an update of vectors, of which each lane is kept or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from loopfuse.lang.index import ceil_div, conjoin
from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter, Load, combine, integer, zero
from loopfuse.lang.walk import map_expr, moved_to, substitute
from loopfuse.plan.mapping.body import Names
from loopfuse.plan.mapping.space import Extent
from loopfuse.plan.strategies.contract.product import Product, registers_of
from loopfuse.plan.strategies.contract.shape import Shape
from loopfuse.plan.strategies.contract.wedge import corners
from loopfuse.tree.looptree import (
    Buffer,
    Copy,
    Global,
    Guard,
    Home,
    LineBuffer,
    Loop,
    Register,
    TreeNode,
)
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import as_load, map_expressions

ZERO = integer(0)


@dataclass(frozen=True, slots=True)
class Place:
    """A sum of a worker's block: tile of rows `it`, row `r` of it, tile of columns `jt`, vector `u` of it, lane `v`."""

    it: Expr
    r: Expr
    jt: Expr
    u: Expr
    v: Expr


Body = Callable[[Expr], tuple[TreeNode, ...]]


@dataclass
class TileWriter:
    """Writes the nodes of the block `row_block`, `column_block`. `ends`: the ranges of rows and columns; `point`: the
    values of the other dimensions' variables."""

    product: Product
    shape: Shape
    names: Names
    ends: tuple[Extent, Extent]
    row_block: Expr
    column_block: Expr
    point: Mapping[str, Expr]
    panels: dict[Load, Callable[[Place, Expr], Load]] = field(default_factory=dict[Load, Callable[[Place, Expr], Load]])
    """Where the elements of packed operands lie, by the place and the number of the step in its panel."""

    def __post_init__(self) -> None:
        rows, columns = self.ends
        self.first_row = tidy(rows.lower + self.row_block * self.shape.block_rows)
        self.first_column = tidy(columns.lower + self.column_block * self.shape.block_columns)
        left = tidy(rows.upper - self.first_row), tidy(columns.upper - self.first_column)
        self.row_tiles = combine("min", integer(self.shape.row_tiles), ceil_div(left[0], self.shape.rows))
        self.column_tiles = combine("min", integer(self.shape.column_tiles), ceil_div(left[1], self.shape.columns))
        total, shape = self.product.total, self.shape
        self.is_array = isinstance(self.names.buffers[total.array].home, Global)
        extents = (1, shape.row_tiles, shape.rows, shape.column_tiles, shape.vectors, shape.lanes)
        self.block = self._buffer(f"{total.array}_block", total, extents, LineBuffer(1))
        self.sums = self._buffer(f"{total.array}_sums", total, (shape.rows, shape.vectors, shape.lanes), Register())
        self.masked: dict[Load, str] = {}
        if self.product.edges:
            extents = (shape.vectors, shape.lanes)
            self.found = self._buffer(f"{total.array}_found", total, extents, Register())
            for load in self.product.row_operands:
                self.masked[load] = self._buffer(f"{load.array}_row", load, (shape.rows,), Register())
            for load in self.product.column_operands:
                extents = (shape.vectors, shape.lanes)
                self.masked[load] = self._buffer(f"{load.array}_columns", load, extents, Register())
            for load in self.product.common_operands:
                self.masked[load] = self._buffer(f"{load.array}_common", load, (), Register())
        self.own: dict[str, str] = {}
        for register in registers_of(self.product, self.names.buffers):
            self.own[register.name] = self.names.fresh(register.name)
            self.names.add(replace(register, name=self.own[register.name]))

    @property
    def is_packed(self) -> bool:
        """Do panels of the operands pass by? (Else the tiles read them where they are.)"""
        return len(self.product.loops) == 1

    def nodes(self) -> tuple[TreeNode, ...]:
        """What the worker runs."""
        size = self.shape.block_rows, self.shape.block_columns
        return self._where_inside(self.first_row, self.first_column, size, self._block)

    def _block(self) -> tuple[TreeNode, ...]:
        if not self.is_packed:
            return (self._starts(), self._over_tiles(lambda it, jt: self._tile(it, jt, self._nest(it, jt))), *self._ends())
        (loop,) = self.product.loops
        lower, upper = self._at(loop.lower), self._at(loop.upper)
        blocks = ceil_div(tidy(upper - lower), self.shape.steps)

        def steps(number: Expr) -> tuple[TreeNode, ...]:
            first = tidy(lower + number * self.shape.steps)
            return self._steps(first, combine("min", upper, tidy(first + self.shape.steps)))

        return (self._starts(), self._loop(f"{loop.var}b", blocks, steps), *self._ends())

    # ---------------------------------------------------------------------------------------- edges

    def _where_inside(
        self, row: Expr, column: Expr, size: tuple[int, int], make: Callable[[], tuple[TreeNode, ...]]
    ) -> tuple[TreeNode, ...]:
        """What a tile of this size runs that begins with a row and a column, if something of it may lie inside."""
        nodes = make()
        return (Guard(conjoin(*self._corners(row, column, size, False)), nodes),) if self.product.edges else nodes

    def _corners(self, row: Expr, column: Expr, size: tuple[int, int], least: bool) -> list[Expr]:
        product = self.product
        found = corners(product.edges, (product.rows, row, size[0]), (product.columns, column, size[1]), least)
        return [self._at(condition) for condition in found]

    def _ways(
        self, it: Expr, jt: Expr, plain: Callable[[], tuple[TreeNode, ...]], masked: Callable[[], tuple[TreeNode, ...]]
    ) -> tuple[TreeNode, ...]:
        """What a tile runs: `plain` where it lies inside, `masked` where an edge goes through it."""
        if not self.product.edges:
            return plain()
        row = tidy(self.first_row + it * self.shape.rows)
        column = tidy(self.first_column + jt * self.shape.columns)
        size = self.shape.rows, self.shape.columns
        whole = conjoin(*self._corners(row, column, size, True))
        return self._where_inside(row, column, size, lambda: (Guard(whole, plain(), masked()),))

    def _point(self, place: Place) -> tuple[Expr, Expr]:
        """The row and column of a sum, whether there is one or not."""
        return tidy(self.first_row + place.it * self.shape.rows + place.r), self._whole_column(place)

    def _is_inside(self, place: Place) -> Expr:
        """Is there a row and column for the sum, inside all edges?"""
        row, column = self._point(place)
        rows, columns = self.ends
        at = {self.product.rows: row, self.product.columns: column}
        inside = [self._at(edge.at(at)) >= integer(0) for edge in self.product.edges]
        return conjoin(*inside, row < rows.upper, column < columns.upper)

    # ---------------------------------------------------------------------------------------- parts

    def _starts(self) -> TreeNode:
        """The sums of the block as the product finds them."""
        total = self.product.total

        def start(place: Place, point: tuple[Expr, Expr]) -> tuple[TreeNode, ...]:
            cell = self._sum(place)
            before = self._moved(self.product.before, point, {total: cell})
            return before if self.product.is_set_first else (Copy(cell, self._load(total, point)), *before)

        def one(place: Place) -> tuple[TreeNode, ...]:
            return start(place, (self._row(place), self._column(place)))

        def where_inside(place: Place) -> tuple[TreeNode, ...]:
            nothing = Copy(self._sum(place), zero(total.dtype))
            return (Guard(self._is_inside(place), start(place, self._point(place)), (nothing,)),)

        def tile(it: Expr, jt: Expr) -> tuple[TreeNode, ...]:
            return self._ways(
                it, jt,
                lambda: (self._over_tile(it, jt, one, Where.SERIAL),),
                lambda: (self._over_tile(it, jt, where_inside, Where.SERIAL, Where.SERIAL),),
            )  # fmt: skip

        return self._over_tiles(tile)

    def _steps(self, first: Expr, end: Expr) -> tuple[TreeNode, ...]:
        """The steps of the reduced loop from `first` to before `end`."""
        (loop,) = self.product.loops
        packed: list[TreeNode] = []
        made = {node.target for node in self.product.made}
        for load in self.product.column_operands:
            packed += self._column_panel(load, first, end)
        for load in self.product.row_operands:
            if load not in made:
                packed += self._row_panel(load, first, end)
        packed += self._made_panels(first, end)

        def tile(it: Expr, jt: Expr) -> tuple[TreeNode, ...]:
            def way(
                updates: Callable[[Expr, Expr, Mapping[str, Expr], Expr], tuple[TreeNode, ...]],
            ) -> tuple[TreeNode, ...]:
                def step(k: Expr) -> tuple[TreeNode, ...]:
                    return updates(it, jt, {loop.var: k}, tidy(k - first))

                nest = self._between(loop.var, first, end, step)
                return self._tile(it, jt, nest, is_masked=updates == self._masked_updates)

            return self._ways(it, jt, lambda: way(self._updates), lambda: way(self._masked_updates))

        return (*packed, self._over_tiles(tile))

    def _tile(self, it: Expr, jt: Expr, inside: TreeNode, is_masked: bool = False) -> tuple[TreeNode, ...]:
        """The sums of a tile are in registers while `inside` runs. `is_masked`: those outside are nothing."""

        def take(place: Place) -> tuple[TreeNode, ...]:
            register = self._register(place)
            if not is_masked:
                return (Copy(register, self._sum(place)),)
            found = Load(self.found, (place.u, place.v), register.dtype)
            keep = Guard(self._is_inside(place), (Copy(register, found),), predicated=True)
            # What is nothing was made by no update: the checker need not look for one in the blocks before.
            return (Copy(found, self._sum(place)), Copy(register, zero(register.dtype)), keep)

        return (
            self._over_tile(it, jt, take),
            inside,
            self._over_tile(it, jt, lambda place: (Copy(self._sum(place), self._register(place)),)),
        )

    def _updates(self, it: Expr, jt: Expr, steps: Mapping[str, Expr], number: Expr) -> tuple[TreeNode, ...]:
        """The update of each sum of a tile, in one step, which is that `number` of its panels."""

        def one(place: Place) -> tuple[TreeNode, ...]:
            cells = {load: at(place, number) for load, at in self.panels.items()}
            cells[self.product.total] = self._register(place)
            return self._moved((self.product.update,), (self._row(place), self._column(place)), cells, steps)

        return (self._over_tile(it, jt, one),)

    def _masked_updates(
        self, it: Expr, jt: Expr, steps: Mapping[str, Expr], number: Expr
    ) -> tuple[TreeNode, ...]:
        """The same of the sums inside. All are computed, and those outside keep what they are."""
        product = self.product

        def operand(load: Load, place: Place) -> Load:
            if load in product.common_operands:
                return Load(self.masked[load], (), load.dtype)
            if load in product.row_operands:
                return Load(self.masked[load], (place.r,), load.dtype)
            return Load(self.masked[load], (place.u, place.v), load.dtype)

        def taken(loads: Sequence[Load], place: Place) -> tuple[TreeNode, ...]:
            return tuple(Copy(operand(load, place), self.panels[load](place, number)) for load in loads)

        def one(place: Place) -> tuple[TreeNode, ...]:
            cells = {load: operand(load, place) for load in self.masked}
            cells[product.total] = self._register(place)
            update = self._moved((product.update,), self._point(place), cells, steps)
            return (Guard(self._is_inside(place), update, predicated=True),)

        def row(r: Expr) -> tuple[TreeNode, ...]:
            return taken(product.row_operands, Place(it, r, jt, ZERO, ZERO))

        return (
            *(Copy(Load(self.masked[load], (), load.dtype), self._load(load, (ZERO, ZERO), steps)) for load in product.common_operands),
            self._loop("r", integer(self.shape.rows), row, Where.UNROLLED),
            self._over_columns(lambda u, v: taken(product.column_operands, Place(it, ZERO, jt, u, v))),
            self._over_tile(it, jt, one),
        )

    def _nest(self, it: Expr, jt: Expr) -> TreeNode:
        """All reduced loops, around the updates of a tile."""

        def inside(rest: Sequence[Loop], steps: Mapping[str, Expr]) -> tuple[TreeNode, ...]:
            if not rest:
                return self._updates(it, jt, steps, ZERO)
            loop = rest[0]
            lower, upper = (tidy(substitute(self._at(end), steps)) for end in (loop.lower, loop.upper))
            return (self._between(loop.var, lower, upper, lambda k: inside(rest[1:], {**steps, loop.var: k})),)

        return inside(self.product.loops, {})[0]

    def _column_panel(self, load: Load, first: Expr, end: Expr) -> tuple[TreeNode, ...]:
        """An operand's elements for the columns of the block: of each tile, step after step."""
        shape, (loop,) = self.shape, self.product.loops
        extents = (1, shape.column_tiles, shape.steps, shape.vectors, shape.lanes)
        panel = self._buffer(f"{load.array}_panel", load, extents, LineBuffer(1))
        self.panels[load] = lambda place, k: Load(panel, (ZERO, place.jt, k, place.u, place.v), load.dtype)

        def tile(jt: Expr) -> tuple[TreeNode, ...]:
            def packed(column: Callable[[Place], Expr], lanes: Where) -> tuple[TreeNode, ...]:
                def step(k: Expr) -> tuple[TreeNode, ...]:
                    def one(u: Expr, v: Expr) -> tuple[TreeNode, ...]:
                        place = Place(ZERO, ZERO, jt, u, v)
                        source = self._load(load, (ZERO, column(place)), {loop.var: k})
                        return (Copy(self.panels[load](place, tidy(k - first)), source),)

                    return (self._over_columns(one, lanes),)

                return (self._between(loop.var, first, end, step),)

            last = tidy(self.first_column + (jt + 1) * shape.columns)
            whole = packed(self._whole_column, Where.VECTOR)
            return (Guard(last <= self.ends[1].upper, whole, packed(self._column, Where.SERIAL)),)

        return (self._loop("jt", self.column_tiles, tile),)

    def _row_panel(self, load: Load, first: Expr, end: Expr) -> tuple[TreeNode, ...]:
        """An operand's elements for the rows of the block: of each tile, step after step."""
        (loop,) = self.product.loops
        self._row_place(load)

        def one(place: Place, k: Expr) -> tuple[TreeNode, ...]:
            source = self._load(load, (self._row(place), ZERO), {loop.var: k})
            return (Copy(self.panels[load](place, tidy(k - first)), source),)

        return (self._over_rows(first, end, one),)

    def _row_place(self, load: Load) -> None:
        """A panel for an operand of which there is one for each row."""
        shape = self.shape
        extents = (1, shape.row_tiles, shape.steps, shape.rows)
        panel = self._buffer(f"{load.array}_panel", load, extents, LineBuffer(1))
        self.panels[load] = lambda place, k: Load(panel, (ZERO, place.it, k, place.r), load.dtype)

    def _over_rows(self, first: Expr, end: Expr, one: Callable[[Place, Expr], tuple[TreeNode, ...]]) -> TreeNode:
        """All rows of the block, in the order of their panels."""
        (loop,) = self.product.loops

        def tile(it: Expr) -> tuple[TreeNode, ...]:
            def step(k: Expr) -> tuple[TreeNode, ...]:
                return (self._loop("r", integer(self.shape.rows), lambda r: one(Place(it, r, ZERO, ZERO, ZERO), k)),)

            return (self._between(loop.var, first, end, step),)

        return self._loop("it", self.row_tiles, tile)

    def _made_panels(self, first: Expr, end: Expr) -> tuple[TreeNode, ...]:
        """What the innermost loop sets for all columns at once, for the rows of the block."""
        (loop,) = self.product.loops
        if not self.product.made:
            return ()
        for node in self.product.made:
            self._row_place(node.target)

        def one(place: Place, k: Expr) -> tuple[TreeNode, ...]:
            cells = {node.target: self.panels[node.target](place, tidy(k - first)) for node in self.product.made}
            return self._moved(self.product.made, (self._row(place), ZERO), cells, {loop.var: k})

        return (self._over_rows(first, end, one),)

    def _ends(self) -> tuple[TreeNode, ...]:
        """What stands behind the product, for the rows and columns that there are."""
        shape = self.shape
        rows, columns = self.ends
        end = combine("min", rows.upper, tidy(self.first_row + shape.block_rows))
        last = combine("min", columns.upper, tidy(self.first_column + shape.block_columns))

        def row(i: Expr) -> tuple[TreeNode, ...]:
            away = tidy(i - self.first_row)
            it, r = away // shape.rows, away % shape.rows
            if self.is_packed:

                def column(j: Expr) -> tuple[TreeNode, ...]:
                    return self._end(i, j, it, r, None, tidy(j - self.first_column))

                return self._columns_inside(i, last, column)
            r = tidy(i - self._first_row_of(it))

            def tile(jt: Expr) -> tuple[TreeNode, ...]:
                lower = tidy(self.first_column + jt * shape.columns)
                upper = combine("min", columns.upper, tidy(lower + shape.columns))
                start = self._first_column_of(jt)
                return (self._between("j", lower, upper, lambda j: self._end(i, j, it, r, jt, tidy(j - start))),)

            return (self._loop("jt", self.column_tiles, tile),)

        return (self._between("i", self.first_row, end, row),)

    def _columns_inside(self, row: Expr, last: Expr, body: Body) -> tuple[TreeNode, ...]:
        """A loop over the block's columns of a row, from its first to before `last`, that lie inside."""
        lower, upper, holds = self.first_column, last, list[Expr]()
        for edge in self.product.edges:
            rest = self._at(edge.at({self.product.rows: row, self.product.columns: ZERO}))
            if edge.column > 0:
                lower = combine("max", lower, tidy(0 - rest))
            elif edge.column < 0:
                upper = combine("min", upper, tidy(rest + 1))
            else:
                holds.append(rest >= ZERO)
        loop = self._between("j", lower, upper, body)
        return (Guard(conjoin(*holds), (loop,)),) if holds else (loop,)

    def _end(self, i: Expr, j: Expr, it: Expr, r: Expr, jt: Expr | None, c: Expr) -> tuple[TreeNode, ...]:
        """What stands behind the product for row `i` and column `j`: row `r` of tile `it`, and column `c` of tile `jt`
        (None: of all tiles)."""
        shape, product = self.shape, self.product
        vector = c // shape.lanes
        u = vector if jt is not None else vector % shape.vectors
        cell = self._sum(Place(it, r, vector // shape.vectors if jt is None else jt, u, c % shape.lanes))
        mirrored = product.mirrored or ()
        after = product.after[: len(product.after) - len(mirrored)]
        nodes, rest = (self._moved(each, (i, j), {product.total: cell}) for each in (after, mirrored))
        if not self.is_array:
            return (*nodes, *rest)
        back: TreeNode = Copy(self._load(product.total, (i, j)), cell)
        if product.is_only_added_to:  # perhaps nothing is
            back = Guard(conjoin(*(self._at(loop.lower) < self._at(loop.upper) for loop in product.loops)), (back,))
        return (*nodes, back, *rest)

    # ------------------------------------------------------------------------------------------ places

    def _row(self, place: Place) -> Expr:
        """The row; where there is none the last one, or, where operands are read as they lie, another of the block."""
        if not self.is_packed:
            return tidy(self._first_row_of(place.it) + place.r)
        number = tidy(self.first_row + place.it * self.shape.rows + place.r)
        return combine("min", number, tidy(self.ends[0].upper - 1))

    def _first_row_of(self, it: Expr) -> Expr:
        """The first row of a tile that ends with the last row, where it would go beyond."""
        return combine("min", tidy(self.first_row + it * self.shape.rows), tidy(self.ends[0].upper - self.shape.rows))

    def _first_column_of(self, jt: Expr) -> Expr:
        first = tidy(self.first_column + jt * self.shape.columns)
        return combine("min", first, tidy(self.ends[1].upper - self.shape.columns))

    def _whole_column(self, place: Place) -> Expr:
        """The column, in a tile that has all."""
        number = place.jt * self.shape.columns + place.u * self.shape.lanes + place.v
        return tidy(self.first_column + number)

    def _column(self, place: Place) -> Expr:
        """The column, as `_row` has the row."""
        if not self.is_packed:
            return tidy(self._first_column_of(place.jt) + place.u * self.shape.lanes + place.v)
        return combine("min", self._whole_column(place), tidy(self.ends[1].upper - 1))

    def _sum(self, place: Place) -> Load:
        return Load(self.block, (ZERO, place.it, place.r, place.jt, place.u, place.v), self.product.total.dtype)

    def _register(self, place: Place) -> Load:
        return Load(self.sums, (place.r, place.u, place.v), self.product.total.dtype)

    # ------------------------------------------------------------------------------------------- nodes

    def _buffer(self, name: str, like: Load, extents: Sequence[int], home: Home) -> str:
        """A new buffer for values of what `like` reads; its name."""
        name = self.names.fresh(name)
        array = self.names.buffers[like.array].array
        self.names.add(Buffer(name, array, like.dtype, tuple(map(integer, extents)), home))
        return name

    def _at(self, expr: Expr) -> Expr:
        return tidy(substitute(expr, self.point))

    def _moved(
        self,
        nodes: Sequence[TreeNode],
        point: tuple[Expr, Expr],
        cells: Mapping[Load, Load],
        steps: Mapping[str, Expr] | None = None,
    ) -> tuple[TreeNode, ...]:
        """Nodes of the product for a row and a column, with what lies in a cell read and written there."""
        values = {**self.point, self.product.rows: point[0], self.product.columns: point[1], **(steps or {})}

        def one(expr: Expr) -> Expr:
            if not isinstance(expr, Load):
                return expr
            return replace(expr, array=self.own[expr.array]) if expr.array in self.own else expr

        # A cell's own subscripts are in the tree's variables already.
        marks = {load: replace(load, array=f"@{number}", index=()) for number, load in enumerate(cells)}
        back = {marks[load]: cell for load, cell in cells.items()}

        def change(expr: Expr) -> Expr:
            return moved_to(tidy(substitute(map_expr(one, moved_to(expr, marks)), values)), back)

        return map_expressions(nodes, change)

    def _load(self, load: Load, point: tuple[Expr, Expr], steps: Mapping[str, Expr] | None = None) -> Load:
        """The element for a row and a column."""
        (moved,) = self._moved((Copy(load, load),), point, {}, steps)
        assert isinstance(moved, Copy)
        return as_load(moved.value)

    def _between(self, hint: str, lower: Expr, upper: Expr, body: Body, where: Where = Where.SERIAL) -> Loop:
        var = self.names.fresh(hint.removeprefix("@"))
        return Loop(var, lower, upper, 1, where, body(Iter(var)))

    def _loop(self, hint: str, count: Expr, body: Body, where: Where = Where.SERIAL) -> Loop:
        return self._between(hint, ZERO, count, body, where)

    def _over_tiles(self, body: Callable[[Expr, Expr], tuple[TreeNode, ...]]) -> Loop:
        """All tiles of the block; those of rows inside, so that the columns of one stay in the first cache."""

        def column(jt: Expr) -> tuple[TreeNode, ...]:
            return (self._loop("it", self.row_tiles, lambda it: body(it, jt)),)

        return self._loop("jt", self.column_tiles, column)

    def _over_columns(
        self, body: Callable[[Expr, Expr], tuple[TreeNode, ...]], lanes: Where = Where.VECTOR
    ) -> Loop:
        vectors = Where.UNROLLED if lanes is Where.VECTOR else Where.SERIAL

        def vector(u: Expr) -> tuple[TreeNode, ...]:
            return (self._loop("v", integer(self.shape.lanes), lambda v: body(u, v), lanes),)

        return self._loop("u", integer(self.shape.vectors), vector, vectors)

    def _over_tile(
        self,
        it: Expr,
        jt: Expr,
        body: Callable[[Place], tuple[TreeNode, ...]],
        rows: Where = Where.UNROLLED,
        lanes: Where = Where.VECTOR,
    ) -> Loop:
        """All places of a tile: its rows, and of each the vectors."""

        def row(r: Expr) -> tuple[TreeNode, ...]:
            return (self._over_columns(lambda u, v: body(Place(it, r, jt, u, v)), lanes),)

        return self._loop("r", integer(self.shape.rows), row, rows)
