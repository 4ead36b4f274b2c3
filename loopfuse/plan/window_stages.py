"""Lags, rows and halos of a pipeline's stages: forward from the loads; then what must be right,
back from what is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from loopfuse.plan.window_align import moves
from loopfuse.plan.window_beyond import Beyond, beyond
from loopfuse.plan.window_edges import MIRRORED, inner_of
from loopfuse.plan.window_records import Frame, Stage, Step, Tap, earlier_name
from loopfuse.poly.model import PolyProgram


@dataclass(frozen=True, slots=True)
class Reach:
    """How far from a point the taps lie, on each side (negative: all lie on the other)."""

    up: int
    down: int
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class Reader:
    """A step (its number) that reads a stage: how far, by its subscripts, and with what stands
    there beyond the stage's edges; how many rows beyond the first and the last it reads."""

    number: int
    taps: tuple[Tap, ...]
    reach: Reach
    whole: Reach
    first: int = 0
    last: int = 0


def find_stages(
    steps: Sequence[Step],
    frames: Mapping[str, Frame],
    stream: str,
    across: str,
    ahead: int,
    program: PolyProgram,
) -> tuple[Stage, ...] | str:
    """The stages, producers first; loads run `ahead` rows ahead of need."""
    made = {name: number for number, step in enumerate(steps) for name in step.writes.values()}
    order = [name for name in frames if name not in made]
    order += [name for step in steps for name in step.writes.values()]
    readers = _readers(steps, frames, stream, across, program)
    if isinstance(readers, str):
        return readers
    lag_of = {name: 0 for name in order if name not in made}
    lags: list[int] = []
    for number, step in enumerate(steps):
        lag = 0
        for name in dict.fromkeys(step.reads.values()):
            if name in frames:
                below = max(each.whole.down for each in readers[name] if each.number == number)
                lag = max(lag, lag_of[name] + below + (ahead if name not in made else 0))
        for name in step.writes.values():  # not before the row that it leaves as it is
            earlier = earlier_name(name)
            if earlier in frames:
                position = frames[name].position(stream)
                down = frames[name].shifts[position] - frames[earlier].shifts[position]
                lag = max(lag, lag_of[earlier] + down)
        lags.append(lag)
        lag_of |= dict.fromkeys(step.writes.values(), lag)
    stages: dict[str, Stage] = {}
    for name in order:
        rows, up, down, left, right = 1, 0, 0, 0, 0
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
            stages[earlier.name] = replace(
                earlier,
                rows=max(earlier.rows, behind + 1),
                kept=max(earlier.kept, behind),
                left=max(earlier.left, -aside),
                right=max(earlier.right, aside),
            )
    for name in reversed(order):
        above = before = after = 0
        for each in readers.get(name, []):
            for maker in steps[each.number].writes.values():
                reader = stages[maker]
                above = max(above, reader.above + each.whole.up)
                before = max(before, reader.before + each.whole.left)
                after = max(after, reader.after + each.whole.right)
        stages[name] = replace(stages[name], above=above, before=before, after=after)
    return tuple(stages[name] for name in order)


def _kept_beside(ages: Mapping[int, int], delay: int) -> int:
    """Cells of the neighbours' columns, times rows: those that come `delay` rows after the row."""
    total = 0
    for side in (-1, 1):
        for column in range(1, max((side * column for column in ages), default=0) + 1):
            # A lane's outer columns read the cell at this distance, and those beyond it.
            oldest = max(age for at, age in ages.items() if side * at >= column)
            total += max(oldest - delay, 0)
    return total


def _readers(
    steps: Sequence[Step],
    frames: Mapping[str, Frame],
    stream: str,
    across: str,
    program: PolyProgram,
) -> dict[str, list[Reader]] | str:
    """By stage: the steps that read it from before them."""
    out: dict[str, list[Reader]] = {name: [] for name in frames}
    made = {name for step in steps for name in step.writes.values()}
    for number, step in enumerate(steps):
        taps = _taps(step, frames, stream, across)
        if isinstance(taps, str):
            return taps
        for name, found in taps.items():
            rows, columns = [tap.row for tap in found], [tap.column for tap in found]
            reach = Reach(-min(rows), max(rows), -min(columns), max(columns))
            reader = Reader(number, tuple(found), reach, reach)
            if name in made:
                over = [beyond(step, frames[name], dim, program) for dim in (stream, across)]
                for each in over:
                    if isinstance(each, str):
                        return each
                vertical, sideways = (each for each in over if isinstance(each, Beyond))
                first, last = vertical.least(rows), vertical.most(rows)
                rows += vertical.folded(rows)
                columns += sideways.folded(columns)
                whole = Reach(-min(rows), max(rows), -min(columns), max(columns))
                if vertical.mode in MIRRORED:  # a few rows alone are copied to and fro
                    first = last = max(first, last)
                reader = Reader(number, tuple(found), reach, whole, first, last)
            out[name].append(reader)
    return out


def _taps(
    step: Step, frames: Mapping[str, Frame], stream: str, across: str
) -> dict[str, list[Tap]] | str:
    """Where the step reads the stages that were made before it."""
    by_iterator = {c.iterator: c for c in step.placed.coordinates}
    found: dict[str, list[Tap]] = {}
    for s in step.placed.unit.statements:
        for access in s.reads:
            name = step.reads.get(step.array_of(access.load), "")
            frame = frames.get(name)
            if frame is None or not access.load.index:
                continue
            offset: dict[str, int] = {}
            for position, subscript in enumerate(access.load.index):
                move = moves(inner_of(subscript))
                assert move is not None
                c = by_iterator[move[0]]
                offset[c.dim] = c.constant + move[1] - frame.shifts[position]
            if any(n for dim, n in offset.items() if dim not in (stream, across)):
                return f"`{frame.array}` is read along more than two dimensions"
            found.setdefault(name, []).append(Tap(offset[stream], offset[across]))
    return found
