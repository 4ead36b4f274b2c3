"""Which loops of a sequence write one array together: most of it, and its borders.

    for y in 1..H-1, x in 1..W-1: b[y, x] = f(a[y-1..y+1, x-1..x+1])
    for x in 0..W: { b[0, x] = a[0, x];  b[H-1, x] = a[H-1, x] }
    for y in 1..H-1, x in 0..W: c[y, x] = g(b[y-1..y+1, x])

What stands between the first and the last that write some array belongs to them, and so do the stencils
around, which read it: the longest such run is found first, then shorter ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopfuse.plan.fusion.streams import Run
from loopfuse.plan.strategies.sliding.windows.borders import is_border, with_borders
from loopfuse.plan.units.forest import Scope, Unit
from loopfuse.plan.units.groups import HostGroup

MOST = 24
"""The most loops of a run: more would take long to try, and to prove."""


def find_bordered(entries: Sequence[Unit | HostGroup], scope: Scope) -> Iterator[Run]:
    """The runs of neighbouring units that may be one pipeline with borders, longest first."""
    for length in range(min(MOST, len(entries)), 1, -1):
        for start in range(len(entries) - length + 1):
            units = _units(entries[start : start + length])
            if units and _is_whole(units, entries) and (run := _with_border(units, scope)):
                yield run


def _units(entries: Sequence[Unit | HostGroup]) -> tuple[Unit, ...]:
    """The entries, if all are units."""
    found = tuple(entry for entry in entries if isinstance(entry, Unit))
    return found if len(found) == len(entries) else ()


def _is_whole(units: Sequence[Unit], entries: Sequence[Unit | HostGroup]) -> bool:
    """Do no others write what the units write?"""
    mine = _written(units)
    ranks = {unit.rank for unit in units}
    others = [each for each in entries if isinstance(each, Unit) and each.rank not in ranks]
    return not mine & _written(others)


def _with_border(units: tuple[Unit, ...], scope: Scope) -> Run | None:
    """The run of the units, if one writes a border of an array, and another the rest of it."""
    whole = with_borders(units, scope)
    full = [unit for unit in whole if not is_border(unit)]
    for border in (unit for unit in whole if is_border(unit)):
        rest = next((unit for unit in full if _written([border]) & _written([unit])), None)
        if rest is not None:
            by_rank = {unit.rank: unit for unit in units}
            return Run(units, by_rank[rest.rank], by_rank[border.rank])
    return None


def _written(units: Sequence[Unit]) -> set[str]:
    return {s.write.array for unit in units for s in unit.statements if s.target.index}
