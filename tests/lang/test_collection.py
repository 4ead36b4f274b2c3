"""Garbage is looked for less often inside a compile, and as before after it."""

from __future__ import annotations

import gc

import pytest

from loopfuse.lang.collection import OBJECTS, rare_collection


def test_inside_and_after() -> None:
    before = gc.get_threshold()
    try:
        gc.set_threshold(700, 10, 10)
        with rare_collection():
            assert gc.get_threshold() == (OBJECTS, 10, 10)
            with rare_collection():
                assert gc.get_threshold() == (OBJECTS, 10, 10)
        with pytest.raises(ValueError), rare_collection():
            raise ValueError
        assert gc.get_threshold() == (700, 10, 10)
    finally:
        gc.set_threshold(*before)


@pytest.mark.parametrize("chosen", [0, OBJECTS, 2 * OBJECTS])
def test_what_the_caller_chose_stays(chosen: int) -> None:
    before = gc.get_threshold()
    try:
        gc.set_threshold(chosen, 5, 5)
        with rare_collection():
            assert gc.get_threshold()[0] == chosen
    finally:
        gc.set_threshold(*before)
