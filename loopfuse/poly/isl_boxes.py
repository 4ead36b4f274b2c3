"""Sets of points beside one another along a dimension: the box around a set, and what lies before
and after it."""

from __future__ import annotations

from typing import Any

import islpy

SET: Any = islpy.dim_type.set


def shadow(points: Any, dim: int) -> Any:
    """The values of one dimension: a set of one dimension."""
    rank = points.dim(SET)
    line = points.project_out(SET, dim + 1, rank - dim - 1)
    return line.project_out(SET, 0, dim)


def over(line: Any, rank: int, dim: int) -> Any:
    """All points whose dimension `dim` has a value in `line`."""
    points = line.insert_dims(SET, 0, dim)
    return points.insert_dims(SET, dim + 1, rank - dim - 1)


def between_ends(line: Any) -> Any:
    """Every value from the least of `line` to the greatest."""
    space = line.get_space()
    above = line.lexmin().apply(islpy.Map.lex_le(space))
    return above.intersect(line.lexmax().apply(islpy.Map.lex_ge(space)))


def before_or_after(line: Any, before: bool) -> Any:
    """Every value below the least of `line`, or above the greatest."""
    space = line.get_space()
    if before:
        return line.lexmin().apply(islpy.Map.lex_gt(space))
    return line.lexmax().apply(islpy.Map.lex_lt(space))


def disjoint_pieces(points: Any) -> list[Any]:
    """Convex sets that are `points` together and share none of them."""
    listing = points.make_disjoint().get_basic_set_list()
    return [islpy.Set.from_basic_set(listing.get_at(k)) for k in range(listing.n_basic_set())]


def conjuncts(params: Any) -> list[Any]:
    """A set of parameters as sets that are it together: its constraints, where it is convex and
    they need no quotients."""
    if params.n_basic_set() != 1:
        return [params]
    (piece,) = [params.get_basic_set_list().get_at(0)]
    if piece.dim(islpy.dim_type.div):
        return [params]
    whole = islpy.BasicSet.universe(piece.get_space())
    return [islpy.Set.from_basic_set(whole.add_constraint(each)) for each in piece.get_constraints()]


def plus_one(value: Any) -> Any:
    """The pw_aff, greater by 1."""
    one = islpy.PwAff.from_aff(islpy.Aff.val_on_domain_space(value.get_domain_space(), islpy.Val(1, value.get_ctx())))
    return value.add(one)
