"""Dear values that several loops calculate are calculated once, and wait in the element that the last of the loops stores.

before:  for r: { s = sum(c: exp(x[r, c] - m));  for c: y[r, c] = exp(x[r, c] - m) / s }
after:   for r: { for c: y[r, c] = exp(x[r, c] - m);  s = sum(c: y[r, c]);  for c: y[r, c] = y[r, c] / s }

Done where the planner then finds the whole cheaper, which it is where the loops are one launch and what they store stays in
a cache (`rows`): not where each of them goes through memory. On a CPU alone: a GPU's thread holds its part of a row in registers.
`proof.once` shows that every value is what it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from loopfuse.lang.nodes import Expr, Iter, Load
from loopfuse.lang.price import expression_price
from loopfuse.lang.walk import (
    children,
    has_checks,
    is_alike,
    iterators,
    loads,
    substitute,
    with_children,
)
from loopfuse.poly.isl import IN
from loopfuse.poly.isl_relations import rename, rename_points
from loopfuse.poly.model import Access, IslSet, PolyProgram, Statement

DEAR = 40
"""Instructions of a value that is worth a store and two loads."""


@dataclass(frozen=True, slots=True)
class Shared:
    """A value of `last`, which stores an element in each iteration, that statements before it calculate too: `users`, the
    first of them first and `last` behind them all. `depth`: how many loops stand around them all."""

    value: Expr
    last: Statement
    users: tuple[Statement, ...]
    depth: int


def shared_values(program: PolyProgram) -> Iterator[Shared]:
    """The values that could be calculated once, each by the last statement that calculates it."""
    for last in program.statements:
        if last.kind != "store" or last.predicate is not None or last.operation or len(last.write.parts) != 1 or not last.write.exact:
            continue
        for value in _dear(last.value):
            if value.dtype is not last.target.dtype or not iterators(value) & {*last.iterators}:
                continue
            before = [
                (depth, s)
                for s in program.statements
                if s.id != last.id and s.positions < last.positions and (depth := _alike(s, last, value)) is not None
            ]
            if before and (depth := min(depth for depth, _ in before)) < len(last.loops):
                users = sorted((s for _, s in before), key=lambda s: s.positions)
                yield Shared(value, last, (*users, last), depth)
                break


def _dear(expr: Expr) -> Iterator[Expr]:
    """The largest parts of an expression that are worth it, but for those that are dear by a part of theirs alone."""
    if isinstance(expr, Load) or expression_price(expr, "cpu") < DEAR:
        return
    if not has_checks(expr) and loads(expr):
        yield expr
    for part in children(expr):
        yield from _dear(part)


def _alike(one: Statement, last: Statement, value: Expr) -> int | None:
    """How many loops stand around both, where the one statement calculates the other's value in loops like its; None where it does not."""
    if len(one.loops) != len(last.loops):
        return None
    depth = 0
    while depth < len(one.loops) and one.loops[depth].iterator == last.loops[depth].iterator:
        depth += 1
    if _place(one.value, substitute(value, _names(last, one.iterators))) is None:
        return None
    return depth if one.domain.is_equal(rename_points(last.domain, one.id, one.iterators)) else None


def calculated_once(program: PolyProgram, shared: Shared) -> PolyProgram:
    """The program where the value is calculated by a loop of its own, ahead of all that use it."""
    first, last, depth = shared.users[0], shared.last, shared.depth
    around = (last.iterators[:depth], last.positions[:depth])
    beside = [s for s in program.statements if (s.iterators[:depth], s.positions[:depth]) == around]
    position = min(s.positions[depth] for s in beside if s.id in (first.id, f"{first.id}.init"))
    taken = {iterator for s in program.statements for iterator in s.iterators}
    made = _ahead(shared, position, taken)
    behind = {s.id for s in beside if s.positions[depth] >= position}
    using = {s.id for s in shared.users}
    out: list[Statement] = []
    for s in program.statements:
        if s.id in behind:
            if made not in out:
                out.append(made)
            s = replace(s, positions=(*s.positions[:depth], s.positions[depth] + 1, *s.positions[depth + 1 :]))
        out.append(_using(s, shared) if s.id in using else s)
    return replace(program, statements=tuple(out), ahead=program.ahead | {made.id})


def _ahead(shared: Shared, position: int, taken: set[str]) -> Statement:
    """The statement that calculates the value, at a position of the loops around."""
    first, last, depth = shared.users[0], shared.last, shared.depth
    names = [*last.iterators]
    for k in range(depth, len(names)):
        names[k] = next(name for number in count(1) if (name := f"{last.iterators[k]}.{number}") not in taken)
        taken.add(names[k])
    moved = _Moved(f"{last.id}.once", tuple(names), _names(last, names))
    loops = [
        replace(loop, iterator=name, lower=moved.expr(loop.lower), upper=moved.expr(loop.upper))
        for loop, name in zip(last.loops, names, strict=True)
    ]
    for k in range(depth, len(names)):
        loops[k] = replace(loops[k], label=first.loops[k].label, line=first.loops[k].line, fence=first.loops[k].fence, parallel=False)
    start = _place(last.value, shared.value)
    assert start is not None
    return Statement(
        id=moved.id,
        label=first.label,
        kind="store",
        loops=tuple(loops),
        positions=(*last.positions[:depth], position, *[0] * (len(loops) - depth)),
        domain=moved.points(last.domain),
        target=moved.load(last.target),
        write=moved.access(last.write),
        value=moved.expr(shared.value),
        reads=tuple(moved.access(each) for each in last.reads[start : start + len(loads(shared.value))]),
        span=first.span,
    )


def _using(statement: Statement, shared: Shared) -> Statement:
    """The statement with the value loaded wherever it was calculated."""
    last = shared.last
    moved = _Moved(statement.id, statement.iterators, _names(last, statement.iterators))
    element = moved.access(replace(last.write, load=last.target))
    part = moved.expr(shared.value)
    position = 0 if statement.predicate is None else len(loads(statement.predicate))
    reads = [*statement.reads[:position]]

    def visit(expr: Expr) -> Expr:
        nonlocal position
        found, below = is_alike(expr, part), children(expr)
        if not found and below and not isinstance(expr, Load):
            return with_children(expr, tuple(map(visit, below)))
        end = position + len(loads(expr))
        reads.extend([element] if found else statement.reads[position:end])
        position = end
        return element.load if found else expr

    value = visit(statement.value)
    return replace(statement, value=value, reads=(*reads, *statement.reads[position:]))


def _place(expr: Expr, part: Expr) -> int | None:
    """How many loads stand ahead of a part of an expression; None where it is no part."""
    if is_alike(expr, part):
        return 0
    ahead = 0
    for child in () if isinstance(expr, Load) else children(expr):
        inside = _place(child, part)
        if inside is not None:
            return ahead + inside
        ahead += len(loads(child))
    return None


def _names(one: Statement, others: Sequence[str]) -> dict[str, Expr]:
    """The iterators of a statement as others in the same places."""
    return {a: Iter(b) for a, b in zip(one.iterators, others, strict=True) if a != b}


@dataclass(frozen=True, slots=True)
class _Moved:
    """What is said of a statement's instances, said of those of another, whose iterators are `names`."""

    id: str
    names: tuple[str, ...]
    values: Mapping[str, Expr]

    def expr(self, expr: Expr) -> Expr:
        return substitute(expr, self.values)

    def load(self, load: Load) -> Load:
        moved = substitute(load, self.values)
        assert isinstance(moved, Load)
        return moved

    def access(self, one: Access) -> Access:
        parts = tuple((array, rename(relation, IN, self.id, self.names)) for array, relation in one.parts)
        return replace(one, load=self.load(one.load), parts=parts)

    def points(self, domain: IslSet) -> IslSet:
        return rename_points(domain, self.id, self.names)
