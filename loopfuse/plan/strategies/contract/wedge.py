"""The part of its rows and columns that a product has, where that is not all of them.

    for i in 0..N, j in i..N: C[i, j] = sum(k: A[i, k] * A[j, k])        inside: j - i >= 0

Each `Edge` is a straight line through the rows and columns: a linear form that is at least 0 inside. In a tile it is least, and
greatest, at a corner: so whole tiles are known to lie inside, or outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from loopfuse.lang.index import TRUE
from loopfuse.lang.linear import from_linear, linear, tidy
from loopfuse.lang.nodes import Binary, Compare, Expr, Iter, combine, integer
from loopfuse.lang.walk import conjuncts, iterators, loads, substitute
from loopfuse.plan.mapping.space import Extent
from loopfuse.tree.looptree import Compute, Guard, Loop, TreeNode


@dataclass(frozen=True, slots=True)
class Edge:
    """`distance` is at least 0 inside; by `row` it grows from one row to the next, by `column` (-1, 0 or 1) from one column
    to the next."""

    distance: Expr
    row: int
    column: int

    def at(self, values: Mapping[str, Expr]) -> Expr:
        """The distance where the variables have these values."""
        return tidy(substitute(self.distance, values))


def find_edges(condition: Expr, rows: str, columns: str) -> tuple[Edge, ...] | None:
    """The edges of a condition; None where it is no conjunction of such."""
    found: list[Edge] = []
    for part in conjuncts(condition):
        if part == TRUE:
            continue
        match part:
            case Compare(op="le", left=less, right=more) | Compare(op="ge", left=more, right=less):
                distance = more - less
            case Compare(op="lt", left=less, right=more) | Compare(op="gt", left=more, right=less):
                distance = more - less - 1
            case _:
                return None
        terms = linear(distance)
        if terms is None or abs(terms.get(columns, 0)) > 1:
            return None
        found.append(Edge(_normal(terms, distance), terms.get(rows, 0), terms.get(columns, 0)))
    return tuple(found)


def without_condition(nodes: Sequence[TreeNode]) -> tuple[tuple[TreeNode, ...], frozenset[Expr]] | None:
    """The nodes without guards around them, and the conditions under which all of them stand; None where some stand under
    others."""
    conditions: set[frozenset[Expr]] = set()

    def bare(inside: Sequence[TreeNode], known: frozenset[Expr]) -> Iterator[TreeNode]:
        for node in inside:
            match node:
                case Guard(condition=condition, then=then, otherwise=()):
                    yield from bare(then, known | frozenset(conjuncts(condition)))
                case Loop(body=body):
                    yield replace(node, body=tuple(bare(body, known)))
                case _:
                    conditions.add(known if isinstance(node, Compute) else frozenset())
                    yield node

    found = tuple(bare(nodes, frozenset()))
    return (found, next(iter(conditions))) if len(conditions) == 1 else None


def around(extent: Extent, var: str, ends: Mapping[str, Extent]) -> tuple[Extent, tuple[Expr, ...]] | None:
    """A range that holds the one that is another for each row (`ends`: the ranges of what its bounds name), and the conditions
    on `var` under which it is the one of a row; None where bounds are not linear."""
    lower: list[Expr] = []
    upper: list[Expr] = []
    conditions: list[Expr] = []
    for bounds, op, bound in ((lower, "max", extent.lower), (upper, "min", extent.upper)):
        for part in _parts(bound, op):
            if loads(part):
                return None
            hull = _extreme(part, ends, least=op == "max")
            if hull is None:
                return None
            bounds.append(hull)
            if iterators(part):
                conditions.append(Iter(var) >= part if op == "max" else Iter(var) < part)
    return Extent(_joined("max", lower), _joined("min", upper), 1), tuple(conditions)


def _extreme(bound: Expr, ends: Mapping[str, Extent], least: bool) -> Expr | None:
    """The least, or greatest, value of a bound over the ranges of what it names."""
    terms = linear(bound)
    names = iterators(bound)
    if not names:
        return bound
    if terms is None or not names <= ends.keys():
        return None
    at = {name: ends[name].lower if (terms[name] > 0) == least else ends[name].upper - 1 for name in names if terms.get(name)}
    return tidy(substitute(_normal(terms, bound), at))


def _normal(terms: Mapping[str, int], like: Expr) -> Expr:
    names = iterators(like)
    return from_linear(terms, frozenset(terms) - names - {""})


def _parts(bound: Expr, op: str) -> list[Expr]:
    if isinstance(bound, Binary) and bound.op == op:
        return [*_parts(bound.left, op), *_parts(bound.right, op)]
    return [bound]


def _joined(op: str, values: Sequence[Expr]) -> Expr:
    out = values[0]
    for value in values[1:]:
        out = combine(op, out, value)
    return tidy(out)


def corners(
    edges: Sequence[Edge], rows: tuple[str, Expr, int], columns: tuple[str, Expr, int], least: bool
) -> list[Expr]:
    """Of each edge: at least 0 at its farthest corner of a tile (`least`: at its nearest, so that the whole tile is inside).
    `rows` and `columns`: the variable, its first value, and how many there are."""
    found: list[Expr] = []
    for edge in edges:
        at: dict[str, Expr] = {}
        for (var, first, count), step in ((rows, edge.row), (columns, edge.column)):
            at[var] = first if (step >= 0) == least else tidy(first + (count - 1))
        found.append(edge.at(at) >= integer(0))
    return found
