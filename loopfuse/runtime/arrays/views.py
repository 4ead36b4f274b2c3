"""Recognising arrays of any library without importing it: one `ArrayView` for all of them.

Order of the questions: NumPy, PyTorch, CuPy (by the type's home module, looked up in
`sys.modules` only), then the protocols `__cuda_array_interface__`, `__array_interface__` and
`__dlpack__`.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

import numpy as np

from loopfuse.base.diagnostics import LoopfuseError
from loopfuse.base.dtypes import DType, from_numpy_name
from loopfuse.runtime.arrays import dlpack
from loopfuse.runtime.binding import CPU_DEVICE, ArrayView, Device, numpy_dtype
from loopfuse.runtime.unwritten import Boxes, clear_boxes


@lru_cache(maxsize=64)
def _torch_dtype(dtype: Any) -> tuple[DType | None, str]:
    name = str(dtype).removeprefix("torch.")
    return from_numpy_name(name), name


@lru_cache(maxsize=64)
def _numpy_dtype(dtype: np.dtype[Any]) -> tuple[DType | None, str]:
    name = dtype.name if dtype.isnative else f"{dtype.name} of the other byte order"
    return from_numpy_name(name), name


def _gaps(
    shape: tuple[int, ...], strides: tuple[int, ...] | None, item: int
) -> tuple[int, ...] | None:
    """`strides` (bytes), or None where they are those of C order; an extent of 1 may have any."""
    if strides is None or 0 in shape:
        return None
    expected = item
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1 and stride != expected:
            return strides
        expected *= extent
    return None


def _view_numpy(array: Any) -> ArrayView | None:
    if isinstance(array, np.ma.MaskedArray):
        return None
    dtype, name = _numpy_dtype(array.dtype)
    return ArrayView(
        pointer=array.__array_interface__["data"][0],
        shape=array.shape,
        dtype=dtype,
        device=CPU_DEVICE,
        read_only=not array.flags.writeable,
        strides=None if array.flags.c_contiguous else array.strides,
        owner=array,
        dtype_name=name,
        library="numpy",
    )


def _torch_problem(tensor: Any) -> tuple[str, str]:
    """Why the memory of a tensor is not its elements, or not all that counts, and what to pass
    instead (`{}` is the tensor); empty where it is."""
    try:
        return _torch_fault(tensor)
    except (RuntimeError, NotImplementedError, AttributeError) as error:
        # Nested, fake and functional tensors, and those that torch.func transforms, answer little.
        lines = str(error).strip().splitlines()
        reason = lines[0][:120] if lines else type(error).__name__
        return f"the tensor has no memory of its own ({reason})", _PLAIN_TENSOR


_PLAIN_TENSOR = "call it with plain tensors, outside what transforms or traces the call"


def _torch_fault(tensor: Any) -> tuple[str, str]:
    torch = sys.modules["torch"]
    if tensor.is_nested:
        problem = "a nested tensor does not lie in memory element by element"
        return problem, "pass `{}.to_padded_tensor(0.0)`"
    if str(tensor.layout) != "torch.strided":
        problem = f"a tensor of layout {tensor.layout} does not lie in memory element by element"
        return problem, "pass `{}.to_dense()`"
    if tensor.device.type not in ("cpu", "cuda"):
        fix = _PLAIN_TENSOR if tensor.device.type == "meta" else "pass `{}.cpu()`"
        return f"the tensor is on the device `{tensor.device.type}`", fix
    if tensor.is_neg():
        # `.conj().imag` is a view whose numbers are still to be negated.
        return "the tensor's numbers are still to be negated", "pass `{}.resolve_neg()`"
    if tensor.is_conj():
        return "the tensor's numbers are still to be conjugated", "pass `{}.resolve_conj()`"
    if tensor.requires_grad and torch.is_grad_enabled():
        return (
            "the tensor requires grad, and autograd would not see this call",
            "pass `{}.detach()`, call under `torch.no_grad()`, or make an operator with a derivative: "
            "`kernel.as_torch_op`",
        )
    fake = sys.modules.get("torch._subclasses.fake_tensor")
    if fake is not None and isinstance(tensor, fake.FakeTensor):
        return "a fake tensor has no memory", _PLAIN_TENSOR
    if tensor.numel() and (not tensor.data_ptr() or _elements_reached(tensor) > _elements_held(tensor)):
        problem = "the tensor has no memory (its storage was given up, or it only stands for zeros)"
        return problem, "pass a tensor that holds its elements"
    return "", ""


def _elements_reached(tensor: Any) -> int:
    """How many elements of its storage a tensor that has some needs: to the last that it reads."""
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return int(tensor.storage_offset() + sum((extent - 1) * step for extent, step in steps) + 1)


def _elements_held(tensor: Any) -> int:
    """How many fit into its storage."""
    return int(tensor.untyped_storage().nbytes()) // tensor.element_size()


def _view_torch(tensor: Any) -> ArrayView | None:
    if _torch_problem(tensor)[0]:
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
        strides=None
        if tensor.is_contiguous()
        else tuple(step * tensor.element_size() for step in tensor.stride()),
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
        strides=None if array.flags.c_contiguous else array.strides,
        owner=array,
        dtype_name=name,
        library="cupy",
    )


def _view_cuda_interface(array: Any, interface: dict[str, Any]) -> ArrayView:
    pointer, read_only = interface["data"]
    shape = tuple(interface["shape"])
    described = np.dtype(interface["typestr"])
    dtype, name = _numpy_dtype(described)
    strides = interface.get("strides")
    return ArrayView(
        pointer=int(pointer or 0),
        shape=shape,
        dtype=dtype,
        device=Device("cuda", _gpu_of(array, int(pointer or 0))),
        read_only=bool(read_only),
        strides=_gaps(shape, tuple(strides) if strides else None, described.itemsize),
        owner=array,
        dtype_name=name,
        stream=interface.get("stream"),
    )


def _gpu_of(array: Any, pointer: int) -> int:
    """The number of the GPU that an array lies on: as it says itself, else as the driver says."""
    index = getattr(getattr(array, "device", None), "id", None)
    if isinstance(index, int):
        return index
    from loopfuse.runtime.devices import cuda  # only where arrays lie on a GPU

    return cuda.gpu_of_address(pointer)


def _view_dlpack(array: Any, library: str = "other") -> ArrayView | None:
    tensor = dlpack.read(array)
    if isinstance(tensor, str):
        return None
    dtype = from_numpy_name(tensor.dtype_name)
    item = dtype.bytes if dtype else 1
    strides = None if tensor.strides is None else tuple(s * item for s in tensor.strides)
    return ArrayView(
        pointer=tensor.pointer,
        shape=tensor.shape,
        dtype=dtype,
        device=Device(tensor.device_kind, tensor.device_index),
        read_only=tensor.read_only or library == "jax",
        strides=_gaps(tensor.shape, strides, item),
        owner=(array, tensor.capsule),
        dtype_name=tensor.dtype_name,
        library=library,
        # The exporter has made the data ready on the default stream.
        stream=0 if tensor.device_kind == "cuda" else None,
        borrowed=True,
    )


def _view_jax(array: Any) -> ArrayView | None:
    """A JAX array: immutable, and computed in the background until waited for."""
    try:
        array.block_until_ready()
    except RuntimeError:  # deleted or donated: `problem_of` says so
        return None
    return _view_dlpack(array, "jax")


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
    if home in ("jax", "jaxlib") and hasattr(value, "block_until_ready"):
        return _view_jax(value)
    try:
        interface = getattr(value, "__cuda_array_interface__", None)
        if isinstance(interface, dict):
            return _view_cuda_interface(value, interface)
        if hasattr(value, "__array_interface__"):
            return _view_numpy(np.asarray(value))
        if hasattr(value, "__dlpack__"):
            return _view_dlpack(value)
    except LoopfuseError:
        raise
    except Exception:  # whatever another library's property raises: `problem_of` says so
        return None
    return None


def problem_of(value: Any) -> tuple[str, str]:
    """Why `view` gave None for something that looks like an array, and what to pass instead (`{}`
    is the value); empty where there is nothing to say."""
    if isinstance(value, np.ma.MaskedArray):
        return "the mask of a masked array would be lost", "pass `{}.filled(0)`, or another value"
    if "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor):
        return _torch_problem(value)
    for protocol in ("__cuda_array_interface__", "__array_interface__", "__dlpack__"):
        try:
            if not hasattr(value, protocol) or isinstance(value, np.generic):
                continue
        except Exception as error:
            return f"its `{protocol}` raised {described(error)}", ""
        if protocol != "__dlpack__":
            return f"its `{protocol}` describes no array", ""
        answer = dlpack.read(value)
        return answer if isinstance(answer, str) else "", ""
    return "", ""


def described(error: Exception) -> str:
    """An error of another library, as part of a sentence."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}" + (f": {lines[0][:120]}" if lines else "")


def allocate(
    library: str, device: Device, shape: tuple[int, ...], dtype: DType, boxes: Boxes | None = None
) -> Any:
    """A new array of `library` on `device`, of zeros, or with zeros in `boxes` alone; None where
    we cannot make one."""
    if library == "torch":
        torch = sys.modules["torch"]
        kind = getattr(torch, dtype.numpy_name)
        make = torch.zeros if boxes is None else torch.empty
        return _cleared(make(shape, dtype=kind, device=str(device)), boxes)
    if device.kind == "cpu":
        return _cleared((np.zeros if boxes is None else np.empty)(shape, numpy_dtype(dtype)), boxes)
    if library == "cupy":
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(device.index):
            make = cupy.zeros if boxes is None else cupy.empty
            return _cleared(make(shape, numpy_dtype(dtype)), boxes)
    return None


def _cleared(array: Any, boxes: Boxes | None) -> Any:
    clear_boxes(array, boxes or ())
    return array
