"""`loopfuse verify`: every kernel of a file (`kernels/verify.py` does it)."""

from __future__ import annotations

from loopfuse.commands.common import Common, open_kernels, say
from loopfuse.kernels.trial import sizes_for
from loopfuse.kernels.verify import verify_kernel


def verify_file(file: str, common: Common, seed: int) -> bool:
    """Verify every chosen kernel of `file` and print what was found; True when all agree."""
    good = True
    kernels = open_kernels(file, common)
    for kernel, own in zip(kernels, sizes_for(kernels, dict(common.sizes))):
        found = verify_kernel(kernel, own, seed, common.target)
        say(str(found))
        good = good and bool(found)
    return good
