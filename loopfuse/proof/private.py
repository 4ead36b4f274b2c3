"""Storage given to iterations, or to others: does every read still find what it found?

A temporary that is private to more loops, or lives in an element of another array, has other elements, and with them other
dependences of storage. What the program computes is all in which instance makes the value that each read finds: where that
is the same, and all else is, so is every value, and what the caller sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from loopfuse.lang.nodes import Expr, Load
from loopfuse.lang.walk import iterators, map_expr
from loopfuse.poly.deps import flow_of_read
from loopfuse.poly.model import Access, Dependences, PolyProgram


def keeps_values(program: PolyProgram, deps: Dependences, other: PolyProgram, other_deps: Dependences) -> bool:
    """Is `other` the program but for the loops that temporaries are private to, and does each read of those find the same
    instance's value in both? (False also where isl gave up.)"""
    if not (deps.complete and other_deps.complete) or program.arrays.keys() != other.arrays.keys():
        return False
    changed = {name for name, array in program.arrays.items() if other.arrays[name] != array}
    for name in changed:
        if program.arrays[name].is_argument or replace(other.arrays[name], private_to=()) != replace(
            program.arrays[name], private_to=()
        ):
            return False
    if len(program.statements) != len(other.statements):
        return False
    for one, two in zip(program.statements, other.statements, strict=True):
        if replace(two, write=one.write, reads=one.reads) != one or len(one.reads) != len(two.reads):
            return False
        accesses = zip((*one.reads, one.write), (*two.reads, two.write), strict=True)
        if not all(_is_same(first, second, changed) for first, second in accesses):
            return False
        for number, access in enumerate(one.reads):
            if access.array in changed and not _finds_the_same(program, deps, other, other_deps, one.id, number):
                return False
    return True


def keeps_values_in_place(
    program: PolyProgram, deps: Dependences, other: PolyProgram, other_deps: Dependences, elements: Mapping[str, Load]
) -> bool:
    """Is `other` the program with scalars in elements of other arrays, and does each read of those find the same instance's
    value, and the caller what it found? (False also where isl gave up.)"""
    if not (deps.complete and other_deps.complete) or len(program.statements) != len(other.statements):
        return False
    if {key: array for key, array in program.arrays.items() if key not in elements} != other.arrays:
        return False
    for name, element in elements.items():
        scalar, array = program.arrays[name], program.arrays[element.array]
        if scalar.is_argument or scalar.extents or scalar.dtype is not array.dtype or array.private_to:
            return False
        if any(iterators(part) - {*scalar.private_to} for part in element.index):
            return False
    touched = elements.keys() | {element.array for element in elements.values()}

    def load(expr: Expr) -> Expr:
        return elements.get(expr.array, expr) if isinstance(expr, Load) else expr

    for one, two in zip(program.statements, other.statements, strict=True):
        if (one.id, one.loops, one.positions, one.reduction, one.scatter) != (two.id, two.loops, two.positions, two.reduction, two.scatter):
            return False
        if not one.domain.is_equal(two.domain) or len(one.reads) != len(two.reads):
            return False
        if [None if part is None else map_expr(load, part) for part in (one.target, one.value, one.predicate)] != [
            two.target, two.value, two.predicate,
        ]:  # fmt: skip
            return False
        for first, second in zip((*one.reads, one.write), (*two.reads, two.write), strict=True):
            if first.array not in elements and not _is_same(first, second, set()):
                return False
        for number, access in enumerate(one.reads):
            moved = any(part in touched for part, _ in access.parts)
            if moved and not _finds_the_same(program, deps, other, other_deps, one.id, number):
                return False
    return leaves_the_same(deps, other_deps)


def keeps_needed_values(program: PolyProgram, deps: Dependences, other: PolyProgram, other_deps: Dependences) -> bool:
    """Is `other` the program with fewer iterations of loops, and does what is left find the same instances' values, and the caller
    too? (False also where isl gave up.)"""
    if not (deps.complete and other_deps.complete) or len(program.statements) != len(other.statements):
        return False
    if program.arrays != other.arrays or not leaves_the_same(deps, other_deps):
        return False
    for one, two in zip(program.statements, other.statements, strict=True):
        loops = tuple(replace(a, lower=b.lower, upper=b.upper) for a, b in zip(one.loops, two.loops, strict=True))
        if replace(two, domain=one.domain, write=one.write, reads=one.reads) != replace(one, loops=loops):
            return False
        if not two.domain.is_subset(one.domain) or len(one.reads) != len(two.reads):
            return False
        for access, same in zip((*one.reads, one.write), (*two.reads, two.write), strict=True):
            parts = tuple((name, relation.intersect_domain(two.domain)) for name, relation in access.parts)
            if not _is_same(replace(access, parts=parts), same, set()):
                return False
        if not all(_finds_the_same(program, deps, other, other_deps, one.id, number) for number in range(len(one.reads))):
            return False
    return True


def leaves_the_same(deps: Dependences, others: Dependences) -> bool:
    """Does the caller find the same instances' values?"""
    return deps.live_out.keys() == others.live_out.keys() and all(
        found.keys() == others.live_out[key].keys()
        and all(relation.is_equal(others.live_out[key][id]) for id, relation in found.items())
        for key, found in deps.live_out.items()
    )


def _finds_the_same(
    program: PolyProgram, deps: Dependences, other: PolyProgram, other_deps: Dependences, id: str, number: int
) -> bool:
    """Does a read find the values of the same instances in both programs, where it is in `other`?"""
    sources, rest = flow_of_read(program, deps, id, number)
    others, left = flow_of_read(other, other_deps, id, number)
    domain = other.statement(id).domain
    found = {name: relation.intersect_range(domain) for name, relation in sources.items()}
    found = {name: relation for name, relation in found.items() if not relation.is_empty()}
    if found.keys() != others.keys() or not rest.intersect(domain).is_equal(left):
        return False
    return all(relation.is_equal(others[name]) for name, relation in found.items())


def _is_same(one: Access, other: Access, changed: set[str]) -> bool:
    """The same access, but for the copy of an array that is in another place now."""
    if one.load != other.load or one.exact != other.exact or len(one.parts) != len(other.parts):
        return False
    return all(
        name == another and (name in changed or relation is mirror or relation.is_equal(mirror))
        for (name, relation), (another, mirror) in zip(one.parts, other.parts, strict=True)
    )
