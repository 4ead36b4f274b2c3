"""Windows that are easier to prove, for when a tree with windows was not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from loopfuse.plan.strategies.sliding.time_blocks import FEW_STEPS
from loopfuse.plan.strategies.sliding.windows.shape import Windowed
from loopfuse.plan.units.rules import Rules


def easier_windows(
    made: Sequence[Windowed], rules: Rules
) -> Iterator[tuple[Rules, str]]:
    """What may be tried in turn in place of windows that were `made` under `rules`, and that in words: blocks of few time steps, where there are long ones, then of one, where that brings loops
    together; no blocks; then no windows."""
    if not made:
        return
    most, joins = 0, False
    for windowed in made:
        if (time := windowed.group.time) is not None:
            most = max(most, time.steps)
            joins = joins or len(windowed.pipeline.steps) > time.steps
    if not rules.tuning.steps:
        if most > FEW_STEPS:
            yield replace(rules, most_steps=FEW_STEPS), f"blocks of {FEW_STEPS} time steps are used"
        if most > 1 and joins:
            yield replace(rules, most_steps=1), "blocks of one time step are used"
    if most:
        yield replace(rules, blocks=False), "the time loop runs step by step"
    yield replace(rules, chains=False), "recomputation is used instead of windows"
