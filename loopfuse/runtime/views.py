"""Recognising arrays of any library without importing it: one `ArrayView` for all of them.

Order of the questions: NumPy, PyTorch, CuPy (by the type's home module, looked up in
`sys.modules` only), then the protocols `__cuda_array_interface__`, `__array_interface__` and
`__dlpack__`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from loopfuse.base.dtypes import DType, from_numpy_name
from loopfuse.runtime import dlpack


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

    `dtype` is None for an element type the language lacks (`dtype_name` says which); `strides`
    are in bytes, None for C order; `library` is `numpy`, `torch`, `cupy` or `other`; `stream` is
    the CUDA stream its producer says it is being written on (None: nothing to wait for); `owner`
    keeps the memory alive.
    """

    pointer: int
    shape: tuple[int, ...]
    dtype: DType | None
    device: Device
    read_only: bool
    contiguous: bool
    owner: Any = field(repr=False, compare=False)
    dtype_name: str = ""
    library: str = "other"
    stream: int | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes from the first element to past the last, for a contiguous array."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count * (self.dtype.bytes if self.dtype else 0)


@lru_cache(maxsize=64)
def _torch_dtype(dtype: Any) -> tuple[DType | None, str]:
    name = str(dtype).removeprefix("torch.")
    return from_numpy_name(name), name


@lru_cache(maxsize=64)
def _numpy_dtype(dtype: np.dtype[Any]) -> tuple[DType | None, str]:
    name = dtype.name if dtype.isnative else f"{dtype.name} of the other byte order"
    return from_numpy_name(name), name


def _packed(shape: tuple[int, ...], strides: tuple[int, ...] | None, item: int) -> bool:
    """True when `strides` (bytes) are those of C order; an extent of 1 may have any stride."""
    if strides is None or 0 in shape:
        return True
    expected = item
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


def _view_numpy(array: Any) -> ArrayView:
    dtype, name = _numpy_dtype(array.dtype)
    return ArrayView(
        pointer=array.__array_interface__["data"][0],
        shape=array.shape,
        dtype=dtype,
        device=CPU_DEVICE,
        read_only=not array.flags.writeable,
        contiguous=array.flags.c_contiguous,
        owner=array,
        dtype_name=name,
        library="numpy",
    )


def _view_torch(tensor: Any) -> ArrayView | None:
    if str(tensor.layout) != "torch.strided" or tensor.device.type not in ("cpu", "cuda"):
        return None
    dtype, name = _torch_dtype(tensor.dtype)
    where = tensor.device
    device = CPU_DEVICE if where.type == "cpu" else Device("cuda", where.index or 0)
    return ArrayView(
        pointer=tensor.data_ptr(),
        shape=tuple(tensor.shape),
        dtype=dtype,
        device=device,
        read_only=False,
        contiguous=tensor.is_contiguous(),
        owner=tensor,
        dtype_name=name,
        library="torch",
    )


def _view_cupy(array: Any) -> ArrayView:
    dtype, name = _numpy_dtype(array.dtype)
    return ArrayView(
        pointer=array.data.ptr,
        shape=array.shape,
        dtype=dtype,
        device=Device("cuda", array.device.id),
        read_only=False,
        contiguous=array.flags.c_contiguous,
        owner=array,
        dtype_name=name,
        library="cupy",
    )


def _view_cuda_interface(array: Any, interface: dict[str, Any]) -> ArrayView:
    pointer, read_only = interface["data"]
    shape = tuple(interface["shape"])
    described = np.dtype(interface["typestr"])
    dtype, name = _numpy_dtype(described)
    device = getattr(array, "device", None)
    index = getattr(device, "id", None)
    return ArrayView(
        pointer=int(pointer or 0),
        shape=shape,
        dtype=dtype,
        device=Device("cuda", index if isinstance(index, int) else 0),
        read_only=bool(read_only),
        contiguous=_packed(shape, interface.get("strides"), described.itemsize),
        owner=array,
        dtype_name=name,
        stream=interface.get("stream"),
    )


def _view_dlpack(array: Any) -> ArrayView | None:
    tensor = dlpack.read(array)
    if tensor is None:
        return None
    dtype = from_numpy_name(tensor.dtype_name)
    item = dtype.bytes if dtype else 1
    strides = None if tensor.strides is None else tuple(s * item for s in tensor.strides)
    return ArrayView(
        pointer=tensor.pointer,
        shape=tensor.shape,
        dtype=dtype,
        device=Device(tensor.device_kind, tensor.device_index),
        read_only=tensor.read_only,
        contiguous=_packed(tensor.shape, strides, item),
        owner=(array, tensor.capsule),
        dtype_name=tensor.dtype_name,
    )


def view(value: Any) -> ArrayView | None:
    """`value` as an ArrayView, or None when it is no array that we can see the memory of."""
    if isinstance(value, np.ndarray):
        return _view_numpy(value)
    home = type(value).__module__.partition(".")[0]
    if "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor):
        return _view_torch(value)
    if home == "cupy" and hasattr(value, "data") and hasattr(value, "flags"):
        return _view_cupy(value)
    if isinstance(value, np.generic):
        return None
    interface = getattr(value, "__cuda_array_interface__", None)
    if isinstance(interface, dict):
        return _view_cuda_interface(value, interface)
    if hasattr(value, "__array_interface__"):
        return _view_numpy(np.asarray(value))
    if hasattr(value, "__dlpack__"):
        return _view_dlpack(value)
    return None


def allocate(library: str, device: Device, shape: tuple[int, ...], dtype: DType) -> Any:
    """A new array of zeros of `library` on `device`; None where we cannot make one."""
    if library == "torch":
        torch = sys.modules["torch"]
        kind = getattr(torch, dtype.numpy_name)
        return torch.zeros(shape, dtype=kind, device=str(device))
    if device.kind == "cpu":
        return np.zeros(shape, numpy_dtype(dtype))
    if library == "cupy":
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(device.index):
            return cupy.zeros(shape, numpy_dtype(dtype))
    return None


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype of `dtype` (bf16 is ml_dtypes')."""
    if dtype is DType.BF16:
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(dtype.numpy_name)
