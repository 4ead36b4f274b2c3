"""Strategy `pointwise`, GPU: every access is the point itself, or a distance from it along the contiguous
dimension that all points have (`x[d + D//2]`), or does not move along that dimension; so a thread takes 16
consecutive bytes of every array at a time.

The wide path needs 16-byte aligned arrays whose rows are whole vectors (a single row may be of
any length), and distances that are; it is chosen once per call, and the other path covers the same block with
neighbouring threads on neighbouring elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from loopfuse.base.dtypes import DType
from loopfuse.base.machine import ACCESS
from loopfuse.lang.index import TRUE, ceil_div, conjoin
from loopfuse.lang.linear import constant_value, linear_form, tidy
from loopfuse.lang.nodes import Binary, Const, Expr, Iter, Load, compare, integer
from loopfuse.lang.walk import iterators, walk_expr
from loopfuse.plan.mapping.body import guard_of, host_conditions
from loopfuse.plan.mapping.space import (
    Site,
    count_of,
    dim_extents,
    hint_of,
    known_of,
    order_dims,
    value_at,
)
from loopfuse.plan.mapping.threads import thread_body
from loopfuse.plan.strategies.generic.generic import BLOCK, TILE
from loopfuse.plan.strategies.pointwise.columns import find_columns
from loopfuse.plan.units.forest import carries_nothing
from loopfuse.plan.units.groups import Group, Legality
from loopfuse.plan.units.recompute import Resolver, TooMany
from loopfuse.poly.model import Access, Statement
from loopfuse.tree.looptree import ALIGNED, Guard, Launch, Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import walk_nodes

PIECES = 2
"""Vectors of each array that a thread takes, where there is one row."""
SHORT_TILE = (8, 32)
"""Threads along short rows, and how many of those a block has: 128 bytes of each at once."""
WRITTEN_OUT = 512
"""Reads and writes, once for each element of a vector, up to which elements are written out."""
PAIRS = 96
"""The same up to which rows of two-byte elements that start anywhere move in pairs."""
ENDS = 80
"""The same for the ends of rows, which are written out once for each length."""


def fits_pointwise(group: Group, site: Site) -> bool:
    """Has the group the form, on a GPU, and do 16 bytes hold several elements?"""
    return site.device == "gpu" and has_pointwise_form(group, site) and vector_width(group, site) > 1


def has_pointwise_form(group: Group, site: Site) -> bool:
    """Every statement is at full depth over unshifted dimensions starting at zero, and every
    access either is contiguous along the last dimension or ignores it."""
    if group.legality is not Legality.INDEPENDENT or group.scope is None or not group.dims:
        return False
    last = order_dims(group)[-1]
    extents = dim_extents(group, site.program)
    for placed in group.members:
        if not carries_nothing(placed.unit, group.scope):
            return False
        c = placed.coordinate(last)
        if c.sign != 1 or c.parameters or c.constant:
            return False
        loop = next(loop for loop in placed.unit.common if loop.iterator == c.iterator)
        if loop.lower != integer(0) or loop.step != 1 or iterators(loop.upper):
            return False
        known = known_of(group, placed, extents) + host_conditions(group)
        for s in placed.unit.statements:
            if not _is_plain(s, c.iterator, site) or c.iterator in iterators(guard_of(s, known, site.program)):
                return False
    if not _recomputes_in_place(group, site, last):
        return False
    # A view's neighbours may lie apart.
    names = site.names
    return not any(
        name in names.strided and not names.rows.get(name, 0) for name in arrays_along(group, site)
    )


def _recomputes_in_place(group: Group, site: Site, last: str) -> bool:
    """Every recomputed value is of the point's own column, or of none."""
    resolver = Resolver(site.program, group)
    for placed in group.members:
        at = {c.iterator: c.value() for c in placed.coordinates}
        for s in placed.unit.statements:
            point: dict[str, Expr] = {name: at.get(name, Iter(name)) for name in s.iterators}
            try:
                values = resolver.closure(s, point)
            except TooMany:
                return False
            for value in values:
                producer = resolver.statements[value.statement]
                if value.needed != TRUE:
                    return False
                for iterator, where in zip(producer.iterators, value.iteration):
                    if last not in iterators(where):
                        continue
                    if where != Iter(last) or not _is_plain(producer, iterator, site):
                        return False
    return True


def _is_plain(statement: Statement, iterator: str, site: Site) -> bool:
    """Along `iterator`, every access of the statement is contiguous, unshifted, or constant. On a GPU
    it writes every element, as whole vectors do."""
    if statement.predicate is not None and site.device == "gpu":
        return False
    if len(statement.write.parts) != 1:
        return False
    for access in (*statement.reads, statement.write):
        if len(access.parts) != 1:
            return False
        index = access.load.index
        if not index:
            continue
        if any(iterator in iterators(each) for each in index[:-1]):
            return False
        if iterator in iterators(index[-1]) and distance(index[-1], iterator) is None:
            return False
    return True


def distance(index: Expr, iterator: str) -> Expr | None:
    """How far from the point an access is, of which this is the last index: the same for all points of the nest, and
    not a number (neighbours are read by `sliding`)."""
    constant, terms = linear_form(index)
    others = [(atom, count) for atom, count in terms if atom != Iter(iterator)]
    if (Iter(iterator), 1) not in terms or (constant and not others):
        return None
    if any(iterators(atom) or any(isinstance(node, Load) for node in walk_expr(atom)) for atom, _ in others):
        return None
    return sum((atom * count for atom, count in others), integer(constant))


def distances(group: Group, site: Site) -> tuple[Expr, ...]:
    """The distances that arrays in memory are accessed at, besides 0."""
    found = [distance(access.load.index[-1], iterator) or integer(0) for access, iterator in _moving(group, site)]
    return tuple(rest for rest in dict.fromkeys(found) if rest != integer(0))


def arrays_along(group: Group, site: Site) -> list[str]:
    """Arrays of the group that live in memory and move along the last dimension."""
    return list(dict.fromkeys(access.array for access, _ in _moving(group, site)))


def _moving(group: Group, site: Site) -> Iterator[tuple[Access, str]]:
    """The accesses to memory that move along the last dimension, and the iterator that moves them."""
    last = order_dims(group)[-1]
    for placed in group.members:
        iterator = placed.coordinate(last).iterator
        for s in placed.unit.statements:
            for access in (*s.reads, s.write):
                index = access.load.index
                if index and iterator in iterators(index[-1]) and site.stores[access.array].home == "global":
                    yield access, iterator


def vector_width(group: Group, site: Site) -> int:
    """Elements a thread takes: 16 bytes of the widest array."""
    arrays = arrays_along(group, site)
    widest = max((site.program.arrays[name].dtype.bytes for name in arrays), default=16)
    return max(1, ACCESS // widest)


def plan_pointwise(group: Group, site: Site, name: str, labels: tuple[str, ...]) -> Launch:
    """The launch of a group that `fits_pointwise`."""
    return _Block(group, site, TILE).launch(name, labels)


def plan_short(group: Group, site: Site, name: str, labels: tuple[str, ...]) -> Launch:
    """The same for short rows."""
    return _Block(group, site, SHORT_TILE).launch(name, labels)


def short_rows(group: Group, site: Site) -> tuple[Expr, int] | None:
    """The length of rows, and up to how many elements so many threads as TILE has along one would mostly idle; None
    where all dimensions run as one, or where it is known that they would not."""
    width = vector_width(group, site)
    columns = find_columns(group, site, dim_extents(group, site.program), width)
    if columns.inner or columns.is_one_row:
        return None
    return columns.count, SHORT_TILE[0] * width * 2


class _Block:
    """What a block of threads computes: of one row, `PIECES` vectors a thread; else one vector a
    thread in each of several rows. (Two keep more loads under way and halve what a thread spends on
    finding its place; where rows of several arrays are read, one is enough.)"""

    def __init__(self, group: Group, site: Site, tile: tuple[int, int]) -> None:
        self.group, self.site = group, site
        self.width = vector_width(group, site)
        self.extents = dim_extents(group, site.program)
        self.columns = find_columns(group, site, self.extents, self.width)
        self.upper, each = self.columns.count, self.columns.elements
        rows = [dim for dim in self.columns.rows if dim not in self.columns.ones]
        statements = [s for placed in group.members for s in placed.unit.statements]
        accesses = sum(len(s.reads) + 1 for s in statements)
        self.is_short = accesses * self.width * each <= WRITTEN_OUT
        self.has_ends = bool(rows) and each == 1 and accesses * self.width <= ENDS
        self.pieces = PIECES if self.is_short and not rows and each == 1 else each
        self.threads = tile[0] if rows else BLOCK
        self.across = self.threads * self.width * self.pieces // each
        self.point: dict[str, Expr] = {}
        self.rows: list[Expr] = []  # what holds where the thread's row is one of the loops'
        self.grid: list[tuple[str, Expr]] = []
        self.block: list[tuple[str, Expr]] = []
        names = site.names
        for dim in self.columns.rows:
            count = count_of(self.extents[dim])
            var = names.fresh(hint_of(group, dim))
            number: Expr = Iter(var)
            if dim in rows[-1:]:
                thread = names.fresh(f"{var}t")
                self.grid.append((var, ceil_div(count, tile[1])))
                self.block.append((thread, integer(tile[1])))
                number = number * tile[1] + Iter(thread)
            else:
                self.grid.append((var, count))
            self.point[dim] = value_at(self.extents[dim], number)
            if dim in rows[-1:]:
                self.rows.append(self.point[dim] < self.extents[dim].upper)
        self.has_pairs = self._has_pairs(rows, accesses)
        x = hint_of(group, self.columns.dim)
        xb, xt = names.fresh(f"{x}b"), names.fresh(f"{x}t")
        end = self.upper
        if self.has_pairs:  # which begin a column earlier
            end = end + end % 2
        self.grid.append((xb, ceil_div(end, self.across)))
        self.block.append((xt, integer(self.threads)))
        self.base, self.thread = Iter(xb) * self.across, Iter(xt)

    def _has_pairs(self, rows: list[str], accesses: int) -> bool:
        """Do rows of two-byte elements that start anywhere lie in pairs of them, of four bytes?"""
        columns, arrays = self.columns, self.site.program.arrays
        if self.width != ACCESS // 2 or len(rows) != 1 or columns.ones or columns.inner:
            return False
        if accesses * self.width > PAIRS or not columns.whole(2):
            return False
        return all(
            columns.is_row_of(arrays[name]) and arrays[name].dtype.bytes == 2
            and len(arrays[name].extents) + len(self.site.stores[name].leading) <= 2
            for name in arrays_along(self.group, self.site)
        )  # fmt: skip

    def launch(self, name: str, labels: tuple[str, ...]) -> Launch:
        """The whole launch."""
        wide, nodes = self._pieces(self._wide), self._pieces(self._narrow)
        if self.has_pairs:
            rest = self.upper % 2
            row = self.point[self.columns.rows[-1]]
            for left, shift in ((1, row % 2), (0, integer(0))):
                start = conjoin(ALIGNED, compare("eq", rest, integer(left)))
                nodes = (Guard(start, self._in_pairs(tidy(shift)), nodes),)
        nodes = (Guard(self._aligned(), wide, nodes),)
        for var, count in reversed(self.block):
            nodes = (Loop(var, integer(0), count, 1, Where.BLOCK, nodes),)
        for var, count in reversed(self.grid):
            nodes = (Loop(var, integer(0), count, 1, Where.GRID, nodes),)
        # The ends of rows are loops too, of a few turns that are known here.
        straight = not any(
            isinstance(node, Loop) and node.mapping is Where.SERIAL and constant_value(node.upper) is None
            for node in walk_nodes(nodes)
        )
        return Launch(name, "pointwise", labels, nodes, is_straight=straight)

    def _aligned(self) -> Expr:
        """Aligned arrays, and every row a whole number of vectors; of a single row the last vector
        may be a part of one."""
        columns = self.columns
        whole = columns.whole(self.width) if self.rows else []
        whole += [compare("eq", tidy(rest % self.width), integer(0)) for rest in distances(self.group, self.site)]
        for name in arrays_along(self.group, self.site):
            array = self.site.program.arrays[name]
            rank = len(array.extents) + len(self.site.stores[name].leading)
            if columns.is_row_of(array):
                whole += columns.whole(self.width) if rank > 1 + len(columns.inner) else []
            elif rank > 1 and not columns.inner and not self._is_whole(array.extents[-1]):
                rest = array.extents[-1] % self.width
                whole.append(compare("eq", rest, integer(0)))
        rows = conjoin(*dict.fromkeys(whole))
        if rows != TRUE and columns.ones and columns.is_one_row:
            rows = Binary("or", rows, conjoin(*columns.alone()), DType.BOOL)
        return conjoin(ALIGNED, rows)

    def _is_whole(self, length: Expr) -> bool:
        return isinstance(length, Const) and int(length.value) % self.width == 0

    def _pieces(self, way: Callable[[Expr, bool], tuple[TreeNode, ...]]) -> tuple[TreeNode, ...]:
        """The pieces of one row, without a test where the block lies inside the loop; or the row of
        the thread, if it has one."""
        row = conjoin(*self.rows)
        if self.pieces == 1:
            inside = way(integer(0), False)
            return (Guard(row, inside),) if self.rows else inside
        whole, part = (self.site.names.fresh("p") for _ in range(2))
        count = integer(self.pieces)
        end = tidy(self.base + self.across)
        written_out = Where.UNROLLED if self.is_short else Where.SERIAL
        pieces = Guard(
            end <= self.upper,
            (Loop(whole, integer(0), count, 1, written_out, way(Iter(whole), True)),),
            (Loop(part, integer(0), count, 1, Where.SERIAL, way(Iter(part), False)),),
        )
        return (Guard(row, (pieces,)),) if self.rows else (pieces,)

    def _in_pairs(self, shift: Expr) -> tuple[TreeNode, ...]:
        """Neighbouring threads on neighbouring pairs of elements, each at a multiple of four bytes:
        rows of odd length begin there or between two, in turn, and then the pairs a column earlier."""
        pair, lane = (self.site.names.fresh(name) for name in ("u", "v"))
        apart = integer(self.threads * 2)
        own = Iter(pair) * apart + self.thread * 2
        start = tidy(self.base + own - shift)
        count = integer(self.width // 2)

        def vector(where: Where, nodes: tuple[TreeNode, ...]) -> Loop:
            return Loop(lane, integer(0), integer(2), 1, where, nodes)

        def begun(first: Expr, ended: Expr) -> Expr:
            """Does what starts at `first` lie in the row, if it ends there?"""
            if shift == integer(0):
                return ended
            return conjoin(tidy(first) >= 0, ended)

        def ends(place: Expr, count: int) -> Expr:
            return tidy(place + count) <= self.upper

        column = tidy(start + Iter(lane))
        body = thread_body(self.group, self.site, self.extents, {**self.point, self.columns.dim: column})
        both = vector(Where.VECTOR, body)
        one = Guard(begun(column, column < self.upper), body)
        each = Guard(begun(start, ends(start, 2)), (both,), (vector(Where.UNROLLED, (one,)),))
        nodes = Guard(
            begun(self.base - shift, ends(self.base, self.across)),
            (Loop(pair, integer(0), count, 1, Where.UNROLLED, (both,)),),
            (Loop(pair, integer(0), count, 1, Where.SERIAL, (each,)),),
        )
        return (Guard(conjoin(*self.rows), (nodes,)),)

    def _wide(self, piece: Expr, whole: bool) -> tuple[TreeNode, ...]:
        """A vector of the thread's own; where a row ends with a part of one, its elements."""
        own = self.thread * self.width
        start = self._first(piece) + own
        lane = self.site.names.fresh("v")
        body = self._body(start + Iter(lane))
        vector = (Loop(lane, integer(0), integer(self.width), 1, Where.VECTOR, body),)
        if whole:
            return vector
        if not self.columns.inner and (self.rows or self._is_whole(self.upper)):
            return (Guard(self._is_inside(start), vector),)
        return (Guard(self._are_inside(start, self.width), vector, self._one_by_one(start, 1, False)),)

    def _narrow(self, piece: Expr, whole: bool) -> tuple[TreeNode, ...]:
        """Neighbouring threads on neighbouring elements, as often as a vector is wide."""
        first = self._first(piece)
        start = first + self.thread
        if whole:
            return self._one_by_one(start, self.threads, True)
        beyond = self._one_by_one(start, self.threads, False)
        if not self.is_short:
            return beyond
        within = self._one_by_one(start, self.threads, True)
        return (Guard(self._are_inside(first, self.threads * self.width), within, beyond),)

    def _first(self, piece: Expr) -> Expr:
        """The first element of a piece, counted from the block's first column on."""
        return piece * (self.threads * self.width)

    def _is_inside(self, element: Expr) -> Expr:
        return self.columns.column(self.base, element) < self.upper

    def _are_inside(self, element: Expr, count: int) -> Expr:
        """Are so many elements from this one on?"""
        if self.columns.inner:
            return self._is_inside(element + (count - 1))
        end = self.columns.column(self.base, element + count)
        return end <= self.upper

    def _one_by_one(self, start: Expr, step: int, whole: bool) -> tuple[TreeNode, ...]:
        """As many elements as a vector has, `step` apart: written out, so that all loads are under
        way together, where all are inside."""
        part = self.site.names.fresh("u")
        element = tidy(start + Iter(part) * step)
        body, count = self._body(element), integer(self.width)
        if whole:
            return (Loop(part, integer(0), count, 1, Where.UNROLLED, body),)
        guarded = Guard(self._is_inside(element), body)
        # Each row has such an end, which `codegen.mlir.ends` writes out by its length.
        where = Where.UNROLLED if self.has_ends else Where.SERIAL
        return (Loop(part, integer(0), count, 1, where, (guarded,)),)

    def _body(self, element: Expr) -> tuple[TreeNode, ...]:
        point = {**self.point, **self.columns.point(self.base, element)}
        return thread_body(self.group, self.site, self.extents, point)
