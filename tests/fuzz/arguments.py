"""The arrays of a call: data by seed, shared and strided as the program says."""

from __future__ import annotations

from typing import Any

import numpy as np
from case_files import make_arguments

from fuzz.program import Program
from loopfuse.lang import nodes

VIEWS = ("transposed", "reversed", "upside_down", "every_other", "window", "broadcast")
"""Kinds of views; a broadcast one is only read."""


TOGETHER = ("halves", "rows", "columns")
"""How two arrays may lie in one block of memory: one behind the other, or by turns along the first or
last dimension. No element is in both, so they are like two arrays of their own."""


def arguments_of(program: Program, kernel: nodes.Kernel) -> dict[str, Any]:
    """Fresh packed arrays and scalars."""
    values = make_arguments(kernel, program.sizes, program.scalars, program.data, program.seed)
    if program.faults:
        rng = np.random.default_rng(program.seed + 99)
        for param in kernel.arrays:
            array = values[param.name]
            if param.mode == "in" and array.dtype.kind in "iu" and array.size:
                wild = rng.integers(-3, 25, array.shape).astype(array.dtype)
                values[param.name] = np.where(rng.random(array.shape) < 0.2, wild, array)
    for one, other in program.shared:
        if one in values and other in values:
            values[other] = values[one]
    for name, kind in program.views:
        if kind == "broadcast" and name in values and values[name].ndim:
            array = values[name]
            values[name] = np.ascontiguousarray(np.broadcast_to(array[:1], array.shape))
    return values


def copied(program: Program, arguments: dict[str, Any]) -> dict[str, Any]:
    """Arrays of the same elements to call with: views where the program says so, and one object
    for the arrays that are one."""
    made = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
    for name, kind in program.views:
        if name in made and isinstance(made[name], np.ndarray) and made[name].ndim:
            made[name] = as_view(made[name], kind)
    for one, other in program.shared:
        if one in made and other in made:
            made[other] = made[one]
    for pair, kind in program.together:
        one, other = pair.split("+")
        if one in made and other in made:
            made[one], made[other] = in_one_block(made[one], made[other], kind)
    return made


def in_one_block(one: np.ndarray, other: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Views of one block of memory, with the elements of the two arrays."""
    match kind:
        case "halves":
            space = np.zeros(one.size + other.size, one.dtype)
            views = space[: one.size].reshape(one.shape), space[one.size :].reshape(other.shape)
        case "rows":
            space = np.zeros((2 * one.shape[0], *one.shape[1:]), one.dtype)
            views = space[0::2], space[1::2]
        case "columns":
            space = np.zeros((*one.shape[:-1], 2 * one.shape[-1]), one.dtype)
            views = space[..., 0::2], space[..., 1::2]
        case _:
            raise ValueError(kind)
    for view, array in zip(views, (one, other), strict=True):
        view[...] = array
    return views


def overlapping(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The last element of `one` is the first of `other`; both have one at least."""
    space = np.concatenate([one.reshape(-1), other.reshape(-1)[1:]])
    return space[: one.size].reshape(one.shape), space[one.size - 1 :].reshape(other.shape)


def as_view(array: np.ndarray, kind: str) -> np.ndarray:
    """A view of memory of its own, with the elements of `array`."""
    match kind:
        case "transposed":
            return np.ascontiguousarray(array.T).T
        case "reversed":
            return np.ascontiguousarray(array[..., ::-1])[..., ::-1]
        case "upside_down":
            return np.ascontiguousarray(array[::-1])[::-1]
        case "every_other":
            space = np.zeros((*array.shape[:-1], 2 * array.shape[-1] + 1), array.dtype)
            view = space[..., 1::2]
        case "window":
            space = np.zeros(tuple(n + 3 for n in array.shape), array.dtype)
            view = space[tuple(slice(1, n + 1) for n in array.shape)]
        case "broadcast":
            return np.broadcast_to(array[0] if array.size else array, array.shape)
        case _:
            raise ValueError(kind)
    view[...] = array
    return view
