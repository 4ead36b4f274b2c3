"""A count in terms of sizes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Formula:
    """A count as a Python expression in the sizes, and its value where they are known."""

    text: str
    value: int | None = None
