"""The one room that knows islpy: contexts with a limit, named dimensions, conversions.

Everything here is a thin layer: sets and maps stay islpy's own objects (typed `Any`), whose
methods the other files of this room call; construction from the core and translation back to it
live here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, TypeVar

import islpy

from loopfuse.base.dtypes import DType
from loopfuse.lang.linear import is_plain_cast, linear
from loopfuse.lang.nodes import (
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Select,
    Unary,
)
from loopfuse.poly.isl_budget import FAILURES as FAILURES
from loopfuse.poly.isl_budget import OPERATIONS as OPERATIONS
from loopfuse.poly.isl_budget import Unknown as Unknown
from loopfuse.poly.isl_budget import current_budget
from loopfuse.poly.isl_budget import gave_up as gave_up
from loopfuse.poly.isl_budget import spending as spending
from loopfuse.poly.isl_budget import weigh as weigh
from loopfuse.poly.isl_flow import Source as Source
from loopfuse.poly.isl_flow import last_sources as last_sources
from loopfuse.poly.isl_flow import last_sources_of_one as last_sources_of_one
from loopfuse.poly.isl_flow import pieces_of as pieces_of
from loopfuse.poly.isl_text import params_expr as params_expr
from loopfuse.poly.isl_text import params_text as params_text
from loopfuse.poly.isl_text import value_expr as value_expr
from loopfuse.poly.isl_text import value_text as value_text

PARAM: Any = islpy.dim_type.param
SET: Any = islpy.dim_type.set
IN: Any = islpy.dim_type.in_
OUT: Any = islpy.dim_type.out

T = TypeVar("T")

DIVISION_PIECES = 16
"""How many periods on each side of zero `% size` is unrolled into before giving up."""


class Context:
    """An isl context of one compile, whose operation counter is reset for each question.

    Exceeding the limit poisons an isl context until it is reset, so every question goes through
    `ask`, which resets first and turns whatever isl then raises into `Unknown`. Inside a
    `spending` block all questions also draw on one budget, and so does what isl is asked between
    them.
    """

    def __init__(self, operations: int = OPERATIONS) -> None:
        self.raw = islpy.Context()
        self.operations = operations
        budget = current_budget()
        if budget is not None:
            self.raw.set_max_operations(max(1, budget.left))

    def ask(self, question: Callable[[], T]) -> T:
        """The answer to `question`, or Unknown when it takes more than the limit."""
        budget = current_budget()
        limit = self.operations
        if budget is not None:
            budget.check_time()
            budget.charge(self.raw)
            if budget.left <= 0:
                raise Unknown("this compile has asked too much (operation limit)")
            limit = min(limit, budget.question, budget.left)
        self.raw.reset_operations()
        self.raw.set_max_operations(limit)
        try:
            return question()
        except islpy.Error as error:
            raise Unknown(str(error)) from error
        finally:
            if budget is not None:
                budget.charge(self.raw)
            else:
                self.raw.reset_operations()
                self.raw.set_max_operations(0)


def context_of(thing: Any, operations: int = OPERATIONS) -> Context:
    """A Context around the isl context that `thing` (a set or map) lives in."""
    context = Context.__new__(Context)
    context.raw = thing.get_ctx()
    context.operations = operations
    return context


# ---------------------------------------------------------------------------- spaces and sets


def set_space(context: Context, symbols: Sequence[str], dims: Sequence[str], name: str = "") -> Any:
    """The space { name[dims] } with parameters `symbols`."""
    space = islpy.Space.set_alloc(context.raw, len(symbols), len(dims))
    for position, symbol in enumerate(symbols):
        space = space.set_dim_name(PARAM, position, symbol)
    for position, dim in enumerate(dims):
        space = space.set_dim_name(SET, position, dim)
    return space.set_tuple_name(SET, name) if name else space


def universe(space: Any) -> Any:
    """All points of `space`."""
    return islpy.Set.universe(space)


def empty(space: Any) -> Any:
    """No point of `space`."""
    return islpy.Set.empty(space)


def universe_map(space: Any) -> Any:
    """All pairs of a map space."""
    return islpy.Map.universe(space)


def empty_map(space: Any) -> Any:
    """No pair of a map space."""
    return islpy.Map.empty(space)


def forget(points: Any, position: int) -> Any:
    """`points` with nothing known any more of one dimension."""
    name = points.get_tuple_name() or ""
    points = points.project_out(SET, position, 1).insert_dims(SET, position, 1)
    return points.set_tuple_name(name) if name else points


def union_of(maps: Sequence[Any]) -> Any:
    """The union_map of `maps` (at least one)."""
    union = islpy.UnionMap.from_map(maps[0])
    for each in maps[1:]:
        union = union.add_map(each)
    return union


def maps_of(union: Any) -> list[Any]:
    """The maps in a union_map, one per space."""
    listing = union.get_map_list()
    return [listing.get_at(k) for k in range(listing.n_map())]


def domain_name(relation: Any) -> str:
    """The tuple name of a map's domain."""
    return relation.get_tuple_name(IN) or ""


def range_name(relation: Any) -> str:
    """The tuple name of a map's range."""
    return relation.get_tuple_name(OUT) or ""


def only_outputs(relation: Any, positions: Sequence[int]) -> Any:
    """`relation` with these of its outputs (in order), without the others."""
    name = range_name(relation)
    for position in reversed(range(relation.dim(OUT))):
        if position not in positions:
            relation = relation.project_out(OUT, position, 1)
    return relation.set_tuple_name(OUT, name) if name else relation


def without_empty(relation: Any) -> Any:
    """The same map without its empty pieces. Composing maps leaves many of them (of 904 pieces of what a
    heat equation's planes hold 800 were), and each costs whatever comes next as much as another."""
    listing = relation.get_basic_map_list()
    pieces = [listing.get_at(k) for k in range(listing.n_basic_map())]
    full = [islpy.Map.from_basic_map(piece) for piece in pieces if not piece.is_empty()]
    return reduce(islpy.Map.union, full, empty_map(relation.get_space()))


def simplified(relation: Any) -> Any:
    """`relation` with its pieces merged where they can be, unless trying would take long (each
    pair of pieces is compared, in all dimensions)."""
    is_map = isinstance(relation, islpy.Map)
    pieces = relation.n_basic_map() if is_map else relation.n_basic_set()
    if pieces < 2:
        return relation
    dims = relation.dim(IN) + relation.dim(OUT) if is_map else relation.dim(SET)
    if pieces * pieces * dims > COALESCE or pieces * pieces * dims**5 > COALESCE_DEEP:
        return relation
    return relation.coalesce()


COALESCE = 200_000
"""How many pairs of pieces times dimensions `simplified` looks at."""

COALESCE_DEEP = 4_000_000_000
"""The same for the fifth power of the dimensions, with which the time to compare two pieces grows
(measured: pieces of nests of 12, 20, 24 and 30 loops): half a second."""


def range_over(value: Any, points: Any) -> tuple[int | None, int | None]:
    """The least and the greatest value over `points`, whatever the parameters; None where there is
    none."""
    ends = value.intersect_domain(points)
    least, greatest = ends.min_val(), ends.max_val()
    return integer_of(least), integer_of(greatest)


def without_divisions(relation: Any) -> Any:
    """The same set or map, written without integer divisions where that is possible."""
    relation = relation.coalesce()
    simpler = relation.remove_divs().coalesce()
    return simpler if simpler.is_subset(relation) else relation


def as_one_piece(relation: Any) -> Any:
    """The same set or map in one piece without integer divisions, where it is one; else `without_divisions`.

    before: { [i] : i < n and i % 8 >= 4 or i < n and i % 8 < 4 }        after: { [i] : i < n }
    """
    relation = relation.coalesce()
    is_map = isinstance(relation, islpy.Map)
    points = relation.wrap() if is_map else relation
    pieces = points.get_basic_set_list()
    if pieces.n_basic_set() < 2:
        return without_divisions(relation)
    hull = universe(points.get_space())
    seen: set[str] = set()
    for k in range(pieces.n_basic_set()):
        for constraint in pieces.get_at(k).remove_divs().get_constraints():
            own = islpy.Set.from_basic_set(islpy.BasicSet.universe(points.get_space()).add_constraint(constraint))
            if str(own) not in seen and points.is_subset(own):
                hull = hull.intersect(own)
            seen.add(str(own))
    if not hull.is_subset(points):
        return without_divisions(relation)
    return hull.unwrap() if is_map else hull


def reading_everything(elements: Any) -> Any:
    """{ end[] -> element } for each of `elements`: a read of them all after the last statement."""
    point = islpy.Set.universe(elements.get_space().params().set_from_params())
    return islpy.Map.from_domain_and_range(point.set_tuple_name("end"), elements)


# --------------------------------------------------------------------------- core to isl


class Reader:
    """Reads core index expressions and conditions over one set space.

    `names` maps iterators and symbols to dimensions. `piecewise` gives a pw_aff, or None for
    what isl cannot express; such a reader never raises on a foreign expression.
    """

    def __init__(self, space: Any) -> None:
        self.space = space
        self.local = islpy.LocalSpace.from_space(space)
        self.zero = islpy.Aff.zero_on_domain(self.local)
        self.places: dict[str, tuple[Any, int]] = {}
        for position in range(space.dim(PARAM)):
            self.places[space.get_dim_name(PARAM, position)] = (PARAM, position)
        for position in range(space.dim(SET)):
            self.places[space.get_dim_name(SET, position)] = (IN, position)

    def affine(self, coefficients: Mapping[str, int]) -> Any:
        """The pw_aff with these coefficients; None if a name is unknown here."""
        aff = self.zero
        for name, coefficient in coefficients.items():
            if not coefficient:
                continue
            if not name:
                aff = aff.set_constant_val(self.number(coefficient))
                continue
            place = self.places.get(name)
            if place is None:
                return None
            aff = aff.set_coefficient_val(place[0], place[1], self.number(coefficient))
        return islpy.PwAff.from_aff(aff)

    def constant(self, value: int) -> Any:
        """The pw_aff `value`."""
        return islpy.PwAff.from_aff(self.zero.set_constant_val(self.number(value)))

    def number(self, value: int) -> Any:
        """`value` as isl takes it: islpy's own conversion of Python integers ends at 2**31."""
        if -(2**31) <= value < 2**31:
            return value
        return islpy.Val.read_from_str(self.space.get_ctx(), str(value))

    def piecewise(self, expr: Expr, where: Any | None = None) -> Any | None:
        """`expr` as a pw_aff on this space, or None.

        `where`: the points that matter; `%` and `//` by a size are expressed piece by piece
        when finitely many periods cover them.
        """
        coefficients = linear(expr)
        if coefficients is not None:
            return self.affine(coefficients)
        match expr:
            case Unary(op="neg", operand=operand, dtype=DType.I64):
                inner = self.piecewise(operand, where)
                return None if inner is None else inner.neg()
            case Cast(operand=operand, dtype=dtype) if is_plain_cast(operand.dtype, dtype):
                return self.piecewise(operand, where)
            case Call(function="abs", arguments=(operand,), dtype=DType.I64):
                inner = self.piecewise(operand, where)
                return None if inner is None else inner.max(inner.neg())
            case Select(condition=condition, then=then, otherwise=otherwise):
                chosen = self.condition(condition, where)
                first, second = self.piecewise(then, where), self.piecewise(otherwise, where)
                if chosen is None or first is None or second is None:
                    return None
                return first.intersect_domain(chosen).union_add(
                    second.intersect_domain(chosen.complement())
                )
            case Binary(op="floordiv" | "mod" as op, left=left, right=right):
                return self._division(op, left, right, where)
            case Binary(op="add" | "sub" | "mul", dtype=dtype) if dtype is not DType.I64:
                return None  # it wraps
            case Binary(op=op, left=left, right=right) if op in ("add", "sub", "min", "max", "mul"):
                first, second = self.piecewise(left, where), self.piecewise(right, where)
                if first is None or second is None:
                    return None
                if op == "mul":
                    return first.mul(second) if first.is_cst() or second.is_cst() else None
                return getattr(first, op)(second)
            case _:
                return None

    def _division(self, op: str, left: Expr, right: Expr, where: Any | None) -> Any | None:
        dividend = self.piecewise(left, where)
        if dividend is None:
            return None
        divisor = linear(right)
        if divisor is not None and not any(c for name, c in divisor.items() if name):
            value = divisor.get("", 0)
            if value == 0:
                return self.constant(0)  # x // 0 = x % 0 = 0
            if value == -1 and left.dtype is not DType.I64:
                return None  # the least number has no negative
            if value < 0:
                dividend = dividend.neg()  # x // -d = -x // d; x % -d = -(-x % d)
            if op == "mod":
                rest = dividend.mod_val(self.number(abs(value)))
                return rest.neg() if value < 0 else rest
            return dividend.scale_down_val(self.number(abs(value))).floor()
        period = self.piecewise(right, where)
        if period is None or where is None:
            return None
        return self._periods(op, dividend, period, where)

    def _periods(self, op: str, dividend: Any, period: Any, where: Any) -> Any | None:
        """before: `e % n`, n symbolic
        after: `e - q*n` where `q*n <= e < (q+1)*n`, for the few q that cover `where`; 0 where n
        is 0. None when they do not cover it (a negative n among them)."""
        zero = self.constant(0)
        positive = period.gt_set(zero)
        rest = where.intersect(positive)
        no_period = where.intersect(period.eq_set(zero))
        if not where.subtract(positive).is_subset(no_period):
            return None
        result = None if no_period.is_empty() else zero.intersect_domain(no_period)
        for distance in range(DIVISION_PIECES + 1):
            for quotient in {distance, -distance}:
                start = period.scale_val(quotient)
                piece = rest.intersect(dividend.ge_set(start)).intersect(
                    dividend.lt_set(start.add(period))
                )
                if piece.is_empty():
                    continue
                value = dividend.sub(start) if op == "mod" else self.constant(quotient)
                value = value.intersect_domain(piece)
                result = value if result is None else result.union_add(value)
                rest = rest.subtract(piece)
            if rest.is_empty():
                return result if result is not None else zero
        return None

    def condition(self, expr: Expr, where: Any | None = None) -> Any | None:
        """The set of points where the bool `expr` holds, or None if it is not affine."""
        match expr:
            case Const(value=value):
                return universe(self.space) if value else empty(self.space)
            case Unary(op="not" | "invert", operand=operand):
                inner = self.condition(operand, where)
                return None if inner is None else inner.complement()
            case Binary(op="and" | "or" | "xor" as op, left=left, right=right) if (
                expr.dtype is DType.BOOL
            ):
                first, second = self.condition(left, where), self.condition(right, where)
                if first is None or second is None:
                    return None
                if op == "xor":
                    return first.union(second).subtract(first.intersect(second))
                return first.intersect(second) if op == "and" else first.union(second)
            case Compare(op=op, left=left, right=right):
                if left.dtype is DType.BOOL:
                    first, second = self.condition(left, where), self.condition(right, where)
                    if first is None or second is None or op not in ("eq", "ne"):
                        return None
                    same = first.intersect(second).union(first.union(second).complement())
                    return same if op == "eq" else same.complement()
                first, second = self.piecewise(left, where), self.piecewise(right, where)
                if first is None or second is None:
                    return None
                return getattr(first, f"{op}_set")(second)
            case Select(condition=condition, then=then, otherwise=otherwise):
                chosen = self.condition(condition, where)
                first, second = self.condition(then, where), self.condition(otherwise, where)
                if chosen is None or first is None or second is None:
                    return None
                return chosen.intersect(first).union(second.subtract(chosen))
            case _:
                return None


def relation_of(space: Any, values: Sequence[Any], name: str) -> Any:
    """The map { point of `space` -> name[values] } from pw_affs on `space`."""
    target = space.from_domain().add_dims(OUT, len(values)).set_tuple_name(OUT, name)
    if not values:
        return islpy.Map.universe(target)
    if all(value.isa_aff() for value in values):  # the common case, without pieces to put together
        parts = islpy.AffList.alloc(space.get_ctx(), len(values))
        for value in values:
            parts = parts.add(value.as_aff())
        return islpy.Map.from_multi_aff(islpy.MultiAff.from_aff_list(target, parts))
    listing = islpy.PwAffList.alloc(space.get_ctx(), len(values))
    for value in values:
        listing = listing.add(value)
    return islpy.MultiPwAff.from_pw_aff_list(target, listing).as_map()


def anywhere(relation: Any, position: int, extent: Any) -> Any:
    """`relation` with output `position` anything in 0..extent, a pw_aff on its inputs."""
    name = relation.get_tuple_name(OUT) or ""
    free = relation.project_out(OUT, position, 1).insert_dims(OUT, position, 1)
    space = extent.get_space().domain()
    below = relation_of(space, [extent], "end")  # { input -> end[extent] }
    line = below.get_space().range()
    smaller = islpy.Map.lex_gt(line).intersect_range(
        islpy.Set.universe(line).lower_bound_val(SET, 0, 0)
    )
    inside = below.apply_range(smaller)  # { input -> end[0 .. extent - 1] }
    count = free.dim(OUT)
    inside = inside.insert_dims(OUT, 0, position).insert_dims(
        OUT, position + 1, count - position - 1
    )
    free = free.set_tuple_name(OUT, name) if name else free
    return free.intersect(inside.set_tuple_name(OUT, name) if name else inside)


def schedule_of(space: Any, times: Sequence[int | tuple[str, int]], domain: Any) -> Any:
    """The schedule { space -> [times] }: a time is a number, or (iterator, sign)."""
    reader = Reader(space)
    values = [
        reader.constant(time) if isinstance(time, int) else reader.affine({time[0]: time[1]})
        for time in times
    ]
    return relation_of(space, values, "time").intersect_domain(domain)


# ------------------------------------------------------------------------------- numbers


def fix_parameters(thing: Any, values: Mapping[str, int]) -> Any:
    """`thing` with the parameters in `values` fixed to those numbers."""
    for name, value in values.items():
        position = thing.find_dim_by_name(PARAM, name)
        if position >= 0:
            thing = thing.fix_val(PARAM, position, value)
    return thing


def without_parameters(thing: Any, names: Sequence[str]) -> Any:
    """`thing` for any values of the parameters `names`, which are then gone."""
    for name in names:
        position = thing.find_dim_by_name(PARAM, name)
        if position >= 0:
            thing = thing.project_out(PARAM, position, 1)
    return thing


# What isl calls back is a container's own method, never a function in Python: a signal's handler would run there, and
# what it raises (KeyboardInterrupt) islpy prints and forgets.


def points_of(finite: Any) -> list[tuple[int, ...]]:
    """All points of a bounded set without free parameters, sorted."""
    dims = finite.dim(SET)
    found: list[Any] = []
    finite.foreach_point(found.append)
    return sorted(
        tuple(int(point.get_coordinate_val(SET, k).to_python()) for k in range(dims)) for point in found
    )


def sample(thing: Any) -> tuple[dict[str, int], tuple[int, ...]] | None:
    """A point of a set: its parameters by name and its coordinates; None if it is empty."""
    point = thing.sample_point()
    if point.is_void():
        return None
    space = point.get_space()
    params = {
        space.get_dim_name(PARAM, k): int(point.get_coordinate_val(PARAM, k).to_python())
        for k in range(space.dim(PARAM))
    }
    coordinates = tuple(
        int(point.get_coordinate_val(SET, k).to_python()) for k in range(space.dim(SET))
    )
    return params, coordinates


def constant_of(value: Any) -> int | None:
    """The number a pw_aff always is, or None."""
    result: int | None = None
    pieces: dict[Any, Any] = {}
    value.foreach_piece(pieces.__setitem__)
    for domain, aff in pieces.items():
        if domain.is_empty():
            continue
        if not aff.is_cst():
            return None
        number = aff.get_constant_val()
        if not number.is_int() or (result is not None and number.to_python() != result):
            return None
        result = int(number.to_python())
    return result


ENDS = 100_000
"""isl operations that `ends_of` may take: with several `%` in one subscript, millions would not do."""


def ends_of(points: Any, dim: int) -> tuple[Any, Any]:
    """The least and the greatest value of a dimension, as pw_affs in the parameters; Unknown if
    it is not bounded, or isl finds none within `ENDS` operations."""
    raw, budget = points.get_ctx(), current_budget()
    question = hash(points), dim
    if budget is not None and question in budget.unanswered:
        raise Unknown("the ends of this dimension (operation limit)")
    raw.reset_operations()
    limit = ENDS if budget is None else min(ENDS, budget.question)
    raw.set_max_operations(limit)
    try:
        ends = points.dim_min(dim), points.dim_max(dim)
        return ends[0].coalesce(), ends[1].coalesce()
    except islpy.Error as error:
        if budget is not None:
            budget.left -= limit
            budget.unanswered.add(question)
        raise Unknown(str(error)) from error
    finally:
        raw.reset_operations()
        raw.set_max_operations(max(1, budget.left) if budget is not None else 0)


def quotients_of(relation: Any) -> int:
    """How many quotients by constants hold the points of a map together, at most in one piece."""
    found: list[Any] = []
    relation.foreach_basic_map(found.append)
    return max((piece.dim(islpy.dim_type.div) for piece in found), default=0)


def integer_of(number: Any) -> int | None:
    """An isl value as an int; None if it is infinite or not a number."""
    return int(number.to_python()) if number.is_int() else None
