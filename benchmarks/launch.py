"""What a call costs the host: loopfuse beside others that launch kernels, on small arrays.

    python3 benchmarks/launch.py [--json FILE] [--cpu]

Host microseconds a call: medians over batches of calls, each contender's in turn, the device's queue
emptied between them; arrays are so small that no batch waits for the device. On the GPU for 1, 3 and
8 arrays of f32:
loopfuse on PyTorch and CuPy arrays; the same PTX launched by cuda.core and by cuda.bindings with
ready pointers; CuPy's RawKernel; Triton; numba.cuda; PyTorch eager. On the CPU: loopfuse, numba's
njit(parallel=True) and njit, NumPy. What is not installed is left out, and said.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

import numpy as np  # noqa: E402

import loopfuse  # noqa: E402

COUNT = 1024
CALLS, BATCHES = 300, 40
NAMES = "abcdefg"


def program(arrays: int) -> str:
    """The kernel of that many arrays: the last is the sum (for one array: its double)."""
    if arrays == 1:
        return "kernel double1(inout z: f32[N]):\n    for i in 0..N:\n        z[i] = z[i] * 2.0\n"
    inputs = NAMES[: arrays - 1]
    parameters = ", ".join(f"{name}: f32[N]" for name in inputs)
    total = " + ".join(f"{name}[i]" for name in inputs)
    return f"kernel sum{arrays}({parameters}, out z: f32[N]):\n    for i in 0..N:\n        z[i] = {total}\n"


Row = dict[str, float | str]
Maker = Callable[[], Callable[[], Any]]


def race(row: Row, makers: dict[str, Maker], wait: Callable[[], Any]) -> None:
    """Host time of a call of each, batch by batch in turn, so that a processor that changes its pace
    changes it for all. What cannot be made is noted, and costs the others nothing."""
    calls: dict[str, Callable[[], Any]] = {}
    for name, make in makers.items():
        row[name] = ""  # in this order
        try:
            calls[name] = make()
            for _ in range(20):
                calls[name]()
            wait()
        except Exception as error:
            words = str(error).splitlines()
            row[name] = f"{type(error).__name__}: {words[0][:80] if words else ''}"
            calls.pop(name, None)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(BATCHES):
        for name, call in calls.items():
            for _ in range(20):
                call()
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            times[name].append((time.perf_counter() - start) / CALLS * 1e6)
            wait()
    row |= {name: statistics.median(each) for name, each in times.items()}


# ------------------------------------------------------------------------------------ the GPU


def bare_arguments(manifest: Any, pointers: dict[str, int]) -> tuple[list[Any], int, Any]:
    """A kernel's arguments as ctypes values, its grid and its launch, from the manifest."""
    from loopfuse.runtime.formulas import evaluate

    one = manifest["steps"][0]["launch"]
    kinds = {"i64": ctypes.c_int64, "f32": ctypes.c_float, "bool": ctypes.c_bool}
    values: list[Any] = []
    for argument in one["arguments"]:
        if argument["kind"] == "pointer":
            values.append(ctypes.c_void_p(pointers[argument["name"]]))
        elif argument["kind"] == "value":
            values.append(kinds[argument["dtype"]](COUNT))
        else:
            values.append(ctypes.c_bool(True))
    return values, int(evaluate(str(one["grid"]), {"N": COUNT})), one


def by_cuda_core(artifact: Any, pointers: dict[str, int]) -> Callable[[], Any]:
    """cuda.core's launch of the same PTX."""
    try:
        from cuda import core
    except ImportError:
        from cuda.core import experimental as core
    values, grid, one = bare_arguments(artifact.manifest, pointers)
    device = core.Device(0)
    device.set_current()
    stream, config = device.default_stream, core.LaunchConfig(grid=grid, block=one["threads"])
    kernel = core.ObjectCode.from_ptx(artifact.ptx.encode()).get_kernel(one["name"])
    given = [value.value if isinstance(value, ctypes.c_void_p) else value for value in values]
    launch = core.launch
    return lambda: launch(stream, config, kernel, *given)


def by_bindings(artifact: Any, pointers: dict[str, int]) -> Callable[[], Any]:
    """cuda.bindings' cuLaunchKernel with a prepacked argument block."""
    from loopfuse.runtime.devices import cuda

    values, grid, one = bare_arguments(artifact.manifest, pointers)
    module = cuda.load(artifact.manifest, artifact.ptx, 0)
    function, threads = module.functions[one["name"]], one["threads"]
    block = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
    where, launch = ctypes.addressof(block), cuda.driver_api().cuLaunchKernel

    def call(keep: Any = (values, block)) -> Any:
        return launch(function, grid, 1, 1, threads, 1, 1, 0, 0, where, 0)

    return call


def by_raw_kernel(arrays: int) -> Callable[[], Any]:
    """CuPy's RawKernel."""
    import cupy

    names = [*NAMES[: arrays - 1], "z"]
    parameters = ", ".join(f"float* {name}" for name in names)
    total = "z[i] * 2.0f" if arrays == 1 else " + ".join(f"{name}[i]" for name in names[:-1])
    text = (
        f'extern "C" __global__ void k({parameters}, long long n) {{\n'
        f"  long long i = blockIdx.x * 256ll + threadIdx.x; if (i < n) z[i] = {total}; }}"
    )
    kernel = cupy.RawKernel(text, "k")
    given = (*(cupy.ones(COUNT, cupy.float32) for _ in names), np.int64(COUNT))
    grid, block = (COUNT // 256,), (256,)
    return lambda: kernel(grid, block, given)


def by_triton(arrays: int) -> Callable[[], Any]:
    """A Triton kernel; its source must lie in a file."""
    import importlib.util
    import tempfile

    import torch

    names = [*NAMES[: arrays - 1], "z"]
    total = "tl.load(z + i) * 2.0"
    if arrays > 1:
        total = " + ".join(f"tl.load({name} + i, mask=i < n)" for name in names[:-1])
    text = (
        "import triton\nimport triton.language as tl\n@triton.jit\n"
        f"def k({', '.join(names)}, n, B: tl.constexpr):\n"
        "    i = tl.program_id(0) * B + tl.arange(0, B)\n"
        f"    tl.store(z + i, {total}, mask=i < n)\n"
    )
    path = Path(tempfile.mkdtemp()) / f"triton_{arrays}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    given = [torch.ones(COUNT, device="cuda") for _ in names]
    grid = (COUNT // 256,)
    return lambda: module.k[grid](*given, COUNT, B=256)


def by_numba_cuda(arrays: int) -> Callable[[], Any]:
    """numba.cuda on its own device arrays."""
    from numba import cuda

    if arrays == 1:

        def body(z: Any) -> None:
            i = cuda.grid(1)
            if i < z.size:
                z[i] = z[i] * np.float32(2.0)

    elif arrays == 3:

        def body(a: Any, b: Any, z: Any) -> None:
            i = cuda.grid(1)
            if i < z.size:
                z[i] = a[i] + b[i]

    else:

        def body(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, z: Any) -> None:
            i = cuda.grid(1)
            if i < z.size:
                z[i] = a[i] + b[i] + c[i] + d[i] + e[i] + f[i] + g[i]

    kernel = cuda.jit(body)
    given = [cuda.to_device(np.ones(COUNT, np.float32)) for _ in range(arrays)]
    configured = kernel[COUNT // 256, 256]
    return lambda: configured(*given)


def by_torch(arrays: int) -> Callable[[], Any]:
    """PyTorch eager: one operation, for eight arrays the six additions it takes."""
    import torch

    given = [torch.ones(COUNT, device="cuda") for _ in range(arrays)]
    z = given[-1]
    if arrays == 1:
        return lambda: torch.mul(z, 2.0, out=z)
    if arrays == 3:
        return lambda: torch.mul(given[0], given[1], out=z)

    def add() -> None:
        torch.add(given[0], given[1], out=z)
        for one in given[2:-1]:
            z.add_(one)

    return add


def on_gpu() -> list[Row]:
    """A row for each number of arrays; none where there is no GPU."""
    from loopfuse.runtime.devices import cuda

    info = cuda.gpu()
    if info is None:
        print(f"no GPU: {cuda.gpu_problem()}")
        return []
    rows: list[Row] = []

    def wait() -> None:
        with cuda.on_gpu(0):
            cuda.check_call(cuda.driver_api().cuCtxSynchronize(), "waiting for the GPU")

    for arrays in (1, 3, 8):
        kernel = loopfuse.loads(program(arrays))
        row: Row = {"arrays": arrays}

        def by_loopfuse(module: str, arrays: int = arrays, kernel: Any = kernel) -> Callable[[], Any]:
            if module == "torch":
                import torch

                given = [torch.ones(COUNT, device="cuda") for _ in range(arrays)]
            else:
                import cupy

                given = [cupy.ones(COUNT, cupy.float32) for _ in range(arrays)]
            kernel(*given)
            if not kernel.call_paths.calls:
                raise RuntimeError("no call path was made")
            return lambda: kernel(*given)

        def artifact(kernel: Any = kernel) -> Any:
            return kernel.compile(info.target, emit=("ptx",), index_bits=32)

        names = ["z"] if arrays == 1 else [*NAMES[: arrays - 1], "z"]
        memory = [cuda_array() for _ in names]
        pointers = {
            name: one.__cuda_array_interface__["data"][0] for name, one in zip(names, memory)
        }
        makers: dict[str, Maker] = {
            "loopfuse (torch)": lambda f=by_loopfuse: f("torch"),
            "loopfuse (cupy)": lambda f=by_loopfuse: f("cupy"),
            "cuda.core launch": lambda p=pointers, f=artifact: by_cuda_core(f(), p),
            "cuda.bindings": lambda p=pointers, f=artifact: by_bindings(f(), p),
            "cupy RawKernel": lambda arrays=arrays: by_raw_kernel(arrays),
            "triton": lambda arrays=arrays: by_triton(arrays),
            "numba.cuda": lambda arrays=arrays: by_numba_cuda(arrays),
            "torch eager": lambda arrays=arrays: by_torch(arrays),
        }
        race(row, makers, wait)
        rows.append(row)
        report("GPU", row)
    return rows


def cuda_array() -> Any:
    """An array of ones on the GPU, of nobody's library."""
    from loopfuse.runtime.devices.gpu_arrays import DeviceArray

    return DeviceArray(np.ones(COUNT, np.float32))


# ------------------------------------------------------------------------------------ the CPU


def on_cpu() -> list[Row]:
    """Three arrays on the CPU, small and larger."""
    rows: list[Row] = []
    kernel = loopfuse.loads(program(3))
    for count in (1000, 100_000):
        row: Row = {"arrays": 3, "elements": count}
        a, b, z = (np.ones(count, np.float32) for _ in range(3))

        def by_numba(
            parallel: bool, a: Any = a, b: Any = b, z: Any = z
        ) -> Callable[[], Any]:
            import numba

            def body(a: Any, b: Any, z: Any) -> None:
                for i in numba.prange(z.size):
                    z[i] = a[i] + b[i]

            compiled = numba.njit(parallel=parallel)(body)
            return lambda: compiled(a, b, z)

        def nothing() -> None:
            pass

        makers: dict[str, Maker] = {
            "loopfuse": lambda a=a, b=b, z=z: lambda: kernel(a, b, z),
            "numba parallel": lambda f=by_numba: f(True),
            "numba serial": lambda f=by_numba: f(False),
            "numpy add(out=)": lambda a=a, b=b, z=z: lambda: np.add(a, b, z),
        }
        race(row, makers, nothing)
        rows.append(row)
        report("CPU", row)
    return rows


def report(where: str, row: Row) -> None:
    """A block of lines for one row."""
    elements = row.get("elements", COUNT)
    print(f"{where}, {row['arrays']} arrays of {elements} f32")
    base = row.get("cuda.core launch")
    for name, value in row.items():
        if name in ("arrays", "elements"):
            continue
        if isinstance(value, str):
            print(f"  {name:18} -          {value}")
            continue
        share = f"{value / base:8.2f} of cuda.core" if isinstance(base, float) else ""
        print(f"  {name:18} {value:7.2f} us {share}")
    print(flush=True)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--cpu", action="store_true", help="the CPU alone")
    options = parser.parse_args()
    rows = {"cpu": on_cpu(), "gpu": [] if options.cpu else on_gpu()}
    if options.json:
        from loopfuse.runtime.devices import cuda

        info = cuda.gpu()
        made = {
            "gpu": info.name if info else None,
            "date": datetime.now(UTC).date().isoformat(),
            "version": loopfuse.__version__,
            "python": sys.version.split()[0],
            "unit": "host microseconds a call",
            "calls": CALLS,
            "batches": BATCHES,
            "rows": rows,
        }
        options.json.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
