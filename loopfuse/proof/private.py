"""Storage given to iterations: does every read still find what it found?

A temporary that is private to more loops has other elements, and with them other dependences of storage. What the
program computes is all in which instance makes the value that each read finds: where that is the same, and all else is,
so is every value, and what the caller sees.
"""

from __future__ import annotations

from dataclasses import replace

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
            if access.array not in changed:
                continue
            sources, rest = flow_of_read(program, deps, one.id, number)
            others, left = flow_of_read(other, other_deps, one.id, number)
            if sources.keys() != others.keys() or not rest.is_equal(left):
                return False
            if not all(relation.is_equal(others[name]) for name, relation in sources.items()):
                return False
    return True


def _is_same(one: Access, other: Access, changed: set[str]) -> bool:
    """The same access, but for the copy of an array that is in another place now."""
    if one.load != other.load or one.exact != other.exact or len(one.parts) != len(other.parts):
        return False
    return all(
        name == another and (name in changed or relation is mirror or relation.is_equal(mirror))
        for (name, relation), (another, mirror) in zip(one.parts, other.parts, strict=True)
    )
