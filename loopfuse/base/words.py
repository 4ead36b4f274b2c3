"""Numbers as sentences say them."""

from __future__ import annotations

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
