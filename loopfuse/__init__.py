"""loopfuse: plain loops in, one fused and proven kernel out.

    import loopfuse, numpy as np
    unsharp = loopfuse.load("example:unsharp")
    sharp = unsharp(np.random.rand(480, 640).astype(np.float32), amount=1.5)
    print(unsharp.explain(H=480, W=640))

`load` and `loads` read programs in the .lf language (and MLIR); `@kernel` compiles a Python function
of loops over arrays. `f32` and its kin annotate the arguments of such functions; `prange`, `fuse`,
`nofuse`, `clamp`, `wrap`, `reflect`, `symmetric`, `erf` and `rsqrt` may stand in them. `python -m
loopfuse --help` is the command line, `loopfuse.testing` (import it by name) has assertions for your
own tests, and docs/architecture.md is a tour of the building.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopfuse.base.annotations import (
    SCALAR_TYPES,
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
from loopfuse.kernels.kernel import Kernel, Kernels, load, loads, synchronize
from loopfuse.kernels.python import PythonKernel, kernel


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("loopfuse")
    except PackageNotFoundError:  # a source tree on the path, never installed
        import re
        from pathlib import Path

        project = Path(__file__).resolve().parent.parent / "pyproject.toml"
        text = project.read_text("utf-8") if project.is_file() else ""
        found = re.search(r'^name = "loopfuse"\nversion = "([^"]+)"', text, re.MULTILINE)
        return found[1] if found else "0.0.0"


__version__ = _version()

if TYPE_CHECKING:
    from loopfuse.base.static_types import (
        Out,
        bf16,
        boolean,
        f16,
        f32,
        f64,
        i8,
        i16,
        i32,
        i64,
        u8,
        u16,
        u32,
        u64,
    )  # fmt: skip
else:
    from loopfuse.base.annotations import Out

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


def __dir__() -> list[str]:
    """The public names; modules are found by importing them."""
    return sorted(__all__)
