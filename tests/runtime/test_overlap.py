"""Which views share memory: against the sets of their bytes."""

from __future__ import annotations

import random
from itertools import product

import pytest

from loopfuse.base.dtypes import DType
from loopfuse.runtime.arrays import overlap
from loopfuse.runtime.arrays.overlap import overlaps_itself, share_memory
from loopfuse.runtime.arrays.views import _gaps
from loopfuse.runtime.binding import CPU_DEVICE, ArrayView

DTYPES = {1: DType.U8, 2: DType.F16, 4: DType.F32, 8: DType.F64}


def made(pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> ArrayView:
    return ArrayView(
        pointer, shape, DTYPES[item], CPU_DEVICE, False, _gaps(shape, strides, item), None
    )


def elements(one: ArrayView) -> list[range]:
    places = [
        one.pointer + sum(i * s for i, s in zip(index, one.byte_strides))
        for index in product(*map(range, one.shape))
    ]
    return [range(place, place + one.item) for place in places]


def some(rng: random.Random) -> ArrayView:
    rank, item = rng.randrange(4), rng.choice([1, 2, 4, 8])
    shape = tuple(rng.choice([0, 1, 2, 3, 4]) if rng.random() < 0.2 else rng.randrange(1, 5) for _ in range(rank))
    strides = tuple(item * rng.randrange(-9, 10) for _ in range(rank))
    return made(4096 + item * rng.randrange(-20, 20), shape, strides, item)


def test_ranges_and_pairs_against_sets_of_bytes() -> None:
    rng = random.Random(1)
    shared = apart_inside = 0
    for _ in range(4000):
        one, other = some(rng), some(rng)
        bytes_of = [{b for e in elements(v) for b in e} for v in (one, other)]
        for found, covered in zip((one, other), bytes_of):
            if covered:
                assert (found.start, found.end) == (min(covered), max(covered) + 1)
            assert found.is_empty == (not covered)
        together = bool(bytes_of[0] & bytes_of[1])
        assert share_memory(one, other) == share_memory(other, one) == together
        shared += together
        apart_inside += bool(
            not together and all(bytes_of) and one.start < other.end and other.start < one.end
        )
    assert shared > 500 and apart_inside > 100


def test_elements_of_one_against_sets_of_bytes() -> None:
    rng = random.Random(2)
    answers = [0, 0]
    for _ in range(4000):
        one = some(rng)
        places = elements(one)
        doubled = len({b for e in places for b in e}) < one.item * len(places)
        assert overlaps_itself(one) == doubled, (one, one.byte_strides)
        answers[doubled] += not one.contiguous
    assert min(answers) > 500


def test_what_is_too_hard_counts_as_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    one = made(1048576, (6, 6), (464, 956), 4)
    other = made(1050448, (6, 5), (1480, 1388), 4)
    assert not share_memory(one, other)
    monkeypatch.setattr(overlap, "WORK_LIMIT", 1)
    assert share_memory(one, other)


def test_strides_along_an_extent_of_one_do_not_count() -> None:
    one = made(4096, (1, 3), (-999, 4), 4)
    assert one.contiguous and (one.start, one.end) == (4096, 4108)
    gaps = made(4096, (1, 3), (-999, 8), 4)
    assert gaps.byte_strides == (0, 8) and not overlaps_itself(gaps)
