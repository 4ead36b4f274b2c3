"""Recomputation: which instances of its producers a statement instance needs, as a list.

before:  for x: b[x] = f(a[x])        for x: c[x] = b[x-1] + b[x+1]
after:   for x: b_0 = f(a[x-1]); b_1 = f(a[x+1]); c[x] = b_0 + b_1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loopfuse.lang.affine import combine
from loopfuse.lang.nodes import Expr, Load, Select
from loopfuse.lang.walk import children, iterators, substitute, with_children
from loopfuse.plan.expressions import TRUE, conjoin, negate
from loopfuse.plan.groups import Group, solve_target
from loopfuse.poly.isl import linear
from loopfuse.poly.model import PolyProgram, Statement

LIMIT = 400
"""How many recomputed values one instance may need before recomputation is not considered."""


class TooMany(Exception):
    """More than LIMIT values would be recomputed for one instance."""


@dataclass(frozen=True, slots=True)
class Value:
    """A recomputed value: statement, iteration, and the condition under which it is needed (a
    `.zero` edge or the chosen arm of a Select)."""

    statement: str
    iteration: tuple[Expr, ...]
    needed: Expr = TRUE


@dataclass(frozen=True, slots=True)
class Instance:
    """A statement instance with its loads resolved: `value` has `Load`s whose k-th is fed by
    `sources[k]`, a recomputed Value, or None where it comes from storage."""

    value: Expr
    predicate: Expr | None
    sources: tuple[Value | None, ...]


class Resolver:
    """Answers, for a group, which reads are recomputed and at which iteration."""

    def __init__(self, program: PolyProgram, group: Group) -> None:
        self.statements = {s.id: s for s in program.statements}
        self.arrays = program.arrays
        self.producer: dict[tuple[str, str], Statement] = {}
        scope = group.scope
        if scope is None or not group.recomputed:
            return
        for d in scope.dependences:
            if d.kind == "flow" and d.source in group.recomputed:
                self.producer[(d.sink, d.array)] = self.statements[d.source]

    def instance(self, statement: Statement, iteration: Mapping[str, Expr]) -> Instance:
        """The instance of `statement` at `iteration`, its reads resolved."""
        sources: list[Value | None] = []

        def visit(node: Expr, needed: Expr) -> Expr:
            if isinstance(node, Select):
                condition = visit(node.condition, needed)
                then = visit(node.then, conjoin(needed, condition))
                other = visit(node.otherwise, conjoin(needed, negate(condition)))
                return Select(condition, then, other, node.dtype, span=node.span)
            below = children(node)
            if below:
                node = with_children(node, tuple(visit(child, needed) for child in below))
            if isinstance(node, Load):
                sources.append(self.source(statement, node, iteration, needed))
            return node

        predicate = statement.predicate
        if predicate is not None:
            predicate = visit(tidy(substitute(predicate, iteration)), TRUE)
        value = visit(tidy(substitute(statement.value, iteration)), TRUE)
        return Instance(value, predicate, tuple(sources))

    def source(
        self, sink: Statement, load: Load, iteration: Mapping[str, Expr], needed: Expr
    ) -> Value | None:
        """Where a (substituted) load of `sink` gets its value from."""
        producer = self.producer.get((sink.id, load.array))
        if producer is None:
            return None
        solved = solve_target(producer)
        if solved is None:
            return None
        point: list[Expr] = []
        for iterator in producer.iterators:
            if iterator in solved:
                position, offset = solved[iterator]
                point.append(tidy(combine("sub", load.index[position], offset)))
            else:
                point.append(iteration[iterator])
        if any(isinstance(node, Load) for node in _inside(needed)):
            needed = TRUE
        return Value(producer.id, tuple(point), needed)

    def closure(self, statement: Statement, iteration: Mapping[str, Expr]) -> list[Value]:
        """Every value to recompute for one instance, producers first; TooMany past LIMIT."""
        order: list[Value] = []
        done: set[Value] = set()

        def visit(value: Value) -> None:
            if value in done:
                return
            done.add(value)
            if len(done) > LIMIT:
                raise TooMany
            producer = self.statements[value.statement]
            point = dict(zip(producer.iterators, value.iteration))
            for source in self.instance(producer, point).sources:
                if source is not None:
                    visit(Value(source.statement, source.iteration, conjoin(value.needed, source.needed)))
            order.append(value)

        for source in self.instance(statement, iteration).sources:
            if source is not None:
                visit(source)
        return order


def _inside(expr: Expr) -> list[Expr]:
    out = [expr]
    for child in children(expr):
        out += _inside(child)
    return out


def tidy(expr: Expr) -> Expr:
    """Linear index subexpressions in a normal form, so that equal instances look equal."""
    from loopfuse.base.dtypes import DType
    from loopfuse.lang.nodes import Binary
    from loopfuse.plan.expressions import from_linear

    if isinstance(expr, Load):
        return Load(
            expr.array,
            tuple(tidy(each) for each in expr.index),
            expr.dtype,
            expr.mode,
            expr.swapped,
            span=expr.span,
        )
    if isinstance(expr, Binary) and expr.dtype is DType.I64 and expr.op in ("add", "sub", "mul"):
        terms = linear(expr)
        if terms is not None:
            names = iterators(expr)
            return from_linear(terms, frozenset(terms) - names - {""})
    below = children(expr)
    return with_children(expr, tuple(tidy(child) for child in below)) if below else expr
