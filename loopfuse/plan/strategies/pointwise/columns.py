"""The columns of a `pointwise` launch: what neighbouring threads run over.

Mostly the last dimension. Where that is a short constant (`img[y, x, c]` with three colours), whole
vectors and busy warps need more: it runs as one with the dimension before it, which then is the
columns', of three elements each. Elements are counted from a block's first column on, so that no
division is of more than a block has (isl gives up on the others):

    x = first + element // 3;  c = element % 3     and img[y, x, c] is 3 * (W*y + first) + element

Dimensions before them may run as one with them too, which no tree can say (their product is not
affine): `poly.collapse`. Those that run once then are `ones`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd, prod

from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Const, Expr, Iter, Symbol, compare, integer
from loopfuse.lang.walk import iterators
from loopfuse.plan.mapping.body import guard_of, host_conditions
from loopfuse.plan.mapping.space import Extent, Site, known_of, order_dims
from loopfuse.plan.units.groups import Group
from loopfuse.poly.model import Array, Statement

SHORT = 16
"""Vectors of a row up to which it leaves half of a warp idle."""


@dataclass(frozen=True, slots=True)
class Columns:
    """`dim` is the columns' dimension and `count` its extent; `inner` are the dimensions after it
    (constant `sizes`), all elements of which make one column. `rows` are the dimensions before it,
    `ones` those of them that run once as the tree is collapsed, and `size_of` gives their extents."""

    rows: tuple[str, ...]
    ones: tuple[str, ...]
    dim: str
    count: Expr
    inner: tuple[str, ...]
    sizes: tuple[int, ...]
    size_of: Mapping[str, Expr]

    @property
    def elements(self) -> int:
        """How many elements a column has."""
        return prod(self.sizes)

    @property
    def is_one_row(self) -> bool:
        """Do all dimensions run as one?"""
        return self.rows == self.ones

    def column(self, first: Expr, element: Expr) -> Expr:
        """The column of an element, counted from column `first` on."""
        return tidy(first + tidy(element) // self.elements)

    def point(self, first: Expr, element: Expr) -> dict[str, Expr]:
        """Where in all dimensions that element is."""
        found = {self.dim: self.column(first, element)}
        rest = tidy(element)
        for dim, size in zip(reversed(self.inner), reversed(self.sizes)):
            found[dim] = rest % size
            rest = rest // size
        return found

    def whole(self, width: int) -> list[Expr]:
        """When a row is a whole number of vectors of so many elements."""
        wanted = width // gcd(width, self.elements)
        if isinstance(self.count, Const) and int(self.count.value) % wanted == 0:
            return []
        rest = self.count % wanted
        return [compare("eq", rest, integer(0))] if wanted > 1 else []

    def alone(self) -> list[Expr]:
        """When there is one row."""
        return [compare("eq", self.size_of[dim], integer(1)) for dim in self.ones]

    def is_row_of(self, array: Array) -> bool:
        """Has the array rows of just these columns? (It moves along the last dimension.)"""
        return tuple(array.extents[-1 - len(self.sizes) :]) == (self.count, *map(integer, self.sizes))


def find_columns(group: Group, site: Site, extents: Mapping[str, Extent], width: int) -> Columns:
    """The columns of a group whose last dimension is fit for vectors of `width` elements."""
    *rows, last = order_dims(group)
    dims, sizes = [last], [extents[last].upper]
    while rows and _is_short(sizes, width) and _joins(group, site, extents, rows[-1], dims, sizes):
        dims.insert(0, rows.pop())
        sizes.insert(0, extents[dims[0]].upper)
    count, *inner = sizes
    ones: list[str] = []
    size_of = {dim: extents[dim].upper for dim in rows}
    for run in site.collapses:
        if _name(count) == run[-1]:
            ones = [dim for dim in rows if _name(size_of[dim]) in run[:-1]]
    known = tuple(int(size.value) for size in inner if isinstance(size, Const))
    return Columns(tuple(rows), tuple(ones), dims[0], count, tuple(dims[1:]), known, size_of)


def _name(extent: Expr) -> str:
    return extent.name if isinstance(extent, Symbol) else ""


def _is_short(sizes: list[Expr], width: int) -> bool:
    """Do the columns leave half of a warp idle?"""
    count = 1
    for size in sizes:
        if not isinstance(size, Const):
            return False
        count *= int(size.value)
    return 0 < count <= SHORT * width


def _joins(
    group: Group,
    site: Site,
    extents: Mapping[str, Extent],
    dim: str,
    dims: list[str],
    sizes: list[Expr],
) -> bool:
    """Can the dimension `dim` run as one with `dims`, which follow it?"""
    extent = extents[dim]
    if extent.lower != integer(0) or extent.step != 1 or iterators(extent.upper):
        return False
    if not isinstance(extent.upper, Const | Symbol):
        return False
    for placed in group.members:
        if not placed.coordinates:
            return False
        names: list[str] = []
        for each in (dim, *dims):
            c = placed.coordinate(each)
            if c.sign != 1 or c.parameters or c.constant:
                return False
            names.append(c.iterator)
        loop = next(loop for loop in placed.unit.common if loop.iterator == names[0])
        if (loop.lower, loop.upper, loop.step) != (integer(0), extent.upper, 1):
            return False
        known = known_of(group, placed, extents) + host_conditions(group)
        for s in placed.unit.statements:
            if names[0] in iterators(guard_of(s, known, site.program)):
                return False
            if not _is_contiguous(s, tuple(names), (extent.upper, *sizes), site):
                return False
    return True


def _is_contiguous(
    statement: Statement, names: tuple[str, ...], sizes: tuple[Expr, ...], site: Site
) -> bool:
    """Does the write, and every read of what moves along the first of these dimensions, go from
    column to column?"""
    place = tuple(Iter(name) for name in names)
    for access in (*statement.reads, statement.write):
        index, array = access.load.index, site.program.arrays[access.array]
        if not index:
            continue
        if index[-len(place) :] == place and array.extents[-len(place) :] == sizes:
            if any(iterators(part) & set(names) for part in index[: -len(place)]):
                return False
        elif access is statement.write or any(names[0] in iterators(part) for part in index):
            return False
    return True
