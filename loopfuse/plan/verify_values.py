"""Does a Compute calculate what its statement says? Expressions compared node by node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from loopfuse.base.dtypes import DType
from loopfuse.lang.affine import is_checked
from loopfuse.lang.nodes import (
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Fma,
    Iter,
    Load,
    Select,
    Symbol,
    Unary,
)
from loopfuse.lang.walk import children, loads, substitute
from loopfuse.plan.linear import same_index
from loopfuse.plan.looptree import Compute
from loopfuse.plan.verify_events import Leaf, Undecided
from loopfuse.poly.model import Statement


class Different(Exception):
    """The Compute calculates something else; says what."""


def match_value(statement: Statement, leaf: Leaf, node: Compute) -> list[tuple[int, Load]]:
    """Which Load of the Compute stands for which read of the statement: (read, Load) pairs.

    Value, predicate and the target's checked subscripts must be the statement's own, iterators
    replaced by `iteration`; where a Load's data comes from and how other subscripts are written is
    not looked at. What the leaf's
    instances decide may be missing: a Select whose condition is the same for all of them, an
    operand of `and` and `or` that always, or never, holds. The reads of what is missing then have
    no Load. Raises Different.
    """
    if (statement.predicate is None) != (node.predicate is None):
        raise Different("one of them has a predicate")
    matcher = _Matcher(leaf, dict(zip(statement.iterators, node.iteration, strict=True)))
    pairs: list[tuple[int, Load]] = []
    first = 0
    if statement.predicate is not None and node.predicate is not None:
        pairs += matcher.match(statement.predicate, node.predicate, 0)
        first = matcher.count(statement.predicate)
    pairs += matcher.match(statement.value, node.value, first)
    first += matcher.count(statement.value)
    return pairs + matcher.match_subscripts(statement.target, node.target, first)


def is_same_place(
    statement: Statement, leaf: Leaf, node: Compute, wanted: Load, given: Load
) -> bool:
    """Are the subscripts of the Compute's load the statement's own, behind those of a copy? (For
    places that isl cannot express; a load behind a `swap` may be of either array.)"""
    lead = len(given.index) - len(wanted.index)
    if wanted.swapped is not None or lead < 0:
        return False
    matcher = _Matcher(leaf, dict(zip(statement.iterators, node.iteration, strict=True)))
    try:
        for one, other in zip(wanted.index, given.index[lead:], strict=True):
            if matcher.count(one) or matcher.match(one, other, 0):
                return False
    except Different:
        return False
    return True


class _Matcher:
    """`wanted` is always in terms of the statement's iterators, `given` of the leaf's loops."""

    def __init__(self, leaf: Leaf, iteration: dict[str, Expr]) -> None:
        self.leaf = leaf
        self.iteration = iteration
        self.known: dict[Expr, bool | None] = {}
        self.counts: dict[int, tuple[Expr, int]] = {}  # by id, which the kept Expr holds fast

    def count(self, expr: Expr) -> int:
        """How many Loads `expr` has."""
        found = self.counts.get(id(expr))
        if found is None:
            number = sum(self.count(child) for child in children(expr)) + isinstance(expr, Load)
            found = self.counts[id(expr)] = (expr, number)
        return found[1]

    def match(self, wanted: Expr, given: Expr, first: int) -> list[tuple[int, Load]]:
        """The pairs of `wanted`, whose first read has number `first`; raises Different."""
        if isinstance(wanted, Load):
            if not isinstance(given, Load) or given.dtype is not wanted.dtype:
                raise Different(f"a load of `{wanted.array}` is missing")
            pairs = self.match_subscripts(wanted, given, first)
            return [*pairs, (first + self.count(wanted) - 1, given)]
        try:
            return self._match_operation(wanted, given, first)
        except Different as error:
            for simpler, skipped in self._decided(wanted, self.iteration):
                try:
                    return self.match(simpler, given, first + skipped)
                except Different:
                    pass
            # What the Compute has too much must not be a load, which would have to be allowed.
            for simpler, _ in self._decided(given, {}):
                if self.count(simpler) == self.count(given):
                    try:
                        return self.match(wanted, simpler, first)
                    except Different:
                        pass
            raise error from None

    def match_subscripts(self, wanted: Load, given: Load, first: int) -> list[tuple[int, Load]]:
        """The pairs inside the subscripts of two accesses. The others are compared as relations,
        by where they lead; one that is checked when it runs must be the same expression."""
        pairs: list[tuple[int, Load]] = []
        lead = len(given.index) - len(wanted.index)
        for position, subscript in enumerate(wanted.index):
            if is_checked(subscript):
                if lead < 0:
                    raise Undecided(f"{given.array}, at a place that depends on data")
                pairs += self.match(subscript, given.index[lead + position], first)
            elif self.count(subscript):
                raise Undecided("a subscript that depends on data")
            first += self.count(subscript)
        return pairs

    def _match_operation(self, wanted: Expr, given: Expr, first: int) -> list[tuple[int, Load]]:
        """The same operation on operands that match."""
        exact = wanted.dtype is DType.BOOL or wanted.dtype.is_integer
        if exact and wanted.dtype is given.dtype and not self.count(wanted):
            here = substitute(wanted, self.iteration)
            if here == given or (not self.count(given) and self._always_equal(here, given)):
                return []
        if isinstance(wanted, Const) and isinstance(given, Const):
            # repr, so that nan is nan and -0.0 is not 0.0
            if wanted.dtype is given.dtype and repr(wanted.value) == repr(given.value):
                return []
            raise Different(f"{given.value!r} instead of {wanted.value!r}")
        if not _same_operation(wanted, given):
            raise Different(f"a {type(given).__name__} instead of a {type(wanted).__name__}")
        pairs: list[tuple[int, Load]] = []
        for one, other in zip(children(wanted), children(given), strict=True):
            pairs += self.match(one, other, first)
            first += self.count(one)
        return pairs

    def _decided(self, expr: Expr, values: dict[str, Expr]) -> Iterator[tuple[Expr, int]]:
        """What `expr` always equals here, and how many of its loads come before those of that:
        the arm that is always chosen, the operand that alone decides. `values` are its iterators'
        in terms of the leaf's loops."""
        match expr:
            case Select(condition=condition, then=then, otherwise=otherwise):
                holds = self._holds(substitute(condition, values))
                before = self.count(condition)
                if holds is True:
                    yield then, before
                if holds is False:
                    yield otherwise, before + self.count(then)
            case Binary(op="and" | "or" as op, left=left, right=right, dtype=DType.BOOL):
                count = self.count(left)
                for one, other, skipped in ((left, right, count), (right, left, 0)):
                    holds = self._holds(substitute(one, values))
                    if holds is not None:
                        alone = holds == (op == "and")
                        yield (other, skipped) if alone else (Const(holds, DType.BOOL), 0)
            case _:
                pass

    def _holds(self, condition: Expr) -> bool | None:
        """Is it always true here, or always false? None: neither, or isl cannot say."""
        if condition not in self.known:
            self.known[condition] = self._ask(condition)
        return self.known[condition]

    def _ask(self, condition: Expr) -> bool | None:
        if isinstance(condition, Const):
            return bool(condition.value)
        if loads(condition):
            return self._ask_operands(condition)
        holds = self.leaf.reader.condition(condition, self.leaf.points)
        if holds is None:
            return None
        if self.leaf.points.is_subset(holds):
            return True
        return False if self.leaf.points.is_disjoint(holds) else None

    def _ask_operands(self, condition: Expr) -> bool | None:
        """`_ask` of a condition on data, where an operand without data decides it."""
        match condition:
            case Unary(op="not", operand=operand):
                holds = self._holds(operand)
                return None if holds is None else not holds
            case Binary(op="and" | "or" as op, left=left, right=right, dtype=DType.BOOL):
                holds = (self._holds(left), self._holds(right))
                deciding = op == "or"
                if deciding in holds:
                    return deciding
                return None if None in holds else not deciding
            case Select(condition=test, then=then, otherwise=otherwise):
                chosen = self._holds(test)
                return None if chosen is None else self._holds(then if chosen else otherwise)
            case _:
                return None

    def _always_equal(self, one: Expr, other: Expr) -> bool:
        """Do two integers or conditions without data have one value in all of the leaf's
        instances?"""
        if one.dtype is not DType.BOOL:
            # Only index arithmetic never wraps, so that isl's unbounded integers are the same.
            if same_index(one, other):
                return True
            return one.dtype is DType.I64 and self.leaf.always_equal(one, other)
        here = self.leaf.points
        first = self.leaf.reader.condition(one, here)
        second = self.leaf.reader.condition(other, here)
        if first is None or second is None:
            return False
        return bool(here.intersect(first).is_equal(here.intersect(second)))


def _same_operation(wanted: Expr, given: Expr) -> bool:
    """The same node but for its operands: operation, dtype, name."""
    if type(wanted) is not type(given) or wanted.dtype is not given.dtype:
        return False
    match wanted:
        case Unary(op=op) | Binary(op=op) | Compare(op=op):
            return isinstance(given, Unary | Binary | Compare) and given.op == op
        case Call(function=function, arguments=arguments):
            return (
                isinstance(given, Call)
                and given.function == function
                and len(given.arguments) == len(arguments)
            )
        case Select() | Cast() | Fma():
            return True
        case Symbol():
            return wanted == given
        case Const() | Iter() | Load():
            return False  # compared elsewhere; an iterator means another thing in the tree
        case _:
            assert_never(wanted)
