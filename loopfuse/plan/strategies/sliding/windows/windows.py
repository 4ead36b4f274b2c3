"""Sliding windows: what each loop of a chain of stencils reads of the others, and how much a tile has
to keep of every array for that.

A chain is streamed along one group dimension, the first that its windows have; the last is held by
the lanes of a warp, those between by the warps of a block. Every array that moves along all of them
becomes a *stage*: a window of slices, either loaded or computed by one of the units. At step t a stage
stands at slice `first + t - lag`; `lag` is how many slices it must stay behind the loads for what it
reads to be there.

    before:  for y, x: rows[y, x] = f(img[y, x-2..x+2])      for y, x: blur[y, x] = g(rows[y-2..y+2, x])
    stages:  img (lag 0, 1 slice, halo 2 of x)   rows (lag 0, 5 slices, halo 2 of y)   blur (lag 2, 1 slice)

A time loop around the chain is a longer chain: T iterations of it, one after the other. An array
then has a stage for each time it is written, and one more for what it holds before:

    before:  for t: { for x: b[x] = f(a[x-1..x+1]);  for x: a[x] = g(b[x-1..x+1]) }
    stages:  a.0 (loaded)   b.1   a.1   b.2   a.2   ...

A chain along one dimension (each line of a batch) has nothing to stream: every stage is one slice,
none is behind another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from loopfuse.lang.index import TRUE, evaluate_index, is_checked
from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Load, integer
from loopfuse.lang.walk import iterators
from loopfuse.plan.mapping.body import guard_of, host_conditions, loop_conditions
from loopfuse.plan.mapping.space import order_dims
from loopfuse.plan.strategies.sliding.windows.align import align_steps
from loopfuse.plan.strategies.sliding.windows.borders import is_border, with_borders, without_edges
from loopfuse.plan.strategies.sliding.windows.frames import find_frames
from loopfuse.plan.strategies.sliding.windows.left import reads_what_was_left
from loopfuse.plan.strategies.sliding.windows.parts import Parts, find_parts
from loopfuse.plan.strategies.sliding.windows.records import (
    Frame,
    Pipeline,
    Stage,
    Step,
    later_name,
    stage_name,
)
from loopfuse.plan.strategies.sliding.windows.regions import as_one_box
from loopfuse.plan.strategies.sliding.windows.stages import find_stages
from loopfuse.plan.strategies.sliding.windows.wrap import wrap_frames
from loopfuse.plan.units.align import Placed
from loopfuse.plan.units.forest import Scope, Unit, carries_nothing
from loopfuse.plan.units.groups import Group, Legality, Region, TimeBlock, whole_name
from loopfuse.poly.model import Loop, PolyProgram, Statement
from loopfuse.tree.looptree import LATE_BYTES

__all__ = ["Frame", "Pipeline", "Stage", "Step", "find_pipeline"]


def find_pipeline(
    units: Sequence[Unit],
    scope: Scope,
    program: PolyProgram,
    ahead: int,
    time: TimeBlock | None = None,
    planes_ahead: int | None = 1,
) -> Pipeline | str:
    """The units, as they run, as a pipeline of windows, or why they are none. Loads run `ahead`
    slices (or `planes_ahead` where they are planes; None: along two dimensions, no fewer and no more)
    ahead of need.
    `time`: several iterations of the time loop around them."""
    units = with_borders(units, scope)
    units = tuple(_counting_up(unit) for unit in units)
    why = _why_not_streamed(units, scope, program, time is not None, planes_ahead is not None)
    if why:
        return why
    parts = find_parts(units, program, time)
    if isinstance(parts, str):
        return parts
    unrolled = _unroll(units, scope, parts, time)
    if isinstance(unrolled, str):
        return unrolled
    if why := reads_what_was_left(unrolled, scope if time else None, program):
        return why
    steps = align_steps(unrolled)
    if isinstance(steps, str):
        return steps
    dims = tuple(c.dim for c in steps[0].placed.coordinates)
    members = tuple(replace(s.placed, unit=u) for s, u in zip(steps, units, strict=False))
    loaded = frozenset(
        array for step in steps for array, name in step.reads.items() if name == f"{array}.0"
    )
    whole = Group(Legality.STREAMED, dims, members, scope=scope, time=time, loaded=loaded)
    ordered = order_dims(whole)
    if planes_ahead is not None and (found := _as_strips(whole, steps, ordered, parts)) is not None:
        return found
    flat = Pipeline(whole, steps, ordered[:-2], ordered[-2:], (), parts)
    found = _with_stages(flat, ahead)
    if isinstance(found, Pipeline) or len(ordered) < 3 or planes_ahead is None:
        return found
    why = found
    deep = Pipeline(whole, steps, ordered[:-3], ordered[-3:], (), parts)
    found = _with_stages(deep, planes_ahead)
    if isinstance(found, Pipeline) and not any(stage.is_shared for stage in found.stages):
        return why
    return found


def _counting_up(unit: Unit) -> Unit:
    """The unit with its parallel loops that count down by one counting up: any order does."""
    one = integer(1)

    def loop(each: Loop) -> Loop:
        if each.step != -1 or each.iterator not in unit.parallel:
            return each
        lower, upper = each.upper + one, each.lower + one
        return replace(each, lower=tidy(lower), upper=tidy(upper), step=1)

    common = tuple(loop(each) for each in unit.common)
    return unit if common == unit.common else replace(unit, common=common)


def _as_strips(
    group: Group, steps: tuple[Step, ...], ordered: tuple[str, ...], parts: Parts
) -> Pipeline | str | None:
    """The pipeline along the last dimension alone, where nothing is read along others; None: there
    are others to try."""
    outer = ordered[:-1]
    found = _with_stages(Pipeline(group, steps, outer, ("", ordered[-1]), (), parts), 0)
    if not outer:
        return found
    if isinstance(found, str):
        return None
    made = [stage for stage in found.stages if stage.step is not None]
    beside = any(stage.frame.mode(dim) or stage.is_border for stage in made for dim in outer)
    return None if beside or not any(stage.is_stencil for stage in found.stages) else found


def _with_stages(pipeline: Pipeline, ahead: int) -> Pipeline | str:
    """The pipeline with its stages, along the dimensions that it names, or why it has none."""
    inner = tuple(dim for dim in pipeline.dims if dim)
    dims = (*pipeline.outer, *inner)
    frames = find_frames(pipeline.steps, pipeline.program, dims, len(inner))
    if isinstance(frames, str):
        return frames
    frames = wrap_frames(pipeline.steps, frames, pipeline.program, dims)
    if isinstance(frames, str):
        return frames
    program = pipeline.program
    stages = find_stages(pipeline.steps, frames, pipeline.dims, ahead, program)
    if isinstance(stages, str):
        return stages
    found = replace(pipeline, stages=stages)
    found = replace(found, regions=_regions(found), passed=_passed_on(found))
    for step in pipeline.steps:
        if not any(stage.step is step for stage in stages):
            return f"{step.placed.unit.label} leaves nothing to those behind it"
    if pipeline.group.time is None:
        for stage in stages:
            made = found.last(stage.array)
            if stage.step is not None or made is None:
                continue
            if not (pipeline.between and stage.is_local and stage.frame.shifts == made.frame.shifts):
                return f"`{whole_name(stage.array)}` is overwritten by the loops that read it"
    return found


def _regions(pipeline: Pipeline) -> dict[str, Region]:
    """What the loops that write an array write together, where there are several."""
    made = dict.fromkeys(stage.array for stage in pipeline.stages if stage.step is not None)
    boxes = {array: pipeline.boxes(array) for array in made}
    if all(len(region) < 2 for region in boxes.values()):
        return {}
    program, calls = pipeline.program, _calls(pipeline)
    return {
        array: as_one_box(region, program.arrays[array], program, calls)
        for array, region in boxes.items()
        if len(region) > 1
    }


def _calls(pipeline: Pipeline) -> Any:
    """The parameters for which host loops around the launch run it."""
    context, scope = pipeline.program.context, pipeline.group.scope
    if scope is None or not scope.host:
        return context
    runs = [s.domain.params() for step in pipeline.steps for s in step.placed.unit.statements]
    return context.intersect(reduce(lambda one, other: one.union(other), runs))


def _passed_on(pipeline: Pipeline) -> frozenset[str]:
    """The stages that only wait for a border of the same iteration, made as far behind."""
    out: set[str] = set()
    read = {name for step in pipeline.steps for name in step.reads.values()}
    by_name = {stage.name: stage for stage in pipeline.stages}
    for stage in pipeline.stages:
        later = by_name.get(later_name(stage.name))
        if stage.step is None or later is None or later.step is None or stage.name in read:
            continue
        together = later.step.ahead == stage.step.ahead and later.lag == stage.lag
        if later.is_border and together and later.frame.shifts == stage.frame.shifts:
            out.add(stage.name)
    return frozenset(out)


def come_late(pipeline: Pipeline, planes: int) -> Pipeline | None:
    """A pipeline of planes, with those that it loads coming by themselves, by way of shared memory,
    asked for that many steps before they are needed; None where there are none, or their elements cannot."""
    loaded = [stage for stage in pipeline.stages if stage.step is None]
    if not loaded or any(
        pipeline.program.arrays[s.array].dtype.bytes not in LATE_BYTES for s in loaded
    ):
        return None
    found = _with_stages(pipeline, 0)
    if isinstance(found, str):
        return None
    stages = tuple(replace(stage, lag=stage.lag + planes) for stage in found.stages)
    return replace(found, stages=stages, late=planes)


def _why_not_streamed(
    units: Sequence[Unit], scope: Scope, program: PolyProgram, again: bool, alone: bool
) -> str:
    """`again`: an array may be written by several loops. `alone`: one dimension is enough."""
    if not all(unit.common and unit.parallel for unit in units):
        return "not all loops are parallel"
    depth = len(units[0].common)
    if depth < 2 and not alone:
        return f"{units[0].label} has one dimension"
    writers: dict[str, Unit] = {}
    for unit in units:
        if len(unit.common) != depth or not carries_nothing(without_edges(unit), scope):
            return f"{unit.label} has another depth, or its iterations depend on each other"
        if any(loop.step != 1 for loop in unit.common):
            return f"{unit.label} has a step"
        names = {loop.iterator for loop in unit.common}
        if any((iterators(loop.lower) | iterators(loop.upper)) & names for loop in unit.common):
            return f"{unit.label} has bounds that depend on an outer loop"
        known = host_conditions(Group(Legality.STREAMED, (), (), scope=scope))
        for loop in unit.common:
            known += loop_conditions(loop.iterator, loop.lower, loop.upper, loop.step)
        for s in unit.statements:
            if s.target.index and guard_of(s, known, program) != TRUE:
                return f"{s.label} does not run in every iteration"
            if s.predicate is not None or s.kind not in ("store", "define"):
                return f"{s.label} is conditional on data, or a reduction"
            if any(is_checked(part) for access in s.reads for part in access.load.index):
                return f"{s.label} reads where data says, also beyond what a strip stores"
            for name, _ in s.write.parts:
                scalar = program.arrays[name].kind == "scalar"
                if scalar or again or writers.setdefault(name, unit) is unit:
                    continue
                if not is_border(unit) and not is_border(writers[name]):
                    return f"`{name}` is written by two loops"
    return _kept_for_others(units, program)


def _kept_for_others(units: Sequence[Unit], program: PolyProgram) -> str:
    """Which value of an iteration (a `let`, a condition) a loop that does not make it reads: it
    would have to be an array, which no window holds."""
    made = [{name for s in u.statements for name, _ in s.write.parts} for u in units]
    scalars = {name for names in made for name in names if program.arrays[name].kind == "scalar"}
    if not scalars:
        return ""
    inside = {s.id for unit in units for s in unit.statements}
    groups = [(u.statements, own) for u, own in zip(units, made, strict=True)]
    outside = tuple(s for s in program.statements if s.id not in inside)
    for statements, own in (*groups, (outside, set[str]())):
        for s in statements:
            for access in s.reads:
                if access.array in scalars - own:
                    return f"{s.label} reads `{access.array}`, which another loop makes"
    return ""


def _unroll(
    units: Sequence[Unit], scope: Scope, parts: Parts, time: TimeBlock | None
) -> list[Step] | str:
    """Every unit once an iteration, and which stage each of its arrays is."""
    newest: dict[str, str] = {}  # by array: the stage that holds it now
    count: dict[str, int] = {}
    out: list[Step] = []
    for ahead in range(time.steps if time else 1):
        for whole in units:
            unit = parts.resolve(whole, time, ahead)
            swaps = _swaps(unit, scope, time, ahead)
            if isinstance(swaps, str):
                return swaps
            step = Step(Placed(unit, ()), ahead, swaps)
            reads: dict[str, str] = {}
            writes: dict[str, str] = {}
            for s in unit.statements:
                for access in s.reads:
                    name = step.array_of(access.load)
                    if access.load.index and name not in writes:
                        reads[name] = newest.setdefault(name, stage_name(name, 0))
                if not s.target.index:
                    continue
                name = step.array_of(s.target)
                if time is None and stage_name(name, 0) in newest.values() and len(units) > 1:
                    return f"`{name}` is overwritten by the loops that read it"
                if is_border(unit) and name not in newest:
                    return f"a border of `{whole_name(name)}` is written before the rest of it"
                if name not in writes:
                    count[name] = count.get(name, 0) + 1
                    writes[name] = stage_name(name, count[name])
            newest |= writes
            out.append(Step(step.placed, ahead, swaps, reads, writes))
    return out


def _swaps(
    unit: Unit, scope: Scope, time: TimeBlock | None, ahead: int
) -> tuple[tuple[Expr, int], ...] | str:
    """Which way the swaps that the unit sees stand `ahead` iterations into a block."""
    out: dict[Expr, int] = {}
    for s in unit.statements:
        for load in (s.target, *(access.load for access in s.reads)):
            if load.swapped is None:
                continue
            found = _parity(s, load, scope, time, ahead)
            if found is None:
                return f"{s.label} accesses a swapped array"
            out[load.swapped.parity] = found
    return tuple(out.items())


def _parity(
    statement: Statement, load: Load, scope: Scope, time: TimeBlock | None, ahead: int
) -> int | None:
    """The parity of a swap, where it depends on the time loop alone."""
    assert load.swapped is not None
    parity = load.swapped.parity
    if time is None or iterators(parity) - {time.iterator}:
        return None
    try:
        first = evaluate_index(time.origin, {})
        return evaluate_index(parity, {time.iterator: first + time.first + ahead})
    except (KeyError, ValueError):
        return None
