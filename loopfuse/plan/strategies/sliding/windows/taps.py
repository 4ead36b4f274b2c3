"""What the steps of a pipeline read of its stages: where from the point that reads, and how far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from loopfuse.plan.strategies.sliding.windows.align import moves
from loopfuse.plan.strategies.sliding.windows.beyond import beyond
from loopfuse.plan.strategies.sliding.windows.edges import MIRRORED, inner_of
from loopfuse.plan.strategies.sliding.windows.records import Band, Frame, Step, Tap
from loopfuse.plan.units.groups import whole_name
from loopfuse.poly.model import PolyProgram

Taps = dict[str, list[tuple[int, list[Tap]]]]
"""By stage: the steps that read it from before them (their numbers), and where."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How far from a point the taps lie, on each side (negative: all lie on the other)."""

    up: int
    down: int
    left: int
    right: int
    north: int = 0
    south: int = 0
    corner: tuple[int, int] = (0, 0)
    """`left` and `right` of those taps that lie in other rows of a plane."""

    def widen(self, band: Band) -> Band:
        """The band with room for what is read so."""
        return replace(
            band,
            north=max(band.north, self.north),
            south=max(band.south, self.south),
            left=max(band.left, self.corner[0]),
            right=max(band.right, self.corner[1]),
        )


@dataclass(frozen=True, slots=True)
class Reader:
    """A step (its number) that reads a stage: how far, by its subscripts, and (`whole`) with what
    stands there beyond the stage's edges; how many rows beyond the first and the last it reads."""

    number: int
    taps: tuple[Tap, ...]
    reach: Reach
    whole: Reach
    first: int = 0
    last: int = 0


def find_taps(
    steps: Sequence[Step],
    frames: Mapping[str, Frame],
    stream: str,
    across: str,
    abreast: str = "",
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
                if any(n for dim, n in offset.items() if dim not in (stream, across, abreast)):
                    name = whole_name(frame.array)
                    if not stream:
                        return f"`{name}` is read along more than one dimension"
                    count = "three" if abreast else "two"
                    return f"`{name}` is read along more than {count} dimensions"
                beside = offset.get(abreast, 0)
                found.setdefault(name, []).append(Tap(offset.get(stream, 0), offset[across], beside))
        for name, taps in found.items():
            out[name].append((number, taps))
    return out


def find_readers(
    steps: Sequence[Step],
    frames: Mapping[str, Frame],
    stream: str,
    across: str,
    program: PolyProgram,
    abreast: str = "",
) -> dict[str, list[Reader]] | str:
    """By stage: the steps that read it from before them. In three dimensions, only what is mirrored
    comes from farther away (`plan.strategies.sliding.gpu.mirrors`)."""
    taps = find_taps(steps, frames, stream, across, abreast)
    if isinstance(taps, str):
        return taps
    made = {name for step in steps for name in step.writes.values()}
    out: dict[str, list[Reader]] = {name: [] for name in frames}
    for name, readers in taps.items():
        for number, found in readers:
            reach = _reach(found)
            reader = Reader(number, tuple(found), reach, reach)
            if name in made:
                step, frame = steps[number], frames[name]
                outer = [dim for dim in frame.dims if dim not in (stream, across, abreast)]
                if why := _why_beyond(step, frame, outer, program):
                    return why
                if abreast:
                    reader = _mirrored(reader, step, frame, (stream, abreast, across), program)
                else:
                    reader = _beyond_edges(reader, step, frame, stream, across, program)
                if isinstance(reader, str):
                    return reader
            out[name].append(reader)
    return out


def _beyond_edges(
    reader: Reader, step: Step, frame: Frame, stream: str, across: str, program: PolyProgram
) -> Reader | str:
    """The reader of a stage that is made, with what it reads beyond that stage's edges."""
    rows, columns = [tap.row for tap in reader.taps], [tap.column for tap in reader.taps]
    vertical = beyond(step, frame, stream, program)
    sideways = beyond(step, frame, across, program)
    if isinstance(vertical, str):
        return vertical
    if isinstance(sideways, str):
        return sideways
    first, last = vertical.least(rows), vertical.most(rows)
    rows += vertical.folded(rows)
    columns += sideways.folded(columns)
    whole = replace(
        reader.reach, up=-min(rows), down=max(rows), left=-min(columns), right=max(columns)
    )
    if vertical.mode in MIRRORED:  # a few rows alone are copied to and fro
        first = last = max(first, last)
    return Reader(reader.number, reader.taps, reader.reach, whole, first, last)


def _mirrored(
    reader: Reader, step: Step, frame: Frame, dims: tuple[str, str, str], program: PolyProgram
) -> Reader | str:
    """The reader of a stage that is made in three dimensions, with what it reads mirrored; `dims`:
    along which planes, rows and columns lie. A loop may not run beyond a stage whose edge it reads:
    there the tile holds nothing of it."""
    places = [
        [tap.row for tap in reader.taps],
        [tap.beside for tap in reader.taps],
        [tap.column for tap in reader.taps],
    ]
    first = last = 0
    for found, dim in zip(places, dims, strict=True):
        if frame.mode(dim) not in MIRRORED:
            if why := _why_beyond(step, frame, (dim,), program):
                return why
        else:
            edge = beyond(step, frame, dim, program)
            if isinstance(edge, str):
                return edge
            if dim == dims[0]:
                first = last = max(edge.least(found), edge.most(found))
            found += edge.folded(found)
    planes, rows, columns = places
    whole = replace(
        reader.reach,
        up=-min(planes), down=max(planes),
        north=-min(rows), south=max(rows),
        left=-min(columns), right=max(columns),
    )  # fmt: skip
    return Reader(reader.number, reader.taps, reader.reach, whole, first, last)


def _why_beyond(
    step: Step, frame: Frame, dims: Sequence[str], program: PolyProgram
) -> str:
    """Why the step may not read the stage at its edges along dimensions where nothing of it is held
    but what stands at the step's own place: its loop runs beyond the stage; "" where it may."""
    for dim in dims:
        edge = beyond(step, frame, dim, program)
        if isinstance(edge, str):
            return edge
        if edge.mode and (edge.first > 0 or edge.last > 0):
            name, label = whole_name(frame.array), step.placed.unit.label
            return f"`{name}` is read with `.{edge.mode}` by {label}, which runs beyond it"
    return ""


def _reach(taps: Sequence[Tap]) -> Reach:
    rows, columns = [tap.row for tap in taps], [tap.column for tap in taps]
    beside = [tap.beside for tap in taps]
    corners = [tap.column for tap in taps if tap.beside] or [0]
    return Reach(
        -min(rows),
        max(rows),
        -min(columns),
        max(columns),
        -min(beside),
        max(beside),
        (-min(corners), max(corners)),
    )
