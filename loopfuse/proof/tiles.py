"""The two ways of a tile, compared as text: is the first what the second does in these tiles?

    first:   for v: b[v] = a[v]
    second:  for v: if 0 <= x + v and x + v < N: b[v] = a[v] else: b[v] = 0

Where the guard of a tile implies those of the second way, both run the same leaves in the same
order, so the tree does what it does when every tile takes the second way, and only that has to be
looked at. A VECTOR loop of the first way asks more than the UNROLLED one of the second (its
iterations may not meet): it takes its place. What is not seen to be equal here is compared as
relations (`proof.windows.different_tile`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count, zip_longest
from typing import Any

from loopfuse.lang.linear import coefficients
from loopfuse.lang.nodes import Binary, Expr, Iter, Load, Unary, compare
from loopfuse.lang.walk import iterators, loads, substitute, walk_expr
from loopfuse.tree.looptree import (
    STREAMED,
    WRITTEN_OUT,
    Arrive,
    Barrier,
    Compute,
    Copy,
    Guard,
    Loop,
    Mapping,
    Prefetch,
    TreeNode,
)
from loopfuse.tree.walk import bodies, is_tile

Enter = Callable[[Any, Loop], Any]
"""The scope (with `domain` and `reader`) inside a loop."""

Tests = frozenset[Expr]
"""Conditions that all hold."""

Number = tuple[int, int]
"""A loop's place in the text, and which of those it is that it was taken apart into."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A leaf of a way, the numbers of its loops in the text, the guards that are left, and where
    it runs."""

    loops: tuple[tuple[Number, Loop], ...]
    tests: Tests
    node: Compute | Copy | Barrier
    scope: Any


@dataclass(slots=True)
class _Unlike(Exception):
    """The way holds something that is not compared here."""


@dataclass(slots=True)
class _Pairs:
    """Which loop of the second way each loop of the first is, both by their numbers."""

    outside: frozenset[str]  # the variables around both
    forth: dict[Number, Number] = field(default_factory=dict[Number, Number])
    back: dict[Number, Number] = field(default_factory=dict[Number, Number])
    vectors: set[int] = field(default_factory=set[int])  # of the second way


def only_second(node: Guard, scope: Any, enter: Enter) -> tuple[TreeNode, ...] | None:
    """What every tile may be taken to run instead of the guard `node`, which chooses between two
    ways; None where that does not show. `scope` has the tiles that come to the guard."""
    last = node.otherwise
    if len(last) == 1 and isinstance(last[0], Guard) and is_tile(last[0]):
        rest = only_second(last[0], scope, enter)
        return None if rest is None else only_second(replace(node, otherwise=rest), scope, enter)
    lanes = {loop.var for loop in scope.chain if loop.mapping is Mapping.LANE}
    vectors: set[int] = set()
    try:
        everywhere = _holding(scope, node.condition)
        seconds = list(_steps(node.otherwise, everywhere, enter))
        for first, tiles in _ways(node, lanes, scope):
            pairs = _Pairs(frozenset(scope.names))
            if not _are_same(_steps(first, everywhere, enter), seconds, pairs):
                # Perhaps they are where this way is taken.
                pairs = _Pairs(frozenset(scope.names))
                there = _steps(node.otherwise, tiles, enter)
                if not _are_same(_steps(first, tiles, enter), there, pairs):
                    return None
            vectors |= pairs.vectors
    except _Unlike:
        return None
    return _with_vectors(node.otherwise, vectors, count())


def _ways(
    node: Guard, lanes: set[str], scope: Any
) -> Iterator[tuple[tuple[TreeNode, ...], Any]]:
    """All that the guard may run instead of its second way, a warp together, each with the tiles
    that may take it."""
    if iterators(node.condition) & lanes or loads(node.condition):
        raise _Unlike
    first, tiles = node.then, _holding(scope, node.condition)
    while len(first) == 1 and isinstance(first[0], Guard) and is_tile(first[0]):
        inner = first[0]
        if iterators(inner.condition) & lanes or loads(inner.condition):
            raise _Unlike
        yield from _ways(replace(inner, condition=node.condition, then=inner.otherwise), lanes, scope)
        first, tiles = inner.then, _holding(tiles, inner.condition)
    yield first, tiles


# ------------------------------------------------------------------------------ the steps


def _steps(nodes: tuple[TreeNode, ...], scope: Any, enter: Enter) -> Iterator[_Step]:
    """The leaves that `nodes` run in `scope`, in text order."""
    return _walk(nodes, scope, enter, (), frozenset(), count())


def _walk(
    nodes: tuple[TreeNode, ...],
    scope: Any,
    enter: Enter,
    loops: tuple[tuple[Number, Loop], ...],
    tests: Tests,
    numbers: Iterator[int],
) -> Iterator[_Step]:
    for node in nodes:
        match node:
            case Loop():
                if loads(node.lower) or loads(node.upper):
                    raise _Unlike
                number = next(numbers)
                for part, body in enumerate(_distributed(node)):
                    around = (*loops, ((number, part), node))
                    inside = enter(scope, node)
                    yield from _walk(body, inside, enter, around, tests, numbers)
            case Guard(condition=condition):
                if loads(condition):
                    raise _Unlike
                open_tests = frozenset(_open_tests(condition, scope))
                then = _holding(scope, condition) if open_tests else scope
                is_possible = not open_tests or not then.domain.is_empty()
                if is_possible:
                    all_tests = tests | open_tests
                    yield from _walk(node.then, then, enter, loops, all_tests, numbers)
                else:
                    _skip(node.then, numbers)
                if open_tests:
                    fails = {_negation(open_tests)} if is_possible else set[Expr]()
                    rest = scope
                    if node.otherwise:
                        rest = replace(scope, domain=scope.domain.subtract(then.domain))
                    yield from _walk(node.otherwise, rest, enter, loops, tests | fails, numbers)
                else:
                    _skip(node.otherwise, numbers)
            case Copy(target=target, value=value) if target == value:
                pass  # it changes nothing
            case Compute() | Copy() | Barrier():
                yield _Step(loops, tests, node, scope)
            case Prefetch() | Arrive():
                pass
            case _:
                raise _Unlike


def _distributed(loop: Loop) -> tuple[tuple[TreeNode, ...], ...]:
    """The bodies of the loops that a loop is the same as: one for what its guard chooses, one for
    the other choice, where both only fill cells of their own from what the loop does not write."""
    body = loop.body
    if loop.mapping not in WRITTEN_OUT or len(body) != 1 or not isinstance(body[0], Guard):
        return (body,)
    guard = body[0]
    copies = (*guard.then, *guard.otherwise)
    if not guard.otherwise or not all(isinstance(each, Copy) for each in copies):
        return (body,)
    targets = {each.target.array for each in copies if isinstance(each, Copy)}
    for each in copies:
        assert isinstance(each, Copy)
        if targets & {load.array for load in loads(each.value)}:
            return (body,)
        moving = [coefficients(part) for part in each.target.index]
        if not any(linear and abs(named.get(loop.var, 0)) == 1 for _, named, linear in moving):
            return (body,)
    opposite = Unary("not", guard.condition, guard.condition.dtype)
    return (
        (replace(guard, otherwise=()),),
        (replace(guard, condition=opposite, then=guard.otherwise, otherwise=()),),
    )


def _skip(nodes: tuple[TreeNode, ...], numbers: Iterator[int]) -> None:
    """Count the loops in what does not run."""
    for node in nodes:
        if isinstance(node, Loop):
            next(numbers)
        for body in bodies(node):
            _skip(body, numbers)


def _holding(scope: Any, condition: Expr) -> Any:
    """The scope where the condition holds."""
    holds = scope.reader.condition(condition, scope.domain)
    if holds is None:
        raise _Unlike
    return replace(scope, domain=scope.domain.intersect(holds))


def _open_tests(condition: Expr, scope: Any) -> Iterator[Expr]:
    """The parts of a condition that do not hold everywhere in the scope."""
    if isinstance(condition, Binary) and condition.op == "and":
        yield from _open_tests(condition.left, scope)
        yield from _open_tests(condition.right, scope)
        return
    holds = scope.reader.condition(condition, scope.domain)
    if holds is None:
        raise _Unlike
    if not scope.domain.is_subset(holds):
        yield condition


def _negation(tests: Tests) -> Expr:
    """Not all of `tests`, written in one way."""
    first, *others = sorted(tests, key=repr)
    for other in others:
        first = Binary("and", first, other, other.dtype)
    return Unary("not", first, first.dtype)


# ------------------------------------------------------------------------------- comparing


def _are_same(ones: Iterable[_Step], others: Iterable[_Step], pairs: _Pairs) -> bool:
    """Are they the same steps, one after the other?"""
    return all(
        one is not None and other is not None and _is_same(one, other, pairs)
        for one, other in zip_longest(ones, others)
    )


def _is_same(one: _Step, other: _Step, pairs: _Pairs) -> bool:
    """Do the two steps run the same in the same iterations?"""
    if len(one.loops) != len(other.loops):
        return False
    names: dict[str, Expr] = {}
    for (number, loop), (partner, like) in zip(one.loops, other.loops, strict=True):
        if pairs.forth.setdefault(number, partner) != partner:
            return False
        if pairs.back.setdefault(partner, number) != number:
            return False
        both = {loop.mapping, like.mapping}
        if len(both) > 1 and not both <= {*STREAMED}:
            if loop.mapping not in WRITTEN_OUT or like.mapping not in WRITTEN_OUT:
                return False
            pairs.vectors.add(partner[0])
        ends = substitute(loop.lower, names), substitute(loop.upper, names), loop.step
        if ends != (like.lower, like.upper, like.step):
            return False
        if {loop.var, like.var} & pairs.outside or loop.var in names:
            return False  # it hides another
        names[loop.var] = Iter(like.var)
    if len({like.var for _, like in other.loops}) < len(other.loops):
        return False
    if frozenset(substitute(test, names) for test in one.tests) != other.tests and not (
        one.scope.domain.is_equal(other.scope.domain)
    ):
        return False
    match one.node, other.node:
        case Compute() as first, Compute() as second:
            parts = first.statement, first.predicate is None
            if parts != (second.statement, second.predicate is None) or first.atomic != second.atomic:
                return False
            exprs = [*zip(first.iteration, second.iteration, strict=True)]
            if first.predicate is not None and second.predicate is not None:
                exprs.append((first.predicate, second.predicate))
        case Copy() as first, Copy() as second if first.late == second.late:
            exprs: list[tuple[Expr, Expr]] = []
        case Barrier(scope=first), Barrier(scope=second):
            return first == second
        case _:
            return False
    exprs += [(first.target, second.target), (first.value, second.value)]
    return all(_is_equal(substitute(a, names), b, other.scope) for a, b in exprs)


def _is_equal(one: Expr, other: Expr, scope: Any) -> bool:
    """Are the two one expression, or loads of one place wherever they run?"""
    if repr(one) == repr(other):  # not ==, for which 0.0 is -0.0
        return True
    if not (isinstance(one, Load) and isinstance(other, Load)):
        return False
    if replace(one, index=()) != replace(other, index=()) or len(one.index) != len(other.index):
        return False
    return all(map(lambda a, b: _is_one_place(a, b, scope), one.index, other.index))


def _is_one_place(part: Expr, like: Expr, scope: Any) -> bool:
    """Are two subscripts equal wherever they run? Of a subscript held within limits, each limit is
    asked by itself: isl would take it apart into cases first."""
    if part == like:
        return True
    match like:
        case Binary(op="max" | "min", left=inner, right=limit) if part in walk_expr(inner):
            order = "ge" if like.op == "max" else "le"
            inside = _holds(compare(order, part, limit), scope)
            return inside and _is_one_place(part, inner, scope)
        case _:
            here = scope.reader.piecewise(part, scope.domain)
            there = scope.reader.piecewise(like, scope.domain)
            if here is None or there is None:
                return False
            return scope.domain.is_subset(here.eq_set(there))


def _holds(condition: Expr, scope: Any) -> bool:
    """Does the condition hold everywhere in the scope?"""
    where = scope.reader.condition(condition, scope.domain)
    return where is not None and scope.domain.is_subset(where)


def _with_vectors(
    nodes: tuple[TreeNode, ...], vectors: set[int], numbers: Iterator[int]
) -> tuple[TreeNode, ...]:
    """`nodes` with the loops of these numbers VECTOR."""
    if not vectors:
        return nodes
    out: list[TreeNode] = []
    for node in nodes:
        match node:
            case Loop():
                mapping = Mapping.VECTOR if next(numbers) in vectors else node.mapping
                body = _with_vectors(node.body, vectors, numbers)
                out.append(replace(node, mapping=mapping, body=body))
            case Guard():
                then = _with_vectors(node.then, vectors, numbers)
                otherwise = _with_vectors(node.otherwise, vectors, numbers)
                out.append(replace(node, then=then, otherwise=otherwise))
            case _:
                out.append(node)
    return tuple(out)
