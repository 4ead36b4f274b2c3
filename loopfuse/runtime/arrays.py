"""Binding a call: which argument is which parameter, what the sizes are, and every check.

`bind` raises one `UserError` for the first thing that is wrong, before anything runs. Its steps,
each usable alone: `match` (arguments to parameters, sizes by unification, all checks that need no
compile), `check_preconditions` (what the compiler proved the program needs), `allocate_outputs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loopfuse.base.diagnostics import Diagnostic, LimitError, Source, Span, UserError
from loopfuse.base.dtypes import DType
from loopfuse.runtime.arguments import (
    Parameter,
    Signature,
    Value,
    check_scalar,
    named,
    read_array,
    read_signature,
    refuse,
    shape_text,
    spread,
)
from loopfuse.runtime.formulas import evaluate, names_in
from loopfuse.runtime.overlap import share_memory
from loopfuse.runtime.views import CPU_DEVICE, ArrayView, Device, allocate, view

# What 64-bit index arithmetic assumes of every size (codegen/mlir_emit.py).
SIZE_LIMIT = 1 << 48


@dataclass(frozen=True, slots=True)
class Match:
    """Arguments matched to a signature and checked. `views` lacks the `out` arrays in `omitted`;
    `values` are sizes and scalars by name; `library` is who allocates."""

    signature: Signature
    views: dict[str, ArrayView]
    values: dict[str, Value]
    omitted: tuple[Parameter, ...]
    device: Device
    library: str

    @property
    def strided(self) -> tuple[str, ...]:
        """The arrays with gaps or in another order than C's, in parameter order: code takes their
        strides as arguments (`base.options.Options.strided`)."""
        return tuple(
            one.name
            for one in self.signature.parameters
            if one.name in self.views and not self.views[one.name].contiguous
        )

    @property
    def strides(self) -> dict[str, int]:
        """The strides of those arrays, in elements, by the argument's name."""
        return {
            f"{name}__stride{axis}": step // self.views[name].item
            for name in self.strided
            for axis, step in enumerate(self.views[name].byte_strides)
        }


@dataclass(frozen=True, slots=True)
class Binding:
    """A call ready to run. `outputs` are the arrays allocated for it, in parameter order."""

    kernel: str
    views: dict[str, ArrayView]
    values: dict[str, Value]
    device: Device
    library: str
    outputs: tuple[Any, ...] = field(default=())

    @property
    def aligned(self) -> bool:
        """Every array argument starts on a 16-byte boundary."""
        return all(found.pointer % 16 == 0 for found in self.views.values())

    @property
    def result(self) -> Any:
        """What the call returns: nothing, the allocated output, or the tuple of them."""
        if not self.outputs:
            return None
        return self.outputs[0] if len(self.outputs) == 1 else self.outputs


# -------------------------------------------------------------------------------------- sizes


def _find_sizes(
    signature: Signature,
    views: Mapping[str, ArrayView],
    given: Mapping[str, int],
    scalars: Mapping[str, Value],
) -> dict[str, Value]:
    """Unification: a size that stands alone as an extent takes its value there, and every other
    extent is then checked against what the sizes say."""
    values: dict[str, Value] = dict(scalars)
    values.update(given)
    origin = {name: f"`{name}={value}` was given" for name, value in given.items()}
    for parameter in signature.parameters:
        if parameter.name not in views or parameter.extents is None:
            continue
        for extent, actual in zip(parameter.extents, views[parameter.name].shape):
            if extent in signature.sizes and extent not in values:
                values[extent] = actual
                origin[extent] = f"{extent} is {actual} by `{parameter.name}`"
    for name in signature.sizes:
        if name not in values:
            raise refuse(
                "missing-size",
                f"nothing says how large `{name}` is in this call of `{signature.kernel}`",
                f"pass it by name: `{name}=...`",
            )
    for parameter in signature.parameters:
        if parameter.name not in views or parameter.extents is None:
            continue
        shape = views[parameter.name].shape
        for axis, (extent, actual) in enumerate(zip(parameter.extents, shape)):
            wanted = evaluate(extent, values)
            if wanted != actual:
                why = [origin[n] for n in signature.sizes if n in origin and n in extent]
                is_plain = extent == str(wanted)
                raise refuse(
                    "size-mismatch",
                    f"{named(signature.kernel, parameter)}, so extent {axis} must be "
                    f"{extent if is_plain else f'{extent} = {wanted}'}, but it is {actual} in "
                    f"shape {shape_text(shape)}",
                    notes=why,
                )
    return values


# ------------------------------------------------------------------------------------- checks


def _check_devices(signature: Signature, views: Mapping[str, ArrayView]) -> Device:
    first: tuple[str, Device] | None = None
    for name, found in views.items():
        if first is None:
            first = (name, found.device)
        elif found.device != first[1]:
            raise refuse(
                "mixed-devices",
                f"`{signature.kernel}` got `{first[0]}` on {first[1]} and `{name}` on "
                f"{found.device}",
                "move all arrays to one device",
            )
    return first[1] if first else CPU_DEVICE


def _check_overlaps(signature: Signature, views: Mapping[str, ArrayView]) -> None:
    """No array that is written may share memory with another argument."""
    parameters = [p for p in signature.parameters if p.name in views]
    for position, one in enumerate(parameters):
        for other in parameters[position + 1 :]:
            if one.mode == "in" and other.mode == "in":
                continue
            if share_memory(views[one.name], views[other.name]):
                written = one if one.mode != "in" else other
                raise refuse(
                    "overlap",
                    f"`{signature.kernel}` writes `{written.name}`, but `{one.name}` and "
                    f"`{other.name}` share memory",
                    "pass a copy of one of them",
                )


def match(signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Match:
    """Match arguments to parameters, find the sizes and make every check that needs no compile."""
    given, sizes = spread(signature, args, kwargs)
    kernel = signature.kernel
    views: dict[str, ArrayView] = {}
    scalars: dict[str, Value] = {}
    omitted: list[Parameter] = []
    for parameter in signature.parameters:
        value = given.get(parameter.name)
        if not parameter.is_array:
            scalars[parameter.name] = check_scalar(kernel, parameter.name, parameter.dtype, value)
        elif value is None and parameter.mode == "out":
            omitted.append(parameter)
        else:
            views[parameter.name] = read_array(kernel, parameter, value)
    numbers_given: dict[str, int] = {}
    for name, value in sizes.items():
        number = check_scalar(kernel, name, DType.I64, value)
        if number < 0:
            raise refuse("size-mismatch", f"the size `{name}` of `{kernel}` is {number}, below 0")
        numbers_given[name] = int(number)
    device = _check_devices(signature, views)
    _check_overlaps(signature, views)
    values = _find_sizes(signature, views, numbers_given, scalars)
    for name in signature.sizes:
        # Only an extent of 0 beside it lets an array have one: no memory is that large.
        if values[name] >= SIZE_LIMIT:
            raise LimitError(
                Diagnostic(
                    "size-too-large",
                    f"the size `{name}` of `{kernel}` is {values[name]}, and index arithmetic "
                    "goes to 2**48 - 1",
                )
            )
    # Who allocates, and whose stream it is: the first library that we can ask.
    libraries = [found.library for found in views.values()]
    known = [name for name in libraries if name in ("numpy", "torch", "cupy")]
    library = next(iter(known or libraries), "numpy")
    for parameter in omitted:
        shape = tuple(evaluate(extent, values) for extent in parameter.extents or ())
        if min(shape, default=0) < 0:
            raise refuse(
                "size-mismatch",
                f"{named(kernel, parameter)}, which would have shape {shape_text(shape)}",
            )
    return Match(signature, views, values, tuple(omitted), device, library)


def check_preconditions(
    manifest: Mapping[str, Any], values: Mapping[str, Value], source: Source | None = None
) -> None:
    """Raise UserError[subscript-range] for the first precondition of the manifest that does not
    hold at `values`; points into `source` when that is at hand."""
    for condition in manifest["preconditions"]:
        text = condition["text"]
        if evaluate(text, values):
            continue
        read = names_in(text)
        names = [name for name in values if name in read]
        line, column = condition.get("line", 0), condition.get("column", 0)
        at = " ".join(f"{name}={values[name]}" for name in names)
        raise UserError(
            Diagnostic(
                condition.get("code", "subscript-range"),
                condition["message"],
                span=Span(line, column, line, condition.get("end_column", column + 1)),
                notes=(
                    f"`{manifest['kernel']}` needs `{text}`"
                    + (f", and was called with {at}" if at else ""),
                ),
                source=source,
            )
        )


def allocate_outputs(matched: Match) -> Binding:
    """Allocate the omitted `out` arrays (zeros, in the library and on the device of the others)."""
    views = dict(matched.views)
    outputs: list[Any] = []
    for parameter in matched.omitted:
        shape = tuple(
            int(evaluate(extent, matched.values)) for extent in parameter.extents or ()
        )
        try:
            made = allocate(matched.library, matched.device, shape, parameter.dtype)
        except (MemoryError, ValueError) as error:
            raise refuse(
                "out-of-memory",
                f"cannot allocate `{parameter.name}` of `{matched.signature.kernel}`: "
                f"{parameter.dtype.value}{shape_text(shape)}",
            ) from error
        found = view(made) if made is not None else None
        if found is None:
            raise refuse(
                "cannot-allocate",
                f"`{matched.signature.kernel}` cannot make `{parameter.name}` for arrays of this "
                "library",
                f"pass `{parameter.name}`, or use NumPy, CuPy or PyTorch arrays",
            )
        views[parameter.name] = found
        outputs.append(made)
    return Binding(
        matched.signature.kernel,
        views,
        {**matched.values, **matched.strides},
        matched.device,
        matched.library,
        tuple(outputs),
    )


def bind(
    manifest: Mapping[str, Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    source: Source | None = None,
) -> Binding:
    """Everything a call of code that was compiled ahead needs, checked: see the module's
    docstring. Such code takes arrays without gaps."""
    matched = match(read_signature(manifest), args, kwargs)
    for name in matched.strided:
        raise refuse(
            "not-contiguous",
            f"`{matched.signature.kernel}` was compiled for arrays without gaps in C order, but "
            f"`{name}` of shape {shape_text(matched.views[name].shape)} is strided",
            "pass a packed copy, or call the kernel itself",
        )
    check_preconditions(manifest, matched.values, source)
    return allocate_outputs(matched)
