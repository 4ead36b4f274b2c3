"""Which choices may compute both of their arms: those whose loads are inside their arrays whatever is chosen.

before: t[i] = a[i] if m[i] > 0 else b[i]
after:  the same, marked: a[i] and b[i] may be read although nobody asks, and one of them be taken

A CPU then needs no branch, which would be foretold wrong half the time, and no vector is kept from being made.
What is asked of sizes counts (`bounds.find_preconditions`), the condition does not.
"""

from __future__ import annotations

from dataclasses import replace

from loopfuse.lang.index import is_checked
from loopfuse.lang.nodes import Expr, Load, Select
from loopfuse.lang.walk import children, iterators, loads, with_children
from loopfuse.poly import isl
from loopfuse.poly.build import obviously_inside
from loopfuse.poly.model import PolyProgram, Statement


def mark_eager(program: PolyProgram) -> PolyProgram:
    """The program with its choices marked. A choice in a subscript stays as it is."""
    return replace(program, statements=tuple(_marked(program, each) for each in program.statements))


def _marked(program: PolyProgram, statement: Statement) -> Statement:
    known: dict[Load, bool] = {}

    def are_inside(arms: tuple[Expr, ...]) -> bool:
        for load in (each for arm in arms for each in loads(arm)):
            if load not in known:
                known[load] = _is_inside(program, statement, load)
            if not known[load]:
                return False
        return True

    def marked(expr: Expr) -> Expr:
        below = children(expr)
        if not below or isinstance(expr, Load):
            return expr
        expr = with_children(expr, tuple(map(marked, below)))
        if isinstance(expr, Select) and not expr.eager and are_inside((expr.then, expr.otherwise)):
            return replace(expr, eager=True)
        return expr

    value = marked(statement.value)
    return statement if value is statement.value else replace(statement, value=value)


def _is_inside(program: PolyProgram, statement: Statement, load: Load) -> bool:
    """Is the element inside its array in every instance of the statement? (False where that is hard to say.)"""
    array = program.arrays[load.array]
    if load.swapped is not None or any(is_checked(each) or loads(each) for each in load.index):
        return False
    todo = [
        (subscript, extent)
        for subscript, extent in zip(load.index, array.extents, strict=True)
        if not obviously_inside(subscript, extent, statement.loops)
    ]
    if not todo:
        return True
    own = set(statement.iterators)
    if any(not iterators(subscript) <= own for subscript, _ in todo):
        return False
    where = statement.domain.intersect_params(program.context)
    reader = isl.Reader(where.get_space())
    for subscript, extent in todo:
        value, end = reader.piecewise(subscript, where), reader.piecewise(extent, where)
        if value is None or end is None:
            return False
        outside = value.lt_set(reader.constant(0)).union(value.ge_set(end))
        if not where.intersect(outside).is_empty():
            return False
    return True
