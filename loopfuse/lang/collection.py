"""Fewer garbage collections while something is compiled.

A compile makes hundreds of thousands of small objects that live until it ends, and CPython looks
through the young ones at every 700th (and, ever so often, through all): up to a third of the time
of lowering a large kernel, for nothing. What is made in circles is still found, later.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

OBJECTS = 50_000
"""New objects between two looks: some ten megabytes."""


@contextmanager
def rare_collection() -> Generator[None, None, None]:
    """Inside the block, the collector starts after OBJECTS new objects; not where the caller has
    turned it off or has it start later still."""
    before = gc.get_threshold()
    if not 0 < before[0] < OBJECTS:
        yield
        return
    gc.set_threshold(OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
