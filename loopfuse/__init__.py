"""loopfuse: plain loops in, one fused and proven kernel out.

    import loopfuse, numpy as np
    unsharp = loopfuse.load("examples/unsharp.lf")
    sharp = unsharp(np.random.rand(480, 640).astype(np.float32), amount=1.5)
    print(unsharp.explain(H=480, W=640))

A tour of the building, in the order data flows: `pipeline` lists the stages; `frontend` reads
text; `lang` is the typed program, its checker and its slow interpreter; `poly` holds exact
dependences; `plan` decides what is fused, and checks it; `codegen` emits MLIR, LLVM IR, PTX and
objects; `runtime` binds arrays and launches; `sources` reads files, `kernels` is what this module
exports; `cli` parses the command line, whose bodies are in `commands`; `explain` renders reports;
`watch` holds the debugging switches.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from loopfuse.base.diagnostics import InternalError, LimitError, LoopfuseError, UserError
from loopfuse.kernels import Kernel, Kernels, load, loads, synchronize

try:
    __version__ = version("loopfuse")
except PackageNotFoundError:  # a source tree on the path, never installed
    __version__ = "0.0.0"

__all__ = [
    "InternalError",
    "Kernel",
    "Kernels",
    "LimitError",
    "LoopfuseError",
    "UserError",
    "__version__",
    "load",
    "loads",
    "synchronize",
]
