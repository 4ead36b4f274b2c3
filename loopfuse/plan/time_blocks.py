"""Time loops in blocks: how many iterations run in one pass, and the loops over the blocks.

before:  for t in 0..n: sweep                   (n launches, each moves the arrays once)
after:   for t in 0..n - n % 16 step 16: { 8 sweeps to the copies; 8 sweeps back }
         for t in n - n % 16..n: sweep
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loopfuse.lang.affine import combine, integer
from loopfuse.lang.nodes import Expr
from loopfuse.lang.walk import iterators
from loopfuse.plan.cost import CostModel
from loopfuse.plan.forest import Scope
from loopfuse.plan.groups import Group, TimeBlock
from loopfuse.plan.recompute import tidy
from loopfuse.plan.window_shape import Windowed, WindowRules, fit_windows
from loopfuse.poly.model import Loop, PolyProgram

STEPS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Iterations of the time loop in one pass that are tried, until they no longer fit."""


def best_blocks(
    groups: Sequence[Group],
    loop: Loop,
    scope: Scope,
    program: PolyProgram,
    rules: WindowRules,
    cost: CostModel,
) -> tuple[int, ...]:
    """The lengths of blocks to use, longest first; none where the body is no pipeline of stencils
    or blocks would be no faster."""
    if loop.step != 1 or iterators(loop.lower) or iterators(loop.upper):
        return ()
    if any(group.kind not in ("map", "window") for group in groups):
        return ()
    units = tuple(sorted((u for g in groups for u in g.units), key=lambda unit: unit.rank))
    one = sum(cost.group(group).seconds for group in groups)
    best: tuple[float, int] = (one, 0)
    for steps in (rules.tuning.steps,) if rules.tuning.steps else STEPS:
        block = TimeBlock(loop.iterator, steps, loop.lower, loop.lower)
        found = fit_windows(units, scope, program, rules, block)
        if not isinstance(found, Windowed):
            if steps == 1:
                return ()
            break
        again = found.shape.redundancy
        reload = again if found.pipeline.abreast else None
        seconds = cost.time_block(found.group, again, steps, reload)
        if seconds < best[0]:
            best = (seconds, steps)
    if best[1] < (1 if rules.tuning.steps else 2):
        return ()
    return (best[1], 2) if best[1] > 4 else (best[1],)


def split_loop(loop: Loop, length: int) -> tuple[Loop, Loop, Expr]:
    """(the loop over whole blocks of `length` iterations, the loop over what is left, how many
    blocks there are)."""
    count = combine("max", tidy(combine("sub", loop.upper, loop.lower)), integer(0))
    blocks = combine("floordiv", count, integer(length))
    middle = tidy(combine("add", loop.lower, combine("mul", blocks, integer(length))))
    return replace(loop, upper=middle, step=length), replace(loop, lower=middle), blocks
