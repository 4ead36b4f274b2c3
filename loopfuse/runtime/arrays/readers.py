"""How generated call paths recognise and read arrays: one `Reader` for each library.

A reader gives pieces of Python source over a local variable. `test` must be true only where
`arguments.read_array` would accept the array for the same parameter, its extents aside; it may be
false for arrays that are fine (those take the checked path).
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from loopfuse.base.dtypes import DType
from loopfuse.runtime.binding import Device, numpy_dtype
from loopfuse.runtime.memory import MEMORY

# NumPy's NPY_ARRAY_C_CONTIGUOUS and NPY_ARRAY_WRITEABLE, as `flags.num` has them.
C_CONTIGUOUS, WRITEABLE = 0x1, 0x400


@dataclass(frozen=True, slots=True)
class Reader:
    """Source that tests an array and reads its address and its strides (as the library counts
    them), with `{a}` for the variable. `names` are the objects it mentions; `zeros` makes an array
    of zeros of shape `{shape}`, `empty` one of whatever memory holds."""

    test: str
    pointer: str
    strides: str
    zeros: str
    empty: str
    names: dict[str, Any]


# -------------------------------------------------------------------------------------- NumPy


_HEADER_WORDS = object.__basicsize__ // 8


def _reads_data_pointers(memory: Any) -> bool:
    """A NumPy array's data pointer is the first word after the object header (NumPy's C ABI,
    `PyArrayObject_fields`): tried on arrays of several sorts."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    base = np.arange(24, dtype=np.int16).reshape(4, 6)
    tried = (base, base[1:], base[:, 2:], base[::-1], np.zeros(()), np.zeros((0, 3), np.uint8))
    return all(
        memory[(id(one) >> 3) + _HEADER_WORDS] == one.__array_interface__["data"][0]
        for one in tried
    )


# `array.__array_interface__` and `array.ctypes` take more than a microsecond, a word of memory
# less than a tenth.
FAST_POINTERS = _reads_data_pointers(MEMORY)


def _numpy_reader(written: bool, packed: bool = True) -> Reader:
    mask = (C_CONTIGUOUS if packed else 0) | (WRITEABLE if written else 0)
    pointer = "{a}.__array_interface__['data'][0]"
    if FAST_POINTERS:
        pointer = f"MEMORY[(id({{a}}) >> 3) + {_HEADER_WORDS}]"
    return Reader(
        test="type({a}) is NUMPY_ARRAY and ({a}.dtype is {d} or {a}.dtype == {d})"
        + (f" and {{a}}.flags.num & {mask} == {mask}" if mask else ""),
        pointer=pointer,
        strides="{a}.strides",
        zeros="NUMPY_ZEROS({shape}, {d})",
        empty="NUMPY_EMPTY({shape}, {d})",
        names={"NUMPY_ARRAY": np.ndarray, "NUMPY_ZEROS": np.zeros, "NUMPY_EMPTY": np.empty, "MEMORY": MEMORY},
    )


# ------------------------------------------------------------------------------ GPU libraries


def _torch_reader(device: Device, alone: bool, packed: bool = True) -> Reader:
    """A tensor of another layout (sparse, say) has no contiguity, no strides or no data pointer:
    asking raises, which counts as a false test."""
    torch = sys.modules["torch"]
    where = "{a}.is_cpu"
    if device.kind != "cpu":
        where = "{a}.is_cuda" if alone else f"{{a}}.is_cuda and {{a}}.get_device() == {device.index}"
    return Reader(
        test=f"type({{a}}) is {{t}} and {{a}}.dtype is {{d}} and {where} and "
        + ("{a}.is_contiguous() and " if packed else "")
        + "not {a}.is_neg() and not ({a}.requires_grad and TORCH_GRAD())",
        pointer="{a}.data_ptr()",
        strides="{a}.stride()",
        zeros="TORCH_ZEROS({shape}, dtype={d}, device=TORCH_DEVICE)",
        empty="TORCH_EMPTY({shape}, dtype={d}, device=TORCH_DEVICE)",
        names={
            "TORCH_ZEROS": torch.zeros, "TORCH_EMPTY": torch.empty,
            "TORCH_DEVICE": torch.device(str(device)), "TORCH_GRAD": torch.is_grad_enabled,
        },
    )


def _cupy_reader(array: Any, device: Device, alone: bool, packed: bool = True) -> Reader:
    cupy = sys.modules["cupy"]
    # `flags` makes an object each time; the private flag is what it reads.
    asked = "{a}._c_contiguous" if hasattr(array, "_c_contiguous") else "{a}.flags.c_contiguous"
    where = "" if alone else f" and {{a}}.device.id == {device.index}"
    return Reader(
        test=f"type({{a}}) is {{t}} and ({{a}}.dtype is {{d}} or {{a}}.dtype == {{d}}) "
        f"{f'and {asked}' if packed else ''}{where}",
        pointer="{a}.data.ptr",
        strides="{a}.strides",
        zeros="CUPY_ZEROS({shape}, {d})",
        empty="CUPY_EMPTY({shape}, {d})",
        names={"CUPY_ZEROS": cupy.zeros, "CUPY_EMPTY": cupy.empty},
    )


def strides_of(array: Any) -> tuple[int, ...]:
    """What `Reader.strides` reads of an array that has a reader."""
    return tuple(array.stride() if hasattr(array, "stride") else array.strides)


def reader_for(
    array: Any, device: Device, written: bool, alone: bool, packed: bool = True
) -> Reader | None:
    """The reader for arrays of `array`'s type; None for a type without one. `alone` says that
    the process sees one GPU, so that any GPU array is on it. Without `packed` its test says
    nothing of strides."""
    kind = type(array)
    if kind is np.ndarray:
        return _numpy_reader(written, packed)
    torch = sys.modules.get("torch")
    if torch is not None and kind in (torch.Tensor, torch.nn.Parameter):
        return _torch_reader(device, alone, packed)
    cupy = sys.modules.get("cupy")
    if cupy is not None and kind is cupy.ndarray:
        return _cupy_reader(array, device, alone, packed)
    return None


def maker_for(library: str, device: Device, dtype: DType) -> tuple[Reader, Any] | None:
    """How `views.allocate` makes an array of `library` on `device`: a reader for it,
    and the library's dtype; None where it cannot."""
    if library == "torch":
        made = getattr(sys.modules["torch"], dtype.numpy_name)
        return _torch_reader(device, True), made
    if device.kind == "cpu":
        return _numpy_reader(True), numpy_dtype(dtype)
    if library == "cupy":
        return _cupy_reader(None, device, True), numpy_dtype(dtype)
    return None
