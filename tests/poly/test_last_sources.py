"""Questions in fewer dimensions have the answers of those in all, on random small relations."""

from __future__ import annotations

import random
from typing import Any

import pytest

from loopfuse.poly import isl
from loopfuse.proof.accesses import without


def some_map(context: isl.Context, rng: random.Random, name: str, kinds: int) -> Any:
    """{ name[i, j] -> cell[..] }: a few pieces, each on some of i and j."""
    space = isl.set_space(context, (), ("i", "j"), name)
    reader = isl.Reader(space)
    out: Any = None
    for _ in range(rng.randint(1, kinds)):
        values = [reader.affine({"i": rng.randint(-1, 1), "j": rng.randint(-1, 1), "": rng.randint(0, 1)}) for _ in "ab"]
        piece = isl.relation_of(space, values, "cell")
        for side in ("i", "j"):
            low = rng.randint(0, 3)
            here = reader.affine({side: 1})
            piece = piece.intersect_domain(here.ge_set(reader.constant(low)))
            piece = piece.intersect_domain(here.le_set(reader.constant(low + rng.randint(0, 2))))
        out = piece if out is None else out.union(piece)
    return out


def times(context: isl.Context, name: str, place: int) -> Any:
    """{ name[i, j] -> time[i, place, j] }."""
    space = isl.set_space(context, (), ("i", "j"), name)
    reader = isl.Reader(space)
    return isl.relation_of(space, [reader.affine({"i": 1}), reader.constant(place), reader.affine({"j": 1})], "time")


@pytest.mark.parametrize("seed", range(12))
def test_last_write_before_a_read_of_one_place(seed: int) -> None:
    """The access alone tells as much as the access with the element it touches."""
    rng, context = random.Random(seed), isl.Context()
    sink = some_map(context, rng, "read", 1)
    sources = [
        isl.Source(some_map(context, rng, name, 2), times(context, name, place), (0, 1, 2), True)
        for name, place in (("one", 0), ("two", 2))
    ]
    when = times(context, "read", 1)
    alone = isl.last_sources_of_one(sink, when, sources)
    both = isl.last_sources(sink, when, sources, True)
    for one, other in zip(alone, both, strict=True):
        assert (one is None) == (other is None)
        if other is not None:
            assert one.is_equal(other.range_factor_domain())


@pytest.mark.parametrize("seed", range(12))
def test_what_is_missing_is_the_difference(seed: int) -> None:
    """Of functions and of others, of values that are all there and of those that are not."""
    rng, context = random.Random(seed), isl.Context()
    value, found = some_map(context, rng, "read", 3), [some_map(context, rng, "read", 3) for _ in "ab"]
    if seed % 3 == 0:
        found.append(value.subtract(found[0]))
    if seed % 4 == 1:
        value = value.union(value.range().identity().set_tuple_name(isl.IN, "read"))
        value = isl.universe_map(value.get_space()).intersect_domain(value.domain()).intersect_range(value.range())
        found.append(value)
    expected = value.subtract(found[0].union(found[1]).union(found[-1]))
    assert without(value, found).is_equal(expected)


def test_what_a_function_holds_besides_does_not_count() -> None:
    """A read that finds two values of the right kind finds what it must; one that finds another does not."""
    context = isl.Context()
    space = isl.set_space(context, (), ("i", "j"), "read")
    reader = isl.Reader(space)
    right = isl.relation_of(space, [reader.affine({"i": 1})], "cell")
    wrong = isl.relation_of(space, [reader.affine({"i": 1, "": 1})], "cell")
    assert without(right, [wrong, right]).is_empty()
    assert without(right, [wrong]).is_equal(right)
