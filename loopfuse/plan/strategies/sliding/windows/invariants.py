"""What a pipeline of windows reads once for all points of a tile: weights, a bias."""

from __future__ import annotations

from loopfuse.lang.nodes import Expr, Load, Select
from loopfuse.lang.walk import children, iterators
from loopfuse.plan.strategies.sliding.windows.records import Pipeline
from loopfuse.poly.model import PolyProgram

MOST = 32
"""The most registers of 32 bits that such values may take; others are read again at each row."""


def invariant_words(pipeline: Pipeline, program: PolyProgram) -> int:
    """Registers of 32 bits that the values take which do not move with a window."""
    found: dict[Load, int] = {}
    for step in pipeline.steps:
        placed = step.placed
        moving = {placed.coordinate(dim).iterator for dim in pipeline.dims if dim}
        for s in step.placed.unit.statements:
            for load in always_read(s.value):
                name = step.stage_of(step.array_of(load))
                if not load.index or pipeline.stage(name) is not None:
                    continue
                if not any(iterators(subscript) & moving for subscript in load.index):
                    found[load] = max(1, program.arrays[load.array].dtype.bytes // 4)
    return min(MOST, sum(found.values()))


def always_read(expr: Expr) -> list[Load]:
    """The loads of `expr` that no condition decides on."""
    if isinstance(expr, Select):
        return []
    found = [load for child in children(expr) for load in always_read(child)]
    return [*found, expr] if isinstance(expr, Load) else found
