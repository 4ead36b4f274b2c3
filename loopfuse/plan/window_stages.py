"""Lags, rows and halos of a pipeline's stages: forward from the loads; then what must be right,
back from what is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from loopfuse.plan.window_align import moves
from loopfuse.plan.window_edges import inner_of
from loopfuse.plan.window_records import Frame, Stage, Step, Tap, earlier_name

Taps = dict[str, list[tuple[int, list[Tap]]]]
"""By stage: the steps that read it from before them (their numbers), and where."""


def find_stages(
    steps: Sequence[Step], frames: Mapping[str, Frame], stream: str, across: str, ahead: int
) -> tuple[Stage, ...] | str:
    """The stages, producers first; loads run `ahead` rows ahead of need."""
    made = {name: number for number, step in enumerate(steps) for name in step.writes.values()}
    order = [name for name in frames if name not in made]
    order += [name for step in steps for name in step.writes.values()]
    taps = _taps(steps, frames, stream, across)
    if isinstance(taps, str):
        return taps
    lag_of = {name: 0 for name in order if name not in made}
    lags: list[int] = []
    for number, step in enumerate(steps):
        lag = 0
        for name in dict.fromkeys(step.reads.values()):
            if name in frames:
                below = max(tap.row for n, found in taps[name] if n == number for tap in found)
                lag = max(lag, lag_of[name] + below + (ahead if name not in made else 0))
        for name in step.writes.values():  # not before the row that it leaves as it is
            earlier = earlier_name(name)
            if earlier in frames:
                position = frames[name].position(stream)
                down = frames[name].shifts[position] - frames[earlier].shifts[position]
                lag = max(lag, lag_of[earlier] + down + (ahead if earlier not in made else 0))
        lags.append(lag)
        lag_of |= dict.fromkeys(step.writes.values(), lag)
    stages: dict[str, Stage] = {}
    for name in order:
        rows, up, down, left, right = 1, 0, 0, 0, 0
        ages: dict[int, int] = {}  # by column: how old the oldest row is that is read there
        for number, found in taps.get(name, []):
            for tap in found:
                age = lags[number] - lag_of[name] - tap.row
                ages[tap.column] = max(ages.get(tap.column, 0), age)
            reach = _reach(found)
            rows = max(rows, lags[number] - lag_of[name] + reach.up + 1)
            up, down = max(up, reach.up), max(down, reach.down)
            left, right = max(left, reach.left), max(right, reach.right)
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
        for number, found in taps.get(name, []):
            reach = _reach(found)
            for maker in steps[number].writes.values():
                reader = stages[maker]
                above = max(above, reader.above + reach.up)
                before = max(before, reader.before + reach.left)
                after = max(after, reader.after + reach.right)
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


@dataclass(frozen=True, slots=True)
class _Reach:
    """How far from a point the taps lie, on each side (negative: all lie on the other)."""

    up: int
    down: int
    left: int
    right: int


def _reach(taps: Sequence[Tap]) -> _Reach:
    rows, columns = [tap.row for tap in taps], [tap.column for tap in taps]
    return _Reach(-min(rows), max(rows), -min(columns), max(columns))


def _taps(
    steps: Sequence[Step], frames: Mapping[str, Frame], stream: str, across: str
) -> Taps | str:
    """Where each step reads the stages that were made before it."""
    out: Taps = {name: [] for name in frames}
    for number, step in enumerate(steps):
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
        for name, taps in found.items():
            out[name].append((number, taps))
    return out
