"""How much memory is touched: box hulls of footprints, and bytes moved, as formulas.

Sizes are taken as large: `max(0, ..)` and the corner cases of tiny arrays are dropped from the
formulas. before: `for i in 1..N-1: b[i] = a[i-1] + a[i+1]` (f32); after: `4*N` bytes of `a` read,
`4*(N - 2)` of `b` written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from loopfuse.base.formula import Formula
from loopfuse.lang.index import evaluate_index
from loopfuse.lang.index_text import to_python
from loopfuse.lang.nodes import Expr, integer
from loopfuse.lang.walk import iterators
from loopfuse.poly import isl
from loopfuse.poly.model import Array, IslSet, Loop, PolyProgram

LARGE = 64
"""Sizes from here on count as large."""


@dataclass(frozen=True, slots=True)
class Moved:
    """One launch reads (or writes) `array` in `statements`; `times` are the host loops around
    the launch, outermost first. `planes`: how many parts of the array that the host loops choose
    (`u[t % 2]`); 0: those that the statements name. `whole`: all of it, whatever the statements
    touch."""

    array: str
    direction: str
    statements: tuple[str, ...]
    times: tuple[Loop, ...] = ()
    planes: int = 0
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Footprint:
    """The box hull of what is touched: (first, last) per dimension, and the bytes in it."""

    box: tuple[tuple[str, str], ...]
    bytes: Formula


def footprint(
    program: PolyProgram,
    statements: Iterable[str],
    array: str,
    direction: str,
    sizes: Mapping[str, int] | None = None,
) -> Footprint | None:
    """What `statements` read (`direction` "read") or write ("write") of `array`; None if nothing.

    Dimensions that make private storage apart are left out of the box but counted in the bytes.
    """
    found = program.arrays[array]
    hull = _hull(program, tuple(statements), array, direction)
    if hull is None:
        return None
    box = tuple((to_python(low), to_python(high)) for low, high in hull[len(found.private_to) :])
    factors = [_length(low, high) for low, high in hull]
    return Footprint(box, _formula([(found.dtype.bytes, factors)], sizes or {}))


def traffic(program: PolyProgram, entries: Sequence[Moved], sizes: Mapping[str, int]) -> Formula:
    """The bytes that all `entries` move together: each the box hull of its footprint (of borders
    alone, the hull of each), once for every iteration of the loops around its launch. Of an array that
    is private to a loop whose length data says, one copy counts, which each iteration uses again. Like
    terms are gathered: `28*H*W`."""
    terms: list[tuple[int, list[Expr]]] = []
    of_data = {loop.iterator for s in program.statements for loop in s.loops if loop.unknown}
    for entry, hull in _hulls(program, entries):
        array = program.arrays[entry.array]
        if entry.whole:
            hull = [_declared(array, dim) for dim in range(len(hull))]
        outside = {loop.iterator for loop in entry.times}
        once = outside | of_data
        factors = [_trips(program, loop) for loop in entry.times]
        owners = (*array.private_to, *("" for _ in array.extents))
        chosen, planes = _planes(program, entry, outside)
        if chosen:
            factors.append(integer(entry.planes or planes))
        for number, (owner, (low, high)) in enumerate(zip(owners, hull, strict=True)):
            if owner not in once and number - len(array.private_to) not in chosen:
                factors.append(_length(low, high))
        terms.append((array.dtype.bytes, factors))
    return _formula(terms, sizes)


def is_border(program: PolyProgram, entry: Moved) -> bool:
    """Does the launch move borders of the array alone: elements of which some subscript is a number, or
    an end of the array?"""
    parts = _parts(program, entry.statements, entry.array, entry.direction)
    return not entry.whole and bool(_borders(program, parts, entry.array))


def _planes(program: PolyProgram, entry: Moved, outside: set[str]) -> tuple[set[int], int]:
    """The dimensions of the array where the loops outside the launch say which element (or a
    constant does), and how many of them a launch touches; none where those loops choose nothing."""
    statements = [program.statement(id) for id in entry.statements]
    accesses = [
        access.load.index
        for s in statements
        for access in ([s.write] if entry.direction == "write" else s.reads)
        if any(name == entry.array for name, _ in access.parts)
    ]
    chosen = {
        position
        for position in range(len(program.arrays[entry.array].extents))
        if all(iterators(index[position]) <= outside for index in accesses)
    }
    places = {tuple(index[position] for position in sorted(chosen)) for index in accesses}
    if not any(iterators(part) for place in places for part in place):
        return set(), 0
    return chosen, len(places)


# -------------------------------------------------------------------------------------- hulls


Hull = list[tuple[Expr, Expr]]
"""(first, last) index per dimension, private ones first, for large sizes."""


def _hulls(program: PolyProgram, entries: Sequence[Moved]) -> Iterator[tuple[Moved, Hull]]:
    """Every entry with the hull of what it moves: one of all, or one of each border (with a number,
    or an end of the array, for a subscript), where it moves nothing else."""
    for entry in entries:
        parts = _parts(program, entry.statements, entry.array, entry.direction)
        if not parts:
            continue
        apart = len(parts) > 1 and not entry.whole
        borders = _borders(program, parts, entry.array) if apart else {}
        for several in borders.values() or [parts]:
            yield entry, _hull_of(program, several, entry.array)


def _borders(
    program: PolyProgram, parts: Sequence[IslSet], array: str
) -> dict[tuple[int, Expr], list[IslSet]]:
    """The parts by the border of the array that each lies in; empty where one lies in none."""
    borders: dict[tuple[int, Expr], list[IslSet]] = {}
    for part in parts:
        fixed = _fixed(_hull_of(program, [part], array), program.arrays[array])
        if fixed is None:
            return {}
        borders.setdefault(fixed, []).append(part)
    return borders


def _fixed(hull: Hull, array: Array) -> tuple[int, Expr] | None:
    """The first dimension of the array along which the hull is one element, and which."""
    for dim in range(len(array.private_to), len(hull)):
        low, high = hull[dim]
        if low == high and not iterators(low):
            return dim, low
    return None


def _parts(
    program: PolyProgram, statements: tuple[str, ...], array: str, direction: str
) -> list[IslSet]:
    """The elements of `array` that each access of the statements touches."""
    found: list[IslSet] = []
    for id in statements:
        statement = program.statement(id)
        accesses = [statement.write] if direction == "write" else list(statement.reads)
        for access in accesses:
            for name, relation in access.parts:
                if name == array:
                    part: IslSet = relation.range().intersect_params(program.context)
                    found += [] if part.is_empty() else [part]
    return found


def _hull(
    program: PolyProgram, statements: tuple[str, ...], array: str, direction: str
) -> Hull | None:
    """The hull of all elements that the statements touch."""
    parts = _parts(program, statements, array, direction)
    return _hull_of(program, parts, array) if parts else None


def _hull_of(program: PolyProgram, parts: Sequence[IslSet], array: str) -> Hull:
    """The hull of some of the array's elements."""
    touched = parts[0]
    for part in parts[1:]:
        touched = touched.union(part)
    large = _large(program)
    declared = program.arrays[array]
    bounds: list[tuple[Expr, Expr]] = []
    for dim in range(touched.dim(isl.SET)):
        try:
            ends = [
                isl.value_expr(end.intersect_params(large).gist(large).coalesce(), program.symbols)
                for end in isl.ends_of(touched, dim)
            ]
            for end in ends:
                to_python(end)  # a case distinction is no formula
            bounds.append((ends[0], ends[1]))
        except (*isl.FAILURES, ValueError):  # isl has no expression for a value of no point
            bounds.append(_declared(declared, dim))
    return bounds


def _declared(array: Array, dim: int) -> tuple[Expr, Expr]:
    """The whole dimension."""
    position = dim - len(array.private_to)
    if position < 0:
        return integer(0), integer(0)
    return integer(0), array.extents[position] - 1


def _large(program: PolyProgram) -> IslSet:
    """The calls in which every size and integer parameter is large, as far as can be."""
    reader = isl.Reader(program.context.get_space())
    each = [reader.affine({symbol: 1}).ge_set(reader.constant(LARGE)) for symbol in program.symbols]
    large = program.context
    for one in each:
        large = large.intersect(one)
    if not large.is_empty():  # as most often: one question, not one a symbol
        return large
    large = program.context
    for one in each:
        smaller = large.intersect(one)
        large = large if smaller.is_empty() else smaller
    return large


def _length(low: Expr, high: Expr) -> Expr:
    return high - low + 1


def _trips(program: PolyProgram, loop: Loop) -> Expr:
    """How often a host loop runs; for bounds in outer iterators, at most."""
    size = abs(loop.step)
    lower, upper = (loop.lower, loop.upper) if loop.step > 0 else (loop.upper, loop.lower)
    if iterators(lower) or iterators(upper):
        for statement in program.statements:
            names = statement.iterators
            if loop.iterator in names:
                ends = isl.ends_of(
                    statement.domain.intersect_params(program.context), names.index(loop.iterator)
                )
                low, high = (isl.value_expr(end, program.symbols) for end in ends)
                return _length(low, high) // size
    distance = upper - lower
    return (distance + (size - 1)) // size


# ----------------------------------------------------------------------------------- formulas


def _formula(terms: Sequence[tuple[int, Sequence[Expr]]], sizes: Mapping[str, int]) -> Formula:
    """before: 4*(H)*(W) + 4*(H)*(W); after: `8*H*W`. Factors are printed in order of name."""
    gathered: dict[tuple[str, ...], int] = {}
    value: int | None = 0
    for coefficient, factors in terms:
        texts: list[str] = []
        for factor in factors:
            text = to_python(factor)
            if text.lstrip("-").isdecimal():
                coefficient *= int(text)
            else:
                texts.append(text)
        key = tuple(texts)
        known = next((each for each in gathered if sorted(each) == sorted(key)), key)
        gathered[known] = gathered.get(known, 0) + coefficient
    for coefficient, factors in terms:
        try:
            numbers = [max(0, evaluate_index(factor, sizes)) for factor in factors]
        except KeyError:
            value = None
            break
        assert value is not None
        value += coefficient * math.prod(numbers)
    parts: list[str] = []
    for key, coefficient in gathered.items():
        if coefficient:
            parts.append("*".join([str(coefficient), *map(_bracketed, key)]))
    return Formula(" + ".join(parts) or "0", value)


def _bracketed(text: str) -> str:
    whole = text.replace("_", "a").isalnum() or (
        text.startswith(("min(", "max(")) and text.endswith(")") and text.count("(") == 1
    )
    return text if whole else f"({text})"
