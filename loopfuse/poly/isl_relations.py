"""Questions about dependence relations that planning asks, by dimension position.

Part of the isl room (the only place besides `poly.isl` that names islpy): everything here takes
and gives isl objects, so that the planner never touches islpy itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import islpy

from loopfuse.base.dtypes import DType
from loopfuse.lang.nodes import Const, Expr
from loopfuse.poly.isl import IN, OUT, PARAM, SET, Reader, constant_of, relation_of
from loopfuse.poly.isl_budget import check_time
from loopfuse.poly.isl_text import ast_build, ast_expr


def equate(relation: Any, pairs: Iterable[tuple[int, int]]) -> Any:
    """The part of `relation` where input dimension p equals output dimension q, for each pair."""
    for p, q in pairs:
        relation = relation.equate(IN, p, OUT, q)
    return relation


def carried_at(relation: Any, depth: int) -> Any:
    """The part of `relation` that the loop at `depth` carries: the loops around it stand still, and it does not."""
    same = equate(relation, [(k, k) for k in range(depth)])
    return same.subtract(equate(same, [(depth, depth)]))


def is_equal_along(relation: Any, p: int, q: int) -> bool:
    """Every pair of `relation` has input dimension p equal to output dimension q."""
    check_time()
    return bool(relation.is_subset(relation.equate(IN, p, OUT, q)))


@dataclass(frozen=True, slots=True)
class Equality:
    """input[source] = sign * output[sink] + sum(parameters) + constant, on a whole relation."""

    source: int
    sink: int
    sign: int
    parameters: tuple[tuple[str, int], ...]
    constant: int


def find_equalities(relation: Any) -> tuple[Equality, ...]:
    """Pairs of one input and one output dimension that differ by a constant over `relation`.

    A constant may hold parameters. At most one equality per pair; found in the affine hull, then,
    for pairs the hull mixes, in the hull of the relation projected onto the pair.
    """
    n, m = relation.dim(IN), relation.dim(OUT)
    found = {(e.source, e.sink): e for e in _hull_equalities(relation, range(n), range(m))}
    taken_in, taken_out = {e[0] for e in found}, {e[1] for e in found}
    for p in range(n):
        if p in taken_in:
            continue
        for q in range(m):
            if q in taken_out:
                continue
            pair = relation.project_out(IN, p + 1, n - p - 1).project_out(IN, 0, p)
            pair = pair.project_out(OUT, q + 1, m - q - 1).project_out(OUT, 0, q)
            for e in _hull_equalities(pair, [p], [q]):
                found[(e.source, e.sink)] = e
                taken_out.add(q)
    return tuple(found[key] for key in sorted(found))


def solve_dimensions(domain: Any, known: Collection[str]) -> dict[str, dict[str, int]]:
    """The dimensions of a set, by name, that the others determine: coefficients of `known` ones, of
    those found before, of parameters and "" (the constant), in an order in which they can be computed.

    before:  { S[i, j, t] : i <= j <= i and t = 1 }, known j
    after:   {"i": {"j": 1}, "t": {"": 1}}
    """
    hull = domain.affine_hull()
    names = [hull.get_dim_name(SET, k) for k in range(hull.dim(SET))]
    parameters = [hull.get_dim_name(PARAM, k) for k in range(hull.dim(PARAM))]
    rows: list[dict[str, int]] = []
    for constraint in hull.get_constraints():
        if not constraint.is_equality():
            continue
        if any(_coefficients(constraint, islpy.dim_type.div, hull.dim(islpy.dim_type.div))):
            continue
        row = dict(zip(names, _coefficients(constraint, SET, len(names)), strict=True))
        row |= zip(parameters, _coefficients(constraint, PARAM, len(parameters)), strict=True)
        row[""] = int(constraint.get_constant_val().to_python())
        rows.append({name: factor for name, factor in row.items() if factor})
    found: dict[str, dict[str, int]] = {}
    more = True
    while more:
        more = False
        for row in rows:
            open_ = [n for n in names if n in row and n not in known and n not in found]
            if len(open_) == 1 and abs(row[open_[0]]) == 1:
                sign = -row[open_[0]]
                found[open_[0]] = {n: sign * c for n, c in row.items() if n != open_[0]}
                more = True
    return found


def _hull_equalities(
    relation: Any, sources: Sequence[int], sinks: Sequence[int]
) -> list[Equality]:
    hull = relation.affine_hull()
    out: list[Equality] = []
    fixed: tuple[_Fixed, _Fixed] = {}, {}
    for constraint in hull.get_constraints():
        if not constraint.is_equality():
            continue
        ins = _coefficients(constraint, IN, hull.dim(IN))
        outs = _coefficients(constraint, OUT, hull.dim(OUT))
        if any(_coefficients(constraint, islpy.dim_type.div, hull.dim(islpy.dim_type.div))):
            continue
        used_in = [k for k, c in enumerate(ins) if c]
        used_out = [k for k, c in enumerate(outs) if c]
        if len(used_in) + len(used_out) == 1:
            _note_fixed(constraint, hull, ins if used_in else outs, fixed[not used_in])
        if len(used_in) != 1 or len(used_out) != 1:
            continue
        p, q = used_in[0], used_out[0]
        a, b = ins[p], outs[q]
        if abs(a) != 1 or abs(b) != 1:
            continue
        # a*i + b*j + rest = 0  ->  i = -(b*j + rest)/a = -a*b*j - a*rest
        parameters = tuple(
            (hull.get_dim_name(PARAM, k), -a * c)
            for k, c in enumerate(_coefficients(constraint, PARAM, hull.dim(PARAM)))
            if c
        )
        constant = -a * int(constraint.get_constant_val().to_python())
        out.append(Equality(sources[p], sinks[q], -a * b, parameters, constant))
    taken = {e.source for e in out}, {e.sink for e in out}
    ins, outs = ([k for k in ends if k not in used] for ends, used in zip(fixed, taken, strict=True))
    alike = [k for k in ins if k in outs]  # both have one value only: they differ by a constant too
    rest = [k for k in ins if k not in alike], [k for k in outs if k not in alike]
    for p, q in (*((k, k) for k in alike), *zip(*rest)):
        (here, at), (there, to) = fixed[0][p], fixed[1][q]
        by = {name: here.get(name, 0) - there.get(name, 0) for name in here | there}
        parameters = tuple((name, c) for name, c in by.items() if c)
        out.append(Equality(sources[p], sinks[q], 1, parameters, at - to))
    return out


_Fixed = dict[int, tuple[dict[str, int], int]]
"""By dimension: the one value that it has, as coefficients of parameters and a constant."""


def _note_fixed(constraint: Any, hull: Any, factors: Sequence[int], fixed: _Fixed) -> None:
    """Notes which value the constraint gives the one dimension that it speaks of."""
    (k,) = (k for k, c in enumerate(factors) if c)
    if abs(factors[k]) == 1:
        coefficients = _coefficients(constraint, PARAM, hull.dim(PARAM))
        names = (hull.get_dim_name(PARAM, n) for n in range(len(coefficients)))
        constant = -factors[k] * int(constraint.get_constant_val().to_python())
        value = {name: -factors[k] * c for name, c in zip(names, coefficients, strict=True) if c}
        fixed[k] = value, constant


def _coefficients(constraint: Any, kind: Any, count: int) -> list[int]:
    return [int(constraint.get_coefficient_val(kind, k).to_python()) for k in range(count)]


def sample_pair(relation: Any) -> tuple[dict[str, int], list[int], list[int]] | None:
    """One element of `relation`, small where it can be: (parameters, input point, output point)."""
    if relation.is_empty():
        return None
    wrapped = relation
    # Prefer small parameters: the least value of each in turn, where there is one.
    for k in range(wrapped.dim(PARAM)):
        values = wrapped.params()
        values = values.project_out(PARAM, k + 1, values.dim(PARAM) - k - 1)
        values = values.project_out(PARAM, 0, k)
        as_set = values.move_dims(SET, 0, PARAM, 0, 1) if values.dim(PARAM) else values
        try:
            least = as_set.dim_min_val(0)
        except islpy.Error:
            continue
        if least.is_int():
            wrapped = wrapped.fix_val(PARAM, k, least)
    point = wrapped.sample()
    n_in, n_out = point.dim(IN), point.dim(OUT)
    names = {
        point.get_dim_name(PARAM, k): _fixed(point, PARAM, k) for k in range(point.dim(PARAM))
    }
    return (
        names,
        [_fixed(point, IN, k) for k in range(n_in)],
        [_fixed(point, OUT, k) for k in range(n_out)],
    )


def _fixed(point: Any, kind: Any, position: int) -> int:
    value = point.plain_get_val_if_fixed(kind, position)
    return int(value.to_python()) if value.is_int() else 0


def affine_map(domain: Any, values: Sequence[dict[str, int]]) -> Any:
    """{ point of `domain`'s space -> [values] }: each value maps names (iterators, parameters, ""
    for the constant) to coefficients. Parameters the space lacks are added."""
    for value in values:
        for name in value:
            if (
                name
                and domain.find_dim_by_name(PARAM, name) < 0
                and domain.find_dim_by_name(SET, name) < 0
            ):
                domain = domain.add_dims(PARAM, 1).set_dim_name(PARAM, domain.dim(PARAM), name)
    space = domain.get_space()
    reader = Reader(space)
    affs = [reader.affine(value) for value in values]
    return relation_of(space, affs, "").reset_tuple_id(OUT)


def with_leading(relation: Any, leading: Any, replaced: int) -> Any:
    """{ S -> A[leading..., rest...] } of { S -> A[first..., rest...] } and { S -> [leading...] }, where `replaced`
    dimensions are the first."""
    name = relation.get_tuple_name(OUT)
    rest = relation.project_out(OUT, 0, replaced)
    return leading.flat_range_product(rest).set_tuple_name(OUT, name)


def condition_expr(domain: Any, symbols: Sequence[str]) -> Expr:
    """A set as a core condition; its dimensions, by name, become iterators."""
    if domain.plain_is_universe():
        return Const(True, DType.BOOL)
    if domain.is_empty():
        return Const(False, DType.BOOL)
    count = domain.dim(SET)
    names = [domain.get_dim_name(SET, k) for k in range(count)]
    at = domain.dim(PARAM)
    if count:
        domain = domain.move_dims(PARAM, at, SET, 0, count)
        for offset, name in enumerate(names):
            domain = domain.set_dim_name(PARAM, at + offset, name)
    domain = domain.params().coalesce()
    return ast_expr(ast_build(domain).expr_from_set(domain), frozenset(symbols))


def simplify_within(domain: Any, certain: Any, context: Any) -> Any:
    """What must be tested to know a point of `certain` is in `domain` (`context`: parameters)."""
    certain = certain.intersect_params(context)
    rest = domain.gist(certain).coalesce()
    return rest


def hull_along(images: Sequence[Any], k: int) -> tuple[Any, Any]:
    """(least, greatest) value of dimension k over all `images` (sets), as pw_affs of parameters."""
    whole = None
    for image in images:
        count = image.dim(SET)
        alone = image.project_out(SET, k + 1, count - k - 1).project_out(SET, 0, k)
        alone = alone.reset_tuple_id()
        whole = alone if whole is None else whole.union(alone)
    assert whole is not None
    whole = whole.coalesce()
    return whole.dim_min(0), whole.dim_max(0)


def ends_within(sets: Sequence[Any], k: int, context: Any) -> tuple[Any, Any] | None:
    """(least, greatest) value of dimension k over all `sets`, which agree in the dimensions before it, as pw_affs of parameters and of those
    dimensions (parameters too, then); None unless each is one formula, where there is any."""
    whole: Any = None
    for points in sets:
        alone = points.project_out(SET, k + 1, points.dim(SET) - k - 1).reset_tuple_id()
        alone = alone.move_dims(PARAM, alone.dim(PARAM), SET, 0, k)
        whole = alone if whole is None else whole.union(alone)
    assert whole is not None
    whole = whole.coalesce()
    if whole.is_empty():
        return None
    where = whole.params().intersect_params(context) if k == 0 else whole.params()
    ends = tuple(end.gist_params(where).coalesce() for end in (whole.dim_min(0), whole.dim_max(0)))
    return (ends[0], ends[1]) if all(end.n_piece() == 1 for end in ends) else None


def rename(relation: Any, kind: Any, id: str, names: Sequence[str]) -> Any:
    """`relation` with one of its tuples (IN, OUT) called `id`, and the dimensions of it `names`."""
    for position, name in enumerate(names):
        relation = relation.set_dim_name(kind, position, name)
    return relation.set_tuple_name(kind, id)


def rename_points(points: Any, id: str, names: Sequence[str]) -> Any:
    """A set with its tuple called `id`, and its dimensions `names`."""
    for position, name in enumerate(names):
        points = points.set_dim_name(SET, position, name)
    return points.set_tuple_name(id)


def rename_range(relation: Any, name: str) -> Any:
    """`relation` with its range's tuple called `name`."""
    return relation.set_tuple_name(OUT, name)


def is_short(domain: Any, k: int) -> bool:
    """Dimension k of a set has a range whose length no parameter decides."""
    low, high = hull_along([domain], k)
    length = constant_of(high.sub(low).coalesce())
    return length is not None and length < 64


def is_thin(points: Any) -> bool:
    """Do the points lie on borders, or are there any for special sizes alone: does an equation hold in each piece of them?"""
    pieces = points.get_basic_set_list()
    return all(_has_equation(pieces.get_at(number).affine_hull()) for number in range(pieces.n_basic_set()))


def _has_equation(hull: Any) -> bool:
    divisions = range(hull.dim(islpy.dim_type.div))
    return any(
        each.is_equality() and not any(each.involves_dims(islpy.dim_type.div, k, 1) for k in divisions) for each in hull.get_constraints()
    )
