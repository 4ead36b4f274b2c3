"""Line buffers against recomputation: which of the two takes fewer operations."""

from __future__ import annotations

from math import ceil

from loopfuse.plan.fusion.cost import CostModel
from loopfuse.plan.strategies.sliding.windows.cuts import Shape
from loopfuse.plan.strategies.sliding.windows.lines import redundancy_in_lines
from loopfuse.plan.strategies.sliding.windows.passes import find_passes, lines_of
from loopfuse.plan.strategies.sliding.windows.records import Pipeline
from loopfuse.plan.units.groups import Group

LANES = 16
"""Elements that a row's loop takes at a time: a shorter row costs as much, and so does starting one."""


def operations_in_lines(cost: CostModel, pipeline: Pipeline, shape: Shape) -> float:
    """Operations of one run of the pipeline, with those that chunks and strips do twice, and a
    store for each value that a line keeps; more where rows are short (channels of an image)."""
    group = pipeline.group
    once, _ = cost.operations(group, len(group.scope.host) if group.scope else 0)
    kept = lines_of(pipeline, find_passes(pipeline))
    stores = sum(cost.trips(s.step.placed.unit.common) for s in kept if s.step is not None)
    return (once + stores) * redundancy_in_lines(pipeline, shape) * _per_column(cost, pipeline)


def _per_column(cost: CostModel, pipeline: Pipeline) -> float:
    """Columns that the time of a row would do for, for each that it has."""
    made = [stage for stage in pipeline.stages if stage.step is not None]
    ends = [stage.box[stage.frame.position(pipeline.across)] for stage in made]
    columns = max((cost.number(high) - cost.number(low) for low, high in ends), default=0)
    return (ceil(columns / LANES) + 1) * LANES / columns if columns > 0 else 1.0


def operations_anew(cost: CostModel, group: Group) -> float:
    """Operations of one run of a group that recomputes: the values computed anew are in registers,
    so that reading them costs nothing."""
    once, _ = cost.operations(group, host := len(group.scope.host) if group.scope else 0)
    fed = group.fed
    for placed in group.members:
        for s in placed.unit.statements:
            free = sum((s.id, access.array) in fed for access in s.reads)
            once -= free * cost.trips(s.loops[host:])
    return once
