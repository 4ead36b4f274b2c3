"""C launchers with the real driver: the interpreter's bits, and faults told of.

Run on a machine with a GPU and gcc: `pytest -m gpu tests/gpu`.
"""

from __future__ import annotations

import ctypes
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "distribution"))

import engines
import references
from c_programs import compile_c
from case_files import assert_same, make_arguments, read_examples

from loopfuse.base.diagnostics import Source
from loopfuse.distribution.c_launcher import c_files
from loopfuse.kernels.kernel import load_all
from loopfuse.runtime.devices import cuda

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")]

TESTS = Path(__file__).resolve().parent.parent
EXAMPLES = {case.name: case for case in read_examples()}
# What the real header does to some names.
VERSIONS = "".join(
    f"#define {name} {name}_v2\n" for name in ("cuMemAlloc", "cuMemFree", "cuMemcpyDtoH", "cuMemsetD8")
)
SCALARS = {"f32": ctypes.c_float, "f64": ctypes.c_double, "i64": ctypes.c_int64, "f16": ctypes.c_uint16}


class Launcher:
    """A launcher as a shared library, with memory of its own on the GPU."""

    def __init__(self, folder: Path, source: Source, reassociate: bool = False) -> None:
        info = cuda.need_gpu(0)
        (kernel,) = load_all(source, reassociate=reassociate).values()
        artifact = kernel.compile(info.target, emit=("ptx", "cubin"))
        self.manifest: dict[str, Any] = artifact.manifest
        for name, text in c_files(self.manifest, "k").items():
            (folder / name).write_text(text)
        (folder / "cuda.h").write_text(VERSIONS + (TESTS / "distribution" / "cuda_stub.h").read_text())
        words = ("-shared", "-fPIC", "-Wall", "-Werror", "-I.", "k.c", "-l:libcuda.so.1", "-o", "k.so")
        compile_c(folder, *words)
        self.library = ctypes.CDLL(str(folder / "k.so"))
        self.code = ctypes.create_string_buffer(1024)
        self.call("_load", self.code, artifact.cubin or artifact.ptx.encode() + b"\0")

    def call(self, ending: str, *arguments: Any) -> None:
        """A function of the launcher; RuntimeError with its words where it fails."""
        name = self.manifest["kernel"]
        code = self.library[name + ending](*arguments)
        if code:
            words = self.library[f"{name}_error"]
            words.restype = ctypes.c_char_p
            raise RuntimeError(words(code).decode())

    def run(self, arguments: dict[str, Any], sizes: dict[str, int]) -> dict[str, np.ndarray]:
        """What the arrays hold after a call."""
        driver, check = cuda.driver_api(), cuda.check_call
        passed: list[Any] = [self.code]
        held: dict[str, tuple[Any, np.ndarray]] = {}
        for one in self.manifest["parameters"]:
            value = arguments[one["name"]]
            if one["kind"] == "array":
                pointer = check(driver.cuMemAlloc(max(16, value.nbytes)), "allocating")
                check(driver.cuMemcpyHtoD(pointer, value.ctypes.data, value.nbytes), "copying")
                held[one["name"]] = (pointer, np.empty_like(value))
                passed.append(ctypes.c_uint64(int(pointer)))
            else:
                passed.append(SCALARS[one["dtype"]](value))
        passed += [ctypes.c_int64(sizes[name]) for name in self.manifest["sizes"]]
        self.call("", *passed, None)
        check(driver.cuCtxSynchronize(), "waiting")
        for pointer, array in held.values():
            check(driver.cuMemcpyDtoH(array.ctypes.data, pointer, array.nbytes), "copying")
            driver.cuMemFree(pointer)
        return {name: array for name, (_, array) in held.items()}


@pytest.mark.parametrize("name", ["unsharp", "jacobi", "l2norm", "attention"])
def test_launchers_get_the_interpreters_bits(name: str, tmp_path: Path) -> None:
    case = EXAMPLES[name]
    (kernel,) = engines.read(case.source).kernels
    cuda.need_gpu(0)
    with cuda.on_gpu(0):
        launcher = Launcher(tmp_path, case.source)
        sizes = case.sizes[0]
        arguments = references.prepare(name, make_arguments(kernel, sizes, case.scalars, case.data))
        got = launcher.run(arguments, sizes)
        launcher.call("_unload", launcher.code)
    assert_same(kernel, engines.interpret(kernel, arguments, sizes), got, name)


def test_faults_are_told_of(tmp_path: Path) -> None:
    text = "kernel gather(x: f32[N], index: i32[M], out y: f32[M]):\n    for i in 0..M:\n        y[i] = x[index[i]]\n"
    arguments = {
        "x": np.arange(3, dtype=np.float32),
        "index": np.array([2, 7, 1], np.int32),
        "y": np.full(3, 9, np.float32),
    }
    cuda.need_gpu(0)
    with cuda.on_gpu(0):
        launcher = Launcher(tmp_path, Source("gather.lf", text))
        got = launcher.run(arguments, {"N": 3, "M": 3})
        np.testing.assert_array_equal(got["y"], [2, 0, 1])
        with pytest.raises(RuntimeError, match="a subscript of x in line 3 would read past it"):
            launcher.call("_fault", launcher.code)
        launcher.call("_fault", launcher.code)
        launcher.call("_unload", launcher.code)
