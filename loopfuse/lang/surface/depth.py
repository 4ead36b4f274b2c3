"""Room to recurse: programs may be deeper than CPython's default of 1000 frames.

The parser bounds depth (200 nested blocks, 1000 operators in one expression), so a pass that
recurses over a tree ends; it only needs the frames. Pure Python calls take heap, not C stack.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

FRAMES = 20_000
"""Enough for every pass of ours on the deepest tree the checker lets through."""


@contextmanager
def deep_recursion() -> Generator[None, None, None]:
    """Raises the recursion limit to FRAMES inside the block, and puts it back after."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
