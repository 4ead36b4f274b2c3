"""Which stages of a pipeline share one loop over the columns of a row.

    before:  for x: ix[x] = ..;  for x: ixx[x] = ix[x] * ix[x]
    after:   for x: { ix = ..;  ixx[x] = ix * ix }

Steps that read each other at their own point alone, as far behind and over the same rows and
columns, are one *pass*. What is read in the pass that makes it and nowhere else is a register.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from loopfuse.plan.strategies.sliding.windows.records import (
    Pipeline,
    Stage,
    Step,
    earlier_name,
    later_name,
)
from loopfuse.plan.strategies.sliding.windows.taps import find_taps


@dataclass(frozen=True, slots=True)
class Pass:
    """Steps that run point by point together, in order, and the stages they make."""

    steps: tuple[Step, ...]
    made: tuple[Stage, ...]


def find_passes(pipeline: Pipeline) -> tuple[Pass, ...]:
    """The passes of a pipeline, in the order they run."""
    beside = _read_beside(pipeline)
    out: list[Pass] = []
    for step, read in zip(pipeline.steps, beside, strict=True):
        made = tuple(stage for stage in pipeline.stages if stage.step is step)
        place = next((k for k in range(len(out)) if _joins(out, k, step, made, read)), None)
        if place is None:
            out.append(Pass((step,), made))
        else:
            out[place] = Pass((*out[place].steps, step), (*out[place].made, *made))
    return tuple(out)


def _joins(
    passes: list[Pass],
    place: int,
    step: Step,
    made: tuple[Stage, ...],
    beside: frozenset[str],
) -> bool:
    """May the step, which reads the stages `beside` elsewhere than at its own point, run with the
    pass at `place`?"""
    first, mine = passes[place].made[0], made[0]
    if _extent(first) != _extent(mine) or any(_extent(s) != _extent(mine) for s in made):
        return False
    if any(stage.name in beside for stage in passes[place].made):
        return False
    later = {stage.name for each in passes[place + 1 :] for stage in each.made}
    wanted = {*step.reads.values(), *(earlier_name(name) for name in step.writes.values())}
    return not later & wanted


def _extent(stage: Stage) -> tuple[object, ...]:
    """How far behind a stage runs, and over what."""
    assert stage.step is not None
    placed = stage.step.placed
    bounds = tuple(
        (c.dim, loop.lower, loop.upper, c.offset)
        for c in sorted(placed.coordinates, key=lambda each: each.dim)
        for loop in placed.unit.common
        if loop.iterator == c.iterator
    )
    return stage.lag, stage.needed, bounds


def _read_beside(pipeline: Pipeline) -> list[frozenset[str]]:
    """For each step: the stages that it reads elsewhere than at its own point."""
    frames = {stage.name: stage.frame for stage in pipeline.stages}
    taps = find_taps(pipeline.steps, frames, pipeline.dims)
    assert not isinstance(taps, str)
    return [
        frozenset(
            name
            for name, found in taps.items()
            for n, where in found
            if n == number and any(any(tap) for tap in where)
        )
        for number in range(len(pipeline.steps))
    ]


def _any(_: Stage) -> bool:
    return True


def lines_of(
    pipeline: Pipeline, passes: Sequence[Pass], fills: Callable[[Stage], bool] = _any
) -> tuple[Stage, ...]:
    """The stages that lie in line buffers: those that a pass reads which does not make them, and
    those of which one that `fills` elements takes what its own loop does not write. Inputs are
    read in memory."""
    out: list[Stage] = []
    for each in passes:
        for stage in each.made:
            if pipeline.passes_on(stage):
                continue
            readers = pipeline.readers(stage)
            within = all(any(step is own for own in each.steps) for step in readers)
            later = pipeline.stage(later_name(stage.name))
            taken = later is not None and fills(later)
            if taken or (readers and (not within or any(stage.frame.modes))):
                out.append(stage)
    return tuple(out)


def is_read(pipeline: Pipeline, stage: Stage) -> bool:
    """Does any step read the stage: one after the step that makes it, or that one itself?"""
    assert stage.step is not None
    return bool(pipeline.readers(stage)) or any(
        stage.step.stage_of(stage.step.array_of(access.load)) == stage.name
        for s in stage.step.placed.unit.statements
        for access in s.reads
        if access.load.index
    )
