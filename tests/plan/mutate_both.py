"""Rows of the mutation table on rows and columns of an array that blocks of a GPU go along in one pass. Shares and what threads hold are
small, so that small arrays have several, with rests."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from unittest.mock import patch

from loopfuse.base.options import Tuning
from tests.plan.mutate_one_pass import BOTH, ROOM
from tests.plan.mutate_table import Base, Made, Row, planned


@contextmanager
def small_blocks(share: int = 3, few: int = 2, held: int = 2, short: int = 2, shapes: tuple[tuple[int, int], ...] = ((1, 32), (2, 32))) -> Generator[None, None, None]:
    """Rows and columns in one pass are planned with so many rows for each copy, from more than `few` rows on, and so few places a thread."""
    values = {"ROWS_OF_SHARE": share, "FEW_ROWS": few, "HELD_OF_SHARE": held, "SHARING_ROWS": shapes, "LEAST_SHARED": short}
    with ExitStack() as stack:
        for name, value in values.items():
            stack.enter_context(patch(f"{ROOM}.sizes.{name}", value))
        yield


def _small(name: str, text: str, *sizes: dict[str, int]) -> Base:
    base = planned(name, "sm_90", *sizes, text=text, tuning=Tuning())

    def make() -> Made:
        with small_blocks(shapes=((1, 4),)):
            return base.make()

    return replace(base, name=f"{name} sm_90", make=cache(make))


SIZES = ({"R": 8, "C": 7}, {"R": 4, "C": 1}, {"R": 2, "C": 3})
BASES = [_small("both", BOTH, *SIZES)]
ROWS: list[Row] = []
