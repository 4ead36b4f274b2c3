"""Which two groups may be one pass over the rows of an array: one goes along its rows, the other down its columns.

    for r: { s[r] = 0; for c: s[r] += x[r, c] * v[c] }        along
    for c: for r: t[c] += x[r, c] * s[r]                      across

Read off their statements and the dependences between them, before anything has a home. A row is gone along, and then
what the other makes of it; results of columns are there once all rows are done. So the other may need of a row what was
made for that row, and what is not asked for inside its own loops over rows may need anything; the first needs nothing
of the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from loopfuse.lang.linear import linear, tidy
from loopfuse.lang.nodes import Iter
from loopfuse.lang.walk import iterators
from loopfuse.plan.mapping.space import dim_extents, loop_iterations
from loopfuse.plan.strategies.rows.likely import is_columns
from loopfuse.plan.units.groups import Crossing, Group, Legality
from loopfuse.poly.isl_relations import is_equal_along
from loopfuse.poly.model import Access, Loop, PolyProgram, Statement


@dataclass(frozen=True, slots=True)
class _Columns:
    """The group across rows: its statements inside loops over the rows, by id, each with the variable of its loop, and the arrays that
    they add to. All loops are as `loop`."""

    group: Group
    inside: dict[str, Statement]
    row_of: dict[str, str]
    results: tuple[str, ...]
    loop: Loop


def find_crossing(first: Group, second: Group, program: PolyProgram, share: int) -> Crossing | None:
    """Two neighbouring groups of a plan as one pass, whichever of them goes along rows; None where they are none."""
    if not _is_plain(first) or not _is_plain(second):
        return None
    found = _cross(first, second, True, program, share)
    return found or _cross(second, first, False, program, share)


def _is_plain(group: Group) -> bool:
    """Are its iterations its own, and nothing of it computed anew, or run by the host?"""
    if group.legality is not Legality.INDEPENDENT or not group.dims or group.fit is not None or group.time is not None:
        return False
    return group.scope is not None and not (group.scope.host or group.recomputed or group.absorbed)


def _cross(along: Group, across: Group, in_turn: bool, program: PolyProgram, share: int) -> Crossing | None:
    """`in_turn`: `along` is the first of the two in the program."""
    columns = _columns(across, program)
    if columns is None:
        return None
    for dim in along.dims:
        pair = _shared(along, dim, columns)
        if not pair or not _has_rows(along, dim, columns.loop, program) or _goes_down(along, dim):
            continue
        if not _are_in_step(along, dim, columns, in_turn):
            continue
        arrays = tuple(dict.fromkeys(array for array, _, _ in pair))
        _, mine, theirs = pair[0]
        one, other = along.placed[mine.id].unit.label, across.placed[theirs.id].unit.label
        between = (one, other) if in_turn else (other, one)
        return Crossing(along, across, dim, arrays, columns.results, between, share)
    return None


def _columns(group: Group, program: PolyProgram) -> _Columns | None:
    """The group as one that adds up columns, in one loop over rows."""
    if len(group.dims) != 1 or not is_columns(group, program):
        return None
    inside: dict[str, Statement] = {}
    results: list[str] = []
    loops: dict[str, Loop] = {}
    row_of: dict[str, str] = {}
    for placed in group.members:
        dims = {c.iterator for c in placed.coordinates}
        for s in placed.unit.statements:
            inner = [loop for loop in s.loops if loop.iterator not in dims]
            if not inner:
                continue
            if not loop_iterations(s, program).is_subset(s.domain):
                return None  # conditions stand inside the loop
            inside[s.id] = s
            row_of[s.id] = inner[-1].iterator
            if len(inner) > 1:
                return None
            loops |= {loop.iterator: loop for loop in inner}
            if s.reduction and s.kind != "init":
                results.append(s.target.array)
            elif s.target.index:
                return None
    alike = {(tidy(loop.lower), tidy(loop.upper), loop.step): loop for loop in loops.values()}
    if len(alike) != 1:
        return None
    (loop,) = alike.values()
    return _Columns(group, inside, row_of, tuple(dict.fromkeys(results)), loop)


def _shared(along: Group, dim: str, columns: _Columns) -> list[tuple[str, Statement, Statement]]:
    """The arrays whose rows both go along, each with a statement of either that does."""
    found: list[tuple[str, Statement, Statement]] = []
    for s_across in columns.inside.values():
        their_row = columns.row_of[s_across.id]
        for theirs in _matrices(s_across, their_row):
            for placed in along.members:
                row = placed.coordinate(dim).iterator
                for s in placed.unit.statements:
                    if any(_same(mine, theirs, row, their_row) for mine in _matrices(s, row)):
                        found.append((theirs.array, s, s_across))
    return found


def _matrices(statement: Statement, row: str) -> Iterator[Access]:
    """What it reads or writes of rows that `row` numbers: of all their places, neighbours last."""
    for access in (*statement.reads, statement.write):
        index = access.load.index
        is_row = len(index) > 1 and any(part == Iter(row) for part in index[:-1]) and bool(iterators(index[-1]) - {row})
        if is_row and len(access.parts) == 1:
            yield access


def _same(mine: Access, theirs: Access, row: str, their_row: str) -> bool:
    """Do both go along one array, whose rows are numbered by the same subscript?"""
    if mine.array != theirs.array or len(mine.load.index) != len(theirs.load.index):
        return False
    pairs = zip(mine.load.index, theirs.load.index, strict=True)
    return any(one == Iter(row) and other == Iter(their_row) for one, other in pairs)


def _has_rows(along: Group, dim: str, loop: Loop, program: PolyProgram) -> bool:
    """Has the group along rows just those that the other goes down?"""
    coordinates = [placed.coordinate(dim) for placed in along.members]
    if any(c.sign != 1 or c.constant or c.parameters for c in coordinates):
        return False
    extent = dim_extents(along, program)[dim]
    return extent.step == loop.step == 1 and (tidy(extent.lower), tidy(extent.upper)) == (tidy(loop.lower), tidy(loop.upper))


def _goes_down(along: Group, dim: str) -> bool:
    """Does it go down columns of something too, beyond edges or where data say? (Where a worker goes along one row at a time,
    that is slow.)"""
    for placed in along.members:
        row = placed.coordinate(dim).iterator
        for s in placed.unit.statements:
            for access in (*s.reads, s.write):
                index = access.load.index
                if index and row in iterators(index[-1]) and any(iterators(part) - {row} for part in index[:-1]):
                    return True
                if len(access.parts) != 1 or any(linear(part) is None for part in index):
                    return True
    return False


def _are_in_step(along: Group, dim: str, columns: _Columns, in_turn: bool) -> bool:
    """Does what passes between the two go from a row to the same row, or to what stands behind all rows?"""
    scope = along.scope
    assert scope is not None
    for d in scope.touching(along.ids | columns.group.ids):
        if d.source in columns.group.ids and d.sink in along.ids:
            return False
        if d.source not in along.ids or d.sink not in columns.group.ids:
            continue
        if not in_turn:
            return False
        sink = columns.inside.get(d.sink)
        if sink is None or (sink.target.array == d.array and d.array in columns.results):
            continue  # that comes once all rows are done, and so does what copies of a result are added to
        placed = along.placed[d.source]
        source = next(s for s in placed.unit.statements if s.id == d.source).iterators
        places = source.index(placed.coordinate(dim).iterator), sink.iterators.index(columns.row_of[sink.id])
        if not is_equal_along(d.relation, *places):
            return False
    return True
