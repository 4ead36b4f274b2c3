"""Recomputation: which instances of its producers a statement instance needs, as a list.

before:  for x: b[x] = f(a[x])        for x: c[x] = b[x-1] + b[x+1]
after:   for x: b_0 = f(a[x-1]); b_1 = f(a[x+1]); c[x] = b_0 + b_1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loopfuse.lang.index import TRUE, conjoin, is_comparison, negate
from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import (
    Expr,
    Load,
    Select,
)
from loopfuse.lang.walk import children, substitute
from loopfuse.plan.units.groups import Group, Solved, solve_target
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


Point = tuple[Expr, ...]


class Resolver:
    """Answers, for a group, which reads are recomputed and at which iteration."""

    def __init__(self, program: PolyProgram, group: Group) -> None:
        self.program, self.scope = program, group.scope
        self.statements = program.by_id
        self.producer: dict[tuple[str, str], Statement] = {}
        self._reads: dict[str, tuple[tuple[Load, Expr], ...]] = {}
        self._sources: dict[tuple[str, Point], tuple[Value | None, ...]] = {}
        self._solved: dict[str, Solved | None] = {}
        scope = group.scope
        if scope is None or not group.recomputed:
            return
        for d in scope.touching(group.recomputed):
            if d.kind == "flow" and d.source in group.recomputed:
                self.producer[(d.sink, d.array)] = self.statements[d.source]

    def reads(self, statement: Statement) -> tuple[tuple[Load, Expr], ...]:
        """The statement's loads in evaluation order, each with the condition it is needed under."""
        if statement.id not in self._reads:
            found: list[tuple[Load, Expr]] = []
            if statement.predicate is not None:
                _collect(statement.predicate, TRUE, found)
            _collect(statement.value, TRUE, found)
            for subscript in statement.target.index:
                _collect(subscript, TRUE, found)
            self._reads[statement.id] = tuple(found)
        return self._reads[statement.id]

    def sources(
        self, statement: Statement, iteration: Mapping[str, Expr]
    ) -> tuple[Value | None, ...]:
        """For each load of the instance of `statement` at `iteration`, the recomputed value that
        feeds it, or None where it comes from storage."""
        reads = self.reads(statement)
        if not any((statement.id, load.array) in self.producer for load, _ in reads):
            return (None,) * len(reads)
        key = (statement.id, tuple(iteration[name] for name in statement.iterators))
        if key not in self._sources:
            self._sources[key] = tuple(
                self._source(statement, load, iteration, needed) for load, needed in reads
            )
        return self._sources[key]

    def _source(
        self, sink: Statement, load: Load, iteration: Mapping[str, Expr], needed: Expr
    ) -> Value | None:
        producer = self.producer.get((sink.id, load.array))
        if producer is None:
            return None
        if producer.id not in self._solved:
            assert self.scope is not None
            self._solved[producer.id] = solve_target(producer, self.scope, self.program)
        solved = self._solved[producer.id]
        assert solved is not None
        derived = dict(solved.derived)
        point: dict[str, Expr] = {}
        for iterator in producer.iterators:
            if iterator in solved.subscripts:
                position, offset = solved.subscripts[iterator]
                subscript = substitute(load.index[position], iteration)
                point[iterator] = tidy(subscript - offset)
            elif iterator not in derived:  # the reader's own
                point[iterator] = iteration[iterator]
        for iterator, value in solved.derived:
            point[iterator] = tidy(substitute(value, point))
        return Value(
            producer.id,
            tuple(point[iterator] for iterator in producer.iterators),
            substitute(needed, iteration),
        )

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
            for source in self.sources(producer, point):
                if source is not None:
                    visit(within(source, value.needed))
            order.append(value)

        for source in self.sources(statement, iteration):
            if source is not None:
                visit(source)
        return order


def within(value: Value, needed: Expr) -> Value:
    """`value`, needed only where `needed` holds too."""
    if needed == TRUE:
        return value
    return Value(value.statement, value.iteration, conjoin(needed, value.needed))


def _collect(expr: Expr, needed: Expr, found: list[tuple[Load, Expr]]) -> None:
    if isinstance(expr, Select):
        _collect(expr.condition, needed, found)
        first = second = needed
        if is_comparison(expr.condition):  # data and flags guard nothing that a proof can follow
            first, second = conjoin(needed, expr.condition), conjoin(needed, negate(expr.condition))
        _collect(expr.then, first, found)
        _collect(expr.otherwise, second, found)
        return
    for child in children(expr):
        _collect(child, needed, found)
    if isinstance(expr, Load):
        found.append((expr, needed))
