"""Which bytes views cover, and whether two of them, or two elements of one, share memory.

Strides are in bytes. Questions that byte ranges leave open (interleaved slices, say) go to
NumPy's solver of bounded Diophantine equations, which looks at addresses alone and never at
memory, so that GPU arrays may be asked about too. It may give up; then the answer is "they do".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loopfuse.runtime.binding import ArrayView

# How many candidate solutions NumPy may look at: about a millisecond. (Its stubs know -1 and 0.)
WORK_LIMIT: Any = 10_000
_WORDS = {1: "|u1", 2: "<u2", 4: "<u4", 8: "<u8"}


def share_memory(one: ArrayView, other: ArrayView) -> bool:
    """Whether a byte belongs to both views (or we cannot tell)."""
    if one.is_empty or other.is_empty:
        return False
    if one.start >= other.end or other.start >= one.end:
        return False
    if one.contiguous and other.contiguous:
        return True
    return _solve(
        _shadow(one.pointer, one.shape, one.byte_strides, one.item),
        _shadow(other.pointer, other.shape, other.byte_strides, other.item),
    )


def overlaps_itself(found: ArrayView) -> bool:
    """Whether two elements of the view share memory (or we cannot tell)."""
    if found.contiguous or found.is_empty:
        return False
    axes = [(abs(s), n) for s, n in zip(found.byte_strides, found.shape) if n > 1]
    if any(stride == 0 for stride, _ in axes):
        return True
    reach = found.item
    for stride, extent in sorted(axes):
        if stride < reach:
            break
        reach = stride * (extent - 1) + reach
    else:
        return False
    # Two different elements first differ along some axis. Up to there they have the same place,
    # which may be 0; there one is further on; behind it both may be anywhere.
    strides, shape = [s for s, _ in axes], [n for _, n in axes]
    for axis in range(len(axes)):
        inner_shape, inner_strides = shape[axis + 1 :], strides[axis + 1 :]
        base = 1 << 40  # any address: only differences matter
        first = _shadow(base, inner_shape, inner_strides, found.item)
        rest = _shadow(
            base + strides[axis],
            [shape[axis] - 1, *inner_shape],
            [strides[axis], *inner_strides],
            found.item,
        )
        if _solve(first, rest):
            return True
    return False


class _Interface:
    """An array that NumPy makes a view of: never read, its addresses are all that counts."""

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface


def _shadow(pointer: int, shape: Sequence[int], strides: Sequence[int], item: int) -> Any:
    return np.asarray(
        _Interface(
            {
                "version": 3, "shape": tuple(shape), "strides": tuple(strides),
                "typestr": _WORDS[item], "data": (pointer, True),
            }
        )
    )  # fmt: skip


def _solve(one: Any, other: Any) -> bool:
    try:
        return bool(np.shares_memory(one, other, max_work=WORK_LIMIT))
    except np.exceptions.TooHardError:
        return True
