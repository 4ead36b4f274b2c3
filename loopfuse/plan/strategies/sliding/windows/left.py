"""What a block of time steps finds in an array that one of its loops writes before any reads it.

    for t: { for i in 1..M-2: b[i] = f(z[i]);  for i in 2..M: z[i] = g(b[i]);  swap b, z }

In two iterations `b` is written at 1..M-2 first and at 2..M then. The first iteration reads `b[M-1]`,
which the block before left there, so that it would have to be loaded: but the block writes it too,
and only arrays that are loaded whole have copies for that. Elements that nobody writes stay where
they are and need nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopfuse.lang.walk import iterators
from loopfuse.plan.strategies.sliding.windows.records import (
    Step,
    array_name,
    earlier_name,
    stage_name,
)
from loopfuse.plan.units.forest import Scope
from loopfuse.plan.units.groups import whole_name
from loopfuse.poly.model import Access, PolyProgram


def reads_what_was_left(
    steps: Sequence[Step], scope: Scope | None, program: PolyProgram
) -> str:
    """Why the steps are no block: an array, written first, whose older elements are read too where
    other steps write them. Empty where there is none. `scope`: that of the time loop, if there is one."""
    loaded = {name for step in steps for name in step.reads.values()}
    for array in dict.fromkeys(name for step in steps for name in step.writes):
        writers = [step for step in steps if array in step.writes]
        if stage_name(array, 0) in loaded or len({id(s.placed.unit) for s in writers}) < 2:
            continue
        if (scope and _moves(steps, array, scope)) or _is_read_beside(steps, writers, array, program):
            return f"a loop reads more of `{whole_name(array)}` than the one before it writes"
    return ""


def _moves(steps: Sequence[Step], array: str, scope: Scope) -> bool:
    """Do the bounds of a loop that writes or reads it move with the time loop?"""
    host = {loop.iterator for loop in scope.host}
    return any(
        (iterators(loop.lower) | iterators(loop.upper)) & host
        for step in steps
        if array in step.writes or array in step.reads
        for loop in step.placed.unit.common
    )


def _is_read_beside(
    steps: Sequence[Step], writers: Sequence[Step], array: str, program: PolyProgram
) -> bool:
    """Does a step read elements that others write and none before it in the block?"""
    made = {step.writes[array]: _elements(step, array, True) for step in writers}
    whole = _union([each for each in made.values() if each is not None])
    for step in steps:
        name = step.reads.get(array)
        read = None if name is None else _elements(step, array, False)
        if name is None or read is None or whole is None:
            continue
        missing = read.intersect(whole).intersect_params(program.context)
        while array_name(name) == array and name in made:
            if (there := made[name]) is not None:
                missing = missing.subtract(there)
            name = earlier_name(name)
        if not missing.is_empty():
            return True
    return False


def _elements(step: Step, array: str, written: bool) -> Any | None:
    """{ array[..] }: what the step's statements write or read of it, in any iteration."""
    found: list[Any] = []
    for s in step.placed.unit.statements:
        accesses: tuple[Access, ...] = (s.write,) if written else s.reads
        for access in accesses:
            if access.load.index and step.array_of(access.load) == array:
                part = dict(access.parts).get(whole_name(array))
                found += [] if part is None else [part.range()]
    return _union(found)


def _union(sets: Sequence[Any]) -> Any | None:
    out: Any = None
    for each in sets:
        out = each if out is None else out.union(each)
    return out
