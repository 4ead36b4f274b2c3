"""loopfuse: plain loops in, one fused and proven kernel out.

    import loopfuse, numpy as np
    unsharp = loopfuse.load("examples/unsharp.lf")
    sharp = unsharp(np.random.rand(480, 640).astype(np.float32), amount=1.5)
    print(unsharp.explain(H=480, W=640))

A tour of the building, in the order data flows: `pipeline` lists the stages; `frontend` reads
text; `lang` is the typed program, its checker and its slow interpreter; `poly` holds exact
dependences; `plan` decides what is fused, and checks it; `codegen` emits MLIR, LLVM IR, PTX and
objects; `runtime` binds arrays and launches; `sources` reads files, `kernels` is what this module
exports, `pykernel` its decorator for Python functions; `cli` parses the command line, whose bodies are in `commands`; `explain` renders reports;
`watch` holds the debugging switches; `testing` (import it by name) has assertions for your own tests.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from loopfuse.base.annotations import (
    SCALAR_TYPES,
    Out,
    clamp,
    erf,
    fuse,
    nofuse,
    prange,
    reflect,
    rsqrt,
    symmetric,
    wrap,
)
from loopfuse.base.diagnostics import InternalError, LimitError, LoopfuseError, UserError
from loopfuse.kernels import Kernel, Kernels, load, loads, synchronize
from loopfuse.pykernel import PythonKernel, kernel

try:
    __version__ = version("loopfuse")
except PackageNotFoundError:  # a source tree on the path, never installed
    __version__ = "0.0.0"

i8, i16, i32, i64 = (SCALAR_TYPES[name] for name in ("i8", "i16", "i32", "i64"))
u8, u16, u32, u64 = (SCALAR_TYPES[name] for name in ("u8", "u16", "u32", "u64"))
f16, bf16, f32, f64 = (SCALAR_TYPES[name] for name in ("f16", "bf16", "f32", "f64"))
boolean = SCALAR_TYPES["bool"]

__all__ = [
    "InternalError",
    "Kernel",
    "Kernels",
    "LimitError",
    "LoopfuseError",
    "Out",
    "PythonKernel",
    "UserError",
    "__version__",
    "bf16",
    "boolean",
    "clamp",
    "erf",
    "f16",
    "f32",
    "f64",
    "fuse",
    "i8",
    "i16",
    "i32",
    "i64",
    "kernel",
    "load",
    "loads",
    "nofuse",
    "prange",
    "reflect",
    "rsqrt",
    "symmetric",
    "synchronize",
    "u8",
    "u16",
    "u32",
    "u64",
    "wrap",
]
