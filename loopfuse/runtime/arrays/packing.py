"""Arrays whose elements do not lie at multiples of their size: fields of packed records, buffers that
start at an odd byte (a message, a memory map with an odd header).

Compiled code takes such an array's copy: what it may read is copied before, what it may write is copied
back after. On the CPU; a GPU's array of that sort is refused.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from loopfuse.base.diagnostics import Diagnostic, LoopfuseError
from loopfuse.runtime.binding import CPU_DEVICE, ArrayView, numpy_dtype


@dataclass(frozen=True, slots=True)
class Packed:
    """A parameter's array as given, and its copy; `written`: the kernel may write it."""

    name: str
    given: ArrayView
    copy: Any
    written: bool


def is_misplaced(found: ArrayView) -> bool:
    """Does some element lie at an address that is no multiple of its size?"""
    if found.is_empty:
        return False
    return bool(found.pointer % found.item or any(step % found.item for step in found.byte_strides))


def can_pack(found: ArrayView) -> bool:
    """May a copy stand for it?"""
    return found.device == CPU_DEVICE


def pack(name: str, found: ArrayView, written: bool) -> tuple[Packed, ArrayView]:
    """A packed copy, and the array as the kernel is to see it. MemoryError where there is no room."""
    copy = np.empty(found.shape, numpy_dtype(_known(found)))
    copy[...] = _as_given(found)
    seen = replace(found, pointer=copy.ctypes.data, strides=None, owner=copy)
    return Packed(name, found, copy, written), seen


def write_back(packed: Iterable[Packed]) -> None:
    """What the kernel wrote, into the arrays as given."""
    for one in packed:
        if one.written:
            _as_given(one.given)[...] = one.copy


def copied_text(kernel: str, one: Packed) -> str:
    """The warning that a copy was made."""
    ways = "in and out" if one.written else "in"
    return str(
        LoopfuseError(
            Diagnostic(
                "unaligned-copy",
                f"elements of `{one.name}` do not lie at multiples of their {one.given.item} bytes, "
                f"so each call of `{kernel}` copies it {ways}",
                severity="warning",
                fix=f"pass a copy that you keep: `np.array({one.name})`",
            )
        )
    )


def _known(found: ArrayView) -> Any:
    assert found.dtype is not None  # `read_array` has seen to that
    return found.dtype


def _as_given(found: ArrayView) -> Any:
    """A NumPy array over the memory itself; NumPy reads and writes elements at any address."""
    memory: Any = (ctypes.c_uint8 * (found.end - found.start)).from_address(found.start)
    return np.ndarray(
        found.shape, numpy_dtype(_known(found)), memory, found.pointer - found.start, found.byte_strides
    )
