"""What a leaf's instances decide of an expression, and the expression without it.

before:  i * (1 if i <= M - 2 else w[0])        where i <= M - 2 in all instances
after:   i * 1

Written for the checker alone: isl says what a condition is, and only operations on bools and
choices are folded, which is exact. An operand that is left out may hold loads: whether that is
allowed is for the caller to see.
"""

from __future__ import annotations

from collections.abc import Iterator

from loopfuse.base.dtypes import DType
from loopfuse.lang.linear import same_index
from loopfuse.lang.nodes import Binary, Const, Expr, Load, Select, Unary
from loopfuse.lang.walk import children, with_children
from loopfuse.proof.events import Leaf


class Settled:
    """Answers for one leaf; expressions are in terms of its loops."""

    def __init__(self, leaf: Leaf) -> None:
        self.leaf = leaf
        self.known: dict[Expr, bool | None] = {}
        # by id, which the kept Expr holds fast
        self.made: dict[int, tuple[Expr, Expr]] = {}
        self.counts: dict[int, tuple[Expr, int]] = {}
        self.exact: dict[int, tuple[Expr, bool]] = {}

    def loads(self, expr: Expr) -> int:
        """How many Loads `expr` has."""
        found = self.counts.get(id(expr))
        if found is None:
            number = sum(self.loads(child) for child in children(expr)) + isinstance(expr, Load)
            found = self.counts[id(expr)] = (expr, number)
        return found[1]

    def is_exact(self, expr: Expr) -> bool:
        """Is it an integer or a condition, made of such alone, without data? Then equal forms mean
        equal values. (Forms with floats in them do not: 0.0 == -0.0.)"""
        if expr.dtype is not DType.BOOL and not expr.dtype.is_integer:
            return False
        found = self.exact.get(id(expr))
        if found is None:
            exact = not isinstance(expr, Load) and all(map(self.is_exact, children(expr)))
            found = self.exact[id(expr)] = (expr, exact)
        return found[1]

    def of(self, expr: Expr) -> Expr:
        """`expr` without anything that is decided; itself where nothing is."""
        found = self.made.get(id(expr))
        if found is None:
            found = self.made[id(expr)] = (expr, self._made(expr))
        return found[1]

    def holds(self, condition: Expr) -> bool | None:
        """Is it always true here, or always false? None: neither, or nobody can say."""
        settled = self.of(condition)
        return bool(settled.value) if isinstance(settled, Const) else None

    def steps(self, expr: Expr) -> Iterator[Expr]:
        """What `expr` always equals here, where one thing at its top is decided and nothing below
        is left out: the arm that is always chosen, the operand that alone decides, the constant
        that a condition is."""
        match expr:
            case Select(condition=condition, then=then, otherwise=otherwise):
                holds = self.holds(condition)
                if holds is not None:
                    yield then if holds else otherwise
            case Binary(op="and" | "or" as op, left=left, right=right, dtype=DType.BOOL):
                for one, other in ((left, right), (right, left)):
                    if self.holds(one) == (op == "and"):
                        yield other
            case _:
                pass
        if expr.dtype is DType.BOOL and not isinstance(expr, Const):
            holds = self.holds(expr)
            if holds is not None:
                yield Const(holds, DType.BOOL)

    def always_equal(self, one: Expr, other: Expr) -> bool:
        """Do two exact expressions of one dtype have one value in all of the leaf's instances?"""
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

    def _made(self, expr: Expr) -> Expr:
        if isinstance(expr, Load):
            return expr  # its subscripts are compared by where they lead
        if expr.dtype is DType.BOOL and not self.loads(expr):
            decided = self._ask(expr)
            if decided is not None:
                return expr if isinstance(expr, Const) else Const(decided, DType.BOOL)
        if isinstance(expr, Select):
            holds = self.holds(expr.condition)
            if holds is not None:
                return self.of(expr.then if holds else expr.otherwise)
        below = children(expr)
        if not below:
            return expr
        settled = _folded(with_children(expr, tuple(self.of(child) for child in below)))
        if self.loads(expr) and not self.loads(settled):
            return self.of(settled)  # what was left out was all that depended on data
        return settled

    def _ask(self, condition: Expr) -> bool | None:
        """Of a condition without data: what isl says of it as a whole."""
        if isinstance(condition, Const):
            return bool(condition.value)
        if condition not in self.known:
            self.known[condition] = self._asked(condition)
        return self.known[condition]

    def _asked(self, condition: Expr) -> bool | None:
        points = self.leaf.points
        holds = self.leaf.reader.condition(condition, points)
        if holds is None:
            return None
        if points.is_subset(holds):
            return True
        return False if points.is_disjoint(holds) else None


def _folded(expr: Expr) -> Expr:
    """`expr`, a condition on constants made one, or the operand that alone decides it."""
    match expr:
        case Unary(op="not" | "invert", operand=Const(value=value), dtype=DType.BOOL):
            return Const(not value, DType.BOOL)
        case Binary(op="and" | "or" as op, left=left, right=right, dtype=DType.BOOL):
            for one, other in ((left, right), (right, left)):
                if isinstance(one, Const):
                    return other if bool(one.value) == (op == "and") else one
        case _:
            pass
    return expr
