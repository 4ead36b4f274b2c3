"""Does a Compute calculate what its statement says? Expressions compared node by node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import assert_never

from loopfuse.lang.index import is_checked
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
from loopfuse.lang.walk import children, loads, with_children
from loopfuse.poly.model import Statement
from loopfuse.proof.events import Leaf, Undecided
from loopfuse.proof.settled import Settled
from loopfuse.tree.looptree import Compute


class Different(Exception):
    """The Compute calculates something else; says what."""


def match_value(
    statement: Statement, leaf: Leaf, node: Compute, registers: frozenset[str] = frozenset()
) -> list[tuple[int, Load]]:
    """Which Load of the Compute stands for which read of the statement: (read, Load) pairs.

    Value, predicate and the target's checked subscripts must be the statement's own, iterators
    replaced by `iteration`; where a Load's data comes from and how other subscripts are written is
    not looked at. What the leaf's
    instances decide may be missing (`proof/settled.py`), and the reads of what is missing then have
    no Load. The Compute may have too much what its instances decide, but for loads of others than
    `registers`, which each thread has for itself and which have no subscripts. Raises Different.
    """
    if (statement.predicate is None) != (node.predicate is None):
        raise Different("one of them has a predicate")
    numbers = count()
    iteration = dict(zip(statement.iterators, node.iteration, strict=True))
    matcher = _Matcher(statement, Settled(leaf), registers)
    pairs: list[tuple[int, Load]] = []
    if statement.predicate is not None and node.predicate is not None:
        wanted = _numbered(statement.predicate, iteration, numbers)
        pairs += matcher.match(wanted, node.predicate)
    pairs += matcher.match(_numbered(statement.value, iteration, numbers), node.value)
    target = statement.target
    index = tuple(_numbered(each, iteration, numbers) for each in target.index)
    return pairs + matcher.match_subscripts(replace(target, index=index), node.target)


def _numbered(expr: Expr, iteration: dict[str, Expr], numbers: Iterator[int]) -> Expr:
    """`expr` in terms of the tree's loops, each Load named by the number of its read."""
    match expr:
        case Iter(name=name):
            return iteration[name]
        case Load(index=index, dtype=dtype):
            below = tuple(_numbered(each, iteration, numbers) for each in index)
            return Load(str(next(numbers)), below, dtype)
        case _:
            below = children(expr)
            if not below:
                return expr
            return with_children(expr, tuple(_numbered(e, iteration, numbers) for e in below))


Pairs = list[tuple[int, Load]]


def is_same_place(
    statement: Statement, leaf: Leaf, node: Compute, wanted: Load, given: Load
) -> bool:
    """Are the subscripts of the Compute's load the statement's own, behind those of a copy? (For
    places that isl cannot express; a load behind a `swap` may be of either array.)"""
    lead = len(given.index) - len(wanted.index)
    if wanted.swapped is not None or lead < 0:
        return False
    iteration = dict(zip(statement.iterators, node.iteration, strict=True))
    matcher = _Matcher(statement, Settled(leaf))
    try:
        return not any(
            loads(one) or matcher.match(_numbered(one, iteration, count()), other)
            for one, other in zip(wanted.index, given.index[lead:], strict=True)
        )
    except Different:
        return False


class _Matcher:
    """`wanted` is always what `_numbered` made, `given` the Compute's; both are in terms of the
    leaf's loops."""

    def __init__(
        self, statement: Statement, settled: Settled, registers: frozenset[str] = frozenset()
    ) -> None:
        self.statement = statement
        self.settled = settled
        self.registers = registers
        self.done: dict[tuple[int, int], tuple[Expr, Expr, Pairs | Different | Undecided]] = {}

    def match(self, wanted: Expr, given: Expr) -> Pairs:
        """The pairs of `wanted`; raises Different."""
        key = (id(wanted), id(given))  # of nodes that `done` holds fast
        if key not in self.done:
            try:
                self.done[key] = (wanted, given, self._match(wanted, given))
            except (Different, Undecided) as error:
                self.done[key] = (wanted, given, error)
        found = self.done[key][2]
        if isinstance(found, Different | Undecided):
            raise type(found)(*found.args)
        return found

    def _match(self, wanted: Expr, given: Expr) -> Pairs:
        try:
            if isinstance(wanted, Load):
                return self._match_load(wanted, given)
            return self._match_operation(wanted, given)
        except (Different, Undecided) as error:
            for simpler in self._simpler(wanted):
                try:
                    return self.match(simpler, given)
                except (Different, Undecided):
                    pass
            # What the Compute has too much must not be a load, which would have to be allowed.
            for simpler in self.settled.steps(given):
                if self._far_loads(simpler) == self._far_loads(given):
                    try:
                        return self.match(wanted, simpler)
                    except (Different, Undecided):
                        pass
            raise type(error)(*error.args) from None

    def _match_load(self, wanted: Load, given: Expr) -> Pairs:
        number = int(wanted.array)
        if not isinstance(given, Load) or given.dtype is not wanted.dtype:
            raise Different(f"a load of `{self.statement.reads[number].array}` is missing")
        return [*self.match_subscripts(wanted, given), (number, given)]

    def _far_loads(self, given: Expr) -> int:
        """How many Loads it has but for those of the thread's own registers."""
        if not self.registers or not self.settled.loads(given):
            return self.settled.loads(given)
        return sum(load.array not in self.registers for load in loads(given))

    def _simpler(self, wanted: Expr) -> Iterator[Expr]:
        """What `wanted` always equals: with one thing at its top that is decided left out, as what
        is below may keep what is decided too; then with all that is decided left out, as index
        arithmetic is written anew once something in it was."""
        yield from self.settled.steps(wanted)
        whole = self.settled.of(wanted)
        if whole is not wanted:
            yield whole

    def match_subscripts(self, wanted: Load, given: Load) -> Pairs:
        """The pairs inside the subscripts of two accesses. The others are compared as relations,
        by where they lead; one that is checked when it runs must be the same expression."""
        pairs: Pairs = []
        lead = len(given.index) - len(wanted.index)
        for position, subscript in enumerate(wanted.index):
            if is_checked(subscript):
                if lead < 0:
                    raise Undecided(f"{given.array}, at a place that depends on data")
                pairs += self.match(subscript, given.index[lead + position])
            elif self.settled.loads(subscript):
                raise Undecided("a subscript that depends on data")
        return pairs

    def _match_operation(self, wanted: Expr, given: Expr) -> Pairs:
        """The same operation on operands that match."""
        exact = self.settled.is_exact(wanted) and self.settled.is_exact(given)
        same_type = wanted.dtype is given.dtype
        if exact and same_type and (wanted == given or self.settled.always_equal(wanted, given)):
            return []
        if isinstance(wanted, Const) and isinstance(given, Const):
            # repr, so that nan is nan and -0.0 is not 0.0
            if wanted.dtype is given.dtype and repr(wanted.value) == repr(given.value):
                return []
            raise Different(f"{given.value!r} instead of {wanted.value!r}")
        if not _same_operation(wanted, given):
            raise Different(f"a {type(given).__name__} instead of a {type(wanted).__name__}")
        pairs: Pairs = []
        for one, other in zip(children(wanted), children(given), strict=True):
            pairs += self.match(one, other)
        return pairs


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
        case Select(eager=eager):
            return isinstance(given, Select) and given.eager <= eager
        case Cast() | Fma():
            return True
        case Symbol():
            return wanted == given
        case Const() | Iter() | Load():
            return False  # compared elsewhere; an iterator means another thing in the tree
        case _:
            assert_never(wanted)
