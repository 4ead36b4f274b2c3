"""Stages read with `.wrap`: what lies beyond an edge is computed again, from loads that wrap too.

    program:      for x in 0..W: b[x] = a.wrap[x-1] + a.wrap[x+1]     for x in 0..W: c[x] = b.wrap[x+1]
    near x = W:   the window's cell x of b is computed for x in -1..W+1, as the instance x % W

A strip at one edge never sees the other. So every step that makes a wrapped stage must run over the
whole array, and read only what moves with it in the same period: then the instance x % W reads the
cells beside x.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loopfuse.lang.linear import same_index
from loopfuse.lang.nodes import Expr, integer
from loopfuse.plan.strategies.sliding.windows.align import moves
from loopfuse.plan.strategies.sliding.windows.edges import inner_of
from loopfuse.plan.strategies.sliding.windows.records import Frame, Step, array_name
from loopfuse.plan.units.groups import whole_name
from loopfuse.poly.model import PolyProgram


def wrap_frames(
    steps: Sequence[Step], frames: Mapping[str, Frame], program: PolyProgram, dims: Sequence[str]
) -> dict[str, Frame] | str:
    """The frames, with `wrap` for all that a wrapped stage is made of; or why that cannot be."""
    out = dict(frames)
    makers = {name: step for step in steps for name in step.writes.values()}
    for dim in dims:
        waiting = [n for n in makers if n in out and out[n].mode(dim) == "wrap"]
        done: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in done:
                continue
            done.add(name)
            step = makers.get(name)
            if step is None:
                continue  # loaded
            found = _whole_period(step, name, out, program, dim)
            if isinstance(found, str):
                return found
            for other in found:
                if other in out:
                    out[other] = _wrapped(out[other], dim)
                    waiting.append(other)
    return out


def _whole_period(
    step: Step, name: str, frames: Mapping[str, Frame], program: PolyProgram, dim: str
) -> tuple[str, ...] | str:
    """The stages that must wrap along `dim` because `name`, which the step makes, does."""
    why = f"`{whole_name(array_name(name))}` is read with `.wrap`, and "
    c = step.placed.coordinate(dim)
    loop = next(lp for lp in step.placed.unit.common if lp.iterator == c.iterator)
    found = [*step.writes.values(), *step.reads.values()]
    extent = _extent(frames[name], dim, program)
    for other in dict.fromkeys(found):
        frame = frames.get(other)
        if frame is None:
            continue
        if dim not in frame.dims:
            return why + f"`{whole_name(frame.array)}`, of which it is made, does not move along it"
        if not same_index(_extent(frame, dim, program), extent):
            return why + f"`{whole_name(frame.array)}`, which it is made with, has another extent"
        if frame.mode(dim) not in ("", "wrap"):
            return why + f"`{whole_name(frame.array)}`, of which it is made, with `.{frame.mode(dim)}`"
    shift = integer(frames[name].shifts[frames[name].position(dim)])
    first = loop.lower - c.offset + shift
    end = loop.upper - c.offset + shift
    if not (same_index(first, integer(0)) and same_index(end, extent)):
        return why + "its loop does not write all of it"
    for s in step.placed.unit.statements:
        for access in (s.write, *s.reads):
            frame = frames.get(step.stage_of(step.array_of(access.load)))
            if frame is None or not access.load.index:
                continue
            subscript = access.load.index[frame.position(dim)]
            move = moves(subscript)
            if move is None:
                move = moves(inner_of(subscript))
            elif c.constant + move[1] != frames[name].shifts[frames[name].position(dim)]:
                return why + f"`{whole_name(frame.array)}` moves along it in another way"
            if move is None or move[0] != c.iterator:
                return why + f"`{whole_name(frame.array)}` moves along it in another way"
    return tuple(dict.fromkeys(found))


def _extent(frame: Frame, dim: str, program: PolyProgram) -> Expr:
    return program.arrays[frame.array].extents[frame.position(dim)]


def _wrapped(frame: Frame, dim: str) -> Frame:
    modes = list(frame.modes)
    modes[frame.position(dim)] = "wrap"
    return replace(frame, modes=tuple(modes))
