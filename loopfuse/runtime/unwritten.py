"""Outputs that a call leaves out: which of their elements have to be cleared, and clearing them.

The manifest says of every `out` array which elements the kernel does not surely write, as boxes
(`base.artifact`). The rest is never filled: it is memory as it comes, and the kernel writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from loopfuse.runtime.formulas import evaluate, names_in

Boxes = tuple[tuple[slice, ...], ...]
"""Parts of one array, as subscripts."""

MOST_CLEARS = 16
"""Pieces of memory that are cleared one by one: beyond these, all of the array is, at once."""


def descriptions(manifest: Mapping[str, Any] | None) -> dict[str, list[Mapping[str, Any]] | None]:
    """By `out` array what the manifest says of it; None where nothing is known."""
    if manifest is None:
        return {}
    return {one["name"]: one.get("unwritten") for one in manifest["parameters"]}


def names_of(manifest: Mapping[str, Any]) -> frozenset[str]:
    """Every name that the boxes' formulas read."""
    texts = [
        text
        for boxes in descriptions(manifest).values()
        for box in boxes or ()
        for text in (box["when"], *(end for pair in box["bounds"] for end in pair))
    ]
    return frozenset().union(*(names_in(str(text)) for text in texts))


def boxes_at(
    described: list[Mapping[str, Any]] | None,
    values: Mapping[str, Any],
    shape: tuple[int, ...],
) -> Boxes | None:
    """The parts to clear at these sizes, those without elements left out; None: the whole array."""
    if described is None:
        return None
    found: list[tuple[slice, ...]] = []
    for box in described:
        if not evaluate(str(box["when"]), values):
            continue
        part = tuple(
            slice(max(0, int(evaluate(str(low), values))), min(extent, int(evaluate(str(high), values))))
            for (low, high), extent in zip(box["bounds"], shape, strict=True)
        )
        if all(one.start < one.stop for one in part):
            if all(one.stop - one.start == extent for one, extent in zip(part, shape)):
                return None
            found.append(part)
    return tuple(found)


def are_untouched(described: list[Mapping[str, Any]], values: Mapping[str, Any]) -> bool:
    """Whether no launch of the call reads or writes what `boxes_at` finds to clear."""
    return all(box.get("untouched") for box in described if evaluate(str(box["when"]), values))


def clear_boxes(array: Any, boxes: Boxes, stream: int = 0) -> None:
    """Zeros in these parts of a NumPy, CuPy or PyTorch array, on the stream that its library takes."""
    for part in boxes:
        array[part] = 0


# ------------------------------------------------------------------------------- as memory

Piece = tuple[int, int, int, int]
"""Evenly spaced runs of bytes: offset of the first, bytes from one to the next, bytes of each, how many."""


def pieces_at(boxes: Boxes | None, shape: tuple[int, ...], item: int) -> tuple[Piece, ...] | None:
    """The parts as memory of an array in C order; None: the whole array."""
    if boxes is None:
        return None
    found: list[Piece] = []
    for part in boxes:
        found += _pieces_of(part, shape, item)
        if len(found) > MOST_CLEARS:
            return None
    return tuple(found)


def _pieces_of(part: tuple[slice, ...], shape: tuple[int, ...], item: int) -> list[Piece]:
    """before: a box in some dimensions
    after: runs without gaps, evenly spaced; several such sets where three dimensions have gaps"""
    steps = [item] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        steps[axis] = steps[axis + 1] * shape[axis + 1]
    offset = sum(one.start * step for one, step in zip(part, steps))
    # Dimensions from the inside: a whole one is one with the next.
    runs: list[tuple[int, int]] = []  # (count, bytes from one to the next), innermost first
    width = item
    for one, step in reversed(list(zip(part, steps))):
        count = one.stop - one.start
        if step == width:
            width *= count
        elif runs and runs[-1][0] * runs[-1][1] == step:
            runs[-1] = (runs[-1][0] * count, runs[-1][1])
        elif count > 1:
            runs.append((count, step))
    if not runs:
        return [(offset, width, width, 1)]
    starts = [offset]
    for count, step in runs[1:]:
        starts = [start + k * step for start in starts for k in range(min(count, MOST_CLEARS + 1))]
        if len(starts) > MOST_CLEARS:
            break
    return [(start, runs[0][1], width, runs[0][0]) for start in starts]


Clear = Callable[[int, tuple[Piece, ...], int], None]
"""Enqueues zeros: the array's address, its pieces, the stream."""
