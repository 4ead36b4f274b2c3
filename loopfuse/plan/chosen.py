"""What a schedule chose where `Tuning` left it free."""

from __future__ import annotations

from collections.abc import Sequence

from loopfuse.base.choices import Choices
from loopfuse.base.options import Tuning
from loopfuse.plan.looptree import HostLoop, HostNode
from loopfuse.plan.schedule import Scheduled
from loopfuse.plan.window_shape import AHEAD, Windowed


def find_choices(scheduled: Scheduled, tuning: Tuning) -> Choices:
    """The choices in `scheduled`, which was planned under `tuning`."""
    first = next(iter(scheduled.windows.values()), None)
    blocks = _has_loop(scheduled.tree.body)
    if first is None:
        return Choices(False, blocks, Tuning(windows=tuning.windows))
    return Choices(True, blocks, _values(first, tuning))


def _values(windowed: Windowed, tuning: Tuning) -> Tuning:
    shape, time = windowed.shape, windowed.group.time

    def number(name: str) -> int:
        return int(getattr(shape, name, 0))  # what the shape has: they differ by device

    return Tuning(
        windows=tuning.windows,
        columns=number("columns") or number("stored"),
        warps=number("warps"),
        rows=number("rows"),
        ahead=AHEAD if tuning.ahead is None else tuning.ahead,
        steps=0 if time is None else time.steps,
    )


def _has_loop(nodes: Sequence[HostNode]) -> bool:
    return any(isinstance(node, HostLoop) for node in nodes)
