"""Calls of a planned kernel, for tests that compare ways to run it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from loopfuse import pipeline
from loopfuse.lang.nodes import ArrayParam

Arrays = dict[str, np.ndarray[Any, Any]]

Draw = Callable[[np.random.Generator, list[int]], Any]
"""An array of a shape."""


def calls(made: pipeline.Planned, every: Iterable[Mapping[str, int]], draw: Draw) -> Iterator[tuple[dict[str, int], Arrays]]:
    """The sizes that the kernel has, of those that it may be called with, and arrays of such numbers."""
    kernel, rng = made.program.kernel, np.random.default_rng(1)
    for sizes in every:
        known = {name: sizes[name] for name in kernel.sizes}
        if all(eval(needed.text, dict(known)) for needed in made.program.preconditions):
            yield known, {array.name: _drawn(array, known, rng, draw) for array in kernel.arrays}


def _drawn(array: ArrayParam, known: Mapping[str, int], rng: np.random.Generator, draw: Draw) -> Any:
    shape = [known[extent.name] for extent in array.extents]  # pyright: ignore
    return draw(rng, shape).astype(array.dtype.numpy_name)


def whole_numbers(rng: np.random.Generator, shape: list[int]) -> Any:
    """Small ones: the order of a sum does not show."""
    return rng.integers(-3, 4, shape)


def copied(arrays: Arrays) -> Arrays:
    """The same numbers in other memory."""
    return {name: value.copy() for name, value in arrays.items()}


def called(kernel: Any, made: pipeline.Planned, arrays: Arrays) -> Arrays:
    """What a kernel makes of copies of the arrays."""
    mine = copied(arrays)
    kernel(*(mine[param.name] for param in made.program.kernel.params))
    return mine
