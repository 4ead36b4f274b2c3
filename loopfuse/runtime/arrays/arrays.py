"""Binding a call: which argument is which parameter, what the sizes are, and every check.

`bind` raises one `UserError` for the first thing that is wrong, before anything runs. Its steps,
each usable alone: `match` (arguments to parameters, sizes by unification, all checks that need no
compile), `check_preconditions` (what the compiler proved the program needs), `allocate_outputs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loopfuse.base.diagnostics import Diagnostic, LimitError, Source, Span, UserError
from loopfuse.base.dtypes import DType
from loopfuse.runtime.arrays.arguments import (
    Parameter,
    Signature,
    check_scalar,
    named,
    negative_size,
    read_array,
    read_signature,
    refuse,
    shape_text,
    spread,
)
from loopfuse.runtime.arrays.overlap import share_memory
from loopfuse.runtime.arrays.packing import Packed, is_misplaced, pack
from loopfuse.runtime.arrays.views import allocate, view
from loopfuse.runtime.binding import CPU_DEVICE, ArrayView, Binding, Device, Value
from loopfuse.runtime.formulas import evaluate, names_in
from loopfuse.runtime.unwritten import boxes_at, descriptions

# Dimensions without gaps that code makes use of: further strides would be products of sizes.
MOST_ROWS = 2

# What 64-bit index arithmetic assumes of every size (codegen/mlir/emit.py).
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
    packed: tuple[Packed, ...] = ()
    """Arrays that the views are copies of; `packing.write_back` ends the call."""

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
    def rows(self) -> tuple[tuple[str, int], ...]:
        """Of those arrays, on the CPU, the ones whose last dimension (or last two) lie without gaps, and
        how many: code for them is as fast as for arrays without any (`base.options.Options.rows`)."""
        if self.device != CPU_DEVICE:
            return ()
        counted = ((name, self.views[name].packed_dimensions) for name in self.strided)
        return tuple((name, min(count, MOST_ROWS)) for name, count in counted if count)

    @property
    def strides(self) -> dict[str, int]:
        """The strides of those arrays, in elements, by the argument's name."""
        return {
            f"{name}__stride{axis}": step // self.views[name].item
            for name in self.strided
            for axis, step in enumerate(self.views[name].byte_strides)
        }


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
        for axis, (extent, actual) in enumerate(zip(parameter.extents, views[parameter.name].shape)):
            if extent in signature.sizes and extent not in values:
                values[extent] = actual
                origin[extent] = f"{extent} is {actual} by extent {axis} of `{parameter.name}`"
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
                    _apart(signature, parameter, axis)
                    or _of_shape([evaluate(each, values) for each in parameter.extents]),
                    notes=why,
                )
    return values


def _of_shape(wanted: Sequence[Value]) -> str:
    return f"pass an array of shape `({', '.join(map(str, wanted))}{',' * (len(wanted) == 1)})`"


def _apart(signature: Signature, parameter: Parameter, axis: int) -> str:
    """How to declare an array that need not be square; empty where `axis` has a size that the array
    itself does not give."""
    extents = list(parameter.extents or ())
    if extents[axis] not in extents[:axis]:
        return ""
    if signature.door == "python" and extents[axis].startswith(f"{parameter.name}_"):
        # Named by us: no annotation names it, an assertion makes it one with another.
        return f"pass a square array, or remove the `assert` that makes extents of `{parameter.name}` equal"
    taken = {*signature.sizes, *(one.name for one in signature.parameters)}
    letters = (name for name in ("M", "K", "L", "P", "Q", "R") if name not in taken)
    extents[axis] = next(letters, f"{extents[axis]}{axis}")
    quoted = ", ".join(f'"{extent}"' for extent in extents)
    match signature.door:
        case "python":
            numbers = ", ".join(e if e.isdecimal() else f'"{e}"' for e in extents)
            declared = f"loopfuse.{parameter.dtype.value}[{numbers}]"
            declared = f"loopfuse.Out[{declared}]" if parameter.mode == "out" else declared
            declared = f"{parameter.name}: {declared}"
        case "mlir":
            declared = f"loopfuse.extents = [{quoted}]"
        case _:
            declared = f"{parameter.name}: {parameter.dtype.value}[{', '.join(extents)}]"
    return f"pass a square array, or declare the extents apart: `{declared}`"


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


def match(
    signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any], packs: bool = True
) -> Match:
    """Match arguments to parameters, find the sizes and make every check that needs no compile.
    `packs`: arrays whose elements do not lie at multiples of their size are copied, not refused."""
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
            views[parameter.name] = read_array(kernel, parameter, value, packs)
    numbers_given: dict[str, int] = {}
    for name, value in sizes.items():
        number = check_scalar(kernel, name, DType.I64, value)
        if number < 0:
            raise negative_size(kernel, name, int(number))
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
                    fix="pass arrays whose sizes are the ones meant",
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
    packed = _pack(signature, views) if packs else ()
    return Match(signature, views, values, tuple(omitted), device, library, packed)


def _pack(signature: Signature, views: dict[str, ArrayView]) -> tuple[Packed, ...]:
    """Copies for the arrays that code cannot take as they lie, in place of their views."""
    found: list[Packed] = []
    for parameter in signature.parameters:
        given = views.get(parameter.name)
        if given is None or not is_misplaced(given):
            continue
        try:
            one, views[parameter.name] = pack(parameter.name, given, parameter.mode != "in")
        except MemoryError:
            raise refuse(
                "out-of-memory",
                f"a copy of `{parameter.name}` of `{signature.kernel}`, whose elements do not lie at "
                "multiples of their size, does not fit in memory",
            ) from None
        found.append(one)
    return tuple(found)


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


def allocate_outputs(matched: Match, manifest: Mapping[str, Any] | None = None) -> Binding:
    """Allocate the omitted `out` arrays, in the library and on the device of the others. Zeros stand
    in what the kernel of this `manifest` does not surely write; without one, everywhere."""
    unwritten = descriptions(manifest)
    views = dict(matched.views)
    outputs: list[Any] = []
    for parameter in matched.omitted:
        shape = tuple(
            int(evaluate(extent, matched.values)) for extent in parameter.extents or ()
        )
        try:
            boxes = boxes_at(unwritten.get(parameter.name), matched.values, shape)
            made = allocate(matched.library, matched.device, shape, parameter.dtype, boxes)
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
    matched = match(read_signature(manifest), args, kwargs, packs=False)
    for name in matched.strided:
        raise refuse(
            "not-contiguous",
            f"`{matched.signature.kernel}` was compiled for arrays without gaps in C order, but "
            f"`{name}` of shape {shape_text(matched.views[name].shape)} is strided",
            "pass a packed copy, or call the kernel itself",
        )
    check_preconditions(manifest, matched.values, source)
    return allocate_outputs(matched, manifest)
