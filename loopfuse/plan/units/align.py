"""Alignment: putting the parallel loops of several units onto one set of group dimensions.

before:  for i in 1..N: a[i] = ...          for j in 0..N-1: b[j] = f(a[j+1])
after:   for g in 1..N: a[g] = ...; b[g-1] = f(a[g])

Each unit's iterator is `sign * g + offset` of one group dimension, so a group can permute, shift
and reverse loops. `align` proposes coordinates from the dependences (or, where there are none,
from shared operands), and `find_violation` tests the result exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from loopfuse.base.dtypes import DType
from loopfuse.lang.nodes import Expr, Iter, Symbol, combine, integer
from loopfuse.plan.units.forest import Scope, Unit, order_is_free
from loopfuse.poly.isl import IN, OUT
from loopfuse.poly.isl_relations import Equality, affine_map, find_equalities
from loopfuse.poly.model import Dependence, Statement


@dataclass(frozen=True, slots=True)
class Coordinate:
    """`iterator = sign * dim + offset`; `offset` is affine in parameters."""

    dim: str
    iterator: str
    sign: int
    parameters: tuple[tuple[str, int], ...] = ()
    constant: int = 0

    @property
    def offset(self) -> Expr:
        """The offset as an index expression."""
        return linear_expr(self.parameters, self.constant)

    def value(self) -> Expr:
        """The iterator's value in terms of the group dimension."""
        dim: Expr = Iter(self.dim)
        if self.sign < 0:
            return self.offset - dim
        return dim + self.offset

    def position(self) -> dict[str, int]:
        """The group dimension as coefficients of the iterator and the parameters."""
        # i = s*g + o  =>  g = s*(i - o)
        place = {self.iterator: self.sign, "": -self.sign * self.constant}
        return place | {name: -self.sign * factor for name, factor in self.parameters}


@dataclass(frozen=True, slots=True)
class Placed:
    """A unit and where its iterations lie in the group."""

    unit: Unit
    coordinates: tuple[Coordinate, ...]

    def coordinate(self, dim: str) -> Coordinate:
        """Its coordinate along `dim`."""
        return next(c for c in self.coordinates if c.dim == dim)


@dataclass(frozen=True, slots=True)
class Violation:
    """A dependence between two placed units that moves along a dimension that must not move."""

    dependence: Dependence
    dim: str
    offending: Any  # isl map: the instances that move


def linear_expr(parameters: Sequence[tuple[str, int]], constant: int) -> Expr:
    """`sum(c * p) + constant` as an index expression, positive terms first."""
    out: Expr = integer(0)
    for name, factor in sorted(parameters, key=lambda term: term[1] < 0):
        term = abs(factor) * Symbol(name, DType.I64)
        out = combine("add" if factor > 0 else "sub", out, term)
    return out + constant


def find_offsets(
    known: Placed, source: Statement, sink: Statement, relation: Any, forward: bool
) -> dict[str, Coordinate]:
    """Coordinates, by group dimension, that make `relation` (between a statement of a placed unit
    and one of a new unit) stay in place; `forward` if the placed unit is its source."""
    here, there = (source, sink) if forward else (sink, source)
    by_iterator = {c.iterator: c for c in known.coordinates}
    found: dict[str, Coordinate] = {}
    for equality in find_equalities(relation if forward else relation.reverse()):
        coordinate = by_iterator.get(here.iterators[equality.source])
        if coordinate is not None and coordinate.dim not in found:
            found[coordinate.dim] = _solve(coordinate, equality, there.iterators[equality.sink])
    return found


def _solve(known: Coordinate, equality: Equality, iterator: str) -> Coordinate:
    # i_known = sign*i_new + k  and  i_known = s*g + o   =>   i_new = sign*s*g + sign*(o - k)
    parameters = dict(known.parameters)
    for name, factor in equality.parameters:
        parameters[name] = parameters.get(name, 0) - factor
    return Coordinate(
        known.dim,
        iterator,
        equality.sign * known.sign,
        tuple((n, equality.sign * c) for n, c in sorted(parameters.items()) if c),
        equality.sign * (known.constant - equality.constant),
    )


def place_map(statement: Statement, placed: Placed, dims: Sequence[str]) -> Any:
    """{ S[iterators] -> [dims] } for a statement of a placed unit."""
    values = [placed.coordinate(dim).position() for dim in dims]
    return affine_map(statement.domain, values)


def find_violation(
    placed: Sequence[Placed],
    dims: Sequence[str],
    dependences: Sequence[Dependence],
    scope: Scope,
    covered: frozenset[tuple[str, str, str]] = frozenset(),
    relax: bool = False,
) -> Violation | None:
    """The first dependence between two different placed units that moves along a dimension.

    `covered` are (kind, source, sink) that recomputation makes harmless; `relax` lets reductions
    change order (a combining group).
    """
    where = {s.id: (p, s) for p in placed for s in p.unit.statements}
    maps: dict[str, Any] = {}

    def image(id: str) -> Any:
        if id not in maps:
            maps[id] = place_map(where[id][1], where[id][0], dims)
        return maps[id]

    for dependence in dependences:
        if dependence.source not in where or dependence.sink not in where:
            continue
        source, sink = where[dependence.source], where[dependence.sink]
        if source[0] is sink[0]:
            continue
        if (dependence.kind, dependence.source, dependence.sink) in covered:
            continue
        if relax and order_is_free(dependence, source[1], scope.reassociate):
            continue
        moved = (
            dependence.relation.apply_domain(image(dependence.source))
            .apply_range(image(dependence.sink))
        )
        for k, dim in enumerate(dims):
            still = moved.equate(IN, k, OUT, k)
            if not moved.is_subset(still):
                offending = _offending(dependence, image, k)
                return Violation(dependence, dim, offending)
    return None


def _offending(dependence: Dependence, image: Any, k: int) -> Any:
    """The instances of `dependence` whose ends differ along dimension k."""
    def along(id: str) -> Any:
        m = image(id)
        count = m.dim(OUT)
        return m.project_out(OUT, k + 1, count - k - 1).project_out(OUT, 0, k)

    same = along(dependence.source).apply_range(along(dependence.sink).reverse())
    return dependence.relation.subtract(same)


def with_dims(placed: Placed, dims: Sequence[str]) -> Placed:
    """`placed` with only the coordinates along `dims`, in that order."""
    return replace(placed, coordinates=tuple(placed.coordinate(dim) for dim in dims))
