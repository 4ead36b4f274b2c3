"""What a schedule chose where `Tuning` left it free."""

from __future__ import annotations

from loopfuse.base.choices import Choices
from loopfuse.base.options import Tuning
from loopfuse.plan.schedule import Scheduled
from loopfuse.plan.units.groups import HostGroup


def find_choices(scheduled: Scheduled, tuning: Tuning) -> Choices:
    """The choices in `scheduled`, which was planned under `tuning`: those of its first launch that has any."""
    blocks = any(isinstance(item, HostGroup) for item in scheduled.items)
    found = (fit.choices(tuning) for fit in scheduled.fits.values())
    first = next((one for one in found if one is not None), None)
    if first is None:
        return Choices(False, blocks, Tuning(windows=tuning.windows))
    return Choices(True, blocks, first)
