"""Does a Compute calculate what its statement says? Expressions compared node by node."""

from __future__ import annotations

from dataclasses import replace

from loopfuse.lang.nodes import Const, Expr, Load, Select
from loopfuse.lang.walk import children, loads, substitute, with_children
from loopfuse.plan.linear import same_index
from loopfuse.plan.looptree import Compute
from loopfuse.plan.verify_events import Leaf, Undecided
from loopfuse.poly.model import Statement


class Different(Exception):
    """The Compute calculates something else; says what."""


def match_value(statement: Statement, leaf: Leaf, node: Compute) -> list[tuple[int, Load]]:
    """Which Load of the Compute stands for which read of the statement: (read, Load) pairs.

    Value and predicate must be the statement's own, iterators replaced by `iteration`; where a
    Load's data comes from and how subscripts are written is not looked at. A Select may be
    missing where its condition is the same for all of the leaf's instances; the reads of the arm
    that is not taken then have no Load. Raises Different.
    """
    iteration = dict(zip(statement.iterators, node.iteration, strict=True))
    matcher = _Matcher(leaf)
    if (statement.predicate is None) != (node.predicate is None):
        raise Different("one of them has a predicate")
    if statement.predicate is not None and node.predicate is not None:
        matcher.match(substitute(statement.predicate, iteration), node.predicate)
    matcher.match(substitute(statement.value, iteration), node.value)
    return matcher.pairs


class _Matcher:
    def __init__(self, leaf: Leaf) -> None:
        self.leaf = leaf
        self.next = 0  # the number of the next read of the statement
        self.pairs: list[tuple[int, Load]] = []

    def match(self, wanted: Expr, given: Expr) -> None:
        if isinstance(wanted, Load):
            if loads(wanted) != (wanted,):
                raise Undecided("a subscript that depends on data")
            if not isinstance(given, Load) or given.dtype is not wanted.dtype:
                raise Different(f"a load of `{wanted.array}` is missing")
            self.pairs.append((self.next, given))
            self.next += 1
            return
        if isinstance(wanted, Select) and not isinstance(given, Select):
            self._match_arm(wanted, given)
            return
        if isinstance(wanted, Select) and isinstance(given, Select):
            self._match_choice(wanted, given)
            return
        if wanted.dtype.is_integer and not loads(wanted) and same_index(wanted, given):
            return
        if isinstance(wanted, Const) and isinstance(given, Const):
            # repr, so that nan is nan and -0.0 is not 0.0
            if wanted.dtype is given.dtype and repr(wanted.value) == repr(given.value):
                return
            raise Different(f"{given.value!r} instead of {wanted.value!r}")
        if not _same_operation(wanted, given):
            raise Different(f"a {type(given).__name__} instead of a {type(wanted).__name__}")
        for one, other in zip(children(wanted), children(given), strict=True):
            self.match(one, other)

    def _match_choice(self, wanted: Select, given: Select) -> None:
        """Two Selects; an affine condition may be written in another way."""
        if loads(wanted.condition) or loads(given.condition) or _is_same(wanted, given):
            self.match(wanted.condition, given.condition)
        else:
            holds = self.leaf.reader.condition(wanted.condition, self.leaf.points)
            other = self.leaf.reader.condition(given.condition, self.leaf.points)
            if holds is None or other is None:
                raise Different("another condition, and not an affine one")
            here = self.leaf.points
            if not here.intersect(holds).is_equal(here.intersect(other)):
                if here.is_subset(holds) or here.intersect(holds).is_empty():
                    self._match_arm(wanted, given)
                    return
                raise Different("another condition")
        self.match(wanted.then, given.then)
        self.match(wanted.otherwise, given.otherwise)

    def _match_arm(self, wanted: Select, given: Expr) -> None:
        holds = self.leaf.reader.condition(wanted.condition, self.leaf.points)
        if holds is None:
            raise Different("a choice is missing")
        self.next += len(loads(wanted.condition))
        if self.leaf.points.is_subset(holds):
            self.match(wanted.then, given)
            self.next += len(loads(wanted.otherwise))
        elif self.leaf.points.intersect(holds).is_empty():
            self.next += len(loads(wanted.then))
            self.match(wanted.otherwise, given)
        else:
            raise Different("a choice is missing that goes either way here")


def _is_same(wanted: Select, given: Select) -> bool:
    return wanted.condition == given.condition


def _same_operation(wanted: Expr, given: Expr) -> bool:
    """The same node but for its operands: operation, dtype, name."""
    if type(wanted) is not type(given):
        return False
    below = children(wanted)
    if len(below) != len(children(given)):
        return False
    # Spans are not compared; operands are made equal first.
    return replace(with_children(given, below)) == wanted

