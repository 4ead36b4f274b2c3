"""Lags, slices and halos of a pipeline's stages: forward from the loads; then what must be right,
back from what is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loopfuse.plan.strategies.sliding.windows.records import (
    HERE,
    Ages,
    Frame,
    Halo,
    Stage,
    Step,
    earlier_name,
    later_name,
)
from loopfuse.plan.strategies.sliding.windows.taps import Reader, find_readers
from loopfuse.plan.units.groups import whole_name
from loopfuse.poly.model import PolyProgram


def find_stages(
    steps: Sequence[Step],
    frames: Mapping[str, Frame],
    dims: tuple[str, ...],
    ahead: int,
    program: PolyProgram,
) -> tuple[Stage, ...] | str:
    """The stages, producers first; loads run `ahead` slices ahead of need. Where warps share a tile,
    what others hold of a slice comes one step after the slice."""
    maker = {name: step for step in steps for name in step.writes.values()}
    order = [*(name for name in frames if name not in maker), *maker]
    readers = find_readers(steps, frames, dims, program)
    if isinstance(readers, str):
        return readers
    lags = _lags(steps, frames, dims, ahead, readers)
    if isinstance(lags, str):
        return lags
    of_step, of_stage = lags
    stages: dict[str, Stage] = {}
    for name in order:
        step, lag = maker.get(name), of_stage[name]
        delay = ahead if step is None else 0
        stage = Stage(name, step, frames[name], dims, (HERE,) * len(dims), lag, delay)
        stages[name] = _looked_at(stage, readers.get(name, []), of_step)
    for name in order:  # where its loop does not run, a stage holds what was there before
        if (earlier := stages.get(earlier_name(name))) is not None:
            stages[earlier.name] = _left_for(stages[name], earlier)
    for name in order if len(dims) > 2 else ():
        ages = _ages(stages[name], readers.get(name, []), of_step, stages)
        stages[name] = replace(stages[name], ages=ages)
    for name in reversed(order):
        needed = (HERE,) * len(dims)
        for each in readers.get(name, []):
            for made in steps[each.number].writes.values():
                around = map(Halo.__add__, stages[made].needed, each.whole)
                needed = tuple(map(Halo.widened, needed, around))
        later = stages.get(later_name(name))
        if later is not None:  # and what it leaves as it is
            apart = [later.ahead_of(stages[name], dim) for dim in dims]
            needed = tuple(map(Halo.widened, needed, map(Halo.moved, later.needed, apart)))
        stages[name] = replace(stages[name], needed=needed)
    return tuple(stages[name] for name in order)


def _lags(
    steps: Sequence[Step],
    frames: Mapping[str, Frame],
    dims: tuple[str, ...],
    ahead: int,
    readers: Mapping[str, Sequence[Reader]],
) -> tuple[list[int], dict[str, int]] | str:
    """How many slices the steps, and the stages, stay behind the first load."""
    stream, between = dims[0], dims[1:-1]
    made = {name for step in steps for name in step.writes.values()}
    of_stage = {name: 0 for name in frames if name not in made}
    of_step: list[int] = []
    # Slices before the first are copies of it: what lies beside them is not there before it is.
    floor_of = {
        name: 0
        if between and name in made and frame.mode(stream)
        else min((tap[0] for each in readers[name] for tap in each.taps), default=0)
        for name, frame in frames.items()
    }
    for number, step in enumerate(steps):
        lag = 0
        for name in dict.fromkeys(step.reads.values()):
            if name in frames:
                behind = max(
                    max(
                        each.whole[0].high + (each.folded.low > 0 and any(tap[1:-1])),
                        max(tap[0], floor_of[name]) + any(tap[1:-1]),
                    )
                    for each in readers[name]
                    if each.number == number
                    for tap in each.taps
                )
                lag = max(lag, of_stage[name] + behind + (ahead if name not in made else 0))
        for name in step.writes.values():  # not before the slice that it leaves as it is
            earlier = earlier_name(name)
            if earlier in frames:
                there, before = frames[name], frames[earlier]
                apart = {dim: there.shift(dim) - before.shift(dim) for dim in (*there.dims, *dims)}
                if any(by for dim, by in apart.items() if dim not in dims):
                    return f"a loop overwrites `{whole_name(there.array)}` apart from what it reads"
                behind = apart[stream]
                if between:
                    behind += any(apart[dim] for dim in between)
                elif earlier not in made:
                    behind += ahead
                lag = max(lag, of_stage[earlier] + behind)
        of_step.append(lag)
        of_stage |= dict.fromkeys(step.writes.values(), lag)
    for name in frames if between else ():
        if name not in made:  # nothing is loaded earlier than its first reader needs it
            of_stage[name] = _latest(name, readers[name], of_step, ahead, of_stage, frames, stream)
    return of_step, of_stage


def _looked_at(stage: Stage, readers: Sequence[Reader], lags: Sequence[int]) -> Stage:
    """The stage with room for what its readers look at."""
    slices, halos, corner, folded = stage.slices, stage.halos, stage.corner, stage.folded
    ages: dict[int, int] = {}  # by distance along the last dimension: the oldest slice read there
    for each in readers:
        behind = lags[each.number] - stage.lag
        for tap in each.taps:
            ages[tap[-1]] = max(ages.get(tap[-1], 0), behind - tap[0])
        if each.whole != each.reach:
            ages[0] = max(ages.get(0, 0), behind + each.whole[0].low)
        slices = max(slices, behind + each.whole[0].low + 1)
        halos = tuple(map(Halo.widened, halos, each.reach))
        corner, folded = corner.widened(each.corner), folded.widened(each.folded)
    return replace(
        stage,
        halos=halos,
        slices=slices,
        corner=corner,
        folded=folded,
        kept=max(ages.values(), default=0),
        kept_beside=_kept_beside(ages, stage.delay),
    )


def _left_for(stage: Stage, earlier: Stage) -> Stage:
    """The stage `earlier`, with room for what this one leaves as it is."""
    apart = [stage.ahead_of(earlier, dim) for dim in stage.dims]
    behind = stage.lag - earlier.lag - apart[0]
    moved = [HERE, *(HERE.moved(by) for by in apart[1:])]
    corner = earlier.corner.widened(moved[-1]) if any(apart[1:-1]) else earlier.corner
    return replace(
        earlier,
        halos=tuple(map(Halo.widened, earlier.halos, moved)),
        slices=max(earlier.slices, behind + 1),
        corner=corner,
        kept=max(earlier.kept, behind),
    )


def _latest(
    name: str,
    readers: Sequence[Reader],
    lags: Sequence[int],
    ahead: int,
    lag_of: Mapping[str, int],
    frames: Mapping[str, Frame],
    stream: str,
) -> int:
    """How far the loads of a stage may be behind, so that all is there in time."""
    ends = [
        lags[each.number] - tap[0] - any(tap[1:-1]) - ahead
        for each in readers
        for tap in each.taps
    ]
    for later, frame in frames.items():
        if earlier_name(later) == name:  # keeps what was there before; the slices may lie apart
            ends.append(lag_of[later] - frame.shift(stream) + frames[name].shift(stream) - 1)
    return max(0, min(ends, default=0))


def _ages(
    stage: Stage, readers: Sequence[Reader], lags: Sequence[int], stages: Mapping[str, Stage]
) -> tuple[Ages, ...]:
    """The ages of the stage's slices when what lies beside is first looked at, by dimension."""
    stream = stage.dims[0]
    found: list[list[int]] = [[] for _ in stage.dims]
    mirrors = stage.step is not None and stage.frame.mode(stream) != ""
    for each in readers:
        for tap in each.taps:
            latest = max(tap[0], each.whole[0].high if each.folded.low else 0) if mirrors else tap[0]
            for k in range(1, len(tap)):
                found[k] += [lags[each.number] - stage.lag - latest] if tap[k] else []
    for later in stages.values():
        if earlier_name(later.name) == stage.name:
            age = later.lag - stage.lag - later.ahead_of(stage, stream)
            for k, dim in enumerate(stage.dims[1:], 1):
                found[k] += [age] if later.ahead_of(stage, dim) else []
    return tuple(Ages(min(ages), max(ages) - min(ages) + 1) if ages else Ages() for ages in found)


def _kept_beside(ages: Mapping[int, int], delay: int) -> int:
    """Cells of the neighbours, times slices: those that come `delay` steps after the slice; `ages` as in
    `_looked_at`."""
    total = 0
    for side in (-1, 1):
        # A lane's outer cells read the one at each distance, and those beyond it.
        far = sorted(((side * at, age) for at, age in ages.items() if side * at > 0), reverse=True)
        oldest = 0
        for number, (distance, age) in enumerate(far):
            nearer = far[number + 1][0] if number + 1 < len(far) else 0
            oldest = max(oldest, age)
            total += (distance - nearer) * max(oldest - delay, 0)
    return total
