"""Dimensions that can run as one: those of a program that touches everything at [.., y, x] alone.

    for y in 0..H: for x in 0..W: out[y, x] = exp(a[y, x]) * b[y, x]

In memory `a[y, x]` is element `y*W + x`, so the program does the same when it is called with H = 1
and W = H*W. (Nor does it matter whether two of the slower sizes are one: squares of colours,
`a[H, H, C]`.) That product is no affine expression: no set or relation can hold it. But what is
proved of a tree is proved for all sizes, those of such a call among them; what is left to prove is
that the program does the same in both calls:

1. no call is excluded that the other stands for (`_is_closed`);
2. each statement runs for the whole box 0 <= y < H, 0 <= x < W, in which the range of its other loops
   does not change (`_runs_in_a_box`), or has no such loops;
3. it touches only elements at its own [.., y, x], or what only statements without such loops write
   (`_keeps_its_place`);
4. H, W, y and x stand nowhere else (`_hides`).

So whatever one point of the box finds, it finds from statements at that same point, in the same
order; and points that are neighbours in memory are neighbours in both boxes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from loopfuse.lang.nodes import Expr, Iter, Load, Symbol, integer
from loopfuse.lang.walk import children, iterators, symbols
from loopfuse.poly import isl
from loopfuse.poly.model import Access, Array, PolyProgram, Statement

Sizes = tuple[str, ...]
"""The sizes of neighbouring dimensions, slowest first: all but the last become 1, and the last one
their product."""


def find_collapses(program: PolyProgram) -> tuple[Sizes, ...]:
    """The longest runs of dimensions that can run as one; none where isl cannot tell."""
    found: list[Sizes] = []
    for run in _runs(program):
        if all(not set(run) & set(other) for other in found) and may_collapse(program, run):
            found.append(run)
    return tuple(found)


def _runs(program: PolyProgram) -> list[Sizes]:
    """Neighbouring extents of arrays, the last of which is another size than those before it, the longest first."""
    found: dict[Sizes, None] = {}
    for array in program.arrays.values():
        names = [each.name if isinstance(each, Symbol) else "" for each in array.extents]
        for first in range(len(names)):
            for last in range(first + 2, len(names) + 1):
                run = tuple(names[first:last])
                if "" not in run and run[-1] not in run[:-1]:
                    found[run] = None
    return sorted(found, key=len, reverse=True)


def may_collapse(program: PolyProgram, sizes: Sizes) -> bool:
    """Does the program do the same where these sizes are (1, ..., 1, their product)?"""
    known = {name for name in program.kernel.sizes if name in program.symbols}
    if program.unknown or len(sizes) < 2 or sizes[-1] in sizes[:-1] or set(sizes) - known:
        return False
    if not _is_closed(program, sizes):
        return False
    places = {s.id: _place(s, sizes) for s in program.statements}
    for statement in program.statements:
        place = places[statement.id]
        if place is None or not _hides(statement, sizes, place):
            return False
        for access in (*statement.reads, statement.write):
            array = program.arrays[access.array]
            is_still = not any(places[writer] for writer in program.writers.get(array.name, ()))
            if not _keeps_its_place(access, array, sizes, place, is_still):
                return False
        if not _runs_in_a_box(statement, program, sizes, place):
            return False
    return True


# ------------------------------------------------------------------------------ one statement


def _place(statement: Statement, sizes: Sizes) -> tuple[str, ...] | None:
    """The iterators of the loops over these sizes, of which there is one each (two over a size that stands
    twice, in their order); () where it has no such loops, None where it has others."""
    found: list[str] = []
    over = [loop for loop in statement.loops if (symbols(loop.upper) | symbols(loop.lower)) & set(sizes)]
    if not over:
        return ()
    for number, size in enumerate(sizes):
        here = [loop for loop in over if size in symbols(loop.upper) | symbols(loop.lower)]
        if len(here) != sizes.count(size):
            return None
        loop = here[sizes[:number].count(size)]
        if loop.lower != integer(0) or not _is_size(loop.upper, size) or loop.step != 1:
            return None
        found.append(loop.iterator)
    return tuple(found)


def _is_size(extent: Expr, name: str) -> bool:
    return isinstance(extent, Symbol) and extent.name == name


def _outside(expr: Expr) -> Iterable[Expr]:
    """The expression without the subscripts of what it loads."""
    yield expr
    if not isinstance(expr, Load):
        for child in children(expr):
            yield from _outside(child)


def _hides(statement: Statement, sizes: Sizes, place: tuple[str, ...]) -> bool:
    """Nothing that the statement computes, and no other loop's bound, depends on them."""
    computed = [statement.value]
    if statement.predicate is not None:
        computed.append(statement.predicate)
    for each in (part for value in computed for part in _outside(value)):
        if isinstance(each, Iter) and each.name in place:
            return False
        if isinstance(each, Symbol) and each.name in sizes:
            return False
        if isinstance(each, Load) and each.swapped is not None:
            return False
    bounds = [bound for loop in statement.loops for bound in (loop.lower, loop.upper)]
    return not any(iterators(bound) & set(place) for bound in bounds)


def _keeps_its_place(
    access: Access, array: Array, sizes: Sizes, place: tuple[str, ...], is_still: bool
) -> bool:
    """Is the access at [.., y, x, ..], or does the array stay as it is in the whole box, and what is
    touched of it too?"""
    index = access.load.index
    if not access.exact or len(access.parts) != 1 or any(_loads(part) for part in index):
        return False
    first = _found(array.extents, sizes) if place else -1
    at = range(first, first + len(sizes)) if first >= 0 else range(0)
    for number, (part, extent) in enumerate(zip(index, array.extents, strict=True)):
        if number in at:
            continue
        if (iterators(part) & set(place)) or (symbols(part) | symbols(extent)) & set(sizes):
            return False
    if any(index[number] != Iter(name) for number, name in zip(at, place, strict=bool(at))):
        return False
    own = bool(place) and set(place) <= set(array.private_to)
    return bool(at) or own or is_still


def _loads(part: Expr) -> bool:
    return any(isinstance(each, Load) for each in _outside(part))


def _found(extents: Sequence[Expr], sizes: Sizes) -> int:
    """Where the sizes stand among the extents, one after the other; -1: nowhere."""
    for first in range(len(extents) - len(sizes) + 1):
        if all(_is_size(extents[first + k], size) for k, size in enumerate(sizes)):
            return first
    return -1


# ------------------------------------------------------------------------------- as isl sets


def _runs_in_a_box(
    statement: Statement, program: PolyProgram, sizes: Sizes, place: tuple[str, ...]
) -> bool:
    """Are the instances the whole box, times something that does not depend on it?"""
    context = program.context
    domain = statement.domain.intersect_params(context)
    space = isl.set_space(isl.context_of(context), program.symbols, statement.iterators)
    reader = isl.Reader(space)
    box = isl.universe(space)
    for size, name in zip(sizes, place):
        here, end = reader.affine({name: 1}), reader.affine({size: 1})
        box = box.intersect(here.ge_set(reader.constant(0))).intersect(here.lt_set(end))
    box = box.set_tuple_name(statement.id)
    rest = domain
    for name in place:
        rest = isl.forget(rest, statement.iterators.index(name))
    rest = _whatever(rest, sizes)
    whole = rest.intersect(box).intersect_params(context)
    return bool(whole.is_subset(domain))


def _is_closed(program: PolyProgram, sizes: Sizes) -> bool:
    """Is every call that stands for an allowed one allowed?"""
    space = isl.set_space(isl.context_of(program.context), program.symbols, ())
    reader = isl.Reader(space)
    allowed = isl.universe(space).intersect_params(program.context)
    *ones, last = (reader.affine({size: 1}) for size in sizes)
    flat = isl.universe(space)
    for size in ones:
        flat = flat.intersect(size.eq_set(reader.constant(1)))
    nothing, something = isl.empty(space), isl.universe(space)
    for size in (*ones, last):
        nothing = nothing.union(size.eq_set(reader.constant(0)))
        something = something.intersect(size.ge_set(reader.constant(1)))
    for calls, product in (
        (nothing, last.eq_set(reader.constant(0))),
        (something, last.ge_set(reader.constant(1))),
    ):
        others = _whatever(allowed.intersect(calls), sizes)
        if not others.intersect(flat).intersect(product).is_subset(allowed):
            return False
    return True


def _whatever(points: Any, sizes: Sizes) -> Any:
    """`points` with nothing known any more of these sizes."""
    for size in sizes:
        points = points.eliminate(isl.PARAM, points.find_dim_by_name(isl.PARAM, size), 1)
    return points
