"""Lags, rows and halos of a pipeline's stages: forward from the loads; then what must be right,
back from what is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loopfuse.plan.strategies.sliding.windows.records import (
    Band,
    Frame,
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
    stream: str,
    across: str,
    ahead: int,
    program: PolyProgram,
    abreast: str = "",
) -> tuple[Stage, ...] | str:
    """The stages, producers first; loads run `ahead` rows ahead of need. With rows `abreast`, the
    neighbours' rows of a plane come one step after the plane."""
    made = {name: number for number, step in enumerate(steps) for name in step.writes.values()}
    order = [name for name in frames if name not in made]
    order += [name for step in steps for name in step.writes.values()]
    readers = find_readers(steps, frames, stream, across, program, abreast)
    if isinstance(readers, str):
        return readers
    lag_of = {name: 0 for name in order if name not in made}
    lags: list[int] = []
    # Planes before the first are copies of it: what lies beside them is not there before it is.
    floor_of = {
        name: 0
        if abreast and name in made and frame.mode(stream)
        else min((tap.row for each in readers[name] for tap in each.taps), default=0)
        for name, frame in frames.items()
    }
    for number, step in enumerate(steps):
        lag = 0
        for name in dict.fromkeys(step.reads.values()):
            if name in frames:
                below = max(
                    max(
                        each.whole.down + (each.first > 0 and bool(tap.beside)),
                        max(tap.row, floor_of[name]) + bool(tap.beside),
                    )
                    for each in readers[name]
                    if each.number == number
                    for tap in each.taps
                )
                lag = max(lag, lag_of[name] + below + (ahead if name not in made else 0))
        for name in step.writes.values():  # not before the row that it leaves as it is
            earlier = earlier_name(name)
            if earlier in frames:
                there, before = frames[name], frames[earlier]
                apart = [d for d in there.dims if there.shift(d) != before.shift(d)]
                if any(dim not in (stream, across, abreast) for dim in apart):
                    return f"a loop overwrites `{whole_name(there.array)}` apart from what it reads"
                down = there.shift(stream) - before.shift(stream)
                if abreast:
                    down += there.shift(abreast) != before.shift(abreast)
                elif earlier not in made:
                    down += ahead
                lag = max(lag, lag_of[earlier] + down)
        lags.append(lag)
        lag_of |= dict.fromkeys(step.writes.values(), lag)
    for name in order if abreast else ():
        if name not in made:  # nothing is loaded earlier than its first reader needs it
            lag_of[name] = _latest(name, readers[name], lags, ahead, lag_of, frames, stream)
    stages: dict[str, Stage] = {}
    for name in order:
        rows, up, down, left, right = 1, 0, 0, 0, 0
        band = Band(dim=abreast)
        ages: dict[int, int] = {}  # by column: how old the oldest row is that is read there
        first = last = 0
        for each in readers.get(name, []):
            behind = lags[each.number] - lag_of[name]
            for tap in each.taps:
                ages[tap.column] = max(ages.get(tap.column, 0), behind - tap.row)
            if each.whole != each.reach:
                ages[0] = max(ages.get(0, 0), behind + each.whole.up)
            rows = max(rows, behind + each.whole.up + 1)
            up, down = max(up, each.reach.up), max(down, each.reach.down)
            left, right = max(left, each.reach.left), max(right, each.reach.right)
            first, last = max(first, each.first), max(last, each.last)
            band = each.reach.widen(band)
        step = steps[made[name]] if name in made else None
        delay = ahead if step is None else 0
        stages[name] = Stage(
            name,
            step,
            frames[name],
            lag_of[name],
            delay,
            rows,
            up,
            down,
            left,
            right,
            band=band,
            kept=max(ages.values(), default=0),
            kept_beside=_kept_beside(ages, delay),
            first=first,
            last=last,
        )
    for name in order:  # where its loop does not run, a stage holds what was there before
        earlier = stages.get(earlier_name(name))
        if earlier is not None:
            down = stages[name].ahead_of(earlier, stream)
            aside = stages[name].ahead_of(earlier, across)
            behind = stages[name].lag - earlier.lag - down
            beyond = stages[name].ahead_of(earlier, abreast) if abreast else 0
            band = earlier.band
            if beyond:
                band = replace(
                    band,
                    north=max(band.north, -beyond),
                    south=max(band.south, beyond),
                    left=max(band.left, -aside),
                    right=max(band.right, aside),
                )
            stages[earlier.name] = replace(
                earlier,
                rows=max(earlier.rows, behind + 1),
                kept=max(earlier.kept, behind),
                left=max(earlier.left, -aside),
                right=max(earlier.right, aside),
                band=band,
            )
    for name in order if abreast else ():
        dims = (stream, abreast, across)
        stages[name] = _with_ages(stages[name], readers.get(name, []), lags, stages, dims)
    for name in reversed(order):
        above = below = before = after = north = south = 0
        for each in readers.get(name, []):
            reach = each.whole
            for maker in steps[each.number].writes.values():
                reader = stages[maker]
                above = max(above, reader.above + reach.up)
                below = max(below, reader.below + reach.down)
                before = max(before, reader.before + reach.left)
                after = max(after, reader.after + reach.right)
                north = max(north, reader.band.before + reach.north)
                south = max(south, reader.band.after + reach.south)
        later = stages.get(later_name(name))
        if later is not None:  # and what it leaves as it is
            down, aside = later.ahead_of(stages[name], stream), later.ahead_of(stages[name], across)
            above, below = max(above, later.above - down), max(below, later.below + down)
            before, after = max(before, later.before - aside), max(after, later.after + aside)
            beyond = later.ahead_of(stages[name], abreast) if abreast else 0
            north, south = (
                max(north, later.band.before - beyond), max(south, later.band.after + beyond)
            )  # fmt: skip
        band = replace(stages[name].band, before=north, after=south)
        stages[name] = replace(
            stages[name], above=above, below=below, before=before, after=after, band=band
        )
    return tuple(stages[name] for name in order)


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
        lags[each.number] - tap.row - bool(tap.beside) - ahead
        for each in readers
        for tap in each.taps
    ]
    for later, frame in frames.items():
        if earlier_name(later) == name:  # keeps what was there before; the rows may lie apart
            position = frame.position(stream)
            down = frame.shifts[position] - frames[name].shifts[position]
            ends.append(lag_of[later] - down - 1)
    return max(0, min(ends, default=0))


def _with_ages(
    stage: Stage,
    readers: Sequence[Reader],
    lags: Sequence[int],
    stages: Mapping[str, Stage],
    dims: tuple[str, str, str],
) -> Stage:
    """The stage with the ages of its planes when what lies beside is first looked at."""
    columns: list[int] = []
    rows: list[int] = []
    mirrors = stage.step is not None and stage.frame.modes[stage.frame.position(dims[0])] != ""
    for each in readers:
        for tap in each.taps:
            latest = max(tap.row, each.whole.down if each.first else 0) if mirrors else tap.row
            age = lags[each.number] - stage.lag - latest
            columns += [age] if tap.column else []
            rows += [age] if tap.beside else []
    for later in stages.values():
        if earlier_name(later.name) == stage.name:
            age = later.lag - stage.lag - later.ahead_of(stage, dims[0])
            columns += [age] if later.ahead_of(stage, dims[2]) else []
            rows += [age] if later.ahead_of(stage, dims[1]) else []
    ages = replace(
        stage.band,
        columns_age=min(columns, default=0),
        rows_age=min(rows, default=0),
        columns_kept=max(columns, default=-1) - min(columns, default=0) + 1,
        rows_kept=max(rows, default=-1) - min(rows, default=0) + 1,
    )
    return replace(stage, band=ages)


def _kept_beside(ages: Mapping[int, int], delay: int) -> int:
    """Cells of the neighbours' columns, times rows: those that come `delay` rows after the row."""
    total = 0
    for side in (-1, 1):
        # A lane's outer columns read the cell at each distance, and those beyond it.
        far = sorted(((side * at, age) for at, age in ages.items() if side * at > 0), reverse=True)
        oldest = 0
        for number, (distance, age) in enumerate(far):
            nearer = far[number + 1][0] if number + 1 < len(far) else 0
            oldest = max(oldest, age)
            total += (distance - nearer) * max(oldest - delay, 0)
    return total
