"""How every array of a pipeline lies in the group: which dimensions it moves along, how far ahead,
and with which edge modes it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loopfuse.lang.nodes import Load
from loopfuse.plan.strategies.sliding.windows.align import moves
from loopfuse.plan.strategies.sliding.windows.edges import edge_of
from loopfuse.plan.strategies.sliding.windows.records import Frame, Step, array_name
from loopfuse.poly.model import PolyProgram


def find_frames(
    steps: Sequence[Step], program: PolyProgram, dims: Sequence[str], count: int = 2
) -> dict[str, Frame] | str:
    """The frame of every stage, by its name: arrays that move along the last `count` of `dims`
    wherever they are touched. Or why what the steps make has none."""
    made = {name for step in steps for name in step.writes.values()}
    frames: dict[str, Frame] = {}
    plain: set[str] = set()
    for step in steps:
        for s in step.placed.unit.statements:
            for access in (*s.reads, s.write):
                if not access.load.index:
                    continue
                array = step.array_of(access.load)
                is_write = access is s.write
                name = step.writes[array] if is_write else step.stage_of(array)
                if name in plain:
                    continue
                if program.arrays[array].private_to:
                    return f"`{array}` is private to an iteration"
                found = _frame(access.load, array, step, program)
                if found is not None and name not in frames and set(dims[-count:]) <= set(found.dims):
                    if name in made and not is_write:
                        return f"`{array}` is read before it is written"
                    frames[name] = found
                elif found is None or name not in frames or not _agree(frames[name], found):
                    if name in made:
                        return f"`{array}` is read along other dimensions than it is written"
                    plain.add(name)
                    frames.pop(name, None)
                else:
                    own = name == step.writes.get(array) and array not in step.reads
                    there = frames[name].shifts, frames[name].modes
                    if (own or is_write) and (found.shifts, found.modes) != there:
                        # A window has one place for what an iteration makes.
                        return f"{s.label} touches `{array}` apart from where its loop writes it"
                    modes = tuple(a or b for a, b in zip(frames[name].modes, found.modes))
                    frames[name] = replace(frames[name], modes=modes)
    for name, frame in frames.items():
        if frame.dims[-1] != dims[-1]:
            return f"neighbouring columns of `{frame.array}` are not neighbours in memory"
        if name not in made:  # a loaded column stands where memory has it
            frames[name] = replace(frame, shifts=(0,) * len(frame.dims))
    if missing := sorted(made - frames.keys()):
        along = "the dimension of the loops" if count == 1 else f"{count} dimensions"
        return f"`{array_name(missing[0])}` does not move along {along}"
    if overwritten := {array_name(name) for name in made} & {array_name(name) for name in plain}:
        return f"`{min(overwritten)}` is read along other dimensions than it is written"
    return frames


def _frame(load: Load, array: str, step: Step, program: PolyProgram) -> Frame | None:
    """How an access moves; None where that is not one group dimension in each subscript."""
    dims: list[str] = []
    shifts: list[int] = []
    modes: list[str] = []
    by_iterator = {c.iterator: c for c in step.placed.coordinates}
    for subscript, extent in zip(load.index, program.arrays[array].extents, strict=True):
        edge = edge_of(subscript, extent)
        move = None if edge is None else moves(edge[1])
        if edge is None or move is None or move[0] not in by_iterator:
            return None
        c = by_iterator[move[0]]
        dims.append(c.dim)
        shifts.append(c.constant + move[1])
        modes.append(edge[0])
    if len(set(dims)) != len(dims):
        return None
    return Frame(array, tuple(dims), tuple(shifts), tuple(modes))


def _agree(one: Frame, other: Frame) -> bool:
    """The same dimensions, and no two edge modes."""
    modes = all(a == b or not (a and b) for a, b in zip(one.modes, other.modes))
    return one.dims == other.dims and modes
