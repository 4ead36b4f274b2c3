"""What a schedule chose where `Tuning` left it free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from loopfuse.base.choices import Choices
from loopfuse.base.options import Tuning
from loopfuse.plan.schedule import Scheduled
from loopfuse.plan.strategies.sliding.windows.blocks import PLANES_AHEAD
from loopfuse.plan.strategies.sliding.windows.shape import AHEAD, Windowed
from loopfuse.tree.looptree import HostLoop, HostNode


def find_choices(scheduled: Scheduled, tuning: Tuning) -> Choices:
    """The choices in `scheduled`, which was planned under `tuning`."""
    first = next(iter(scheduled.windows.values()), None)
    blocks = _has_loop(scheduled.tree.body)
    if first is None:
        return Choices(False, blocks, Tuning(windows=tuning.windows))
    return Choices(True, blocks, _values(first, tuning))


def _values(windowed: Windowed, tuning: Tuning) -> Tuning:
    """The values of a launch's shape, by field: which of them a shape has differs by device and by
    dimensions (strips of a line buffer are its `stored` columns, tiles of planes have a `block`)."""
    shape, time = windowed.shape, windowed.group.time
    band = getattr(getattr(shape, "block", None), "held", 0)
    ahead = windowed.ahead
    if ahead is None:
        ahead = PLANES_AHEAD if windowed.pipeline.abreast else AHEAD
    found: dict[str, Any] = {
        "windows": tuning.windows,
        "columns": getattr(shape, "columns", 0) or getattr(shape, "stored", 0),
        "warps": getattr(shape, "warps", 0),
        "rows": shape.rows,
        "ahead": ahead if tuning.ahead is None else tuning.ahead,
        "steps": 0 if time is None else time.steps,
        "band": band,
        "late": windowed.pipeline.late,
    }
    known = {one.name for one in fields(Tuning)}
    return Tuning(**{name: value for name, value in found.items() if name in known})


def _has_loop(nodes: Sequence[HostNode]) -> bool:
    return any(isinstance(node, HostLoop) for node in nodes)
