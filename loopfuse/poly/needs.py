"""What a report says that a call needs: the preconditions without those that others imply.

A call is held to every precondition, each of which knows the place in the source that asks for it.
A reader wants to know which sizes are fine: the same set, in few and short conditions.
"""

from __future__ import annotations

from functools import reduce

from loopfuse.poly import isl
from loopfuse.poly.isl_boxes import conjuncts
from loopfuse.poly.model import IslSet, PolyProgram


def summarise_needs(program: PolyProgram) -> tuple[str, ...]:
    """Conditions that hold together just where all preconditions do (given that sizes are not
    negative): none that the others imply, each without what those before it say, shortest first.

    before: `W >= 2; H >= 2; W >= 4; H >= 2 and W >= 3`
    after:  `H >= 2; W >= 4`
    """
    texts = tuple(one.text for one in program.preconditions)
    holds = [one.holds for one in program.preconditions]
    if any(one is None for one in holds):
        return texts
    try:
        return _summarised(program, holds)
    except isl.FAILURES as error:
        if not isl.gave_up(error):
            raise
        return tuple(dict.fromkeys(texts))


def _summarised(program: PolyProgram, holds: list[IslSet]) -> tuple[str, ...]:
    space = program.context.params().get_space()
    reader = isl.Reader(space)
    known = isl.universe(space)
    for size in program.kernel.sizes:
        known = known.intersect(reader.affine({size: 1}).ge_set(reader.constant(0)))
    kept = _split([one.align_params(space) for one in holds])
    # The longest are the first that may go.
    for one in sorted(kept, key=lambda each: -len(isl.params_text(each))):
        others = [each for each in kept if each is not one]
        if reduce(_both, others, known).is_subset(one):
            kept = others
    found: list[str] = []
    for one in sorted(kept, key=lambda each: (len(text := isl.params_text(each)), text)):
        rest = one.gist(known).coalesce()
        known = known.intersect(one)
        if not rest.plain_is_universe():
            found.append(isl.params_text(rest))
    return tuple(sorted(dict.fromkeys(found), key=lambda text: (len(text), text)))


def _both(one: IslSet, other: IslSet) -> IslSet:
    return one.intersect(other)


def _split(sets: list[IslSet]) -> list[IslSet]:
    """Conditions joined by `and`, one by one."""
    return [part for one in sets for part in conjuncts(one)]
