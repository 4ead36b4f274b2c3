"""Which elements of an `out` array a kernel does not surely write before it reads them.

The runtime makes the outputs that a call leaves out, and clears there what this says, and nothing
else: mostly nothing, or a border. The answer is a few boxes, which may hold more than they need
to; None stands for the whole array, where the analysis knows nothing.

A box is *untouched* where no instance of any statement reads or writes an element of it: whoever
clears it may do so while the kernel runs. That is so of the code, not only of the program: the
checker proves of each schedule that "no other element was written" (`proof.check`, 3), and code
generation stores what a node of the schedule stores, or nothing (its stores under a condition are
predicated, and the ends of rows that are moved in words go one by one). It may load a neighbour in
one word with what it needs, and drops it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from loopfuse.poly import isl
from loopfuse.poly.deps import flow_of_read, names_one_place
from loopfuse.poly.isl_boxes import (
    before_or_after,
    between_ends,
    disjoint_pieces,
    over,
    plus_one,
    shadow,
)
from loopfuse.poly.model import Dependences, IslSet, PolyProgram, Statement

MOST = 8
"""Boxes of one array: beyond these, clearing all of it costs less."""


@dataclass(frozen=True, slots=True)
class Box:
    """The elements of an array with `bounds[d][0] <= x[d] < bounds[d][1]` for every dimension d;
    none where `when` is false. Bounds are None where they are the array's own. All are Python
    expressions in the sizes and integer parameters. `untouched`: the kernel neither reads nor
    writes any of them."""

    when: str
    bounds: tuple[tuple[str, str] | None, ...]
    untouched: bool = False


def find_unwritten(
    program: PolyProgram, dependences: Dependences
) -> dict[str, tuple[Box, ...] | None]:
    """For every `out` array the boxes that hold what is not surely written before it is read."""
    found: dict[str, tuple[Box, ...] | None] = {}
    for name, array in program.arrays.items():
        if array.kind != "out":
            continue
        try:
            found[name] = _of_array(program, dependences, name)
        except isl.FAILURES as error:
            if not isl.gave_up(error):
                raise
            found[name] = None
    return found


def _of_array(
    program: PolyProgram, dependences: Dependences, name: str
) -> tuple[Box, ...] | None:
    written = _written(program, name)
    if written is None or not dependences.complete:
        return None
    space = written.get_space()
    whole = isl.universe(space).intersect_params(program.context)
    reader = isl.Reader(space)
    names = [space.get_dim_name(isl.SET, k) for k in range(space.dim(isl.SET))]
    for dim, extent in zip(names, program.arrays[name].extents, strict=True):
        end = reader.piecewise(extent)
        if end is None:
            return None
        here = reader.affine({dim: 1})
        whole = whole.intersect(here.ge_set(reader.constant(0))).intersect(here.lt_set(end))
    for exposed in _exposed(program, dependences, name):
        written = written.subtract(_like(exposed, space))
    written = written.intersect(whole).coalesce()
    rest = whole.subtract(written).coalesce()
    if rest.is_empty():
        return ()
    touched = _touched(program, name, space)
    return _borders(program, written, whole, rest, touched) or _pieces(program, rest, touched)


def _written(program: PolyProgram, name: str) -> IslSet | None:
    """The elements that some statement writes in every run with these parameters; None: nothing."""
    parts: list[IslSet] = []
    for statement in program.statements:
        if not _surely_runs(statement):
            continue
        for array, relation in statement.write.parts:
            if array == name:
                parts.append(relation.intersect_domain(statement.domain).range())
    if not parts:
        return None
    found = isl.without_parameters(reduce(_either, parts), program.unknown)
    return _named(found.intersect_params(program.context))


def _either(one: IslSet, other: IslSet) -> IslSet:
    return one.union(other)


def _surely_runs(statement: Statement) -> bool:
    """No condition on data is in its way, and it is known which element it writes."""
    return (
        statement.predicate is None
        and statement.write.exact
        and names_one_place(statement.write)
        and not any(loop.unknown for loop in statement.loops)
    )


def _exposed(program: PolyProgram, dependences: Dependences, name: str) -> list[IslSet]:
    """Elements that are read, perhaps, before anything has written them."""
    found: list[IslSet] = []
    for statement in program.statements:
        for number, access in enumerate(statement.reads):
            for array, relation in access.parts:
                if array != name:
                    continue
                _, missing = flow_of_read(program, dependences, statement.id, number)
                elements = relation.intersect_domain(missing).range()
                elements = elements.intersect_params(program.context)
                if not elements.is_empty():
                    found.append(isl.without_parameters(elements, program.unknown))
    return found


def _touched(program: PolyProgram, name: str, space: Any) -> IslSet | None:
    """Every element that some instance reads or writes, whatever the data; None where an access is
    not exact."""
    found = isl.universe(space).subtract(isl.universe(space))
    for statement in program.statements:
        for access in (statement.write, *statement.reads):
            for array, relation in access.parts:
                if array != name:
                    continue
                if not access.exact:
                    return None
                elements = relation.intersect_domain(statement.domain).range()
                elements = isl.without_parameters(elements, program.unknown)
                found = found.union(_like(elements, space))
    return found.intersect_params(program.context).coalesce()


def _is_apart(box: IslSet, touched: IslSet | None) -> bool:
    return touched is not None and touched.is_disjoint(box)


def _named(points: IslSet) -> IslSet:
    """The set without the array's name and with names for its dimensions, which ranges lack."""
    points = points.reset_tuple_id() if points.has_tuple_id() else points
    for k in range(points.dim(isl.SET)):
        points = points.set_dim_name(isl.SET, k, f"x{k}")
    return points


def _like(points: IslSet, space: Any) -> IslSet:
    return _named(points).align_params(space)


def _borders(
    program: PolyProgram, written: IslSet, whole: IslSet, rest: IslSet, touched: IslSet | None
) -> tuple[Box, ...] | None:
    """What lies around one box that is written whole, as slabs over all of the other dimensions:
    a few clears of memory that is evenly spaced. None: what is written is no box."""
    if written.is_empty():
        return None
    rank = written.dim(isl.SET)
    lines = [shadow(written, dim) for dim in range(rank)]
    inner = whole
    for dim, line in enumerate(lines):
        inner = inner.intersect(over(between_ends(line), rank, dim))
    if not inner.is_subset(written):
        return None
    some = written.params()
    boxes: list[Box] = []
    never = rest.params().subtract(some)
    if not never.is_empty():
        apart = _is_apart(whole.intersect_params(never), touched)
        boxes.append(Box(_holds(never, program), (None,) * rank, apart))
    for dim, line in enumerate(lines):
        for before in (True, False):
            slab = rest.intersect(over(before_or_after(line, before), rank, dim))
            if slab.is_empty():
                continue
            bounds: list[tuple[str, str] | None] = [None] * rank
            bounds[dim] = _ends(slab, dim)
            hull = _between(slab, (dim,)).intersect(whole)
            boxes.append(Box(_holds(slab.params(), program), tuple(bounds), _is_apart(hull, touched)))
    return tuple(boxes) if len(boxes) <= MOST else None


def _ends(points: IslSet, dim: int) -> tuple[str, str]:
    """The least value of a dimension, and the greatest and one."""
    low, high = isl.ends_of(points, dim)
    known = points.params()
    low, high = low.gist(known), plus_one(high).gist(known)
    return isl.value_text(low), isl.value_text(high)


def _holds(params: IslSet, program: PolyProgram) -> str:
    """Whether the parameters are in this set, given that the call is fine."""
    known = params.coalesce().gist(program.context).coalesce()
    return "True" if known.plain_is_universe() else isl.params_text(known)


def _between(points: IslSet, dims: Iterable[int]) -> IslSet:
    """All points that lie between the ends of `points` in these dimensions, where it has any."""
    rank = points.dim(isl.SET)
    lines = (over(between_ends(shadow(points, dim)), rank, dim) for dim in dims)
    return reduce(_both, lines).intersect_params(points.params())


def _both(one: IslSet, other: IslSet) -> IslSet:
    return one.intersect(other)


def _pieces(
    program: PolyProgram, rest: IslSet, touched: IslSet | None
) -> tuple[Box, ...] | None:
    """The box around each convex piece."""
    pieces = disjoint_pieces(rest)
    if len(pieces) > MOST:
        return None
    return tuple(
        Box(
            _holds(piece.params(), program),
            tuple(_ends(piece, dim) for dim in range(piece.dim(isl.SET))),
            _is_apart(_between(piece, range(piece.dim(isl.SET))), touched),
        )
        for piece in pieces
    )
