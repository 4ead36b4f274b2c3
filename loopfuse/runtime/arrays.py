"""Binding a call: which argument is which parameter, what the sizes are, and every check.

`bind` raises one `UserError` for the first thing that is wrong, before anything runs. Its steps,
each usable alone: `match` (arguments to parameters, sizes by unification, all checks that need no
compile), `check_preconditions` (what the compiler proved the program needs), `allocate_outputs`.
"""

from __future__ import annotations

import ctypes
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loopfuse.base.diagnostics import Diagnostic, Source, Span, UserError
from loopfuse.base.dtypes import DType
from loopfuse.runtime.formulas import evaluate, names_in
from loopfuse.runtime.views import (
    CPU_DEVICE,
    ArrayView,
    Device,
    allocate,
    numpy_dtype,
    view,
)

Value = bool | int | float


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter as the manifest states it; `extents` are formulas (None: a scalar)."""

    name: str
    dtype: DType
    mode: str = "in"
    extents: tuple[str, ...] | None = None

    @property
    def is_array(self) -> bool:
        """True for an array parameter."""
        return self.extents is not None

    def __str__(self) -> str:
        if self.extents is None:
            return self.dtype.value
        return f"{self.dtype.value}[{', '.join(self.extents)}]"


@dataclass(frozen=True, slots=True)
class Signature:
    """What a call must look like: kernel name, parameters in order, sizes."""

    kernel: str
    parameters: tuple[Parameter, ...]
    sizes: tuple[str, ...]


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


def read_signature(manifest: Mapping[str, Any]) -> Signature:
    """The signature that a manifest (or its `kernel`, `parameters`, `sizes` part) states."""
    parameters = tuple(
        Parameter(
            one["name"],
            DType(one["dtype"]),
            one.get("mode", "in"),
            tuple(str(extent) for extent in one["extents"]) if one["kind"] == "array" else None,
        )
        for one in manifest["parameters"]
    )
    return Signature(manifest["kernel"], parameters, tuple(manifest["sizes"]))


# ------------------------------------------------------------------------------------- errors


def _refuse(code: str, message: str, fix: str = "", notes: Sequence[str] = ()) -> UserError:
    return UserError(Diagnostic(code, message, notes=tuple(notes), fix=fix))


def _named(kernel: str, parameter: Parameter) -> str:
    return f"`{kernel}` expects `{parameter.name}` as {parameter}"


def _shape_text(shape: Sequence[int]) -> str:
    return "[" + ", ".join(str(extent) for extent in shape) + "]"


# ---------------------------------------------------------------------------------- arguments


def _looks_right(parameter: Parameter, value: Any) -> bool:
    """The value is of the parameter's sort: an array for an array, no array for a scalar."""
    if value is None:
        return parameter.mode == "out"
    is_scalar = isinstance(value, (numbers.Number, np.generic)) or getattr(value, "shape", 0) == ()
    return not is_scalar if parameter.is_array and parameter.extents else is_scalar


def _spread(
    signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Which argument is which parameter, and the sizes given by name. `out` arrays may be left
    out at the end, or all of them wherever they stand: then the rest are taken in order."""
    kernel = signature.kernel
    known = {parameter.name for parameter in signature.parameters}
    for name in kwargs:
        if name not in known and name not in signature.sizes:
            names = ", ".join([p.name for p in signature.parameters] + list(signature.sizes))
            raise _refuse(
                "unknown-argument",
                f"`{kernel}` has no parameter or size `{name}`",
                f"its parameters and sizes are {names}",
            )
    open_ = [p for p in signature.parameters if p.name not in kwargs]
    inner = [p for p in open_ if p.mode != "out"]
    if len(args) > len(open_):
        doubled = [p.name for p in signature.parameters[: len(args)] if p.name in kwargs]
        if doubled and len(args) <= len(signature.parameters):
            raise _refuse(
                "doubled-argument",
                f"`{kernel}` got `{doubled[0]}` both by position and by name",
                "give it once",
            )
        raise _refuse(
            "too-many-arguments",
            f"`{kernel}` takes {len(signature.parameters)} arguments, but got "
            f"{len(args) + len(kwargs)}",
            "its parameters are " + ", ".join(p.name for p in signature.parameters),
        )

    def missing(order: list[Parameter]) -> list[Parameter]:
        return [p for p in inner if p not in order[: len(args)]]

    def fits(order: list[Parameter]) -> bool:
        pairs = zip(order, args)
        return not missing(order) and all(_looks_right(p, value) for p, value in pairs)

    order = open_
    if len(args) == len(inner) < len(open_) and not fits(open_) and (fits(inner) or missing(open_)):
        order = inner
    absent = missing(order)
    if absent:
        raise _refuse(
            "missing-argument",
            f"`{kernel}` needs `{absent[0].name}: {absent[0]}`, which was not given",
            f"pass it in order or as `{absent[0].name}=...`",
        )
    given = {parameter.name: value for parameter, value in zip(order, args)}
    given.update({name: value for name, value in kwargs.items() if name in known})
    sizes = {name: value for name, value in kwargs.items() if name not in known}
    return given, sizes


def _array(kernel: str, parameter: Parameter, value: Any) -> ArrayView:
    """`value` as the array that `parameter` asks for, all checks but the extents made."""
    named = _named(kernel, parameter)
    found = view(value)
    if found is None:
        raise _refuse(
            "not-an-array",
            f"{named}, but got {_kind_of(value)}",
            "pass a NumPy, CuPy or PyTorch array (`np.asarray(...)`)",
        )
    assert parameter.extents is not None
    if found.dtype is not parameter.dtype:
        raise _refuse(
            "wrong-dtype",
            f"{named}, but got {found.dtype.value if found.dtype else found.dtype_name}"
            f"{_shape_text(found.shape)}",
            _cast_hint(parameter, found),
        )
    if len(found.shape) != len(parameter.extents):
        raise _refuse(
            "wrong-rank",
            f"{named}, of rank {len(parameter.extents)}, but got rank {len(found.shape)}: "
            f"shape {_shape_text(found.shape)}",
        )
    if not found.contiguous:
        call = ".contiguous()" if found.library == "torch" else "np.ascontiguousarray"
        fix = f"`{parameter.name}{call}`" if call[0] == "." else f"`{call}({parameter.name})`"
        if found.library == "cupy":
            fix = f"`cupy.ascontiguousarray({parameter.name})`"
        raise _refuse(
            "not-contiguous",
            f"{named} without gaps in C order, but the array of shape "
            f"{_shape_text(found.shape)} given is strided",
            f"pass {fix}, a packed copy",
        )
    if parameter.mode != "in" and found.read_only:
        raise _refuse(
            "read-only",
            f"`{kernel}` writes `{parameter.name}`, but the array given is read-only",
            f"pass a writable array, such as `{parameter.name}.copy()`",
        )
    return found


def _cast_hint(parameter: Parameter, found: ArrayView) -> str:
    if found.library == "torch":
        return f"convert it with `.to(torch.{parameter.dtype.numpy_name})`"
    if parameter.dtype is DType.BF16:
        return "convert it with `.astype(ml_dtypes.bfloat16)`"
    return f"convert it with `.astype(np.{_numpy_word(parameter.dtype)})`"


def _numpy_word(dtype: DType) -> str:
    return "bool_" if dtype is DType.BOOL else dtype.numpy_name


def _kind_of(value: Any) -> str:
    shown = repr(value)
    if len(shown) <= 40 and "\n" not in shown:
        return f"{shown} ({type(value).__name__})"
    return f"a {type(value).__name__}"


def check_scalar(kernel: str, name: str, dtype: DType, value: Any) -> Value:
    """`value` as a Python number that `dtype` can hold; floats round to it.

    Takes Python and NumPy numbers and 0-d NumPy arrays. UserError[scalar-type] for the wrong
    sort, [scalar-range] for an integer that does not fit.
    """
    expects = f"`{kernel}` expects `{name}` as {dtype.value}"
    plain: Any = value.item() if isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0 else value
    if dtype is DType.BOOL:
        good = isinstance(plain, bool)
    elif dtype.is_float:
        good = isinstance(plain, (int, float)) and not isinstance(plain, bool)
        # ml_dtypes scalars have no `numbers` registration but convert exactly.
        if not good and isinstance(value, np.generic) and value.dtype.name == "bfloat16":
            plain, good = float(value), True
    else:
        good = isinstance(plain, int) and not isinstance(plain, bool)
    if not good:
        hint = ""
        if hasattr(value, "item") and getattr(value, "shape", None) == ():
            hint = f"pass `{name}.item()`"
        elif dtype.is_integer and isinstance(plain, float):
            hint = f"pass `int({name})`"
        raise _refuse("scalar-type", f"{expects}, but got {_kind_of(value)}", hint)
    if dtype.is_integer:
        low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
        high = (1 << (dtype.bits - 1 if dtype.is_signed else dtype.bits)) - 1
        if not low <= plain <= high:
            raise _refuse(
                "scalar-range", f"{expects}, from {low} to {high}, but got {plain}"
            )
        return plain
    if dtype is DType.BOOL:
        return plain
    return _round_to(dtype, plain, expects)


def _round_to(dtype: DType, value: int | float, expects: str) -> float:
    """`value` rounded to the float type (overflow gives infinity, as in NumPy)."""
    try:
        exact = float(value)
    except OverflowError:
        raise _refuse("scalar-range", f"{expects}, but got an integer past its range") from None
    if dtype is DType.F64:
        return exact
    if dtype is DType.F32:
        return ctypes.c_float(exact).value
    with np.errstate(over="ignore"):
        return float(np.asarray(exact).astype(numpy_dtype(dtype)))


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
            raise _refuse(
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
                raise _refuse(
                    "size-mismatch",
                    f"{_named(signature.kernel, parameter)}, so extent {axis} must be "
                    f"{extent if is_plain else f'{extent} = {wanted}'}, but it is {actual} in "
                    f"shape {_shape_text(shape)}",
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
            raise _refuse(
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
            a, b = views[one.name], views[other.name]
            if (
                a.pointer < b.pointer + b.size_bytes
                and b.pointer < a.pointer + a.size_bytes
                and a.size_bytes
                and b.size_bytes
            ):
                written = one if one.mode != "in" else other
                raise _refuse(
                    "overlap",
                    f"`{signature.kernel}` writes `{written.name}`, but `{one.name}` and "
                    f"`{other.name}` share memory",
                    "pass a copy of one of them",
                )


def match(signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Match:
    """Match arguments to parameters, find the sizes and make every check that needs no compile."""
    given, sizes = _spread(signature, args, kwargs)
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
            views[parameter.name] = _array(kernel, parameter, value)
    numbers_given: dict[str, int] = {}
    for name, value in sizes.items():
        number = check_scalar(kernel, name, DType.I64, value)
        if number < 0:
            raise _refuse("size-mismatch", f"the size `{name}` of `{kernel}` is {number}, below 0")
        numbers_given[name] = int(number)
    device = _check_devices(signature, views)
    _check_overlaps(signature, views)
    values = _find_sizes(signature, views, numbers_given, scalars)
    library = next((v.library for v in views.values()), "numpy")
    for parameter in omitted:
        shape = tuple(evaluate(extent, values) for extent in parameter.extents or ())
        if min(shape, default=0) < 0:
            raise _refuse(
                "size-mismatch",
                f"{_named(kernel, parameter)}, which would have shape {_shape_text(shape)}",
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
            raise _refuse(
                "out-of-memory",
                f"cannot allocate `{parameter.name}` of `{matched.signature.kernel}`: "
                f"{parameter.dtype.value}{_shape_text(shape)}",
            ) from error
        found = view(made) if made is not None else None
        if found is None:
            raise _refuse(
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
        matched.values,
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
    """Everything a call needs, checked: see the module's docstring."""
    matched = match(read_signature(manifest), args, kwargs)
    check_preconditions(manifest, matched.values, source)
    return allocate_outputs(matched)
