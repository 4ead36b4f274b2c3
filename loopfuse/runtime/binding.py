"""Arrays as the runtime sees them, and a call's arguments bound: what devices are given to run on."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loopfuse.base.dtypes import DType

Value = bool | int | float
"""A size, or a scalar argument."""


@dataclass(frozen=True, slots=True)
class Device:
    """Where memory is: `cpu`, or `cuda` with the GPU's number."""

    kind: str
    index: int = 0

    def __str__(self) -> str:
        return self.kind if self.kind == "cpu" else f"{self.kind}:{self.index}"


CPU_DEVICE = Device("cpu")


@dataclass(frozen=True, slots=True)
class ArrayView:
    """An array as the runtime sees it.

    `dtype` is None for an element type the language lacks (`dtype_name` says which); `pointer` is
    the first element's address; `strides` are in bytes, None for C order without gaps; `library` is
    `numpy`, `torch`, `cupy`, `jax` or `other`; `stream` is the CUDA stream its producer says it is
    being written on (None: nothing to wait for); `owner` keeps the memory alive; `borrowed`: the
    producer may use the memory again as soon as `owner` is let go, whatever runs on the GPU.
    """

    pointer: int
    shape: tuple[int, ...]
    dtype: DType | None
    device: Device
    read_only: bool
    strides: tuple[int, ...] | None
    owner: Any = field(repr=False, compare=False)
    dtype_name: str = ""
    library: str = "other"
    stream: int | None = None
    borrowed: bool = False

    @property
    def contiguous(self) -> bool:
        """In C order without gaps. Arrays of no or one element always are."""
        return self.strides is None

    @property
    def item(self) -> int:
        """Bytes of an element; 0 for a type that the language lacks."""
        return self.dtype.bytes if self.dtype else 0

    @property
    def is_empty(self) -> bool:
        """There is no element."""
        return 0 in self.shape

    @property
    def size_bytes(self) -> int:
        """Bytes of all elements, as if none shared memory."""
        return math.prod(self.shape) * self.item

    @property
    def packed_dimensions(self) -> int:
        """How many of the last dimensions have their elements one after the other."""
        count, expected = 0, self.item
        for extent, step in zip(reversed(self.shape), reversed(self.byte_strides)):
            if extent != 1 and step != expected:
                break
            count, expected = count + 1, expected * extent
        return count

    @property
    def byte_strides(self) -> tuple[int, ...]:
        """The strides in bytes, also of an array without gaps; 0 along an extent of 1."""
        if self.strides is not None:
            return tuple(s if n != 1 else 0 for s, n in zip(self.strides, self.shape))
        strides: list[int] = []
        step = self.item
        for extent in reversed(self.shape):
            strides.append(step if extent != 1 else 0)
            step *= extent
        return tuple(reversed(strides))

    @property
    def start(self) -> int:
        """The lowest address of any element."""
        if self.strides is None or self.is_empty:
            return self.pointer
        back = sum(s * (n - 1) for s, n in zip(self.byte_strides, self.shape) if s < 0)
        return self.pointer + back

    @property
    def end(self) -> int:
        """The address past the highest byte of any element."""
        if self.strides is None or self.is_empty:
            return self.pointer + self.size_bytes
        ahead = sum(s * (n - 1) for s, n in zip(self.byte_strides, self.shape) if s > 0)
        return self.pointer + ahead + self.item


@dataclass(frozen=True, slots=True)
class Binding:
    """A call ready to run. `outputs` are the arrays allocated for it, in parameter order."""

    kernel: str
    views: dict[str, ArrayView]
    values: dict[str, Value]
    device: Device
    library: str
    outputs: tuple[Any, ...] = field(default=())

    @property
    def aligned(self) -> bool:
        """Every array argument starts on a 16-byte boundary."""
        return all(found.pointer % 16 == 0 for found in self.views.values())

    @property
    def result(self) -> Any:
        """What the call returns: nothing, the allocated output, or the tuple of them."""
        if not self.outputs:
            return None
        return self.outputs[0] if len(self.outputs) == 1 else self.outputs


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype of `dtype` (bf16 is ml_dtypes')."""
    if dtype is DType.BF16:
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(dtype.numpy_name)
