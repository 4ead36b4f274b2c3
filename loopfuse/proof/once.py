"""Values that a statement of its own calculates, ahead of those that use them: is every value what it was?

The program has one statement more, which stores a value in an element; others load it where they calculated it. Each load that
finds what the new statement stored in the same iteration is put back as its value. Then every statement must be as it was, every
read must find what it found, and the caller too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from loopfuse.lang.nodes import Expr, Iter, Load
from loopfuse.lang.walk import children, has_checks, is_alike, loads, substitute, with_children
from loopfuse.poly.deps import flow_of_read
from loopfuse.poly.isl import OUT
from loopfuse.poly.isl_relations import is_equal_along, rename, rename_points
from loopfuse.poly.model import Dependences, IslMap, IslSet, PolyProgram, Statement
from loopfuse.proof.private import leaves_the_same


def keeps_values_made_once(program: PolyProgram, deps: Dependences, other: PolyProgram, other_deps: Dependences) -> bool:
    """Does `other`, the program with statements that calculate values of others ahead, do the same? (False also where isl
    gave up.)"""
    if not (deps.complete and other_deps.complete) or program.arrays != other.arrays or program.context is not other.context:
        return False
    made = {s.id: s for s in other.statements if s.id not in program.by_id}
    old = [s for s in other.statements if s.id in program.by_id]
    if [s.id for s in old] != [s.id for s in program.statements] or not all(map(_stores_plainly, made.values())):
        return False
    whole = _Programs(program, deps, other, other_deps, made)
    return all(whole.is_same(one, two) for one, two in zip(program.statements, old, strict=True)) and leaves_the_same(deps, other_deps)


def _stores_plainly(statement: Statement) -> bool:
    """Does it store one element each time, and do nothing else that anyone notices?"""
    if statement.kind != "store" or statement.predicate is not None or statement.operation or has_checks(statement.value):
        return False
    return statement.write.exact and len(statement.write.parts) == 1


Found = tuple[dict[str, IslMap], IslSet]
"""What a read finds: relations from the instances that made it, and where nothing had."""


@dataclass(frozen=True, slots=True)
class _Programs:
    program: PolyProgram
    deps: Dependences
    other: PolyProgram
    other_deps: Dependences
    made: dict[str, Statement]

    def is_same(self, one: Statement, two: Statement) -> bool:
        """Do the statement's instances calculate the same from the same values?"""
        as_it_was = replace(two, value=one.value, predicate=one.predicate, reads=one.reads, positions=one.positions, domain=one.domain)
        if as_it_was != one or not one.domain.is_equal(two.domain):
            return False
        found: list[Found] = []
        numbers = iter(range(len(two.reads)))
        for before, now in ((one.predicate, two.predicate), (one.value, two.value)):
            if before is None or now is None:
                if before is not now:
                    return False
            elif not is_alike(before, self._put_back(two, now, numbers, found)):
                return False
        found += [self._found(two, number) for number in numbers]
        if len(found) != len(one.reads):
            return False
        wanted = (self._possible(flow_of_read(self.program, self.deps, one.id, number)) for number in range(len(found)))
        return all(_is_same(each, now) for each, now in zip(wanted, found, strict=True))

    def _found(self, statement: Statement, number: int) -> Found:
        return self._possible(flow_of_read(self.other, self.other_deps, statement.id, number))

    def _possible(self, found: Found) -> Found:
        """That of it which some call has."""
        sources = {name: relation.intersect_params(self.program.context) for name, relation in found[0].items()}
        return {name: each for name, each in sources.items() if not each.is_empty()}, found[1].intersect_params(self.program.context)

    def _put_back(self, statement: Statement, expr: Expr, numbers: Iterator[int], found: list[Found]) -> Expr:
        """The expression with values where it loads what the new statements stored of them; and what all its loads find."""
        below = children(expr)
        if not isinstance(expr, Load):
            return with_children(expr, tuple(self._put_back(statement, each, numbers, found) for each in below)) if below else expr
        inside = [self._found(statement, next(numbers)) for _ in range(len(loads(expr)) - 1)]
        own = self._found(statement, next(numbers))
        maker = None if inside else self._maker(statement, own)
        if maker is None or maker.value.dtype is not expr.dtype:
            found += [*inside, own]
            return expr
        found += [_moved(self._found(maker, number), statement) for number in range(len(maker.reads))]
        return substitute(maker.value, {a: Iter(b) for a, b in zip(maker.iterators, statement.iterators, strict=True)})

    def _maker(self, statement: Statement, found: Found) -> Statement | None:
        """The new statement whose instance with the same iterators makes all that a read finds."""
        sources, rest = found
        if len(sources) != 1 or not rest.is_empty():
            return None
        ((id, relation),) = sources.items()
        maker = self.made.get(id)
        if maker is None or len(maker.loops) != len(statement.loops):
            return None
        return maker if all(is_equal_along(relation, k, k) for k in range(len(maker.loops))) else None


def _moved(found: Found, statement: Statement) -> Found:
    """What another statement's reads find, as found by the same instances of this one."""
    sources, rest = found
    names, domain = statement.iterators, statement.domain
    moved = {name: rename(relation, OUT, statement.id, names).intersect_range(domain) for name, relation in sources.items()}
    return {name: each for name, each in moved.items() if not each.is_empty()}, rename_points(rest, statement.id, names).intersect(domain)


def _is_same(one: Found, other: Found) -> bool:
    """Are these the same instances' values?"""
    if one[0].keys() != other[0].keys() or not one[1].is_equal(other[1]):
        return False
    return all(relation.is_equal(other[0][name]) for name, relation in one[0].items())
