"""Numbers and names as sentences say them."""

from __future__ import annotations

import re
from collections.abc import Mapping

NOTICED = 0.005
"""A ratio nearer to 1 than this is said to be the same: it would print as 1.00."""


def faster_text(ratio: float, than: str) -> str:
    """`2.00 times faster than X`, `1.25 times slower than X` (for 0.8), or `as fast as X`."""
    if abs(ratio - 1) < NOTICED:
        return f"as fast as {than}"
    if ratio > 1:
        return f"{ratio:.2f} times faster than {than}"
    return f"{1 / ratio:.2f} times slower than {than}"


def as_fast_text(ratio: float, than: str) -> str:
    """`2.00 times as fast as X`, and below 1 as `faster_text`."""
    if ratio > 1 + NOTICED:
        return f"{ratio:.2f} times as fast as {than}"
    return faster_text(ratio, than)


def spell(text: str, spelled: Mapping[str, str], is_code: bool = False) -> str:
    """`text` with sizes as a programmer writes them (`spelled`: `x_0` as `len(x)`); `x_0=...`, by which a call gives a size, stays, and
    where the text may be code (a fix) `x_0=16` too."""
    if not spelled:
        return text
    names, keyword = "|".join(map(re.escape, spelled)), "=(?!=)" if is_code else r"=\.\.\."
    return re.sub(rf"\b({names})\b(?!{keyword})", lambda found: spelled[found[0]], text)
