"""What a reduction into a scalar adds to where it adds nothing.

    s = 1; for i: s = b[i]; for i: s += c[i]; for i: d[i] = s

Where there is no i, `s = 1` stands. No dependence says so, as nothing reads `s` then, but sums of their own
are added to what stands, be it with nothing in them: `s = 1` stays, and in the same place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopfuse.poly import isl
from loopfuse.poly.model import PolyProgram, Statement


def reductions_of(statements: Sequence[Statement]) -> Iterator[Statement]:
    """Those that add to what stood there."""
    return (s for s in statements if s.reduction and s.kind != "init")


def starts_of(program: PolyProgram, update: Statement) -> list[Statement]:
    """The writes to the scalar of a reduction, before it, that may stand where no other is done; nothing of
    arrays with elements."""
    array = update.write.array
    if program.arrays[array].extents or len(update.write.parts) > 1:
        return []
    found: list[Statement] = []
    left = None
    for statement in reversed(program.statements[: program.statements.index(update)]):
        if array not in dict(statement.write.parts):
            continue
        cells = dict(statement.write.parts)[array].intersect_domain(statement.domain).range()
        cells = cells.intersect_params(program.context)
        if left is not None and cells.intersect(left).is_empty():
            continue
        found.append(statement)
        if statement.predicate is None and statement.write.exact and len(statement.write.parts) == 1:
            left = (isl.universe(cells.get_space()) if left is None else left).subtract(cells)
    return found
