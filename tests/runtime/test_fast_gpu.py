"""Generated call paths on the GPU, without one: the driver's functions and PyTorch are played by
Python, on main memory. What they are given is what the real ones would get; `-m gpu` runs those."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import threading
import types
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from manifests import array, launch, manifest, pointer, scalar, value

import loopfuse
from loopfuse.base.diagnostics import LimitError, UserError
from loopfuse.runtime.arrays import arrays, native_reader, views
from loopfuse.runtime.arrays.arguments import read_signature
from loopfuse.runtime.arrays.dlpack import DLTensor
from loopfuse.runtime.call import call_kinds, fast, fast_gpu, fast_native
from loopfuse.runtime.call.fast import MISS
from loopfuse.runtime.devices import cuda

CONTEXT = 0x5150


class Tensor:
    """A PyTorch tensor's face over a NumPy array."""

    layout = "torch.strided"
    is_cpu = False

    def __init__(self, held: Any, index: int = 0) -> None:
        self.held, self.index = held, index
        self.is_cuda = True

    @property
    def device(self) -> Any:
        return SimpleNamespace(type="cuda", index=self.index)

    @property
    def dtype(self) -> str:
        return sys.intern(f"torch.{self.held.dtype.name}")  # an object each, as torch has

    @property
    def shape(self) -> tuple[int, ...]:
        return self.held.shape

    def data_ptr(self) -> int:
        return self.held.ctypes.data

    def storage_offset(self) -> int:
        return 0

    def untyped_storage(self) -> Any:
        return types.SimpleNamespace(nbytes=lambda: 1 << 40)

    def get_device(self) -> int:
        return self.index

    def is_contiguous(self) -> bool:
        return self.held.flags.c_contiguous

    is_nested = requires_grad = False

    def is_neg(self) -> bool:
        return False

    def is_conj(self) -> bool:
        return False

    def numel(self) -> int:
        return self.held.size

    def element_size(self) -> int:
        return self.held.itemsize

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.held.itemsize for step in self.held.strides)


class Machine:
    """What the driver was asked, in order; launches do the arithmetic of `scale` and `sum`."""

    def __init__(self) -> None:
        self.log: list[tuple[Any, ...]] = []
        self.stream, self.context, self.status = 11, CONTEXT, 0
        self.contexts: list[int] = []
        self.strided = False

    def launch(self, config: int, function: int, slots: int, extra: None) -> int:
        one = fast_gpu.LaunchConfig.from_address(config)
        cluster = 0
        if one.attribute_count:
            attribute = fast_gpu.LaunchAttribute.from_address(one.attributes)
            cluster = attribute.x if attribute.id == 4 else -1
        self.log.append(
            ("launch", function, one.grid_x, one.block_x, one.shared_bytes, one.stream, cluster)
        )
        if self.status:
            return self.status
        words = (ctypes.c_uint64 * 8).from_address(slots)

        def argument(slot: int, kind: Any) -> Any:
            return kind.from_address(words[slot]).value

        count = argument(2, ctypes.c_int64)
        x, y = (argument(k, ctypes.c_uint64) for k in range(2))
        factor = argument(3, ctypes.c_float)
        over, under = (argument(k, ctypes.c_int64) if self.strided else 1 for k in (4, 5))
        for k in range(count):
            value = ctypes.c_float.from_address(x + 4 * over * k).value
            ctypes.c_float.from_address(y + 4 * under * k).value = value * factor
        return 0

    def clear(self, where: int, byte: int, size: int, stream: int) -> int:
        self.log.append(("clear", size, stream))
        ctypes.memset(where, byte, size)
        return self.status

    def current(self, cell: int) -> int:
        ctypes.c_uint64.from_address(cell).value = self.context
        return 0

    @contextmanager
    def on_gpu(self, index: int) -> Any:
        self.contexts.append(index)
        before, self.context = self.context, CONTEXT
        yield
        self.context = before


# What a library with DLPack's exchange table has: a C function that describes an object.
_DESCRIBED = {"f4": (2, 32), "f8": (2, 64), "i8": (0, 64)}
described: list[Tensor] = []


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
def describe(one: Any, where: int) -> int:
    if not hasattr(one, "held"):
        return -1
    described.append(one)
    tensor, held = DLTensor.from_address(where), one.held
    one.extents = (ctypes.c_int64 * (2 * held.ndim))(*held.shape, *one.stride())
    tensor.data, tensor.byte_offset, tensor.rank = held.ctypes.data - 8, 8, held.ndim
    tensor.device.kind, tensor.device.index = 2, one.index
    code, bits = _DESCRIBED[held.dtype.str[1:]]
    tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes = code, bits, 1
    at = ctypes.addressof(one.extents)
    tensor.shape = ctypes.cast(at, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = ctypes.cast(at + 8 * held.ndim, ctypes.POINTER(ctypes.c_int64))
    return 0


played: list[Machine] = []


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
def current_stream(kind: int, index: int, where: int) -> int:
    ctypes.c_uint64.from_address(where).value = played[-1].stream
    return 0 if kind == 2 else -1


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
def current_context(where: int) -> int:
    return played[-1].current(where)


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
def launch_kernel(config: int, function: int, slots: int, extra: int | None) -> int:
    return played[-1].launch(config, function, slots, extra)


def address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


TABLE = (ctypes.c_uint64 * 7)(1 | 3 << 32, 0, 0, 0, 0, address(describe), address(current_stream))
NEWER = (ctypes.c_uint64 * 7)(2, ctypes.addressof(TABLE), 0, 0, 0, 0, 0)


def capsule(table: Any) -> Any:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(table), b"dlpack_exchange_api", None)


@pytest.fixture(params=["attributes", "native", "exchange"])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    played[:] = [made]
    described.clear()
    addresses = (address(current_context), address(launch_kernel) * (request.param == "native"))
    if request.param == "exchange":  # that of a newer version, which has ours behind it
        monkeypatch.setattr(Tensor, "__dlpack_c_exchange_api__", capsule(NEWER), raising=False)
        # Its attributes are Python's own, which have no C functions.
        monkeypatch.setattr(native_reader, "_attributes", lambda kind: (0, 0, 0))

    def zeros(shape: Any, dtype: str, device: Any) -> Tensor:
        return Tensor(np.zeros(shape, dtype.removeprefix("torch.")))

    def empty(size: int, dtype: str, device: Any) -> Tensor:
        made.log.append(("empty", size))
        return Tensor(np.full(size, 0xCC, np.uint8))

    fake = SimpleNamespace(
        Tensor=Tensor, nn=SimpleNamespace(Parameter=type("Parameter", (Tensor,), {})),
        zeros=zeros, empty=empty, uint8="torch.uint8", float32="torch.float32",
        device=lambda *where: where, is_grad_enabled=lambda: True,
        _C=SimpleNamespace(_cuda_getCurrentRawStream=lambda index: made.stream),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setattr(
        fast_gpu, "driver", lambda: fast_gpu.Driver(made.launch, made.clear, made.current, *addresses)
    )
    monkeypatch.setattr(cuda, "primary_context", lambda index: CONTEXT)
    monkeypatch.setattr(cuda, "on_gpu", made.on_gpu)
    views._torch_dtype.cache_clear()
    yield made
    views._torch_dtype.cache_clear()


def scale(**changes: Any) -> Any:
    made = launch(
        "scale_0", "(N + 3) // 4", pointer("x"), pointer("y"), value("N", "i64"), value("a", "f32"),
        {"kind": "aligned", "dtype": "bool"},
    )  # fmt: skip
    made["launch"] |= {"threads": 4} | changes
    return manifest(
        "scale",
        [array("x", "f32", "in", "N"), array("y", "f32", "out", "N"), scalar("a", "f32")],
        ["N"],
        steps=[made],
    )


class Caller:
    """A path over a manifest: `learn` is what an accepted call does."""

    def __init__(self, made: Any, *args: Any, alone: bool = True, index: int = 0, word: Any = None) -> None:
        self.signature = read_signature(made)
        module = cuda.LoadedModule(made, {"scale_0": 77, "again_0": 78}, None, word)
        gpu = fast_gpu.machine(module, index, "torch")
        assert gpu is not None
        matched = arrays.match(self.signature, args, {})
        described = call_kinds.describe(self.signature, args, {}, matched, {}, 32, alone)
        assert described is not None
        self.path = fast.CallPath(*described, self.signature, made, gpu)
        self.learn(*args)

    def learn(self, *args: Any) -> None:
        self.path.learn(args, {}, arrays.match(self.signature, args, {}))

    def __call__(self, *args: Any) -> Any:
        return self.path.call(args, {})


def tensor(count: int, fill: float = 1.0) -> Tensor:
    return Tensor(np.full(count, fill, np.float32))


def test_a_launch_gets_grid_stream_and_arguments(machine: Machine) -> None:
    call = Caller(scale(), tensor(10), tensor(10), 2.0)
    for number in range(3):
        x, y = tensor(10, number), tensor(10)
        assert call(x, y, 0.5 * number) is None
        assert (y.held == 0.5 * number * number).all()
    machine.stream = 0
    call(x, y, 3.0)
    machine.stream = 11
    call(x, y, 3.0)
    streams = [11, 11, 11, 0, 11]
    assert machine.log == [("launch", 77, 3, 4, 0, stream, 0) for stream in streams]


def test_omitted_outputs_come_from_the_library(machine: Machine) -> None:
    call = Caller(scale(), tensor(10), 2.0)
    made = [call(tensor(10, 3), 2.0) for _ in range(3)]
    assert all(isinstance(one, Tensor) and (one.held == 6).all() for one in made)


@pytest.mark.parametrize(
    "bad",
    [
        lambda x, y: (Tensor(x.held.astype(np.float64)), y, 2.0),
        lambda x, y: (tensor(11), y, 2.0),
        lambda x, y: (Tensor(np.ones(20, np.float32)[::2]), y, 2.0),
        lambda x, y: (x.held, y, 2.0),
        lambda x, y: (x, x, 2.0),
        lambda x, y: (x, Tensor(x.held[1:9]), 2.0),
        lambda x, y: (x, y, 2),
        lambda x, y: (x, y, True),
        lambda x, y: (x, None, 2.0),
        lambda x, y: (Tensor(x.held, 1), y, 2.0),
        lambda x, y: (x, Tensor(y.held, 1), 2.0),
    ],
)
def test_whatever_else_is_left_to_the_checked_path(machine: Machine, bad: Any) -> None:
    call = Caller(scale(), tensor(10), tensor(10), 2.0, alone=False)
    x, y = tensor(10), tensor(10, 5)
    assert call(x, y, 2.0) is None
    machine.log.clear()
    y.held[:] = 5
    assert call(*bad(x, y)) is MISS
    assert not machine.log and (y.held == 5).all() and (x.held == 1).all()
    assert call(x, y, 2.0) is None and (y.held == 2).all()


def test_a_tensor_that_raises_is_left_too(machine: Machine) -> None:
    class Sparse(Tensor):
        def is_contiguous(self) -> bool:
            raise RuntimeError("sparse tensors do not have is_contiguous")

    call = Caller(scale(), tensor(10), tensor(10), 2.0)
    broken = tensor(10)
    broken.is_contiguous = None  # type: ignore[method-assign]
    assert call(broken, tensor(10), 2.0) is MISS
    assert call(Sparse(np.ones(10, np.float32)), tensor(10), 2.0) is MISS


def checked_scale(check: str = "lazy") -> Any:
    """`scale` with an error word, as its fifth argument."""
    made = scale()
    made["steps"][0]["launch"]["arguments"].append({"kind": "error"})
    place = {"array": "y", "dimension": 0, "extent": "N", "writes": True, "line": 2, "column": 1, "end_line": 2,
             "end_column": 5}  # fmt: skip
    return made | {"checks": [place], "check": check}


def test_an_offender_is_raised_by_the_next_call(machine: Machine) -> None:
    made = checked_scale()
    value = ctypes.c_int64(0)
    word = cuda.ErrorWord(ctypes.addressof(value), made, value)
    call = Caller(made, tensor(10), tensor(10), 2.0, word=word)
    for _ in range(3):
        call(tensor(10), y := tensor(10), 2.0)
        assert (y.held == 2).all()
    assert word.sizes["N"] == 10
    value.value = (12 << 16) + 1  # as the device writes it
    with pytest.raises(UserError, match="element 12 of `y` is written, which has 10"):
        call(tensor(10), tensor(10), 2.0)
    assert len(machine.log) == 3 and value.value == 0
    assert call(tensor(10), y := tensor(10), 3.0) is None
    assert (y.held == 3).all()
    slots = [slot for launch in call.path._table.values() for state in launch[0] for slot in state]
    (block,) = (one for one in slots if isinstance(one, ctypes.Array) and one._type_ is ctypes.c_uint64 and len(one) == 6)
    assert block[5] == word.pointer


def test_calls_that_wait_for_their_checks_have_no_path(machine: Machine) -> None:
    value = ctypes.c_int64(0)
    for check, expected in (("sync", True), ("lazy", False)):
        made = checked_scale(check)
        module = cuda.LoadedModule(made, {"scale_0": 77}, None, cuda.ErrorWord(ctypes.addressof(value), made, value))
        assert (fast_gpu.machine(module, 0, "torch") is None) == expected


def test_an_empty_grid_is_not_launched(machine: Machine) -> None:
    call = Caller(scale(), tensor(0), tensor(0), 2.0)
    assert call(tensor(0), tensor(0), 2.0) is None and not machine.log


def test_a_kernel_that_does_nothing(machine: Machine) -> None:
    call = Caller({**scale(), "steps": []}, tensor(4), tensor(4), 2.0)
    for _ in range(3):
        assert call(tensor(4), tensor(4), 2.0) is None
    assert not machine.log


def test_clusters(machine: Machine) -> None:
    made = scale(cluster=2, shared_bytes=1024, grid="(N + 7) // 8 * 2")
    Caller(made, tensor(10), tensor(10), 2.0)(tensor(10), tensor(10), 2.0)
    assert machine.log == [("launch", 77, 4, 4, 1024, 11, 2)]


def test_another_context_is_left_for_the_call(machine: Machine) -> None:
    call = Caller(scale(), tensor(4), tensor(4), 2.0)
    machine.context = 0x1234
    y = tensor(4)
    assert call(tensor(4), y, 2.0) is None and (y.held == 2).all()
    assert machine.contexts == [0] and machine.context == 0x1234


def test_a_refused_launch_says_so(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        cuda, "driver_api", lambda: SimpleNamespace(CUresult=lambda status: ("status", status))
    )
    said: list[Any] = []

    def check_call(result: Any, doing: str) -> None:
        said.append((result, doing))
        raise LimitError(*[])

    monkeypatch.setattr(cuda, "check_call", check_call)
    call = Caller(scale(), tensor(10), tensor(10), 2.0)
    machine.status = 700
    with pytest.raises(LimitError):
        call(tensor(10), tensor(10), 2.0)
    assert said == [((("status", 700),), "launching `scale_0` (3 blocks of 4 threads)")]
    machine.status = 0
    assert call(tensor(10), tensor(10), 2.0) is None


def test_workspaces_loops_and_grids_that_follow_them(machine: Machine) -> None:
    body = launch(
        "again_0", "min(t, N)", pointer("x"), pointer("w"), value("N", "i64"), value("a", "f32"),
        value("t", "i64"),
    )  # fmt: skip
    made = scale()
    made["buffers"] = [
        {"name": "w", "dtype": "f32", "extents": ["N"], "zeroed": True},
        {"name": "v", "dtype": "f32", "extents": ["0"], "zeroed": False},
    ]
    made["parameters"].append(scalar("steps", "i64"))
    made["steps"].append({"loop": {"var": "t", "lower": "0", "upper": "steps", "step": 2, "body": [body]}})
    call = Caller(made, tensor(100), tensor(100), 2.0, 5)
    for _ in range(2):
        machine.log.clear()
        assert call(tensor(100), tensor(100), 2.0, 5) is None
        assert machine.log == [
            ("empty", 512 + 256), ("clear", 400, 11), ("launch", 77, 25, 4, 0, 11, 0),
            ("launch", 78, 2, 1, 0, 11, 0), ("launch", 78, 4, 1, 0, 11, 0),
        ]  # fmt: skip
    assert call(tensor(100), tensor(100), 2.0, 6) is MISS  # `steps` is read by a formula
    with pytest.raises(LimitError, match="over 2\\*\\*31 - 1"):
        fast_gpu._check_grid("k", 1 << 30, 2)


# ----------------------------------------------------------------------------- views, several GPUs


def scale_views() -> Any:
    """As `scale`, for code that takes strides."""
    made = scale()
    arguments = made["steps"][0]["launch"]["arguments"]
    arguments[4:] = [value("x__stride0", "i64"), value("y__stride0", "i64")]
    return made


def test_views_keep_a_path(machine: Machine) -> None:
    machine.strided = True
    room = np.zeros(400, np.float32)
    call = Caller(scale_views(), Tensor(room[:30:3]), Tensor(room[200:180:-2]), 2.0)
    for number in range(3):
        x, out = np.full(30, number, np.float32), np.zeros(40, np.float32)
        assert call(Tensor(x[::3]), Tensor(out[39:19:-2]), 0.5) is None
        assert (out[39:19:-2] == number / 2).all() and not out[:20].any() and not out[20::2].any()
    assert machine.log == [("launch", 77, 3, 4, 0, 11, 0)] * 3
    # Other strides, packed arrays and shared memory are for the checked path.
    x, y = Tensor(np.ones(20, np.float32)[::2]), Tensor(np.ones(40, np.float32)[39:19:-2])
    assert call(x, y, 0.5) is MISS
    assert call(tensor(10), tensor(10), 0.5) is MISS
    assert call(Tensor(room[:30:3]), Tensor(room[39:19:-2]), 0.5) is MISS
    assert call(Tensor(room[1:31:3]), Tensor(room[60:40:-2]), 0.5) is None
    call.learn(x, y, 0.5)
    assert call(x, y, 0.5) is None and (y.held == 0.5).all()


def test_a_view_still_to_be_negated_is_left(machine: Machine) -> None:
    machine.strided = True
    good = [Tensor(np.ones(20, np.float32)[::2]) for _ in range(2)]
    call = Caller(scale_views(), *good, 2.0)
    broken = Tensor(np.ones(20, np.float32)[::2])
    broken.is_neg = lambda: True  # type: ignore[method-assign]
    assert call(good[0], good[1], 2.0) is None
    assert call(broken, good[1], 2.0) is MISS
    seen = views.view(broken)
    assert seen is None and "resolve_neg" in views.problem_of(broken)[1]


def test_a_kernel_runs_where_its_arrays_are(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs: code is loaded on each, launched in its context, and never crosses."""
    streams: list[int] = []

    def current(index: int) -> int:
        streams.append(index)
        return 20 + index

    sys.modules["torch"]._C._cuda_getCurrentRawStream = current
    info = cuda.GpuInfo(0, "played", "sm_80", 1 << 34, 108, "13.0", 2)
    monkeypatch.setattr(cuda, "need_gpu", lambda index: replace(info, index=index))
    monkeypatch.setattr(cuda, "gpu", lambda index=0: replace(info, index=index))
    ran: list[tuple[Any, int]] = []

    def load(manifest: Any, code: Any, index: int) -> Any:
        return cuda.LoadedModule(manifest, {"scale_0": 70 + index}, index)

    def run(module: Any, binding: Any) -> None:
        ran.append((module.library, binding.device.index))

    monkeypatch.setattr(cuda, "load", load)
    monkeypatch.setattr(cuda, "run", run)
    kernel = loopfuse.loads(
        "kernel scale(x: f32[N], out y: f32[N], a: f32):\n    for i in 0..N:\n        y[i] = a * x[i]\n"
    )
    monkeypatch.setattr(kernel, "_compile", lambda *given: SimpleNamespace(manifest=scale(), cubin=b"", ptx=""))
    for _ in range(3):
        for index in (0, 1):
            kernel(Tensor(np.ones(10, np.float32), index), Tensor(np.ones(10, np.float32), index), 2.0)
    assert ran == [(0, 0), (1, 1)]  # once each, then by its path
    assert [one[1] for one in machine.log] == [70, 71, 70, 71]
    assert [one[5] for one in machine.log] == [20, 21, 20, 21] and streams == [0, 1, 0, 1]
    with pytest.raises(UserError, match="`x` on cuda:0 and `y` on cuda:1"):
        kernel(Tensor(np.ones(10, np.float32), 0), Tensor(np.ones(10, np.float32), 1), 2.0)


def test_the_driver_says_where_an_array_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """For arrays that do not say it themselves, where there are several GPUs."""

    class Foreign:
        def __init__(self, pointer: int) -> None:
            self.__cuda_array_interface__ = {
                "version": 3, "shape": (4,), "typestr": "<f4", "data": (pointer, False)
            }  # fmt: skip

    statuses = SimpleNamespace(CUDA_SUCCESS=0)
    driver = SimpleNamespace(
        CUresult=statuses,
        CUpointer_attribute=SimpleNamespace(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL=9),
        cuPointerGetAttribute=lambda which, pointer: (0, 3) if (which, pointer) == (9, 4096) else (1, None),
    )
    info = cuda.GpuInfo(0, "played", "sm_80", 1 << 34, 108, "13.0", 4)
    monkeypatch.setattr(cuda, "driver_api", lambda: driver)
    monkeypatch.setattr(cuda, "gpu", lambda index=0: info)
    where = [str(found.device) for at in (4096, 8192, 0) if (found := views.view(Foreign(at)))]
    assert where == ["cuda:3", "cuda:0", "cuda:0"]
    named = Foreign(4096)
    named.device = SimpleNamespace(id=1)  # type: ignore[attr-defined]
    found = views.view(named)
    assert found is not None and str(found.device) == "cuda:1"
    monkeypatch.setattr(cuda, "gpu", lambda index=0: replace(info, count=1))
    found = views.view(Foreign(4096))
    assert found is not None and str(found.device) == "cuda:0"


def test_memory_that_is_only_lent_is_waited_for(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A DLPack producer may use the memory again when the call returns."""
    log: list[tuple[str, Any]] = []

    def note(name: str, result: Any = None) -> Any:
        def call(*given: Any) -> Any:
            log.append((name, given))
            return (0, result) if result is not None else (0,)

        return call

    driver = SimpleNamespace(
        CUresult=SimpleNamespace(CUDA_SUCCESS=0), CUevent_flags=SimpleNamespace(CU_EVENT_DISABLE_TIMING=2),
        cuEventCreate=note("create", 5), cuEventRecord=note("record"), cuEventDestroy=note("destroy"),
        cuStreamWaitEvent=note("wait"), cuLaunchKernel=note("launch"),
        cuStreamSynchronize=note("synchronize"),
    )  # fmt: skip
    monkeypatch.setattr(cuda, "driver_api", lambda: driver)
    monkeypatch.setattr(cuda, "_used", set())
    made = scale()
    matched = arrays.match(read_signature(made), (tensor(10), tensor(10), 2.0), {})
    module = cuda.LoadedModule(made, {"scale_0": 77}, None)
    cuda.run(module, arrays.allocate_outputs(matched))
    assert [name for name, _ in log] == ["launch"]
    log.clear()
    lent = replace(matched.views["x"], library="other", stream=0, borrowed=True)
    both = {"x": lent, "y": matched.views["y"]}
    cuda.run(module, arrays.allocate_outputs(replace(matched, views=both)))
    assert [name for name, _ in log] == ["create", "record", "wait", "destroy", "launch", "synchronize"]
    assert log[1][1] == (5, 0) and log[2][1] == (11, 5, 0) and log[5][1] == (11,)


def test_who_allocates_and_whose_stream_it_is(machine: Machine) -> None:
    class Foreign:
        def __init__(self, held: Any) -> None:
            self.__cuda_array_interface__ = {
                "version": 3, "shape": held.shape, "typestr": "<f4", "data": (held.ctypes.data, False)
            }  # fmt: skip
            self.held = held

    two = manifest(
        "two", [array("x", "f32", "in", "N"), array("z", "f32", "in", "N"), array("y", "f32", "out", "N")], ["N"]
    )
    room = np.zeros(10, np.float32)
    binding = arrays.bind(two, (Foreign(room), tensor(10)), {})
    assert binding.library == "torch" and isinstance(binding.result, Tensor)


def test_structures_are_those_of_the_driver(tmp_path: Path) -> None:
    """Against cuda.h, where one is installed."""
    found = [
        Path(folder) / "nvidia" / "cu13" / "include" / "cuda.h" for folder in sys.path if folder
    ]
    header = next((path for path in found if path.exists()), None)
    compiler = shutil.which("cc")
    if header is None or compiler is None:
        pytest.skip("needs cuda.h and a C compiler")
    asked = {
        "sizeof(CUlaunchConfig)": ctypes.sizeof(fast_gpu.LaunchConfig),
        "sizeof(CUlaunchAttribute)": ctypes.sizeof(fast_gpu.LaunchAttribute),
        "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION": fast_gpu._CLUSTER_DIMENSION,
        "offsetof(CUlaunchAttribute, value.clusterDim.x)": fast_gpu.LaunchAttribute.x.offset,
        "offsetof(CUlaunchAttribute, value.clusterDim.z)": fast_gpu.LaunchAttribute.z.offset,
    }
    for ours, theirs in {
        "grid_x": "gridDimX", "grid_z": "gridDimZ", "block_x": "blockDimX",
        "shared_bytes": "sharedMemBytes", "stream": "hStream", "attributes": "attrs",
        "attribute_count": "numAttrs",
    }.items():  # fmt: skip
        asked[f"offsetof(CUlaunchConfig, {theirs})"] = getattr(fast_gpu.LaunchConfig, ours).offset
    prints = "\n".join(f'printf("%d\\n", (int)({text}));' for text in asked)
    source = tmp_path / "ask.c"
    source.write_text(
        f"#include <cuda.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {{\n{prints}\n}}\n"
    )
    program = tmp_path / "ask"
    subprocess.run(
        [compiler, f"-I{header.parent}", str(source), "-o", str(program)], check=True, timeout=60
    )
    said = subprocess.run([str(program)], capture_output=True, text=True, check=True, timeout=60)
    assert dict(zip(asked, map(int, said.stdout.split()))) == asked


# ------------------------------------------------------------------------- read by the library


@pytest.fixture
def exchange(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> Machine:
    monkeypatch.setattr(Tensor, "__dlpack_c_exchange_api__", capsule(TABLE), raising=False)
    monkeypatch.setattr(native_reader, "_attributes", lambda kind: (0, 0, 0))
    return machine


def test_the_second_call_is_read_at_once(exchange: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a tensor is asked from Python where the last call was like this one."""
    call = Caller(scale(), tensor(10), tensor(10), 2.0)
    x, y = tensor(10, 3), tensor(10)
    assert call(x, y, 2.0) is None and (y.held == 6).all()

    def refuse(self: Any) -> Any:
        raise AssertionError("asked from Python")

    for name in ("shape", "dtype"):
        monkeypatch.setattr(Tensor, name, property(refuse))
    for name in ("data_ptr", "is_contiguous", "is_neg"):
        monkeypatch.setattr(Tensor, name, refuse)
    for number in range(4):
        y.held[:] = 0
        assert call(x, y, number) is MISS if number == 3 else call(x, y, float(number)) is None
        assert (y.held == (0 if number == 3 else 3 * number)).all()
    other = Tensor(np.full(10, 5, np.float32))
    assert call(other, y, 2.0) is None and (y.held == 10).all()  # elsewhere
    assert call(x, y, 2.0) is None and (y.held == 6).all()
    assert described[-2:] == [x, y]


def test_addresses_that_moved_are_checked_again(exchange: Machine) -> None:
    call = Caller(scale(), tensor(10), tensor(10), 2.0)
    room = np.ones(64, np.float32)
    for _ in range(2):
        assert call(Tensor(room[:10]), Tensor(room[20:30]), 2.0) is None
        assert call(Tensor(room[:10]), Tensor(room[20:30]), 2.0) is None
        assert call(Tensor(room[:10]), Tensor(room[5:15]), 2.0) is MISS  # one memory
        assert call(Tensor(room[:10]), Tensor(room[5:15]), 2.0) is MISS
        assert (room[30:] == 1).all() and (room[20:30] == 2).all() and (room[:20] == 1).all()
    assert call(Tensor(room[:10]), Tensor(room[40:50]), 3.0) is None and (room[40:50] == 3).all()


def test_what_the_library_refuses_is_left(exchange: Machine) -> None:
    call = Caller(scale(), tensor(10), tensor(10), 2.0)
    for _ in range(3):
        assert call(tensor(10), tensor(10), 2.0) is None
    broken = tensor(10)
    del broken.held
    assert call(broken, tensor(10), 2.0) is MISS
    assert call(object(), tensor(10), 2.0) is MISS
    assert call(tensor(10), 2.0) is MISS
    assert call(tensor(10), tensor(10), 2.0) is None


def test_where_the_library_raises_python_is_asked(
    exchange: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(arguments: Any, plan: int) -> int:
        raise BufferError("a tensor that requires gradients")

    monkeypatch.setattr(fast_native, "reader", lambda: refuse)
    call = Caller(scale(), tensor(10), tensor(10), 2.0)
    for _ in range(3):
        assert call(tensor(10), tensor(10), 2.0) is None
    assert call(tensor(11), tensor(10), 2.0) is MISS


def test_tensors_of_one_element_have_no_layout(exchange: Machine) -> None:
    """A view of one element that is still to be negated looks like any other."""
    call = Caller(scale(), tensor(1), tensor(1), 2.0)
    for _ in range(3):
        assert call(tensor(1), tensor(1), 2.0) is None
    broken = tensor(1)
    broken.is_neg = lambda: True  # type: ignore[method-assign]
    assert call(broken, tensor(1), 2.0) is MISS
    assert views.view(broken) is None


def test_the_stream_is_the_librarys(exchange: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked by its C function, where the context is the one that was."""
    call = Caller(scale(), tensor(10), tensor(10), 2.0)
    x, y = tensor(10), tensor(10)
    wanted = (5, 5, 5, 6, 6, 5, 5)
    for exchange.stream in wanted:
        assert call(x, y, 2.0) is None
    exchange.context = 0x1234
    assert call(x, y, 2.0) is None and exchange.contexts == [0]
    exchange.context = CONTEXT
    assert call(x, y, 2.0) is None
    assert [each[5] for each in exchange.log] == [*wanted, 5, 5]


def test_an_interrupt_leaves_no_stream_behind(exchange: Machine) -> None:
    """One that comes between two writes: the call before it and the one after use their own."""
    made = scale()
    made["steps"] *= 2
    call = Caller(made, tensor(10), tensor(10), 2.0)
    x, y = tensor(10), tensor(10)
    for _ in range(3):
        assert call(x, y, 2.0) is None
    lines = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != "<loopfuse call>":
            return None
        lines += event == "line"
        if lines == stop:
            raise KeyboardInterrupt
        return trace

    for stop in range(1, 60):
        exchange.log.clear()
        exchange.stream, lines = 99, 0
        sys.settrace(trace)
        try:
            call(x, y, 2.0)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        assert all(each[5] == 99 for each in exchange.log)
        exchange.log.clear()
        exchange.stream = 11
        assert call(x, y, 2.0) is None
        assert [each[5] for each in exchange.log] == [11, 11], stop


def test_sizes_in_turn(exchange: Machine) -> None:
    call = Caller(scale(), tensor(10), tensor(10), 2.0)
    call.learn(tensor(20), tensor(20), 2.0)
    for count in (10, 20, 20, 10, 20, 10, 10):
        y = tensor(count)
        assert call(tensor(count, 3), y, 2.0) is None and (y.held == 6).all()
    assert call(tensor(30), tensor(30), 2.0) is MISS


def test_threads_read_at_once(exchange: Machine) -> None:
    """Each call has a state, and a plan, of its own."""
    call = Caller(scale(), tensor(10), tensor(10), 2.0)
    wrong: list[int] = []

    def work(number: int) -> None:
        x, y = tensor(10, number), tensor(10)
        for factor in range(60):
            done = call(x, y, float(factor))
            if done is not None or not (y.held == number * factor).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


def test_a_table_of_another_version_is_none() -> None:
    def found(thing: Any) -> Any:
        return native_reader.exchange_of(type("Kind", (), {"__dlpack_c_exchange_api__": thing}))

    ours = native_reader.Exchange(address(describe), address(current_stream))
    assert found(capsule(TABLE)) == ours == found(capsule(NEWER))
    assert found(capsule((ctypes.c_uint64 * 7)(2, 0, 0, 0, 0, 5, 0))) is None  # of version 2 alone
    assert found(capsule((ctypes.c_uint64 * 7)(1, 0, 0, 0, 0, 0, 0))) is None  # without the function
    assert found(17) is None and native_reader.exchange_of(int) is None
