"""`kernel.reference`: the program itself, interpreted on NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from loopfuse.base.diagnostics import UserError
from loopfuse.runtime.arrays import arrays
from loopfuse.runtime.binding import Binding
from loopfuse.runtime.checks import at_source, describe_offender

if TYPE_CHECKING:
    from loopfuse.kernels.kernel import Kernel
    from loopfuse.lang import nodes


def interpret(
    kernel: Kernel,
    binding: Binding,
    rewritten: Callable[[nodes.Kernel], nodes.Kernel] | None = None,
    math: Mapping[str, Callable[..., Any]] | None = None,
) -> None:
    """Run the kernel's program on the bound (NumPy) arrays with the interpreter, in place. `rewritten`: what is run
    instead of the program; `math`: functions besides our own."""
    from loopfuse.lang.interp import Offence
    from loopfuse.lang.interp import interpret as run

    constants = {name: int(binding.values[name]) for name in kernel.constants}
    program = kernel.program(constants or None).kernel(kernel.name)
    if rewritten is not None:
        program = rewritten(program)
    found: dict[str, Any] = {name: np.asarray(v.owner) for name, v in binding.views.items()}
    sizes = {name: int(binding.values[name]) for name in kernel.signature.sizes}
    scalars = {name: value for name, value in binding.values.items() if name not in sizes}
    offences: list[Offence] = []
    results: Mapping[str, Any] = run(
        program, found | scalars, sizes, math={**math_functions(), **(math or {})}, offences=offences
    )
    for name, result in results.items():
        found[name][...] = result
    if offences:
        first = offences[0]
        check = {
            "array": first.array,
            "dimension": first.dimension,
            "extent": found[first.array].shape[first.dimension] if first.array in found else 0,
            "writes": first.writes,
            "line": first.span.line,
            "column": first.span.column,
            "end_line": first.span.end_line,
            "end_column": first.span.end_column,
        }
        error = UserError(describe_offender(check, first.index, {}))
        raise at_source(error, kernel.source)


def math_functions() -> Mapping[str, Callable[..., Any]]:
    """Our math functions with the compiled code's bits, keyed as the interpreter asks for them:
    `exp_f32`."""
    from loopfuse import pipeline

    return {
        key if isinstance(key, str) else f"{key[0]}_{key[1].value}": function
        for key, function in pipeline.scalar_math().items()
    }


def approximate_reference_of(kernel: Kernel, seed: int | None = None) -> Callable[..., Any]:
    """As `reference_of`, of what `fp="native"` runs on a GPU: its approximations rounded correctly, or wrong by as much as
    they may be, up or down by the seed."""
    from loopfuse.lang import approximate, native, ops, semantics

    def hardware(instruction: approximate.Instruction, value: Any) -> Any:
        return approximate.disturbed(instruction, value, seed or 0)

    made = {name: approximate.model(name, semantics.fma_f32, hardware) for name in ops.APPROXIMATE}
    return reference_of(kernel, native.approximated, {} if seed is None else made)


def reference_of(
    kernel: Kernel,
    rewritten: Callable[[nodes.Kernel], nodes.Kernel] | None = None,
    math: Mapping[str, Callable[..., Any]] | None = None,
) -> Callable[..., Any]:
    """A function that takes what `kernel` takes (NumPy arrays) and does what it means, slowly:
    writes the same arrays, returns the omitted `out` arrays. The rest is as of `interpret`."""

    def reference(*args: Any, **kwargs: Any) -> Any:
        binding = arrays.allocate_outputs(arrays.match(kernel.signature, args, kwargs, packs=False))
        interpret(kernel, binding, rewritten, math)
        return binding.result

    reference.__name__ = reference.__qualname__ = kernel.name
    reference.__doc__ = f"`{kernel.name}` of {kernel.source.name}, interpreted."
    return reference
