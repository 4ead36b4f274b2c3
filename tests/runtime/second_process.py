"""One process of test_second_process.py: a kernel's first call.

    python second_process.py cpu|gpu|"gpu view" FILE

The GPU is played by Python, and everything up to the launch is real: the key, the cache, the
binding, the argument block. Prints as JSON which modules are loaded, how many launches were asked
for, what came of it, and milliseconds of processor time of the imports and of the rest.
"""

from __future__ import annotations

import hashlib
import json
import sys
import types
from time import thread_time
from types import SimpleNamespace
from typing import Any

import numpy as np

HEAVY = ("lark", "islpy", "xdsl", "llvmlite", "numba", "loopfuse.pipeline", "loopfuse.codegen")


class Tensor:
    """A PyTorch tensor's face over a NumPy array."""

    layout = "torch.strided"
    is_cuda = True
    device = SimpleNamespace(type="cuda", index=0)
    dtype = "torch.float32"

    def __init__(self, held: Any) -> None:
        self.held, self.shape = held, held.shape

    def data_ptr(self) -> int:
        return self.held.ctypes.data

    def storage_offset(self) -> int:
        return 0

    def untyped_storage(self) -> Any:
        return types.SimpleNamespace(nbytes=lambda: 1 << 40)

    def get_device(self) -> int:
        return 0

    def is_contiguous(self) -> bool:
        return self.held.flags.c_contiguous

    is_nested = requires_grad = False

    def is_conj(self) -> bool:
        return False

    def numel(self) -> int:
        return self.held.size

    def is_neg(self) -> bool:
        return False

    def element_size(self) -> int:
        return self.held.itemsize

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.held.itemsize for step in self.held.strides)


def play_driver(launches: list[Any]) -> None:
    """A driver whose calls succeed, and PyTorch on it."""
    from loopfuse.runtime.devices import cuda

    class Status:
        CUDA_SUCCESS = 0

    code: list[str] = []

    def load(image: bytes, *given: Any) -> tuple[int, int]:
        code.append(hashlib.sha256(image).hexdigest())
        return 0, 7

    def launch(function: Any, grid: int, *given: Any) -> int:
        launches.append([code[0], grid, given[2]])
        return 0

    driver = SimpleNamespace(
        CUresult=Status, CUfunction_attribute=SimpleNamespace(),
        cuLaunchKernel=launch, cuMemsetD8Async=lambda *given: 0,
        cuDeviceGet=lambda index: (0, index), cuDevicePrimaryCtxRetain=lambda device: (0, 5),
        cuCtxGetCurrent=lambda: (0, 5), cuLibraryLoadData=load,
        cuLibraryGetKernel=lambda *given: (0, 8), cuKernelGetFunction=lambda kernel: (0, 9),
        cuKernelSetAttribute=lambda *given: 0,
    )  # fmt: skip
    info = cuda.GpuInfo(0, "played", "sm_80", 1 << 34, 108, "13.0", 1)
    cuda.driver_api = lambda: driver
    cuda._probe = lambda index: cuda._Probe(info, "")
    sys.modules["torch"] = SimpleNamespace(  # pyright: ignore[reportArgumentType]
        Tensor=Tensor, nn=SimpleNamespace(Parameter=type("Parameter", (Tensor,), {})), is_grad_enabled=lambda: True,
        empty=lambda size, **_: Tensor(np.empty(size, np.uint8)), uint8="torch.uint8",
        zeros=None, device=lambda *where: where,
        _C=SimpleNamespace(_cuda_getCurrentRawStream=lambda index: 3),
    )  # fmt: skip


def main() -> None:
    """Import, play, call, tell."""
    where, file = sys.argv[1:]
    start = thread_time()
    import loopfuse

    if where == "cpu":
        import llvmlite.binding as linker

        assert linker
    else:
        from loopfuse.runtime.call import fast_gpu
        from loopfuse.runtime.devices import cuda

        assert cuda and fast_gpu
    imported = thread_time()
    launches: list[Any] = []
    x = np.linspace(0, 1, 2000, dtype=np.float32).reshape(40, 50)
    if where == "cpu":
        ready = thread_time()
        result: Any = [float(loopfuse.load(file)(x, 1.0).sum())]
    else:
        play_driver(launches)
        given = Tensor(x if where == "gpu" else x[::-1]), Tensor(np.zeros_like(x)), 1.0
        ready = thread_time()
        loopfuse.load(file)(*given)
        result = launches
    end = thread_time()
    print(json.dumps({
        "loaded": [name for name in HEAVY if name in sys.modules],
        "launches": len(launches), "result": result,
        "imports": (imported - start) * 1e3, "call": (end - ready) * 1e3,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
