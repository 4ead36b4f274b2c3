"""What a caller must pass, from the checked program: the manifest's first part.

Needs no planning, so that arguments can be checked and a target chosen before a compile.
"""

from __future__ import annotations

from typing import Any

from loopfuse.codegen.abi import to_python
from loopfuse.lang import nodes


def describe_kernel(kernel: nodes.Kernel) -> dict[str, Any]:
    """`kernel`, `parameters` and `sizes` as the manifest states them, and the kernel's `line`;
    `const` marks scalars that specialise."""
    parameters: list[dict[str, Any]] = []
    for parameter in kernel.params:
        match parameter:
            case nodes.ArrayParam(name=name, dtype=dtype, extents=extents, mode=mode):
                parameters.append(
                    {
                        "name": name,
                        "kind": "array",
                        "dtype": dtype.value,
                        "mode": mode,
                        "extents": [to_python(extent) for extent in extents],
                    }
                )
            case nodes.ScalarParam(name=name, dtype=dtype, is_const=is_const):
                one: dict[str, Any] = {"name": name, "kind": "scalar", "dtype": dtype.value}
                if is_const:
                    one["const"] = True
                parameters.append(one)
    return {
        "kernel": kernel.name,
        "line": kernel.span.line,
        "parameters": parameters,
        "sizes": list(kernel.sizes),
    }
