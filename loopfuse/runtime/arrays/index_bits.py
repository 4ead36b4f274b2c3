"""How wide a call's index arithmetic must be."""

from __future__ import annotations

from math import prod

from loopfuse.runtime.arrays.arguments import Signature
from loopfuse.runtime.arrays.arrays import Match
from loopfuse.runtime.formulas import evaluate

INDEX_LIMIT = 1 << 31


def index_bits_for(signature: Signature, matched: Match) -> int:
    """32 when every array of the call has fewer than 2**31 bytes (extents of 0 count as 1: code may
    multiply the others), and a view's lie less than 2**31 apart, every size is below 2**31 over the
    bytes of the narrowest element (which is what 32-bit index arithmetic relies on: a size beside an
    extent of 0 is bounded by no array), and every integer argument fits 31 bits; else 64.
    """
    widths = [parameter.dtype.bytes for parameter in signature.parameters if parameter.is_array]
    limit = INDEX_LIMIT // min(widths, default=8)
    if any(matched.values[name] >= limit for name in signature.sizes):
        return 64
    for found in matched.views.values():
        count = prod(max(1, extent) for extent in found.shape) * found.item
        if max(count, found.end - found.start) >= INDEX_LIMIT:
            return 64
    for parameter in matched.omitted:
        count = parameter.dtype.bytes
        for extent in parameter.extents or ():
            count *= max(1, int(evaluate(extent, matched.values)))
        if count >= INDEX_LIMIT:
            return 64
    for value in matched.values.values():
        if isinstance(value, int) and abs(value) >= INDEX_LIMIT:
            return 64
    return 32
