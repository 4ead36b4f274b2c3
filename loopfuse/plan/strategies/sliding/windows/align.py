"""Alignment of a chain of stencils: every step on the first one's dimensions, shifted so that what
it reads lies around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loopfuse.lang.linear import linear
from loopfuse.lang.nodes import Expr
from loopfuse.lang.walk import iterators
from loopfuse.plan.strategies.sliding.windows.borders import is_border
from loopfuse.plan.strategies.sliding.windows.edges import inner_of
from loopfuse.plan.strategies.sliding.windows.records import Step, earlier_name
from loopfuse.plan.units.align import Coordinate, Placed


def align_steps(steps: Sequence[Step]) -> tuple[Step, ...] | str:
    """The steps with their coordinates, or why there are none."""
    first = steps[0].placed.unit
    dims = tuple(f"g{k}" for k in range(len(first.common)))
    coordinates = tuple(Coordinate(d, loop.iterator, 1) for d, loop in zip(dims, first.common))
    out = [replace(steps[0], placed=Placed(first, coordinates))]
    for step in steps[1:]:
        unit = step.placed.unit
        shifts = _with_what_it_overwrites(out, step) if is_border(unit) else _shifts(out, step)
        if not shifts:  # they touch nothing in common: as they stand
            pairs = zip(dims, unit.common, strict=True)
            shifts = {(dim, loop.iterator): [0] for dim, loop in pairs}
        taken: dict[str, Coordinate] = {}
        for (dim, iterator), offsets in shifts.items():
            if dim not in taken and iterator not in {c.iterator for c in taken.values()}:
                middle = int((min(offsets) + max(offsets)) / 2)  # towards 0: chains do not drift
                taken[dim] = Coordinate(dim, iterator, 1, (), middle)
        if len(taken) < len(dims):
            return f"{unit.label} shares too few dimensions with the loops before it"
        out.append(replace(step, placed=Placed(unit, tuple(taken[dim] for dim in dims))))
    return tuple(out)


def _shifts(before: Sequence[Step], step: Step) -> dict[tuple[str, str], list[int]]:
    """For each pair of a group dimension and an iterator of the step: by how much the iterator is
    ahead of the dimension where both touch the same element (of stages that earlier steps make
    first, of what it overwrites and of operands they share where there are none)."""
    names = {loop.iterator for loop in step.placed.unit.common}
    related: dict[tuple[str, str], list[int]] = {}
    shared: dict[tuple[str, str], list[int]] = {}
    wanted = set(step.reads.values())
    for other in before:
        by_iterator = {c.iterator: c for c in other.placed.coordinates}
        if not wanted & {*other.writes.values(), *other.reads.values()}:
            continue
        for theirs in other.placed.unit.statements:
            for one in (theirs.write, *theirs.reads):
                array = other.array_of(one.load)
                key = (other.writes if one is theirs.write else other.reads).get(array, "")
                if not key or key not in wanted or not one.load.index:
                    continue
                found = related if one is theirs.write else shared
                for mine in step.placed.unit.statements:
                    for access in mine.reads:
                        if step.reads.get(step.array_of(access.load)) != key:
                            continue
                        for a, b in zip(one.load.index, access.load.index, strict=True):
                            here, there = moves(inner_of(a)), moves(inner_of(b))
                            if here is None or there is None or here[0] not in by_iterator:
                                continue
                            if there[0] in names:
                                c = by_iterator[here[0]]
                                # element = dim + offset + a = iterator + b
                                distance = c.constant + here[1] - there[1]
                                found.setdefault((c.dim, there[0]), []).append(distance)
    return related or _with_what_it_overwrites(before, step) or shared


def _with_what_it_overwrites(
    before: Sequence[Step], step: Step
) -> dict[tuple[str, str], list[int]]:
    """`_shifts` of a border, or of what reads nothing that is made: each element where the step stands
    that wrote the array last. (What the step leaves as it is would lie beyond the loops otherwise.)"""
    (array, name), *_ = step.writes.items()
    mine = next(
        s.write.load
        for s in step.placed.unit.statements
        if s.target.index and step.array_of(s.write.load) == array
    )
    for other in reversed(before):
        if other.writes.get(array) != earlier_name(name):
            continue
        by_iterator = {c.iterator: c for c in other.placed.coordinates}
        theirs = next(
            s.write.load
            for s in other.placed.unit.statements
            if s.target.index and other.array_of(s.write.load) == array
        )
        found: dict[tuple[str, str], list[int]] = {}
        for a, b in zip(theirs.index, mine.index, strict=True):
            here, there = moves(a), moves(b)
            if here is None or there is None or here[0] not in by_iterator:
                return {}
            c = by_iterator[here[0]]
            found[c.dim, there[0]] = [c.constant + here[1] - there[1]]
        return found
    return {}


def moves(subscript: Expr) -> tuple[str, int] | None:
    """(iterator, constant) where the subscript is their sum."""
    terms = linear(subscript)
    if terms is None:
        return None
    names = [name for name, factor in terms.items() if name and factor]
    if len(names) != 1 or terms[names[0]] != 1 or names[0] not in iterators(subscript):
        return None
    return names[0], terms.get("", 0)
