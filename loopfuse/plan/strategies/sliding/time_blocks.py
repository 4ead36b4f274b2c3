"""Time loops in blocks: how many iterations run in one pass, and the loops over the blocks.

before:  for t in 0..n: sweep                   (n launches, each moves the arrays once)
after:   for t in 0..n - n % 16 step 16: { 8 sweeps to the copies; 8 sweeps back }
         for t in n - n % 16..n: sweep
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loopfuse.lang.index import TRUE
from loopfuse.lang.linear import constant_value, lies_within, tidy
from loopfuse.lang.nodes import Expr, Load, combine, compare, integer
from loopfuse.lang.walk import iterators
from loopfuse.plan.fusion.cost import CostModel, arrays_of
from loopfuse.plan.strategies.sliding.windows.borders import is_border, with_borders
from loopfuse.plan.strategies.sliding.windows.parts import common_period
from loopfuse.plan.strategies.sliding.windows.records import Pipeline, Stage, later_name
from loopfuse.plan.strategies.sliding.windows.shape import Windowed, fit_windows
from loopfuse.plan.units.forest import Scope, Unit, in_order
from loopfuse.plan.units.groups import Box, Group, Legality, Region, TimeBlock, whole_name
from loopfuse.plan.units.rules import Rules
from loopfuse.poly.model import Loop, PolyProgram

STEPS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Iterations of the time loop in one pass that are tried, until they no longer fit."""

WORTH = 0.95
"""A longer block must take less than this share of a shorter one's time: it takes longer to prove and
to compile, and leaves more iterations over."""

BORDERED = 3
"""Steps of a block in three dimensions where loops over faces write what is made too, for proofs again.
(Four are proved since, and were not measured beside three.)"""

LIVE = 3
"""The same where several arrays live on, and each iteration makes one stage: of what a compile may ask
three steps take about half, four nearly all, and two iterations of two stages more than that."""

SHORT_BLOCK = 4
"""Steps of a block, at most, that saves little where caches hold the arrays."""

FEW_STEPS = 2
"""Steps of a block that is short: what a proof takes grows with the square of its steps and more, most of
all where arrays are read beyond both edges."""

LONG = 12
"""Steps of a block from which on there are blocks of half as many too: a pair of long ones alone would
leave a time loop of a few dozen iterations to the shortest."""

FOLDED = 8
"""Stages that a block along a line may make and read beyond its ends, for the same reason. (Where
rows stream, registers end blocks before that.)"""

LINES = 8
"""The most stages of a block on the CPU: more save little, as arithmetic is soon what takes the
time, and take long to prove."""


def best_blocks(
    groups: Sequence[Group],
    loop: Loop,
    scope: Scope,
    program: PolyProgram,
    rules: Rules,
    cost: CostModel,
    live: frozenset[str],
) -> tuple[int, ...]:
    """The lengths of blocks to use, longest first; none where the body is no pipeline of stencils
    or blocks would be no faster. `live`: the arrays that others see after the loop."""
    if why_no_blocks(groups, loop):
        return ()
    units = in_order(unit for group in groups for unit in group.units)
    if when_resident(units, loop, program, rules) == TRUE:
        return ()
    one = sum(cost.group(group).seconds for group in groups)
    best: tuple[float, int] = (one, 0)
    period = common_period(units, loop.iterator)
    count = constant_value(loop.upper - loop.lower)
    most = STEPS[-1] if count is None else count // 2  # a pair that never runs helps nobody
    if rules.most_steps:
        most = min(most, rules.most_steps)
    if rules.lines:
        full = sum(not is_border(unit) for unit in with_borders(units, scope))
        most = min(most, LINES // full)
    tried = [steps for steps in STEPS if 2 * steps % period == 0 and steps <= most]
    for steps in (rules.tuning.steps,) if rules.tuning.steps else tried:
        found = fit_pair(units, scope, program, rules, TimeBlock.of(loop, steps), live)
        if isinstance(found, str):
            if steps > 1:
                break
            continue  # two iterations may go where one does not: a swap is back in its place
        if not rules.tuning.steps and steps > _provable_steps(found[0]):
            break
        there, again = found[0], found[0].redundancy
        reload = again if there.pipeline.between else None
        seconds = cost.time_block(there.group, again, steps, reload)
        if seconds < WORTH * best[0] or rules.tuning.steps:
            best = (seconds, steps)
    if not best[1]:
        return ()
    # The iterations that are left go in shorter blocks: one alone is a launch for every loop.
    shorter = 2 if best[1] >= 4 else 1
    if best[1] % shorter or best[1] == 1:
        return (best[1],)
    middle = best[1] // 2
    if rules.lines and middle > shorter and middle % shorter == 0 and 2 * middle % period == 0:
        return (best[1], middle)  # shorter ones take as long as sweeps
    is_long = best[1] >= LONG and middle % shorter == 0 and 2 * middle % period == 0
    return (best[1], middle, shorter) if is_long else (best[1], shorter)


def _provable_steps(windowed: Windowed) -> int:
    """How many steps of a block are proved before isl gives up. Rows that are computed and wrap are
    computed again on both sides of a strip, in each step a column further. A border that is made of
    its neighbours has a window of its own. In three dimensions, where several arrays live on, the
    border of each stage stands in memory that others write. (Where this is too many, shorter blocks
    are tried: `easier`.)"""
    pipeline = windowed.pipeline
    made = [stage for stage in pipeline.stages if stage.step is not None]
    if any(_waits_for_border(pipeline, stage) for stage in made):
        return 1 if pipeline.between else FEW_STEPS if pipeline.stream else 2 * FEW_STEPS
    if pipeline.between:
        left = {whole_name(stage.array) for stage in made}
        if sum(pipeline.program.arrays[name].is_argument for name in left) > 1:
            time = pipeline.group.time
            return LIVE if time is not None and len(made) <= time.steps else 1
        return BORDERED if any(stage.is_border for stage in made) else STEPS[-1]
    wraps = any(stage.frame.mode(pipeline.across) == "wrap" for stage in made)
    is_hard = (wraps and bool(pipeline.stream)) or _folds(windowed) > FOLDED
    return FEW_STEPS if is_hard else STEPS[-1]


def _waits_for_border(pipeline: Pipeline, stage: Stage) -> bool:
    """Does a loop over a border read the stage, and make the next of it in another window?"""
    later = pipeline.stage(later_name(stage.name))
    return later is not None and later.is_border and not pipeline.passes_on(stage)


def _folds(windowed: Windowed) -> int:
    """How many stages of a line are computed and read beyond its ends."""
    pipeline = windowed.pipeline
    if pipeline.stream:
        return 0
    made = [stage for stage in pipeline.stages if stage.step is not None]
    return sum(any(stage.frame.modes) for stage in made)


def why_no_blocks(groups: Sequence[Group], loop: Loop) -> str:
    """Why the loop around the groups has no blocks whatever their length; empty where it may."""
    if loop.step != 1:
        return f"`{loop.iterator.partition('.')[0]}` does not count up by one"
    if iterators(loop.lower) or iterators(loop.upper):
        return "its bounds depend on an outer loop"
    for group in groups:
        for unit in group.units:
            for s in unit.statements:
                if s.id in unit.carried:
                    return f"{s.label} is a reduction, which needs a whole sweep"
        if group.legality is Legality.SERIAL:
            return f"{group.units[0].label} does not run in parallel"
        if group.legality is Legality.REDUCED:
            return f"{group.units[0].label} runs together with a reduction"
    return ""


def fit_pair(
    units: tuple[Unit, ...],
    scope: Scope,
    program: PolyProgram,
    rules: Rules,
    block: TimeBlock,
    live: frozenset[str],
) -> tuple[Windowed, Windowed] | str:
    """The two launches of a pair of blocks, the first of which is `block`, or why there are none.

    The first stores what the second reads, as copies: its neighbours still read the arrays. The
    second stores what the first of the next pair reads, and what is `live` after the loop.
    """
    there = fit_windows(units, scope, program, rules, block)
    if isinstance(there, str):
        return there
    second = replace(block, first=block.steps, back=True)
    back = fit_windows(units, scope, program, rules, second)
    if isinstance(back, str):
        return back
    made, again = _made(there), _made(back)
    copied = back.group.loaded & made
    wanted = there.group.loaded | {a for a in made | again if whole_name(a) in live}
    if not copied:
        return "no iteration reads what the one before it makes"
    if lost := wanted & made - again:
        return f"every other block of {block.steps} leaves `{whole_name(min(lost))}` as it is"
    for array in sorted(wanted & made):
        if not _covers(back.pipeline.region(array), there.pipeline.region(array)):
            return f"every other block of {block.steps} leaves some of `{whole_name(array)}` as it is"
    regions: list[tuple[str, Region]] = []
    for array in sorted(copied):
        if all(s.is_border for s in there.pipeline.stages if s.step and s.array == array):
            return f"only borders of `{whole_name(array)}` are written"
        regions.append((array, there.pipeline.region(array)))
    first = replace(block, stored=copied, whole=rules.lines)
    second = replace(second, stored=wanted & again, copied=tuple(regions))
    return _with_time(there, first), _with_time(back, second)


def _made(windowed: Windowed) -> frozenset[str]:
    """The arrays that the pipeline computes."""
    return frozenset(s.array for s in windowed.pipeline.stages if s.step is not None)


def _covers(region: Region, other: Region) -> bool:
    """Is every box of `other` seen to lie in one of `region`?"""

    def inside(inner: Box, outer: Box) -> bool:
        return all(lies_within(one, other) for one, other in zip(inner, outer, strict=True))

    return all(any(inside(inner, outer) for outer in region) for inner in other)


def _with_time(windowed: Windowed, time: TimeBlock) -> Windowed:
    pipeline = windowed.pipeline
    group = replace(pipeline.group, time=time)
    return replace(windowed, pipeline=replace(pipeline, group=group))


def most_resident(units: Sequence[Unit], loop: Loop, rules: Rules) -> int:
    """The most bytes of arrays that iterations go through one by one. Where caches hold them a sweep takes three quarters of its time in
    a block; but a block needs none that only copies, and a loop of few iterations has short blocks, which save less. (An EPYC of
    32 MB: blocks of 8 steps begin to pay at 24 MB, of 3 steps at 40, where every second sweep copies at less than 1.)"""
    count = constant_value(loop.upper - loop.lower)
    if count is not None and count // 2 <= SHORT_BLOCK:
        return rules.machine.resident
    deepest = max(len(unit.common) for unit in units)
    sweeps = (unit for unit in units if len(unit.common) == deepest)
    copies = any(isinstance(s.value, Load) for unit in sweeps for s in unit.statements)
    return rules.machine.resident * 3 // (32 if copies else 4)


def when_resident(units: Sequence[Unit], loop: Loop, program: PolyProgram, rules: Rules) -> Expr | None:
    """The condition on sizes under which one iteration finds in the caches what the one before it left there, so
    that blocks save nothing; None where there is none, or where the steps of a block were asked for."""
    if not rules.machine.resident or rules.tuning.steps:
        return None
    touched = {name: program.arrays[name] for unit in units for s in unit.statements for name in arrays_of(s)}
    size: Expr = integer(0)
    for array in touched.values():
        elements: Expr = integer(0 if array.kind == "scalar" else array.dtype.bytes)
        for extent in array.extents:
            elements = elements * extent
        size = size + elements
    return compare("le", size, integer(most_resident(units, loop, rules)))


def split_loop(loop: Loop, length: int, longer: int = 0) -> tuple[Loop, Loop, Expr]:
    """(the loop over whole blocks of `length` iterations, the loop over what is left, how many
    blocks there are); `longer`: a multiple of `length`, of which blocks went before (0: none)."""
    count = combine("max", tidy(loop.upper - loop.lower), integer(0))

    def behind(length: int) -> Expr:
        blocks = count // length
        return tidy(loop.lower + blocks * length)

    middle = behind(length)
    blocks = count // length
    if not longer:
        return replace(loop, upper=middle, step=length), replace(loop, lower=middle), blocks
    first = behind(longer)
    before = count // longer
    blocks = blocks - before * (longer // length)
    main = replace(loop, lower=first, upper=middle, step=length)
    return main, replace(loop, lower=middle), tidy(blocks)
