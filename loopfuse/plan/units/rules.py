"""What the planner may do."""

from __future__ import annotations

from dataclasses import dataclass

from loopfuse.base.options import Tuning

DEFAULT = Tuning()


@dataclass(frozen=True, slots=True)
class Rules:
    """`strided` arguments are views, `rows` of which have so many last dimensions without gaps. `lines`: rows of a
    chain of stencils lie in line buffers of CPU workers, not in registers; `blocks`: time loops may run in blocks
    of steps; `most_steps`: of at most so many (0: any number). `chains`: loops run together that no common
    iteration could run; `teams`: several threads may run one point of a
    group together."""

    strided: frozenset[str] = frozenset()
    rows: tuple[tuple[str, int], ...] = ()
    tuning: Tuning = DEFAULT
    lines: bool = False
    blocks: bool = True
    most_steps: int = 0
    chains: bool = True
    teams: bool = True
