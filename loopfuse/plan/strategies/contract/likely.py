"""Would a group be taken as a product? Read off its statements, before anything has a home: what a price needs."""

from __future__ import annotations

from collections.abc import Iterator

from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter
from loopfuse.lang.walk import iterators, loads, subscript_iterators, substitute
from loopfuse.plan.mapping.updates import is_cheap
from loopfuse.plan.strategies.contract.columns import COLUMNS
from loopfuse.plan.units.groups import Group, Legality
from loopfuse.poly.model import Loop, Statement


def is_likely(group: Group) -> bool:
    """Is the group a nest of loops around one update, some of whose operands do not move with the columns, and some not with the
    rows? Columns are a dimension, or a loop of their own in each part of what a row runs."""
    if group.legality is not Legality.INDEPENDENT or not group.dims or group.recomputed:
        return False
    parts = [*_statements(group)]
    if any(load for s, _ in parts for access in (*s.reads, s.write) for part in access.load.index for load in loads(part)):
        return False
    with_loops = [(s, own) for s, own in parts if own and s.kind != "init"]
    if len(group.dims) > 1 and len(with_loops) == 1:
        (update, own) = with_loops[0]
        names = {name for name in update.iterators if name not in {loop.iterator for loop in own}}
        return any(_is_product(update, own, rows, columns) for rows in names for columns in names - {rows})
    return _has_columns(parts)


def _has_columns(parts: list[tuple[Statement, tuple[Loop, ...]]]) -> bool:
    """Has each part of what a row runs a loop over columns, of which none needs what another has?"""
    found: list[bool] = []
    places: dict[str, set[tuple[Expr, ...]]] = {}
    for s, own in parts:
        columns = [loop for loop in own if loop.iterator in subscript_iterators(s.target)]
        if len(columns) != 1:
            return False
        column = {columns[0].iterator: Iter(COLUMNS)}
        for load in (s.target, *loads(s.value)):
            places.setdefault(load.array, set()).add(tuple(tidy(substitute(part, column)) for part in load.index))
        reduced = tuple(loop for loop in own if loop is not columns[0])
        if reduced:
            rows = set(s.iterators) - {loop.iterator for loop in own}
            found.append(any(_is_product(s, reduced, each, columns[0].iterator) for each in rows))
    return found == [True] and all(len(places[s.target.array]) == 1 for s, _ in parts)


def _statements(group: Group) -> Iterator[tuple[Statement, tuple[Loop, ...]]]:
    """Each statement that the group runs, and the loops around it that are the group's own to run."""
    host = {loop.iterator for loop in group.scope.host} if group.scope else set[str]()
    for placed in group.members:
        dims = {c.iterator for c in placed.coordinates}
        for s in placed.unit.statements:
            yield s, tuple(loop for loop in s.loops if loop.iterator not in dims | host)


def _is_product(s: Statement, reduced: tuple[Loop, ...], rows: str, columns: str) -> bool:
    """Does the statement update a place of its own for each row and column, by operands for rows and for columns?"""
    names = {loop.iterator for loop in reduced}
    target, every = s.target, loads(s.value)
    if s.predicate is not None or every.count(target) != 1 or names & subscript_iterators(target) or not is_cheap(s.value):
        return False
    for loop in reduced:
        bounds = (loop.lower, loop.upper)
        if loop.unknown or loop.step != 1 or any({rows, columns} & iterators(end) for end in bounds):
            return False
    operands = [load for load in every if load != target]
    if any(load.array == target.array for load in operands):
        return False
    along = [subscript_iterators(load) & {rows, columns} for load in operands]
    return all(frozenset(each) in along for each in ((rows,), (columns,))) and frozenset((rows, columns)) not in along
