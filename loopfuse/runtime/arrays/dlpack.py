"""Reading a DLPack capsule in place (https://dmlc.github.io/dlpack): pointer, shape, dtype.

The capsule is not consumed: whoever keeps it alive keeps the memory alive, and its own
destructor gives the memory back. That is all a call needs, which borrows and never owns.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

_CPU_DEVICES = {1, 3, 11}  # host, CUDA pinned host, ROCm pinned host
_CUDA_DEVICES = {2, 13}  # CUDA, CUDA managed
_READ_ONLY = 1
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}


class _Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("index", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    """DLTensor of dlpack.h: six words."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("rank", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


@dataclass(frozen=True, slots=True)
class Borrowed:
    """What a capsule says; `strides` count elements (None: C order)."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype_name: str
    device_kind: str
    device_index: int
    read_only: bool
    capsule: Any


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


def capsule_pointer(capsule: Any, name: bytes) -> int:
    """The address in a capsule; 0 where it is none of this name."""
    return _pointer(capsule, name) if _is_valid(capsule, name) else 0


def read(array: Any) -> Borrowed | str:
    """What `array.__dlpack__()` describes; a sentence where the exporter refuses or the device is
    neither the CPU nor a CUDA GPU. A GPU exporter makes its data ready on the default stream."""
    try:
        try:
            capsule = array.__dlpack__(max_version=(1, 1))
        except TypeError:
            capsule = array.__dlpack__()
    except Exception as error:  # the exporter's own, whatever they are
        return f"its `__dlpack__` refused: {str(error).partition(chr(10))[0]}"
    flags = 0
    if _is_valid(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        if versioned.major != 1:
            return f"it speaks version {versioned.major} of DLPack, and loopfuse version 1"
        flags, tensor = versioned.flags, versioned.tensor
    elif _is_valid(capsule, b"dltensor"):
        tensor = DLTensor.from_address(_pointer(capsule, b"dltensor"))
    else:
        return "its `__dlpack__` gave no tensor"
    if tensor.device.kind in _CPU_DEVICES:
        kind = "cpu"
    elif tensor.device.kind in _CUDA_DEVICES:
        kind = "cuda"
    else:
        return f"it is on a device of DLPack's kind {tensor.device.kind}, neither CPU nor CUDA"
    name = _KINDS.get(tensor.dtype.code, "unknown")
    if name != "bool":
        name += str(tensor.dtype.bits)
    if tensor.dtype.lanes != 1:
        name += f"x{tensor.dtype.lanes}"
    rank = tensor.rank
    return Borrowed(
        pointer=(tensor.data or 0) + tensor.byte_offset,
        shape=tuple(tensor.shape[k] for k in range(rank)),
        strides=tuple(tensor.strides[k] for k in range(rank)) if tensor.strides else None,
        dtype_name=name,
        device_kind=kind,
        device_index=tensor.device.index,
        read_only=bool(flags & _READ_ONLY),
        capsule=capsule,
    )
