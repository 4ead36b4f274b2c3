"""Kernels tried out: which of the sizes given are a kernel's own, arguments at random, and one run of it.

What `verify`, `bench`, `run` and `loopfuse.testing` do with a kernel before they look at what came out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from loopfuse.base.dtypes import DType
from loopfuse.kernels.index_data import fit_indices
from loopfuse.runtime.arrays.arguments import check_scalar, negative_size, refuse
from loopfuse.runtime.arrays.arrays import allocate_outputs, match
from loopfuse.runtime.arrays.samples import random_array
from loopfuse.runtime.binding import Value
from loopfuse.runtime.formulas import evaluate

if TYPE_CHECKING:
    from loopfuse.kernels.kernel import Kernel

# -------------------------------------------------------------------------------------- sizes


def known_sizes(kernel: Kernel, sizes: Mapping[str, int], strict: bool = True) -> dict[str, int]:
    """Those of `sizes` that `kernel` has; with `strict` an unknown one is a UserError.

    UserError[size-mismatch] for a size below 0, [scalar-range] for a number that its type has not.
    """
    integers = {
        p.name: p.dtype for p in kernel.signature.parameters if not p.is_array and p.dtype.is_integer
    }
    known = [*kernel.signature.sizes, *integers]
    unknown = [name for name in sizes if name not in known]
    if unknown and strict:
        raise refuse(
            "unknown-argument",
            f"`{kernel.name}` has no size or integer parameter `{unknown[0]}`",
            f"it has {', '.join(known)}" if known else "it has none: leave it out",
        )
    found = {name: value for name, value in sizes.items() if name in known}
    for name, value in found.items():
        if value < 0 and name not in integers:
            raise negative_size(kernel.name, name, value)
        check_scalar(kernel.name, name, integers.get(name, DType.I64), value)
    return found


def sizes_for(kernels: Sequence[Kernel], sizes: Mapping[str, int]) -> list[dict[str, int]]:
    """Each kernel's own of the sizes given; a size that no kernel has is refused."""
    chosen = [known_sizes(kernel, sizes, strict=len(kernels) == 1) for kernel in kernels]
    for name, value in sizes.items():
        if not any(name in one for one in chosen):
            known_sizes(kernels[0], {name: value})
    return chosen


def constants_of(kernel: Kernel, sizes: Mapping[str, int]) -> dict[str, int]:
    """The `const` parameters that have a value among `sizes`: without one, some programs are none."""
    return {name: sizes[name] for name in kernel.constants if name in sizes}


# ---------------------------------------------------------------------------------- arguments


def random_arguments(kernel: Kernel, sizes: Mapping[str, int], seed: int) -> dict[str, Any]:
    """Random arrays for these sizes (`out` arrays too, so that untouched elements show), and for
    scalars `sizes`' value where it has one, else a small number that depends on the seed. Arrays
    that are subscripts point inside what they subscript."""
    generator = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for parameter in kernel.signature.parameters:
        if parameter.extents is not None:
            shape = tuple(int(evaluate(extent, sizes)) for extent in parameter.extents)
            found[parameter.name] = random_array(shape, parameter.dtype, parameter.name, seed)
        elif parameter.name in sizes:
            found[parameter.name] = sizes[parameter.name]
        elif parameter.dtype.is_float:
            found[parameter.name] = float(np.float32(generator.random() + 0.5))
        elif parameter.dtype.is_integer:
            found[parameter.name] = int(generator.integers(1, 5))
        else:
            found[parameter.name] = bool(generator.integers(0, 2))
    constants = {name: int(found[name]) for name in kernel.constants}
    program = kernel.program(constants or None).kernel(kernel.name)
    integers = {n: v for n, v in found.items() if isinstance(v, int)}
    fit_indices(program, found, {**integers, **sizes}, seed)
    taken = {extent for p in kernel.signature.parameters for extent in p.extents or ()}
    found.update({n: sizes[n] for n in kernel.signature.sizes if n not in taken})
    return found


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run: every array by name (as NumPy, after the run), sizes and scalars, and
    which arrays were allocated for it."""

    arrays: dict[str, Any]
    values: dict[str, Value]
    allocated: tuple[str, ...]


def run_kernel(kernel: Kernel, arguments: Mapping[str, Any], on_gpu: bool) -> Run:
    """Run on NumPy arguments, on the GPU through arrays of our own."""
    matched = match(kernel.signature, (), arguments)
    # Allocated here and not by the call, so that the command can name and save them.
    binding = allocate_outputs(matched)
    allocated = tuple(parameter.name for parameter in matched.omitted)
    arrays = {p.name: arguments.get(p.name) for p in kernel.signature.parameters if p.is_array}
    arrays.update(zip(allocated, binding.outputs))
    call = dict(arguments) | arrays
    if not on_gpu:
        kernel(**call)
        return Run(arrays, matched.values, allocated)
    from loopfuse.runtime.devices.gpu_arrays import DeviceArray

    device = {name: DeviceArray(np.ascontiguousarray(array)) for name, array in arrays.items()}
    kernel(**(call | device))
    written = {p.name for p in kernel.signature.parameters if p.mode != "in"}
    results = {
        name: device[name].download() if name in written else array
        for name, array in arrays.items()
    }
    return Run(results, matched.values, allocated)
