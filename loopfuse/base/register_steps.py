"""How many registers a thread may have, so that a multiprocessor holds as many warps as possible.

Each of its four parts has 16384 registers of 32 bits and gives them to whole warps, eight a thread
at a time: with 169 to 255 registers a part holds two warps, with 129 to 168 three.
"""

from __future__ import annotations

MOST = 255
"""Registers that a thread can have."""
_PART = 16384 // 32
"""Registers that a part of a multiprocessor has for one lane of all its warps."""
_WARPS = (16, 12, 10, 9, 8, 7, 6, 5, 4, 3)
STEPS = (*(_PART // warps // 8 * 8 for warps in _WARPS), MOST)
"""The most registers with which a part holds 16, 12, 10, 9, 8, 7, 6, 5, 4, 3, 2 warps."""


def step_for(registers: int) -> int:
    """The most registers with which a multiprocessor holds as many warps as with these."""
    return next((step for step in STEPS if step >= registers), MOST)


def warps_with(registers: int) -> int:
    """How many warps a multiprocessor holds, if a thread has that many registers."""
    return 4 * (_PART // (-(-registers // 8) * 8))


def registers_with(warps: int) -> int:
    """How many registers a thread may have where a block of so many warps runs on each
    multiprocessor, whose parts take every fourth of them."""
    return min(MOST, _PART // -(-warps // 4) // 8 * 8)
