"""What a plan chose where `Tuning` left it free: where a search for something faster starts."""

from __future__ import annotations

from dataclasses import dataclass

from loopfuse.base.options import Tuning


@dataclass(frozen=True, slots=True)
class Choices:
    """What the planner chose. `streams`: a launch keeps windows of rows; `blocks`: there is a time
    loop on the host, whose iterations may run several in a launch; `tuning`: the values in use
    (of the first launch with windows; 0 where a field says nothing)."""

    streams: bool
    blocks: bool
    tuning: Tuning
