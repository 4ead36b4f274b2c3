"""Whether two runs computed the same: every bit, or to rounding where sums may be reordered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from loopfuse.base.dtypes import DType
from loopfuse.runtime.binding import numpy_dtype

BOUNDS = {DType.F16: 4e-3, DType.BF16: 3e-2, DType.F32: 1e-4, DType.F64: 1e-11}
"""How far a reordered sum may lie apart, relatively and absolutely (docs/testing.md; for the
storage types four of their own units)."""


def first_difference(
    expected: Mapping[str, Any],
    found: Mapping[str, Any],
    dtypes: Mapping[str, DType],
    loosely: bool = False,
) -> str:
    """The first array whose bytes mean something else, with both values; empty where all agree.

    Arrays are bytes (u8) by name. Two NaNs are equal. `loosely`: floats agree within `BOUNDS`.
    """
    for name, bytes_expected in expected.items():
        dtype = dtypes[name]
        text = _difference(name, bytes_expected, found[name], dtype, loosely)
        if text:
            return text
    return ""


def _difference(name: str, expected: Any, found: Any, dtype: DType, loosely: bool) -> str:
    if np.array_equal(expected, found):
        return ""
    item = dtype.bytes
    if expected.size != found.size or expected.size % item:
        return f"`{name}` differs"
    bits = np.dtype(f"u{item}")
    places = np.flatnonzero(expected.view(bits) != found.view(bits))
    kind = numpy_dtype(dtype)
    left, right = expected.view(kind)[places], found.view(kind)[places]
    if dtype.is_float:
        wide = left.astype(np.float64), right.astype(np.float64)
        same = np.isnan(wide[0]) & np.isnan(wide[1])
        if loosely:
            bound = BOUNDS[dtype]
            same |= np.isclose(wide[1], wide[0], bound, bound)
        if bool(same.all()):
            return ""
        at = int(np.argmin(same))
    else:
        at = 0
    return (
        f"element {int(places[at])} of `{name}` (counted in memory) is {right[at].item()!r}, and "
        f"{left[at].item()!r} by default"
    )
