"""The product of a compile: code, and a manifest that says how to run it.

The manifest is plain JSON (dicts, lists, strings, numbers), so that a cache hit needs nothing
but `json` to launch. Expressions in it are Python expressions over the sizes, the integer
parameters and enclosing host loop variables, with `//`, `%`, `min` and `max` only.

    {"schema": 1, "kernel": str, "target": str, "index_bits": 32|64,
     "parameters": [{"name", "kind": "array", "dtype", "mode", "extents": [expr], "unwritten": [box]}
                    | {"name", "kind": "scalar", "dtype"}],
     "sizes": [str],
     "preconditions": [{"text": expr, "message": str, "line": int, "column": int}],
     "buffers": [{"name", "dtype", "extents": [expr], "zeroed": bool}],      # workspaces
     "checks": [check], "check": "lazy" | "sync" | "off",
     "steps": [step]}
    box = {"when": expr, "bounds": [[expr, expr]], "untouched": bool}
    step = {"loop": {"var", "lower", "upper", "step", "body": [step]}}
         | {"launch": {"name": entry point, "arguments": [argument],
                       "grid": expr (blocks, or CPU iterations), "threads": int, "shared_bytes": int,
                       "cluster": int, "price": expr (CPU: picoseconds of an iteration, about)}}
    argument = {"kind": "pointer", "name": parameter or workspace}
             | {"kind": "value", "name": size, scalar parameter or loop variable, "dtype"}
             | {"kind": "aligned", "dtype": "bool"}
             | {"kind": "error"}
    check = {"array", "dimension", "extent": expr, "writes": bool,
             "line", "column", "end_line", "end_column"}

`unwritten`, at `out` arrays: boxes that hold every element which the kernel does not surely write
before it reads it (`bounds[d][0] <= subscript d < bounds[d][1]`, where `when` is true). Whoever makes
such an array clears them, and need not touch the rest; where the key is missing, all of it. Where
a box is `untouched`, no launch reads or writes an element of it, so that it may be cleared while they
run; otherwise (and where that key is missing) before the first of them.

GPU entry points take the arguments in order (a bool or narrow integer as its own width). A grid
of 0 is not launched. CPU entry points take `(arguments..., i64 begin, i64 end)` and run the
iterations begin..end of the linearised THREAD loops.

An `error` argument points to an 8-byte word, 0 before the call, in memory that the device can
write. Subscripts that depend on data are checked: one outside its array reads 0 or writes nothing,
and if the word is 0, sets it to `index * 65536 + number`, where `checks[number - 1]` says whose
subscript it is (index saturated to 48 bits). `check` says when the runtime is to look at it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from loopfuse.base.printable import printable


@dataclass(frozen=True, slots=True, repr=False)
class Artifact:
    """What `kernel.compile` gives. Only what was asked for is filled in; text is ASCII.

    `mlir` is the module that was compiled, `affine_mlir` the program as written and `fused_mlir`
    after fusion; `llvm` LLVM IR as text; `ptx` PTX text; `object` the native object file;
    `cubin` machine code for one GPU; `registers` per entry point, from ptxas (GPU only); `warnings` what
    was warned of, which is told again where the artifact comes from the disk cache.
    """

    kernel: str
    target: str
    manifest: dict[str, Any]
    report: dict[str, Any]
    mlir: str = ""
    affine_mlir: str = ""
    fused_mlir: str = ""
    llvm: str = ""
    ptx: str = ""
    object: bytes = b""
    cubin: bytes = b""
    cubin_maker: str = ""
    registers: dict[str, int] = field(default_factory=dict[str, int])
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        parts = ("mlir", "affine_mlir", "fused_mlir", "llvm", "ptx", "object", "cubin")
        made = [f"{name} ({len(data)} bytes)" for name in parts if (data := getattr(self, name))]
        launches = self.report.get("launches", {})
        counts = f", launches {launches['before']} -> {launches['after']}" if launches else ""
        return printable(
            f"<loopfuse artifact of {self.kernel} for {self.target}{counts}: {', '.join(made)}>"
        )
