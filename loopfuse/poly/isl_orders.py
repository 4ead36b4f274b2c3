"""Orders of statement instances: as relations to time, whether they keep dependences, and the loops that run them.

Part of the isl room. A *coordinate* is one dimension of time: an affine value of a statement's iterators, its quotient by a
constant, or on which side of zero it is. isl's AST generator writes the loops of an order; this reads its trees.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import islpy

from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr
from loopfuse.lang.walk import substitute
from loopfuse.poly.isl import IN, OUT, SET, Reader, Unknown, relation_of
from loopfuse.poly.isl_relations import equate
from loopfuse.poly.isl_text import ast_expr

Affine = tuple[tuple[str, int], ...]
"""Coefficients of names ("": the constant)."""


@dataclass(frozen=True, slots=True)
class Coordinate:
    """The sum of `factor * floor(affine / divisor)` over `terms`. `sides`: not that sum, but on which side of zero it
    is: with 2, 0 where it is negative and else 1; with 3, 0 below, 1 at and 2 above zero."""

    terms: tuple[tuple[int, Affine, int], ...]
    sides: int = 0


def affine_of(coordinate: Coordinate) -> Affine | None:
    """The coordinate as an affine value; None where it is a quotient or a side."""
    if coordinate.sides or any(divisor != 1 for _, _, divisor in coordinate.terms):
        return None
    found: dict[str, int] = {}
    for factor, affine, _ in coordinate.terms:
        for name, c in affine:
            found[name] = found.get(name, 0) + factor * c
    return tuple((name, c) for name, c in found.items() if c)


def order_of(domain: Any, coordinates: Sequence[Coordinate]) -> Any:
    """{ point of `domain` -> [its time] }."""
    reader = Reader(domain.get_space())
    values: list[Any] = []
    for coordinate in coordinates:
        value = reader.constant(0)
        for factor, affine, divisor in coordinate.terms:
            part = reader.affine(dict(affine))
            if part is None:
                raise Unknown("a bound names what no statement has")
            if divisor != 1:
                part = part.scale_down_val(reader.number(divisor)).floor()
            value = value.add(part.scale_val(reader.number(factor)))
        if coordinate.sides:
            zero = reader.constant(0)
            sides = (
                [value.lt_set(zero), value.ge_set(zero)]
                if coordinate.sides == 2
                else [value.lt_set(zero), value.eq_set(zero), value.gt_set(zero)]
            )
            parts = [reader.constant(k).intersect_domain(side) for k, side in enumerate(sides)]
            value = reduce(lambda one, other: one.union_add(other), parts)
        values.append(value)
    order = relation_of(domain.get_space(), values, "time").intersect_domain(domain)
    return order.reset_tuple_id(OUT)


def in_time(relation: Any, source: Any, sink: Any) -> Any:
    """A dependence as pairs of times, by the orders of its ends."""
    return relation.apply_domain(source).apply_range(sink)


def runs_forward(times: Any) -> bool:
    """Does every pair of times go forward?"""
    backward = islpy.Map.lex_ge(times.get_space().domain())
    return bool(times.is_disjoint(backward))


def moves_at(times: Any, depth: int, fixed: Mapping[int, int]) -> bool:
    """Does a pair of times that agree before dimension `depth`, where some dimensions have a `fixed` value, differ in it?"""
    for position, value in fixed.items():
        times = times.fix_val(IN, position, value)
    same = equate(times, [(k, k) for k in range(depth)])
    return not same.is_subset(same.equate(IN, depth, OUT, depth))


def sides_of(order: Any, depth: int) -> tuple[int, ...]:
    """The values that a dimension of sides has in an order."""
    return tuple(k for k in range(3) if not order.fix_val(OUT, depth, k).is_empty())


def part_of(order: Any, fixed: Mapping[int, int]) -> Any:
    """The part of an order where dimensions have these values."""
    for position, value in fixed.items():
        order = order.fix_val(OUT, position, value)
    return order


# ------------------------------------------------------------------------------------ loops


@dataclass(frozen=True, slots=True)
class ScanLoop:
    """A loop over dimension `depth` of time, whose variable is named by `variable_of`; `upper` is exclusive. `fixed`: by variable, the values
    of dimensions around it that have just one."""

    depth: int
    lower: Expr
    upper: Expr
    step: int
    body: tuple[ScanNode, ...]
    fixed: tuple[tuple[str, Expr], ...] = ()


@dataclass(frozen=True, slots=True)
class ScanIf:
    """What runs where a condition holds."""

    condition: Expr
    body: tuple[ScanNode, ...]
    otherwise: tuple[ScanNode, ...] = ()


@dataclass(frozen=True, slots=True)
class ScanLeaf:
    """An instance of a statement, of the part of the order that `tag` numbers."""

    statement: str
    tag: int
    iteration: tuple[Expr, ...]


ScanNode = ScanLoop | ScanIf | ScanLeaf


def leaves(nodes: Sequence[ScanNode]) -> Iterator[tuple[str, int]]:
    """The statements in loops, and the piece that each is of."""
    for node in nodes:
        if isinstance(node, ScanLeaf):
            yield node.statement, node.tag
        else:
            yield from leaves((*node.body, *(node.otherwise if isinstance(node, ScanIf) else ())))


def inner_loops(nodes: Sequence[ScanNode], depth: int) -> Iterator[ScanLoop]:
    """The loops over a dimension in others."""
    for node in nodes:
        if isinstance(node, ScanLoop) and node.depth == depth:
            yield node
        elif not isinstance(node, ScanLeaf):
            yield from inner_loops((*node.body, *(node.otherwise if isinstance(node, ScanIf) else ())), depth)


def variable_of(depth: int) -> str:
    """The variable of the loops over a dimension of time."""
    return f"c{depth}"


def scan(
    parts: Sequence[tuple[str, int, Any]], context: Any, symbols: Sequence[str], unrolled: Collection[int], whole: Collection[int] = ()
) -> tuple[ScanNode, ...]:
    """The loops that run instances in their order: (statement, tag, order) each. Dimensions `unrolled` are written out; of those
    that are `whole` there is one loop for all statements.
    Raises Unknown where isl writes something else than loops and conditions."""
    union: Any = None
    for number, (_, _, order) in enumerate(parts):
        named = islpy.UnionMap.from_map(order.set_tuple_name(IN, f"P{number}"))
        union = named if union is None else union.union(named)
    dims = parts[0][2].dim(OUT)
    build = islpy.AstBuild.from_context(context)
    ids = islpy.IdList.alloc(context.get_ctx(), dims)
    for depth in range(dims):
        ids = ids.add(islpy.Id(variable_of(depth), context=context.get_ctx()))
    build = build.set_iterators(ids)
    places = ", ".join(f"i{k}" for k in range(dims))
    options = "; ".join(
        f"[{places}] -> {'unroll' if k in unrolled else 'atomic' if k in whole else 'separate'}[{k}]" for k in range(dims)
    )
    build = build.set_options(islpy.UnionMap.read_from_str(context.get_ctx(), f"{{ {options} }}"))
    return _Reading(tuple(parts), frozenset(symbols)).nodes(build.node_from_schedule_map(union), {})


def _kind(node: Any) -> str:
    return islpy.ast_node_type(node.get_type()).name


@dataclass(frozen=True, slots=True)
class _Reading:
    parts: tuple[tuple[str, int, Any], ...]
    symbols: frozenset[str]

    def value(self, ast: Any, known: Mapping[str, Expr]) -> Expr:
        return tidy(substitute(ast_expr(ast, self.symbols), dict(known)))

    def nodes(self, node: Any, known: Mapping[str, Expr]) -> tuple[ScanNode, ...]:
        match kind := _kind(node):
            case "block":
                children = node.block_get_children()
                every = [children.get_at(k) for k in range(children.n_ast_node())]
                return tuple(found for child in every for found in self.nodes(child, known))
            case "if_":
                ways = [node.if_get_then_node(), *([node.if_get_else_node()] if node.if_has_else_node() else [])]
                return (ScanIf(self.value(node.if_get_cond(), known), *(self.nodes(way, known) for way in ways)),)
            case "for_":
                return self.loop(node, known)
            case "user":
                call = node.user_get_expr()
                name, *places = (call.get_op_arg(k) for k in range(call.get_op_n_arg()))
                number = int(name.get_id().get_name()[1:])
                statement, tag, _ = self.parts[number]
                return (ScanLeaf(statement, tag, tuple(self.value(each, known) for each in places)),)
            case _:
                raise Unknown(f"isl wrote a node `{kind}`")

    def loop(self, node: Any, known: Mapping[str, Expr]) -> tuple[ScanNode, ...]:
        name = node.for_get_iterator().get_id().get_name()
        lower = self.value(node.for_get_init(), known)
        if node.for_is_degenerate():
            return self.nodes(node.for_get_body(), {**known, name: lower})
        bound = node.for_get_cond()
        kind = islpy.ast_expr_op_type(bound.get_op_type()).name
        if kind not in ("lt", "le"):
            raise Unknown("a loop that ends in another way")
        upper = self.value(bound.get_op_arg(1), known)
        step = int(node.for_get_inc().get_val().to_python())
        body = self.nodes(node.for_get_body(), known)
        end = tidy(upper + 1) if kind == "le" else upper
        return (ScanLoop(int(name[1:]), lower, end, step, body, tuple(known.items())),)


def whole_blocks(points: Any, size: int) -> Any:
    """The points of a set without its last dimension, below which all `size` values from 0 on are in it.

    before: { [i, r] : r in 0..min(size, n - i) }        after: { [i] : i <= n - size }
    """
    last = points.dim(SET) - 1
    below = points.project_out(SET, last, 1)
    every = below.add_dims(SET, 1).lower_bound_val(SET, last, 0).upper_bound_val(SET, last, size - 1)
    return below.subtract(every.subtract(points).project_out(SET, last, 1)).coalesce()


def whole_tiles(points: Any, sizes: Sequence[int]) -> Any:
    """The same of the last dimensions, one for each size: below which all of the box from 0 on are in the set.

    before: { [i, r, c] : 3 i + r <= n and r < 3 and c < m }        after: { [i] : 3 i + 2 <= n and m >= 4 } for 3, 4
    """
    first = points.dim(SET) - len(sizes)
    below = points.project_out(SET, first, len(sizes))
    every = below.add_dims(SET, len(sizes))
    for k, size in enumerate(sizes, start=first):
        every = every.lower_bound_val(SET, k, 0).upper_bound_val(SET, k, size - 1)
    return below.subtract(every.subtract(points).project_out(SET, first, len(sizes))).coalesce()


def whole_rows(orders: Mapping[str, Any], full: Collection[str], block: int, row: int, size: int) -> tuple[dict[str, Any], ...]:
    """Orders of rows in blocks of `size`, cut along the dimension before `row`, the place along the rows: before, where and behind where
    all rows of a block are at that place, in all statements `full`; and blocks that have no such place. The first `block` dimensions
    say which block; the one after `row` is the row's number in it.

    before: [block, .., place, row, number, text]        after: [block, .., side, place, row, text], four times
    """
    points: Any = None
    for id in full:
        times = orders[id].range()
        times = times.project_out(SET, row + 2, times.dim(SET) - row - 2).project_out(SET, row, 1)
        points = times if points is None else points.intersect(times)
    assert points is not None
    whole = whole_blocks(points.coalesce(), size)
    later = islpy.Map.lex_lt(whole.get_space())
    for k in range(row - 1):
        later = later.equate(IN, k, OUT, k)
    before = later.reverse().intersect_domain(whole).range().subtract(whole)
    blocks = whole.project_out(SET, block, row - block).add_dims(SET, row - block)
    behind = blocks.subtract(before).subtract(whole)
    sides = (before, whole, behind, blocks.complement())
    out: list[dict[str, Any]] = []
    for side, places in enumerate(sides):
        inside: dict[str, Any] = {}
        for id, order in orders.items():
            more = order.dim(OUT) - row
            cut = order.intersect_range(places.add_dims(SET, more)).coalesce()
            if not cut.is_empty():
                cut = cut.project_out(OUT, row + 1, 1).insert_dims(OUT, row - 1, 1).fix_val(OUT, row - 1, side)
                inside[id] = cut.reset_tuple_id(OUT)
        out.append(inside)
    return tuple(out)
