"""What the steps of a pipeline read of its stages: where from the point that reads, and how far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from loopfuse.plan.strategies.sliding.windows.align import moves
from loopfuse.plan.strategies.sliding.windows.beyond import beyond
from loopfuse.plan.strategies.sliding.windows.edges import MIRRORED, inner_of
from loopfuse.plan.strategies.sliding.windows.records import HERE, Frame, Halo, Halos, Step, Tap
from loopfuse.plan.units.groups import whole_name
from loopfuse.poly.model import PolyProgram

Taps = dict[str, list[tuple[int, list[Tap]]]]
"""By stage: the steps that read it from before them (their numbers), and where."""
COUNTS = ("one dimension", "two dimensions", "three dimensions")


@dataclass(frozen=True, slots=True)
class Reader:
    """A step (its number) that reads a stage: how far by its subscripts (`reach`), and (`whole`) with
    what stands there beyond the stage's edges; `corner` and `folded` as a stage has them."""

    number: int
    taps: tuple[Tap, ...]
    reach: Halos
    whole: Halos
    corner: Halo
    folded: Halo = HERE


def find_taps(
    steps: Sequence[Step],
    frames: Mapping[str, Frame],
    dims: Sequence[str],
) -> Taps | str:
    """Where each step reads the stages that were made before it, along the dimensions of windows."""
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
                if any(n for dim, n in offset.items() if dim not in dims):
                    count = COUNTS[sum(map(bool, dims)) - 1]
                    return f"`{whole_name(frame.array)}` is read along more than {count}"
                found.setdefault(name, []).append(tuple(offset.get(dim, 0) for dim in dims))
        for name, taps in found.items():
            out[name].append((number, taps))
    return out


def find_readers(
    steps: Sequence[Step],
    frames: Mapping[str, Frame],
    dims: Sequence[str],
    program: PolyProgram,
) -> dict[str, list[Reader]] | str:
    """By stage: the steps that read it from before them."""
    taps = find_taps(steps, frames, dims)
    if isinstance(taps, str):
        return taps
    made = {name for step in steps for name in step.writes.values()}
    out: dict[str, list[Reader]] = {name: [] for name in frames}
    for name, readers in taps.items():
        for number, found in readers:
            reach = tuple(Halo.of(places) for places in zip(*found, strict=True))
            corner = Halo.of([tap[-1] for tap in found if any(tap[1:-1])] or [0])
            reader = Reader(number, tuple(found), reach, reach, corner)
            if name in made:
                step, frame = steps[number], frames[name]
                outer = [dim for dim in frame.dims if dim not in dims]
                if why := _why_beyond(step, frame, outer, program):
                    return why
                reader = _beyond_edges(reader, step, frame, dims, program)
                if isinstance(reader, str):
                    return reader
            out[name].append(reader)
    return out


def _beyond_edges(
    reader: Reader, step: Step, frame: Frame, dims: Sequence[str], program: PolyProgram
) -> Reader | str:
    """The reader of a stage that is made, with what it reads beyond that stage's edges. Where warps
    share a tile only what is mirrored comes from farther away (`plan.strategies.sliding.gpu.mirrors`),
    and a loop may not run beyond a stage whose edge it reads: there the tile holds nothing of it."""
    whole, folded = list(reader.whole), HERE
    for k, dim in enumerate(dims):
        is_mirrored = frame.mode(dim) in MIRRORED
        if len(dims) > 2 and not is_mirrored:
            if why := _why_beyond(step, frame, (dim,), program):
                return why
            continue
        edge = beyond(step, frame, dim, program)
        if isinstance(edge, str):
            return edge
        places = [tap[k] for tap in reader.taps]
        if k == 0:
            first, last = edge.least(places), edge.most(places)
            # Where it is mirrored, a few slices alone are copied to and fro.
            folded = Halo(max(first, last), max(first, last)) if is_mirrored else Halo(first, last)
        whole[k] = Halo.of(places + edge.folded(places))
    return replace(reader, whole=tuple(whole), folded=folded)


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
